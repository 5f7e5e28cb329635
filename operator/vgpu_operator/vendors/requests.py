"""A Pod object becomes a ``PodRequest``: the place where raw limits end.

Nothing here knows a vendor; each vendor reads its own resources.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgpu_operator.model import errors, policy, request
from vgpu_operator.vendors import base, roster, selections
from vgpu_operator.wire import fields, keys, shape

_FEW = 24
_SHORT = 80
"""Containers with more resources, or with longer words, are read anew each time: what
is remembered of others stays small."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def pod_request(
    pod: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    *,
    aliases: Mapping[str, Sequence[str]],
) -> request.PodRequest:
    """Return what a pod asks for.

    A container that asks for something no card can give keeps its place with
    ``impossible`` set, so the pod fits nowhere rather than everywhere.

    Args:
        pod: a Pod as the API serves it.
        vendors: as ``registry.build`` returns them.
        aliases: earlier names of a resource by today's name; they count where
            the container does not use today's name.

    Raises:
        RequestError: the pod's scoring weights cannot be read and the pod
            asks for a card; the text names the annotation.
    """
    found = without_weights(pod, vendors, aliases=aliases)
    text = shape.annotations(pod).get(keys.SCORING_WEIGHTS)
    if text is None or not found.wants_devices:
        return found
    return dataclasses.replace(found, weights=weights(text))


def without_weights(
    pod: Mapping[str, Any],
    vendors: Sequence[base.Vendor],
    *,
    aliases: Mapping[str, Sequence[str]],
) -> request.PodRequest:
    """Return what a pod asks for, scoring weights left out; never raises."""
    served = roster.of(vendors)
    containers = tuple(
        _container(container, kind, served, aliases) for kind, container in _by_kind(pod)
    )
    asked = list(dict.fromkeys(wish.vendor for one in containers for wish in one.devices))
    if not asked and not any(one.impossible for one in containers):
        return request.PodRequest(pod=pod_key(pod), containers=containers)
    annotations = shape.annotations(pod)
    by_keyword = served.by_keyword
    rules = ((word, by_keyword[word].selection(annotations)) for word in asked)
    return request.PodRequest(
        pod=pod_key(pod),
        containers=containers,
        selections={word: rule for word, rule in rules if rule != request.NO_SELECTION},
        node_policy=_node_policy(annotations.get(keys.NODE_POLICY)),
        card_policies=_card_policies(annotations.get(keys.CARD_POLICY)),
        notes={
            key: text
            for word in asked
            for key in by_keyword[word].spec.pod_note_keys
            if isinstance(text := annotations.get(key), str)
        },
    )


def pod_key(pod: Mapping[str, Any]) -> request.PodKey:
    """Return which pod this is; a namespace that is left out is ``default``."""
    metadata = shape.mapping(pod.get("metadata"))
    return request.PodKey(
        namespace=shape.text(metadata.get("namespace")) or "default",
        name=shape.text(metadata.get("name")),
        uid=shape.text(metadata.get("uid")),
    )


def _by_kind(
    pod: Mapping[str, Any],
) -> Iterator[tuple[request.ContainerKind, Mapping[str, Any]]]:
    for field, _, container in shape.containers(pod):
        if field == "containers":
            kind = request.ContainerKind.APP
        elif container.get("restartPolicy") == "Always":
            kind = request.ContainerKind.SIDECAR
        else:
            kind = request.ContainerKind.INIT
        yield kind, container


def _container(
    container: Mapping[str, Any],
    kind: request.ContainerKind,
    vendors: roster.Roster,
    aliases: Mapping[str, Sequence[str]],
) -> request.ContainerRequest:
    name = shape.text(container.get("name"))
    resources = shape.mapping(container.get("resources"))
    limits = shape.mapping(resources.get("limits"))
    requests = shape.mapping(resources.get("requests"))
    if not _is_extended(limits) and not _is_extended(requests):
        return request.ContainerRequest(name=name, kind=kind)
    amounts = (*limits.items(), None, *requests.items())
    if aliases or len(amounts) > _FEW or not all(map(_is_short, amounts)):
        return _read_container(name, kind, limits, requests, vendors, aliases)
    made_of = name, kind, amounts
    known = vendors.requests.get(made_of)
    if known is None:
        known = _read_container(name, kind, limits, requests, vendors, aliases)
        vendors.remember(made_of, known)
    return known


def _read_container(
    name: str,
    kind: request.ContainerKind,
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    vendors: roster.Roster,
    aliases: Mapping[str, Sequence[str]],
) -> request.ContainerRequest:
    limits, requests = _under_todays_names(limits, requests, aliases)
    devices = []
    impossible = ""
    for vendor in vendors.asked((*limits, *requests)):
        try:
            wish = vendor.derive(limits, requests)
        except errors.RequestError as fault:
            impossible = impossible or f"container {name}: {fault}"
            continue
        if wish is not None:
            devices.append(wish)
    return request.ContainerRequest(
        name=name, kind=kind, devices=tuple(devices), impossible=impossible
    )


def _is_short(entry: tuple[Any, Any] | None) -> bool:
    """Whether a name and its amount are short texts; equal others differ: ``1 == True``."""
    return entry is None or (
        type(entry[0]) is type(entry[1]) is str and len(entry[0]) + len(entry[1]) <= _SHORT
    )


def _is_extended(quantities: Mapping[str, Any]) -> bool:
    """Whether any name has a domain: cards' resources always do, ``cpu`` does not."""
    return any("/" in name for name in quantities if isinstance(name, str))


def _under_todays_names(
    limits: Mapping[str, Any],
    requests: Mapping[str, Any],
    aliases: Mapping[str, Sequence[str]],
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return both maps with earlier names replaced where today's name is absent."""
    for today, earlier_names in aliases.items():
        if today in limits or today in requests:
            continue
        for earlier in earlier_names:
            if earlier in limits or earlier in requests:
                limits, requests = (
                    _renamed(limits, earlier, today),
                    _renamed(requests, earlier, today),
                )
                break
    return limits, requests


def _renamed(quantities: Mapping[str, Any], earlier: str, today: str) -> Mapping[str, Any]:
    if earlier not in quantities:
        return quantities
    return {**quantities, today: quantities[earlier]}


def _node_policy(text: object) -> policy.NodePolicy | None:
    """Return the policy of that name; any other word means the default."""
    if text is None:
        return None
    try:
        return policy.NodePolicy(shape.text(text))
    except ValueError:
        return None


def _card_policies(text: object) -> tuple[policy.CardPolicy, ...]:
    """Return the chain of a comma list; words that are no policy are left out."""
    if text is None:
        return ()
    known = {word.value: word for word in policy.CardPolicy}
    return tuple(known[word] for word in selections.words(text) if word in known)


def unknown_policies(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each of the pod's policies that has a word that is none."""
    annotations = shape.annotations(pod)
    found = []
    for key, known in (
        (keys.NODE_POLICY, policy.NodePolicy),
        (keys.CARD_POLICY, policy.CardPolicy),
    ):
        text = annotations.get(key)
        words = selections.words(text) if known is policy.CardPolicy else (shape.text(text),)
        unknown = [word for word in words if word and word not in set(known)]
        if unknown:
            found.append(
                f"annotation {key}: no policy, and ignored: "
                f"{', '.join(map(fields.shown, unknown))}; known are {', '.join(known)}"
            )
    return tuple(found)


def unreadable_rules(pod: Mapping[str, Any], vendors: Sequence[base.Vendor]) -> tuple[str, ...]:
    """Return a sentence for weights, and for yes-or-no rules, that cannot be read."""
    annotations = shape.annotations(pod)
    found = []
    try:
        weights(annotations.get(keys.SCORING_WEIGHTS))
    except errors.RequestError as fault:
        found.append(f"{fault}; until then no node takes the pod")
    for key in (vendor.spec.numa_bind_key for vendor in vendors):
        text = annotations.get(key) if key else None
        if text is not None and not selections.is_boolean(text):
            found.append(f"annotation {key}: {fields.shown(text)} is ignored; write true or false")
    return tuple(found)


def weights(text: object) -> policy.ScoringWeights | None:
    """Return the weights of ``slot=1,core=1,memory=3``; None when absent.

    All three, each once, whole and not negative, not all zero.

    Raises:
        RequestError: they are not; the text names the annotation.
    """
    if text is None:
        return None
    found: dict[str, int] = {}
    for entry in str(text).split(","):
        name, equals, number = (part.strip() for part in entry.partition("="))
        if not equals:
            raise _bad_weights(text, f"{fields.shown(entry)} is no name=number")
        if name not in ("slot", "core", "memory"):
            raise _bad_weights(text, f"{fields.shown(name)} is no weight")
        if name in found:
            raise _bad_weights(text, f"{name} is given twice")
        if not _WHOLE_NUMBER.fullmatch(number) or int(number) > fields.INT64_MAX:
            raise _bad_weights(text, f"{fields.shown(number)} is no whole number")
        if int(number) < 0:
            raise _bad_weights(text, f"{name} is negative")
        found[name] = int(number)
    if len(found) < 3:
        raise _bad_weights(text, "one of slot, core and memory is missing")
    if not any(found.values()):
        raise _bad_weights(text, "all weights are 0")
    return policy.ScoringWeights(slot=found["slot"], core=found["core"], memory=found["memory"])


def _bad_weights(text: object, why: str) -> errors.RequestError:
    return errors.RequestError(
        f"annotation {keys.SCORING_WEIGHTS}: {fields.shown(text)}: {why}; "
        "write all three, such as slot=1,core=1,memory=1"
    )
