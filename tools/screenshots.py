"""Takes the pictures of the state page in ``docs/images``: a made-up cluster, a real Chromium.

screenshots.py              write every picture again
screenshots.py FOLDER       write them there
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Page

from support import browser, operator_books, state_world
from vgpu_operator.flows.books import Books

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
LARGEST_BYTES: Final = 200_000


def small() -> Books:
    """Return a cluster whose numbers can be read, with pods that wait."""
    books = operator_books.open_books()
    state_world.fill(books, nodes=24, seed=11)
    state_world.wait_for_cards(books, "finetune-70b", count=8, memory_mib=81920)
    state_world.wait_for_cards(books, "render-farm", memory_mib=90000)
    return books


def large() -> Books:
    """Return a cluster of 5,000 nodes."""
    books = operator_books.open_books()
    state_world.fill_quickly(books, nodes=5000)
    state_world.wait_for_cards(books, "render-farm", memory_mib=90000)
    return books


async def open_a_card(page: Page) -> None:
    """Go by keyboard to a card that somebody holds, and open it."""
    await page.focus("#cursor")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        await page.keyboard.press(key)
    while ": memory 0 of" in str(await page.locator("#cursor").get_attribute("aria-label")):
        await page.keyboard.press("ArrowRight")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#card-body tbody tr")
    await page.evaluate("document.activeElement.blur()")


async def search(page: Page) -> None:
    """Look for pods of a name, and open the first."""
    await page.fill("#query", "notebook")
    await page.locator("#found-lists button").first.click()
    await page.wait_for_selector("#card-body tbody tr")
    await page.evaluate("document.activeElement.blur()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture: its file, what is shown, what is done before it is taken."""

    name: str
    books: Callable[[], Books]
    act: Callable[[Page], Awaitable[None]]
    dark: bool = False


PICTURES: Final = (
    Picture(name="state-page-light.png", books=small, act=open_a_card),
    Picture(name="state-page-dark.png", books=small, act=open_a_card, dark=True),
    Picture(name="state-page-search.png", books=small, act=search),
    Picture(name="state-page-5000-nodes.png", books=large, act=open_a_card, dark=True),
)


async def take(running: Browser, picture: Picture, folder: Path) -> None:
    """Take one picture.

    Raises:
        ValueError: the page complained, or the file is too large for a repository.
    """
    async with (
        state_world.served(picture.books()) as url,
        browser.tab(running, dark=picture.dark, width=1360, height=850) as seen,
    ):
        await seen.open(url)
        await picture.act(seen.page)
        path = folder / picture.name
        content = await seen.page.screenshot(path=path)
        if seen.complaints:
            raise ValueError(f"{picture.name}: the page complained: {seen.complaints}")
        if len(content) > LARGEST_BYTES:
            raise ValueError(f"{picture.name} has {len(content)} bytes, more than {LARGEST_BYTES}")
        sys.stdout.write(f"{picture.name}: {len(content)} bytes\n")


async def main(folder: Path) -> None:
    """Take them all."""
    async with browser.chromium() as running:
        for picture in PICTURES:
            await take(running, picture, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES))
