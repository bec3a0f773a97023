"""`make compat` installs no exporters and leaves these tests out."""

from importlib.util import find_spec

from tests.single import engine, server  # noqa: F401

PACKAGES = ("httpx", "opentelemetry", "prometheus_client", "uvicorn")

if not all(map(find_spec, PACKAGES)):
    collect_ignore_glob = ["test_*.py"]
