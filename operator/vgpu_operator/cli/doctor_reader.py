"""Reads what ``vgpu doctor`` judges, with get, list and watch, and says what it could not."""

import asyncio
import dataclasses
import datetime
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from vgpu_operator.cli import cluster_view
from vgpu_operator.flows import reading
from vgpu_operator.flows.doctor import plugins, schedulers, webhooks, writers
from vgpu_operator.flows.doctor.cluster import (
    Audited,
    Certificate,
    Cluster,
    LeaseSight,
    NodeSight,
    PodSight,
    Source,
)
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock, errors, paths
from vgpu_operator.ledger import ledger
from vgpu_operator.model import errors as model_errors
from vgpu_operator.model import quota, records, settings
from vgpu_operator.vendors import quotas, registry
from vgpu_operator.vendors import records as vendor_records
from vgpu_operator.wire import (
    admission_objects,
    audit_log,
    clock_text,
    cluster_events,
    field_managers,
    keys,
    lease,
    quantity,
    shape,
    workloads,
)
from vgpu_operator.wire.kept_certificate import periods

MOST_LOGS: Final = 20
"""Pods whose logs are read: they show a cause that all of them share."""

LOG_LINES: Final = 40
LOG_BYTES: Final = 16_384

_EVENTS: Final = "/api/v1/events"
_WANTED_EVENTS: Final = ("FailedCreatePodSandBox", "FailedCreate")
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_POLICY_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"

_PLACES: Final[Mapping[Source, str]] = {
    Source.DAEMON_SETS: "/apis/apps/v1/daemonsets",
    Source.DEPLOYMENTS: "/apis/apps/v1/deployments",
    Source.RUNTIME_CLASSES: "/apis/node.k8s.io/v1/runtimeclasses",
    Source.NAMESPACES: "/api/v1/namespaces",
    Source.WEBHOOKS: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    Source.LEASES: "/apis/coordination.k8s.io/v1/leases",
    Source.CERTIFICATES: "/apis/cert-manager.io/v1/certificates",
}
_BESIDE_NODES: Final = {"fieldSelector": "metadata.namespace!=kube-node-lease"}
"""Every node has a Lease there, and none of them says who schedules."""

_EXPIRY: Final = re.compile(
    r"^vgpu_webhook_certificate_expiry_timestamp_seconds ([0-9.]+(?:e[+]?[0-9]+)?)$", re.MULTILINE
)
_METRICS_PORT: Final = "9395"
"""The chart's, where an argument names no other."""

_Json = kube_client.Json


class Reader:
    """One look at a cluster.

    Args:
        client: whoever may read.
        configured: names of resources and chips, times.
        namespace: only that namespace's pods, events and quotas; None = all.
        known_writers: programs that the user knows to write the protocol's annotations.
    """

    def __init__(
        self,
        client: kube_client.KubeClient,
        configured: settings.Settings,
        *,
        namespace: str | None = None,
        known_writers: Iterable[str] = (),
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._installed = configured
        self._served = registry.build(configured)
        self._settings = settings.with_every_vendor(configured)
        self._vendors = registry.build(self._settings)
        self._node_keys = writers.node_keys(self._vendors)
        self._pod_keys = writers.pod_keys(self._vendors)
        self._ledger = ledger.Ledger(
            vendors=tuple(self._vendors.by_keyword),
            trust=configured.ledger.trust,
            rules=self._vendors.by_keyword,
        )
        self._known_writers = frozenset(known_writers)
        self._missing: dict[Source, str] = {}
        self._faults: list[tuple[str, model_errors.DecodeError]] = []
        self._nodes: dict[str, NodeSight] = {}
        self._nodes_version = ""
        self._allocatable: dict[tuple[str, str], list[int]] = {}
        self._pods: dict[tuple[str, str], PodSight] = {}
        self._operator_pods: dict[str, set[str]] = defaultdict(set)
        self._metrics: dict[tuple[str, str], str] = {}

    async def read(
        self,
        *,
        watch_for_s: float | None = None,
        audit_file: Path | None = None,
        local: clock.Clock | None = None,
    ) -> tuple[Cluster, tuple[str, ...]]:
        """Return the cluster, and what else is worth saying.

        Args:
            watch_for_s: watch how many cards nodes offer for so long; None = do not.
            audit_file: the API server's audit log; None = there is none.
            local: this machine's clock, for where the API server tells no time.

        Raises:
            ApiError: the API server does not answer, or shows neither nodes nor pods.
        """
        audited = None if audit_file is None else await asyncio.to_thread(read_audit, audit_file)
        (
            (daemon_sets, deployments, classes, namespaces, hooks, leases, certificates),
            *rest,
        ) = await asyncio.gather(
            asyncio.gather(
                self._whole(Source.DAEMON_SETS, workloads.daemon_set),
                self._whole(Source.DEPLOYMENTS, workloads.deployment),
                self._whole(Source.RUNTIME_CLASSES, _name),
                self._whole(Source.NAMESPACES, _opted_out),
                self._whole(Source.WEBHOOKS, _hooks),
                self._whole(Source.LEASES, _lease, params=_BESIDE_NODES),
                self._whole(Source.CERTIFICATES, _certificate),
            ),
            self._read_events(),
            self._read_policies(),
            self._read_quotas(),
            self._read_nodes_and_pods(),
        )
        events, policies, found_quotas, _ = rest
        every_hook = tuple(hook for of_one in hooks for hook in of_one)
        endpoints = await self._read_endpoints(every_hook)
        shown_until = await self._read_metrics()
        samples = None if watch_for_s is None else await self._sample(watch_for_s)
        now, notes = await self._time(local or clock.SystemClock())
        cluster = Cluster(
            now=now,
            settings=self._settings,
            ledger=self._ledger,
            vendors=self._vendors,
            served=frozenset(self._served.by_keyword),
            faults=tuple(self._faults),
            nodes=self._nodes,
            pods=self._pods,
            operator_pods={name: frozenset(pods) for name, pods in self._operator_pods.items()},
            daemon_sets=daemon_sets,
            deployments=deployments,
            runtime_classes=frozenset(classes),
            events=events,
            opted_out=frozenset(filter(None, namespaces)),
            webhooks=every_hook,
            bundles={hook.configuration: periods(hook.bundle) for hook in every_hook},
            ready_endpoints=endpoints,
            leases=leases,
            quotas=found_quotas,
            policies=policies,
            certificates=certificates,
            shown_until=shown_until,
            audited=audited,
            samples=samples,
            known_writers=self._known_writers,
            missing=self._missing,
            only_namespace=self._namespace or "",
        )
        return await self._with_logs(await self._with_profiles(cluster)), notes

    async def _pages(
        self, source: Source, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[_Json]:
        """Yield the pages of a list; a list that may not be read is noted and is empty."""
        try:
            async for page in self._client.pages(path, params=params):
                yield page
        except errors.Denied as fault:
            self._missing[source] = str(fault)
        except errors.NotFound:
            if source is not Source.CERTIFICATES:  # cert-manager is not installed: nothing missing
                self._missing[source] = f"the API server does not have {path}"

    async def _items(
        self, source: Source, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[_Json]:
        async for page in self._pages(source, path, params):
            for raw in page.get("items") or ():
                yield raw

    async def _whole(
        self,
        source: Source,
        decode: Callable[[_Json], Any],
        *,
        params: Mapping[str, str] | None = None,
    ) -> tuple[Any, ...]:
        items = self._items(source, _PLACES[source], params)
        return tuple([decode(raw) async for raw in items])

    async def _read_nodes_and_pods(self) -> None:
        """Read nodes before pods: whoever owns a lock that was seen is among the pods then."""
        async for page in self._pages(Source.NODES, paths.NODES):
            self._nodes_version = self._nodes_version or page["metadata"]["resourceVersion"]
            for raw in page.get("items") or ():
                self._take_node(raw)
        async for raw in self._items(Source.PODS, self._place(paths.PODS, "pods")):
            self._take_pod(raw)
        if {Source.NODES, Source.PODS} <= self._missing.keys():
            raise errors.Denied(self._missing[Source.NODES], status=403)

    def _take_node(self, raw: _Json) -> None:
        record = vendor_records.node_record(raw, self._vendors)
        ready = next((one for one in _conditions(raw) if one.get("type") == "Ready"), {})
        self._nodes[record.name] = NodeSight(
            record=record,
            labels=shape.mapping(shape.mapping(raw.get("metadata")).get("labels")),
            ready=None if not ready else ready.get("status") == "True",
            heartbeat=clock_text.decode_time(shape.text(ready.get("lastHeartbeatTime"))),
            heartbeat_written=field_managers.heartbeat_written(raw),
            writers=field_managers.writers(raw, self._node_keys),
            offered=frozenset(_offered(raw)),
        )
        faults = cluster_view.take_node(self._ledger, record, self._vendors.by_keyword)
        self._faults.extend((record.name, fault) for fault in faults)
        self._note_allocatable(raw)

    def _note_allocatable(self, raw: _Json) -> None:
        """Note how many cards the kubelet offers, where that is another count than before."""
        name = shape.text(shape.mapping(raw.get("metadata")).get("name"))
        offered = shape.mapping(shape.mapping(raw.get("status")).get("allocatable"))
        for resource in self._vendors.resources.intersection(offered):
            try:
                count = quantity.decode_integer(offered[resource])
            except model_errors.DecodeError:
                continue
            counts = self._allocatable.setdefault((name, resource), [])
            if not counts or counts[-1] != count:
                counts.append(count)

    def _take_pod(self, raw: _Json) -> None:
        aliases = self._settings.resource_aliases
        spec = shape.mapping(raw.get("spec"))
        owner = workloads.controller(raw)
        if owner[0] == "ReplicaSet" and schedulers.is_ours(workloads.template(spec)):
            metadata = raw["metadata"]
            name = (metadata["namespace"], metadata["name"])
            self._operator_pods[name[0]].add(name[1])
            if shape.mapping(raw.get("status")).get("podIP"):
                self._metrics[name] = _metrics_port(spec)
        is_plugin = owner[0] == "DaemonSet" and workloads.is_plugin(spec)
        matters = vendor_records.may_matter(raw, self._vendors, aliases=aliases)
        if not (matters or is_plugin):
            return
        record = vendor_records.pod_record(raw, self._vendors, aliases=aliases)
        record = reading.judged(record, raw, settings=self._installed, vendors=self._served)
        self._ledger.observe(record)
        self._pods[record.key.namespace, record.key.name] = PodSight(
            record=record,
            health=workloads.health(raw),
            made_by=owner,
            template=workloads.template(spec),
            writers=field_managers.writers(raw, self._pod_keys),
        )

    async def _read_events(self) -> tuple[cluster_events.ClusterEvent, ...]:
        found = []
        for reason in _WANTED_EVENTS:
            wanted = {"fieldSelector": f"reason={reason}"}
            items = self._items(Source.EVENTS, self._place(_EVENTS, "events"), wanted)
            found += [cluster_events.decode_event(raw) async for raw in items]
        return tuple(found)

    async def _read_quotas(self) -> tuple[records.QuotaRecord, ...]:
        aliases = self._settings.resource_aliases
        place = self._place(paths.QUOTAS, "resourcequotas")
        found = [
            quotas.quota_record(raw, self._vendors, aliases=aliases)
            async for raw in self._items(Source.QUOTAS, place)
        ]
        by_namespace: dict[str, list[quota.Limits]] = defaultdict(list)
        for one in found:
            by_namespace[one.namespace].append(one.limits)
        for namespace, limits in by_namespace.items():
            self._ledger.set_limits(namespace, quota.tightest(limits))
        return tuple(found)

    async def _read_policies(self) -> tuple[admission_objects.Policy, ...]:
        actions: dict[str, frozenset[str]] = {}
        async for raw in self._items(Source.POLICIES, _POLICY_BINDINGS):
            name, found = admission_objects.binding_actions(raw)
            actions[name] = actions.get(name, frozenset()) | found
        policies = []
        async for raw in self._items(Source.POLICIES, _POLICIES):
            does = actions.get(_name(raw), frozenset())
            policies.append(admission_objects.policy(raw, actions=does))
        return tuple(one for one in policies if one is not None)

    async def _read_endpoints(
        self, hooks: tuple[admission_objects.Webhook, ...]
    ) -> dict[tuple[str, str], int]:
        """Return how many end points are ready behind each Service of our webhooks."""
        ready: dict[tuple[str, str], int] = {}
        for hook in hooks:
            if hook.service is None or not webhooks.is_ours(hook):
                continue
            namespace, name = hook.service
            # Everything of the group is namespaced as the core's collections are.
            place = paths.namespaced(namespace, "endpointslices")
            path = "/apis/discovery.k8s.io/v1" + place.removeprefix("/api/v1")
            wanted = {"labelSelector": f"kubernetes.io/service-name={name}"}
            async for raw in self._items(Source.ENDPOINTS, path, wanted):
                count = sum(map(_is_ready, shape.mappings(raw.get("endpoints"))))
                ready[hook.service] = ready.get(hook.service, 0) + count
        return ready

    async def _read_metrics(self) -> dict[tuple[str, str], datetime.datetime]:
        """Return when the certificates end that the operator's pods show, as they say."""
        ends: dict[tuple[str, str], datetime.datetime] = {}
        for (namespace, name), port in self._metrics.items():
            path = f"{paths.pod(namespace, f'{name}:{port}')}/proxy/metrics"
            try:
                match = _EXPIRY.search(await self._client.text(path))
            except errors.NotFound:
                continue  # it has gone meanwhile
            except errors.ApiError as fault:
                self._missing[Source.METRICS] = str(fault)
                break
            if match is not None:
                ends[namespace, name] = datetime.datetime.fromtimestamp(
                    float(match[1]), tz=datetime.UTC
                )
        return ends

    async def _sample(self, seconds: float) -> dict[tuple[str, str], tuple[int, ...]]:
        """Watch the nodes for a while; return the counts that they offered, one per change."""
        if Source.NODES in self._missing:
            self._missing[Source.SAMPLES] = self._missing[Source.NODES]
            return {}
        try:
            async with asyncio.timeout(seconds):
                await self._follow()
        except TimeoutError:
            pass
        except errors.Denied as fault:
            self._missing[Source.SAMPLES] = str(fault)
        return {place: tuple(counts) for place, counts in self._allocatable.items()}

    async def _follow(self) -> None:
        """Note what the nodes offer until somebody ends it."""
        version = self._nodes_version
        while True:
            try:
                async for event in self._client.watch(paths.NODES, resource_version=version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._note_allocatable(event["object"])
            except errors.Expired:
                nodes, version = await self._client.list(paths.NODES)
                for raw in nodes:
                    self._note_allocatable(raw)

    async def _time(self, local: clock.Clock) -> tuple[datetime.datetime, tuple[str, ...]]:
        """Return the API server's time, and what to say of this machine's."""
        told, here = await self._client.server_time(), local.now()
        if told is None:
            return here, ()
        off_s = (here - told).total_seconds()
        if abs(off_s) < 5:
            return told, ()
        word = "ahead of" if off_s > 0 else "behind"
        return told, (
            f"this machine's clock is {abs(off_s):.0f} s {word} the API server's; ages here are"
            " by the API server's",
        )

    async def _with_profiles(self, cluster: Cluster) -> Cluster:
        """Add which of the unknown schedulers some scheduler's configuration mentions."""
        unknown = schedulers.unheard_of(cluster)
        places = schedulers.configurations(cluster) if unknown else ()
        found: set[str] = set()
        for namespace, name in places:
            try:
                raw = await self._client.get(paths.namespaced(namespace, f"configmaps/{name}"))
            except (errors.Denied, errors.NotFound):
                continue  # what cannot be seen is said to be a guess
            texts = [shape.text(text) for text in shape.mapping(raw.get("data")).values()]
            found.update(one for one in unknown if any(one in text for text in texts))
        return dataclasses.replace(cluster, profiles=frozenset(found))

    async def _with_logs(self, cluster: Cluster) -> Cluster:
        """Add the last lines of those whose log may show why they do not work."""
        logs: dict[tuple[str, str], str] = {}
        for pod, container in plugins.worth_reading(cluster)[:MOST_LOGS]:
            wanted = {
                "container": container,
                "tailLines": str(LOG_LINES),
                "limitBytes": str(LOG_BYTES),
            }
            try:
                logs[pod] = await self._client.text(f"{paths.pod(*pod)}/log", wanted)
            except errors.Denied as fault:
                self._missing[Source.LOGS] = str(fault)
                break
            except (errors.Invalid, errors.NotFound):
                continue  # the container has not started, or the pod has gone meanwhile
            except errors.ServerFault as fault:  # the node's kubelet does not answer
                self._missing.setdefault(Source.LOGS, str(fault))
        return dataclasses.replace(cluster, logs=logs)

    def _place(self, everywhere: str, collection: str) -> str:
        if self._namespace is None:
            return everywhere
        return paths.namespaced(self._namespace, collection)


def read_audit(file: Path) -> Audited:
    """Read an audit log: whom a policy noted, and what time the log covers.

    Most lines are only counted: a log may have millions.

    Raises:
        SettingsError: it cannot be read, or is no audit log.
    """
    first = last = b""
    events = 0
    unknown = []
    mark = audit_log.FAILURE.encode()
    try:
        with file.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # it is being written just now
                first = first or line
                last = line
                events += 1
                if mark in line:
                    unknown.append(audit_log.decode_line(line))
        ends = [audit_log.decode_line(line).time for line in (first, last) if line]
    except OSError as fault:
        raise model_errors.SettingsError(f"--audit-log {file}: {fault.strerror}") from fault
    except model_errors.DecodeError as fault:
        raise model_errors.SettingsError(
            f"--audit-log {file}: {fault}; one event in JSON a line is wanted"
        ) from fault
    return Audited(
        first=ends[0] if ends else None,
        last=ends[-1] if ends else None,
        events=events,
        unknown=tuple(one for one in unknown if one.failures),
    )


def _metrics_port(spec: Mapping[str, Any]) -> str:
    """Return the port at which a pod of the operator shows its metrics.

    >>> _metrics_port({"containers": [{"args": ["run", "--metrics-bind=:9400"]}]})
    '9400'
    """
    for word in workloads.template(spec).words:
        option, _, address = word.partition("=")
        if option == "--metrics-bind":
            return address.rpartition(":")[2]
    return _METRICS_PORT


def _offered(raw: _Json) -> Iterator[str]:
    """Yield every extended resource of which a Node offers more than none."""
    for name, amount in shape.mapping(shape.mapping(raw.get("status")).get("allocatable")).items():
        if "/" in name and str(amount) != "0":
            yield name


def _hooks(raw: _Json) -> tuple[admission_objects.Webhook, ...]:
    return tuple(admission_objects.webhooks(raw))


def _name(raw: _Json) -> str:
    return shape.text(shape.mapping(raw.get("metadata")).get("name"))


def _opted_out(raw: _Json) -> str:
    """Return a namespace's name where its label keeps the webhook away; else nothing."""
    labels = shape.mapping(shape.mapping(raw.get("metadata")).get("labels"))
    return _name(raw) if labels.get(keys.WEBHOOK_LABEL) == keys.WEBHOOK_IGNORE else ""


def _lease(raw: _Json) -> LeaseSight:
    namespace = shape.text(shape.mapping(raw.get("metadata")).get("namespace"))
    return LeaseSight(namespace=namespace, name=_name(raw), lease=lease.decode_lease(raw))


def _certificate(raw: _Json) -> Certificate:
    namespace = shape.text(shape.mapping(raw.get("metadata")).get("namespace"))
    until = shape.text(shape.mapping(raw.get("status")).get("notAfter"))
    return Certificate(namespace=namespace, name=_name(raw), until=clock_text.decode_time(until))


def _conditions(raw: _Json) -> tuple[Mapping[str, Any], ...]:
    return shape.mappings(shape.mapping(raw.get("status")).get("conditions"))


def _is_ready(endpoint: Mapping[str, Any]) -> bool:
    """Whether an end point takes calls: not said counts as yes, as the API has it."""
    return shape.mapping(endpoint.get("conditions")).get("ready") is not False
