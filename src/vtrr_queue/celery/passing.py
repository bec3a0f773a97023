"""Lets what stands around Celery's own ``apply_async`` take part in a call of a fair task.

That is a base class of the app's with an ``apply_async`` of its own, and tracing libraries that
replace Celery's. The call goes through them down to Celery's function, and from there to us
instead of to the broker.

Invariant: a task around which nothing stands is not affected.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from celery.app import task as celerys

if TYPE_CHECKING:
    from collections.abc import Callable

_passing: ContextVar[_App | None] = ContextVar("passing", default=None)


def stands_in_between(apply_async: Any) -> bool:
    """Whether a call would meet something other than Celery's own function.

    Args:
        apply_async: What Celery would call, bound or not.
    """
    function = apply_async.__func__ if type(apply_async) is MethodType else apply_async
    celery_file = celerys.__file__
    return type(function) is not FunctionType or function.__code__.co_filename != celery_file


def passed(task: Any) -> _App | None:
    """The app as Celery's function is to find it, while it hands a call of this task to us."""
    app = _passing.get()
    return app if app is not None and app.task is task else None


def pass_through(
    task: Any, apply_async: Callable[..., Any], accept: Callable[..., Any], *args: Any,
    **options: Any,
) -> Any:  # fmt: skip
    """Call what stands in between, and ``accept`` at the end of the way.

    Args:
        task: The fair task.
        apply_async: What Celery would call, bound.
        accept: Takes what ``apply_async`` takes, as the others have left it.
        *args: Arguments of the call.
        **options: Options of the call.

    Returns:
        What they make of the result of ``accept``.
    """
    token = _passing.set(_App(task, accept))
    try:
        return apply_async(*args, **options)
    finally:
        _passing.reset(token)


class _App:
    """The app as Celery's ``apply_async`` is to see it.

    Args:
        task: The fair task.
        accept: Where its call ends.
    """

    def __init__(self, task: Any, accept: Callable[..., Any]) -> None:
        self.task = task
        self._app, self._accept = task.app, accept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)

    def send_task(
        self, name: str, args: Any, kwargs: Any, *, task_id: str | None, task_type: Any,
        result_cls: Any, **options: Any,
    ) -> Any:  # fmt: skip
        """Take the call instead of sending a message; the last step of Celery's function."""
        for option in ("ignore_result", "priority"):  # the task's own, which it has added
            if options.get(option) == getattr(task_type, option):
                options.pop(option, None)
        token = _passing.set(None)
        try:
            return self._accept(args, kwargs, task_id, **options)
        finally:
            _passing.reset(token)
