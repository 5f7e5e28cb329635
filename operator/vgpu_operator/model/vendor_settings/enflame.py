"""Enflame's section, for whole cards and for partitions."""

from collections.abc import Iterator

import pydantic

from vgpu_operator.model.vendor_settings import section


class EnflameNames(section.Section):
    """Enflame's names, as in HAMi's device configuration (``enflame``)."""

    resource_name_gcu: section.ResourceName = pydantic.Field(
        default="enflame.com/gcu", alias="resourceNameGCU"
    )
    """Resource that counts whole cards."""
    resource_name_drs_gcu: section.OptionalResourceName = pydantic.Field(
        default="", alias="resourceNameDRSGCU"
    )
    """Resource for slices of one card; empty means ``resourceNameVGCU``, and if
    that is empty too, ``enflame.com/drs-gcu``."""
    resource_name_gcu_memory: section.OptionalResourceName = pydantic.Field(
        default="enflame.com/gcu-memory", alias="resourceNameGCUMemory"
    )
    """Resource for memory of a partition, in GB or MiB."""
    resource_name_gcu_core: section.OptionalResourceName = pydantic.Field(
        default="enflame.com/gcu-core", alias="resourceNameGCUCore"
    )
    """Resource for cores of a partition in percent of one card."""
    resource_name_vgcu: section.OptionalResourceName = pydantic.Field(
        default="", alias="resourceNameVGCU"
    )
    """Earlier name of ``resourceNameDRSGCU``."""
    resource_name_vgcu_percentage: str = pydantic.Field(
        default="", alias="resourceNameVGCUPercentage"
    )
    """Read from older configurations; means nothing any more."""

    def resource_names(self) -> Iterator[tuple[str, str]]:
        """Yield them as ``Section`` does; what only names the slices again counts once."""
        meaningless = {"resourceNameDRSGCU", "resourceNameVGCU", "resourceNameVGCUPercentage"}
        yield from (item for item in super().resource_names() if item[0] not in meaningless)
        earlier = not self.resource_name_drs_gcu and self.resource_name_vgcu
        yield "resourceNameVGCU" if earlier else "resourceNameDRSGCU", self.slices_resource

    @property
    def slices_resource(self) -> str:
        """The resource for slices of one card."""
        return self.resource_name_drs_gcu or self.resource_name_vgcu or "enflame.com/drs-gcu"


class EnflameSettings(EnflameNames):
    """Enflame; HAMi's chart only leaves its resources to kube-scheduler where it is off."""

    enabled: bool = True
    """Whether pods may ask for Enflame cards."""
