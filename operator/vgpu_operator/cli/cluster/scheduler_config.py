"""The configuration of a second kube-scheduler that asks an extender."""

from collections.abc import Sequence
from pathlib import Path

from vgpu_operator.cli.cluster import flags


def scheduler_configuration(
    *,
    scheduler_name: str,
    extender_url: str | None = None,
    managed_resources: Sequence[str] = (),
    kubeconfig: Path | None = None,
    leader_elect: bool = False,
    lease_namespace: str = "kube-system",
    lease_name: str = "vgpu-scheduler",
    lease_duration_s: float = 15.0,
    client_qps: int = flags.CLIENT_QPS,
) -> dict[str, object]:
    """Return a KubeSchedulerConfiguration (v1) as plain values.

    Args:
        scheduler_name: The profile's name, which pods ask for.
        extender_url: Where the extender listens; None for a scheduler without.
        managed_resources: The extender is asked about pods that request one of
            these; the scheduler itself does not count them.
        kubeconfig: None leaves the choice to whoever starts the scheduler.
        leader_elect: Whether it works only while it holds its Lease.
        lease_namespace: Where the Lease is.
        lease_name: What it is called.
        lease_duration_s: After how long without renewal another may take over;
            the deadline and the retry period keep Kubernetes's own proportions
            to it (15 : 10 : 2).
        client_qps: Requests a second that its client allows itself. The
            default of 50 would be what a benchmark measures.
    """
    client: dict[str, object] = {"qps": client_qps, "burst": client_qps}
    if kubeconfig is not None:
        client["kubeconfig"] = str(kubeconfig)
    extenders = [] if extender_url is None else [_extender(extender_url, managed_resources)]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": client,
        "leaderElection": {
            "leaderElect": leader_elect,
            "resourceLock": "leases",
            "resourceNamespace": lease_namespace,
            "resourceName": lease_name,
            "leaseDuration": _seconds(lease_duration_s),
            "renewDeadline": _seconds(lease_duration_s * 10 / 15),
            "retryPeriod": _seconds(lease_duration_s * 2 / 15),
        },
        # By default only the first tenth of a large cluster reaches the extender.
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": scheduler_name}],
        "extenders": extenders,
    }


def _extender(url: str, managed_resources: Sequence[str]) -> dict[str, object]:
    return {
        "urlPrefix": url.rstrip("/"),
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "bindVerb": "bind",
        "enableHTTPS": False,
        # A bind waits for its node's lock; the extender ends that wait in time.
        "httpTimeout": "10m",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [
            {"name": name, "ignoredByScheduler": True} for name in managed_resources
        ],
    }


def _seconds(value: float) -> str:
    return f"{value:.3f}s"
