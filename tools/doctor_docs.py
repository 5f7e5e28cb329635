"""The generated parts of ``docs/doctor.md``: every signature, as the command's own table has it."""

from pathlib import PurePosixPath

import doc_tables

from vgpu_operator.flows.doctor import catalogue


def signatures() -> str:
    """Every signature with its cause and fix, one after another."""
    return "\n\n".join(_signature(one) for one in catalogue.SIGNATURES)


def sources() -> str:
    """What is read, and which signatures need it."""
    rows = []
    for source in catalogue.Source:
        needed = [one.id for one in catalogue.SIGNATURES if source in one.needs]
        helped = [one.id for one in catalogue.SIGNATURES if source in one.helped_by]
        rows.append((source.value, _codes(needed), _codes(helped)))
    return doc_tables.table(("Read", "Needed for", "Helps with"), rows)


def _codes(words: list[str]) -> str:
    return ", ".join(map(doc_tables.code, words)) or "none"


def _signature(one: catalogue.Signature) -> str:
    page, _, _ = one.page.partition("#")
    link = f"[{PurePosixPath(page).stem}]({one.page})"
    return "\n".join(
        (
            f"### `{one.id}`",
            "",
            f"{one.title[0].upper()}{one.title[1:]} ({one.severity.value}).",
            "",
            f"- Cause: {one.cause}.",
            f"- Fix: {one.fix}.",
            f"- More: {link}",
        )
    )
