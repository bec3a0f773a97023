"""What tests of the page use; `make compat` installs no web frameworks and leaves them out."""

from importlib.util import find_spec

if all(map(find_spec, ("httpx", "starlette", "uvicorn", "websockets"))):
    from tests.single import engine, server  # noqa: F401
    from tests.web.serving import browser, client, serve  # noqa: F401
else:
    collect_ignore_glob = ["test_*.py"]
