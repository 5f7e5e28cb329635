"""Whose device plugin a workload is, guessed by the words in its names and commands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_operator.vendors import base, roster
from vgpu_operator.wire import workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One maker of accelerators.

    Attributes:
        id: as the names of its settings (``nvidia``).
        words: in names of programs, images and containers.
        pci: the maker's number on the PCI bus, as Node Feature Discovery labels it; empty
            where we do not know it.
        vendors: how the ids of its vendors begin.
    """

    id: str
    words: frozenset[str]
    vendors: str
    pci: str = ""


FAMILIES: Final = (
    Family(id="nvidia", words=frozenset({"nvidia"}), vendors="nvidia", pci="10de"),
    Family(id="amd", words=frozenset({"amd", "rocm", "amdgpu"}), vendors="amd", pci="1002"),
    Family(
        id="cambricon",
        words=frozenset({"cambricon", "mlu"}),
        vendors="cambricon",
        pci="cabc",
    ),
    Family(id="hygon", words=frozenset({"hygon", "dcu"}), vendors="hygon", pci="1d94"),
    Family(id="enflame", words=frozenset({"enflame", "gcu"}), vendors="enflame", pci="1e36"),
    Family(id="mthreads", words=frozenset({"mthreads", "musa"}), vendors="mthreads", pci="1ed5"),
    Family(id="metax", words=frozenset({"metax"}), vendors="metax"),
    Family(id="kunlun", words=frozenset({"kunlun", "kunlunxin", "xpu"}), vendors="kunlun"),
    Family(id="awsneuron", words=frozenset({"neuron"}), vendors="awsneuron", pci="1d0f"),
    Family(id="vastai", words=frozenset({"vastai", "vastaitech"}), vendors="vastai"),
    Family(id="biren", words=frozenset({"biren", "birentech"}), vendors="biren"),
    Family(id="ascend", words=frozenset({"ascend", "huawei"}), vendors="ascend", pci="19e5"),
    Family(id="iluvatar", words=frozenset({"iluvatar", "ix"}), vendors="iluvatar"),
)

_WORD: Final = re.compile(r"[a-z0-9]+")
_PCI: Final = re.compile(
    r"feature\.node\.kubernetes\.io/pci-(?:[0-9a-f]{4}_)?([0-9a-f]{4})\.present"
)


def of(template: workloads.Template, name: str) -> Family | None:
    """Return whose plugin that is; None where no word says so.

    Words of commands count before those of images, which often hold several plugins.
    """
    for texts in (_programs(template), [name, *(one.name for one in template.containers)]):
        found = _first(texts)
        if found is not None:
            return found
    return _first([one.image for one in template.containers])


def vendors_of(family: Family, vendors: roster.Roster) -> tuple[base.Vendor, ...]:
    """Return the vendors whose cards that maker's plugin registers."""
    return tuple(vendor for vendor in vendors if vendor.spec.id.startswith(family.vendors))


def by_pci(labels: Iterator[str]) -> tuple[str, ...]:
    """Return the makers whose cards Node Feature Discovery has seen, by a node's labels.

    >>> by_pci(iter(["feature.node.kubernetes.io/pci-0300_1002.present"]))
    ('amd',)
    """
    numbers = {match[1] for label in labels if (match := _PCI.fullmatch(label))}
    return tuple(one.id for one in FAMILIES if one.pci in numbers)


def _programs(template: workloads.Template) -> list[str]:
    return [
        word.rpartition("/")[2]
        for one in template.containers
        for word in one.words[:1]
        if not word.startswith("-")
    ]


def _first(texts: list[str]) -> Family | None:
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    return next((one for one in FAMILIES if one.words & words), None)
