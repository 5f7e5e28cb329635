"""The devices that a pod is promised, and those it still waits for.

Grammar::

    pod       = { container ";" }
    container = { entry ":" }
    entry     = id "," word "," memory_mib "," cores_percent { "," ignored }
              | ",,0,0"                       no device, as HAMi once wrote it
              | ""                            no device

One container segment per container of the pod, init containers first, empty
where a container has no device. Numbers are 0 to 2147483647. The last ``:`` of
a container and the last ``;`` of the text may be missing. An id may name an
instance of a card: ``GPU-a0[0-1]``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_operator.model import allocation, errors
from vgpu_operator.wire import fields

MOST_PARTS: Final = 2048
"""Containers in a text, and entries in a container, that are told apart.

No pod has as many. What comes behind is one unreadable entry, so that a text of
256 KiB, which anybody who may change a pod can write, costs milliseconds.
"""

_FIELDS: Final = 4
_NO_DEVICE: Final = ["", "", "0", "0"]
_PLAIN_ENTRY: Final = re.compile(r"([\w./\[\]-]+),([\w-]+),(\d{1,9}),(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """What could be read of a pod's devices, and what could not.

    Attributes:
        shares: one entry per container of the text.
        faults: one per unreadable entry; ``segment`` is the container's index,
            ``offset`` the entry's first character.
    """

    shares: allocation.PodShares
    faults: tuple[errors.DecodeError, ...] = ()


def decode_pod_devices(text: str, *, key: str = "", containers: int | None = None) -> PodDevices:
    """Read a devices annotation; an unreadable entry costs nothing but itself.

    Exactly one empty segment is dropped at the end: the one that the last
    ``;`` makes. A text that a plugin has worked on holds more of them.

    Args:
        containers: how many containers the pod has, where known: empty
            segments beyond that number are dropped.

    >>> read = decode_pod_devices(";GPU-a0,NVIDIA,2000,10:;")
    >>> len(read.shares), read.shares[0], read.shares[1][0].memory_mib
    (2, (), 2000)
    >>> read = decode_pod_devices("GPU-a0,NVIDIA,abc,0:GPU-a1,NVIDIA,5,0:;", key="k")
    >>> [share.device_id for share in read.shares[0]], str(read.faults[0])
    (['GPU-a1'], "k, segment 0 at offset 0: memory must be an integer, got 'abc'")
    """
    if containers is not None:
        surplus = ";" * (containers + 1)
        if text.endswith(surplus):
            text = text.rstrip(";") + surplus
    plain = _decode_plain(text, containers)
    if plain is not None:
        return PodDevices(shares=plain)
    segments = _container_segments(text, containers)
    return decode_entries([_placed(offset, segment) for offset, segment in segments], key=key)


def _decode_plain(text: str, containers: int | None) -> allocation.PodShares | None:
    """Read a text as we write it; None for every other, readable or not.

    Nearly every text is such a one, and a start reads tens of thousands.
    """
    if text[-1:] != ";":
        return None
    segments = text[:-1].split(";")
    if containers is not None and len(segments) > containers:
        return None
    found: list[allocation.ContainerShares] = []
    for segment in segments:
        if not segment:
            found.append(())
            continue
        if segment[-1] != ":":
            return None
        shares = []
        for entry in segment[:-1].split(":"):
            match = _PLAIN_ENTRY.fullmatch(entry)
            if match is None:
                return None
            device_id, word, memory_mib, cores_percent = match.groups()
            shares.append(
                allocation.DeviceShare(
                    device_id=device_id,
                    vendor_word=word,
                    memory_mib=int(memory_mib),
                    cores_percent=int(cores_percent),
                )
            )
        found.append(tuple(shares))
    return tuple(found)


def split_entries(text: str) -> list[list[tuple[int, str]]]:
    """Return the entries of each segment that may be a device, with their offsets in the text."""
    return [_placed(offset, segment) for offset, segment in _split(text, ";")]


def decode_entries(containers: Sequence[Sequence[tuple[int, str]]], *, key: str = "") -> PodDevices:
    """Read the entries of each container, as ``split_entries`` returns them."""
    shares: list[allocation.ContainerShares] = []
    faults: list[errors.DecodeError] = []
    for index, entries in enumerate(containers):
        of_container: list[allocation.DeviceShare] = []
        for offset, entry in entries:
            try:
                share = _decode_placed(entry, key=key, segment=index, offset=offset)
                of_container.append(share)
            except errors.DecodeError as fault:
                faults.append(fault)
        shares.append(tuple(of_container))
    return PodDevices(shares=tuple(shares), faults=tuple(faults))


def encode_pod_devices(shares: allocation.PodShares) -> str:
    """Write a devices annotation.

    >>> share = allocation.DeviceShare(
    ...     device_id="GPU-a0", vendor_word="NVIDIA", memory_mib=1000, cores_percent=0)
    >>> encode_pod_devices(((), (share,), ()))
    ';GPU-a0,NVIDIA,1000,0:;;'

    Raises:
        ValueError: an id or word holds a separator.
    """
    return "".join(encode_container(of_container) + ";" for of_container in shares)


def encode_container(shares: allocation.ContainerShares) -> str:
    """Write the devices of one container, each with its ``:``."""
    return "".join(f"{_encode_share(share)}:" for share in shares)


def is_served(text: str) -> bool:
    """Say whether no container segment names a device, readable or not.

    >>> is_served(";;"), is_served(""), is_served(";GPU-a1,NVIDIA,3000,20:;;")
    (True, True, False)
    """
    if not text.strip(";"):
        return True
    return not any(True for _, segment in _split(text, ";") for _ in _entries(segment))


def take_first(text: str) -> tuple[int, allocation.ContainerShares, str] | None:
    """Take the first container's devices off a to-allocate text, as HAMi's plugin does.

    The plugin reads the empty segment after the last ``;`` as one more
    container and writes it back with a ``;`` of its own, so the text grows by
    one with each call (recorded with HAMi v2.10.0's NVIDIA plugin). Entries
    without any comma it passes over; another bad one stops it.

    Returns:
        The container's index, its devices, and the text that is left; None
        when no device is left.

    >>> index, shares, left = take_first("GPU-a0,NVIDIA,2000,10:;GPU-a1,NVIDIA,3000,20:;")
    >>> index, shares[0].device_id, left
    (0, 'GPU-a0', ';GPU-a1,NVIDIA,3000,20:;;')
    >>> take_first(left)[2]
    ';;;;'
    >>> take_first(";;;;") is None
    True

    Raises:
        DecodeError: an entry of any container is unreadable.
    """
    every: list[allocation.ContainerShares] = []
    for index, (offset, segment) in enumerate(_split(text, ";")):
        of_container: list[allocation.DeviceShare] = []
        for at, entry in _entries(segment):
            if "," not in entry:
                continue
            of_container.append(_decode_placed(entry, segment=index, offset=offset + at))
        every.append(tuple(of_container))
    for index, taken in enumerate(every):
        if taken:
            every[index] = ()
            return index, taken, encode_pod_devices(tuple(every))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The first container segment of a to-allocate text that names a device.

    Attributes:
        index: its place in the text.
        offset: of its first character in the text.
        text: what it says, readable or not.
        of: how many container segments the text has.
        left: how many of these name a device, this one included.
        rest: the text without what it says; every other character stays.
    """

    index: int
    offset: int
    text: str
    of: int
    left: int
    rest: str

    def decode(self, *, key: str = "") -> allocation.ContainerShares:
        """Return its devices.

        Raises:
            DecodeError: an entry is unreadable.
        """
        return tuple(
            _decode_placed(entry, key=key, segment=self.index, offset=self.offset + at)
            for at, entry in _entries(self.text)
        )


def next_segment(text: str) -> Segment | None:
    """Find the container that is served next; None when no device is left.

    >>> found = next_segment(";GPU-a0,NVIDIA,2000,10:;GPU-a1,NVIDIA,3000,20:;")
    >>> found.index, found.of, found.left, found.rest
    (1, 3, 2, ';;GPU-a1,NVIDIA,3000,20:;')
    >>> found.decode()[0].memory_mib, next_segment(";;;")
    (2000, None)
    """
    segments = _container_segments(text, None)
    named = [place for place, (_, segment) in enumerate(segments) if any(_entries(segment))]
    if not named:
        return None
    first = named[0]
    offset, said = segments[first]
    return Segment(
        index=first,
        offset=offset,
        text=said,
        of=len(segments),
        left=len(named),
        rest=text[:offset] + text[offset + len(said) :],
    )


def _decode_placed(
    entry: str, *, key: str = "", segment: int, offset: int
) -> allocation.DeviceShare:
    try:
        return _decode_entry(entry)
    except errors.DecodeError as fault:
        raise errors.DecodeError(fault.reason, key=key, segment=segment, offset=offset) from fault


def _container_segments(text: str, containers: int | None) -> list[tuple[int, str]]:
    segments = list(_split(text, ";"))
    if not segments[-1][1].strip():
        segments.pop()
    if containers is not None:
        while len(segments) > containers and not segments[-1][1].strip():
            segments.pop()
    return segments


def _placed(offset: int, segment: str) -> list[tuple[int, str]]:
    """Return the entries of a container segment with their offsets in the whole text."""
    return [(offset + at, entry) for at, entry in _entries(segment)]


def _split(text: str, separator: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text with the offset of each part's first character."""
    offset = 0
    for part in text.split(separator, MOST_PARTS):
        yield offset, part
        offset += len(part) + len(separator)


def _entries(segment: str) -> Iterator[tuple[int, str]]:
    """Yield the entries of a container segment that may be a device, with their offsets."""
    for offset, part in _split(segment, ":"):
        entry = part.strip()
        if entry and entry.split(",", _FIELDS)[:_FIELDS] != _NO_DEVICE:
            yield offset, entry


def _decode_entry(entry: str) -> allocation.DeviceShare:
    words = entry.split(",", _FIELDS)
    if len(words) < _FIELDS:
        raise errors.DecodeError(f"{_FIELDS} fields are wanted, got {fields.shown(entry)}")
    return allocation.DeviceShare(
        device_id=fields.decode_id(words[0]),
        vendor_word=words[1],
        memory_mib=fields.decode_integer(words[2], name="memory", low=0),
        cores_percent=fields.decode_integer(words[3], name="cores", low=0),
    )


def _encode_share(share: allocation.DeviceShare) -> str:
    return fields.joined(share.device_id, share.vendor_word, share.memory_mib, share.cores_percent)
