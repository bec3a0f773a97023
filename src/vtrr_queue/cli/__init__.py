"""The command line: ``celery -A app vtrr ...`` and ``vtrr --redis URL --name NAME ...``.

Celery imports the group at each of its commands, so it has names only: a command is imported when
it is run. What it prints and its exit codes are documented in docs/cli.md and stay as they are.
"""
