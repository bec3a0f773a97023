"""What runs leave behind for the test to see, and gates that hold them: lists in Redis.

Invariant: a run notes itself before it does anything else.
"""

import json
import os
import time

import redis

_PATIENCE_SECONDS = 30


class Traces:
    """Runs of one test, seen from the worker and from the test alike.

    Args:
        url: Redis database of its own.
    """

    def __init__(self, url):
        # Waiting at a gate takes longer than redis-py's own timeout.
        self.client = redis.Redis.from_url(url, decode_responses=True, socket_timeout=None)

    def note(self, task, *args, **kwargs):
        """Say that a fair task runs, with which arguments and under which request."""
        request = task.request
        run = {
            "id": request.id, "args": list(args), "kwargs": kwargs, "retries": request.retries,
            "timeouts": getattr(request, "vtrr_timeouts", None),
            "partition": getattr(request, "vtrr_partition", None),
            "item_id": getattr(request, "vtrr_item_id", None),
            "token": getattr(request, "vtrr_token", None),
            "worker": request.hostname, "pid": os.getpid(), "at": time.time(),
        }  # fmt: skip
        self.client.rpush("runs", json.dumps(run))

    def note_end(self, task):
        """Say that a run came to its end."""
        self.client.rpush("ends", task.request.id)

    def runs(self, item_id=None):
        """Return every run so far, of one item or of all, as dicts in order of start."""
        runs = [json.loads(text) for text in self.client.lrange("runs", 0, -1)]
        return [run for run in runs if item_id in (None, run["id"])]

    def count(self):
        """Return how many runs there were so far."""
        return self.client.llen("runs")

    def ends(self):
        """Return the ids of the runs that came to their end."""
        return self.client.lrange("ends", 0, -1)

    def wait_at(self, gate):
        """Wait until the gate is open."""
        if self.client.blpop(f"gate:{gate}", _PATIENCE_SECONDS):
            self.client.rpush(f"gate:{gate}", "open")

    def open(self, gate):
        """Let everybody through, those who wait and those who come later."""
        self.client.rpush(f"gate:{gate}", "open")
