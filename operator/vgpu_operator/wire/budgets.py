"""A ``policy/v1`` PodDisruptionBudget, as far as it says which pods may be evicted."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from vgpu_operator.model import budgets
from vgpu_operator.wire import fields, shape

_Selector: TypeAlias = tuple[budgets.Requirement, ...]

_WITH_VALUES: Final = (budgets.Operator.IN, budgets.Operator.NOT_IN)


def decode_budget(raw: Mapping[str, Any]) -> budgets.Budget:
    """Read a PodDisruptionBudget; what is missing or of another type allows nothing.

    A selector that is empty covers all pods of the namespace, one that is absent or that
    the API server would not take covers none (as the Eviction API has it).

    >>> found = decode_budget({
    ...     "metadata": {"namespace": "a", "name": "b"},
    ...     "spec": {"selector": {"matchLabels": {"app": "web"}}},
    ...     "status": {"disruptionsAllowed": 1},
    ... })
    >>> found.allowed, found.covers("a", {"app": "web"}), found.covers("a", {})
    (1, True, False)
    """
    metadata, status = shape.mapping(raw.get("metadata")), shape.mapping(raw.get("status"))
    spec = shape.mapping(raw.get("spec"))
    return budgets.Budget(
        namespace=shape.text(metadata.get("namespace")),
        name=shape.text(metadata.get("name")),
        selector=_selector(spec.get("selector")),
        allowed=_count(status.get("disruptionsAllowed")),
        disrupted=frozenset(shape.mapping(status.get("disruptedPods"))),
        lets_unready_go=_lets_unready_go(spec, status),
    )


def _lets_unready_go(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the Eviction API asks nothing of a pod that is not ready.

    It does not where the policy says so, nor while all pods are healthy that have to be
    (``pkg/registry/core/pod/storage/eviction.go``).
    """
    desired = _count(status.get("desiredHealthy"))
    is_healthy = _count(status.get("currentHealthy")) >= desired > 0
    return spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or is_healthy


def _count(value: object) -> int:
    return min(max(0, value), fields.INT32_MAX) if type(value) is int else 0


def _selector(value: object) -> _Selector | None:
    """Return the requirements; None where there is no selector, or one that is not valid."""
    if not isinstance(value, Mapping):
        return None
    found = (*_equal(value.get("matchLabels")), *_expressions(value.get("matchExpressions")))
    requirements = tuple(one for one in found if one is not None)
    return requirements if len(requirements) == len(found) else None


def _equal(value: object) -> Iterator[budgets.Requirement | None]:
    if value is not None and not isinstance(value, Mapping):
        yield None
    for key, text in shape.mapping(value).items():
        if not isinstance(text, str):
            yield None
            continue
        yield budgets.Requirement(key=key, operator=budgets.Operator.IN, values=frozenset((text,)))


def _expressions(value: object) -> Iterator[budgets.Requirement | None]:
    if value is not None and not isinstance(value, list):
        yield None
    yield from map(_expression, shape.mappings(value))


def _expression(raw: Mapping[str, Any]) -> budgets.Requirement | None:
    """Return one requirement; None where the API server would not take it."""
    key, word = shape.text(raw.get("key")), shape.text(raw.get("operator"))
    listed = raw.get("values") or ()
    if not key or word not in tuple(budgets.Operator) or not isinstance(listed, list | tuple):
        return None
    operator = budgets.Operator(word)
    if bool(listed) != (operator in _WITH_VALUES) or not all(isinstance(x, str) for x in listed):
        return None
    return budgets.Requirement(key=key, operator=operator, values=frozenset(listed))
