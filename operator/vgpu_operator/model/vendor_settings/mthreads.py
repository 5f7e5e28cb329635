"""Moore Threads' section."""

from vgpu_operator.model.vendor_settings import section


class MthreadsNames(section.Section):
    """Moore Threads' names, as in HAMi's device configuration (``mthreads``)."""

    resource_count_name: section.ResourceName = "mthreads.com/vgpu"
    """Resource that counts cards."""
    resource_memory_name: section.ResourceName = "mthreads.com/sgpu-memory"
    """Resource for memory in units of 512 MiB; also what nodes offer."""
    resource_core_name: section.ResourceName = "mthreads.com/sgpu-core"
    """Resource for cores in sixteenths of a card; also what nodes offer."""


class MthreadsSettings(MthreadsNames):
    """Moore Threads; HAMi's chart only leaves its resources to kube-scheduler where it is off."""

    enabled: bool = True
    """Whether pods may ask for Moore Threads cards."""
