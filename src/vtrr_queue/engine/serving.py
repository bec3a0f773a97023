"""Leases and what ends them: lease, ack, renew, release, retry, bury, reclaim."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vtrr_queue.engine.base import NO_TRIGGERS
from vtrr_queue.engine.ruling import Ruling
from vtrr_queue.errors import ArgumentError, LeaseLost, Unavailable
from vtrr_queue.model import Lease, Leased, Reclaimed, ReclaimPosition, Settled, TriggerBudget
from vtrr_queue.records import (
    REASON_MAX,
    format_note,
    pack_id,
    read_lease,
    read_record,
    read_wake,
    trigger_arguments,
)
from vtrr_queue.talk import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtrr_queue.talk import Call, Reply

RECLAIM_BATCH = 50
"""Most leases and delayed items one reclaim script looks at."""

MOST_LEASES = 1000
"""Most items one call leases."""

LEASED_AT_ONCE = 100
"""Most items one lease script gives, so that it blocks the server for two milliseconds at most."""

MOST_RENEWED = 250
"""Most leases one renew script extends."""


class Serving(Ruling):
    """What workers call."""

    def lease(
        self,
        *,
        count: int = 1,
        holder: str = "",
        trigger_id: str = "",
        pulled: bool = False,
        budget: TriggerBudget = NO_TRIGGERS,
    ) -> Leased:
        """Lease the next items in fair order.

        Args:
            count: Most items to lease, 1 to :data:`MOST_LEASES`.
            holder: Who will run them, for people who look.
            trigger_id: Trigger that caused the call; it leaves the ledger.
            pulled: A worker came without a trigger: older ones count as lost for good.
            budget: How many triggers may stand.

        Returns:
            The leased items in fair order, fewer than ``count`` when fewer are servable.

        Raises:
            Unavailable: Redis did not answer; not when some items are leased already.
            SchemaMismatch: The keys belong to another layout.

        Source:
            ``scripts/lease.lua``, once for each :data:`LEASED_AT_ONCE` items.
        """
        tokens, items = sorted(self.new_tokens(count)), list[Lease]()
        sent: tuple[str, ...] = ()
        while True:
            some = tokens[len(items) : len(items) + LEASED_AT_ONCE]
            call, finish = self.lease_call(some, holder=holder, trigger_id=trigger_id,
                                           pulled=pulled, budget=budget)  # fmt: skip
            try:
                leased = finish(self.client.call(*call))
            except Unavailable:
                if not items:
                    raise
                return Leased(tuple(items), replace(leased.wake, triggers=sent))
            items += leased.items
            sent += leased.wake.triggers
            if len(leased.items) < len(some) or len(items) == count:
                return Leased(tuple(items), replace(leased.wake, triggers=sent))
            trigger_id, pulled = "", False

    def new_tokens(self, count: int) -> list[str]:
        """Fencing tokens for so many leases."""
        if not 1 <= count <= MOST_LEASES:
            raise ArgumentError("count", count, f"from 1 to {MOST_LEASES}")
        return [secrets.token_hex(16) for _ in range(count)]

    def lease_call(
        self,
        tokens: Sequence[str],
        *,
        holder: str,
        trigger_id: str = "",
        pulled: bool = False,
        budget: TriggerBudget = NO_TRIGGERS,
    ) -> tuple[Call, Callable[[Reply], Leased]]:
        """The script call of :meth:`lease` and the reader of its reply, to send it with others.

        Args:
            tokens: One for each item wanted, from :meth:`new_tokens`. Those of a call that was
                never answered bring what they hold, if it took place.
            holder: As in :meth:`lease`.
            trigger_id: As in :meth:`lease`.
            pulled: As in :meth:`lease`.
            budget: As in :meth:`lease`.
        """
        self.declare()
        tokens = sorted(tokens)  # equal expiries keep the order of the leases
        triggers = trigger_arguments(budget)

        def arguments(attempt: int) -> Sequence[Any]:
            now = self.client.server_now_ms()
            valid_until = now + int(self.client.socket_timeout * 1000) + 1000 if now else 0
            return (attempt, valid_until, self.lease_ms, holder, self.reclaim_position,
                    self._bounds, trigger_id, int(pulled and triggers[0] != ""), triggers[0],
                    *tokens)  # fmt: skip

        def finish(reply: Reply) -> Leased:
            for _ in range(ATTEMPTS):
                if reply[0] != "late":
                    break
                reply = self.client.call("lease", tokens[0], arguments)
            if self._check(reply)[0] == "late":
                raise Unavailable("lease", ATTEMPTS, TimeoutError("each call came too late"))
            leases = tuple(
                read_lease(reply[at], token, int(reply[6]), reply[at + 1])
                for at, token in zip(range(7, len(reply), 2), tokens, strict=False)
            )
            return Leased(leases, read_wake(reply, triggers[1]))

        return ("lease", tokens[0], arguments), finish

    def ack(self, item_id: str, token: str, *, budget: TriggerBudget = NO_TRIGGERS) -> Settled:
        """Finish an item.

        Args:
            item_id: The item.
            token: Token of its lease.
            budget: How many triggers may stand.

        Returns:
            ``held=False`` when that lease is no longer held; then nothing was changed.

        Source:
            ``scripts/ack.lua``.
        """
        call, finish = self.ack_call(item_id, token, budget=budget)
        return finish(self.client.call(*call))

    def ack_call(
        self, item_id: str, token: str, *, budget: TriggerBudget = NO_TRIGGERS
    ) -> tuple[Call, Callable[[Reply], Settled]]:
        """The script call of :meth:`ack` and the reader of its reply."""
        triggers = trigger_arguments(budget)
        call = ("ack", token, lambda attempt: (attempt, pack_id(item_id), triggers[0]))
        return call, lambda reply: self._settled(reply, "acked", triggers[1])

    def renew(self, item_id: str, token: str, lease_seconds: float | None = None) -> datetime:
        """Extend a lease that is still held.

        Args:
            item_id: Item leased by an earlier :meth:`lease`.
            token: Fencing token of that lease, 32 hex characters.
            lease_seconds: Time from now to the next expiry, server clock; the queue's own
                when None.

        Returns:
            The new expiry, an aware UTC datetime.

        Raises:
            LeaseLost: A newer delivery owns the item, or it is finished.

        Source:
            ``scripts/renew.lua``.
        """
        reply = self._renew(token, [(item_id, token)], lease_seconds)
        if reply[7:]:
            raise LeaseLost(item_id)
        return datetime.fromtimestamp(int(reply[6]) / 1000, UTC)

    def renew_many(self, leases: Sequence[tuple[str, str]]) -> set[str]:
        """Extend leases by the queue's own time.

        Args:
            leases: Item id and token of each.

        Returns:
            The tokens that are no longer held; nothing was changed for them.

        Source:
            ``scripts/renew.lua``; one call for each :data:`MOST_RENEWED` leases.
        """
        lost: set[str] = set()
        for at in range(0, len(leases), MOST_RENEWED):
            reply = self._renew(secrets.token_hex(8), leases[at : at + MOST_RENEWED])
            lost |= {token.decode() for token in reply[7:]}
        return lost

    def held(self, token: str) -> bool:
        """Whether a lease is still held."""
        (found,) = self.client.read(("HEXISTS", self.keys["lease"], token))
        return bool(found)

    def was_retried(self, item_id: str, retries: int) -> bool:
        """Whether an item has been retried since a run of it began, as far as can be seen.

        Args:
            item_id: The item.
            retries: Retries before that run.
        """
        (record,) = self.client.read(("HGET", self.keys["task"], pack_id(item_id)))
        return record is not None and read_record(record)[3] > retries

    def release(
        self,
        item_id: str,
        token: str,
        *,
        timed_out: bool = False,
        why: str = "given back",
        position: ReclaimPosition | None = None,
        budget: TriggerBudget = NO_TRIGGERS,
    ) -> Settled:
        """Give a leased item back before its lease ends.

        Args:
            item_id: The item.
            token: Token of its lease.
            timed_out: Count it like an expired lease; the last one allowed makes a dead letter.
            why: How the run ended, for a dead letter.
            position: Where it goes in its partition; by default first, or as
                ``reclaim_position`` says when ``timed_out``.
            budget: How many triggers may stand.

        Source:
            ``scripts/release.lua``.
        """
        where = position or (self.reclaim_position if timed_out else "front")
        triggers = trigger_arguments(budget)
        reply = self.client.call(
            "release",
            token,
            lambda attempt: (attempt, pack_id(item_id), int(timed_out), where, why[:REASON_MAX],
                             self._bounds, triggers[0], self._ready_channel),
        )  # fmt: skip
        return self._settled(reply, "released", triggers[1])

    def retry(
        self, item_id: str, token: str, *, delay_seconds: float, retries: int, body: bytes
    ) -> Settled:
        """Move a leased item to the delayed set for its Celery retry.

        Args:
            item_id: The item.
            token: Token of its lease.
            delay_seconds: Time until it may be served again, s.
            retries: Retries after this one.
            body: Payload of the retry, see :mod:`vtrr_queue.payload`.

        Source:
            ``scripts/retry.lua``.
        """
        delay_ms = max(0, round(delay_seconds * 1000))
        reply = self.client.call(
            "retry",
            token,
            lambda attempt: (
                attempt,
                pack_id(item_id),
                delay_ms,
                retries,
                body,
                self._later_channel,
            ),
        )
        return self._settled(reply, "retried", "")

    def bury(
        self, item_id: str, token: str, reason: str, *, exception: str = "", traceback: str = "",
        budget: TriggerBudget = NO_TRIGGERS,
    ) -> Settled:  # fmt: skip
        """Move a leased item to the dead letters; one that was cancelled goes for good.

        Args:
            item_id: The item.
            token: Token of its lease.
            reason: Why, for people.
            exception: ``repr`` of what ended the run.
            traceback: Its traceback.
            budget: How many triggers may stand.

        Source:
            ``scripts/bury.lua``.
        """
        triggers = trigger_arguments(budget)
        rest = (
            pack_id(item_id),
            format_note(reason, exception, traceback),
            self._bounds,
            triggers[0],
        )
        reply = self.client.call("bury", token, lambda attempt: (attempt, *rest))
        return self._settled(reply, "dropped", triggers[1])

    def reclaim(self, *, budget: TriggerBudget = NO_TRIGGERS) -> Reclaimed:
        """Put expired leases back and promote delayed items that are due.

        Args:
            budget: How many triggers may stand.

        Source:
            ``scripts/reclaim.lua``.
        """
        total, died = 0, 0
        sent: tuple[str, ...] = ()
        while True:
            echo, triggers = secrets.token_hex(8), trigger_arguments(budget)
            reply = self._check(self.client.call("reclaim", echo, self._reclaim_call(triggers[0])))
            expired, promoted = int(reply[6]), int(reply[7])
            died += int(reply[8])
            wake = read_wake(reply, triggers[1])
            total, sent = total + expired, sent + wake.triggers
            if max(int(reply[9]), promoted) < RECLAIM_BATCH:
                return Reclaimed(total, replace(wake, triggers=sent), died)

    def forget_triggers(self, trigger_ids: Sequence[str]) -> None:
        """Take triggers that could not be published out of the ledger.

        Source:
            ``scripts/forget_triggers.lua``.
        """
        if trigger_ids:
            echo = secrets.token_hex(8)
            self._check(self.client.call("forget_triggers", echo, lambda _: trigger_ids))

    def _renew(
        self, echo: str, leases: Sequence[tuple[str, str]], lease_seconds: float | None = None
    ) -> Reply:
        lease_ms = self.lease_ms if lease_seconds is None else max(1, round(lease_seconds * 1000))
        rest = [text for item_id, token in leases for text in (pack_id(item_id), token)]
        return self._check(self.client.call("renew", echo, lambda _: (lease_ms, *rest)))

    def _reclaim_call(self, budget: str) -> Callable[[int], Sequence[Any]]:
        rest = (RECLAIM_BATCH, self.reclaim_position, self._bounds, budget, self._ready_channel)
        return lambda attempt: (attempt, *rest)
