"""The state page in a real browser, of a real operator on a real control plane."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from support import account_token, browser, chart_account, cluster_roles
from support.world import World, nvidia_pod, world
from vgpu_operator.kube import paths

pytestmark = pytest.mark.apiserver

WITHIN_S = 2.0
TURNS = 3

ACCOUNTS = paths.namespaced("default", "serviceaccounts")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with (
        world(chart={"state": {"access": "token"}}) as made,
        made.simulate({"name": "node-a", "cards": 1, "delay": 0.05}),
    ):
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with browser.chromium() as running:
        yield running


_NOTE_TIMES = """() => {
  window.seenAt = {};
  const look = () => {
    const text = document.getElementById('card-body').innerText;
    for (const name of ['turn-0', 'turn-1', 'turn-2']) {
      const state = text.includes(name) ? 'came' : 'went';
      const known = window.seenAt[name] ??= {};
      if (state === 'came' || known.came) known[state] ??= Date.now() / 1000;
    }
  };
  new MutationObserver(look).observe(document.getElementById('card-body'),
    { childList: true, subtree: true, characterData: true });
}"""
"""Notes when each name was first seen in the card's panel, and when no longer."""


async def test_a_pod_is_seen_coming_and_going_within_two_seconds(
    here: World, chromium: Browser
) -> None:
    url = here.replica.state_url

    async with browser.tab(chromium) as seen:
        page = seen.page
        await seen.open(url)
        await expect(page.locator("#grid")).to_have_attribute("aria-rowcount", "1")
        await page.focus("#cursor")
        await page.keyboard.press("Enter")
        await expect(page.locator("#card-body")).to_contain_text("Nobody holds it")
        await page.evaluate(_NOTE_TIMES)

        took: dict[str, list[float]] = {"came": [], "went": []}
        for turn in range(TURNS):
            name = f"turn-{turn}"
            await here.create(nvidia_pod(name, memory=1000))
            bound = await _until_bound(here, name)
            came = await _until_noted(here, page.evaluate, name, "came")
            await here.until_phase("success", name)
            await here.until_no_lock()
            gone = time.time()
            await here.delete(name)
            went = await _until_noted(here, page.evaluate, name, "went")
            took["came"].append(came - bound)
            took["went"].append(went - gone)

        # The middle one: what else this machine does at one moment is no fault of the page.
        assert {what: sorted(times)[TURNS // 2] < WITHIN_S for what, times in took.items()} == {
            "came": True,
            "went": True,
        }, took
        seen.assert_clean(url)


async def _until_bound(here: World, name: str) -> float:
    """Return when the API server first showed the pod with a node."""

    async def has_a_node() -> float:
        pod = await here.pod(name)
        return time.time() if pod["spec"].get("nodeName") else 0.0

    return float(await here.until(f"{name} is bound", has_a_node, every_s=0.02))


async def _until_noted(
    here: World, evaluate: Callable[[str], Awaitable[Any]], name: str, what: str
) -> float:
    async def noted() -> float:
        return float(await evaluate(f"window.seenAt['{name}']?.{what} ?? 0"))

    return float(await here.until(f"{name} {what} on the page", noted, every_s=0.05))


async def test_a_pod_that_fits_nowhere_is_told_with_its_reason_until_it_goes(
    here: World, chromium: Browser
) -> None:
    async with browser.tab(chromium, dark=True) as seen:
        await seen.open(here.replica.state_url)
        waits = seen.page.locator("#pending-body")

        await here.create(nvidia_pod("too-large", memory=10**6))
        await expect(waits).to_contain_text("too-large")
        await expect(waits).to_contain_text("CardInsufficientMemory")
        await here.delete("too-large")
        await expect(waits).to_contain_text("No pod waits for a card")
        seen.assert_clean(here.replica.state_url)


async def _token(here: World, name: str) -> str:
    """Return a token of a ServiceAccount of that name, made now."""
    await here.kube.create(ACCOUNTS, {"metadata": {"name": name}})
    return await account_token.token_of(here.kube, name, "default")


async def _may_read(here: World, name: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    await cluster_roles.grant(here.kube, "readers", rules, subject=subject)


async def test_a_follower_shows_the_same_to_whom_the_api_server_shows_it(here: World) -> None:
    await here.create(nvidia_pod("holder", memory=1000))
    await here.until_phase("success", "holder")
    reader, stranger = await _token(here, "reader"), await _token(here, "stranger")
    await _may_read(here, "reader")
    lease = "/".join(chart_account.LEASE)
    follower = here.stack.start_operator(
        "follower", lease=lease, hostname="elsewhere", arguments=("--state-access", "token")
    )
    await follower.until_ready()

    async def get(path: str, token: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{follower.state_url}/api/v1/{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            return answer.status, await answer.json()

    refused = {name: await get("nodes", token) for name, token in (("no", ""), ("bad", "x.y.z"))}
    strange, why = await get("nodes", stranger)
    seen, node = await get("nodes/node-a", reader)
    _, status = await get("status", reader)

    assert {name: code for name, (code, _) in refused.items()} == {"no": 401, "bad": 401}
    assert strange == 403
    assert "system:serviceaccount:default:stranger may not list nodes" in why["error"]
    assert seen == 200
    assert [pod["name"] for pod in node["pods"]] == ["holder"]
    assert (status["leader"], status["synced"]) == (False, True)
