"""What the app answers, whoever asks."""

import json
import subprocess
import sys
import threading

import httpx
import pytest

from tests.processes import spawn
from tests.queues import audited_engine, items
from tests.servers import free_port
from tests.waiting import eventually
from tests.web.serving import TOKEN, served
from vtrr_queue.errors import ArgumentError, ArgumentTypeError
from vtrr_queue.web import create_app
from vtrr_queue.web.live import VIEWS_AT_ONCE

HEADERS = {"X-VTRR-Token": TOKEN}
PAUSE = {"queue": "files", "partition": "acme"}
PATHS = ["/", "/page.css", "/page.js", "/icon.svg", "/about", "/state", "/nothing", "/why"]


def reads(server):
    """How many commands that read the size of the queue the server has run."""
    with server.client() as client:
        return client.info("commandstats").get("cmdstat_hlen", {"calls": 0})["calls"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_security_headers(client, path):
    """Errors too; nothing inline, nothing from elsewhere, no frames."""
    answer = client.get(path)
    policy = dict(each.split(" ", 1) for each in
                  answer.headers["Content-Security-Policy"].split("; "))  # fmt: skip
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_page_names_no_other_site_and_no_secret(client, server):
    """Its files come from here only, and know neither the token nor the address of Redis."""
    for path in ("/", "/page.css", "/page.js", "/rows.js", "/acts.js", "/chart.js", "/about"):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert TOKEN not in text
        assert str(server.port) not in text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-VTRR-Token": ""},
        {"X-VTRR-Token": TOKEN[:-1]},
        {"Authorization": f"Bearer {TOKEN}"},
        {"Cookie": f"X-VTRR-Token={TOKEN}"},
        {**HEADERS, "Origin": "https://evil.example"},
        {**HEADERS, "Origin": "null"},
        {**HEADERS, "Sec-Fetch-Site": "cross-site"},
        {**HEADERS, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_nobody_else_may_act(client, engine, headers):
    """Not without the token, and not from the page of another site that knows it."""
    assert client.post("/do/pause", json=PAUSE, headers=headers).status_code == 403
    assert not engine.policy("acme").paused


def test_who_has_the_token_may_act(client, engine):
    """From our page as the browser says it, or from a program."""
    own = str(client.base_url).rstrip("/")
    for more in ({}, {"Origin": own}, {"Sec-Fetch-Site": "same-origin"}):
        assert client.post("/do/pause", json=PAUSE, headers=HEADERS | more).status_code == 200
        assert engine.policy("acme").paused
        assert client.post("/do/resume", json=PAUSE, headers=HEADERS | more).status_code == 200
        assert not engine.policy("acme").paused


def test_an_action_needs_a_post(client):
    assert client.get("/do/pause", params=PAUSE, headers=HEADERS).status_code == 405


@pytest.mark.parametrize(
    ("action", "body", "named"),
    [
        ("pause", {"queue": "other", "partition": "a"}, "queue"),
        ("pause", {"queue": "files"}, "partition"),
        ("pause", {"queue": "files", "partition": 1}, "partition"),
        ("pause", {"queue": "files", "partition": "\ud800"}, "partition"),
        ("set", {"queue": "files", "partition": "a"}, "share"),
        ("set", {"queue": "files", "partition": "", "share": 1}, "partition"),
        ("set", {"queue": "files", "partition": "a", "share": 0}, "share"),
        ("set", {"queue": "files", "partition": "a", "cap": "many"}, "cap"),
        ("set", {"queue": "files", "partition": "a", "rate": "fast"}, "rate"),
        ("requeue", {"queue": "files", "item": ""}, "item"),
        ("explode", {"queue": "files"}, "action"),
        ("pause", ["files"], "body"),
    ],
)
def test_a_wrong_request_is_refused_by_name(client, action, body, named):
    headers = HEADERS | {"Content-Type": "application/json"}
    answer = client.post(f"/do/{action}", content=json.dumps(body), headers=headers)
    assert answer.status_code == 400
    assert named in answer.json()["error"]


def test_a_request_must_be_json_and_short(client):
    """A form of another site is neither."""
    form = client.post("/do/pause", data=PAUSE, headers=HEADERS)
    assert (form.status_code, "Content-Type" in form.json()["error"]) == (400, True)
    long = client.post("/do/pause", json={"partition": "x" * 300_000}, headers=HEADERS)
    assert long.status_code == 400
    deep = client.post("/do/pause", content="[" * 100_000,
                       headers=HEADERS | {"Content-Type": "application/json"})  # fmt: skip
    assert deep.status_code == 400


def test_a_cap_can_be_taken_away(client, engine):
    """`none` is no limit at all, null the default."""
    for value, kept in ((3, 3), ("none", float("inf")), (None, None)):
        client.post("/do/set", json=PAUSE | {"cap": value}, headers=HEADERS).raise_for_status()
        assert engine.policy("acme").cap == kept


@pytest.mark.parametrize("query", [{"queue": "other"}, {"sort": "size"}])
def test_a_view_that_does_not_exist(client, query):
    assert client.get("/state", params=query).status_code == 400
    assert client.get("/events", params=query).status_code == 400


def messages(stream, count):
    """The next messages of a stream of events."""
    found = []
    for line in stream.iter_lines():
        if line.startswith("data: "):
            found.append(line.removeprefix("data: "))
        if len(found) == count:
            return found
    return found


def test_all_viewers_share_one_reader_and_nobody_costs_nothing(server, serve):
    """Ten viewers cost as many commands as one; with none, Redis hears nothing."""
    url = serve()

    def watch():
        with httpx.stream("GET", f"{url}/events", timeout=10) as stream:
            messages(stream, 6)

    before = reads(server)
    watch()
    one = reads(server) - before
    watchers = [threading.Thread(target=watch) for _ in range(10)]
    before = reads(server)
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join()
    assert 0 < reads(server) - before <= 2.5 * one
    counts = []

    def rests():
        """The last fifty looks, a second's worth, found the same number."""
        counts.append(reads(server))
        return len(counts) > 50 and counts[-1] == counts[-50]

    eventually(rests, 10, "Redis is left alone")


def test_different_views_are_bounded(server, serve):
    """Else anybody could load Redis by asking for ever other names."""
    url = serve()
    with httpx.Client(base_url=url, timeout=10) as client:
        streams = []
        try:
            for number in range(VIEWS_AT_ONCE):
                request = client.build_request("GET", "/events", params={"find": f"n{number}"})
                streams.append(client.send(request, stream=True))
            assert {stream.status_code for stream in streams} == {200}
            assert client.get("/events", params={"find": "more"}).status_code == 400
        finally:
            for stream in streams:
                stream.close()
        eventually(
            lambda: client.send(client.build_request("GET", "/events", params={"find": "more"}),
                                stream=True).status_code == 200, 10, "room again",
        )  # fmt: skip


NAMES = ["shop.example", "*.internal.example", "::1"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("shop.example", 200),
        ("SHOP.example:8380", 200),
        ("a.internal.example", 200),
        ("[::1]:8380", 200),
        ("evil.example", 400),
        ("shop.example.evil.example", 400),
        ("evilshop.example", 400),
        ("internal.example", 400),
        ("127.0.0.1", 400),
        ("shop.example@evil.example", 400),
        ("[::1", 400),
        ("", 400),
    ],
)
def test_it_answers_under_its_names_only(serve, host, status):
    """Else a site that points its own name here (DNS rebinding) could read it."""
    answer = httpx.get(f"{serve(allow_hosts=NAMES)}/state", headers={"Host": host})
    assert answer.status_code == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_without_names_it_answers_under_any(serve):
    """Inside a site it can't know them; `"*"` says so outright."""
    for options in ({}, {"allow_hosts": ["*"]}):
        answer = httpx.get(f"{serve(**options)}/state", headers={"Host": "any.example"})
        assert answer.status_code == 200


def test_a_failure_says_nothing_about_redis(client, server):
    """Neither its address nor what went wrong."""
    server.stop()
    try:
        answer = client.get("/state")
    finally:
        server.start()
    assert (answer.status_code, answer.json()) == (503, {"error": "Redis does not answer"})


def test_several_queues_have_one_page(engine, redis_client):
    """Each under its name; the first is shown when none is named."""
    with audited_engine(redis_client, "mail") as mail:
        engine.enqueue("acme", items("a1"))
        mail.enqueue("bolt", items("b1", "b2"))
        with served(create_app(engine, mail)) as url:
            assert httpx.get(f"{url}/about").json()["queues"] == ["files", "mail"]
            states = [httpx.get(f"{url}/state{query}").json() for query in ("", "?queue=mail")]
    assert [state["rows"][0]["name"] for state in states] == ["acme", "bolt"]


@pytest.mark.parametrize(
    ("queues", "options", "error", "named"),
    [
        ((), {}, ArgumentError, "queues"),
        (("files",), {}, ArgumentTypeError, "queues"),
        (("engine", "engine"), {}, ArgumentError, "queues"),
        (("engine",), {"token": "short"}, ArgumentError, "token"),
        (("engine",), {"token": "é" * 20}, ArgumentError, "token"),
        (("engine",), {"token": " " + "a" * 20}, ArgumentError, "token"),
        (("engine",), {"token": b"a" * 20}, ArgumentTypeError, "token"),
        (("engine",), {"allow_hosts": "shop.example"}, ArgumentTypeError, "allow_hosts"),
        (("engine",), {"allow_hosts": [1]}, ArgumentTypeError, "allow_hosts"),
        (("engine",), {"allow_hosts": []}, ArgumentError, "allow_hosts"),
        (("engine",), {"allow_hosts": ["a.*"]}, ArgumentError, "allow_hosts"),
        (("engine",), {"allow_hosts": ["http://a"]}, ArgumentError, "allow_hosts"),
        (("engine",), {"allow_hosts": ["a:80"]}, ArgumentError, "allow_hosts"),
        (("engine",), {"refresh_seconds": 0}, ArgumentError, "refresh_seconds"),
        (("engine",), {"refresh_seconds": "2"}, ArgumentTypeError, "refresh_seconds"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(engine, queues, options, error, named):
    """And a token is not repeated in the error."""
    given = [engine if queue == "engine" else queue for queue in queues]
    with pytest.raises(error, match=named) as caught:
        create_app(*given, **options)
    assert str(options.get("token", "-----")) not in str(caught.value)


def test_it_runs_alone(server, engine, tmp_path):
    """`python -m vtrr_queue.web` serves the page, under its own names only."""
    engine.enqueue("acme", items("a1"))
    (tmp_path / "token").write_text(TOKEN + "\n")
    port = free_port()
    command = [sys.executable, "-m", "vtrr_queue.web", "--redis", server.url(), "--name", "files",
               "--port", str(port), "--token-file", str(tmp_path / "token")]  # fmt: skip
    process = spawn(command)
    try:
        url = f"http://localhost:{port}"
        state = eventually(lambda: answer_of(f"{url}/state"), 20, "the page answers").json()
        assert [row["name"] for row in state["rows"]] == ["acme"]
        done = httpx.post(f"{url}/do/pause", json=PAUSE, headers=HEADERS)
        assert done.status_code == 200
        assert engine.policy("acme").paused
        rebound = httpx.get(f"{url}/state", headers={"Host": "evil.example"})
        assert rebound.status_code == 400
        assert "Content-Security-Policy" in rebound.headers
        with httpx.stream("GET", f"{url}/events") as stream:
            messages(stream, 1)
            process.terminate()
            assert process.wait(10) is not None
    finally:
        process.kill()
        process.wait()


def answer_of(url):
    try:
        return httpx.get(url)
    except httpx.TransportError:
        return None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--redis", "redis://localhost"], "--name"),
        (["--name", "files"], "--redis"),
        (["--redis", "localhost", "--name", "files"], "--redis"),
        (["--redis", "redis://localhost", "--name", "a{b}"], "name"),
        (["--redis", "redis://localhost", "--name", "a", "--token-file", "/no/such"], "/no/such"),
        (["--redis", "redis://localhost", "--name", "a", "--refresh", "0"], "refresh"),
        (["--redis", "redis://localhost", "--name", "a", "--allow-host", "http://a"], "http://a"),
    ],
)
def test_a_wrong_option_is_refused(arguments, named, capsys, monkeypatch):
    from vtrr_queue.web.command import main  # noqa: PLC0415 - needs uvicorn

    monkeypatch.delenv("VTRR_REDIS_URL", raising=False)
    assert main(arguments) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_extra_says_what_to_install(package):
    """Without an optional package the command names it and what installs it."""
    code = (f"import runpy, sys; sys.modules[{package!r}] = None;"
            "runpy._run_module_as_main('vtrr_queue.web')")  # fmt: skip
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           check=False)  # fmt: skip
    assert ended.returncode == 1
    assert "pip install 'vtrr-queue[web]'" in ended.stderr.splitlines()[-1]
