"""A function becomes the one Celery task of its queue, and the app stays free to be configured."""

import functools
import importlib
import inspect
import sys
import warnings

import pytest
from celery import Celery, Task

from tests.callers import define, lease_all, make_app, make_queue
from vtrr_queue import ArgumentError, ArgumentTypeError, VTRRTask
from vtrr_queue.celery.options import TASK_OPTIONS
from vtrr_queue.payload import decode

NO_OPTIONS = ["name", "queue", "rate_limit", "expires", "lease_seconds", "Base"]
OPTIONS = {
    "base": Task,
    "max_retries": 7,
    "default_retry_delay": 11,
    "autoretry_for": (OSError,),
    "retry_backoff": 3,
    "retry_backoff_max": 40,
    "retry_jitter": False,
    "retry_kwargs": {"max_retries": 2},
    "soft_time_limit": 20,
    "time_limit": 30,
    "acks_late": False,
    "reject_on_worker_lost": False,
    "ignore_result": True,
    "track_started": True,
    "serializer": "pickle",
}


class Reporting(Task):
    """A base of the user's, as for error reporting."""

    abstract = True
    seen = None

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        """Note it."""


@pytest.fixture
def vtrr(redis_client):
    """A queue without its task."""
    return make_queue(redis_client)


# --- the result --------------------------------------------------------------
def test_the_decorator_works_bare(vtrr):
    @vtrr.task
    def work(self, a, b=2):
        """Add."""
        return self.name, a + b

    assert isinstance(work, VTRRTask)
    assert work.name == f"{__name__}.work"
    assert work(1) == (work.name, 3)
    assert work(1, b=5) == (work.name, 6)


def test_the_decorator_works_called_without_options(vtrr):
    @vtrr.task()
    def work(self):
        return self.name

    assert work() == f"{__name__}.work"


def test_the_result_looks_like_the_function(vtrr):
    def work(self, path: str):
        """Work on a file."""

    task = vtrr.task(work)
    assert (task.__name__, task.__doc__) == ("work", "Work on a file.")
    assert (task.__module__, task.__qualname__) == (work.__module__, work.__qualname__)
    assert task.__wrapped__ is work
    assert inspect.signature(task) == inspect.signature(work)
    assert work.__name__ in repr(task)
    assert vtrr.name in repr(task)


def test_a_direct_call_runs_in_the_caller(vtrr, redis_client):
    """An error of the function is an error of the call, and nothing is stored."""

    @vtrr.task
    def work(self):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        work()
    assert redis_client.dbsize() == 0


@pytest.mark.parametrize("how", ["direct", "apply", "eager"])
def test_a_function_without_a_worker_finds_the_fields_of_an_item(redis_client, how):
    """So that a test of the function needs no queue."""
    vtrr = make_queue(redis_client, app=make_app(task_always_eager=how == "eager"))
    seen = []

    @vtrr.task
    def work(self):
        request = self.request
        seen.append((request.vtrr_timeouts, request.vtrr_partition, request.vtrr_token))

    {"direct": work, "apply": work.apply, "eager": lambda: work.queue("acme", [{}])}[how]()
    assert seen == [(0, "acme" if how == "eager" else None, None)]


def test_it_is_a_registered_celery_task(vtrr):
    work = define(vtrr)
    assert isinstance(vtrr.app.tasks[work.name], Task)
    assert work.celery_task is vtrr.app.tasks[work.name]
    assert work.s(1).task == work.name


@pytest.mark.parametrize("bind", [True, False, None])
def test_bind_is_accepted_and_ignored(vtrr, bind):
    @vtrr.task(bind=bind)
    def work(self):
        return self.name

    assert work() == work.name


def test_a_task_can_take_a_callback_as_celery_takes_it(vtrr):
    """`vtrr.task(function, option=...)`, without a decorator line."""

    def work(self):
        return None

    assert vtrr.task(work, max_retries=9).celery_task.max_retries == 9


# --- options -----------------------------------------------------------------
def test_the_options_of_the_specification_are_allowed():
    assert set(TASK_OPTIONS) >= set(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_reaches_the_celery_task(vtrr, option):
    """Except late acknowledgement, which is always on: the lease decides."""
    value = OPTIONS[option]
    task = define(vtrr, **{option: value}).celery_task
    if option == "base":
        assert isinstance(task, value)
    elif option == "acks_late":
        assert task.acks_late is True
    else:
        assert getattr(task, option) == value


@pytest.mark.parametrize("option", NO_OPTIONS)
def test_another_option_is_refused_by_name(vtrr, option):
    """At decoration, with the list of what is allowed."""
    with pytest.raises(TypeError, match=f"option '{option}'") as caught:
        vtrr.task(**{option: 1})
    for allowed in OPTIONS:
        assert allowed in str(caught.value)
    assert not [name for name in vtrr.app._pending if "work" in repr(name)]


NAN, INF = float("nan"), float("inf")
BAD_OPTIONS = [
    *[("max_retries", value) for value in ["5", -1, 1.5, True, NAN, [5]]],
    *[("default_retry_delay", value) for value in ["5", -1, True, NAN, INF]],
    *[("autoretry_for", value) for value in [OSError, None, (5,), ("OSError",), "OSError"]],
    *[("retry_backoff", value) for value in ["5", None, -1, NAN, INF]],
    *[("retry_backoff_max", value) for value in ["5", None, True, -1, NAN, INF]],
    *[("retry_jitter", value) for value in ["yes", None, 1]],
    *[("retry_kwargs", value) for value in [None, [], "max_retries"]],
    *[("acks_late", value) for value in ["yes", 1]],
    *[("reject_on_worker_lost", value) for value in ["yes", 1]],
    *[("ignore_result", value) for value in ["yes", 1]],
    *[("track_started", value) for value in ["yes", 1]],
    *[("serializer", value) for value in ["", 5]],
    *[("partition_by", value) for value in ["user", 5]],
    *[("default_partition", value) for value in ["", 5]],
]
GOOD_OPTIONS = [
    ("max_retries", None), ("max_retries", 0), ("default_retry_delay", 0.5), ("autoretry_for", ()),
    ("autoretry_for", [OSError, KeyError]), ("retry_backoff", True), ("retry_backoff", 0.5),
    ("retry_jitter", True), ("retry_kwargs", {}), ("acks_late", None), ("base", None),
]  # fmt: skip


@pytest.mark.parametrize(("option", "value"), BAD_OPTIONS, ids=ascii)
def test_a_bad_value_of_an_option_is_refused_by_name(vtrr, option, value):
    """At decoration; Celery would find out when the app starts, or at the first retry."""
    with pytest.raises((ArgumentError, ArgumentTypeError), match=f"^{option} must be") as caught:
        vtrr.task(**{option: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("option", "value"), GOOD_OPTIONS, ids=ascii)
def test_a_good_value_of_an_option_is_taken(vtrr, option, value):
    task = define(vtrr, **{option: value}).celery_task
    if option not in {"base", "acks_late"}:
        assert getattr(task, option) == value


def test_a_decorator_can_be_used_twice(vtrr, redis_client):
    """It keeps its options."""
    decorate = vtrr.task(base=Reporting)
    assert isinstance(decorate(other).celery_task, Reporting)
    assert isinstance(decorate(other).celery_task, Reporting)


@pytest.mark.parametrize("base", [object, int, "celery.Task", 5, Task()], ids=ascii)
def test_a_base_that_is_no_task_is_refused(vtrr, base):
    with pytest.raises(ArgumentTypeError, match=r"^base must be a subclass of celery\.Task, not"):
        define(vtrr, base=base)


@pytest.mark.parametrize(
    "function",
    [5, "work", object(), functools.partial(print), [print]],
    ids=lambda value: type(value).__name__,
)
def test_a_thing_without_a_name_of_its_own_is_refused(vtrr, function):
    """A task is found by its name, so it must be a function."""
    with pytest.raises(ArgumentTypeError, match=r"^function must be a function, not"):
        vtrr.task(function)


def test_a_base_of_the_users_keeps_its_hooks(vtrr):
    task = define(vtrr, base=Reporting).celery_task
    assert isinstance(task, Reporting)
    assert type(task).on_failure is Reporting.on_failure
    assert type(task).__mro__.index(Reporting) > 0


def test_the_base_of_the_app_is_the_default(redis_client):
    app = Celery("based", broker="memory://", task_cls=Reporting, set_as_current=False)
    assert isinstance(define(make_queue(redis_client, app=app)).celery_task, Reporting)


# --- one task for each queue -------------------------------------------------
def other(self):
    """Another function."""


def test_a_second_function_is_refused(vtrr):
    first = define(vtrr)
    with pytest.raises(ValueError, match="make one VTRRQueue per task") as caught:
        vtrr.task(other)
    assert first.name in str(caught.value)
    assert f"{__name__}.other" in str(caught.value)
    assert f"{__name__}.other" not in vtrr.app.tasks


def test_a_second_function_is_refused_on_another_object_of_the_same_queue(vtrr, redis_client):
    """Both write the same keys, so workers of one would bury the items of the other."""
    define(vtrr)
    again = make_queue(redis_client, app=vtrr.app)
    with pytest.raises(ArgumentError, match="make one VTRRQueue per task"):
        again.task(other)


def test_one_function_on_two_queues_is_refused(vtrr, redis_client):
    """Celery knows a task by its name, so the second would be the first."""
    vtrr.task(other)
    second = make_queue(redis_client, app=vtrr.app, name="mails")
    with pytest.raises(ArgumentError, match="name of its own") as caught:
        second.task(other)
    assert "'files'" in str(caught.value)


def test_the_same_function_again_is_no_error(vtrr):
    assert vtrr.task(other).name == vtrr.task(other).name


MODULE = """
import redis
from tests.callers import make_app, make_queue

app = {app}
vtrr = make_queue(redis.Redis(), app=app, reclaim_interval={number})

@vtrr.task(max_retries={number})
def work(self):
    return {number}
"""


@pytest.mark.parametrize("finalized", [True, False])
def test_a_module_can_be_reloaded(tmp_path, monkeypatch, finalized):
    """With the queue in it, and after the app was used: the new function counts."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "reloaded.py"
    path.write_text(MODULE.format(app="make_app()", number=1))
    module = importlib.import_module("reloaded")
    try:
        if finalized:
            assert module.work() == 1
        path.write_text(MODULE.format(app="app", number=22))  # another size: no stale bytecode
        module = importlib.reload(module)
        assert module.work() == 22
        assert module.work.celery_task.max_retries == 22
        assert module.work.celery_task.vtrr_queue is module.vtrr
        assert module.app.conf.beat_schedule == module.vtrr.reclaim_beat_schedule()
    finally:
        del sys.modules["reloaded"]


# --- time limits -------------------------------------------------------------
@pytest.mark.parametrize(
    "limits",
    [{}, {"soft_time_limit": 10}, {"time_limit": 10}, {"soft_time_limit": 5.5, "time_limit": 59.5},
     {"soft_time_limit": None, "time_limit": None}],
    ids=str,
)  # fmt: skip
def test_limits_in_order_are_taken(redis_client, limits):
    task = define(make_queue(redis_client, lease_seconds=60), **limits)
    assert task.celery_task.time_limit == limits.get("time_limit")


@pytest.mark.parametrize(
    ("soft", "hard"), [(10, 10), (20, 10), (60, None), (90, None), (59.9, 59.9)]
)
def test_limits_out_of_order_give_a_warning(redis_client, soft, hard):
    """It shows the three values and points at the decorator."""
    vtrr = make_queue(redis_client, lease_seconds=60)
    with pytest.warns(UserWarning, match="does not hold") as caught:
        define(vtrr, soft_time_limit=soft, time_limit=hard)
    text = str(caught[0].message)
    assert f"soft_time_limit ({soft:g})" in text
    assert "lease_seconds (60)" in text
    assert hard is None or f"time_limit ({hard:g})" in text
    assert caught[0].filename.endswith("callers.py")


@pytest.mark.parametrize("hard", [60, 60.5, 3600])
def test_a_lease_shorter_than_the_hard_limit_is_refused(redis_client, hard):
    """The item would run a second time while it still runs."""
    vtrr = make_queue(redis_client, lease_seconds=60)
    with pytest.raises(ArgumentError, match=r"^time_limit must be less than lease_seconds \(60\)"):
        define(vtrr, soft_time_limit=10, time_limit=hard)


@pytest.mark.parametrize("hard", [60, 7200])
def test_with_a_heartbeat_a_limit_may_be_longer_than_the_lease(redis_client, hard):
    """The lease lasts as long as the run, or up to max_runtime."""
    vtrr = make_queue(redis_client, lease_seconds=30, heartbeat=True)
    define(vtrr, soft_time_limit=10, time_limit=hard)
    bounded = make_queue(redis_client, name="b", lease_seconds=30, heartbeat=10, max_runtime=60)
    with pytest.raises(ArgumentError, match=r"^time_limit must be less than max_runtime \(60\)"):
        define(bounded, time_limit=hard)
    with pytest.warns(UserWarning, match=r"soft_time_limit \(90\) < time_limit \(None\)"):
        define(bounded, soft_time_limit=90)


class Limited(Task):
    """A base that brings its limits."""

    abstract = True
    time_limit = 3600


def test_the_limits_of_a_base_count(redis_client):
    vtrr = make_queue(redis_client, lease_seconds=60)
    with pytest.raises(ArgumentError, match=r"^time_limit must be less than .*3600"):
        define(vtrr, base=Limited)
    assert define(vtrr, base=Limited, time_limit=30).celery_task.time_limit == 30


@pytest.mark.parametrize("option", ["soft_time_limit", "time_limit"])
@pytest.mark.parametrize("value", ["5", True, 0, -1, float("nan"), float("inf"), [5], b"5"])
def test_a_limit_of_nonsense_is_refused(vtrr, option, value):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        define(vtrr, **{option: value})
    assert caught.value.argument == option
    assert repr(value) in str(caught.value)


def test_the_defaults_need_no_warning(vtrr):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        define(vtrr)


# --- late configuration ------------------------------------------------------
LATE = {
    "task_serializer": ("serializer", "yaml-like"),
    "task_track_started": ("track_started", True),
    "task_ignore_result": ("ignore_result", True),
    "task_store_errors_even_if_ignored": ("store_errors_even_if_ignored", True),
    "task_default_rate_limit": ("rate_limit", "5/m"),
}


def test_making_a_queue_leaves_the_app_unconfigured(redis_client):
    app = make_app()
    vtrr = make_queue(redis_client, app=app, reclaim_interval=5)
    work = define(vtrr, max_retries=3)
    assert work.name
    assert repr(work)
    assert vtrr.reclaim_beat_schedule()
    assert not app.configured
    assert not app.finalized


@pytest.mark.parametrize("setting", LATE)
@pytest.mark.parametrize("namespace", [None, "CELERY"])
def test_a_late_configuration_counts(redis_client, setting, namespace):
    """Whatever is read when Celery binds the task."""
    attribute, value = LATE[setting]
    app = Celery("late", broker="memory://", set_as_current=False)
    work = define(make_queue(redis_client, app=app, reclaim_interval=5))
    key = f"CELERY_{setting.upper()}" if namespace else setting
    app.config_from_object({key: value}, namespace=namespace)
    assert getattr(work.celery_task, attribute) == value


def test_a_late_acks_late_counts_for_the_reclaim_task(redis_client):
    """It is an ordinary task, unlike the one that runs items."""
    app = Celery("late", broker="memory://", set_as_current=False)
    vtrr = make_queue(redis_client, app=app, reclaim_interval=5)
    work = define(vtrr)
    app.config_from_object({"task_acks_late": True})
    assert app.tasks[vtrr.reclaim_name].acks_late is True
    assert work.celery_task.acks_late is True


def test_a_late_serializer_is_used_for_items(redis_client):
    app = Celery("late", broker="memory://", set_as_current=False)
    vtrr = make_queue(redis_client, app=app)
    work = define(vtrr)
    app.config_from_object({"task_serializer": "pickle", "accept_content": ["pickle"]})
    work.queue("acme", [{"args": [{1, 2}, (3,)]}])
    (lease,) = lease_all(vtrr)
    assert decode(lease.body).content_type == "application/x-python-serialize"
    assert vtrr._dequeue() is None
    assert vtrr.engine.release(lease.item_id, lease.token).held
    assert vtrr._dequeue()[1] == [{1, 2}, (3,)]
