"""The section of Ascend: its chips, each a vendor of its own on the wire."""

from collections.abc import Mapping
from typing import Final

import pydantic

from vgpu_operator.model.vendor_settings import section

LARGEST_MIB: Final = 2**31 - 1


class AscendTemplate(section.Section):
    """A fixed part of a chip that a hard split can cut off."""

    name: str = pydantic.Field(min_length=1)
    """The template's name, as the device plugin knows it."""
    memory: int = pydantic.Field(ge=1, le=LARGEST_MIB)
    """Its memory in MiB."""
    ai_core: int = pydantic.Field(default=0, ge=0)
    """Its AI cores; decides nothing here."""
    ai_cpu: int = pydantic.Field(default=0, ge=0, alias="aiCPU")
    """Its AI CPUs; decides nothing here."""


class AscendChip(section.Section):
    """One chip, as an entry of ``vnpus.configs`` in HAMi's device configuration."""

    chip_name: str = ""
    """The name that the chip's driver gives, for people."""
    common_word: section.ChipWord
    """The chip's keyword: part of its annotation keys and of its cards' type."""
    resource_name: section.OptionalResourceName = ""
    """Resource that counts cards; empty switches the chip off."""
    resource_memory_name: section.OptionalResourceName = ""
    """Resource for memory on each card."""
    resource_core_name: section.OptionalResourceName = ""
    """Resource for cores in percent of one card; only a soft split has them."""
    memory_allocatable: int = pydantic.Field(ge=1, le=LARGEST_MIB)
    """MiB that a container without a memory limit gets: the whole card."""
    memory_capacity: int = pydantic.Field(ge=1, le=LARGEST_MIB)
    """The largest memory limit that a hard split accepts; more than
    ``memoryAllocatable`` counts as the whole card."""
    memory_factor: section.MemoryFactor = 1
    """How many MiB one unit of the memory resource is; 0 behaves as 1. It is
    applied after the limit has been raised to a template's memory."""
    ai_core: int = pydantic.Field(default=0, ge=0)
    """The chip's AI cores; decides nothing here."""
    ai_cpu: int = pydantic.Field(default=0, ge=0, alias="aiCPU")
    """The chip's AI CPUs; decides nothing here."""
    overwrite_env: bool = False
    """Hide all chips (``ASCEND_VISIBLE_DEVICES`` empty) from containers that ask for none."""
    runtime_class_name: str = ""
    """RuntimeClass for pods with this chip that name none; empty sets none."""
    super_pod: bool = False
    """Cards are given in pairs (indexes 0 and 1, 2 and 3 and so on)."""
    templates: tuple[AscendTemplate, ...] = ()
    """The parts that a hard split can cut off."""


def _chip(
    name: str,
    word: str,
    memory: tuple[int, int],
    cores: tuple[int, int],
    templates: Mapping[str, tuple[int, int, int]],
) -> AscendChip:
    allocatable, capacity = memory
    ai_core, ai_cpu = cores
    return AscendChip(
        chip_name=name,
        common_word=word,
        resource_name=f"huawei.com/{word}",
        resource_memory_name=f"huawei.com/{word}-memory",
        resource_core_name=f"huawei.com/{word}-core",
        memory_allocatable=allocatable,
        memory_capacity=capacity,
        ai_core=ai_core,
        aiCPU=ai_cpu,
        super_pod=word == "Ascend910C",
        templates=tuple(
            AscendTemplate(name=template, memory=mib, ai_core=core, aiCPU=cpu)
            for template, (mib, core, cpu) in templates.items()
        ),
    )


_OF_64_GIB: Final = {"vir05_1c_16g": (16384, 5, 1), "vir10_3c_32g": (32768, 10, 3)}

# Driver's name, keyword, MiB allocatable and capacity, AI cores and CPUs,
# and the templates with MiB, AI cores and CPUs.
CHIPS: Final = (
    _chip(
        "910A",
        "Ascend910A",
        (32768, 32768),
        (30, 0),
        {
            "vir02": (2184, 2, 0),
            "vir04": (4369, 4, 0),
            "vir08": (8738, 8, 0),
            "vir16": (17476, 16, 0),
        },
    ),
    _chip(
        "910B2",
        "Ascend910B2",
        (65536, 65536),
        (24, 6),
        {
            "vir03_1c_8g": (8192, 3, 1),
            "vir06_1c_16g": (16384, 6, 1),
            "vir12_3c_32g": (32768, 12, 3),
        },
    ),
    _chip("910B3", "Ascend910B3", (65536, 65536), (20, 7), _OF_64_GIB),
    _chip("910B4-1", "Ascend910B4-1", (65536, 65536), (20, 7), _OF_64_GIB),
    _chip(
        "910B4",
        "Ascend910B4",
        (32768, 32768),
        (20, 7),
        {"vir05_1c_8g": (8192, 5, 1), "vir10_3c_16g": (16384, 10, 3)},
    ),
    _chip(
        "310P3",
        "Ascend310P",
        (21527, 24576),
        (8, 7),
        {"vir01": (3072, 1, 1), "vir02": (6144, 2, 2), "vir04": (12288, 4, 4)},
    ),
    _chip("Ascend910", "Ascend910C", (65536, 65536), (20, 7), _OF_64_GIB),
)
"""HAMi's chart v2.10.0, in its order."""


class AscendSettings(section.Section):
    """Ascend; HAMi switches it on by ``--enable-ascend``."""

    enabled: bool = False
    """Whether pods may ask for Ascend cards."""
    hami_vnpu_core: bool = False
    """Whether nodes serve soft splits that do not say so themselves (annotation
    ``hami-vnpu-core``)."""
    configs: tuple[AscendChip, ...] = CHIPS
    """The chips; the default is the seven of HAMi's chart."""

    @pydantic.field_validator("configs")
    @classmethod
    def _words_differ(cls, chips: tuple[AscendChip, ...]) -> tuple[AscendChip, ...]:
        section.refuse_twins([chip.common_word for chip in chips])
        return chips
