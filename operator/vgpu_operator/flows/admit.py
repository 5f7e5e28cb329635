"""Admission of a new pod: refuse it, or change it so that it can be scheduled.

A pod that asks no vendor for a card, opts out, or belongs to another scheduler
is left exactly as it is. Admitting a pod that was admitted changes nothing.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_operator.flows import hiding, json_patch, quotas
from vgpu_operator.model import errors, quota
from vgpu_operator.model.settings import Settings
from vgpu_operator.vendors import amounts, base, records, requests, roster
from vgpu_operator.wire import dialects, fields, keys, shape

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The kubelet's mark on the API's copy of a static pod, which already runs."""

MOST_CONTAINERS = 512
"""Containers of a pod that asks for cards.

The API server takes pods of 3 MiB to a webhook, 20,000 containers: each of them asks
every vendor, and everything else would wait for seconds. No kubelet starts as many.
"""

DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server writes where a pod names no scheduler."""

FORBIDDEN = 403
UNPROCESSABLE = 422

PROTOCOL_ANNOTATIONS = (*dialects.POD_KEYS, keys.DEVICE_IDS, keys.NOMINATION)
"""Annotations of a placed pod. On a new one they come from a copied manifest."""

_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer about one pod.

    Attributes:
        allowed: whether the pod may be stored.
        code: HTTP status for the sender of a refused pod; 200 when allowed.
        message: why the pod is refused and what to change; empty when allowed.
        patch: JSON patch operations.
        warnings: sentences that kubectl shows beside a success.
    """

    allowed: bool
    code: int = 200
    message: str = ""
    patch: tuple[json_patch.Operation, ...] = ()
    warnings: tuple[str, ...] = ()


UNTOUCHED = Verdict(allowed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    """One container of the pod with what each vendor wants of it.

    ``path`` leads to it; ``changes`` is by the vendor's keyword.
    """

    path: tuple[str | int, ...]
    raw: Mapping[str, Any]
    changes: Mapping[str, base.ContainerChanges]

    @property
    def asks(self) -> bool:
        return any(change.asks for change in self.changes.values())


def admit(
    pod: Mapping[str, Any],
    *,
    settings: Settings,
    vendors: Sequence[base.Vendor],
    standing: quota.Standing = quota.UNBOUNDED,
) -> Verdict:
    """Judge a pod that is about to be created.

    Args:
        pod: as sent.
        settings: the operator's.
        vendors: as ``registry.build`` returns them.
        standing: how the pod's namespace stands against its quotas.
    """
    spec = shape.mapping(pod.get("spec"))
    if _is_exempt(pod) or not _is_ours(spec, settings):
        return UNTOUCHED
    n_containers = sum(1 for _ in shape.containers(pod))
    if n_containers > MOST_CONTAINERS:
        return _too_many(pod, n_containers, settings, vendors)
    try:
        containers = _judged_containers(pod, vendors)
    except errors.RequestError as fault:
        return Verdict(allowed=False, code=UNPROCESSABLE, message=str(fault))
    if not any(container.asks for container in containers):
        return UNTOUCHED
    refusal = _privileged_refusal(spec) or _node_refusal(spec, settings)
    if refusal:
        return Verdict(allowed=False, code=FORBIDDEN, message=refusal)
    patch = tuple(_patch(pod, containers, settings=settings, vendors=vendors))
    refusal = _quota_refusal(pod, patch, standing, settings=settings, vendors=vendors)
    if refusal:
        return Verdict(allowed=False, code=FORBIDDEN, message=refusal)
    return Verdict(
        allowed=True,
        patch=patch,
        warnings=(
            *_container_warnings(containers),
            *hiding.of_pod(pod).warnings,
            *requests.unknown_policies(pod),
            *requests.unreadable_rules(pod, vendors),
        ),
    )


def passed_by(pod: Mapping[str, Any], *, settings: Settings, vendors: Sequence[base.Vendor]) -> str:
    """Return what shows that a stored pod never passed ``admit``; empty where nothing does.

    It completes "it never passed the webhook, which would have …". Only what cards and
    their limits hang on counts: other fields may differ after an upgrade, too.
    """
    spec = shape.mapping(pod.get("spec"))
    served = roster.of(vendors)
    n_containers = sum(1 for _ in shape.containers(pod))
    too_many = n_containers > MOST_CONTAINERS
    if not too_many and not any(_is_odd(one, served) for _, _, one in shape.containers(pod)):
        return ""  # nearly every pod: the rest costs more than all that is read of it
    if _is_exempt(pod) or not _is_ours(spec, settings):
        return ""
    if too_many:
        verdict = _too_many(pod, n_containers, settings, vendors)
        return "" if verdict.allowed else f"refused it: {verdict.message}"
    try:
        containers = _judged_containers(pod, served, every=False)
    except errors.RequestError:
        return ""  # it fits nowhere, and the filter says why
    if any(container.asks for container in containers) and (refusal := _privileged_refusal(spec)):
        return f"refused it: {refusal}"
    counts = {vendor.spec.count_resource for vendor in vendors}
    for container in containers:
        limits, _ = amounts.quantities(container.raw)
        for change in container.changes.values():
            for name, value in change.resources.items():
                if name in counts and name not in limits:
                    shown = _shown_name(container.raw)
                    return f"set {name}: {value} for container {shown}, which gets no card else"
    return ""


def _is_odd(container: Mapping[str, Any], served: roster.Roster) -> bool:
    """Whether it is privileged, or names a vendor's amounts and not how many cards."""
    limits, _ = amounts.quantities(container)
    return _is_privileged(container) or any(
        vendor.spec.count_resource not in limits for vendor in served.asked(limits)
    )


def _too_many(
    pod: Mapping[str, Any], n_containers: int, settings: Settings, vendors: Sequence[base.Vendor]
) -> Verdict:
    """Refuse a pod of that many containers where it may ask for a card."""
    if not records.may_matter(pod, vendors, aliases=settings.resource_aliases):
        return UNTOUCHED
    message = (
        f"the pod has {n_containers} containers, and one that asks for cards may have"
        f" {MOST_CONTAINERS}; put them into several pods"
    )
    return Verdict(allowed=False, code=UNPROCESSABLE, message=message)


def _is_exempt(pod: Mapping[str, Any]) -> bool:
    """Whether the pod opts out by its label, or is the copy of a static pod."""
    metadata = shape.mapping(pod.get("metadata"))
    label = shape.mapping(metadata.get("labels")).get(keys.WEBHOOK_LABEL)
    return label == keys.WEBHOOK_IGNORE or MIRROR_ANNOTATION in shape.mapping(
        metadata.get("annotations")
    )


def _is_ours(spec: Mapping[str, Any], settings: Settings) -> bool:
    name = spec.get("schedulerName") or ""
    if name == DEFAULT_SCHEDULER:
        return settings.force_overwrite_default_scheduler
    return name in ("", settings.scheduler_name)


def _judged_containers(
    pod: Mapping[str, Any], vendors: Sequence[base.Vendor], *, every: bool = True
) -> tuple[_Container, ...]:
    """Ask vendors about the containers: every one, or those alone that a container names.

    The second is enough to know what a pod asks for, and costs a fraction: there are two
    dozen vendors.

    Raises:
        RequestError: a container asks for something that cannot be meant; the
            text names the container.
    """
    found = []
    served = roster.of(vendors)
    for field, position, raw in shape.containers(pod):
        asked = vendors if every else served.asked(itertools.chain(*amounts.quantities(raw)))
        try:
            changes = {vendor.spec.keyword: vendor.admit(raw, pod) for vendor in asked}
        except errors.RequestError as fault:
            raise errors.RequestError(f"container {_shown_name(raw)}: {fault}") from fault
        found.append(_Container(path=("spec", field, position), raw=raw, changes=changes))
    return tuple(found)


def _privileged_refusal(spec: Mapping[str, Any]) -> str:
    for field in _CONTAINER_FIELDS:
        for container in shape.mappings(spec.get(field)):
            if _is_privileged(container):
                return (
                    f"container {_shown_name(container)} is privileged: it would reach every card "
                    "of its node, past all limits; set its securityContext.privileged to false, "
                    "or ask for no card in this pod"
                )
    return ""


def _is_privileged(container: Mapping[str, Any]) -> bool:
    return shape.mapping(container.get("securityContext")).get("privileged") is True


def _node_refusal(spec: Mapping[str, Any], settings: Settings) -> str:
    node = spec.get("nodeName")
    if not node:
        return ""
    return (
        f"the pod has node {fields.shown(node)} assigned: {settings.scheduler_name} must place a "
        "pod that asks for a card, because it chooses the card; remove spec.nodeName and select "
        "the node by spec.nodeSelector or spec.affinity"
    )


def _quota_refusal(
    pod: Mapping[str, Any],
    patch: Sequence[json_patch.Operation],
    standing: quota.Standing,
    *,
    settings: Settings,
    vendors: Sequence[base.Vendor],
) -> str:
    """Return why the namespace's quotas cannot take the patched pod; empty when they can."""
    limited = [vendor for vendor in vendors if vendor.spec.keyword in standing.limits]
    if not limited:
        return ""
    stored = json_patch.applied(pod, patch)
    wish = requests.without_weights(stored, vendors, aliases=settings.resource_aliases)
    refusals = (quotas.refusal(wish, standing, vendor) for vendor in limited)
    return next((sentence for sentence in refusals if sentence), "")


def _shown_name(container: Mapping[str, Any]) -> str:
    return shape.text(container.get("name")) or "without a name"


def _patch(
    pod: Mapping[str, Any],
    containers: Sequence[_Container],
    *,
    settings: Settings,
    vendors: Sequence[base.Vendor],
) -> Iterator[json_patch.Operation]:
    asked = {
        word
        for container in containers
        for word, change in container.changes.items()
        if change.asks
    }
    hidden = hiding.of_pod(pod)
    yield from _metadata_patch(pod, containers, vendors)
    yield from _spec_patch(shape.mapping(pod.get("spec")), containers, settings)
    for container in containers:
        if not container.raw:
            continue  # null or without a name: the API server refuses it, and has no place for env
        yield from _resources_patch(container)
        yield from _env_patch(container, asked, hidden)


def _metadata_patch(
    pod: Mapping[str, Any], containers: Sequence[_Container], vendors: Sequence[base.Vendor]
) -> Iterator[json_patch.Operation]:
    """Strip what only the protocol writes; set what vendors add."""
    metadata = shape.mapping(pod.get("metadata"))
    annotations = shape.mapping(metadata.get("annotations"))
    of_vendors = (key for vendor in vendors for key in vendor.spec.pod_keys)
    for key in dict.fromkeys((*PROTOCOL_ANNOTATIONS, *of_vendors)):
        if key in annotations:
            yield {"op": "remove", "path": json_patch.pointer("metadata", "annotations", key)}
    if keys.ASSIGNED_NODE in shape.mapping(metadata.get("labels")):
        path = json_patch.pointer("metadata", "labels", keys.ASSIGNED_NODE)
        yield {"op": "remove", "path": path}
    added = {
        key: value
        for container in containers
        for change in container.changes.values()
        for key, value in change.annotations.items()
    }
    yield from json_patch.set_members(metadata, ("metadata", "annotations"), added)


def _spec_patch(
    spec: Mapping[str, Any], containers: Sequence[_Container], settings: Settings
) -> Iterator[json_patch.Operation]:
    values = {"schedulerName": settings.scheduler_name}
    wanted = (
        change.runtime_class
        for container in containers
        for change in container.changes.values()
        if change.runtime_class
    )
    runtime_class = next(wanted, "")
    if runtime_class and not spec.get("runtimeClassName"):
        values["runtimeClassName"] = runtime_class
    yield from json_patch.set_members({"spec": spec}, ("spec",), values)


def _resources_patch(container: _Container) -> Iterator[json_patch.Operation]:
    """Set quantities in ``limits``, and in ``requests`` where another one stands.

    A name that is absent in ``requests`` stays so: the API server copies it
    from ``limits`` after the webhooks.
    """
    path = (*container.path, "resources")
    resources = shape.mapping(container.raw.get("resources"))
    wanted = {
        name: value
        for change in container.changes.values()
        for name, value in change.resources.items()
    }
    yield from json_patch.set_members(resources, (*path, "limits"), wanted)
    requests = shape.mapping(resources.get("requests"))
    outdated = {name: value for name, value in wanted.items() if name in requests}
    if outdated:
        yield from json_patch.set_members(resources, (*path, "requests"), outdated)


def _env_patch(
    container: _Container, asked: set[str], hidden: hiding.Hiding
) -> Iterator[json_patch.Operation]:
    """Add variables that the container does not set itself."""
    env: dict[str, str] = {}
    for word, change in container.changes.items():
        if word in asked:
            env.update(change.env)
        name = shape.text(container.raw.get("name"))
        if not container.asks and hidden.hides(name, default=change.hides):
            env.update(change.idle_env)
    own = {shape.text(entry.get("name")) for entry in shape.mappings(container.raw.get("env"))}
    added = [{"name": name, "value": value} for name, value in env.items() if name not in own]
    yield from json_patch.append(container.raw, (*container.path, "env"), added)


def _container_warnings(containers: Sequence[_Container]) -> Iterator[str]:
    for container in containers:
        for change in container.changes.values():
            for sentence in change.warnings:
                yield f"container {_shown_name(container.raw)}: {sentence}"
