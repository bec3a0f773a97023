"""forget_triggers.lua takes triggers that could not be published out of the ledger."""


def test_only_those_named_are_forgotten(scripts):
    """Unknown ones are no error; others can be sent in their place."""
    budget = {"triggers_most": 3}
    scripts.put("a", "a1", "a2", "a3", "a4", triggers_prefix="x", **budget)
    reply = scripts.twice("forget_triggers", "e", "x-1", "x-3", "never")
    assert reply == ["forgotten", b"e", 0, 0, 0, b""]
    assert set(scripts.stored()["triggers"]) == {b"x-2"}
    assert scripts.put("a", "a5", triggers_prefix="y", **budget)[3] == 2


def test_it_refuses_keys_of_another_layout(scripts, foreign):
    assert scripts.call("forget_triggers", "e", "x-1") == ["schema", b"e", foreign]
