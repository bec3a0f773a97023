"""The Celery face: the only package that imports Celery (besides the demo)."""
