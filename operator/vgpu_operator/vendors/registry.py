"""Which vendors there are, in HAMi's order of registration."""

from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import (
    amd,
    ascend,
    base,
    biren,
    cambricon,
    enflame,
    enflame_drs,
    hygon,
    iluvatar,
    mthreads,
    nvidia,
    vastai,
)


def build(settings: Settings) -> tuple[base.Vendor, ...]:
    """Return every vendor under the names and defaults of ``settings``.

    Ascend's and Iluvatar's chips come last and only where they are switched on.
    """
    sections = settings.vendors
    return (
        nvidia.Nvidia(sections.nvidia),
        cambricon.Cambricon(sections.cambricon),
        hygon.Hygon(sections.hygon),
        enflame.Enflame(sections.enflame),
        enflame_drs.EnflameDrs(sections.enflame),
        mthreads.Mthreads(sections.mthreads),
        amd.Amd(sections.amd),
        vastai.Vastai(sections.vastai),
        biren.Biren(sections.biren),
        *_ascend(settings),
        *_iluvatar(settings),
    )


def _ascend(settings: Settings) -> tuple[base.Vendor, ...]:
    section = settings.vendors.ascend
    if not section.enabled:
        return ()
    soft = section.hami_vnpu_core
    return tuple(ascend.Ascend(chip, soft_by_default=soft) for chip in section.configs)


def _iluvatar(settings: Settings) -> tuple[base.Vendor, ...]:
    section = settings.vendors.iluvatar
    return tuple(iluvatar.Iluvatar(chip) for chip in section.chips) if section.enabled else ()
