"""What goes wrong between the API server and the webhook."""

import datetime
from collections.abc import Iterator
from typing import Final

from vgpu_operator.flows.doctor import finding as found
from vgpu_operator.flows.doctor import schedulers
from vgpu_operator.flows.doctor.cluster import Cluster, Source
from vgpu_operator.flows.doctor.finding import Sight
from vgpu_operator.wire import admission_objects, kept_certificate

NAMES: Final = frozenset({"vgpu.hami.io", "pods.vgpu-operator.io"})
"""What the chart (as HAMi's) and the operator's own configuration call the webhook."""

NEAR: Final = datetime.timedelta(days=14)
SPENT: Final = 5 / 6
"""Part of a lifetime after which it should have been renewed: two thirds are usual."""


def is_ours(hook: admission_objects.Webhook) -> bool:
    """Whether new pods with cards go there."""
    return hook.name in NAMES


def down(cluster: Cluster) -> Iterator[Sight]:
    """Find a webhook that is missing, or that nobody answers."""
    ours = [hook for hook in cluster.webhooks if is_ours(hook)]
    for hook in ours:
        evidence = tuple(_faults(cluster, hook))
        if evidence:
            closed = hook.fails_closed
            policy = "Fail: new pods are refused" if closed else "Ignore: new pods go past it"
            yield Sight(
                place=_place(hook), evidence=(*evidence, f"failurePolicy {policy} meanwhile")
            )
    if not ours:
        yield from _missing(cluster)


def certificate_ends(cluster: Cluster) -> Iterator[Sight]:
    """Find authorities and certificates that end soon and were not renewed."""
    for hook in cluster.webhooks:
        periods = cluster.bundles.get(hook.configuration, ())
        if is_ours(hook) and periods and all(_is_near(one, cluster.now) for one in periods):
            last = max(one.until for one in periods)
            yield Sight(
                place=_place(hook),
                evidence=(f"the last authority of its caBundle {_ends(last, cluster.now)}",),
            )
    for (namespace, pod), ends in sorted(cluster.shown_until.items()):
        if ends - cluster.now < NEAR:
            yield Sight(
                place=found.pod(namespace, pod),
                evidence=(f"the certificate that its webhook shows {_ends(ends, cluster.now)}",),
            )
    namespaces = {one.namespace for one in cluster.deployments if schedulers.is_ours(one.template)}
    for certificate in cluster.certificates:
        until = certificate.until
        if certificate.namespace not in namespaces or until is None:
            continue
        if until - cluster.now < NEAR:
            yield Sight(
                place=found.Place(
                    kind="Certificate", name=certificate.name, namespace=certificate.namespace
                ),
                evidence=(f"it {_ends(until, cluster.now)}",),
                fix=f"kubectl -n {certificate.namespace} describe certificate {certificate.name}",
            )


def _faults(cluster: Cluster, hook: admission_objects.Webhook) -> Iterator[str]:
    if not hook.bundle:
        yield "caBundle is empty: API servers trust no certificate of it"
    elif not cluster.bundles.get(hook.configuration):
        yield "caBundle cannot be read: it holds no PEM certificate"
    if hook.service is not None and cluster.has(Source.ENDPOINTS):
        ready = cluster.ready_endpoints.get(hook.service, 0)
        if not ready:
            yield f"Service {'/'.join(hook.service)} has no ready end point"


def _missing(cluster: Cluster) -> Iterator[Sight]:
    """Find an operator that listens for the webhook, and nobody sends it anything."""
    for one in cluster.deployments:
        listens = any(word.startswith("--webhook-bind") for word in one.template.words)
        if one.ready and listens and schedulers.is_ours(one.template):
            yield Sight(
                place=found.Place(kind="Deployment", name=one.name, namespace=one.namespace),
                evidence=("no MutatingWebhookConfiguration sends new pods to it",),
                fix="install the chart again (helm upgrade): it holds the configuration",
            )


def _is_near(period: kept_certificate.Period, now: datetime.datetime) -> bool:
    spent_at = period.since + (period.until - period.since) * SPENT
    return period.until - now < NEAR and now > spent_at


def _ends(until: datetime.datetime, now: datetime.datetime) -> str:
    stamp = f"{until:%Y-%m-%d %H:%M} UTC"
    return f"ended at {stamp}" if until <= now else f"ends at {stamp}"


def _place(hook: admission_objects.Webhook) -> found.Place:
    return found.Place(kind="MutatingWebhookConfiguration", name=hook.configuration)
