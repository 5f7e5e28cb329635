"""The section of Kunlun: whole cards (XPU) and slices of a card (vXPU)."""

from vgpu_operator.model.vendor_settings import section


class KunlunNames(section.Section):
    """Kunlun's names, as in HAMi's device configuration (``kunlun``)."""

    resource_count_name: section.OptionalResourceName = "kunlunxin.com/xpu"
    """Resource that counts whole cards."""
    resource_v_count_name: section.OptionalResourceName = "kunlunxin.com/vxpu"
    """Resource that counts cards of which a container gets a slice."""
    resource_v_memory_name: section.OptionalResourceName = "kunlunxin.com/vxpu-memory"
    """Resource for a slice's memory in MiB, rounded up to a quarter, half or whole card."""


class KunlunSettings(KunlunNames):
    """Kunlun; HAMi's chart only leaves its resources to kube-scheduler where it is off."""

    enabled: bool = True
    """Whether pods may ask for Kunlun cards."""
