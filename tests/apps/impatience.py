"""A worker that looks for its lost broker five times a second, where Celery waits 2, 4, 6... s."""

import kombu
from celery.app.amqp import AMQP

PAUSES = {"interval_start": 0.2, "interval_step": 0.0}


class Connection(kombu.Connection):
    """A connection with short pauses between two attempts."""

    def ensure_connection(self, *args, **options):
        return super().ensure_connection(*args, **{**PAUSES, **options})


class ImpatientAMQP(AMQP):
    """What Celery makes its connections with."""

    Connection = Connection
