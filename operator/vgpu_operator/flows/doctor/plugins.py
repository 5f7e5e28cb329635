"""What goes wrong with device plugins before any card is registered."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows.doctor import families
from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Cluster, PodSight, Source, is_card_plugin
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.wire import workloads

SETTLES_S: Final = 120.0
"""How long a plugin may take from its start until its cards are registered."""

EVENT_COUNTS_S: Final = 600.0
"""How long ago an Event may be that nothing else confirms."""

_NO_NVML: Final = re.compile(
    r"could not load NVML library|NVML not detected|Detected non-NVML platform"
    r"|Incompatible (?:platform|strategy) detected|[Ff]ailed to init(?:ialize)? NVML"
    r"|ERROR_LIBRARY_NOT_FOUND"
)
"""As ``k8s-device-plugin``, and HAMi's plugin that was made from it, write it."""

_NO_RUNTIME: Final = re.compile(
    r'no runtime for "(?P<containerd>[^"]+)" is configured'
    r"|failed to find runtime handler (?P<crio>\S+)"
)
"""As containerd and CRI-O write it."""

_BROKEN: Final = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
_MOST_LINES: Final = 3
_CHARTS_LABEL: Final = ("gpu", "on")
_DISCOVERED: Final = "feature.node.kubernetes.io/"
"""How the labels begin that Node Feature Discovery writes."""


def without_nvml(cluster: Cluster) -> Iterator[Sight]:
    """Find plugins that say they cannot reach NVIDIA's library."""
    for plugin in cluster.plugins():
        lines = _nvml_lines(cluster, plugin)
        if not lines or _serves(cluster, plugin):
            continue
        runtime = plugin.template.runtime_class
        yield Sight(
            place=found.pod(*plugin.name),
            evidence=(
                f"on node {plugin.record.node}, runtimeClassName {runtime or '(none)'}",
                *lines,
            ),
            cause=""
            if not runtime
            else f"the runtime of RuntimeClass {runtime} does not put NVIDIA's driver into the"
            " container: it is runc, or the driver is missing on the node",
            fix=""
            if not runtime
            else f"run nvidia-smi on node {plugin.record.node}; then run"
            " nvidia-ctk runtime configure there, and restart the container runtime",
        )


def runtime_class_missing(cluster: Cluster) -> Iterator[Sight]:
    """Find plugins, and a setting, that name a RuntimeClass which is not there."""
    for one in cluster.daemon_sets:
        wanted = one.template.runtime_class
        if is_card_plugin(one.template) and wanted and wanted not in cluster.runtime_classes:
            yield Sight(
                place=_daemon_set(one),
                evidence=(
                    f"runtimeClassName {wanted}; RuntimeClasses: {_listed(cluster)}",
                    *_refusals(cluster, one),
                ),
                fix=f"make RuntimeClass {wanted} with the handler of that name"
                " (devicePlugin.createRuntimeClass: true), or leave runtimeClassName out",
            )
    wanted = cluster.settings.vendors.nvidia.runtime_class_name
    if wanted and wanted not in cluster.runtime_classes:
        yield Sight(
            place=found.Place(kind="Setting", name="nvidia.runtimeClassName"),
            evidence=(f"{wanted}; RuntimeClasses: {_listed(cluster)}",),
            cause="the webhook writes a RuntimeClass that is not there on new pods, and the API"
            " server refuses them",
            fix=f"make RuntimeClass {wanted}, or take the setting away",
        )


def runtime_not_configured(cluster: Cluster) -> Iterator[Sight]:
    """Find pods whose sandbox the container runtime refused for an unknown handler."""
    told: set[tuple[str, str]] = set()
    for event in cluster.events:
        match = _NO_RUNTIME.search(event.message)
        name = (event.namespace, event.name)
        if match is None or event.kind != "Pod" or name in told:
            continue
        seen = cluster.pods.get(name)
        age_s = cluster.age_s(event.last_seen)
        is_old = age_s is None or age_s > EVENT_COUNTS_S
        if is_old if seen is None else seen.record.phase != "Pending":
            continue
        told.add(name)
        handler = match["containerd"] or match["crio"]
        where = f" of node {seen.record.node}" if seen is not None and seen.record.node else ""
        yield Sight(
            place=found.pod(*name),
            evidence=(f"Event {event.reason}: {found.one_line(event.message)}",),
            fix=f"run nvidia-ctk runtime configure for the container runtime{where} and restart"
            f" it, so that it knows the handler {handler}",
        )


def selects_nothing(cluster: Cluster) -> Iterator[Sight]:
    """Find DaemonSets of device plugins that no node is to run."""
    if not cluster.nodes:
        return
    for one in cluster.daemon_sets:
        if one.desired != 0 or not is_card_plugin(one.template):
            continue
        selector = one.template.node_selector
        by_label = "; ".join(
            f"{key}={value} on {sum(s.labels.get(key) == value for s in cluster.nodes.values())}"
            for key, value in selector
        )
        wanted = ", ".join(f"{key}={value}" for key, value in selector) or "(none)"
        evidence = [f"DESIRED 0; nodeSelector: {wanted}"]
        if selector:
            evidence.append(f"of {len(cluster.nodes)} nodes: {by_label}")
        cause, fix = _why_nowhere(cluster, selector)
        yield Sight(place=_daemon_set(one), evidence=tuple(evidence), cause=cause, fix=fix)


def _why_nowhere(cluster: Cluster, selector: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Return cause and fix; no cause where it is the signature's own."""
    fitting = [
        sight
        for sight in cluster.nodes.values()
        if all(sight.labels.get(key) == value for key, value in selector)
    ]
    if fitting:
        return (
            f"{len(fitting)} nodes have the labels, so taints or affinity keep it off",
            f"compare tolerations and affinity of the DaemonSet with node {fitting[0].record.name}",
        )
    if len(selector) > 1 and _CHARTS_LABEL in selector:
        key, value = _CHARTS_LABEL
        return (
            "no node has all labels of the selector; Helm merges maps, so a label of"
            " yours stands beside the chart's own, and both are asked for",
            f"take the chart's label away in the values ({key}: null), or label the"
            f" nodes with {key}={value} too",
        )
    return "", _label_fix(_lacking(cluster, selector))


def _lacking(
    cluster: Cluster, selector: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Return the labels of a selector that no node has; all where each stands somewhere."""
    absent = tuple(
        (key, value)
        for key, value in selector
        if all(sight.labels.get(key) != value for sight in cluster.nodes.values())
    )
    return absent or selector


def _label_fix(lacking: tuple[tuple[str, str], ...]) -> str:
    words = " ".join(f"{key}={value}" for key, value in lacking)
    if any(key.startswith(_DISCOVERED) for key, _ in lacking):
        return (
            f"see that Node Feature Discovery runs, which writes {words} on nodes with such cards;"
            " where such nodes come only when they are needed, nothing is wrong"
        )
    return (
        f"label the nodes with cards (kubectl label node NAME {words}); where such nodes come"
        " only when they are needed, nothing is wrong"
    )


def without_devices(cluster: Cluster) -> Iterator[Sight]:
    """Find plugins that run on a node and have registered nothing there."""
    for plugin in cluster.plugins():
        family = _family(plugin)
        age_s = cluster.age_s(plugin.health.started_at)
        sight = cluster.nodes.get(plugin.record.node)
        settled = age_s is not None and age_s > SETTLES_S
        if family is None or sight is None or not settled or not _is_ready(plugin):
            continue
        if _serves(cluster, plugin) or _nvml_lines(cluster, plugin):
            continue
        makers = families.by_pci(sight.labels)
        others = [maker for maker in makers if maker != family.id]
        evidence = [
            f"ready on node {plugin.record.node} for {age_s:.0f} s,"
            f" and no card of {family.id} is registered there"
        ]
        if makers:
            evidence.append(f"Node Feature Discovery sees cards of: {', '.join(makers)}")
        yield Sight(
            place=found.pod(*plugin.name),
            evidence=tuple(evidence),
            cause=f"the node's cards are made by {', '.join(others)}"
            if others and family.id not in makers
            else "",
        )


def not_running(cluster: Cluster) -> Iterator[Sight]:
    """Find plugins that crash or cannot start, for another reason than the ones above."""
    for plugin in cluster.plugins():
        if _nvml_lines(cluster, plugin):
            continue
        for container in plugin.health.containers:
            if container.waiting in _BROKEN:
                messages = (found.one_line(text) for text in container.messages[:1])
                yield Sight(
                    place=found.pod(*plugin.name),
                    evidence=(
                        f"on node {plugin.record.node}, container {container.name}:"
                        f" {container.waiting}, {container.restarts} restarts",
                        *messages,
                        *_last_lines(cluster, plugin),
                    ),
                    fix=_how_to_see(plugin, container),
                )
                break


def _how_to_see(plugin: PodSight, container: workloads.ContainerHealth) -> str:
    """Return what shows more: only a container that has run before has a log."""
    namespace, pod = plugin.name
    if container.restarts:
        return f"kubectl -n {namespace} logs {pod} -c {container.name} --previous"
    return f"kubectl -n {namespace} describe pod {pod}"


def two_plugins(cluster: Cluster) -> Iterator[Sight]:
    """Find nodes with two plugins of one maker: both offer the same resource to the kubelet."""
    by_place: dict[tuple[str, str], list[PodSight]] = defaultdict(list)
    for plugin in cluster.plugins():
        family = _family(plugin)
        if family is not None and plugin.record.node and not plugin.record.deleting:
            by_place[plugin.record.node, family.id].append(plugin)
    for (node, _), pods in sorted(by_place.items()):
        owners = {(one.name[0], one.made_by[1]) for one in pods}
        if len(owners) < 2:
            continue
        names = ", ".join(sorted("/".join(one.name) for one in pods))
        yield Sight(
            place=found.node(node),
            evidence=(f"pods {names}", *_offered(cluster, node, pods[0])),
        )


def flapping(cluster: Cluster) -> Iterator[Sight]:
    """Find allocatable counts that went and came back while they were watched."""
    for (node, resource), counts in sorted((cluster.samples or {}).items()):
        if len(counts) > 2:
            shown = " → ".join(map(str, counts[:8]))
            yield Sight(place=found.node(node), evidence=(f"allocatable {resource}: {shown}",))


def worth_reading(cluster: Cluster) -> tuple[tuple[tuple[str, str], str], ...]:
    """Return pods and containers whose log may show a cause: plugins first, then who crashes."""
    found_pods = [one for one in cluster.plugins() if not _serves(cluster, one)]
    found_pods += [
        one
        for one in cluster.device_pods()
        if any(box.waiting == "CrashLoopBackOff" for box in one.health.containers)
    ]
    wanted: dict[tuple[str, str], str] = {}
    for one in found_pods:
        boxes = one.health.containers
        worst = next((box for box in boxes if box.waiting or not box.ready), None)
        if boxes:
            wanted[one.name] = (worst or boxes[0]).name
    return tuple(wanted.items())


def _nvml_lines(cluster: Cluster, plugin: PodSight) -> tuple[str, ...]:
    lines = filter(_NO_NVML.search, cluster.lines(plugin))
    return tuple(found.one_line(line) for line in dict.fromkeys(lines))[:_MOST_LINES]


def _last_lines(cluster: Cluster, plugin: PodSight) -> tuple[str, ...]:
    lines = cluster.logs.get(plugin.name, "").splitlines()
    return tuple(found.one_line(line) for line in lines[-_MOST_LINES:])


def _serves(cluster: Cluster, plugin: PodSight) -> bool:
    """Whether the node offers cards of that plugin's maker: shared, whole or as instances."""
    family, sight = _family(plugin), cluster.nodes.get(plugin.record.node)
    if family is None or sight is None:
        return False
    return families.offers(family, sight.offered, cluster.vendors) or any(
        cluster.ledger.devices(plugin.record.node, vendor.spec.keyword)
        or sight.record.allocatable.get(vendor.spec.keyword)
        for vendor in families.vendors_of(family, cluster.vendors)
    )


def _family(plugin: PodSight) -> families.Family | None:
    return families.of(plugin.template, plugin.made_by[1])


def _is_ready(plugin: PodSight) -> bool:
    return bool(plugin.health.containers) and all(one.ready for one in plugin.health.containers)


def _offered(cluster: Cluster, node: str, plugin: PodSight) -> Iterator[str]:
    """Yield where the kubelet's count is not what the registered cards add up to."""
    family, sight = _family(plugin), cluster.nodes.get(node)
    if family is None or sight is None:
        return
    for vendor in families.vendors_of(family, cluster.vendors):
        spec = vendor.spec
        cards = cluster.ledger.devices(node, spec.keyword)
        offered = sight.record.allocatable.get(spec.keyword)
        slots = sum(card.slots for card in cards)
        if cards and offered is not None and offered != slots:
            yield (
                f"allocatable {spec.count_resource} {offered},"
                f" and the registered cards offer {slots}"
            )


def _daemon_set(one: workloads.DaemonSet) -> found.Place:
    return found.Place(kind="DaemonSet", name=one.name, namespace=one.namespace)


def _listed(cluster: Cluster) -> str:
    return ", ".join(sorted(cluster.runtime_classes)) or "(none)"


def _refusals(cluster: Cluster, one: workloads.DaemonSet) -> Iterator[str]:
    """Yield the API server's own words, once."""
    if not cluster.has(Source.EVENTS):
        return
    for event in cluster.events:
        about = (event.kind, event.namespace, event.name)
        if about == ("DaemonSet", one.namespace, one.name) and "RuntimeClass" in event.message:
            yield f"Event {event.reason}: {found.one_line(event.message)}"
            return
