"""Hygon's section."""

from vgpu_operator.model.vendor_settings import section


class HygonSettings(section.Section):
    """Hygon's names and defaults, as in HAMi's device configuration (``hygon``)."""

    resource_count_name: section.ResourceName = "hygon.com/dcunum"
    """Resource that counts cards."""
    resource_memory_name: section.OptionalResourceName = "hygon.com/dcumem"
    """Resource for memory on each card; empty switches it off."""
    resource_core_name: section.OptionalResourceName = "hygon.com/dcucores"
    """Resource for cores in percent of one card; empty switches it off."""
    memory_factor: section.MemoryFactor = 1
    """How many MiB one unit of the memory resource is."""
