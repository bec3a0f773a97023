"""What people see in a real browser, and what they can do there."""

import json

import pytest

from tests.queues import items
from tests.waiting import eventually
from tests.web.serving import TOKEN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

NAMES = [
    "<img src=x onerror=document.title='broken'>", "\"'`&amp;\\", "🐙 octo 👩‍👩‍👧", "שלום עולם",
    "evil\u202egnp.exe", " ", "__proto__", "a\nb", "%00?x=1#y", "x" * 3000,
]  # fmt: skip


def rows(page):
    """Mapping partition -> its cells, without the buttons."""
    found = page.run("""[...document.querySelectorAll("#rows tbody tr")].map(row =>
        [row.querySelector(".name").textContent, ...[...row.cells].slice(1, 5).map(
            cell => cell.innerText.trim())])""")
    return {name: cells for name, *cells in found}


def row_button(name, act):
    """Selector of a button in the row of a partition with a simple name."""
    return f'#rows tr:has([title="{name}"]) button[data-act="{act}"]'


def unlock(page, token=TOKEN):
    page.click("#unlock")
    page.wait_text("#token-dialog h2", "Unlock actions")
    page.type(token)
    page.press("Enter", 13, "\r")


def test_it_shows_a_flooding_tenant_and_a_small_one(browser, engine, serve):
    """With what waits and runs of each, and its part of what is served against its share."""
    engine.enqueue("acme", items(*(f"a{number}" for number in range(1200))))
    engine.enqueue("bolt", items("b1", "b2", "b3"))
    engine.set_policy("bolt", share=3.0, cap=2)
    engine.enqueue("later", items("l1", delay_ms=60_000))
    assert len(engine.lease(count=3).items) == 3
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        found = rows(page)
        assert list(found) == ["acme", "bolt"]
        assert found["acme"][0] == "1,199"
        assert found["acme"][2:] == ["1", "33 % of 25 % due"]
        assert (found["bolt"][0], found["bolt"][2]) == ("1", "2 of 2")
        assert found["bolt"][3] == "67 % of 75 % due, share 3"
        assert page.texts("#rows .chip") == ["capped"]
        totals = dict(zip(page.texts("#totals dt"), page.texts("#totals dd"), strict=True))
        assert totals["Waiting"] == "1,200"
        assert (totals["Running"], totals["Delayed"], totals["Partitions"]) == ("3", "1", "2")
        width = page.run("""(row => row.querySelector(".used").getBoundingClientRect().width
            / row.querySelector(".track").getBoundingClientRect().width)
            (document.querySelector("#rows tbody tr"))""")
        assert width == pytest.approx(1 / 3, abs=0.02)
        assert page.texts("#legend li")[1:] == ["acme", "bolt"]
        assert page.run("document.querySelectorAll('#chart path').length") >= 1


def test_it_changes_as_the_queue_does(browser, engine, serve):
    """Without a reload, and without losing the element that has the focus."""
    engine.enqueue("acme", items("a1", "a2"))
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        page.run("document.querySelector('[data-act=why]').focus(), 1")
        engine.enqueue("bolt", items(*(f"b{number}" for number in range(500))))
        eventually(lambda: rows(page).get("bolt", [""])[0] == "500", 10, "bolt comes")
        assert page.run("document.activeElement.closest('tr').querySelector('.name').title") == (
            "acme"
        )
        engine.purge("bolt")
        eventually(lambda: list(rows(page)) == ["acme"], 10, "bolt goes")


def test_rows_stay_where_they_are_under_the_pointer(browser, engine, serve):
    """So that nobody pauses another tenant than the one that was meant."""
    engine.enqueue("acme", items("a1", "a2"))
    engine.enqueue("bolt", items("b1"))
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        page.click(row_button("bolt", "why"))
        eventually(lambda: page.texts("#why li"), 10, "the reasons")  # they move the button
        page.click("#why-dialog [data-close]")
        eventually(lambda: page.texts("#why-title") == [], 10, "the dialog closes")
        page.run("document.activeElement.blur(), 1")
        hovers = "document.querySelector('#rows tbody').matches(':hover')"
        eventually(lambda: page.point_at("#rows tbody th") or page.run(hovers), 10, "the pointer")
        engine.enqueue("bolt", items("b2", "b3", "b4"))
        eventually(lambda: rows(page)["bolt"][0] == "4", 10, "the number of bolt")
        assert list(rows(page)) == ["acme", "bolt"]
        page.point_away()
        eventually(lambda: list(rows(page)) == ["bolt", "acme"], 10, "the new order")


def test_it_pauses_with_a_token_only(browser, engine, serve):
    """A wrong token is refused; the right one shows the buttons until the page is left."""
    engine.enqueue("acme", items("a1", "a2"))
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        assert page.texts("#rows button") == ["Why"]
        unlock(page, "another token of the tests")
        page.wait_text("#token-dialog .error", "the token is missing or wrong")
        page.click("#token-dialog [data-close]")
        assert page.texts("#rows button") == ["Why"]
        assert any("403" in error for error in page.errors())
        page.forget_errors()
        unlock(page)
        page.click(row_button("acme", "pause"))
        eventually(lambda: engine.policy("acme").paused, 10, "acme is paused")
        page.wait_text("#rows .chip", "paused")
        assert not engine.lease().items
        page.click(row_button("acme", "resume"))
        eventually(lambda: not engine.policy("acme").paused, 10, "acme goes on")
        page.click("#pause-queue")
        eventually(lambda: engine.policy("").paused, 10, "the queue is paused")
        page.wait_text("#pause-queue", "Resume the queue")
        page.click("#pause-queue")
        eventually(lambda: not engine.policy("").paused, 10, "the queue goes on")
        stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        assert TOKEN not in page.run(f"{stored} + document.documentElement.outerHTML")
        page.click("#unlock", "Lock actions")
        assert page.texts("#rows button") == ["Why"]


def test_without_a_token_there_is_nothing_to_press(browser, engine, serve):
    engine.enqueue("acme", items("a1"))
    with browser.page(serve(token=None)) as page:
        page.wait_text("#live", "live")
        assert page.texts("button") == ["Why"]
        status = page.run("""fetch("do/pause", {method: "POST", body: '{"partition": "acme"}',
            headers: {"Content-Type": "application/json"}}).then(answer => answer.status)""")
        assert status == 403
        assert not engine.policy("acme").paused
        page.forget_errors()


def test_shares_and_caps_are_set(browser, engine, serve):
    """An empty field goes back to the default; a wrong one is refused by name."""
    engine.enqueue("acme", items("a1"))
    engine.set_policy("acme", cap=7)
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        unlock(page)
        page.click(row_button("acme", "set"))
        assert page.run("document.querySelector('[name=cap]').value") == "7"
        for field, text in {"share": "2.5", "cap": "", "rate": "100/m"}.items():
            page.run(f"document.querySelector('[name={field}]').value = ''")
            page.click(f"[name={field}]")
            page.type(text)
        page.click("#set-dialog button", "Save")
        eventually(lambda: engine.policy("acme").share == 2.5, 10, "the share")
        policy = engine.policy("acme")
        assert (policy.cap, policy.rate.limit) == (None, pytest.approx(100 / 60))
        eventually(lambda: "share 2.5" in rows(page)["acme"][3], 10, "the share is shown")
        page.click(row_button("acme", "set"))
        assert page.run("document.querySelector('[name=rate]').value") == "1.66667/s"
        page.run("document.querySelector('[name=share]').value = '1000'")
        page.click("#set-dialog button", "Save")
        eventually(lambda: "share" in page.texts("#set-dialog .error")[0], 10, "the refusal")
        assert engine.policy("acme").share == 2.5
        page.forget_errors()


def bury(engine, *item_ids, partition="acme"):
    engine.enqueue(partition, items(*item_ids))
    for lease in engine.lease(count=len(item_ids)).items:
        details = {"exception": "ValueError('card 4111')", "traceback": "line 1 of secret.py"}
        engine.bury(lease.item_id, lease.token, "it raised", **details)


def test_a_dead_letter_is_requeued_or_dropped(browser, engine, serve):
    bury(engine, "d1", "d2")
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        assert page.texts("#letters tbody button") == []
        unlock(page)
        eventually(lambda: page.texts("#letters tbody button"), 10, "buttons")
        page.click('#letters tr:has([title="d1"]) [data-act=requeue]')
        eventually(lambda: rows(page).get("acme", [""])[0] == "1", 10, "d1 waits")
        assert [lease.item_id for lease in engine.lease().items] == ["d1"]
        page.click('#letters tr:has([title="d2"]) [data-act=drop]')
        page.click("#drop-dialog [data-close]")
        page.click('#letters tr:has([title="d2"]) [data-act=drop]')
        page.click("#drop-dialog .danger")
        page.wait_text("#no-letters", "None.")
        assert engine.client.read(("HLEN", engine.keys["dead"])) == [0]


def test_what_a_call_carries_is_hidden(browser, engine, serve):
    """Only the kind of exception is shown, unless the app allows more."""
    bury(engine, "d1")
    with browser.page(serve()) as page:
        page.wait_text("#letters .soft", "ValueError")
        assert "4111" not in page.run("document.documentElement.textContent")
        assert "secret" not in page.run("document.documentElement.textContent")
    with browser.page(serve(show_payloads=True)) as page:
        page.wait_text("#letters .soft", "ValueError('card 4111')")
        assert "2 bytes that are not shown" in page.texts("#letters pre")


def test_names_are_text(browser, engine, serve):
    """Markup, quotes, emoji, names from right to left, invisible ones: shown, and acted upon."""
    for at, name in enumerate(NAMES):
        engine.enqueue(name, items(f"{at}"))
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        names = page.run("[...document.querySelectorAll('#rows .name')].map(e => e.textContent)")
        shown = {"evil\u202egnp.exe": "evil\\u202egnp.exe", " ": '" "', "a\nb": "a\\u000ab"}
        assert sorted(names) == sorted(shown.get(name, name) for name in NAMES)
        assert page.run("document.images.length + document.querySelectorAll('main script').length"
                        ) == 0  # fmt: skip
        assert page.run("document.title") == "vtrr-queue"
        assert page.run("document.scrollingElement.scrollWidth") <= 1200
        unlock(page)
        page.wait_text("#unlock", "Lock actions")
        for name in NAMES:
            page.run(f"""[...document.querySelectorAll("#rows tbody tr")].find(
                row => row.data.name === {json.dumps(name)})
                .querySelector("[data-act=pause]").click(), 1""")
        for name in NAMES:
            eventually(lambda name=name: engine.policy(name).paused, 10, f"{name!r} is paused")


def test_who_uses_more_than_its_due_is_amber(browser, engine, serve):
    """By a quarter, and by more than a slot: one slot more or less is chance."""
    engine.enqueue("acme", items(*(f"a{number}" for number in range(20))))
    assert len(engine.lease(count=6).items) == 6
    engine.enqueue("bolt", items("b1", "b2"))
    over = "[...document.querySelectorAll('.track.over')].map(e => e.closest('tr').data.name)"
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        assert rows(page)["acme"][3] == "100 % of 50 % due"
        assert page.run(over) == ["acme"]
        engine.lease(count=2)
        engine.enqueue("corner", items("c1", "c2"))
        eventually(lambda: rows(page).get("corner"), 10, "corner comes")
        assert page.run(over) == ["acme"]


def test_why_something_waits(browser, engine, serve):
    engine.enqueue("acme", items("a1"))
    engine.set_policy("acme", paused=True)
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        page.click(row_button("acme", "why"))
        page.wait_text("#why-title", "Why acme waits")
        eventually(lambda: any("paused" in text for text in page.texts("#why li")), 10, "why")


def test_partitions_are_found_and_sorted(browser, engine, serve):
    """What somebody looks at stands in the address."""
    for name, count in {"acme": 3, "bolt": 2, "acorn": 1}.items():
        engine.enqueue(name, items(*(f"{name}{number}" for number in range(count))))
    url = serve()
    with browser.page(url) as page:
        page.wait_text("#live", "live")
        assert list(rows(page)) == ["acme", "bolt", "acorn"]
        page.click("#find")
        page.type("AC")
        eventually(lambda: list(rows(page)) == ["acme", "acorn"], 10, "the found ones")
        address = page.run("location.href")
    with browser.page(address) as page:
        eventually(lambda: list(rows(page)) == ["acme", "acorn"], 10, "the same view")


def test_it_works_without_a_mouse(browser, engine, serve):
    """Tab reaches a row's button, Enter presses it, Escape closes what it opened."""
    engine.enqueue("acme", items("a1"))
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        focused = "document.activeElement.dataset.act ?? ''"
        for _ in range(12):
            page.press("Tab", 9)
            if page.run(focused) == "why":
                break
        assert page.run(focused) == "why"
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.press("Enter", 13, "\r")
        page.wait_text("#why-title", "Why acme waits")
        page.press("Escape", 27)
        eventually(lambda: page.texts("#why-title") == [], 10, "the dialog closes")
        assert page.run(focused) == "why"


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_on_a_phone(browser, engine, serve, dark):
    """Nothing is wider than 380 px, and text has at least the contrast that WCAG's AA asks for."""
    bury(engine, "d" * 200)
    for name in ("acme", "x" * 300):
        engine.enqueue(name, items(f"{name}1"))
    with browser.page(serve(show_payloads=True), width=380, height=800, dark=dark) as page:
        page.wait_text("#live", "live")
        assert page.run("document.scrollingElement.scrollWidth") == 380
        assert page.run(CONTRAST) >= 4.5


CONTRAST = """(() => {
    const light = color => color.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
        .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = e => {
        const color = getComputedStyle(e).backgroundColor;
        return color === "rgba(0, 0, 0, 0)" ? ground(e.parentElement) : color;
    };
    const texts = [...document.querySelectorAll("main *, header *")].filter(e =>
        e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
        && !e.closest("svg"));
    return Math.min(...texts.map(e => {
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort();
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }));
})()"""


def test_it_says_when_redis_is_silent(browser, engine, serve, server):
    """And goes on when it answers again."""
    with browser.page(serve()) as page:
        page.wait_text("#live", "live")
        server.stop()
        try:
            page.wait_text("#live", "Redis does not answer", 30)
        finally:
            server.start()
        page.wait_text("#live", "live", 30)
