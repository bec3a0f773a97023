"""The queue and its task."""

import redis
from django.conf import settings
from shop.celery import app

from vtrr_queue import VTRRQueue

from .models import Upload

vtrr = VTRRQueue(
    redis.Redis.from_url(f"{settings.REDIS_URL}/1"), app, name="files", celery_queue="vtrr_files"
)


@vtrr.task
def count_lines(self, pk):
    """Count the lines of an upload; running it twice gives the same."""
    upload = Upload.objects.get(pk=pk)
    upload.lines = len(upload.text.splitlines())
    upload.save(update_fields=["lines"])
