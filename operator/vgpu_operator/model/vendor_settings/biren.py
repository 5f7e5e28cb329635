"""Biren's section."""

from vgpu_operator.model.vendor_settings import section


class BirenSettings(section.Section):
    """Biren's names, as in HAMi's device configuration (``biren``)."""

    resource_count_name: section.ResourceName = "birentech.com/gpu"
    """Resource that counts cards."""
