"""What a back end of the node agent is: it knows the cards, and what a container needs for a slice.

Neither the kubelet nor the API server is known here: the agent turns a ``Grant``
into the answer of Allocate, and the cards into register text and device ids.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from vgpu_operator.model import device


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One device entry that a container gets.

    Attributes:
        card: as the back end knows it.
        memory_mib: what the container may use of it.
        cores_percent: what it may use of its time; 0 sets no limit.
    """

    card: device.Device
    memory_mib: int
    cores_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The container that gets slices."""

    namespace: str
    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host that the container sees."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device file of the host that the container may open.

    Attributes:
        permissions: of the letters ``r``, ``w`` and ``m`` (make).
    """

    container_path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What the container is given with its slices."""

    envs: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()


class Backend(Protocol):
    """The cards of one node."""

    @property
    def vendor(self) -> str:
        """Keyword of the vendor whose cards these are; empty until ``cards`` has told them."""
        ...

    async def cards(self) -> tuple[device.Device, ...]:
        """Return all cards in index order.

        Raises:
            errors.VgpuError: they cannot be told; one sentence with the cause.
        """
        ...

    def changes(self) -> AsyncIterator[tuple[device.Device, ...]]:
        """Yield all cards whenever their health, or anything else of them, has changed."""
        ...

    def grant(self, holder: Holder, slices: tuple[Slice, ...]) -> Grant:
        """Return what a container needs to use its slices, and no more.

        Called in a thread, before the slices are taken. It may make files on the host,
        and is asked again for the same container where somebody else changed its pod.

        Raises:
            OSError: a file could not be made.
        """
        ...

    async def close(self) -> None:
        """Let go of whatever is open."""
        ...
