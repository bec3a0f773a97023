"""A conversion that is killed anywhere, or runs twice, loses and doubles nothing."""

import random
import threading
from contextlib import closing

import pytest
import redis

from tests.old_queue import (
    LEASED,
    NAME,
    WAITING,
    convert,
    enqueue_old,
    fill,
    state,
    stop_after,
)
from vtrr_queue.errors import SchemaMismatch
from vtrr_queue.migrate.conversion import Migration
from vtrr_queue.migrate.survey import MigrationRefused


class Killed(BaseException):
    """Ends a conversion like SIGKILL: nothing in it may catch this."""


class Fuse:
    """Breaks a conversion at its n-th write.

    Args:
        server: The server.
        after: Writes that pass.
        mode: "before" nothing of the next write is sent, "cut" a part of its bytes, "after" it
            is carried out and its reply lost.
        error: What is raised; after any but `Killed` the connection can be used again.
    """

    def __init__(self, server, after, mode, error=Killed):
        self.left, self.mode, self.error = after, mode, error
        self.side = server.client()
        fuse = self

        class Breaking(redis.Connection):
            def send_packed_command(self, command, check_health=True):
                fuse.left -= 1
                if fuse.left == -1:
                    fuse.last_write(self, command)
                    raise fuse.error("broken")
                if fuse.left < -1 and fuse.error is Killed:  # the dead don't clean up
                    raise redis.ConnectionError("dead")
                super().send_packed_command(command, check_health)

        pool = redis.ConnectionPool(Breaking, host=server.host, port=server.port)
        self.client = redis.Redis(connection_pool=pool)

    def last_write(self, connection, command):
        parts = [command] if isinstance(command, bytes) else command
        data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
        size = {"before": 0, "cut": random.randrange(1, len(data)), "after": len(data)}[self.mode]
        if size and connection._sock:
            connection._sock.sendall(data[:size])
            for _ in range(2):  # the second reply comes after all that was sent before
                self.side.ping()

    def convert(self, batch):
        """Return whether the conversion ended."""
        try:
            with closing(Migration(self.client, NAME, batch)) as migration:
                migration.run(lambda _: None)
        except (Killed, redis.RedisError):
            return False
        finally:
            self.client.close()
            self.side.close()
        return True


def refused_or_done(client, engine, reference):
    """Whether no engine would work on half a queue."""
    if state(client) == reference:
        return True
    with pytest.raises(SchemaMismatch):
        engine.lease()
    return True


@pytest.mark.parametrize("mode", ["before", "cut", "after"])
def test_killed_at_any_command_and_started_again_it_loses_and_doubles_nothing(
    server, redis_client, old_engine, reference, mode
):
    after, ended = 0, False
    while not ended:
        redis_client.flushall()
        fill(redis_client)
        ended = Fuse(server, after, mode).convert(batch=2)
        assert refused_or_done(redis_client, old_engine, reference)
        convert(redis_client, 2)
        assert state(redis_client) == reference
        after += 1
    assert after > 40


@pytest.mark.parametrize("mode", ["before", "cut", "after"])
def test_a_broken_connection_is_repaired_or_reported(server, redis_client, reference, mode):
    after, ended = 0, 0
    while ended < 3:
        redis_client.flushall()
        fill(redis_client)
        ended += Fuse(server, after, mode, redis.ConnectionError).convert(batch=2)
        convert(redis_client, 2)
        assert state(redis_client) == reference
        after += 3


@pytest.mark.parametrize("seed", range(8))
def test_killed_again_and_again_it_gets_to_the_end(server, redis_client, reference, seed):
    chance = random.Random(seed)
    fill(redis_client)
    for _ in range(200):
        mode = chance.choice(["before", "cut", "after"])
        if Fuse(server, chance.randrange(40), mode).convert(chance.choice([1, 2, 3])):
            break
    assert state(redis_client) == reference


@pytest.mark.parametrize("boundary", range(1, 6))
def test_stopped_at_a_batch_boundary_it_goes_on_there(old, boundary, reference):
    fill(old)
    moved = stop_after(old, boundary)
    assert old.get("vtrr:files:schema") == b"migrating"

    rest, _ = convert(old, 2)

    assert moved + rest.items == len(WAITING) + len(LEASED)
    assert state(old) == reference


def test_two_conversions_at_once_do_each_batch_once(server, redis_client):
    for number in range(300):
        enqueue_old(redis_client, f"{number:03}", number, f"p{number % 3}")
    done = []

    def run():
        with server.client() as client:
            while True:
                try:
                    done.append(convert(client, 7)[0].waiting)
                except MigrationRefused:
                    continue
                return

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sum(done) <= 300
    for part in range(3):
        backlog = redis_client.lrange(f"vtrr:files:backlog:p{part}", 0, -1)
        assert [int(item_id) for item_id in backlog] == list(range(part, 300, 3))
    assert redis_client.hlen("vtrr:files:task") == 300


class Raced(Migration):
    """At one moment 0.2 writes an item, and another conversion sets it aside."""

    moment = ""

    def _race(self):
        self.moment = ""
        enqueue_old(self._client, "late", 9, "acme")
        with closing(Migration(self._client, NAME)) as other:
            assert not other._put_in_place()

    def _move(self, source, pipe):
        if source == self.moment:
            self._race()
            raise redis.WatchError
        return super()._move(source, pipe)

    def _put_in_place(self):
        if self.moment == "place":
            self._race()
        return super()._put_in_place()


@pytest.mark.parametrize("moment", ["task", "place"])
def test_what_another_conversion_sets_aside_is_not_thrown_away(redis_client, moment):
    fill(redis_client)
    with closing(Raced(redis_client, NAME)) as migration:
        migration.moment = moment
        migration.run(lambda _: None)

    assert redis_client.lrange("vtrr:files:backlog:acme", 0, -1)[-1] == b"late"
    assert migration.placed.waiting == len(WAITING) + 1
