"""Cambricon's section."""

from vgpu_operator.model.vendor_settings import section


class CambriconSettings(section.Section):
    """Cambricon's names, as in HAMi's device configuration (``cambricon``)."""

    resource_count_name: section.ResourceName = "cambricon.com/vmlu"
    """Resource that counts cards."""
    resource_memory_name: section.ResourceName = "cambricon.com/mlu.smlu.vmemory"
    """Resource for memory on each card, in units of 256 MiB; also what nodes offer."""
    resource_core_name: section.ResourceName = "cambricon.com/mlu.smlu.vcore"
    """Resource for cores in percent of one card; also what nodes offer, 100 a card."""
