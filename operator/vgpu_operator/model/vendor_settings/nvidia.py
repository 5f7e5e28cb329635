"""The section of NVIDIA."""

import pydantic

from vgpu_operator.model.vendor_settings import section


class NvidiaSettings(section.Section):
    """NVIDIA's names and defaults, as in HAMi's device configuration (``nvidia``)."""

    resource_count_name: str = "nvidia.com/gpu"
    """Resource that counts cards."""
    resource_memory_name: str = "nvidia.com/gpumem"
    """Resource for memory on each card; empty switches it off."""
    resource_memory_percentage_name: str = "nvidia.com/gpumem-percentage"
    """Resource for memory in percent of each card; empty switches it off."""
    resource_core_name: str = "nvidia.com/gpucores"
    """Resource for cores in percent of one card; empty switches it off."""
    resource_priority_name: str = "nvidia.com/priority"
    """Resource that becomes ``CUDA_TASK_PRIORITY``; empty switches it off."""
    default_memory: int = pydantic.Field(default=0, ge=0, le=2**31 - 1)
    """MiB for a container that names no memory; 0 means the whole card."""
    default_cores: int = pydantic.Field(default=0, ge=0, le=100)
    """Percent of one card for a container that names no cores."""
    default_gpu_num: int = pydantic.Field(default=1, ge=0, le=2**31 - 1, alias="defaultGPUNum")
    """Cards for a container that names memory or cores but no count; 0 leaves it without."""
    memory_factor: section.MemoryFactor = 1
    """How many MiB one unit of the memory resource is; 0 behaves as 1."""
    overwrite_env: bool = False
    """Hide all cards (``NVIDIA_VISIBLE_DEVICES=none``) from containers that ask for none."""
    gpu_core_policy: str = "default"
    """``GPU_CORE_UTILIZATION_POLICY`` for pods with cards; ``default`` sets nothing."""
    runtime_class_name: str = ""
    """RuntimeClass for pods with cards that name none; empty sets none."""
