"""Vastai's section."""

from vgpu_operator.model.vendor_settings import section


class VastaiSettings(section.Section):
    """Vastai's names, as in HAMi's device configuration (``vastai``)."""

    resource_count_name: section.ResourceName = "vastaitech.com/va"
    """Resource that counts cards or dies."""
