"""MkDocs hook: files outside ``docs/`` that pages link to or load are part of the site.

On GitHub a page may link to the chart's values or to CONTRIBUTING.md; in the
site the same link must lead somewhere. Such a file goes under ``project/``,
Markdown as a page of its own, whose links lead back into ``docs/``. What draws the
diagrams goes under ``assets/mermaid``.
"""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import npm_package
from mkdocs import exceptions, plugins
from mkdocs.structure import files as mkdocs_files

from vgpu_operator.cli.cluster.errors import ClusterError

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = "project"
"""Where a file of the project stands in the site."""

PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the site to which nothing in ``docs/`` needs to link."""

CHINESE: Final = "zh/"

DIAGRAMS: Final = "assets/mermaid"
"""Where ``tools/site/main.html`` finds what draws the diagrams."""

_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")


def on_files(files: mkdocs_files.Files, *, config: Mapping[str, Any]) -> mkdocs_files.Files:
    """Add every file of the project to which a page links, those of ``PAGES``, and Mermaid's."""
    for path in _mermaid():
        place = f"{DIAGRAMS}/{path.name}"
        files.append(mkdocs_files.File.generated(config, place, abs_src_path=str(path)))
    waiting = [*PAGES]
    for file in files.documentation_pages():
        waiting += _outside(file.content_string, PurePosixPath("docs", file.src_uri))
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        path = ROOT / name
        place = f"{FOLDER}/{name}"
        files.append(mkdocs_files.File.generated(config, place, abs_src_path=str(path)))
        if name.endswith(".md"):
            waiting += _outside(path.read_text(encoding="utf-8"), PurePosixPath(name))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links by the checkout's folders into links by the site's."""
    source = source_of(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = _target(match[1], source)
        if target is None:
            return match[1]
        return posixpath.relpath(place_of(target), posixpath.dirname(page.file.src_uri) or ".")

    return _LINK.sub(moved, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Name the language of the Chinese pages, for browsers and for those who hear pages."""
    if page.file.src_uri.startswith(CHINESE):
        return output.replace('<html lang="en"', '<html lang="zh-Hans"', 1)
    return output


def source_of(place: str) -> PurePosixPath:
    """Return the file of the checkout that stands at a place of the site.

    >>> source_of("kind.md"), source_of("project/CONTRIBUTING.md")
    (PurePosixPath('docs/kind.md'), PurePosixPath('CONTRIBUTING.md'))
    """
    if place.startswith(f"{FOLDER}/"):
        return PurePosixPath(place).relative_to(FOLDER)
    return PurePosixPath("docs", place)


def place_of(name: str) -> str:
    """Return where a file of the checkout stands in the site.

    >>> place_of("docs/kind.md"), place_of("LICENSE")
    ('kind.md', 'project/LICENSE')
    """
    return name.removeprefix("docs/") if name.startswith("docs/") else f"{FOLDER}/{name}"


def _mermaid() -> Iterator[Path]:
    """Return the files of Mermaid; without them the build ends with a sentence."""
    report = plugins.get_plugin_logger("site").info
    package = npm_package.MERMAID
    try:
        folder = npm_package.folder_of(package, environment=os.environ, report=report)
    except ClusterError as fault:
        raise exceptions.Abort(str(fault)) from fault
    return (folder / name for name in package.sha256)


def _outside(markdown: str, source: PurePosixPath) -> Iterator[str]:
    for link in _LINK.findall(markdown):
        target = _target(link, source)
        if target is not None and not target.startswith("docs/"):
            yield target


def _target(link: str, source: PurePosixPath) -> str | None:
    """Return the file of the checkout to which a link leads; None where it leads to none."""
    name = posixpath.normpath(posixpath.join(str(source.parent), link))
    return name if (ROOT / name).is_file() else None
