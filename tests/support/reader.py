"""A reader of the documentation, who types what the pages say.

Commands stand in fenced blocks of the language ``console``; each is typed on a
cluster of its own control plane, page by page, top to bottom. What a block is
beyond that stands in a comment above it, in which nothing is left to guess:

    <!-- file: train.yaml -->      the reader saves this block under that name
    <!-- output -->                what the commands above it print, but for numbers
    <!-- until: serving -->        the last command stays; it has begun when it prints this
    <!-- exit: 1 -->               the last command ends with this code
    <!-- not run: the reason -->   cannot be typed here; names the test that does the same

A few programs need what no control plane has, a kubelet or a container engine, or
minutes of building. ``lay_out`` puts stand-ins before them on the PATH: each checks
what can be checked of its arguments, and does the rest in another way or not at all.
"""

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SHELL = ("console", "sh", "bash", "shell")
MARKS = ("file", "output", "until", "exit", "not run")

_FENCE = re.compile(
    r"(?:^[ ]*<!-- (?P<mark>[a-z ]+?)(?:: (?P<words>[^>]+?))? -->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page.

    Attributes:
        page: from the root of the checkout.
        line: of the fence.
        mark: the comment's kind, one of ``MARKS``; empty where none stands above it.
        words: what the comment says behind its kind.
    """

    page: str
    line: int
    language: str
    text: str
    mark: str
    words: str

    @property
    def typed(self) -> bool:
        """Whether these are commands."""
        return self.language in SHELL

    @property
    def run(self) -> bool:
        """Whether the commands are typed here."""
        return self.typed and self.mark != "not run"

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str, *, page: str = "page.md") -> Iterator[Block]:
    """Yield a page's fenced blocks from top to bottom.

    >>> [b.mark for b in blocks("<!-- exit: 1 -->\\n```console\\nfalse\\n```\\n")]
    ['exit']
    """
    for found in _FENCE.finditer(text):
        mark = found["mark"] or ""
        known = mark in MARKS
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("indent")) + 1,
            language=found["language"],
            text=re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            mark=mark if known else "",
            words=(found["words"] or "").strip() if known else "",
        )


def page_blocks(page: str) -> list[Block]:
    """Return the blocks of a file of the checkout."""
    return list(blocks((ROOT / page).read_text(encoding="utf-8"), page=page))


def pages() -> tuple[str, ...]:
    """Return every page that tells somebody to type something, sorted."""
    files = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    names = sorted(str(file.relative_to(ROOT)) for file in files)
    return tuple(name for name in names if any(block.typed for block in page_blocks(name)))


def shape(text: str) -> list[str]:
    """Return what of an output is the same each time: no widths, no numbers, no bars.

    >>> shape("NAME   AGE\\ntrain  12s\\n")
    ['NAME AGE', 'train 0s']
    """
    plain = re.sub(r"[━─│┃█▉▊▋▌▍▎▏░·]+", " ", text)
    plain = re.sub(r"\d+m\d+s|\d+[smhd]\b", "0s", plain)
    plain = re.sub(r"\d+(?:[.,]\d+)*", "0", plain)
    plain = re.sub(r"\b(?:0|nothing) (?=of )", "0 ", plain)
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


def differs(shown: str, printed: str) -> str:
    """Return the first line of a page that was not printed; empty when all were.

    A line that is only ``…`` stands for any number of lines, ``…`` within one for any words.
    """
    rest = shape(printed)
    skipping = False
    for line in shape(shown):
        if line == "…":
            skipping = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        found = next((n for n, real in enumerate(rest) if pattern.fullmatch(real)), None)
        if found is None or (found > 0 and not skipping):
            return line
        rest = rest[found + 1 :]
        skipping = False
    return "" if skipping or not rest else f"(the page ends here, printed was also) {rest[0]}"


_KUBECTL = """#!/bin/sh
# kubectl, but for what only a kubelet or a controller could do.
real={real}
for word in "$@"; do
    case "$word" in
    logs | port-forward | top)
        # Nothing runs in a pod: what is named must be there.
        namespace=default
        target=""
        while [ $# -gt 0 ]; do
            case "$1" in
            -n | --namespace) namespace=$2; shift ;;
            -c | -l) shift ;;
            logs | port-forward | top | pod | -* | [0-9]*) ;;
            */*) target=$1 ;;
            *) target=pod/$1 ;;
            esac
            shift
        done
        [ -z "$target" ] || "$real" get --namespace "$namespace" "$target" >/dev/null
        exit
        ;;
    exec)
        # The pod's command runs here, with the rights of who types it; the target must be there.
        target=""
        namespace=default
        while [ "$1" != -- ]; do
            case "$1" in
            -n | --namespace) namespace=$2; shift ;;
            */*) target=$1 ;;
            esac
            shift
        done
        shift
        "$real" get --namespace "$namespace" "$target" >/dev/null
        exec "$@"
        ;;
    rollout)
        # No pod runs: that the Deployment is there must do.
        namespace=default
        while [ $# -gt 0 ]; do
            case "$1" in
            -n | --namespace) namespace=$2; shift ;;
            */*) exec "$real" get --namespace "$namespace" "$1" ;;
            esac
            shift
        done
        ;;
    --) break ;;
    esac
done
exec "$real" "$@"
"""

_HELM = """#!/bin/sh
# helm; the Job before a removal would never end, since no pod runs.
case "$1" in
uninstall) exec {real} "$@" --no-hooks ;;
*) exec {real} "$@" ;;
esac
"""

_MAKE = """#!/bin/sh
# make, but what it would do is only printed: that takes minutes, and is what the tests are.
exec make --dry-run "$@" >/dev/null
"""

_GREP = """#!/bin/sh
# grep; that a healthy cluster's logs hold nothing of what is looked for is no failure.
{real} "$@" || [ $? -eq 1 ]
"""

_NEEDS_AN_ENGINE = """#!/bin/sh
# No container engine is here: the files that are named must be.
for word in "$@"; do
    case "$word" in
    .) [ -f Dockerfile ] || {{ echo "no Dockerfile here" >&2; exit 1; }} ;;
    *.yaml) [ -f "$word" ] || {{ echo "no $word here" >&2; exit 1; }} ;;
    esac
done
"""


def lay_out(folder: Path, *, kubeconfig: Path, kubectl: Path, helm: Path, python: Path) -> Path:
    """Make the reader's machine: a home, a checkout to stand in, the programs on the PATH.

    Returns:
        The folder of the programs.
    """
    programs = folder / "bin"
    programs.mkdir()
    (folder / "home" / ".kube").mkdir(parents=True)
    (folder / "home" / ".kube" / "config").write_bytes(kubeconfig.read_bytes())
    vgpu = f'#!/bin/sh\nexec {shlex.quote(str(python))} -m vgpu_operator "$@"\n'
    texts = {
        "vgpu": vgpu,
        "kubectl-vgpu": vgpu,
        "kubectl": _KUBECTL.format(real=shlex.quote(str(kubectl))),
        "helm": _HELM.format(real=shlex.quote(str(helm))),
        "docker": _NEEDS_AN_ENGINE.format(),
        "grep": _GREP.format(real=shlex.quote(shutil.which("grep") or "/bin/grep")),
        "kind": _NEEDS_AN_ENGINE.format(),
        "make": _MAKE.replace("exec make", f"exec {shutil.which('make') or '/usr/bin/make'}"),
    }
    for name, text in texts.items():
        file = programs / name
        file.write_text(text)
        file.chmod(0o755)
    return programs


def checkout(folder: Path) -> Path:
    """Return a folder that looks like the checkout, in which files may be saved."""
    folder.mkdir()
    for item in ROOT.iterdir():
        if item.name not in (".git", ".venv", "build"):
            (folder / item.name).symlink_to(item)
    return folder


def steps(page: Sequence[Block]) -> Iterator[tuple[Block, str | None]]:
    """Yield what is typed or saved, each with the output that the page shows for it, or None."""
    for number, block in enumerate(page):
        if block.run or block.mark == "file":
            following = page[number + 1] if number + 1 < len(page) else None
            shown = following is not None and following.mark == "output"
            yield block, following.text if following is not None and shown else None
