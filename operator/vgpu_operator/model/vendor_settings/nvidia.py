"""The section of NVIDIA."""

import pydantic

from vgpu_operator.model.vendor_settings import section


class MigModels(section.Section):
    """Which MIG profiles may be used on some models, as an entry of ``migProfileAllowlist``."""

    models: tuple[str, ...] = pydantic.Field(min_length=1)
    """Parts of the models' names; the first entry that names a card's model counts."""
    profiles: tuple[str, ...] = pydantic.Field(min_length=1)
    """The profiles' names, as the driver has them."""


def _models(models: str, profiles: str) -> MigModels:
    return MigModels(models=tuple(models.split(",")), profiles=tuple(profiles.split()))


MIG_MODELS = (
    _models("A30", "1g.6gb 2g.12gb 4g.24gb"),
    _models("A100-SXM4-40GB,A100-40GB-PCIe,A100-PCIE-40GB", "1g.5gb 2g.10gb 3g.20gb 7g.40gb"),
    _models("A100-SXM4-80GB,A100-80GB-PCIe,A100-PCIE-80GB", "1g.10gb 2g.20gb 3g.40gb 7g.79gb"),
    _models("H100-PCIE-80GB,H100-SXM5-80GB", "1g.10gb 2g.20gb 3g.40gb 7g.80gb"),
    _models("H100-PCIE-94GB,H100-SXM5-94GB", "1g.12gb 2g.24gb 3g.47gb 7g.94gb"),
    _models("H20,H100 on GH200", "1g.12gb 2g.24gb 3g.48gb 7g.96gb"),
    _models("H200 NVL,H200-SXM5", "1g.18gb 2g.35gb 3g.71gb 7g.141gb"),
    _models("B200", "1g.23gb 2g.45gb 3g.90gb 7g.180gb"),
    _models("RTX PRO 6000 Blackwell Server Edition", "1g.24gb 2g.48gb 4g.96gb"),
)
"""HAMi's chart v2.10.0."""


class NvidiaSettings(section.Section):
    """NVIDIA's names and defaults, as in HAMi's device configuration (``nvidia``)."""

    resource_count_name: section.ResourceName = "nvidia.com/gpu"
    """Resource that counts cards."""
    resource_memory_name: section.OptionalResourceName = "nvidia.com/gpumem"
    """Resource for memory on each card; empty switches it off."""
    resource_memory_percentage_name: section.OptionalResourceName = "nvidia.com/gpumem-percentage"
    """Resource for memory in percent of each card; empty switches it off."""
    resource_core_name: section.OptionalResourceName = "nvidia.com/gpucores"
    """Resource for cores in percent of one card; empty switches it off."""
    resource_priority_name: section.OptionalResourceName = "nvidia.com/priority"
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
    mig_profile_allowlist: tuple[MigModels, ...] = MIG_MODELS
    """Which MIG profiles may be used, by model; a model that no entry names may use
    all that its plugin registers."""
