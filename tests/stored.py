"""Reads all that a queue keeps on a server, to compare it before and after."""

import re

from vtrr_queue.model import SHORT_EPOCH_MS, SHORT_RECORD

_READ = {
    b"string": lambda client, key: client.get(key),
    b"list": lambda client, key: client.lrange(key, 0, -1),
    b"hash": lambda client, key: client.hgetall(key),
    b"zset": lambda client, key: dict(client.zrange(key, 0, -1, withscores=True)),
}


def without_statistics(keys):
    """Names of keys, without those that outlive the work: what workers counted, and markers."""
    short_lived = re.compile(r"vtrr:[^:]*:(stats$|service:|recent:)")
    return sorted(key for key in map(_text, keys) if not short_lived.match(key))


def _text(key):
    return key.decode() if isinstance(key, bytes) else key


def stored(client, name="q"):
    """Return a mapping key without prefix -> value, without the short-lived call markers."""
    prefix = f"vtrr:{name}:"
    found = {}
    for key in client.scan_iter(match=prefix + "*", count=1000):
        short = key.decode().removeprefix(prefix)
        if not short.startswith("recent:"):
            found[short] = _READ[client.type(key)](client, key)
    return found


def record(partition, body, since_ms):
    """The record of an item of weight 1 with nothing counted, see ``scripts/lib/record.lua``."""
    since = (since_ms - SHORT_EPOCH_MS).to_bytes(5, "big")
    return bytes([SHORT_RECORD + len(partition)]) + since + partition.encode() + body
