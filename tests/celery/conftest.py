"""Fixtures of the tests with real workers."""

import pytest

from tests.stage import DISPATCHES


@pytest.fixture(params=DISPATCHES)
def dispatch(request):
    """Both ways in which workers learn that there is work."""
    return request.param


@pytest.fixture
def stage(_stage):
    """The stage without what earlier tests left; its workers end, or its queues come to rest."""
    _stage.clear()
    yield _stage
    for name in _stage.lasting:
        _stage.wait_rest(name)
    for worker in () if _stage.lasting else tuple(_stage.workers):
        _stage.end_worker(worker)


@pytest.fixture
def app(stage):
    """The module of the stage's app."""
    return stage.app


@pytest.fixture(autouse=True)
def _tidy(request):
    """A station shared by many tests lets go of what one of them still holds."""
    yield
    if "station" in request.fixturenames:
        request.getfixturevalue("station").tidy()
