"""AMD's section."""

from vgpu_operator.model.vendor_settings import section


class AmdSettings(section.Section):
    """AMD's names, as in HAMi's device configuration (``amd``)."""

    resource_count_name: section.ResourceName = "amd.com/gpu"
    """Resource that counts cards."""
    resource_memory_name: section.OptionalResourceName = "amd.com/gpumem"
    """Resource for memory on each card in MiB; empty switches it off."""
    resource_core_name: section.OptionalResourceName = "amd.com/gpucores"
    """Resource for compute units in percent of one card; empty switches it off."""
