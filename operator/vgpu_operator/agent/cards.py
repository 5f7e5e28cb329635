"""What a card of each vendor is, where the simulation file does not say otherwise.

Only data, from what HAMi v2.10.0's back ends read and what the vendors' own
plugins were seen to write. Cards that are read from a node's capacity have
fixed fields: the file says how many there are, and little else.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from vgpu_operator.model.vendor_settings import ascend, iluvatar

EVERY_FIELD: Final = frozenset({"id", "count", "memory", "cores", "type", "numa", "mode", "info"})


class Place(enum.StrEnum):
    """What a card's place on its node decides.

    ``NETWORK`` the member ``NetworkID`` of its info: 0 for the first four
    cards, 1 for the rest. ``ONE_NETWORK`` the same, always 0.
    """

    NOTHING = "nothing"
    NETWORK = "network"
    ONE_NETWORK = "one network"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The usual card of one vendor.

    Attributes:
        type: as its plugin registers it.
        id: its id, with the places ``{node}`` and ``{index}``.
        count: how many containers may share it; slices for Enflame DRS, cores
            for AWS Neuron.
        memory: MiB.
        cores: as registered: percent, units or a bit mask.
        info: what the vendor adds (``custominfo``).
        says: the fields that the plugin can tell of a card; the others follow
            from the vendor's rules and cannot be set in the file.
    """

    type: str
    memory: int
    id: str = "GPU-{node}-{index}"
    count: int = 1
    cores: int = 100
    mode: str = ""
    info: Mapping[str, Any] = field(default_factory=_nothing, hash=False)
    place: Place = Place.NOTHING
    says: frozenset[str] = EVERY_FIELD


_NOTHING_BUT_THE_NUMBER: Final[frozenset[str]] = frozenset()
_MEMORY_ONLY: Final = frozenset({"memory"})


def _ascend(chip: ascend.AscendChip) -> Model:
    word = chip.common_word
    network = Place.NETWORK if word.startswith("Ascend910") else Place.NOTHING
    return Model(
        type=word,
        id=f"{word}-{{node}}-{{index}}",
        count=4,
        memory=chip.memory_allocatable,
        cores=chip.ai_core,
        place=Place.ONE_NETWORK if chip.super_pod else network,
    )


MODELS: Final[Mapping[str, Model]] = {
    "NVIDIA": Model(type="NVIDIA A10", count=10, memory=24576, mode="hami-core"),
    "MLU": Model(
        type="MLU",
        id="{node}-cambricon-mlu-{index}",
        count=100,
        memory=24576,
        says=_MEMORY_ONLY,
    ),
    "DCU": Model(
        type="DCU-K100_AI", id="DCU-{node}-{index}", count=4, memory=16384, mode="hami-core"
    ),
    "GCU": Model(type="GCU", id="{node}-GCU-{index}", memory=100, says=_NOTHING_BUT_THE_NUMBER),
    "Enflame": Model(
        type="Enflame",
        id="{node}-enflame-drs-{index}",
        count=6,
        memory=40960,
        info={"profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}},
        says=frozenset({"count", "info"}),
    ),
    "Mthreads": Model(
        type="Mthreads",
        id="{node}-mthreads-{index}",
        count=100,
        memory=49152,
        cores=16,
        says=_MEMORY_ONLY,
    ),
    "Metax-GPU": Model(
        type="Metax-GPU", id="{node}-metax-{index}", memory=65536, says=_NOTHING_BUT_THE_NUMBER
    ),
    "Metax-SGPU": Model(
        type="Metax-SGPU",
        id="MX-{node}-{index}",
        count=16,
        memory=32768,
        info={"Model": "C500"},
        says=frozenset({"id", "count", "memory", "cores", "numa", "info"}),
    ),
    "kunlun": Model(
        type="kunlun",
        id="{node}-kunlun-{index}",
        count=100,
        memory=98304,
        says=_NOTHING_BUT_THE_NUMBER,
    ),
    "XPU": Model(type="XPU", id="XPU-{node}-{index}", count=4, memory=98304),
    "AWSNeuron": Model(
        type="AWSNeuron",
        id="{node}-AWSNeuron-{index}",
        count=2,
        memory=0,
        cores=3,
        info={"AWSNodeType": "inf2.48xlarge"},
        says=frozenset({"info"}),
    ),
    "AMD": Model(
        type="AMD Instinct MI300X VF",
        id="AMD-{node}-{index}",
        count=10,
        memory=196608,
        cores=304,
        mode="hami-core",
    ),
    "Vastai": Model(type="Vastai", id="VA-{node}-{index}", memory=32768),
    "Biren": Model(type="Biren", id="BR-{node}-{index}", memory=65024),
    **{chip.common_word: _ascend(chip) for chip in ascend.CHIPS},
    **{
        chip.common_word: Model(
            type=chip.common_word,
            id=f"{chip.common_word}-{{node}}-{{index}}",
            count=10,
            memory=32768,
            mode="hami-core",
        )
        for chip in iluvatar.CHIPS
    },
}
"""By vendor keyword."""


def usual(vendor: str) -> Model:
    """Return a vendor's usual card; of one that is not known here, one that is plain."""
    return MODELS.get(vendor) or Model(type=vendor, count=10, memory=24576)


def info_of(model: Model, index: int) -> Mapping[str, Any]:
    """Return what the vendor adds to the card of that index.

    >>> info_of(MODELS["Ascend910B3"], 4), info_of(MODELS["Ascend910C"], 4)
    ({'NetworkID': 1}, {'NetworkID': 0})
    """
    match model.place:
        case Place.NETWORK:
            return {**model.info, "NetworkID": int(index >= 4)}
        case Place.ONE_NETWORK:
            return {**model.info, "NetworkID": 0}
        case _:
            return model.info
