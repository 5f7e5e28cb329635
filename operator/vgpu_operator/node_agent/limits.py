"""What HAMi's enforcement library (HAMi-core, ``libvgpu.so``) reads in a container.

The library stands between a program and CUDA. It takes its limits from the
environment, keeps what the container uses in a cache file, and lets one process
at a time start under a lock. Names, units and places are those that HAMi
v2.10.0's own NVIDIA plugin was recorded to hand out; that one SM limit may stand
for all cards, or one for each, and that 0 is no limit, is how the library reads them.

A container's own environment comes after that of a device plugin (kubelet,
``GenerateRunContainerOptions``), so a pod that sets one of these names wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from vgpu_operator.node_agent import backend

LIBRARY: Final = "libvgpu.so"
PRELOAD: Final = "ld.so.preload"
FOLDER: Final = "/usr/local/vgpu"
"""Where HAMi installs the library, on the host and in the container."""

_LOCK_FOLDER = "/tmp/vgpulock"  # noqa: S108  # the library knows no other place


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where the library is.

    Attributes:
        host_folder: holds the library, ``ld.so.preload`` and the containers' caches.
        container_library: where a container must find the library: what
            ``ld.so.preload`` says.
    """

    host_folder: str
    container_library: str

    @property
    def container_folder(self) -> str:
        """The folder that a container finds the library and its cache in."""
        return str(PurePosixPath(self.container_library).parent)


def environment(
    holder: backend.Holder,
    slices: Sequence[backend.Slice],
    *,
    folder: str = FOLDER,
    oversubscribed: bool = False,
) -> dict[str, str]:
    """Return the environment of the container that gets the slices, in their order.

    Args:
        holder: the container.
        slices: at least one.
        folder: of the cache file, as the container sees it.
        oversubscribed: more memory is promised than the cards have; the library
            then moves to the host's memory what is too much.
    """
    names = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{part.memory_mib}m"
        for place, part in enumerate(slices)
    }
    names |= _sm_limits([part.cores_percent for part in slices])
    names["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{folder}/{_of(holder)}.cache"
    names["LIBCUDA_LOG_LEVEL"] = "1"
    names["NVIDIA_VISIBLE_DEVICES"] = ",".join(part.card.id for part in slices)
    if oversubscribed:
        names["CUDA_OVERSUBSCRIBE"] = "true"
    return names


def _sm_limits(percents: Sequence[int]) -> dict[str, str]:
    names = {"CUDA_DEVICE_SM_LIMIT": str(percents[0])}
    if len(set(percents)) > 1:
        # A card's own 0 would mean "as for all cards" here: no limit is 100.
        names |= {
            f"CUDA_DEVICE_SM_LIMIT_{place}": str(percent or 100)
            for place, percent in enumerate(percents)
        }
    return names


def mounts(holder: backend.Holder, installed: Installation) -> tuple[backend.Mount, ...]:
    """Return the mounts by which every program in the container loads the library."""
    inside, host = installed.container_folder, installed.host_folder
    return (
        # The folder first: the library's file is mounted into it.
        backend.Mount(
            container_path=inside, host_path=cache_folder(holder, installed), read_only=False
        ),
        backend.Mount(
            container_path=installed.container_library,
            host_path=f"{host}/{LIBRARY}",
            read_only=True,
        ),
        backend.Mount(
            container_path=_LOCK_FOLDER, host_path=lock_folder(installed), read_only=False
        ),
        backend.Mount(
            container_path=f"/etc/{PRELOAD}", host_path=f"{host}/{PRELOAD}", read_only=True
        ),
    )


def cache_folder(holder: backend.Holder, installed: Installation) -> str:
    """Return the host's folder for the container's cache file."""
    return f"{installed.host_folder}/containers/{_of(holder)}"


def lock_folder(installed: Installation) -> str:
    """Return the host's folder for the lock that all containers of the node share.

    Not ``/tmp/vgpulock`` of the host, as HAMi's plugin has it: that one the agent
    could not make writable for users other than root without the host's ``/tmp``.
    """
    return f"{installed.host_folder}/vgpulock"


def _of(holder: backend.Holder) -> str:
    return f"{holder.uid}_{holder.container}"
