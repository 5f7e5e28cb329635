"""What besides its cards keeps a pod off a node: selectors, affinity, taints, other resources.

kube-scheduler judges these. They are read here as it reads them (Kubernetes 1.36,
``pkg/scheduler/framework/plugins``: nodeunschedulable, tainttoleration, nodeaffinity,
noderesources), so that an answer about cards does not promise what the rest of the pod
forbids. Other pods' affinity, spreading, volumes and ports are not looked at.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from vgpu_operator.model import errors
from vgpu_operator.wire import quantity, shape

Json: TypeAlias = Mapping[str, Any]

_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")
"""What a node without a word about it is taken to have enough of; of all else it has none."""

_OF_THE_POD: Final = ("cpu", "memory", "hugepages-")
"""What ``spec.resources`` of a pod may name."""

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_KEEPS_OFF: Final = ("NoSchedule", "NoExecute")
_MOST_PODS: Final = "pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps a pod off a node.

    Attributes:
        kind: in a few words, the same for all nodes that it is alike on.
        sentence: with what is asked and what is there.
        room: it is pods that take the room; fewer of them would help.
    """

    kind: str
    sentence: str
    room: bool = False


def off(
    pod: Json, node: Json, others: Iterable[Json] = (), *, owned: Collection[str] = ()
) -> tuple[Obstacle, ...]:
    """Return each thing that keeps the pod off the node; none where it may go.

    Args:
        pod: a Pod as the API serves it.
        node: a Node.
        others: the pods on that node that have not ended.
        owned: resources that are not counted here: those of the cards.
    """
    spec = shape.mapping(pod.get("spec"))
    tolerations = shape.mappings(spec.get("tolerations"))
    return (
        *_cordon(node, tolerations),
        *_taints(node, tolerations),
        *_selector(spec, node),
        *_affinity(spec, node),
        *_room(pod, node, tuple(others), owned),
    )


def _cordon(node: Json, tolerations: Sequence[Json]) -> Iterator[Obstacle]:
    if shape.mapping(node.get("spec")).get("unschedulable") is not True:
        return
    taint = {"key": _UNSCHEDULABLE, "effect": "NoSchedule"}
    if not _tolerated(taint, tolerations):
        yield Obstacle(
            kind="the node is cordoned",
            sentence=f"the node is cordoned (kubectl uncordon {_name(node)})",
        )


def _taints(node: Json, tolerations: Sequence[Json]) -> Iterator[Obstacle]:
    for taint in shape.mappings(shape.mapping(node.get("spec")).get("taints")):
        if taint.get("key") == _UNSCHEDULABLE or taint.get("effect") not in _KEEPS_OFF:
            continue
        if not _tolerated(taint, tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            words = f"taint {taint.get('key')}{value}:{taint['effect']} is not tolerated"
            yield Obstacle(kind=words, sentence=words)


def _tolerated(taint: Json, tolerations: Sequence[Json]) -> bool:
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and toleration.get("key") in (None, "", taint.get("key"))
        and (
            toleration.get("operator") == "Exists"
            or (
                bool(toleration.get("key"))
                and (toleration.get("value") or "") == (taint.get("value") or "")
            )
        )
        for toleration in tolerations
    )


def _selector(spec: Json, node: Json) -> Iterator[Obstacle]:
    labels = _labels(node)
    for key, wanted in shape.mapping(spec.get("nodeSelector")).items():
        if labels.get(key) != wanted:
            found = f"has {key}={labels[key]}" if key in labels else f"has no label {key}"
            kind = f"nodeSelector {key}={wanted}"
            yield Obstacle(kind=kind, sentence=f"{kind}: the node {found}")


def _affinity(spec: Json, node: Json) -> Iterator[Obstacle]:
    affinity = shape.mapping(shape.mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return
    terms = shape.mappings(shape.mapping(required).get("nodeSelectorTerms"))
    if any(_term_holds(term, node) for term in terms):
        return
    wanted = "; or ".join(filter(None, map(_term_words, terms))) or "nothing that a node can be"
    words = f"required node affinity: the node is not {wanted}"
    yield Obstacle(kind=words, sentence=words)


def _term_holds(term: Json, node: Json) -> bool:
    by_label = shape.mappings(term.get("matchExpressions"))
    by_field = shape.mappings(term.get("matchFields"))
    if not by_label and not by_field:
        return False  # an empty term selects nothing
    fields = {"metadata.name": _name(node)}
    return all(_holds(one, _labels(node)) for one in by_label) and all(
        _holds(one, fields) for one in by_field
    )


def _holds(wanted: Json, found: Json) -> bool:
    key, values = shape.text(wanted.get("key")), _values(wanted)
    match wanted.get("operator"):
        case "In":
            return key in found and found[key] in values
        case "NotIn":
            return key not in found or found[key] not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
        case "Gt" | "Lt" as operator:
            number, bound = _integer(found.get(key)), _integer(next(iter(values), None))
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _values(wanted: Json) -> Sequence[object]:
    """Return the values of a rule; none where a manifest has no list there."""
    values = wanted.get("values")
    return values if isinstance(values, list) else ()


def _integer(text: object) -> int | None:
    try:
        return int(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _term_words(term: Json) -> str:
    wanted = (
        *shape.mappings(term.get("matchExpressions")),
        *shape.mappings(term.get("matchFields")),
    )
    return " and ".join(
        " ".join(
            filter(
                None,
                (
                    shape.text(one.get("key")),
                    shape.text(one.get("operator")),
                    ",".join(map(str, _values(one))),
                ),
            )
        )
        for one in wanted
    )


def _room(
    pod: Json, node: Json, others: Sequence[Json], owned: Collection[str]
) -> Iterator[Obstacle]:
    offered = shape.mapping(shape.mapping(node.get("status")).get("allocatable"))
    wanted = {name: amount for name, amount in _asked(pod).items() if amount > 0}
    counted = [
        name for name in wanted if name not in owned and (name in offered or name not in _PLAIN)
    ]
    taken = [_asked(other, counted) for other in others] if counted else []
    for name in counted:
        asked, total = wanted[name], _thousandths(offered.get(name, 0))
        if total is None:
            continue
        free = total - sum(other.get(name, 0) for other in taken)
        if asked > free:
            yield Obstacle(
                kind=f"not enough {name}",
                sentence=f"not enough {name}: {_shown(asked)} asked, {_shown(max(0, free))} free",
                room=True,
            )
    most = _thousandths(offered.get(_MOST_PODS))
    if most is not None and len(others) * 1000 >= most:
        yield Obstacle(
            kind="too many pods",
            sentence=f"too many pods: the node takes {most // 1000} and has {len(others)}",
            room=True,
        )


def _asked(pod: Json, names: Collection[str] | None = None) -> dict[str, int]:
    """Return what a pod asks of each resource, in thousandths: its most at any one time.

    A limit without a request is one, as the API server makes it; what the pod asks as a
    whole counts before what its containers do.

    Args:
        pod: any Pod.
        names: of those resources only; None is all.
    """
    lasting: dict[str, int] = {}
    peak: dict[str, int] = {}
    for field, _, container in shape.containers(pod):
        resources = shape.mapping(container.get("resources"))
        own = _of(resources.get("limits"), names) | _of(resources.get("requests"), names)
        if field == "initContainers" and container.get("restartPolicy") != "Always":
            for name, amount in own.items():
                peak[name] = max(peak.get(name, 0), amount + lasting.get(name, 0))
        else:
            for name, amount in own.items():
                lasting[name] = lasting.get(name, 0) + amount
    found = {name: max(lasting.get(name, 0), peak.get(name, 0)) for name in lasting | peak}
    spec = shape.mapping(pod.get("spec"))
    whole = shape.mapping(spec.get("resources"))
    limits, requests = _of(whole.get("limits"), names), _of(whole.get("requests"), names)
    for name in limits | requests:
        if name.startswith(_OF_THE_POD):
            found[name] = requests.get(name, found.get(name) or limits.get(name, 0))
    for name, amount in _of(spec.get("overhead"), names).items():
        found[name] = found.get(name, 0) + amount
    return found


def _of(amounts: object, names: Collection[str] | None) -> dict[str, int]:
    given = shape.mapping(amounts)
    if not given:
        return {}
    wanted = given if names is None else (name for name in names if name in given)
    found = {name: _thousandths(given[name]) for name in wanted}
    return {name: amount for name, amount in found.items() if amount is not None}


def _thousandths(value: object) -> int | None:
    if isinstance(value, str):  # the pods of a cluster ask for the same few amounts
        return _read(value)
    return None if value is None else _read_any(value)


@functools.lru_cache(maxsize=4096)
def _read(text: str) -> int | None:
    return _read_any(text)


def _read_any(value: object) -> int | None:
    try:
        return quantity.decode_thousandths(value)
    except errors.DecodeError:
        return None


def _shown(thousandths: int) -> str:
    """Return an amount as Kubernetes writes it.

    >>> _shown(1500), _shown(4 * 1024**3 * 1000), _shown(2000)
    ('1500m', '4Gi', '2')
    """
    whole, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    for unit, size in (("Gi", 1024**3), ("Mi", 1024**2)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return str(whole)


def _name(node: Json) -> str:
    return shape.text(shape.mapping(node.get("metadata")).get("name"))


def _labels(node: Json) -> Json:
    return shape.mapping(shape.mapping(node.get("metadata")).get("labels"))
