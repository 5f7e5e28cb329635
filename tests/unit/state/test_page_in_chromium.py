"""The page in a real Chromium, over a cluster that was made up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, Route, expect

from support import browser, operator_books, state_world, turned_clock
from unit.state.test_state_guard import Reviewer
from vgpu_operator.flows import pod_events
from vgpu_operator.flows.books import Books
from vgpu_operator.state import access

SLOWEST_TASK_MS = 200
"""What a machine that does other things, too, may take for one step of a scroll."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with browser.chromium() as running:
        yield running


def cluster(nodes: int = 12) -> Books:
    books = operator_books.open_books()
    state_world.fill(books, nodes=nodes)
    state_world.wait_for_cards(books, "too-large", memory_mib=90000)
    return books


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_page_can_be_used_by_everybody_as_far_as_axe_can_tell(
    chromium: Browser, dark: bool
) -> None:
    async with state_world.served(cluster()) as url, browser.tab(chromium, dark=dark) as seen:
        await seen.open(url)
        await seen.page.focus("#cursor")
        await seen.page.keyboard.press("Enter")
        await seen.page.fill("#query", "gpu-node-3")
        await expect(seen.page.locator("#found-lists button").first).to_be_visible()

        found = await Axe().run(seen.page)  # type: ignore[arg-type]

        told = [
            (rule["id"], [node["html"] for node in rule["nodes"]])
            for rule in found.response["violations"]
        ]
        assert told == []
        seen.assert_clean(url)


async def test_the_keyboard_reaches_every_card_and_everything_else(chromium: Browser) -> None:
    async with state_world.served(cluster()) as url, browser.tab(chromium) as seen:
        page = seen.page
        await seen.open(url)

        async def at() -> str:
            return str(await page.locator(":focus").get_attribute("aria-label"))

        await page.keyboard.press("Tab")
        assert "Skip to the map" in await page.locator(":focus").inner_text()
        await page.keyboard.press("Enter")
        assert (await at()).startswith("gpu-node-1, card 0,")

        await page.keyboard.press("ArrowRight")
        assert (await at()).startswith("gpu-node-1, card 1,")
        for _ in range(7):
            await page.keyboard.press("ArrowRight")
        assert (await at()).startswith("gpu-node-2, card 0,")
        await page.keyboard.press("ArrowLeft")
        assert (await at()).startswith("gpu-node-1, card 7,")
        await page.keyboard.press("ArrowDown")
        below = await at()
        assert not below.startswith("gpu-node-1,")
        await page.keyboard.press("ArrowUp")
        assert (await at()).startswith("gpu-node-1, card 7,")
        await page.keyboard.press("End")
        assert (await at()).startswith("gpu-node-12, card 7,")
        await page.keyboard.press("Home")

        await page.keyboard.press("Enter")
        assert await page.locator(":focus").get_attribute("id") == "card-title"
        await expect(page.locator("#card-body")).to_contain_text(state_world.card_id(0, 0))
        await page.keyboard.press("Escape")
        assert (await at()).startswith("gpu-node-1, card 0,")

        await page.keyboard.press("/")
        assert await page.locator(":focus").get_attribute("id") == "query"
        reached = set()
        for _ in range(12):
            await page.keyboard.press("Tab")
            reached.add(
                await page.evaluate(
                    "document.activeElement.id || document.activeElement.name"
                    " || document.activeElement.tagName"
                )
            )
        assert {"theme", "measure", "size", "cursor"} <= reached
        seen.assert_clean(url)


async def test_a_holder_and_a_waiting_pod_come_and_go_while_one_looks(chromium: Browser) -> None:
    books = operator_books.open_books()
    state_world.fill_quickly(books, nodes=1, cards=2)
    async with state_world.served(books) as url, browser.tab(chromium) as seen:
        page = seen.page
        await seen.open(url)
        await page.focus("#cursor")
        await page.keyboard.press("Enter")

        pod = state_world.hold(books, "newcomer", 0, 0, 4096)
        waits = state_world.wait_for_cards(books, "too-large", memory_mib=90000)
        await expect(page.locator("#card-body tbody")).to_contain_text("newcomer")
        await expect(page.locator("#card-body tbody")).to_contain_text("4,096 MiB")
        await expect(page.locator("#pending-body")).to_contain_text("CardInsufficientMemory")
        await expect(page.locator("#pending-count")).to_have_text("1")

        pod_events.pod_gone(books, pod.key)
        pod_events.pod_gone(books, waits.key)
        await expect(page.locator("#card-body")).not_to_contain_text("newcomer")
        await expect(page.locator("#pending-count")).to_have_text("0")

        operator_books.register.node_gone(books, state_world.node_name(0))
        await expect(page.locator("#empty")).to_contain_text("No node has registered a card yet")
        await expect(page.locator("#card-body")).to_contain_text("no longer registered")
        seen.assert_clean(url)


async def test_search_leaves_the_nodes_that_have_it_and_leads_to_them(chromium: Browser) -> None:
    books = cluster()
    state_world.hold(books, "needle", 6, 3, 1024)
    async with state_world.served(books) as url, browser.tab(chromium) as seen:
        page = seen.page
        await seen.open(url)

        await page.fill("#query", "needle")
        await page.get_by_role("button", name="team-a/needle").click()

        label = await page.locator("#cursor").get_attribute("aria-label")
        assert str(label).startswith("gpu-node-7, card 3,")
        assert await page.locator("#grid").get_attribute("aria-rowcount") == "1"
        await expect(page.locator("#card-body tbody")).to_contain_text("needle")

        await page.fill("#query", "nothing-of-that-name")
        await expect(page.locator("#empty")).to_be_visible()
        await page.focus("#query")
        await page.keyboard.press("Escape")
        await expect(page.locator("#empty")).to_be_hidden()
        assert await page.locator("#grid").get_attribute("aria-rowcount") == "12"
        seen.assert_clean(url)


async def test_text_of_the_cluster_never_becomes_markup(chromium: Browser) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    books = operator_books.open_books()
    cards = operator_books.register_text((f"GPU-{evil}", 24576)).replace("NVIDIA A10", evil)
    operator_books.put_node(books, "node-a", register=cards)
    pod = operator_books.bound(operator_books.pending(evil), card=f"GPU-{evil}")
    pod_events.pod_seen(books, pod)
    async with state_world.served(books) as url, browser.tab(chromium) as seen:
        page = seen.page
        page.on("dialog", lambda dialog: seen.complaints.append(dialog.message))
        await seen.open(url)
        await page.focus("#cursor")
        await page.keyboard.press("Enter")
        await page.hover("#canvas", position={"x": 20, "y": 40})
        await page.fill("#query", "<img")

        await expect(page.locator("#card-body tbody")).to_contain_text(evil)
        await expect(page.locator("#found-lists")).to_contain_text(evil)
        assert await page.locator("main img, main script").count() == 0
        seen.assert_clean(url)


async def test_where_a_token_is_needed_the_page_asks_for_one(chromium: Browser) -> None:
    reviewer = Reviewer({"good": {"list nodes", "list pods"}})
    asks = access.Access(reviewer, turned_clock.TurnedClock())
    async with state_world.served(cluster(2), asks=asks) as url, browser.tab(chromium) as seen:
        page = seen.page
        await page.goto(url)
        await expect(page.locator("#login")).to_be_visible()
        assert "gpu-node" not in await page.content()

        await page.fill("#token", "bad")
        await page.keyboard.press("Enter")
        await expect(page.locator("#login-why")).to_contain_text("does not accept that token")
        await page.fill("#token", "good")
        await page.keyboard.press("Enter")

        await seen.until_connection("live")
        await expect(page.locator("#login")).to_be_hidden()
        assert await page.evaluate("localStorage.length") <= 1  # the theme, and no token


@pytest.mark.parametrize("is_kept", [False, True], ids=["typed", "kept in the tab"])
async def test_what_can_be_no_token_is_asked_for_again(chromium: Browser, is_kept: bool) -> None:
    asks = access.Access(Reviewer({}), turned_clock.TurnedClock())
    async with state_world.served(cluster(2), asks=asks) as url, browser.tab(chromium) as seen:
        page = seen.page
        if is_kept:
            await page.add_init_script("sessionStorage.setItem('vgpu-token', 'abc\u2026xyz')")
        await page.goto(url)
        await expect(page.locator("#login")).to_be_visible()
        if not is_kept:
            await page.fill("#token", "abc\u2026xyz")
            await page.click("#login button")

        await expect(page.locator("#login-why")).to_contain_text("no token")
        await expect(page.locator("#login")).to_be_visible()


WAITS_ARE_NOTED = """
Math.random = () => 0.5;
const later = window.setTimeout;
window.waits = [];
window.setTimeout = (act, ms) => { window.waits.push(ms); return later(act, 5); };
"""
"""Nobody waits for long, and how long the page would have waited can be read."""


async def waits_of(page: Page, url: str, **answer: Any) -> list[float]:
    """Return how long the page waits in ms, where it gets that answer instead of the map."""

    asked = 0
    often = asyncio.Event()

    async def answers(route: Route) -> None:
        nonlocal asked
        asked += 1
        if asked > 6:
            often.set()
        await (route.fulfill(**answer) if answer else route.abort())

    await page.add_init_script(WAITS_ARE_NOTED)
    await page.route("**/api/v1/cards", answers)
    await page.goto(url)
    await asyncio.wait_for(often.wait(), timeout=10)
    waits: list[float] = await page.evaluate("window.waits.slice(0, 6)")
    return waits


async def test_who_finds_no_map_waits_longer_each_time(chromium: Browser) -> None:
    async with state_world.served(cluster(2)) as url, browser.tab(chromium) as seen:
        assert await waits_of(seen.page, url) == [500, 1_000, 2_000, 4_000, 5_000, 5_000]


async def test_a_server_that_has_no_time_is_asked_again_when_it_says(chromium: Browser) -> None:
    async with state_world.served(cluster(2)) as url, browser.tab(chromium) as seen:
        waits = await waits_of(
            seen.page, url, status=503, headers={"Retry-After": "20"}, json={"error": "busy"}
        )

    # And half the usual pause more: not all pages come at once.
    assert waits == [20_250, 20_500, 21_000, 22_000, 22_500, 22_500]


async def test_a_server_that_begins_anew_is_found_again(chromium: Browser) -> None:
    first, second = cluster(2), cluster(3)
    async with browser.tab(chromium) as seen:
        async with state_world.served(first) as url:
            await seen.open(url)
        await seen.until_connection("reconnecting")

        async with state_world.served(second, port=int(url.rpartition(":")[2])):
            await seen.until_connection("live")
            rows = seen.page.locator("#grid")
            await expect(rows).to_have_attribute("aria-rowcount", "3")


_SCROLL = """async () => {
  const slow = [];
  const watch = new PerformanceObserver((list) => {
    slow.push(...list.getEntries().map((task) => task.duration));
  });
  watch.observe({ entryTypes: ['longtask'] });
  const view = document.getElementById('viewport');
  const end = view.scrollHeight - view.clientHeight;
  const frames = 60;
  for (let frame = 0; frame <= frames; frame += 1) {
    view.scrollTop = Math.round(end * frame / frames);
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
  const reached = view.scrollTop >= end - 1;
  watch.disconnect();
  return { end, reached, slow };
}"""


async def test_5000_nodes_scroll_without_stalls_while_pods_come(chromium: Browser) -> None:
    books = operator_books.open_books()
    state_world.fill_quickly(books, nodes=5000)
    async with state_world.served(books) as url, browser.tab(chromium) as seen:
        page = seen.page
        await seen.open(url)
        await expect(page.locator("#sums")).to_contain_text("40,000")
        busy = asyncio.create_task(_pods_come(books))
        try:
            for size in ("small", "medium", "large"):
                await page.check(f"#sizes input[value={size}]", force=True)
                # The best of a few walks: what else this machine does is no fault of the page.
                walks: list[dict[str, Any]] = []
                while len(walks) < 4 and not any(_is_smooth(walk) for walk in walks):
                    walks.append(await page.evaluate(_SCROLL))
                assert all(walk["reached"] and walk["end"] > 3000 for walk in walks)
                assert any(_is_smooth(walk) for walk in walks), (size, walks)
        finally:
            busy.cancel()
        seen.assert_clean(url)


def _is_smooth(walk: dict[str, Any]) -> bool:
    return max(walk["slow"], default=0) < SLOWEST_TASK_MS


async def _pods_come(books: Books) -> None:
    """Let a few hundred pods a second come, as in a burst."""
    for turn in range(100_000):
        state_world.hold(books, f"burst-{turn}", turn % 5000, turn % 8, 10)
        await asyncio.sleep(0.005)
