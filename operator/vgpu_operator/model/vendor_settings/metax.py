"""The section of MetaX: whole cards and shares of a card (sGPU)."""

from vgpu_operator.model.vendor_settings import section


class MetaxSettings(section.Section):
    """MetaX's names, as in HAMi's device configuration (``metax``)."""

    resource_count_name: section.OptionalResourceName = "metax-tech.com/gpu"
    """Resource that counts whole cards."""
    resource_v_count_name: section.OptionalResourceName = "metax-tech.com/sgpu"
    """Resource that counts cards of which a container gets a share."""
    resource_v_memory_name: section.OptionalResourceName = "metax-tech.com/vmemory"
    """Resource for a share's memory on each card: GiB, or bytes with a unit."""
    resource_v_core_name: section.OptionalResourceName = "metax-tech.com/vcore"
    """Resource for a share's cores in percent of one card."""
    sgpu_topology_aware: bool = False
    """Prefer nodes whose MetaLink zones whole-card requests leave intact; a pod's
    own annotation ``metax-tech.com/sgpu-topology-aware`` wins."""
