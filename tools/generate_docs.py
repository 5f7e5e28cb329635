"""Writes the parts of the documentation that follow from the code.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` in any
Markdown file of the project; ``BLOCKS`` says what each name stands for. What a
block cannot get from the code (what a kind of key is for, say) stands here or
in the modules beside this one.

    generate_docs.py            write every block again
    generate_docs.py --check    write nothing; exit 1 with one line per stale file
"""

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import agent_docs
import chart_docs
import chart_files
import cli_docs
import dialect_docs
import doc_tables
import doctor_docs
import metric_docs
import pictures
import setting_docs
import typer
import vendor_docs
import vendor_examples
import written_files

from vgpu_operator.cli import run
from vgpu_operator.flows import reasons
from vgpu_operator.machines import diagram
from vgpu_operator.model import reason
from vgpu_operator.scheduling import masks
from vgpu_operator.wire import keys

ROOT: Final = Path(__file__).resolve().parent.parent

WRITTEN_ELSEWHERE: Final = ("docs/compatibility.md",)
"""Pages whose blocks follow from the recorded answers: ``tests/support`` writes them."""

_BLOCK: Final = re.compile(
    r"(?P<start><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def rewrite(text: str) -> str:
    """Return a Markdown text with every block in it written again.

    Raises:
        ValueError: a block has a name that is not known, or no end.
    """
    if text.count("<!-- generated:") != len(_BLOCK.findall(text)):
        raise ValueError("a block has no end, or its name is not lower-case words with '-'")

    def fresh(match: re.Match[str]) -> str:
        make = BLOCKS.get(match["name"])
        of_above = BLOCKS_OF_WHAT_IS_ABOVE.get(match["name"])
        if of_above is not None:
            body = of_above(text[: match.start()])
        elif make is not None:
            body = make()
        else:
            raise ValueError(f"no block is called {match['name']!r}")
        return f"{match['start']}\n{body.strip()}\n\n{match['end']}"

    return _BLOCK.sub(fresh, text)


def markdown_files() -> tuple[Path, ...]:
    """Return the project's own Markdown files, sorted."""
    return (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


def stale_files() -> dict[Path, str]:
    """Return the files whose blocks do not follow from the code, with what they should be."""
    stale = {}
    elsewhere = {ROOT / name for name in WRITTEN_ELSEWHERE}
    for path in markdown_files():
        if path in elsewhere:
            continue
        text = path.read_text(encoding="utf-8")
        try:
            wanted = rewrite(text)
        except ValueError as fault:
            raise SystemExit(f"{path.relative_to(ROOT)}: {fault}") from fault
        if wanted != text:
            stale[path] = wanted
    return stale | written_files.stale(chart_files.texts() | pictures.texts())


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit code."""
    return written_files.main(
        arguments, stale_files, program="generate_docs.py", command="make docs", root=ROOT
    )


# State machines.


def _machine(name: str) -> Callable[[], str]:
    def make() -> str:
        chart = next(chart for chart in diagram.CHARTS if chart.name == name)
        return f"```mermaid\n{diagram.mermaid(chart)}```\n\n{diagram.markdown(chart)}"

    return make


# Keys and options.


def shared_keys() -> str:
    """Every key of ``wire/keys.py`` with what its docstring says."""
    docs = dict(doc_tables.attribute_docs(doc_tables.module_tree(keys.__file__).body))
    values = {name: value for name, value in vars(keys).items() if name.isupper()}
    rows = [(doc_tables.code(value), docs[name]) for name, value in values.items() if "/" in value]
    return doc_tables.table(("Key", "What it is"), rows)


def run_options() -> str:
    """Every option of ``vgpu run``."""
    app = typer.Typer(add_completion=False)
    run.register(app)
    command = typer.main.get_command(app)
    rows = []
    for parameter in command.params:
        spoken = getattr(parameter, "help", None)
        if spoken is None:
            continue
        default = parameter.default
        shown = "" if default is None or callable(default) else doc_tables.code(str(default))
        rows.append((doc_tables.code(parameter.opts[0]), shown, spoken))
    return doc_tables.table(("Option", "Default", "Meaning"), rows)


# What the operator says.


def events() -> str:
    """Every Event reason."""
    rows = []
    for word, text in reasons.REASONS.items():
        where, _, meaning = text.partition(": ")
        rows.append((doc_tables.code(word), where, meaning))
    return doc_tables.table(("Reason", "On", "What it says"), rows)


def rejections() -> str:
    """The facts about one card, in the order in which they are checked."""
    rows = [
        (str(number), doc_tables.code(why.value), doc_tables.first_sentence(mask.__doc__))
        for number, (why, mask) in enumerate(masks.ORDER, start=1)
    ]
    return doc_tables.table(("Checked", "Word", "A card counts here when"), rows)


def reason_words() -> str:
    """Every word that a refusal may hold."""
    return ", ".join(doc_tables.code(word.value) for word in reason.Reason)


# Layers.


def layers() -> str:
    """The layers, topmost first, as import-linter checks them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    order = next(c["layers"] for c in contracts if c["containers"] == ["vgpu_operator"])
    return "```text\n" + "\n".join(order) + "\n```"


# Code.


def toy_vendor() -> str:
    """The file of the vendor that the tests add."""
    code = (ROOT / "tests" / "support" / "acme.py").read_text(encoding="utf-8")
    return f"```python\n{code}```"


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "chart-ignored": chart_docs.ignored_values,
    "chart-values": chart_docs.values,
    "commands": cli_docs.commands,
    "configuration": setting_docs.configuration,
    "dialect-keys": dialect_docs.dialect_keys,
    "doctor-signatures": doctor_docs.signatures,
    "doctor-sources": doctor_docs.sources,
    "events": events,
    "layers": layers,
    "machine-bind-phase": _machine("bind-phase"),
    "machine-handshake": _machine("handshake"),
    "machine-node-lock": _machine("node-lock"),
    "machine-node-lock-remnants": _machine("node-lock-remnants"),
    "machine-node-lock-returns": _machine("node-lock-returns"),
    "metrics": metric_docs.own,
    "metrics-cards": metric_docs.cards,
    "metrics-older": metric_docs.older,
    "metrics-web-ui": metric_docs.web_ui,
    "reason-words": reason_words,
    "rejections": rejections,
    "run-options": run_options,
    "shared-keys": shared_keys,
    "simulated-cards": agent_docs.card_table,
    "simulated-plugins": agent_docs.plugin_table,
    "toy-vendor": toy_vendor,
    "vendors": vendor_docs.index,
    **{f"vendor-{family}": vendor_docs.page(family) for family in vendor_docs.families()},
}

BLOCKS_OF_WHAT_IS_ABOVE: Final[Mapping[str, Callable[[str], str]]] = {
    "placed": vendor_examples.placed,
}
"""Blocks that follow from the part of the page above them."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
