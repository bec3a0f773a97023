"""Conversion of a database of release 0.2: ``python -m vtrr_queue.migrate --help``."""
