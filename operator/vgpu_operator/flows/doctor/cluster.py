"""A cluster as one look shows it: what the signatures are judged by."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from vgpu_operator.flows.doctor import families
from vgpu_operator.ledger import ledger
from vgpu_operator.model import errors, records, settings
from vgpu_operator.vendors import roster
from vgpu_operator.wire import (
    admission_objects,
    audit_log,
    cluster_events,
    field_managers,
    kept_certificate,
    lease,
    workloads,
)


class Source(enum.StrEnum):
    """What is read; each may be missing, for lack of rights say."""

    NODES = "nodes"
    PODS = "pods"
    DAEMON_SETS = "daemonsets"
    DEPLOYMENTS = "deployments"
    RUNTIME_CLASSES = "runtimeclasses"
    EVENTS = "events"
    NAMESPACES = "namespaces"
    WEBHOOKS = "mutatingwebhookconfigurations"
    ENDPOINTS = "endpointslices"
    LEASES = "leases"
    QUOTAS = "resourcequotas"
    POLICIES = "validatingadmissionpolicies"
    CERTIFICATES = "certificates of cert-manager"
    METRICS = "the operator's metrics"
    LOGS = "logs of device plugins and of pods that crash"
    AUDIT_LOG = "the API server's audit log"
    SAMPLES = "allocatable counts over a while"


def is_card_plugin(template: workloads.Template) -> bool:
    """Whether pods of that are device plugins, and of cards as far as their words say."""
    return template.is_plugin and not families.is_foreign(template)


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSight:
    """A Node.

    Attributes:
        ready: its Ready condition; None where it has none.
        heartbeat: when the kubelet last reported, by the node's own clock.
        heartbeat_written: the same moment by the API server's clock.
        writers: who wrote the protocol's annotations.
        offered: every extended resource of which the kubelet offers more than none.
    """

    record: records.NodeRecord
    labels: Mapping[str, str] = field(default_factory=_nothing)
    ready: bool | None = None
    heartbeat: datetime | None = None
    heartbeat_written: datetime | None = None
    writers: tuple[field_managers.Writer, ...] = ()
    offered: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSight:
    """A Pod that asks for cards, carries anything of the protocol, or is a device plugin's.

    Attributes:
        made_by: kind and name of its controller; empty where it has none.
        template: what it is made of.
        writers: who wrote the protocol's annotations.
    """

    record: records.PodRecord
    health: workloads.Health = field(default_factory=workloads.Health)
    made_by: tuple[str, str] = ("", "")
    template: workloads.Template = field(default_factory=workloads.Template)
    writers: tuple[field_managers.Writer, ...] = ()

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.record.key.namespace, self.record.key.name

    @property
    def waits(self) -> bool:
        """Whether it is to be placed and is not."""
        record = self.record
        return not (record.node or record.ended or record.deleting)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSight:
    """A Lease of some scheduler."""

    namespace: str
    name: str
    lease: lease.Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A Certificate of cert-manager; ``until`` is None before it is issued."""

    namespace: str
    name: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What an audit log says of the policy.

    Attributes:
        first: time of its first event; None when it has none.
        last: time of its last one.
        events: how many there are.
        unknown: events in which the policy noted an unknown writer.
    """

    first: datetime | None = None
    last: datetime | None = None
    events: int = 0
    unknown: tuple[audit_log.AuditedWrite, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Everything that was read.

    Attributes:
        now: the API server's clock.
        ledger: filled from nodes, pods and quotas.
        vendors: every one, switched on or not.
        served: keywords of those that the installed settings switch on: the webhook and the
            scheduler care for these alone.
        faults: register texts that cannot be read, as (node, what is wrong).
        pods: those that matter, by namespace and name.
        operator_pods: names of the pods that may be the operator's, by namespace.
        ready_endpoints: how many end points of a Service are ready; a Service without
            any slice is absent.
        opted_out: namespaces whose label keeps the webhook away.
        bundles: validity of the authorities that callers of a webhook trust, by the name
            of its configuration.
        shown_until: when the certificate ends that a pod of the operator shows, by namespace
            and name of the pod.
        logs: last lines, by namespace and name of the pod.
        samples: allocatable counts by node and resource, one for each change.
        known_writers: programs that the user has named as writers of the protocol.
        missing: what was not read, and why.
        profiles: names of schedulers that nothing else shows, and that a ConfigMap of some
            scheduler's Deployment mentions.
        only_namespace: pods of this one alone were read; empty = of all.
    """

    now: datetime
    settings: settings.Settings
    ledger: ledger.Ledger
    vendors: roster.Roster
    served: frozenset[str]
    faults: tuple[tuple[str, errors.DecodeError], ...] = ()
    nodes: Mapping[str, NodeSight] = field(default_factory=_nothing)
    pods: Mapping[tuple[str, str], PodSight] = field(default_factory=_nothing)
    operator_pods: Mapping[str, frozenset[str]] = field(default_factory=_nothing)
    daemon_sets: tuple[workloads.DaemonSet, ...] = ()
    deployments: tuple[workloads.Deployment, ...] = ()
    runtime_classes: frozenset[str] = frozenset()
    events: tuple[cluster_events.ClusterEvent, ...] = ()
    opted_out: frozenset[str] = frozenset()
    webhooks: tuple[admission_objects.Webhook, ...] = ()
    bundles: Mapping[str, tuple[kept_certificate.Period, ...]] = field(default_factory=_nothing)
    ready_endpoints: Mapping[tuple[str, str], int] = field(default_factory=_nothing)
    leases: tuple[LeaseSight, ...] = ()
    quotas: tuple[records.QuotaRecord, ...] = ()
    policies: tuple[admission_objects.Policy, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    shown_until: Mapping[tuple[str, str], datetime] = field(default_factory=_nothing)
    logs: Mapping[tuple[str, str], str] = field(default_factory=_nothing)
    audited: Audited | None = None
    samples: Mapping[tuple[str, str], tuple[int, ...]] | None = None
    known_writers: frozenset[str] = frozenset()
    missing: Mapping[Source, str] = field(default_factory=_nothing)
    profiles: frozenset[str] = frozenset()
    only_namespace: str = ""

    def has(self, source: Source) -> bool:
        """Whether that was read."""
        if source is Source.AUDIT_LOG:
            return self.audited is not None
        if source is Source.SAMPLES:
            return self.samples is not None
        return source not in self.missing

    def device_pods(self) -> Iterator[PodSight]:
        """Yield the pods that ask for cards or carry a promise."""
        for one in self.pods.values():
            record = one.record
            if record.request.wants_devices or record.promised or record.faults:
                yield one

    def waiting(self) -> Iterator[PodSight]:
        """Yield the pods that ask for cards and are not placed."""
        return (one for one in self.device_pods() if one.waits and one.record.request.wants_devices)

    def wants_served(self, one: PodSight) -> bool:
        """Whether a pod asks for cards of a vendor that the installed operator serves."""
        return not self.served.isdisjoint(one.record.request.vendors)

    def plugins(self) -> Iterator[PodSight]:
        """Yield the pods of device plugins of cards."""
        for one in self.pods.values():
            made_here = one.made_by[0] == "DaemonSet" and not one.record.ended
            if made_here and is_card_plugin(one.template):
                yield one

    def lines(self, one: PodSight) -> Iterator[str]:
        """Yield the lines that a pod's containers, and what was read of its log, say."""
        texts = [text for box in one.health.containers for text in box.messages]
        texts.append(self.logs.get(one.name, ""))
        return (line for text in texts for line in text.splitlines())

    def age_s(self, time: datetime | None) -> float | None:
        """Return how long ago that was; None when it is not known."""
        return None if time is None else (self.now - time).total_seconds()
