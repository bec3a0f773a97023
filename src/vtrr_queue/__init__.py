"""Fair, multi-tenant task queue for Celery on Redis or Valkey."""
