"""Counters and histograms that the shell turns while it works."""

import asyncio
from collections.abc import Iterable, Mapping

import prometheus_client as prom
from prometheus_client import core
from prometheus_client.registry import Collector

VERB_BUCKETS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    *(30, 60, 120, 300, 600),
)
"""Up to ``bind.timeLimitS``: a bind may wait for its node's lock."""

API_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Instruments:
    """All instruments, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = prom.CollectorRegistry()
        self._verbs = prom.Histogram(
            "vgpu_extender_request_duration_seconds",
            "Time from kube-scheduler's request to our answer.",
            ("verb", "outcome"),
            buckets=VERB_BUCKETS,
            registry=self.registry,
        )
        self._phases = prom.Histogram(
            "vgpu_extender_phase_duration_seconds",
            "Time that one part of answering kube-scheduler took.",
            ("verb", "phase"),
            buckets=VERB_BUCKETS,
            registry=self.registry,
        )
        self._rejections = prom.Counter(
            "vgpu_node_rejections_total",
            "Nodes kept off a pod by the filter, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self._admissions = prom.Counter(
            "vgpu_admission_reviews_total",
            "Pods seen by the webhook, by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        self._admitting = prom.Histogram(
            "vgpu_admission_review_duration_seconds",
            "Time from the API server's call of the webhook to our answer.",
            buckets=API_BUCKETS,
            registry=self.registry,
        )
        self._api = prom.Counter(
            "vgpu_api_requests_total",
            "Requests to the API server, by verb, resource and status (0 = no answer; "
            "403 namespace ending = no right is missing).",
            ("verb", "resource", "status"),
            registry=self.registry,
        )
        self._api_seconds = prom.Histogram(
            "vgpu_api_request_duration_seconds",
            "Time that the API server took to answer, watches left out.",
            ("verb",),
            buckets=API_BUCKETS,
            registry=self.registry,
        )
        self._retries = prom.Counter(
            "vgpu_api_retries_total",
            "Requests sent again because the API server asked to slow down.",
            registry=self.registry,
        )
        self._audits = prom.Counter(
            "vgpu_ledger_audits_total",
            "Comparisons of the ledger with a fresh list that came to their end.",
            registry=self.registry,
        )
        self._audit = prom.Counter(
            "vgpu_ledger_audit_differences_total",
            "Pods that the ledger held differently from a fresh list.",
            registry=self.registry,
        )
        self._terms = prom.Counter(
            "vgpu_leadership_changes_total",
            "How often this replica began to lead, or ceased to.",
            registry=self.registry,
        )
        self._effects = prom.Counter(
            "vgpu_effects_failed_total",
            "Background writes that failed, by kind.",
            ("kind",),
            registry=self.registry,
        )
        self._dropped = prom.Counter(
            "vgpu_events_dropped_total",
            "Events not sent because too many of their reason were waiting, or about one object.",
            ("reason",),
            registry=self.registry,
        )
        self._lag = prom.Histogram(
            "vgpu_event_loop_lag_seconds",
            "How late the event loop woke a timer.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self._running = prom.Gauge(
            "vgpu_event_loop_tasks",
            "Tasks that have not ended: they come and go with the load, only a leak lasts.",
            registry=self.registry,
        )
        self._running.set_function(_tasks)
        self._certificate = CertificateEnd()
        self.registry.register(self._certificate)
        prom.ProcessCollector(registry=self.registry)

    def observe_verb(self, verb: str, outcome: str, seconds: float) -> None:
        """Note one answered extender request."""
        self._verbs.labels(verb, outcome).observe(seconds)

    def observe_phase(self, verb: str, phase: str, seconds: float) -> None:
        """Note one part of an extender request."""
        self._phases.labels(verb, phase).observe(seconds)

    def observe_admission(self, seconds: float) -> None:
        """Note how long an admission review took."""
        self._admitting.observe(seconds)

    def count_rejections(self, counts: Mapping[str, int]) -> None:
        """Note how many nodes each reason kept off."""
        for reason, nodes in counts.items():
            self._rejections.labels(reason).inc(nodes)

    def count_admission(self, outcome: str) -> None:
        """Note one admission review."""
        self._admissions.labels(outcome).inc()

    def count_api_request(self, verb: str, path: str, status: str, seconds: float) -> None:
        """Note one request to the API server."""
        self._api.labels(verb, resource_of(path), status).inc()
        self._api_seconds.labels(verb).observe(seconds)

    def count_api_retry(self) -> None:
        """Note a request that is sent again."""
        self._retries.inc()

    def count_leadership_change(self) -> None:
        """Note that this replica leads from now on, or no longer."""
        self._terms.inc()

    def count_audit_differences(self, pods: int) -> None:
        """Note what an audit found."""
        self._audits.inc()
        self._audit.inc(pods)

    def count_failed_effect(self, kind: str) -> None:
        """Note a background write that failed."""
        self._effects.labels(kind).inc()

    def count_dropped_event(self, reason: str) -> None:
        """Note an event that was not sent."""
        self._dropped.labels(reason).inc()

    def set_certificate_end(self, unix_s: float) -> None:
        """Note until when the certificate that the webhook shows is valid."""
        self._certificate.unix_s = unix_s

    def observe_lag(self, seconds: float) -> None:
        """Note how late a timer was."""
        self._lag.observe(seconds)


class CertificateEnd(Collector):
    """Has a sample only while there is a certificate: 0 would be one that ended in 1970."""

    def __init__(self) -> None:
        self.unix_s: float | None = None

    def collect(self) -> Iterable[core.Metric]:
        """Yield the family."""
        family = core.GaugeMetricFamily(
            "vgpu_webhook_certificate_expiry_timestamp_seconds",
            "Until when the certificate that the webhook shows is valid; absent without one.",
            labels=(),
        )
        if self.unix_s is not None:
            family.add_metric((), self.unix_s)
        yield family


def _tasks() -> float:
    try:
        return float(len(asyncio.all_tasks()))
    except RuntimeError:  # asked outside the loop
        return 0.0


def resource_of(path: str) -> str:
    """Return the resource that an API path is about, names left out.

    >>> resource_of("/api/v1/namespaces/a/pods/p/binding")
    'pods/binding'
    >>> resource_of("/api/v1/nodes/n")
    'nodes'
    >>> resource_of("/version")
    'version'
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join((parts[0], *parts[2:3]))
