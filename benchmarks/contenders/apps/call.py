"""``python call.py APP FUNCTION COUNT``: import an app and call what enqueues so many items."""

import asyncio
import importlib
import inspect
import sys

module, function, count = sys.argv[1:]
outcome = getattr(importlib.import_module(module), function)(int(count))
if inspect.iscoroutine(outcome):
    asyncio.run(outcome)
