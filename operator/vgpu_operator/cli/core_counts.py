"""Cores as people count them: percent of a card, or how many where a vendor keeps a mask."""

import functools

from vgpu_operator.model import settings
from vgpu_operator.vendors import registry


def number(vendor: str, cores: int) -> int:
    """Return an amount that can be read: of a mask how many bits are set.

    >>> number("AWSNeuron", 0b1010), number("NVIDIA", 10)
    (2, 10)
    """
    return cores.bit_count() if vendor in _masked() else cores


def free(vendor: str, used: int, total: int) -> int:
    """Return what is left.

    >>> free("AWSNeuron", 0b10, 0b11), free("NVIDIA", 30, 100)
    (1, 70)
    """
    return (total & ~used).bit_count() if vendor in _masked() else total - used


def unit(vendor: str) -> str:
    """Return the word that goes behind such a number in a column of percent.

    >>> unit("AWSNeuron"), unit("NVIDIA")
    (' cores', '')
    """
    return " cores" if vendor in _masked() else ""


@functools.cache
def _masked() -> frozenset[str]:
    every = registry.build(settings.with_every_vendor(settings.Settings())).by_keyword
    return frozenset(keyword for keyword, vendor in every.items() if vendor.mask_cores)
