"""The Lua scripts, one a file, with what they share in ``lib/``."""
