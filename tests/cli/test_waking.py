"""A command that knows no app can send no trigger, but tells workers that there is work."""

import pytest

from tests.cli.conftest import Shell
from tests.stage import Stage
from tests.waiting import eventually

SOONER_THAN_A_LOOK = 15
"""Seconds; an idle worker looks by itself after 24 to 36."""


def heard(hints):
    """What came on the channel since it was last looked at."""
    return [message["data"] for message in iter(hints.get_message, None)]


@pytest.mark.parametrize("dispatch", ["direct", "trigger"])
def test_work_that_a_command_makes_servable_starts_soon(tmp_path, dispatch):
    """A dead letter that is requeued without the app does not wait for the next look."""
    with Stage("steered", tmp_path, dispatch=dispatch) as stage:
        stage.start_worker(queues=["files", "mails"], pool="threads", concurrency=2)
        stage.app.act.queue("broken", [{"args": ["fail"], "id": "i"}])
        eventually(lambda: len(stage.app.files.dead) == 1, 20, "a dead letter")
        stage.wait_rest("files")
        with stage.redis.pubsub() as hints:
            hints.subscribe(stage.app.files.engine.keys.wake_channel)
            ran = Shell(stage).alone("requeue", "i", "--yes")
            assert ran.out == "1 dead letter requeued\n"
            eventually(lambda: "ready" in heard(hints), 5, "a hint for the workers")
        stage.wait_runs(2, SOONER_THAN_A_LOOK)
