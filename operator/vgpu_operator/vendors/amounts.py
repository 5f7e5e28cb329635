"""What a container's limits and requests say: whole numbers, and what is no such thing."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from vgpu_operator.model import errors
from vgpu_operator.wire import fields, quantity, shape

_WHOLE_CARD: Final = 100
_CORES_HINT: Final = "write percent of one card as a whole number, 0 to 100"


def asked(
    name: str | None, limits: Mapping[str, Any], requests: Mapping[str, Any]
) -> object | None:
    """Return the raw quantity of a resource, limits first; None when nobody sets it.

    >>> asked("a.io/gpu", {}, {"a.io/gpu": "2"})
    '2'
    """
    if not name:
        return None
    value = limits.get(name)
    return requests.get(name) if value is None else value


def quantities(container: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a container's limits and requests.

    >>> quantities({"resources": {"limits": {"a.io/gpu": "2"}}})
    ({'a.io/gpu': '2'}, mappingproxy({}))
    """
    resources = shape.mapping(container.get("resources"))
    return shape.mapping(resources.get("limits")), shape.mapping(resources.get("requests"))


def amount(
    name: str | None,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    *,
    hint: str,
    at_most: int = fields.INT32_MAX,
    skip_fractions: bool = False,
) -> int | None:
    """Return a whole number from 0 to ``at_most``; None when nobody sets it.

    Args:
        name: the resource; limits win over requests.
        limits: of the container.
        requests: of the container.
        hint: what to write instead.
        at_most: the largest value that can be meant.
        skip_fractions: a value that is no whole number counts as not set.

    Raises:
        RequestError: the value cannot be meant.
    """
    raw = asked(name, limits, requests)
    if raw is None:
        return None
    try:
        value = quantity.decode_integer(raw)
    except errors.DecodeError as fault:
        if skip_fractions:
            return None
        raise errors.RequestError(
            f"{name}: {fields.shown(raw)} is no whole number; {hint}"
        ) from fault
    if value < 0:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is negative; {hint}")
    if value > at_most:
        raise errors.RequestError(f"{name}: {fields.shown(raw)} is more than {at_most}; {hint}")
    return value


def card_count(name: str, limits: Mapping[str, Any], requests: Mapping[str, Any]) -> int | None:
    """Return how many cards are asked for; None when nobody sets it.

    Raises:
        RequestError: the number cannot be meant.
    """
    hint = "write how many cards the container needs, such as 1"
    return amount(name, limits, requests, hint=hint)


def fraction_warnings(
    container: Mapping[str, Any], instead: Mapping[str | None, str]
) -> tuple[str, ...]:
    """Return a sentence for each value that ``skip_fractions`` passes over.

    Args:
        container: of the new pod.
        instead: by resource, what the container gets in place of it.
    """
    limits, requests = quantities(container)
    found = []
    for name, sentence in instead.items():
        raw = asked(name, limits, requests)
        try:
            if raw is not None:
                quantity.decode_integer(raw)
        except errors.DecodeError:
            found.append(f"{name}: {fields.shown(raw)} is no whole number; {sentence}")
    return tuple(found)


def cores_percent(
    name: str | None,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    *,
    skip_fractions: bool = False,
) -> int | None:
    """Return the percent of one card's cores that are asked for; None when nobody sets them.

    Raises:
        RequestError: the number cannot be meant; one above 100 can.
    """
    return amount(name, limits, requests, hint=_CORES_HINT, skip_fractions=skip_fractions)


def above_whole(name: str | None, cores: int) -> tuple[str, ...]:
    """Return the warning for more cores than a card has; none for fewer.

    >>> above_whole("a.io/cores", 120)
    ('a.io/cores: 120 is more than one whole card; it counts as 100',)
    """
    if cores <= _WHOLE_CARD:
        return ()
    return (f"{name}: {cores} is more than one whole card; it counts as {_WHOLE_CARD}",)


def passed_over(
    container: Mapping[str, Any], names: Iterable[str | None], *, beside: str
) -> tuple[str, ...]:
    """Return a sentence for each of these resources that is named though another decides.

    >>> passed_over({"resources": {"limits": {"a.io/mem": 5}}}, ["a.io/mem"], beside="a.io/slice")
    ('a.io/mem: 5 counts for nothing beside a.io/slice; remove one of them',)
    """
    limits, requests = quantities(container)
    return tuple(
        f"{name}: {fields.shown(raw)} counts for nothing beside {beside}; remove one of them"
        for name in names
        if (raw := asked(name, limits, requests)) is not None
    )


def only_in_requests(
    names: Iterable[str], limits: Mapping[str, Any], requests: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the quantities that limits leave out: the API server wants both.

    >>> only_in_requests(("a.io/gpu", "a.io/mem"), {"a.io/gpu": 1}, {"a.io/gpu": 1, "a.io/mem": 2})
    {'a.io/mem': 2}
    """
    return {
        name: requests[name]
        for name in names
        if limits.get(name) is None and requests.get(name) is not None
    }
