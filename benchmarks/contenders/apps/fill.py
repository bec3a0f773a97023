"""``python fill.py APP COUNT``: import a contender's app and let it enqueue so many items."""

import asyncio
import importlib
import inspect
import sys

module, count = sys.argv[1:]
outcome = importlib.import_module(module).fill(int(count))
if inspect.iscoroutine(outcome):
    asyncio.run(outcome)
