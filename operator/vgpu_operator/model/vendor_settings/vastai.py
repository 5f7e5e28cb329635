"""Vastai's section."""

from vgpu_operator.model.vendor_settings import section


class VastaiNames(section.Section):
    """Vastai's names, as in HAMi's device configuration (``vastai``)."""

    resource_count_name: section.ResourceName = "vastaitech.com/va"
    """Resource that counts cards or dies."""


class VastaiSettings(VastaiNames):
    """Vastai; HAMi's chart only leaves its resources to kube-scheduler where it is off."""

    enabled: bool = True
    """Whether pods may ask for Vastai cards."""
