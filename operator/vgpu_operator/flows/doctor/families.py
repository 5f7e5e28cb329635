"""Whose device plugin a workload is, guessed by the words in its names and commands."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from vgpu_operator.vendors import base, roster
from vgpu_operator.wire import workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One maker of accelerators.

    Attributes:
        id: as the names of its settings (``nvidia``); the ids of its vendors begin so.
        words: in names of programs, images and containers.
        pci: the maker's number on the PCI bus, as Node Feature Discovery labels it; empty
            where we do not know it.
        domains: before the slash of what its own plugins offer to the kubelet.
    """

    id: str
    words: frozenset[str]
    domains: frozenset[str]
    pci: str = ""


FAMILIES: Final = (
    Family(
        id="nvidia",
        words=frozenset({"nvidia"}),
        domains=frozenset({"nvidia.com"}),
        pci="10de",
    ),
    Family(
        id="amd",
        words=frozenset({"amd", "rocm", "amdgpu"}),
        domains=frozenset({"amd.com"}),
        pci="1002",
    ),
    Family(
        id="cambricon",
        words=frozenset({"cambricon", "mlu"}),
        domains=frozenset({"cambricon.com"}),
        pci="cabc",
    ),
    Family(
        id="hygon",
        words=frozenset({"hygon", "dcu"}),
        domains=frozenset({"hygon.com"}),
        pci="1d94",
    ),
    Family(
        id="enflame",
        words=frozenset({"enflame", "gcu"}),
        domains=frozenset({"enflame.com"}),
        pci="1e36",
    ),
    Family(
        id="mthreads",
        words=frozenset({"mthreads", "musa"}),
        domains=frozenset({"mthreads.com"}),
        pci="1ed5",
    ),
    Family(
        id="metax",
        words=frozenset({"metax"}),
        domains=frozenset({"metax-tech.com"}),
    ),
    Family(
        id="kunlun",
        words=frozenset({"kunlun", "kunlunxin", "xpu"}),
        domains=frozenset({"kunlunxin.com", "baidu.com"}),
    ),
    Family(
        id="awsneuron",
        words=frozenset({"neuron"}),
        domains=frozenset({"aws.amazon.com"}),
        pci="1d0f",
    ),
    Family(
        id="vastai",
        words=frozenset({"vastai", "vastaitech"}),
        domains=frozenset({"vastaitech.com"}),
    ),
    Family(
        id="biren",
        words=frozenset({"biren", "birentech"}),
        domains=frozenset({"birentech.com"}),
    ),
    Family(
        id="ascend",
        words=frozenset({"ascend", "huawei"}),
        domains=frozenset({"huawei.com"}),
        pci="19e5",
    ),
    Family(
        id="iluvatar",
        words=frozenset({"iluvatar", "ix"}),
        domains=frozenset({"iluvatar.ai", "iluvatar.com"}),
    ),
)

_FOREIGN: Final = frozenset(
    {
        *("rdma", "sriov", "sriovdp", "infiniband", "hostdev"),  # network cards
        *("kubevirt", "sandbox", "vfio"),  # whole cards for virtual machines
        *("mps", "intel", "qat", "fpga"),
    }
)
"""Words of plugins, and of their helpers, that offer no card of a maker below."""

_WORD: Final = re.compile(r"[a-z0-9]+")
_PCI: Final = re.compile(
    r"feature\.node\.kubernetes\.io/pci-(?:[0-9a-f]{4}_)?([0-9a-f]{4})\.present"
)


def of(template: workloads.Template, name: str) -> Family | None:
    """Return whose plugin that is; None where no word says so.

    Words of commands count before those of images, which often hold several plugins. Where
    an image comes from says nothing: makers of cards make network cards too.
    """
    if is_foreign(template):
        return None
    for texts in (_programs(template), [name, *(one.name for one in template.containers)]):
        found = _first(texts)
        if found is not None:
            return found
    return _first(_images(template))


def is_foreign(template: workloads.Template) -> bool:
    """Whether that offers something else to the kubelet than cards for computing.

    The name of the DaemonSet does not count: people choose it.
    """
    texts = (*_programs(template), *_images(template), *(one.name for one in template.containers))
    return not _FOREIGN.isdisjoint(_words(texts))


def offers(family: Family, resources: Iterable[str], vendors: roster.Roster) -> bool:
    """Whether any of these resources is one of that maker's, modelled by a vendor or not.

    Args:
        family: the maker.
        resources: names of which a node has more than none.
        vendors: for the names that the configuration gives.
    """
    renamed = {vendor.spec.count_resource for vendor in vendors_of(family, vendors)}
    return any(name in renamed or name.partition("/")[0] in family.domains for name in resources)


def vendors_of(family: Family, vendors: roster.Roster) -> tuple[base.Vendor, ...]:
    """Return the vendors whose cards that maker's plugin registers."""
    return tuple(vendor for vendor in vendors if vendor.spec.id.startswith(family.id))


def by_pci(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the makers whose cards Node Feature Discovery has seen, by a node's labels.

    >>> by_pci(["feature.node.kubernetes.io/pci-0300_1002.present"])
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


def _images(template: workloads.Template) -> list[str]:
    """Return the images' own names, without registry, folders, tag and digest."""
    return [
        one.image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        for one in template.containers
    ]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text.lower())}


def _first(texts: Iterable[str]) -> Family | None:
    words = _words(texts)
    return next((one for one in FAMILIES if one.words & words), None)
