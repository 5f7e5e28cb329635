"""The ledger as an operator exports it, to be compared with what the API says."""

import re

_FAMILIES = (
    "hami_gpu_shared_count",
    "hami_gpu_memory_allocated_bytes",
    "hami_gpu_core_allocated_ratio",
)

Ledger = dict[str, tuple[float, float, float]]
"""Slots, bytes and percent of cores promised, by card."""


def read(page: str) -> Ledger:
    """Return what a page of metrics says of every card; empty where the replica does not lead."""
    found: dict[str, list[float]] = {}
    for place, name in enumerate(_FAMILIES):
        pattern = rf'^{name}{{.*device_uuid="([^"]+)".*}} (\S+)$'
        for card, value in re.findall(pattern, page, re.MULTILINE):
            found.setdefault(card, [0.0, 0.0, 0.0])[place] = float(value)
    return {card: (slots, memory, cores) for card, (slots, memory, cores) in found.items()}
