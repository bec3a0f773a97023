"""Fair, multi-tenant task queue for Celery on Redis or Valkey.

The names are imported when they are first used: Celery's command line loads ours, and a program
that only looks at a queue needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue
    from vtrr_queue.celery.task import VTRRTask
    from vtrr_queue.engine import Engine
    from vtrr_queue.errors import (
        ArgumentError,
        ArgumentTypeError,
        BacklogFull,
        DuplicateItem,
        EnqueueInterrupted,
        LeaseLost,
        NotDurable,
        PayloadError,
        Refused,
        SchemaMismatch,
        Unavailable,
        VTRRError,
    )
    from vtrr_queue.policy import Policy, Rate

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BacklogFull",
    "DuplicateItem",
    "Engine",
    "EnqueueInterrupted",
    "LeaseLost",
    "NotDurable",
    "PayloadError",
    "Policy",
    "Rate",
    "Refused",
    "SchemaMismatch",
    "Unavailable",
    "VTRRError",
    "VTRRQueue",
    "VTRRTask",
]
__version__ = "0.3.0"

_HOMES = {"VTRRQueue": "celery.queue", "VTRRTask": "celery.task", "Engine": "engine",
          "Policy": "policy", "Rate": "policy"}  # fmt: skip
"""Name -> its module; the others are errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module = importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}")
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
