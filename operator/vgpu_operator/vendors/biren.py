"""Biren: whole devices; memory and cores are not accounted.

Source: HAMi v2.10.0, ``pkg/device/biren/device.go``.
"""

from vgpu_operator.model.vendor_settings.biren import BirenSettings
from vgpu_operator.vendors import base, unaccounted


class Biren(unaccounted.Unaccounted):
    """Biren under the names of its settings."""

    def __init__(self, settings: BirenSettings) -> None:
        self.spec = unaccounted.spec(
            "Biren",
            node_word="biren",
            domain="birentech.com",
            count_resource=settings.resource_count_name,
        )


def backends(settings: BirenSettings) -> tuple[base.Vendor, ...]:
    """Return Biren's one back end; none while it is off."""
    return (Biren(settings),) if settings.enabled else ()
