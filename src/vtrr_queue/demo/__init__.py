"""One flooding tenant beside five small ones, on plain Celery and on vtrr-queue.

``python -m vtrr_queue.demo`` starts a server and workers of its own, runs the same items
through both and prints how long every tenant waited. Nothing it didn't start is touched.
"""
