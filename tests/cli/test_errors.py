"""What is wrong is named with its value, on stderr, and each kind of end has its exit code."""

import pytest

from tests.servers import free_port

pytestmark = pytest.mark.slow

WRONG = [
    (("partitions", "--limit", "0"), "'--limit': 0 is not in the range 1<=x<=1000"),
    (("partitions", "--sort", "size"), "'--sort': 'size' is not one of"),
    (("top", "--interval", "x"), "'--interval': 'x' is not a valid float"),
    (("top", "--interval", "nan"), "'--interval': 'nan' is not a number"),
    (("simulate", "--load", "nan"), "'--load': 'nan' is not a number"),
    (("hold", "a", "--for", "nan"), "'--for': 'nan' is not a number"),
    (("--redis", "redis://localhost/1?foo=bar", "status"), "--redis must be an address"),
    (("set", "a", "--share", "1000"), "share must be from 0.01 to 100, not 1000.0"),
    (("set", "a", "--share", "much"), "--share must be a number, or default, not 'much'"),
    (("set", "a", "--cap", "-1"), "--cap must be a whole number, or none, or default, not '-1'"),
    (("set", "a", "--rate", "5/y"), "rate must be a text such as '100/m', not '5/y'"),
    (("set", "a", "--burst", "3"), "--burst must go with a --rate, not 3"),
    (("pause",), "give one of PARTITION, --all, not none"),
    (("pause", "a", "--all"), "give one of PARTITION, --all, not PARTITION and --all"),
    (("hold", "a", "--for", "-1"), "'--for': -1.0 is not in the range"),
    (("purge", ""), "--yes"),
    (("purge", "", "--yes"), "partition must be"),
    (("cancel", "--yes"), "give one of ID, --partition, not none"),
    (("requeue", "x", "--all"), "not ID and --all"),
    (("requeue", "x"), "Run again 1 dead letter? Say --yes where nobody can be asked."),
    (("nonsense",), "No such command 'nonsense'"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_words_are_named(stage, shell, words, message):
    """Code 2, and nothing on stdout."""
    ran = shell.alone(*words)
    assert (ran.code, ran.out) == (2, "")
    assert message in " ".join(ran.err.split())


def test_which_queue(stage, shell):
    """An app with two queues wants to be told, before the command or behind it."""
    ran = shell.celery("leases")
    assert (ran.code, ran.out) == (2, "")
    assert "--queue must be one of 'files', 'mails', not ''" in ran.err
    ran = shell.celery("--queue", "film", "leases")
    assert "--queue must be one of 'files', 'mails', not 'film'" in ran.err
    assert shell.celery("leases", "--queue", "mails").code == 0
    url = f"{stage.env['STATE_URL']}/0"
    assert shell.celery("--redis", url, "--name", "other", "status").out.startswith("other: 0")


def test_an_app_without_a_queue(stage, shell):
    ran = shell.run("celery", "-A", "plain", "vtrr", "leases")
    assert (ran.code, "an app whose modules make a VTRRQueue" in ran.err) == (2, True)


def test_no_address_and_no_name(stage, shell):
    """The address may stand in the environment; a password in it is not shown."""
    ran = shell.run("vtrr_queue.cli", "status")
    assert (ran.code, "--redis must be an address, here or in VTRR_REDIS_URL" in ran.err) == (
        2,
        True,
    )
    ran = shell.run("vtrr_queue.cli", "--redis", "http://me:secret@there", "status", "--name", "a")
    assert (ran.code, "not 'http://***@there'" in ran.err) == (2, True)
    assert "secret" not in ran.err
    shell.env["VTRR_REDIS_URL"] = f"{stage.env['STATE_URL']}/0"
    ran = shell.run("vtrr_queue.cli", "status")
    assert (ran.code, "--name must be the name of a queue" in ran.err) == (2, True)
    assert shell.run("vtrr_queue.cli", "--name", "files", "status").code == 0
    del shell.env["VTRR_REDIS_URL"]


def test_a_server_that_is_away(shell):
    """Code 1, without a traceback."""
    url = f"redis://127.0.0.1:{free_port()}/0"
    ran = shell.run("vtrr_queue.cli", "--redis", url, "--name", "a", "status")
    assert (ran.code, ran.out) == (1, "")
    assert "Redis did not answer in 3 attempts" in ran.err
    assert "Traceback" not in ran.err


def test_a_wrong_password(stage, shell):
    """It is a refusal, told at once as the server said it."""
    url = f"{stage.env['STATE_URL']}/0".replace("redis://", "redis://nobody:wrong@")
    ran = shell.run("vtrr_queue.cli", "--redis", url, "--name", "a", "status")
    assert (ran.code, ran.out) == (1, "")
    assert "Redis refused: " in ran.err
    assert "did not answer" not in ran.err


@pytest.mark.parametrize(
    "words", [("item", "nobody"), ("why", "nobody"), ("dead", "nobody"),
              ("requeue", "nobody", "--yes"), ("drop", "nobody", "--yes")],
)  # fmt: skip
def test_what_does_not_exist(stage, shell, words):
    """Code 3."""
    assert shell.alone(*words).code == 3


def test_names_are_data(stage, shell):
    """What a terminal would obey is escaped; JSON has it as it is."""
    stage.clear()
    name = "\x1b[31m\N{SNOWMAN} red\n"
    stage.app.files.pause(name)
    stage.app.act.queue(name, [{}])
    assert "\\x1b[31m\N{SNOWMAN} red\\n  paused" in shell.alone("partitions").out
    assert shell.alone("partitions", "--json").json["rows"][0]["name"] == name
    assert shell.alone("purge", name, "--yes").out == "1 item purged\n"
    stage.clear()
