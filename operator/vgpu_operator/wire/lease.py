"""A ``coordination.k8s.io/v1`` Lease, as far as leadership goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who leads, and what proves that he still does.

    ``renewed`` is compared, never read: the clocks of two machines differ. A
    version that changes alone (somebody labels the Lease) proves nothing.
    kube-scheduler always writes a duration; by a Lease without one nobody leads:
    nothing says when its holder gives up.
    """

    holder: str = ""
    renewed: str = ""
    duration_s: float = 0.0
    resource_version: str = field(default="", compare=False)


def decode_lease(raw: Mapping[str, Any]) -> Lease:
    """Read a Lease; anything missing or of the wrong type reads as absent.

    >>> decode_lease({"spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 15}}).holder
    'a_1'
    >>> decode_lease({}).holder
    ''
    """
    spec = raw.get("spec")
    version = _version(raw.get("metadata"))
    if not isinstance(spec, Mapping):
        return Lease(resource_version=version)
    holder = spec.get("holderIdentity")
    renewed = spec.get("renewTime")
    duration = spec.get("leaseDurationSeconds")
    return Lease(
        holder=holder if isinstance(holder, str) else "",
        renewed=renewed if isinstance(renewed, str) else "",
        duration_s=float(duration) if isinstance(duration, int) and 0 < duration < 2**31 else 0.0,
        resource_version=version,
    )


def _version(metadata: object) -> str:
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else ""
