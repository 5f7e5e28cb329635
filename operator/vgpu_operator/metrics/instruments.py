"""Counters and histograms that the shell turns while it works."""

import asyncio
from collections.abc import Mapping

import prometheus_client as prom

VERB_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
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
        self._api = prom.Counter(
            "vgpu_api_requests_total",
            "Requests to the API server, by verb, resource and status (0 = no answer).",
            ("verb", "resource", "status"),
            registry=self.registry,
        )
        self._audit = prom.Counter(
            "vgpu_ledger_audit_differences_total",
            "Pods that the ledger held differently from a fresh list.",
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
            "Events not sent because too many of their reason were waiting.",
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

    def observe_verb(self, verb: str, outcome: str, seconds: float) -> None:
        """Note one answered extender request."""
        self._verbs.labels(verb, outcome).observe(seconds)

    def count_rejections(self, counts: Mapping[str, int]) -> None:
        """Note how many nodes each reason kept off."""
        for reason, nodes in counts.items():
            self._rejections.labels(reason).inc(nodes)

    def count_admission(self, outcome: str) -> None:
        """Note one admission review."""
        self._admissions.labels(outcome).inc()

    def count_api_request(self, verb: str, path: str, status: int, _seconds: float) -> None:
        """Note one request to the API server."""
        self._api.labels(verb, resource_of(path), str(status)).inc()

    def count_audit_differences(self, pods: int) -> None:
        """Note what an audit found."""
        self._audit.inc(pods)

    def count_failed_effect(self, kind: str) -> None:
        """Note a background write that failed."""
        self._effects.labels(kind).inc()

    def count_dropped_event(self, reason: str) -> None:
        """Note an event that was not sent."""
        self._dropped.labels(reason).inc()

    def observe_lag(self, seconds: float) -> None:
        """Note how late a timer was."""
        self._lag.observe(seconds)


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
