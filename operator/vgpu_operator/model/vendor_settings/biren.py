"""Biren's section."""

from vgpu_operator.model.vendor_settings import section


class BirenNames(section.Section):
    """Biren's names, as in HAMi's device configuration (``biren``)."""

    resource_count_name: section.ResourceName = "birentech.com/gpu"
    """Resource that counts cards."""


class BirenSettings(BirenNames):
    """Biren; HAMi's chart only leaves its resources to kube-scheduler where it is off."""

    enabled: bool = True
    """Whether pods may ask for Biren cards."""
