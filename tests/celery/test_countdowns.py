"""Items that wait for their time wait in Redis: they cost the worker no memory and are on time."""

import os
import random
import time

import psutil
import pytest

from tests.stage import DISPATCHES, Stage
from tests.waiting import eventually

ITEMS, SPREAD_SECONDS, LEAD_SECONDS = 10_000, 60.0, 20.0
LEAST_RATE = 1.25 * ITEMS / SPREAD_SECONDS
"""Items a second that the worker must be able to run, so that they need not queue up."""
MOST_BYTES, MOST_LATE_SECONDS = 5_000_000, 1.0


@pytest.mark.alone
@pytest.mark.chaos
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_ten_thousand_countdowns(dispatch, tmp_path):
    """Spread over a minute: each starts within a second of its time, never before it."""
    with Stage("results", tmp_path, dispatch=dispatch, BACKEND="redis",
               TASK={"ignore_result": True}) as stage:  # fmt: skip
        work, traces = stage.app.work, stage.traces
        worker = stage.start_worker(queues=["vtrr_queue"], concurrency=2)
        process = psutil.Process(worker.pid)
        warm = 1000
        work.queue("warm", [{"args": [0]}] * warm)
        begin = time.monotonic()
        stage.wait_runs(warm)
        rate = warm / (time.monotonic() - begin)
        assert rate >= LEAST_RATE, f"this machine runs {rate:.0f} items a second"
        stage.wait_rest("results")
        traces.client.delete("runs")
        idle, most = process.memory_info().rss, 0

        due = {}
        draw = random.Random(1)
        begin = time.time() + LEAD_SECONDS
        for number in range(ITEMS):
            moment = begin + draw.random() * SPREAD_SECONDS
            result = work.apply_async(
                (number,), partition_key=f"p{number % 50}", countdown=moment - time.time()
            )
            due[result.id] = moment
        assert time.time() < begin, "the machine is too slow to enqueue in time"

        def is_done():
            nonlocal most
            most = max(most, process.memory_info().rss)
            return traces.count() >= ITEMS

        eventually(is_done, LEAD_SECONDS + SPREAD_SECONDS + 30, "the end of all")
        stage.wait_rest("results")
        late = sorted(run["at"] - due[run["id"]] for run in traces.runs())
        print(f"{dispatch}: memory {(most - idle) / 1e6:+.1f} MB of {idle / 1e6:.0f}, late "
              f"{late[0]:.3f} to {late[-1]:.3f} s, median {late[len(late) // 2]:.3f}")  # fmt: skip
        assert len(late) == ITEMS == len(due)
        assert most - idle < MOST_BYTES
        assert late[0] > -0.05  # the server's clock is read in whole milliseconds
        assert late[-1] < MOST_LATE_SECONDS, f"load {os.getloadavg()[0]:.1f}"
