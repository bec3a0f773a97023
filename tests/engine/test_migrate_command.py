"""The command says what it did, and what to do when it did nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.old_queue import LEASED, NAME, ORDER, convert, enqueue_old, fill, state
from tests.servers import free_port
from tests.stored import stored
from vtrr_queue.migrate.command import main

MODULE = [sys.executable, "-m", "vtrr_queue.migrate"]


@pytest.fixture
def old(redis_client):
    """A client of a database that 0.2 has filled."""
    fill(redis_client)
    return redis_client


@pytest.fixture
def run(redis_url, capsys):
    """Run the command in this process: `run("--dry-run")` gives exit code, output, errors."""

    def run(*words):
        code = main(["--redis", redis_url, "--name", NAME, *words])
        return code, *capsys.readouterr()

    return run


def test_it_converts_and_says_what_it_did(old, redis_url):
    command = [*MODULE, "--redis", redis_url, "--name", NAME, "--batch", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "have not expired: 1, the last ends at 2096-10-02 07:06:40 UTC" in done.stdout
    assert "9 items converted in" in done.stdout
    assert "vtrr:files:* now has layout 5: 7 waiting, 2 leased, 0 dead letters" in done.stdout
    for partition, ids in ORDER.items():
        assert old.lrange(f"vtrr:files:backlog:{partition}", 0, -1) == [i.encode() for i in ids]


def test_help_tells_an_operator_how_to_go_about_it():
    done = subprocess.run([*MODULE, "--help"], capture_output=True, text=True, check=True)
    for words in ("Stop every producer and worker", "--dry-run", "exit codes", "VTRR_REDIS_URL"):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_dry_run_reads_everything_and_changes_nothing(old, run):
    enqueue_old(old, "bad", 3, "acme", text="{")
    before = stored(old, NAME)

    code, out, _ = run("--dry-run", "--batch", "2")

    assert code == 0
    assert "would become a dead letter: b'bad' cannot be read" in out
    assert "would convert: 7 waiting, 2 leased, 1 dead letters; partitions: 3" in out
    assert stored(old, NAME) == before


def test_dead_and_repeated_items_are_pointed_out(old, run):
    enqueue_old(old, "bad", 3, "acme", text="{")
    enqueue_old(old, LEASED[0][0], 3, "acme")
    _, out, _ = run()
    assert "stood there twice, of which the first was kept: 1" in out
    assert "dead letters are items that cannot be run" in out


def test_a_converted_queue_is_left_alone(old, run):
    convert(old)
    before = stored(old, NAME)
    assert run()[:2] == (0, "vtrr:files:* has layout 5 already: nothing to convert\n")
    assert stored(old, NAME) == before


def test_an_empty_name_is_told_apart_from_a_converted_one(redis_client, run):
    code, out, _ = run()
    assert (code, redis_client.dbsize()) == (3, 0)
    assert out == "vtrr:files:* holds no keys of vtrr-queue 0.2: nothing to convert\n"


def test_a_refusal_says_why(redis_client, run):
    redis_client.set("vtrr:files:schema", "7")
    code, out, err = run()
    assert (code, out) == (1, "")
    assert "layout '7', which is not that of release 0.2" in err


def test_a_server_that_does_not_answer_is_named_without_the_password(capsys):
    port = free_port()
    assert main(["--redis", f"redis://:secret@127.0.0.1:{port}/0", "--name", NAME]) == 1
    err = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in err
    assert "start it again" in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--redis", "nonsense", "--name", "x"], "--redis: "),
        (["--name", "x"], "VTRR_REDIS_URL"),
        (["--redis", "redis://h", "--name", ""], "must not be empty"),
        (["--redis", "redis://h", "--name", "x", "--batch", "0"], "must be 1 to 10000, not 0"),
        (["--redis", "redis://h"], "--name"),
    ],
)
def test_wrong_options_are_named(words, message, capsys, monkeypatch):
    monkeypatch.delenv("VTRR_REDIS_URL", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_address_may_come_from_the_environment(old, redis_url, monkeypatch):
    monkeypatch.setenv("VTRR_REDIS_URL", redis_url)
    assert main(["--name", NAME]) == 0


def test_an_interrupted_conversion_goes_on_and_says_so(old, run, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("vtrr_queue.migrate.conversion.Migration._put_in_place", interrupt)
        code, _, err = run("--batch", "2")
        assert (code, err) == (130, "interrupted; start it again to go on\n")
    code, out, _ = run("--batch", "2")
    assert code == 0
    assert out.startswith("vtrr:files:* is half converted: going on\n")


def test_killed_with_sigkill_again_and_again_it_gets_to_the_end(server, redis_client, redis_url):
    def fill_many():
        with redis_client.pipeline(transaction=False) as pipe:
            for number in range(3000):
                enqueue_old(pipe, f"{number:04}", number, f"p{number % 7}", timeouts=number % 3)
            pipe.execute()
        fill(redis_client)

    fill_many()
    convert(redis_client)
    reference = state(redis_client)
    redis_client.flushall()
    fill_many()

    command = [*MODULE, "--redis", redis_url, "--name", NAME, "--batch", "10"]
    killed = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ.copy())
        size = redis_client.hlen("vtrr:files:v3.task")
        while process.poll() is None and redis_client.hlen("vtrr:files:v3.task") < size + 600:
            time.sleep(0.002)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1

    assert process.returncode == 0
    assert killed >= 3
    assert state(redis_client) == reference
