"""What the models of the chart's values share."""

import enum
from typing import Annotated, Any, Final, Literal, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel

IGNORED: Final = "x-ignored"
"""Marks a value of HAMi's chart that means nothing here; its text says why."""


class Values(pydantic.BaseModel):
    """Base of all groups: unknown names are refused."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


def ignored(why: str) -> Any:
    """Return a field that is accepted and does nothing."""
    return pydantic.Field(default=None, json_schema_extra={IGNORED: why})


RESOURCE: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

Resource: TypeAlias = Annotated[str, pydantic.Field(pattern=RESOURCE)]
"""An extended resource: ``domain/name``."""

OptionalResource: TypeAlias = Annotated[str, pydantic.Field(pattern=f"^$|{RESOURCE}")]
"""The same, or empty: there is no such resource."""

Labels: TypeAlias = dict[str, str]

Open: TypeAlias = dict[str, Any]
"""An object of Kubernetes' own; the API server checks it."""

Objects: TypeAlias = list[Open]

Port: TypeAlias = Annotated[int, pydantic.Field(ge=1, le=65535)]

YesOrNo: TypeAlias = bool | Literal["true", "false"]
"""HAMi has some switches as texts."""


class PullPolicy(enum.StrEnum):
    """When an image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class Image(Values):
    """Where an image is."""

    registry: str = ""
    """Registry; `global.imageRegistry` replaces it."""
    repository: str
    """Repository in the registry."""
    tag: str = ""
    """Tag, or a digest (`sha256:…`)."""
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When it is pulled."""
    pull_secrets: list[Open | str] = []
    """Further pull secrets of the pod: names, or `{name: …}`."""
