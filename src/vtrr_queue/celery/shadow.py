"""Watches plain Celery tasks and tells what turns would have changed; nothing runs otherwise.

Three of Celery's signals say when a call was sent, when it started and when it was done. Each
process of a worker appends that to a file of its own.

Invariants: no message is held, moved or answered; a fault of the recorder or of the app's function
is logged once and otherwise ignored; no Redis is needed.

``python -m vtrr_queue.celery.shadow FOLDER`` prints the report; docs/shadow.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery, signals
from celery.utils.log import get_logger

from vtrr_queue.celery.entries import check_integer, check_text
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.simulate.orders import Fair, Fifo
from vtrr_queue.simulate.replay import Call, compare, most_at_once, replay, waits_table

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = get_logger(__name__)

HEADER = "vtrr_shadow"
"""Header of a watched message: partition, and when it could start, s since the epoch."""

PartitionBy = Callable[..., str | None]


def watch(
    app: Celery, folder: str | os.PathLike[str], tasks: Mapping[str, PartitionBy], *,
    most: int = 1_000_000,
) -> Recorder:  # fmt: skip
    """Record the calls of plain tasks; to be called where producers and workers import it.

    Args:
        app: The Celery app.
        folder: Where the files go; made when the first record is written.
        tasks: Name of a task -> function of its arguments that gives the partition of a call, or
            None for a call that is not to be recorded.
        most: Most records of one process; about 150 bytes each.

    Returns:
        The recorder; :meth:`Recorder.stop` ends it.

    Raises:
        ArgumentError: A value is wrong.
        ArgumentTypeError: A type is wrong.
    """
    if not isinstance(app, Celery):
        raise ArgumentTypeError("app", app, "a Celery app")
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ArgumentTypeError("folder", folder, "a path")
    if not isinstance(tasks, Mapping) or not tasks:
        raise ArgumentTypeError("tasks", tasks, "a mapping of task names to functions")
    for name, by in tasks.items():
        check_text("tasks", name, 1000)
        if not callable(by):
            raise ArgumentTypeError(f"tasks[{name!r}]", by, "a function of the task's arguments")
    check_integer("most", most, 1, 10**9)
    return Recorder(app, Path(folder), dict(tasks), most)


class Recorder:
    """What :func:`watch` returns.

    Args:
        app: The app whose tasks are watched.
        folder: Where the files go.
        tasks: Mapping task name -> function of a partition.
        most: Most records of one process.
    """

    def __init__(self, app: Celery, folder: Path, tasks: dict[str, PartitionBy], most: int) -> None:
        self._app, self._folder, self._tasks, self._most = app, folder, tasks, most
        self._started: dict[str, float] = {}
        self._file: Any = None
        self._pid = self._written = 0
        self._complained = False
        self._receivers = (
            (signals.before_task_publish, self._on_publish), (signals.task_prerun, self._on_start),
            (signals.task_postrun, self._on_end),
        )  # fmt: skip
        for signal, receiver in self._receivers:
            signal.connect(receiver, weak=False)

    def stop(self) -> None:
        """Record nothing more in this process."""
        for signal, receiver in self._receivers:
            signal.disconnect(receiver)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _on_publish(
        self, sender: Any = None, body: Any = None, headers: Any = None, **_: Any
    ) -> None:
        by = self._tasks.get(str(sender))
        if by is None or not isinstance(headers, dict) or not isinstance(body, list | tuple):
            return
        try:
            partition = by(*body[0], **body[1])
            if partition is not None:
                headers[HEADER] = [str(partition), _earliest(headers.get("eta"))]
        except Exception as exc:  # noqa: BLE001 - the app's own function; the call goes on
            self._complain("its partition is not known", exc)

    def _on_start(self, task_id: str = "", task: Any = None, **_: Any) -> None:
        if getattr(task, "name", None) in self._tasks and task.app is self._app:
            self._started[task_id] = time.time()

    def _on_end(self, task_id: str = "", task: Any = None, **_: Any) -> None:
        started = self._started.pop(task_id, None)
        sent = getattr(task.request, HEADER, None) if started is not None else None
        if not sent or self._written >= self._most:
            return
        record = {"task": task.name, "id": task_id, "partition": sent[0], "sent": sent[1],
                  "started": started, "ended": time.time()}  # fmt: skip
        try:
            self._write(json.dumps(record, separators=(",", ":")) + "\n")
        except OSError as exc:
            self._complain("it cannot be written", exc)

    def _write(self, line: str) -> None:
        if self._pid != os.getpid():  # also after a fork
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.jsonl"
            self._file = (self._folder / name).open("a", buffering=1, encoding="utf-8")
            self._pid, self._written = os.getpid(), 0
        self._file.write(line)
        self._written += 1

    def _complain(self, what: str, exc: Exception) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("a call is not recorded, %s: %r; said once", what, exc)


def read_folder(folder: str | os.PathLike[str], task: str | None = None) -> list[Call]:
    """Recorded calls in the order in which they were sent.

    Args:
        folder: Where :func:`watch` has put the files of all workers.
        task: Name of one task; None takes all that were watched.

    Raises:
        ArgumentError: There is no such folder.
    """
    if not Path(folder).is_dir():
        raise ArgumentError("folder", folder, "a folder of recorded calls")
    calls = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):  # a line a killed process left half
                found = json.loads(line)
                if task in (None, found["task"]):
                    times = (float(found[key]) for key in ("sent", "started", "ended"))
                    calls.append(Call(str(found["partition"]), *times))
    return sorted(calls, key=lambda call: (call.sent, call.started))


def report(calls: Sequence[Call], *, slots: int | None = None, charge: str = "weight") -> str:
    """Who waited for whom, and what turns would have given.

    Args:
        calls: What :func:`read_folder` returned.
        slots: How many run at once; as many as were seen to when None.
        charge: ``"weight"`` counts calls, ``"runtime"`` worker time.
    """
    if not calls:
        return "nothing was recorded"
    used = slots or most_at_once(calls)
    fifo = replay(Fifo(), calls, slots=used)
    fair = replay(Fair(), calls, slots=used, charge=charge)
    span = max(call.ended for call in calls) - calls[0].sent
    head = (
        f"{len(calls)} calls in {span:.1f} s, {used} at once, played again with charge={charge!r}"
    )
    return f"{head}\n{waits_table(compare(calls, fifo, fair))}"


def _earliest(eta: Any) -> float:
    """When a message that is sent now may start."""
    now = time.time()
    if not isinstance(eta, str):
        return now
    with suppress(ValueError):
        moment = datetime.fromisoformat(eta)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(now, aware.timestamp())
    return now


def main(argv: Sequence[str] | None = None) -> int:
    """Print who waited for whom, and what turns would have given."""
    parser = argparse.ArgumentParser(
        prog="python -m vtrr_queue.celery.shadow", description=main.__doc__
    )
    parser.add_argument("folder", help="where the recorders of all workers have written")
    parser.add_argument("--task", help="one task of those that were watched")
    parser.add_argument("--slots", type=int, help="calls that run at once; else the most seen")
    parser.add_argument("--charge", choices=("weight", "runtime"), default="weight")
    given = parser.parse_args(argv)
    if given.slots is not None and given.slots < 1:
        parser.error(f"--slots must be at least 1, not {given.slots}")
    try:
        calls = read_folder(given.folder, given.task)
    except ArgumentError as exc:
        parser.error(str(exc))
    sys.stdout.write(report(calls, slots=given.slots, charge=given.charge) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
