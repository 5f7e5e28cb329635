"""Who writes the protocol's annotations, and whether the policy may go on to Deny.

Two sources, of unequal worth. The fields' managers show who wrote what stands there now,
by what programs call themselves: a hint. The API server's audit log shows by user whom
the policy would have refused: that is what Deny will do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor.cluster import Audited, Cluster
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.vendors import roster
from vgpu_operator.wire import admission_objects, dialects, field_managers, keys

KNOWN: Final = frozenset({"vgpu-operator", "nvidia-device-plugin"})
"""The operator and its simulated nodes; HAMi's plugin for NVIDIA."""

DAY_S: Final = 86_400.0


def node_keys(vendors: roster.Roster) -> frozenset[str]:
    """Return the Node annotations that only programs of the protocol write."""
    own = (key for one in vendors for key in (one.spec.register_key, one.spec.handshake_key))
    older = (key for one in dialects.NODE_PLACES for key in (one.register, one.handshake))
    return frozenset(filter(None, (*own, *older, *vendors.locks, keys.WAKE)))


def pod_keys(vendors: roster.Roster) -> frozenset[str]:
    """Return the Pod annotations that only programs of the protocol write."""
    return vendors.pod_keys | {keys.DEVICE_IDS, keys.FENCE, keys.NOMINATION}


def waits_for_deny(cluster: Cluster) -> admission_objects.Policy | None:
    """Return the policy that does not refuse yet; None where there is none."""
    for one in cluster.policies:
        if one.actions and "Deny" not in one.actions:
            return one
    return None


def unknown(cluster: Cluster) -> Iterator[Sight]:
    """Find writers that the policy would refuse, as long as it refuses nobody."""
    policy = waits_for_deny(cluster)
    if policy is None:
        return
    if cluster.audited is not None:
        yield from _audited(cluster.audited, policy)
    known = KNOWN | cluster.known_writers | _plugin_names(cluster)
    objects: dict[str, list[str]] = defaultdict(list)
    written: dict[str, set[str]] = defaultdict(set)
    for place, writer in _writers(cluster):
        if writer.manager not in known:
            objects[writer.manager].append(place)
            written[writer.manager] |= writer.annotations
    for manager, places in sorted(objects.items()):
        yield Sight(
            place=found.Place(kind="Program", name=manager),
            evidence=(
                f"it has written {found.a_few(sorted(written[manager]))}",
                f"on {found.a_few(places)}",
                "this is what the program calls itself (managedFields), not its account",
            ),
        )


def notes(cluster: Cluster) -> Iterator[str]:
    """Say whether the policy may go on to Deny, and how much of that is known.

    Silent where an unknown writer was found: that finding says it.
    """
    policy = waits_for_deny(cluster)
    if policy is None or next(unknown(cluster), None) is not None:
        return
    audited = cluster.audited
    if audited is None:
        yield (
            f"policy {policy.name}: no unknown writer is left on the annotations as they stand;"
            " that shows neither accounts nor what was overwritten, so look at the API server's"
            " audit log too (--audit-log) before admissionPolicy.action: Deny"
        )
    elif audited.first is None or audited.last is None:
        yield f"policy {policy.name}: the audit log holds no event, so it says nothing of writers"
    else:
        hours = (audited.last - audited.first).total_seconds() / 3600
        advice = (
            "it may go to admissionPolicy.action: Deny"
            if hours * 3600 >= DAY_S
            else "look at a day of it at least, in which plugins were restarted, before Deny"
        )
        yield (
            f"policy {policy.name}: no unknown writer is left in {audited.events} events of"
            f" {hours:.1f} hours, nor on the annotations as they stand; {advice}"
        )


def _audited(audited: Audited, policy: admission_objects.Policy) -> Iterator[Sight]:
    noted = [
        one
        for one in audited.unknown
        if one.user not in policy.writers and any(name == policy.name for name, _ in one.failures)
    ]
    events = Counter(one.user for one in noted)
    for user, count in sorted(events.items()):
        last = [one for one in noted if one.user == user][-1]
        when = f"{last.time:%Y-%m-%d %H:%M:%S} UTC" if last.time is not None else "?"
        yield Sight(
            place=found.Place(kind="User", name=user),
            evidence=(
                f"{count} requests noted by policy {policy.name}, the last at {when}",
                f"by {last.user_agent or '?'} on {last.about or '?'}",
                *(found.one_line(text) for name, text in last.failures if name == policy.name),
            ),
        )


def _writers(cluster: Cluster) -> Iterator[tuple[str, field_managers.Writer]]:
    for sight in cluster.nodes.values():
        for writer in sight.writers:
            yield f"node {sight.record.name}", writer
    for pod in cluster.pods.values():
        for writer in pod.writers:
            yield f"pod {'/'.join(pod.name)}", writer


def _plugin_names(cluster: Cluster) -> frozenset[str]:
    """Return what the device plugins that are installed here may call themselves."""
    names: set[str] = set()
    for one in cluster.daemon_sets:
        if one.template.is_plugin:
            names |= {one.name, *(box.name for box in one.template.containers)}
            for box in one.template.containers:
                names |= {word.rpartition("/")[2] for word in box.words[:1]}
    return frozenset(filter(None, names))
