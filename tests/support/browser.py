"""A real Chromium for tests of the page: skipped where there is none, failed for that in CI."""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

from support import missing_tools

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""It runs as whoever runs the tests, and asks nobody but the page's own server."""

LIVE_S = 60.0
"""A busy machine takes its time to start a browser; what is promised in seconds is measured."""


def program() -> str:
    """Return where Chromium is; without one the test is skipped, or fails in CI."""
    found = os.environ.get("VGPU_CHROMIUM") or shutil.which("chromium")
    if not found:
        missing_tools.skip_or_fail(
            "no Chromium: install the package chromium, or name it with VGPU_CHROMIUM"
        )
    return found


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser."""
    where = program()
    expect.set_options(timeout=1000 * LIVE_S)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=where, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(slots=True)
class Seen:
    """A tab, and what it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    async def open(self, url: str) -> None:
        """Load the page and wait until it follows the cluster."""
        await self.page.goto(url)
        await self.until_connection("live")

    async def until_connection(self, word: str) -> None:
        """Wait until the page says so of its connection."""
        await self.page.wait_for_selector(f"html[data-connection='{word}']", timeout=1000 * LIVE_S)

    def assert_clean(self, url: str) -> None:
        """Check that nothing was complained about and nobody else was asked."""
        assert self.complaints == []
        assert self.hosts == {urlsplit(url).netloc}


@contextlib.asynccontextmanager
async def tab(
    browser: Browser, *, dark: bool = False, width: int = 1440, height: int = 900
) -> AsyncIterator[Seen]:
    """Open a tab of its own, with nothing kept from another."""
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    try:
        page = await context.new_page()
        seen = Seen(page)

        def console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                seen.complaints.append(message.text)

        def asked(request: Request) -> None:
            seen.hosts.add(urlsplit(request.url).netloc)

        page.on("console", console)
        page.on("pageerror", lambda fault: seen.complaints.append(str(fault)))
        page.on("request", asked)
        yield seen
    finally:
        await context.close()
