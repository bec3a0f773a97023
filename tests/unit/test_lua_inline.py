"""Library functions are put where they are called, and what a script does stays the same."""

import pytest

from vtrr_queue.lua_inline import parse_function, seldom, with_functions
from vtrr_queue.lua_text import outer_parts


def placed(text, *sources, rare=()):
    """A script with these functions where it calls them."""
    functions = [parse_function(source) for source in sources]
    return with_functions(text, [(each, each.name in rare) for each in functions])


def test_a_function_becomes_a_block():
    """Its results come back through variables that nothing else has the name of."""
    source = "local function f(a, b)\n  local c = a + b\n  return c, a\nend\n"
    assert placed("local b, x = f(1, b)\nreturn x", source) == (
        "local b_1, x_1\n"
        "do\n"
        "  local a, b = 1, b\n"
        "  local c = a + b\n"
        "  b_1, x_1 = c, a\n"
        "end\n"
        "local b, x = b_1, x_1\n"
        "return x"
    )


def test_an_early_return_leaves_the_block():
    source = "local function f(a)\n  if a then\n    return 1\n  end\n  g()\n  return 2\nend\n"
    assert placed("x = f(y)", source) == (
        "local x_1\n"
        "repeat\n"
        "  local a = y\n"
        "  if a then\n"
        "    x_1 = 1\n"
        "    break\n"
        "  end\n"
        "  g()\n"
        "  x_1 = 2\n"
        "until true\n"
        "x = x_1"
    )


def test_an_expression_takes_the_place_of_its_call():
    """Where the arguments are names or plain values; what its names mean there does not matter."""
    source = 'local function f(a, b)\n  return g(a, "a") or h.a(b)\nend\n'
    assert placed("return 1 + f(x, 2)", source) == 'return 1 + (g(x, "a") or h.a(2))'
    assert placed("return f(x)", source) == 'return (g(x, "a") or h.a(nil))'
    assert "local function f(a, b)" in placed("return f(x + 1, 2)", source)


def test_a_function_that_is_called_seldom_is_built_there():
    source = "local function f(a)\n  for n = 1, a do\n    return n\n  end\nend\n"
    assert placed("if x then\n  y = f(2) or 3\nend", source, rare="f") == (
        "if x then\n"
        "  y = (function(a)\n"
        "    for n = 1, a do\n"
        "      return n\n"
        "    end\n"
        "  end)(2) or 3\n"
        "end"
    )
    assert placed("f(2)", source, rare="f").startswith("local _ = (function(a)\n")


def test_a_function_that_returns_from_a_loop_stays_one():
    source = "local function f(a)\n  for n = 1, a do\n    return n\n  end\nend\n"
    assert placed("local x = f(2)", source) == f"{source}local x = f(2)"


def test_a_function_that_is_called_inside_another_expression_stays_one():
    """And what it keeps for the whole script stands before it."""
    source = "local kept = {}\nlocal function f(a)\n  kept[1] = a\n  return a\nend\n"
    assert placed("return g(f(1))", source) == f"{source}return g(f(1))"


def test_what_a_function_keeps_stands_before_the_script():
    source = "local kept = {}\nlocal function f(a)\n  kept[1] = a\nend\n"
    assert placed("f(1)\nf(2)", source).startswith("local kept = {}\ndo\n")
    assert placed("g(1)", source) == "g(1)"


def test_only_what_is_called_stands_inside_a_seldom_one():
    inner = [parse_function(f"local function {name}()\n  g()\nend\n") for name in "bc"]
    function = seldom(parse_function("local function f()\n  c()\nend\n"), inner)
    assert function.body == ("  local function c()", "    g()", "  end", "  c()")


def test_what_is_no_function_is_refused():
    with pytest.raises(ValueError, match="not a library function: 'local x = 1'"):
        parse_function("local x = 1")


def test_parts_are_split_outside_of_parentheses_and_quotes():
    assert outer_parts('a, f(b, c), "d, e", { g, h }', ",") == [
        "a", " f(b, c)", ' "d, e"', " { g, h }",
    ]  # fmt: skip


SOURCES = (
    "local function add(a, b)\n  return a + b\nend\n",
    (
        "local function sign(a)\n  if a < 0 then\n    return -1, a\n  elseif a == 0 then\n"
        "    return 0\n  end\n  return 1, a\nend\n"
    ),
    (
        "local function both(a, b)\n  local s, same = sign(a)\n  local t = sign(b)\n"
        "  if s == t then\n    return add(a, b), s\n  end\n  return same, t\nend\n"
    ),
    (
        "local function first(list)\n  for n, each in ipairs(list) do\n    if each > 2 then\n"
        "      return n\n    end\n  end\nend\n"
    ),
)
BODY = """local found = {}
for a = -2, 2 do
  for b = -2, 2 do
    local sum, a = both(a, b)
    found[#found + 1] = tostring(sum) .. tostring(a)
    if add(b, 1) == 0 then
      sum = first({ 1, b, 3 })
    end
    found[#found + 1] = tostring(sum)
  end
end
return found
"""


@pytest.mark.parametrize("rare", [(), ("first",), ("first", "sign"), ("both",)], ids=str)
def test_a_server_runs_both_to_the_same_end(redis_client, rare):
    """Early returns, names that stand for something else outside, and missing results."""
    whole = redis_client.eval("".join(SOURCES) + BODY, 0)
    functions, before = [], []
    for source in SOURCES:
        function = parse_function(source)
        is_rare = function.name in rare
        functions.append((seldom(function, before) if is_rare else function, is_rare))
        before.append(function)
    text = with_functions(BODY, functions)
    assert redis_client.eval(text, 0) == whole
    assert len(whole) == 50
