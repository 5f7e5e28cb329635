"""The section of Iluvatar: its chips, each a vendor of its own on the wire."""

import pydantic

from vgpu_operator.model.vendor_settings import section


class IluvatarChip(section.Section):
    """One chip, as an entry of ``iluvatars`` in HAMi's device configuration."""

    chip_name: str = ""
    """The chip's name, for people."""
    common_word: section.ChipWord
    """The chip's keyword: part of its annotation keys and of its cards' type."""
    resource_count_name: section.OptionalResourceName = ""
    """Resource that counts cards; empty switches the chip off."""
    resource_memory_name: section.OptionalResourceName = ""
    """Resource for memory on each card, in units of 256 MiB."""
    resource_core_name: section.OptionalResourceName = ""
    """Resource for cores in percent of one card."""


def _chip(word: str) -> IluvatarChip:
    return IluvatarChip(
        chip_name=word,
        common_word=word,
        resource_count_name=f"iluvatar.ai/{word}-vgpu",
        resource_memory_name=f"iluvatar.ai/{word}.vMem",
        resource_core_name=f"iluvatar.ai/{word}.vCore",
    )


CHIPS = tuple(_chip(word) for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100"))
"""HAMi's chart v2.10.0, in its order."""


class IluvatarSettings(section.Section):
    """Iluvatar; HAMi switches it on by ``--enable-iluvatar``."""

    enabled: bool = False
    """Whether pods may ask for Iluvatar cards."""
    chips: tuple[IluvatarChip, ...] = CHIPS
    """The chips; the default is the four of HAMi's chart."""

    @pydantic.field_validator("chips")
    @classmethod
    def _words_differ(cls, chips: tuple[IluvatarChip, ...]) -> tuple[IluvatarChip, ...]:
        section.refuse_twins([chip.common_word for chip in chips])
        return chips
