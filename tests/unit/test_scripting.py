"""Scripts are composed from header, includes and body, and say truly what they use."""

import hashlib
import re
from importlib.resources import files

import pytest

from vtrr_queue import scripting
from vtrr_queue.keys import OPTIONS, PREFIX, SCHEMA, SCRIPT_KEYS
from vtrr_queue.scripting import compose_all, load, parse_header, script_names

FOLDER = files("vtrr_queue.scripts")
SOURCES = {
    path.name.removesuffix(".lua"): path.read_text()
    for folder in (FOLDER, FOLDER / "lib")
    for path in folder.iterdir()
    if path.name.endswith(".lua")
}
LIBRARY = sorted(set(SOURCES) - set(script_names()))


@pytest.fixture
def compose(monkeypatch):
    """Compose a script named `main` from sources that a test gives by file name."""

    def compose(**sources):
        texts = {name.replace("lib_", "lib/"): text for name, text in sources.items()}
        monkeypatch.setattr(scripting, "_read", texts.__getitem__)
        return load.__wrapped__("main")

    return compose


def code(source):
    """The lines after the header."""
    lines = source.splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def test_there_is_a_script_for_each_verb():
    assert script_names() == (
        "ack", "bury", "cancel", "count", "drop", "enqueue", "forget_triggers", "fronts", "lease",
        "purge", "reclaim", "release", "renew", "requeue", "retry", "set_policy",
    )  # fmt: skip
    assert set(compose_all()) == set(script_names())


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_body_names_its_keys_and_arguments(name):
    """No positions outside of what the loader writes, and no key that isn't declared."""
    body, header = code(SOURCES[name]), parse_header(SOURCES[name])
    assert not re.findall(r"KEYS\[|ARGV\[\d", body)
    used = {key for key in SCRIPT_KEYS if re.search(rf"\b{key.upper()}\b", body)}
    assert used == set(header.keys)


@pytest.mark.parametrize("name", script_names())
def test_a_script_is_described_in_full(name):
    """Summary, arguments, replies and cost; the echo comes first and in each reply."""
    header = load(name).header
    assert header.summary.endswith(".")
    assert header.cost.startswith("O(")
    assert header.arguments[0][:2] == ("echo", "str")
    replies = header.returns.split(" | ")
    assert all(re.match(r'\{ ?"\w+", (echo|token)', reply) for reply in replies)
    assert '{"schema", echo, found}' in header.returns


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_file_holds_the_function_it_is_named_after(name):
    assert re.findall(r"^local function (\w+)\(", SOURCES[name], re.MULTILINE) == [name]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_includes_are_what_is_called(name):
    """A script includes only what it uses, itself or through what it includes."""
    body, included = code(SOURCES[name]), parse_header(SOURCES[name]).includes
    called = {lib for lib in LIBRARY if lib != name and re.search(rf"\b{lib}\(", body)}
    assert set(included) <= called
    reached = set(included)
    for lib in scripting._ordered(name, included, options=OPTIONS):
        reached.add(lib)
    assert called <= reached


def keys_in(script):
    """Keys whose names stand in a script's text."""
    return set(re.findall(rf'"{PREFIX}(\w+)"', script.text))


@pytest.mark.parametrize("name", script_names())
def test_a_script_is_what_its_hash_says(name):
    script = load(name)
    assert hashlib.sha1(script.text.encode()).hexdigest() == script.sha
    assert load(name) is script


@pytest.mark.parametrize("name", script_names())
def test_functions_stand_before_their_users(name):
    """Each once, but for what stands inside rare functions."""
    text = load(name).text
    for function in LIBRARY:
        defined = [
            match.start() for match in re.finditer(
                rf"^local (?:function {function}\(|{function} = function)", text, re.MULTILINE
            )
        ]  # fmt: skip
        inside = re.search(rf"^ +local function {function}\(", text, re.MULTILINE)
        calls = re.finditer(rf"^.*?(?<!function )\b{function}\(", text, re.MULTILINE)
        used = [call.start() for call in calls]
        assert len(defined) <= 1
        assert not used or inside or defined[0] < min(used)


def test_keys_and_constants_stand_where_their_names_were(compose):
    """The arguments come before the body, functions where they are called; key names are whole."""
    script = compose(
        main="--- Do.\n-- @key task hash x\n-- @key dead hash x\n-- @arg echo str\n-- @arg n int\n"
        "-- @rest more ids\n-- @include b\nb(TASK, n)\nreturn { echo, more, EXPECTED_SCHEMA }\n",
        lib_b="--- B.\n-- @key lease hash x\n-- @include c\n"
        "local function b(key, n)\n  c(LEASE)\nend\n",
        lib_c="--- C.\nlocal function c(key)\n  redis.call(key)\nend\n",
    )
    assert keys_in(script) == {"task", "lease"}
    assert script.text == (
        "-- vtrr-queue main\n"
        "local echo = ARGV[1]\n"
        "local n = tonumber(ARGV[2])\n"
        "local more = 3\n"
        "do\n"
        '  local key, n = "vtrr:task", n\n'
        "  do\n"
        '    local key = "vtrr:lease"\n'
        "    redis.call(key)\n"
        "  end\n"
        "end\n"
        f'return {{ echo, more, "{SCHEMA}" }}\n'
    )


def test_what_only_a_rare_function_needs_stands_inside_it(compose):
    """It is built where that is called, and only then."""
    script = compose(
        main="--- Do.\n-- @include both\n-- @include seldom\nboth()\nseldom(1)\n",
        lib_both="--- A.\nlocal function both()\n  f()\nend\n",
        lib_own="--- B.\nlocal function own()\n  g()\nend\n",
        lib_seldom="--- C.\n-- @rare\n-- @include own\n-- @include both\n"
        "local function seldom(x)\n  own()\n  both()\n  return x\nend\n",
    )
    assert script.text == (
        "-- vtrr-queue main\n"
        "do\n"
        "  f()\n"
        "end\n"
        "local _ = (function(x)\n"
        "  local function own()\n    g()\n  end\n"
        "  local function both()\n    f()\n  end\n"
        "  own()\n"
        "  both()\n"
        "  return x\n"
        "end)(1)\n"
    )


def test_a_function_that_two_others_include_stands_once(compose):
    """Before both, when it has to stay a function."""
    script = compose(
        main="--- Do.\n-- @include a\n-- @include b\nreturn f(a()) + f(b())\n",
        lib_a="--- A.\n-- @include c\nlocal function a()\n  g()\n  return f(c())\nend\n",
        lib_b="--- B.\n-- @include c\nlocal function b()\n  g()\n  return f(c())\nend\n",
        lib_c="--- C.\nlocal function c()\n  g()\nend\n",
    )
    assert re.findall(r"function (\w)", script.text) == ["c", "a", "b"]


def test_no_variable_bears_the_name_of_a_function():
    """Else a function that is put where it is called would find that instead."""
    for name, source in SOURCES.items():
        declared = re.findall(r"\blocal ((?!function)[\w, ]+)", source)
        declared += re.findall(r"\bfunction \w+\((.*)\)", source)
        declared += re.findall(r"\bfor ([\w, ]+) (?:=|in)\b", source)
        words = {word.strip() for each in declared for word in each.split(",")}
        assert not words & set(LIBRARY), name
        assert name in {"check_schema", "policy_of"} or not words & {"uses", "policies", "PLAIN"}


def test_includes_that_form_a_cycle_are_refused(compose):
    with pytest.raises(ValueError, match="include cycle in main: a -> b -> a"):
        compose(
            main="--- Do.\n-- @include a\n",
            lib_a="--- A.\n-- @include b\n",
            lib_b="--- B.\n-- @include a\n",
        )


@pytest.mark.parametrize("line", ["-- @key taks hash x", "-- @arg n float"])
def test_a_header_with_an_unknown_name_is_refused(line):
    with pytest.raises(ValueError, match=r"unknown key or type '(taks|float)' in '--- Do.'"):
        parse_header(f"--- Do.\n{line}\n")


def test_only_the_first_comment_block_is_the_header():
    header = parse_header("--- Do.\n-- @return {a}\n-- @return | {b}\n\n-- @key task hash x\n")
    assert (header.returns, header.keys) == ("{a} | {b}", {})


@pytest.mark.parametrize("options", ["", "p", "cl", "pr", "dx"])
@pytest.mark.parametrize("name", script_names())
def test_a_script_leaves_out_what_serves_other_options_only(name, options):
    """Its functions and its keys; what calls them stands behind a test that is false."""
    full, plain = load(name), load(name, options)
    if full.header.optional:
        assert plain == full
        return
    kept = set(options)
    for lib in LIBRARY:
        letters = set(parse_header(SOURCES[lib]).optional)
        if letters and not letters & kept:
            assert f"local function {lib}(" not in plain.text
            assert f"local function {lib}(" not in load(name, "").text
    assert set(re.findall(r"\buses\.(\w)", plain.text)) <= kept
    assert keys_in(plain) <= keys_in(full)
    assert "KEYS[" not in plain.text


def test_letters_of_options_are_those_there_are():
    """Each is that of a function or of a branch."""
    found = {letter for source in SOURCES.values() for letter in parse_header(source).optional}
    found |= {letter for text in SOURCES.values() for letter in re.findall(r"\buses\.(\w)\b", text)}
    assert "".join(sorted(found)) == OPTIONS
