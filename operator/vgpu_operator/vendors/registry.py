"""Which vendors there are, in HAMi's order of registration."""

from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import base, nvidia


def build(settings: Settings) -> tuple[base.Vendor, ...]:
    """Return every vendor under the names and defaults of ``settings``."""
    return (nvidia.Nvidia(settings.vendors.nvidia),)
