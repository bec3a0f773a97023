"""Which queue of an app has which task.

Invariant: one task for each queue and one queue for each task, because triggers are
interchangeable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtrr_queue.errors import ArgumentError

if TYPE_CHECKING:
    from celery import Celery

    from vtrr_queue.celery.task import VTRRTask


def claim(app: Celery, queue: str, name: str) -> dict[str, VTRRTask]:
    """See that a queue may have a task; at a module reload the new one counts.

    Args:
        app: The Celery app.
        queue: Name of the queue.
        name: Name of the task.

    Returns:
        The app's mapping queue name -> task.

    Raises:
        ArgumentError: The queue has another task, or another queue has this one.
    """
    tasks: dict[str, VTRRTask] = app.__dict__.setdefault("vtrr_tasks", {})
    mine = tasks.get(queue)
    if mine is not None and mine.name != name:
        raise ArgumentError(
            "function", name,
            f"the one task of queue {queue!r}, {mine.name!r}: triggers are "
            f"interchangeable, so make one VTRRQueue per task",
        )  # fmt: skip
    for other, task in tasks.items():
        if task.name == name and other != queue:
            expected = f"a task with a name of its own, which queue {other!r} has not taken"
            raise ArgumentError("function", name, expected)
    if mine is not None:
        mine.unregister()
    return tasks
