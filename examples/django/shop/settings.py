"""Settings: what matters here, and no more."""

import os

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

SECRET_KEY = "not for production"  # noqa: S105 - an example
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["files"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", "db.sqlite3"),
        "OPTIONS": {"timeout": 20},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_BROKER_URL = f"{REDIS_URL}/0"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
