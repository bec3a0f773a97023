"""The periodic reclaim stands in the schedule, whatever the order in which an app is configured."""

from datetime import timedelta

import pytest
from celery import Celery, signals
from celery.beat import Scheduler, Service
from celery.schedules import schedule

from tests.callers import define, make_queue
from tests.waiting import eventually

OURS = "vtrr_queue.reclaim.files"


def theirs():
    """Return the user's own schedule; Celery writes into the dict it is given."""
    return {"cleanup": {"task": "their.cleanup", "schedule": 30.0}}


class Order:
    """An app on which a test does things in some order.

    Args:
        redis_client: For the queue.
    """

    def __init__(self, redis_client):
        self.client = redis_client
        self.app = Celery("ordered", broker="memory://", set_as_current=False)
        self.vtrr = None

    def make(self):
        """Make the queue."""
        self.vtrr = make_queue(self.client, app=self.app, reclaim_interval=5)

    def configure(self, **settings):
        """Configure from an object."""
        self.app.config_from_object(
            {"task_track_started": True, "beat_schedule": theirs(), **settings}
        )

    def configure_namespace(self):
        """Configure from an object whose names start with CELERY_."""
        self.app.config_from_object({"CELERY_BEAT_SCHEDULE": theirs()}, namespace="CELERY")

    def configure_without_schedule(self):
        """Configure from an object that has no schedule."""
        self.app.config_from_object({"task_track_started": True})

    def assign(self):
        """Assign the schedule."""
        self.app.conf.beat_schedule = theirs()

    def update(self):
        """Update the configuration."""
        self.app.conf.update(beat_schedule=theirs())

    def change(self):
        """Change the schedule in place."""
        self.app.conf.beat_schedule.update(theirs())

    def read(self):
        """Read the configuration, which loads it."""
        assert self.app.conf.beat_schedule is not None

    def add(self):
        """Use Celery's own call."""
        self.app.add_periodic_task(30.0, self.app.signature("their.cleanup"), name="cleanup")

    def hook_configure(self):
        """Use Celery's own call when the app is configured."""
        self.app.on_after_configure.connect(lambda **_: self.add(), weak=False)

    def hook_finalize(self):
        """Use Celery's own call when the app is finalized."""
        self.app.on_after_finalize.connect(lambda **_: self.add(), weak=False)

    def assign_finalize(self):
        """Assign the schedule when the app is finalized."""
        self.app.on_after_finalize.connect(lambda **_: self.assign(), weak=False)

    def make_finalize(self):
        """Make the queue when the app is finalized, as an autodiscovered module does."""
        self.app.on_after_finalize.connect(lambda **_: self.make(), weak=False)

    def assign_with_ours(self):
        """Assign the schedule whole, with our entry in it."""
        self.app.conf.beat_schedule = {**theirs(), **self.vtrr.reclaim_beat_schedule()}

    def finalize(self):
        """Finalize the app."""
        self.app.finalize()


KEPT = [
    "configure make", "make configure", "configure read make",
    "configure_namespace make", "make configure_namespace", "configure_namespace read make",
    "configure_without_schedule assign make", "make configure_without_schedule assign",
    "configure_without_schedule make assign", "assign make", "make assign", "update make",
    "make update", "change make", "make change", "make add", "add make", "make configure add",
    "hook_configure make configure", "make hook_configure configure_namespace",
    "hook_finalize make configure", "make configure hook_finalize",
    "configure read hook_finalize make",
    "make configure finalize", "configure finalize make", "configure make_finalize",
    "configure_namespace make_finalize", "make configure read assign_with_ours",
]  # fmt: skip
LOST_BUT_MENDED = [
    "make read assign",
    "configure_without_schedule make read assign",
    "make read update",
    "make configure read configure",
    "make assign_finalize configure read",
    "configure_without_schedule make finalize assign",
    "make read configure_namespace",
]


def carry_out(redis_client, steps):
    """Do the steps, then what every Beat does before it reads the schedule."""
    order = Order(redis_client)
    for step in steps.split():
        getattr(order, step)()
    order.app.finalize()
    return order


def start_beat(app):
    """Return a scheduler at the moment of its first tick."""
    service = Service(app, scheduler_cls=Scheduler)
    signals.beat_init.send(sender=service)
    return service.scheduler


@pytest.mark.parametrize("steps", KEPT)
def test_the_configuration_has_both_entries(redis_client, steps):
    """Theirs and ours, without any help from Beat."""
    order = carry_out(redis_client, steps)
    assert set(order.app.conf.beat_schedule) == {"cleanup", OURS}


@pytest.mark.parametrize("steps", KEPT + LOST_BUT_MENDED)
def test_beat_has_both_entries_before_its_first_tick(redis_client, steps):
    """Also when the schedule was assigned after it had been read."""
    order = carry_out(redis_client, steps)
    found = start_beat(order.app).schedule
    assert set(found) == {"cleanup", OURS}
    entry = found[OURS]
    assert entry.task == order.vtrr.reclaim_name
    assert entry.schedule == schedule(timedelta(seconds=5))
    assert entry.options["expires"] == 5
    assert found["cleanup"].schedule == schedule(30.0)


@pytest.mark.parametrize("steps", LOST_BUT_MENDED)
def test_beat_mends_what_the_configuration_lost(redis_client, steps):
    """These orders do lose our entry; without the safety net nothing would reclaim."""
    order = carry_out(redis_client, steps)
    assert set(order.app.conf.beat_schedule) == {"cleanup"}
    assert set(start_beat(order.app).schedule) == {"cleanup", OURS}


def test_two_queues_have_an_entry_each(redis_client):
    order = Order(redis_client)
    order.make()
    make_queue(redis_client, app=order.app, name="mails", reclaim_interval=7)
    order.configure()
    assert set(start_beat(order.app).schedule) == {"cleanup", OURS, "vtrr_queue.reclaim.mails"}


def test_a_beat_of_another_app_is_left_alone(redis_client):
    order = Order(redis_client)
    order.make()
    assert (
        OURS not in start_beat(Celery("other", broker="memory://", set_as_current=False)).schedule
    )


def test_an_entry_of_theirs_under_our_name_stands(redis_client):
    """So a user can give the reclaim another schedule."""
    order = Order(redis_client)
    order.make()
    order.read()
    order.app.conf.beat_schedule = {OURS: {"task": OURS, "schedule": 99.0}}
    assert start_beat(order.app).schedule[OURS].schedule == schedule(99.0)


def test_without_an_interval_nothing_is_added(redis_client):
    app = Celery("plain", broker="memory://", set_as_current=False)
    vtrr = make_queue(redis_client, app=app)
    assert vtrr.reclaim_beat_schedule() == {}
    assert OURS not in app.tasks
    assert dict(start_beat(app).schedule) == {}


@pytest.mark.parametrize("queue", [None, "reclaims"])
@pytest.mark.parametrize("interval", [5, 0.5, 3600])
def test_the_entry_is_complete(redis_client, interval, queue):
    """It expires before the next one comes, by the name of every scheduler; two share no object."""
    vtrr = make_queue(redis_client, reclaim_interval=interval, reclaim_queue=queue)
    options = {"expires": interval, "expire_seconds": interval}
    if queue:
        options["queue"] = queue
    entry = {
        "task": OURS,
        "schedule": timedelta(seconds=interval),
        "args": (),
        "kwargs": {},
        "options": options,
    }
    assert vtrr.reclaim_beat_schedule() == {OURS: entry}
    vtrr.reclaim_beat_schedule()[OURS]["options"].clear()
    assert vtrr.reclaim_beat_schedule() == {OURS: entry}


@pytest.mark.parametrize("queue", [None, "reclaims"])
def test_the_scheduler_sends_the_task_where_it_belongs(redis_client, queue):
    """One tick of a real scheduler: the message, its queue and its expiry."""
    app = Celery("ticking", broker="memory://", set_as_current=False)
    app.conf.task_default_queue = "the-default"
    make_queue(redis_client, app=app, name="ticked", reclaim_interval=60, reclaim_queue=queue)
    scheduler = start_beat(app)
    scheduler.apply_async(scheduler.schedule["vtrr_queue.reclaim.ticked"], advance=False)
    with app.connection_for_read() as connection:
        messages = connection.SimpleQueue(queue or "the-default")
        message = messages.get(timeout=5)
        message.ack()
        messages.close()
    assert message.headers["task"] == "vtrr_queue.reclaim.ticked"
    assert message.headers["expires"]


def test_the_task_itself_reclaims(redis_client):
    """What a worker runs when the message comes; it returns nothing to store."""
    vtrr = make_queue(redis_client, reclaim_interval=5, lease_seconds=0.001)
    work = define(vtrr)
    work.queue("acme", [{"id": "i"}])
    assert vtrr._dequeue()[3] == "i"
    task = vtrr.app.tasks[vtrr.reclaim_name]
    assert task.ignore_result

    def taken():
        """The lease has ended and the task has put the item back."""
        assert task() is None
        return redis_client.llen("vtrr:files:backlog:acme") == 1

    eventually(taken, 5)
    assert vtrr._dequeue()[3::2] == ("i", 1)
