"""How each vendor's device plugin behaves, as far as the API server sees it. Only data.

``MANNERS`` is the whole difference between the vendors; names and units come
from their specs. Sources: HAMi v2.10.0's back ends for what is read, and the
vendors' public plugins for what is written.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from vgpu_operator.vendors import awsneuron, cambricon, enflame_drs, mig


class Register(enum.StrEnum):
    """How the cards reach the API server.

    ``JSON`` and ``COLON`` the register annotation in that form, ``GCU`` and
    ``SGPU`` the vendor's own JSON. ``CAPACITY`` by the kubelet's counts alone.
    ``SHORT`` the colon form without its last two fields.
    """

    JSON = "JSON"
    COLON = "colon"
    SHORT = "short colon"
    GCU = "own JSON"
    SGPU = "own JSON list"
    CAPACITY = "capacity"


class Amount(enum.StrEnum):
    """What of each card is counted to the kubelet."""

    CARDS = "cards"
    SLOTS = "slots"
    CORES = "cores"
    MEMORY = "memory units"


class Report(enum.StrEnum):
    """How the plugin answers the handshake; ``D`` stands for the date."""

    UNDERSCORE = "Reported_D"
    DOTTED = "Reported_D, with dots"
    SPACE = "Reported D"


class Serving(enum.StrEnum):
    """What Allocate does with the pod.

    ``ENTRY`` takes the container's entry off the to-allocate key, and after the
    last one writes ``success`` and frees the lock. ``MARK`` looks for a pod that
    is not marked yet, marks it, and frees its own lock if it has one.
    ``NOTHING`` needs nothing from the API server and leaves nothing there.
    """

    ENTRY = "entry"
    MARK = "mark"
    NOTHING = "nothing"


_SLOTS: Final[Mapping[str, Amount]] = {"count": Amount.SLOTS}
_CARDS: Final[Mapping[str, Amount]] = {"count": Amount.CARDS}
_CORES_AND_MEMORY: Final[Mapping[str, Amount]] = {
    "cores": Amount.CORES,
    "memory": Amount.MEMORY,
}


def _none() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How one vendor's plugin behaves.

    Attributes:
        register: how the cards are registered.
        offers: what the kubelet lists: ``count``, ``cores`` or ``memory`` of
            the vendor's resources, and what of each card is added up for it.
        report: how it reports; None when it never does.
        serving: what Allocate does.
        mark: the pod annotation that ``MARK`` turns from ``false`` to ``true``.
        entries: the pod annotation with an entry a container that is filled
            before the mark; None when the mark is all.
        instances: the pod annotation in which ``ENTRY`` names the parts of cards
            that it makes; empty where it makes none.
        notes: further node annotations that it writes with its cards.
        label: the node label that carries a member of the cards' info, and
            that member.
    """

    register: Register = Register.JSON
    offers: Mapping[str, Amount] = field(default_factory=lambda: _SLOTS)
    report: Report | None = None
    serving: Serving = Serving.ENTRY
    mark: str = ""
    entries: str | None = None
    instances: str = ""
    notes: Mapping[str, str] = field(default_factory=_none)
    label: tuple[str, str] | None = None


_WHOLE: Final = Manners(register=Register.CAPACITY, offers=_CARDS, serving=Serving.NOTHING)
_REPORTS: Final = Manners(report=Report.UNDERSCORE)

MANNERS: Final[Mapping[str, Manners]] = {
    "nvidia": Manners(instances=mig.ALLOCATIONS_KEY),
    "cambricon-mlu": Manners(
        register=Register.CAPACITY,
        offers=_CORES_AND_MEMORY,
        serving=Serving.MARK,
        mark=cambricon.ASSIGNED_KEY,
    ),
    "hygon-dcu": Manners(register=Register.COLON, report=Report.SPACE),
    "enflame-gcu": _WHOLE,
    "enflame-drs": Manners(
        register=Register.GCU,
        serving=Serving.MARK,
        mark=enflame_drs.ASSIGNED_KEY,
        entries=enflame_drs.CONTAINERS_KEY,
    ),
    "mthreads": Manners(
        register=Register.CAPACITY, offers=_CORES_AND_MEMORY, serving=Serving.NOTHING
    ),
    "metax-gpu": _WHOLE,
    "metax-sgpu": Manners(register=Register.SGPU),
    "kunlun-xpu": _WHOLE,
    "kunlun-vxpu": _REPORTS,
    "awsneuron": Manners(
        register=Register.CAPACITY,
        offers={"count": Amount.CARDS, "cores": Amount.SLOTS},
        serving=Serving.MARK,
        mark=awsneuron.ALLOCATED_KEY,
        label=(awsneuron.INSTANCE_TYPE_LABEL, awsneuron.INSTANCE_TYPE),
    ),
    "amd": Manners(),
    "vastai": _REPORTS,
    "biren": _REPORTS,
    "ascend": Manners(report=Report.DOTTED, notes={"hami-vnpu-core": "false"}),
    "iluvatar": Manners(register=Register.COLON, report=Report.UNDERSCORE),
}
"""By the vendor's id, or by its family where all chips behave alike."""


def of_vendor(vendor_id: str, *, locks: bool) -> Manners:
    """Return how that vendor's plugin behaves, by its id or its family's.

    Args:
        vendor_id: as in its spec.
        locks: whether it has a node lock. A vendor that is not listed registers
            as JSON, and its plugin takes entries if it has one.
    """
    found = MANNERS.get(vendor_id) or MANNERS.get(vendor_id.partition("-")[0])
    if found is not None:
        return found
    return Manners(serving=Serving.ENTRY if locks else Serving.NOTHING)
