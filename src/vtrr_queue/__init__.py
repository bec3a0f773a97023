"""Fair, multi-tenant task queue for Celery on Redis or Valkey."""

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
