"""The documentation as a site: it builds without a warning, whole, and asks no other host."""

import html.parser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import npm_package
import pytest

from support import missing_tools
from vgpu_operator.cli.cluster.errors import ClusterError

ROOT = Path(__file__).resolve().parents[3]
BUILD_LIMIT_S = 240

LOADING = {
    "audio": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
"""Attributes by which a page makes a browser fetch something."""
FETCHED_RELS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch"}
ELSEWHERE = re.compile(r"(?:https?:)?//")


class Loads(html.parser.HTMLParser):
    """Collects every address that a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.found += [given[name] for name in LOADING.get(tag, ()) if name in given]
        if tag == "link" and FETCHED_RELS & set(given.get("rel", "").split()):
            self.found.append(given.get("href", ""))
        self.found += fetched_by_style(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._style:
            self.found += fetched_by_style(data)


def fetched_by_style(text: str) -> list[str]:
    return re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s;]+)", text)


def loads(page: str) -> list[str]:
    reading = Loads()
    reading.feed(page)
    return reading.found


def elsewhere(addresses: list[str]) -> list[str]:
    return [address for address in addresses if ELSEWHERE.match(address)]


@pytest.fixture(scope="module")
def mermaid() -> Path:
    """Fetch Mermaid once; where that is impossible, skip, or fail in CI."""
    try:
        return npm_package.folder_of(npm_package.MERMAID, environment=os.environ, report=print)
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no site: {fault}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, mermaid: Path) -> Path:
    """Build it as ``make site`` does, into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(site.rglob("*.html")):
        yield str(file.relative_to(site)), file.read_text(encoding="utf-8")


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    found = {name: elsewhere(loads(text)) for name, text in pages(site)}

    assert {name: addresses for name, addresses in found.items() if addresses} == {}


def test_no_style_sheet_fetches_anything_from_another_host(site: Path) -> None:
    sheets = {file.name: file.read_text(encoding="utf-8") for file in site.rglob("*.css")}

    assert sheets
    assert {name for name, text in sheets.items() if elsewhere(fetched_by_style(text))} == set()


def test_what_a_page_fetches_is_there(site: Path) -> None:
    missing = []
    for name, text in pages(site):
        for address in loads(text):
            path, _, _ = address.partition("?")
            if path.startswith("data:") or name == "404.html":
                continue
            if not ((site / name).parent / path.partition("#")[0]).resolve().exists():
                missing.append((name, address))

    assert missing == []


def test_a_page_with_a_diagram_brings_what_draws_it(site: Path) -> None:
    # Where it is not there, the theme fetches it from another host.
    drawn = {name for name, text in pages(site) if 'class="mermaid"' in text}
    bringing = {name for name, text in pages(site) if "assets/mermaid/mermaid.min.js" in text}

    assert "protocol/index.html" in drawn
    assert drawn == bringing


def test_what_draws_the_diagrams_is_the_package_and_brings_its_licence(
    site: Path, mermaid: Path
) -> None:
    placed = site / "assets" / "mermaid"

    script = (placed / "mermaid.min.js").read_bytes()
    assert script == (mermaid / "dist" / "mermaid.min.js").read_bytes()
    assert "MIT License" in (placed / "LICENSE").read_text(encoding="utf-8")


def test_every_page_of_the_documentation_stands_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    linked = {
        (Path("/") / href.partition("#")[0]).as_posix().strip("/")
        for href in re.findall(
            r'class="md-nav__link[^"]*"[^>]*href="([^"]+)"|href="([^"]+)" class="md-nav__link',
            start,
        )
        for href in href
        if href
    }
    written = set()
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        written.add("" if str(place) == "index" else place.as_posix())
    named = {name.removesuffix("/index").removesuffix("/README") for name in written if name}

    assert {name for name in named if name not in linked} == set()


def test_the_chinese_pages_say_that_they_are(site: Path) -> None:
    chinese = (site / "zh" / "index.html").read_text(encoding="utf-8")
    english = (site / "index.html").read_text(encoding="utf-8")

    assert '<html lang="zh-Hans"' in chinese
    assert '<html lang="en"' in english


@pytest.mark.parametrize(
    ("page", "fetched"),
    [
        ('<script src="https://a.example/x.js"></script>', ["https://a.example/x.js"]),
        ('<link rel="stylesheet" href="//a.example/x.css">', ["//a.example/x.css"]),
        ("<style>@import 'https://a.example/f.css';</style>", ["https://a.example/f.css"]),
        ('<p style="background:url(http://a.example/p.png)">', ["http://a.example/p.png"]),
        ('<a href="https://a.example">a link is followed by who clicks</a>', []),
    ],
)
def test_what_a_browser_fetches_is_seen(page: str, fetched: list[str]) -> None:
    assert elsewhere(loads(page)) == fetched
