"""The most that a share may cost its card, by the common rules."""

from vgpu_operator.model import allocation, device, request
from vgpu_operator.vendors import walk


def cut(
    share: allocation.DeviceShare, memory_mib: int, cores_percent: int
) -> allocation.DeviceShare:
    """Return the share with no more than these amounts."""
    if share.memory_mib <= memory_mib and share.cores_percent <= cores_percent:
        return share
    return allocation.DeviceShare(
        device_id=share.device_id,
        vendor_word=share.vendor_word,
        memory_mib=min(share.memory_mib, memory_mib),
        cores_percent=min(share.cores_percent, cores_percent),
    )


def most_cores(asked: request.DeviceRequest) -> int:
    """Return the cores that a container may hold; what it does not name may have been all."""
    return walk.WHOLE_CARD if asked.cores_by_default else min(asked.cores_percent, walk.WHOLE_CARD)


def most_memory_mib(
    asked: request.DeviceRequest, share: allocation.DeviceShare, card: device.Device | None
) -> int:
    """Return the MiB that a container may hold on that card, None while it is absent."""
    if asked.memory_by_default:
        return share.memory_mib if card is None else card.memory_mib
    if card is not None:
        return asked.memory_on(card.memory_mib)
    if asked.memory_mib == 0 and asked.memory_percent is not None:
        return share.memory_mib
    return asked.memory_mib
