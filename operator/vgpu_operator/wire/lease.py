"""A ``coordination.k8s.io/v1`` Lease, as far as leadership goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_DURATION_S = 15.0
"""What kube-scheduler uses where a Lease does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who leads, and what proves that he still does.

    ``renewed`` is compared, never read: the clocks of two machines differ. A
    version that changes alone (somebody labels the Lease) proves nothing.
    """

    holder: str = ""
    renewed: str = ""
    duration_s: float = DEFAULT_DURATION_S
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
        duration_s=float(duration)
        if isinstance(duration, int) and duration > 0
        else (DEFAULT_DURATION_S),
        resource_version=version,
    )


def _version(metadata: object) -> str:
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else ""
