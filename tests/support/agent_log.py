"""What the simulated plugins say that they have handed out, read from their log."""

import re
from pathlib import Path

_SERVED = re.compile(r"served pod=(?P<pod>\S+) container=\S+ cards=(?P<cards>\S*)")


def served(log: Path) -> dict[str, list[tuple[str, ...]]]:
    """Return the cards of each Allocate call of each pod (``namespace/name``), in order."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in log.read_text(errors="replace").splitlines():
        match = _SERVED.search(line)
        if match is not None:
            cards = tuple(card for card in match["cards"].split(",") if card)
            found.setdefault(match["pod"], []).append(cards)
    return found
