"""Uploads, whose lines are counted."""
