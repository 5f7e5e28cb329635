"""``scheduling.k8s.io/v1`` PriorityClasses, and what the API server makes of them in a new Pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_operator.wire import fields, shape

PREEMPTS: Final = "PreemptLowerPriority"
"""The policy of a class that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """What a class says.

    Attributes:
        policy: ``preemptionPolicy`` of its pods.
        is_default: pods that name no class belong to it.
    """

    name: str
    value: int
    policy: str = PREEMPTS
    is_default: bool = False


BUILT_IN: Final = (
    PriorityClass(name="system-cluster-critical", value=2_000_000_000),
    PriorityClass(name="system-node-critical", value=2_000_001_000),
)
"""Those that every cluster has."""


def decode_class(raw: Mapping[str, Any]) -> PriorityClass:
    """Read a PriorityClass; what is missing or of another type counts as not given.

    >>> decode_class({"metadata": {"name": "high"}, "value": 1000, "globalDefault": True})
    ... # doctest: +NORMALIZE_WHITESPACE
    PriorityClass(name='high', value=1000, policy='PreemptLowerPriority', is_default=True)
    """
    value = raw.get("value")
    known = type(value) is int and -fields.INT32_MAX <= value <= fields.INT32_MAX
    return PriorityClass(
        name=shape.text(shape.mapping(raw.get("metadata")).get("name")),
        value=value if known and isinstance(value, int) else 0,
        policy=shape.text(raw.get("preemptionPolicy")) or PREEMPTS,
        is_default=raw.get("globalDefault") is True,
    )


def resolved(pod: Mapping[str, Any], classes: Iterable[PriorityClass]) -> dict[str, Any] | None:
    """Return a new Pod as the API server stores it: with the priority that its class says.

    One that has a priority is left as it is. None where there is no such class.

    >>> high = PriorityClass(name="high", value=1000, policy="Never")
    >>> resolved({"spec": {"priorityClassName": "high"}}, [high])["spec"]
    {'priorityClassName': 'high', 'priority': 1000, 'preemptionPolicy': 'Never'}
    >>> resolved({"spec": {"priorityClassName": "low"}}, [high]) is None
    True
    >>> resolved({"spec": {}}, [high])["spec"]
    {'priority': 0, 'preemptionPolicy': 'PreemptLowerPriority'}
    """
    spec = shape.mapping(pod.get("spec"))
    if spec.get("priority") is not None:
        return dict(pod)
    known = {one.name: one for one in (*BUILT_IN, *classes)}
    name = shape.text(spec.get("priorityClassName"))
    if name:
        found = known.get(name)
        if found is None:
            return None
    else:
        # The API server lets one class alone be the default; of several the lowest counts.
        defaults = [one for one in known.values() if one.is_default]
        found = min(defaults, key=lambda one: one.value, default=PriorityClass(name="", value=0))
    added: dict[str, Any] = {"priority": found.value}
    if found.name:
        added["priorityClassName"] = found.name
    if spec.get("preemptionPolicy") is None:
        added["preemptionPolicy"] = found.policy
    return {**pod, "spec": {**spec, **added}}
