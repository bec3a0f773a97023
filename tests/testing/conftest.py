"""The fixtures of the plugin, as a user's ``pytest_plugins`` brings them."""

from vtrr_queue.testing import (  # noqa: F401 - pytest finds them here
    _vtrr_bench,
    vtrr_clock,
    vtrr_local,
    vtrr_redis,
    vtrr_server,
)
