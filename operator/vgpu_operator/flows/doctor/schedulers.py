"""What goes wrong with who schedules: nobody, somebody else, or two at once."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows import admit
from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Cluster, LeaseSight, PodSight, Source
from vgpu_operator.flows.doctor.finding import Severity, Sight
from vgpu_operator.wire import clock_text, workloads

UNSEEN_S: Final = 60.0
"""How long a pod may wait until some scheduler has said a word about it."""

FRESH_S: Final = 60.0
"""A Lease renewed since is held: kube-scheduler renews every 2 s and gives up after 15 s."""

_MOST_CONFIGURATIONS: Final = 20
_NAME_OPTION: Final = "--scheduler-name="
_FORERUNNERS: Final = frozenset({"hami-scheduler", "4pd-scheduler"})
"""What the profiles of HAMi's chart and of k8s-vgpu-scheduler's are called."""

_APART: Final = (
    "each places the pods of its own name; where both work on the same nodes, neither sees what"
    " the other is about to give"
)
_KEEP_APART: Final = (
    "see that no node is served by both: by nodeSelector of the pods, say; or keep one of the two"
)


def unknown_name(cluster: Cluster) -> Iterator[Sight]:
    """Find pods that are left to a scheduler of which nothing is to be seen."""
    ours = cluster.settings.scheduler_name
    for name, pods in _left_to_others(cluster).items():
        if name in cluster.profiles:
            continue
        for one in pods:
            place = found.pod(*one.name)
            evidence = f"schedulerName {name}, and no scheduler has looked at it"
            if _is_earlier(name):
                yield Sight(
                    place=place,
                    evidence=(evidence,),
                    cause=f"{name} is the profile of an earlier installation, and today's is"
                    f" {ours}",
                    fix=f"set schedulerName: {name} in the chart's values as long as pods and"
                    f" manifests name it, or create the pods again with schedulerName: {ours}",
                )
            else:
                yield Sight(
                    place=place,
                    evidence=(
                        evidence,
                        "no Lease, running Deployment or configuration of a scheduler that could"
                        " be read mentions that name",
                    ),
                    cause=f"a guess: no scheduler of the name {name} works here; one that leaves"
                    " none of these traces may still come to it",
                    fix=f"see that the scheduler {name} runs, or correct schedulerName in the"
                    " pod's template",
                    severity=Severity.WARNING,
                )


def unheard_of(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of schedulers that pods wait for and of which nothing is to be seen."""
    return tuple(_left_to_others(cluster))


def configurations(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """Return namespace and name of the ConfigMaps that running schedulers of others mount."""
    places = (
        (one.namespace, name)
        for one in _others(cluster)
        if any("scheduler" in text for text in _texts(one))
        for name in one.template.config_maps
    )
    return tuple(dict.fromkeys(places))[:_MOST_CONFIGURATIONS]


def _left_to_others(cluster: Cluster) -> dict[str, list[PodSight]]:
    """Return the pods that wait for a scheduler which nothing mentions, by its name."""
    known = (cluster.settings.scheduler_name, admit.DEFAULT_SCHEDULER)
    waiting: dict[str, list[PodSight]] = defaultdict(list)
    for one in _unseen(cluster):
        if one.record.scheduler not in known and cluster.wants_served(one):
            waiting[one.record.scheduler].append(one)
    held = frozenset(one.name for one in _held(cluster))
    texts = [text for one in _others(cluster) for text in _texts(one)]
    traces = [text for one in _held(cluster) for text in _lease_texts(one)]
    return {
        name: pods
        for name, pods in sorted(waiting.items())
        if name not in held
        and not any(name in text for text in texts)
        # Our own Lease and its holder may be called as an earlier installation's.
        and (_is_earlier(name) or not any(name in text for text in traces))
    }


def _lease_texts(one: LeaseSight) -> tuple[str, ...]:
    return one.namespace, one.name, one.lease.holder


def _is_earlier(name: str) -> bool:
    return name in _FORERUNNERS or "vgpu" in name


def _others(cluster: Cluster) -> Iterator[workloads.Deployment]:
    """Yield the Deployments that run and are not our operator's."""
    return (one for one in cluster.deployments if one.ready and not is_ours(one.template))


def _texts(one: workloads.Deployment) -> tuple[str, ...]:
    """Return every text of a Deployment that may name a scheduler."""
    boxes = one.template.containers
    words = (word for box in boxes for word in (box.name, box.image, *box.words))
    return (one.name, *words, *one.template.config_maps)


def not_running(cluster: Cluster) -> Iterator[Sight]:
    """Find that our scheduler does not work, while pods are left to it."""
    ours = cluster.settings.scheduler_name
    if any(held.name == ours for held in _held(cluster)):
        return
    if any(is_ours(one.template) and one.ready for one in cluster.deployments):
        return  # one replica without a Lease
    pods = [one for one in _unseen(cluster) if one.record.scheduler == ours]
    if not pods:
        return
    names = ", ".join("/".join(one.name) for one in pods[: found.MOST_NAMES])
    leases = [
        f"Lease {one.namespace}/{one.name} was last renewed {one.lease.renewed or 'never'}"
        f" by {one.lease.holder or 'nobody'}"
        for one in cluster.leases
        if one.name == ours
    ]
    down = [
        f"Deployment {one.namespace}/{one.name}: {one.ready} of {one.replicas} ready"
        for one in cluster.deployments
        if is_ours(one.template)
    ]
    yield Sight(
        place=found.Place(kind="Scheduler", name=ours),
        evidence=(
            f"{len(pods)} pods wait and no scheduler has looked at them: {names}",
            *(leases or [f"no Lease of the name {ours}"]),
            *down,
        ),
    )


def two(cluster: Cluster) -> Iterator[Sight]:
    """Find two schedulers of shared cards that work on the same nodes."""
    held = [one for one in _held(cluster) if one.name == cluster.settings.scheduler_name]
    if len(held) > 1:
        yield Sight(
            place=found.Place(kind="Scheduler", name=cluster.settings.scheduler_name),
            evidence=tuple(
                f"Lease {one.namespace}/{one.name} is held by {one.lease.holder}" for one in held
            ),
        )
    working = [one for one in cluster.deployments if one.ready and is_scheduler(one.template)]
    if len(working) > 1:
        profiles = [_profiles(cluster, one) for one in working]
        apart = all(profiles) and len(frozenset().union(*profiles)) == sum(map(len, profiles))
        yield Sight(
            place=found.Place(
                kind="Deployment", name=working[-1].name, namespace=working[-1].namespace
            ),
            evidence=tuple(
                f"Deployment {one.namespace}/{one.name} ({_whose(one)}): {one.ready} ready"
                + (f", schedules as {', '.join(sorted(names))}" if names else "")
                for one, names in zip(working, profiles, strict=True)
            ),
            cause=_APART if apart else "",
            fix=_KEEP_APART if apart else "",
            severity=Severity.WARNING if apart else None,
        )
    yield from _foreign_holders(cluster, held)


def is_ours(template: workloads.Template) -> bool:
    """Whether that runs this operator."""
    return any("--extender-bind" in word for word in template.words)


def is_scheduler(template: workloads.Template) -> bool:
    """Whether that runs this operator, or HAMi's scheduler or its forerunner's."""
    return is_ours(template) or any(
        _is_forerunner(one, word) for one in template.containers for word in one.words
    )


def _is_forerunner(one: workloads.Container, word: str) -> bool:
    return one.name == "vgpu-scheduler-extender" and word.startswith(("scheduler", "--http_bind"))


def _profiles(cluster: Cluster, one: workloads.Deployment) -> frozenset[str]:
    """Return the names that a Deployment schedules as: an argument's, and of Leases it holds.

    A holder is called as its host, and so as its pod: the Deployment's name comes first.
    """
    named = (word for word in one.template.words if word.startswith(_NAME_OPTION))
    return frozenset(word.removeprefix(_NAME_OPTION) for word in named).union(
        held.name
        for held in _held(cluster)
        if held.namespace == one.namespace and held.lease.holder.startswith(f"{one.name}-")
    )


def _whose(one: workloads.Deployment) -> str:
    return "vgpu-operator" if is_ours(one.template) else "HAMi"


def _foreign_holders(cluster: Cluster, held: list[LeaseSight]) -> Iterator[Sight]:
    """Find Leases that somebody holds who is no pod of the operator beside it."""
    if not (cluster.has(Source.DEPLOYMENTS) and cluster.has(Source.PODS)):
        return
    for one in held:
        beside = [
            deployment
            for deployment in cluster.deployments
            if deployment.namespace == one.namespace
            and deployment.ready
            and is_ours(deployment.template)
        ]
        names = cluster.operator_pods.get(one.namespace, frozenset())
        if beside and names and one.lease.holder.rpartition("_")[0] not in names:
            yield Sight(
                place=found.Place(kind="Lease", name=one.name, namespace=one.namespace),
                evidence=(
                    f"held by {one.lease.holder}",
                    f"pods of Deployment {beside[0].name}: {', '.join(sorted(names))}",
                ),
                cause="another kube-scheduler of that name holds the Lease, so every replica of"
                " the operator stays a follower",
            )


def _held(cluster: Cluster) -> Iterator[LeaseSight]:
    for one in cluster.leases:
        age_s = cluster.age_s(clock_text.decode_time(one.lease.renewed))
        if one.lease.holder and age_s is not None and age_s < FRESH_S:
            yield one


def _unseen(cluster: Cluster) -> Iterator[PodSight]:
    """Yield waiting pods that no scheduler has said a word about for a while."""
    for one in cluster.waiting():
        age_s = cluster.age_s(one.record.created)
        if not one.health.scheduler_spoke and age_s is not None and age_s > UNSEEN_S:
            yield one
