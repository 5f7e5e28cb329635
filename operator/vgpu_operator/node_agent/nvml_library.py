"""NVIDIA's management library (NVML) as values: what it shows of each card, and its events.

Everything here may block for seconds, so only a thread of its own calls it.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import pynvml

from vgpu_operator.model import errors

_MIB = 2**20
_NUMA_WORDS = 16
"""Of 64 nodes each: Linux knows at most 1024 NUMA nodes."""

_RECOVERY: Final = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: "",
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "reset the card (nvidia-smi --gpu-reset)",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "reboot the node",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "end what uses the card's links (drain P2P)",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain the node, then reset the card",
    pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: "recover the IMEX domain",
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: "reset the card's PCIe bus",
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: "reboot the system",
}
"""What the driver wants done before the card is used again; empty: nothing."""

_ADVICE: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 is not there: install NVIDIA's driver on this node, and run the "
        "agent's pod by NVIDIA's container runtime (runtimeClassName nvidia, or make it the "
        "default) with NVIDIA_VISIBLE_DEVICES=all"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "NVIDIA's kernel module is not loaded: run nvidia-smi on the node itself, and repair "
        "the driver where that fails too"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "NVIDIA's library and kernel module are of different versions, as after an update of "
        "the driver: reboot the node"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "/dev/nvidiactl may not be opened: run the agent as root, with the devices of the "
        "node's cards"
    ),
}


class NvmlError(errors.VgpuError):
    """NVML cannot be asked; one sentence with the cause and what to do."""


class EventsError(NvmlError):
    """NVML no longer tells of events; the cards must be looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as NVML shows it.

    Attributes:
        index: in the order of PCI addresses.
        memory_mib: None where the card has no memory of its own to tell of, as
            where CPU and GPU share one.
        numa: the NUMA node it is nearest to; 0 where that is not told.
        mig: whether it is in MIG mode, where only its instances can be used.
        mig_room: how many instances it can have.
        instances: the MIG instances that are there: profile and UUID.
        recovery: what the driver wants done before the card is used again; empty
            for nothing, None when this driver does not tell.
    """

    index: int
    uuid: str
    name: str
    memory_mib: int | None
    numa: int = 0
    mig: bool = False
    mig_room: int = 0
    instances: tuple[str, ...] = ()
    recovery: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A card that NVML counts but can tell nothing of."""

    index: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """A fault that the driver reported.

    Attributes:
        uuid: of the card; None when NVML does not say.
    """

    uuid: str | None
    number: int


class Session:
    """NVML from its start to its end; a context manager.

    Raises:
        NvmlError: it cannot be started.
    """

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as fault:
            raise NvmlError(_sentence(fault)) from fault
        self._events: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for end in (self._forget_events, pynvml.nvmlShutdown):
            with contextlib.suppress(pynvml.NVMLError):  # whatever there is is let go of
                end()

    def look(self) -> tuple[Card | Lost, ...]:
        """Return every card as it is now.

        Raises:
            NvmlError: not even their number can be told.
        """
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as fault:
            raise NvmlError(_sentence(fault)) from fault
        return tuple(_look_at(index) for index in range(count))

    def listen(self, cards: Sequence[Card | Lost]) -> tuple[str, ...]:
        """Ask for the faults of these cards; return the UUIDs of those that report none.

        Raises:
            EventsError: NVML tells of no events at all.
        """
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as fault:
            raise EventsError(_sentence(fault)) from fault
        return tuple(card.uuid for card in cards if isinstance(card, Card) if self._deaf(card))

    def wait(self, limit_ms: int) -> Xid | None:
        """Return the next fault; None when there is none within the limit.

        Raises:
            EventsError: as when a card falls off the bus; NVML does not say which.
        """
        try:
            event = pynvml.nvmlEventSetWait(self._events, limit_ms)
        except pynvml.NVMLError as fault:
            if fault.value == pynvml.NVML_ERROR_TIMEOUT:
                return None
            raise EventsError(_sentence(fault)) from fault
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return None
        return Xid(uuid=_whose(event), number=int(event.eventData))

    def _deaf(self, card: Card) -> bool:
        wanted = pynvml.nvmlEventTypeXidCriticalError
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(card.index)
            if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & wanted:
                return True
            pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._events)
        except pynvml.NVMLError:
            return True
        return False

    def _forget_events(self) -> None:
        if self._events is not None:
            pynvml.nvmlEventSetFree(self._events)


def _whose(event: Any) -> str | None:
    try:
        return pynvml.nvmlDeviceGetUUID(event.device) or None
    except pynvml.NVMLError:
        return None


def _look_at(index: int) -> Card | Lost:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        mig = _in_mig_mode(handle)
        return Card(
            index=index,
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            name=pynvml.nvmlDeviceGetName(handle),
            memory_mib=_memory_mib(handle),
            numa=_numa(handle),
            mig=mig,
            mig_room=_mig_room(handle) if mig else 0,
            instances=_instances(handle) if mig else (),
            recovery=_recovery(handle),
        )
    except pynvml.NVMLError as fault:
        return Lost(index=index, why=str(fault))


def _memory_mib(handle: Any) -> int | None:
    try:
        total = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError as fault:
        if fault.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise
    return total // _MIB or None


def _numa(handle: Any) -> int:
    """Return the first NUMA node of the card's memory affinity.

    Not by ``nvmlDeviceGetNumaNodeId``: that is of cards that are NUMA nodes themselves.
    """
    words = _or_else(
        (),
        pynvml.nvmlDeviceGetMemoryAffinity,
        handle,
        _NUMA_WORDS,
        pynvml.NVML_AFFINITY_SCOPE_NODE,
    )
    for place, word in enumerate(words):
        if word:
            return place * 64 + (int(word) & -int(word)).bit_length() - 1
    return 0


def _in_mig_mode(handle: Any) -> bool:
    current, _pending = _or_else((0, 0), pynvml.nvmlDeviceGetMigMode, handle)
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def _mig_room(handle: Any) -> int:
    return int(_or_else(0, pynvml.nvmlDeviceGetMaxMigDeviceCount, handle))


def _instances(handle: Any) -> tuple[str, ...]:
    found = (_or_else(None, _instance, handle, place) for place in range(_mig_room(handle)))
    return tuple(each for each in found if each)


def _instance(handle: Any, place: int) -> str:
    instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
    # The name of an instance is the card's, then the word MIG, then its profile.
    profile = pynvml.nvmlDeviceGetName(instance).rpartition("MIG ")[2]
    return f"{profile} {pynvml.nvmlDeviceGetUUID(instance)}"


def _recovery(handle: Any) -> str | None:
    (answer,) = _or_else(
        (None,),
        pynvml.nvmlDeviceGetFieldValues,
        handle,
        [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION],
    )
    if answer is None or answer.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    action = int(answer.value.uiVal)
    return _RECOVERY.get(action, f"do what NVIDIA's driver says by recovery action {action}")


def _or_else(default: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the call answers; the default where this card or driver does not tell.

    Raises:
        NVMLError: the card itself is gone.
    """
    try:
        return call(*arguments)
    except pynvml.NVMLError as fault:
        if fault.value in (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED):
            raise
        return default


def _sentence(fault: Any) -> str:
    advice = _ADVICE.get(fault.value)
    if advice is not None:
        return advice
    return (
        f"NVIDIA's management library answers {str(fault)!r} (NVML error {fault.value}): run "
        "nvidia-smi on the node itself, and repair the driver where that fails too"
    )
