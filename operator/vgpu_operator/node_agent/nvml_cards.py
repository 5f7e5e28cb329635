"""What is known of a node's NVIDIA cards, and which of them may be given away.

Values in, values out; the clock and NVML are the caller's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vgpu_operator.model import device, errors
from vgpu_operator.node_agent import nvml_library, xids

_CORES_PERCENT: Final = 100
_SHARED_MODE, _MIG_MODE = "hami-core", "mig"
_LARGEST_SCALING = 1000.0
"""Far beyond any use; the memory of a card so scaled still fits what HAMi reads (int32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How cards are registered and watched.

    Attributes:
        slots: how many containers may share a card (HAMi: ``deviceSplitCount``).
        memory_scaling: what the card's memory is multiplied by; above 1 more is
            promised than there is (HAMi: ``deviceMemoryScaling``).
        memory_where_untold_mib: the memory of a card that tells of none, as where CPU
            and GPU share one; 0 leaves such a card out (HAMi:
            ``preConfiguredDeviceMemory``).
        ignored_xids: faults that do not count, besides those of applications.
        look_every_s: how often every card is looked at, besides the driver's reports.
        trust_after_s: how long after its last fault a card is taken for healthy again,
            where the driver says that nothing is to be done about it.

    Raises:
        SettingsError: the memory's factor is no number that can be used.
    """

    slots: int = 10
    memory_scaling: float = 1.0
    memory_where_untold_mib: int = 0
    ignored_xids: frozenset[int] = frozenset()
    look_every_s: float = 10.0
    trust_after_s: float = 30.0

    def __post_init__(self) -> None:
        # Infinity and "not a number" are floats too; the latter is less than nothing.
        if not 0 < self.memory_scaling <= _LARGEST_SCALING:
            raise errors.SettingsError(
                f"--memory-scaling {self.memory_scaling} cannot be used: give a number above 0 "
                f"and up to {_LARGEST_SCALING:.0f}; 1 promises the memory that there is"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    number: int
    at_s: float


@dataclass(slots=True)
class Cards:
    """All cards that were ever seen, what they were like then, and what is wrong with them.

    A card that is gone stays, unhealthy: pods may hold it, and it may come back.
    """

    options: Options
    _known: dict[str, nvml_library.Card] = field(default_factory=dict)
    _gone: dict[str, str] = field(default_factory=dict)
    _faults: dict[str, _Fault] = field(default_factory=dict)
    _nameless: dict[str, str] = field(default_factory=dict)
    _blind: str = ""

    def see(self, looked: Sequence[nvml_library.Card | nvml_library.Lost], *, now_s: float) -> None:
        """Take in a look at every card."""
        seen = {card.uuid: card for card in looked if isinstance(card, nvml_library.Card)}
        lost = {card.index: card.why for card in looked if isinstance(card, nvml_library.Lost)}
        self._blind = ""
        self._known.update(seen)
        self._gone = {
            uuid: lost.pop(card.index, "the driver does not list it")
            for uuid, card in self._known.items()
            if uuid not in seen
        }
        self._nameless = {f"card {index}": why for index, why in lost.items()}
        for card in seen.values():
            self._trust_again(card, now_s)

    def report(self, xid: nvml_library.Xid, *, now_s: float) -> bool:
        """Take in a fault; return whether it counts against a card."""
        if xid.number in xids.APPLICATION_ERRORS | self.options.ignored_xids:
            return False
        # Whose it is may be untold: then it may be anybody's, as NVIDIA's plugin has it.
        for uuid in self._known if xid.uuid is None else (xid.uuid,):
            self._faults[uuid] = _Fault(number=xid.number, at_s=now_s)
        return True

    def lose_sight(self, why: str) -> None:
        """Take in that no card can be asked any more."""
        self._blind = why

    def any_gone(self) -> bool:
        """Return whether a card could not be reached at the last look."""
        return bool(self._gone or self._nameless)

    def devices(self) -> tuple[device.Device, ...]:
        """Return what is to be registered, in index order."""
        told = (self._device(card) for card in self._known.values())
        return tuple(sorted((each for each in told if each), key=lambda each: each.index))

    def complaints(self) -> Mapping[str, str]:
        """Return why cards are unhealthy or left out, by UUID."""
        found = {uuid: self._why_unhealthy(card) for uuid, card in self._known.items()}
        for uuid, card in self._known.items():
            if self._memory_mib(card) == 0:
                found[uuid] = (
                    "left out: it tells of no memory of its own; say how many MiB may be "
                    "given away (--memory-where-untold)"
                )
        return {uuid: why for uuid, why in (found | self._nameless).items() if why}

    def _device(self, card: nvml_library.Card) -> device.Device | None:
        memory_mib = self._memory_mib(card)
        if memory_mib == 0:
            return None
        return device.Device(
            id=card.uuid,
            index=card.index,
            slots=max(card.mig_room, 1) if card.mig else self.options.slots,
            memory_mib=memory_mib,
            cores_percent=_CORES_PERCENT,
            type=type_of(card.name),
            numa=card.numa,
            mode=_MIG_MODE if card.mig else _SHARED_MODE,
            healthy=not self._why_unhealthy(card),
        )

    def _memory_mib(self, card: nvml_library.Card) -> int:
        if card.memory_mib is None:
            return self.options.memory_where_untold_mib
        return card.memory_mib if card.mig else int(card.memory_mib * self.options.memory_scaling)

    def _why_unhealthy(self, card: nvml_library.Card) -> str:
        if self._blind:
            return self._blind
        if card.uuid in self._gone:
            return f"it cannot be reached: {self._gone[card.uuid]}"
        if card.recovery:
            return f"the driver asks to {card.recovery}"
        if card.uuid in self._faults:
            return f"the driver reported XID {self._faults[card.uuid].number}"
        return _why_not_in_mig_mode(card) if card.mig else ""

    def _trust_again(self, card: nvml_library.Card, now_s: float) -> None:
        fault = self._faults.get(card.uuid)
        if fault is None or card.recovery != "":
            return
        if now_s - fault.at_s >= self.options.trust_after_s:
            del self._faults[card.uuid]


def type_of(name: str) -> str:
    """Return a card's type as HAMi registers it.

    >>> type_of("Tesla T4"), type_of("NVIDIA A10")
    ('NVIDIA-Tesla T4', 'NVIDIA A10')
    """
    return name if name.startswith("NVIDIA") else f"NVIDIA-{name}"


def _why_not_in_mig_mode(card: nvml_library.Card) -> str:
    there = ", ".join(card.instances) or "none"
    return (
        f"it is in MIG mode (instances: {there}), and this agent neither makes MIG instances nor "
        "gives them away: switch the mode off (nvidia-smi -mig 0), or serve the node by HAMi's "
        "plugin"
    )
