"""What 0.2 left is run by a worker of this release, with nothing enqueued after the upgrade."""

import pytest

from tests.old_queue import LEASED, TIMEOUTS, WAITING, convert, fill
from tests.waiting import eventually


@pytest.mark.parametrize("dispatch", ["trigger", "direct"])
def test_a_worker_drains_a_converted_queue(server, redis_client, start_worker, dispatch):
    fill(redis_client, task_name="converted.work")
    convert(redis_client)

    start_worker(
        "converted",
        queues=["files"],
        env={"CONVERTED_URL": server.url().rsplit("/", 1)[0], "CONVERTED_DISPATCH": dispatch},
    )

    with server.client(2) as notes:
        runs = eventually(
            lambda: (found := notes.lrange("runs", 0, -1))[len(WAITING) :] and found, 30
        )
    partitions = {item[0]: item[2] for item in (*WAITING, *LEASED)}
    timeouts = {**TIMEOUTS, "t-0": TIMEOUTS["t-0"] + 1}  # its lease had expired
    expected = partitions.keys() - {"a0"}  # its lease lasts
    assert sorted(run.decode() for run in runs) == sorted(
        f"{item_id} {partitions[item_id]} {timeouts[item_id]}" for item_id in expected
    )
