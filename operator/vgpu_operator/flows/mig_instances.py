"""What NVIDIA's plugin adds to a pod's MIG allocations once it has made the instances."""

import dataclasses
import uuid

from vgpu_operator.vendors import mig


def made(text: str, container: int, *, pod: str) -> str:
    """Return the allocations with the names of the instances of one container.

    Made up, but as a driver's would be: an instance's number is its own on its
    card, because no two start at the same slice.

    >>> text = made('[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a",'
    ...             '"profile":"2g.10gb","placement":{"start":2,"size":2}}]', 0, pod="default/p1")
    >>> text.endswith('"gpuInstanceID":3,"computeInstanceID":0}]')
    True

    Args:
        text: the annotation.
        container: its index among all containers of the pod.
        pod: namespace and name.

    Raises:
        DecodeError: the text cannot be read.
    """
    return mig.encode_allocations(
        dataclasses.replace(one, identity=_identity(one, pod))
        if one.container == container
        else one
        for one in mig.decode_allocations(text)
    )


def _identity(instance: mig.Instance, pod: str) -> tuple[str, int, int]:
    place = f"{pod}/{instance.container}/{instance.share}"
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, place)}", instance.placement.start + 1, 0
