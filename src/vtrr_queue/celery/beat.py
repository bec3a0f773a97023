"""The periodic reclaim as a Celery task and a Beat entry.

Source: ``add_periodic_task`` keeps the user's entries in every order of configuration except when
the schedule is assigned after it was read; ``beat_init`` is the last moment before the first tick
and mends that case.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from celery.signals import beat_init

if TYPE_CHECKING:
    from vtrr_queue.celery.queue import VTRRQueue


def reclaim_entry(vtrr: VTRRQueue) -> dict[str, dict[str, Any]]:
    """The Beat entry, as ``beat_schedule`` has it: name -> task, schedule and options.

    Args:
        vtrr: A queue with ``reclaim_interval``.
    """
    seconds = vtrr.reclaim_interval or 0.0
    # django-celery-beat keeps `expire_seconds` and drops `expires`; the others do the reverse.
    options: dict[str, Any] = {"expires": seconds, "expire_seconds": seconds}
    if vtrr.reclaim_queue:
        options["queue"] = vtrr.reclaim_queue
    return {
        vtrr.reclaim_name: {
            "task": vtrr.reclaim_name,
            "schedule": timedelta(seconds=seconds),
            "args": (),
            "kwargs": {},
            "options": options,
        }
    }


def install_reclaim(vtrr: VTRRQueue) -> None:
    """Register the reclaim task and add its entry to the app's schedule.

    Args:
        vtrr: A queue with ``reclaim_interval``.
    """
    app, name = vtrr.app, vtrr.reclaim_name
    registered: dict[str, VTRRQueue] = app.__dict__.setdefault("vtrr_reclaims", {})
    if name not in registered:  # a reloaded module makes its queue again, under the same name

        def reclaim() -> None:
            """Put expired leases back and send the triggers that waiting items lack."""
            registered[name].reclaim_and_dispatch()

        app.task(name=name, ignore_result=True, shared=False)(reclaim)
    registered[name] = vtrr
    entry = reclaim_entry(vtrr)[name]
    app.add_periodic_task(entry["schedule"], app.signature(name), name=name, **entry["options"])

    def mend(sender: Any = None, **_: Any) -> None:
        scheduler = getattr(sender, "scheduler", None)
        if scheduler is not None and scheduler.app is app and name not in scheduler.schedule:
            scheduler.update_from_dict(reclaim_entry(registered[name]))

    beat_init.connect(mend, weak=False, dispatch_uid=f"vtrr-{name}-{id(app)}")
