"""Why a node has no cards of a vendor, in a sentence for the pod's author."""

from vgpu_operator.vendors import base


def never(spec: base.VendorSpec) -> str:
    """Say what the node would have to show.

    Vendors without a register annotation are read from the node's capacity.
    """
    if spec.register_key is not None:
        return f"the node has no annotation {spec.register_key}; start the device plugin there"
    resource = spec.supply_resource or spec.count_resource
    return f"the node's capacity does not name {resource}; start the device plugin there"


def by_text(spec: base.VendorSpec, key: str | None, *, text: str | None, fault: str) -> str:
    """Say what is wrong with a text that was seen, though its handshake is in order.

    Args:
        spec: of the vendor.
        key: the annotation, which another dialect may have named; None for capacity.
        text: as last seen; None when it was removed.
        fault: why it cannot be read; empty when it can.
    """
    source = f"annotation {key}" if key else "the node's capacity"
    if text is None:
        return never(spec) if key is None else f"{source} was removed"
    if fault:
        return f"{source} cannot be read: {fault}"
    return f"{source} lists no card"


def expired(handshake_key: str | None) -> str:
    """Say that the cards left with the handshake."""
    return (
        f"the handshake has expired ({handshake_key}) and nothing is allocatable; "
        "start the device plugin there"
    )
