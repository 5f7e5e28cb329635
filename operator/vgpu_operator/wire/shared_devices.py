"""The devices of a pod as the forerunner writes them: one text for all vendors.

Grammar (``entry`` as in ``pod_devices``; its word tells the vendor)::

    joined   = container { ";" container }        k8s-vgpu-scheduler
    running  = { container }                      the walk-through
    container = { entry ":" }

Neither tells everything: the running form does not say where a container
ends, and the forerunner knows no init containers, so a text may begin with
the first app container. What the pod's containers ask for settles it: the
reading that gives every container as many devices as it asks for is meant.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from vgpu_operator.model import allocation
from vgpu_operator.wire import pod_devices

JOINED: Final = ";"
RUNNING: Final = ":"

_Entries: TypeAlias = list[tuple[int, str]]
"""Entries of one container, each with the offset of its first character."""


def decode(
    text: str, *, key: str = "", asked: Sequence[int] | None = None, n_init: int = 0
) -> pod_devices.PodDevices:
    """Read a text of either form; an unreadable entry costs nothing but itself.

    Args:
        text: the annotation.
        key: its key, for faults.
        asked: how many devices each container of the pod asks for, init
            containers first; None where the pod is not known: then the joined
            form is believed.
        n_init: how many of them are init containers.

    >>> running = "a,NVIDIA,3000,0:b,NVIDIA,5000,0:"
    >>> [len(c) for c in decode(running, asked=(1, 1)).shares], len(decode(running).shares)
    ([1, 1], 1)
    >>> [len(c) for c in decode(running, asked=(1, 2), n_init=1).shares]
    [0, 2]
    """
    if asked is not None:
        text = text.rstrip(JOINED)  # empty segments at the end mean nothing where they are counted
    segments = pod_devices.split_entries(text)
    if len(segments) > 1 and not segments[-1]:
        segments.pop()
    if asked is None:
        return pod_devices.decode_entries(segments, key=key)
    return pod_devices.decode_entries(_meant(segments, list(asked), n_init), key=key)


def encode(shares: allocation.PodShares, *, n_init: int = 0, separator: str = JOINED) -> str:
    """Write the shares of all vendors together, in either form.

    Init containers are left out unless one of them has a device: the
    forerunner's plugin counts app containers only.

    >>> share = allocation.DeviceShare(
    ...     device_id="a", vendor_word="NVIDIA", memory_mib=3000, cores_percent=0)
    >>> encode(((), (share,), (share,)), n_init=1)
    'a,NVIDIA,3000,0:;a,NVIDIA,3000,0:'
    >>> encode(((share,), (share,)), separator=RUNNING)
    'a,NVIDIA,3000,0:a,NVIDIA,3000,0:'

    Raises:
        ValueError: an id or word holds a separator.
    """
    if not any(shares[:n_init]):
        shares = shares[n_init:]
    containers = (pod_devices.encode_container(of_container) for of_container in shares)
    return ("" if separator == RUNNING else JOINED).join(containers)


def take_first(text: str, amount: int) -> tuple[int, allocation.ContainerShares, str] | None:
    """Take the first container's devices off a to-allocate text, as the forerunner's plugin does.

    Args:
        text: the annotation.
        amount: how many devices the kubelet's call is for: where a text runs
            on, that many are the first container's.

    Returns:
        The segment's index, its devices, and the text that is left; None when
        no device is left.

    >>> take_first("a,NVIDIA,3000,0:;b,NVIDIA,5000,0:", 1)[2]
    ';b,NVIDIA,5000,0:'
    >>> take_first("a,NVIDIA,3000,0:b,NVIDIA,5000,0:", 1)[2]
    'b,NVIDIA,5000,0:'
    >>> take_first("b,NVIDIA,5000,0:", 1)[2], take_first(";", 1) is None
    ('', True)

    Raises:
        DecodeError: an entry that is taken is unreadable.
    """
    segments = pod_devices.split_entries(text)
    index = next((place for place, entries in enumerate(segments) if entries), None)
    if index is None:
        return None
    taken = segments[index]
    if not any(segments[index + 1 :]):
        taken = taken[:amount]
    segments[index] = segments[index][len(taken) :]
    read = pod_devices.decode_entries([taken])
    if read.faults:
        raise read.faults[0]
    left = JOINED.join("".join(f"{entry}:" for _, entry in entries) for entries in segments)
    return index, read.shares[0], left


def _meant(segments: list[_Entries], asked: list[int], n_init: int) -> list[_Entries]:
    """Return the containers that the segments stand for."""
    while segments and not segments[-1]:
        segments.pop()
    flat = [entry for segment in segments for entry in segment]
    inits: list[_Entries] = [[] for _ in asked[:n_init]]
    readings = (
        _filled(segments, len(asked)),
        _filled(inits + segments, len(asked)),
        _dealt(flat, asked),
        inits + _dealt(flat, asked[n_init:]),
    )
    for reading in readings:
        sizes = [len(container) for container in reading]
        if sizes[n_init:] == asked[n_init:] and (not any(sizes[:n_init]) or sizes == asked):
            return reading
    # The text holds something else than the pod asks for.
    if len(segments) <= 1:
        return readings[2] if any(asked[:n_init]) else readings[3]
    return readings[0] if len(segments) > len(asked) - n_init else readings[1]


def _filled(containers: list[_Entries], amount: int) -> list[_Entries]:
    """Return the containers with empty ones behind them up to that amount."""
    return containers + [[] for _ in range(amount - len(containers))]


def _dealt(flat: _Entries, asked: list[int]) -> list[_Entries]:
    """Return the entries dealt out in turn; what is over goes to the last that asks."""
    dealt: list[_Entries] = []
    place = 0
    for count in asked:
        dealt.append(flat[place : place + count])
        place += count
    last = max((index for index, count in enumerate(asked) if count), default=len(asked) - 1)
    if place < len(flat) and dealt:
        dealt[last] = dealt[last] + flat[place:]
    return dealt
