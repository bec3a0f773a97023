"""Judges a chaos run: the server's file says what happened to each lease, the ledger what ran.

Invariant: neither the library's own views nor its counts are believed; the workers' logs are asked
only why a lease ended before its time.
"""

import re
from collections import Counter, defaultdict

from tests.chaos import aof

RECLAIM_SECONDS = 20.0
"""Longest time from the end of a lease until its item is put back: two looks of an idle moment, and
a crash of the server in between."""

_SAYS = re.compile(
    r"item \S+\[([^]]+)\]: (release|timed out|its lease was no longer held)(?: \(([^(\n)]*))?"
)
_ENDS = {"release": "released"}


class Verdict:
    """What is known of a run that is over.

    Args:
        scene: The healed scene; its state server may be gone afterwards.
        slots: Pool size of the workers.
    """

    def __init__(self, scene, slots):
        self.scene, self.slots = scene, slots
        self.found = {name: aof.lives(scene.state.folder, name) for name in scene.app.queues}
        self.most_running = aof.most_running(scene.state.folder, "direct")
        self.most_held = aof.most_held(scene.state.folder, scene.app.queues)
        self.lines = [line for worker in scene.all_workers for line in worker.log().splitlines()]
        self.ledger = {
            tuple(path.name.rsplit(".", 1)): [
                line.split() for line in path.read_text().splitlines()
            ]
            for path in scene.ledger.iterdir()
        }
        self.said = _said(scene.all_workers)
        self.reasons = Counter()
        self.late = [0.0]

    def check(self):
        """Every promise, for each item."""
        crowded = {name: most for name, most in self.most_held.items() if most > self.slots}
        assert not crowded, f"workers with more leases than slots: {crowded}"
        limits = self.scene.app.LIMITS["direct"]
        assert self.most_running[0] <= limits["default_cap"], self.most_running
        assert self.most_running[1] <= limits["max_in_flight"], self.most_running
        for name, items in self.found.items():
            lost = self.scene.acknowledged[name] - items.keys()
            assert not lost, f"never stored: {sorted(lost)[:9]}"
            for item_id, lives in items.items():
                for life in lives:
                    self._check_life(item_id, life)
        known = {(item_id, token) for items in self.found.values()
                 for item_id, lives in items.items() for life in lives
                 for token in life.leases}  # fmt: skip
        assert not self.ledger.keys() - known, "runs without a lease"
        assert max(self.late) <= RECLAIM_SECONDS, "an item was stuck under an expired lease"

    def _check_life(self, item_id, life):
        """It ended once, in its last run; each run before that has a reason."""
        last = life.leases[-1]
        assert set(life.ends) == set(life.leases), (item_id, life)
        acked = [token for token, end in life.ends.items() if end == "acked"]
        assert acked == [last], f"{item_id}: {life}"
        # A soft limit may come before the function's first line: then Celery tells of it.
        ended = any(words[0] == "end" for words in self.ledger.get((item_id, last), ()))
        assert ended or self._says_limit(item_id), f"{item_id} was acked before its end"
        earlier = Counter()
        for token in life.leases:
            self._check_run(item_id, token, earlier)
            earlier[life.ends[token]] += 1
            if life.ends[token] in {"timed out", "released"}:
                self.reasons[self._why(item_id, token, life)] += 1

    def _check_run(self, item_id, token, earlier):
        """A lease is run at most once, and the function was told the truth about earlier ones."""
        begun = [words for words in self.ledger.get((item_id, token), ()) if words[0] == "begin"]
        assert len(begun) <= 1, f"{item_id} ran twice under one lease: {begun}"
        for _, _, _, timeouts, retries in begun:
            assert int(timeouts) == earlier["timed out"], (item_id, begun, earlier)
            assert int(retries) == earlier["retried"], (item_id, begun, earlier)

    def _why(self, item_id, token, life):
        """Why a lease ended without an ack."""
        worker, late = life.holders[token].split("@")[0], life.late[token]
        end, said = life.ends[token], self.said[worker, item_id]
        if end == "timed out" and late >= 0:
            self.late.append(late)
            return "its lease ended"
        if end in said:
            return f"{end}: {said[end] or 'no reason given'}"
        if end == "timed out" and late > -1:  # the file rounds down
            return "its lease ended"
        told = worker in self.scene.told_to_end or "its lease was no longer held" in said
        assert told, f"{item_id} {end} {late:.1f} s after its expiry, nobody says why: {life}"
        return f"{end}: the worker was told to end, or the reply was lost"

    def _says_limit(self, item_id):
        return any(f"[{item_id}]" in line and "SoftTimeLimitExceeded" in line
                   for line in self.lines)  # fmt: skip

    def report(self):
        """The table of the run; call it after `check`."""
        scene, lives = self.scene, [life for items in self.found.values()
                                    for each in items.values() for life in each]  # fmt: skip
        lost = {token for life in lives for token, end in life.ends.items()
                if end in {"timed out", "released"}}  # fmt: skip
        again = {token: lines for (_, token), lines in self.ledger.items() if token in lost}
        rows = {
            "items acknowledged": sum(map(len, scene.acknowledged.values())),
            "enqueues refused or unanswered, items": scene.unsure,
            "lives (an id may come again after its end)": len(lives),
            "leases": sum(len(life.leases) for life in lives),
            "runs in the ledger": len(self.ledger),
            "retries": sum(end == "retried" for life in lives for end in life.ends.values()),
            "runs lost, so that their item ran again": len(again),
            "of these, runs that had come to their end": sum(
                any(words[0] == "end" for words in lines) for lines in again.values()
            ),
            "most leases of one worker, slots": f"{max(self.most_held.values())}, {self.slots}",
            "longest from a lease's end to its item's return, s": f"{max(self.late):.1f}",
            "drained after healing, s": f"{scene.healed_after:.1f}",
            "most of a capped partition, of its queue": "{}, {}".format(*self.most_running),
            "replies lost, late": f"{scene.proxy.dropped}, {scene.proxy.stalled}",
            "workers started": len(scene.all_workers),
        }
        return "\n".join((
            *(f"  {count:>7}  {kind}" for kind, count in sorted(scene.happened.items())),
            *(f"  {value:>7}  {what}" for what, value in rows.items()),
            *(f"  {count:>7}  lost runs: {why}" for why, count in self.reasons.most_common()),
        ))  # fmt: skip


def _said(workers):
    """Worker and item -> what its log says of ended runs, word -> reason."""
    said = defaultdict(dict)
    for worker in workers:
        for item_id, word, why in _SAYS.findall(worker.log()):
            said[worker.name, item_id][_ENDS.get(word, word)] = why
    return said
