"""Which vendors there are, in HAMi's order of registration."""

from collections.abc import Sequence

from vgpu_operator.model import errors
from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import (
    amd,
    ascend,
    awsneuron,
    base,
    biren,
    cambricon,
    enflame,
    enflame_drs,
    hygon,
    iluvatar,
    kunlun,
    kunlun_vxpu,
    metax,
    metax_sgpu,
    mthreads,
    nvidia,
    roster,
    vastai,
)


def build(settings: Settings) -> roster.Roster:
    """Return every vendor under the names and defaults of ``settings``.

    Ascend's and Iluvatar's chips come last and only where they are switched on; Enflame,
    Moore Threads, Kunlun, Vastai and Biren are there unless they are switched off.

    Raises:
        SettingsError: two vendors have one keyword.
    """
    sections = settings.vendors
    vendors: tuple[base.Vendor, ...] = (
        nvidia.Nvidia(sections.nvidia),
        *cambricon.backends(sections.cambricon),
        *hygon.backends(sections.hygon),
        *enflame.backends(sections.enflame),
        *enflame_drs.backends(sections.enflame),
        *mthreads.backends(sections.mthreads),
        *metax.backends(sections.metax),
        *metax_sgpu.backends(sections.metax),
        *kunlun.backends(sections.kunlun),
        *kunlun_vxpu.backends(sections.kunlun),
        *awsneuron.backends(sections.awsneuron),
        *amd.backends(sections.amd),
        *vastai.backends(sections.vastai),
        *biren.backends(sections.biren),
        *ascend.backends(sections.ascend),
        *iluvatar.backends(sections.iluvatar),
    )
    _refuse_twins([vendor.spec.keyword for vendor in vendors])
    return roster.Roster(vendors)


def _refuse_twins(keywords: Sequence[str]) -> None:
    """Refuse two vendors under one keyword: they would write one annotation."""
    twins = [word for word in dict.fromkeys(keywords) if keywords.count(word) > 1]
    if twins:
        raise errors.SettingsError(
            f"the configuration is wrong: two vendors have the keyword {twins[0]}; give the chip "
            "another commonWord"
        )
