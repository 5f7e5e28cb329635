"""Command lines of the four components.

Each function gives the arguments after the program's path; the first one
names the component. Names and defaults are those of Kubernetes 1.36.
"""

from collections.abc import Sequence
from pathlib import Path

from vgpu_operator.cli.cluster import layout, ports

CLIENT_QPS = 1000
"""Client requests a second: nothing here should wait for its own rate limit."""

_ISSUER = "https://kubernetes.default.svc.cluster.local"


def etcd(files: layout.Layout, *, client_port: int, peer_port: int) -> list[str]:
    """Return the command line of etcd, which here never waits for the disk."""
    return [
        "etcd",
        f"--data-dir={files.etcd_data}",
        f"--client-url=http://{ports.LOOPBACK}:{client_port}",
        f"--peer-url=http://{ports.LOOPBACK}:{peer_port}",
    ]


def kube_apiserver(
    files: layout.Layout, *, port: int, etcd_port: int, service_accounts: bool, audit: bool
) -> list[str]:
    """Return the command line of the API server.

    Args:
        files: Where certificates and logs are.
        port: What it listens on.
        etcd_port: Where etcd listens.
        service_accounts: False where no controller-manager makes them: pods
            are then admitted without.
        audit: Whether every request is noted.
    """
    # TaintNodesByCondition marks each new node as not ready, for the
    # node-lifecycle controller to clear once a kubelet reports. Here nodes are
    # objects that no kubelet stands behind, and no pod would ever fit one.
    disabled = ["TaintNodesByCondition", *([] if service_accounts else ["ServiceAccount"])]
    arguments = [
        "kube-apiserver",
        f"--etcd-servers=http://{ports.LOOPBACK}:{etcd_port}",
        *_serving(files, port),
        # The `kubernetes` Service can have no endpoint on the loopback device
        # (the API refuses it), and no pod here needs one.
        f"--advertise-address={ports.LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--client-ca-file={files.ca_file}",
        # Node: a kubelet may see and do what its own node's pods need.
        "--authorization-mode=Node,RBAC",
        # Components that serve HTTPS look for these and complain every few
        # seconds while they are missing.
        f"--requestheader-client-ca-file={files.front_proxy_ca}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={files.service_account_public_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--service-cluster-ip-range={layout.SERVICE_RANGE}",
        "--allow-privileged=true",
        # Without it a stop waits 12 s for clients to give up their watches.
        "--shutdown-watch-termination-grace-period=500ms",
        f"--disable-admission-plugins={','.join(disabled)}",
    ]
    if audit:
        arguments += [
            f"--audit-policy-file={files.audit_policy}",
            f"--audit-log-path={files.audit_log}",
            # Megabytes. The default starts a new file after 100, and who counts
            # requests would miss those in the old one.
            "--audit-log-maxsize=100000",
        ]
    return arguments


def kube_controller_manager(files: layout.Layout, *, port: int, kubeconfig: Path) -> list[str]:
    """Return the command line of the controller manager."""
    return [
        "kube-controller-manager",
        *_serving(files, port),
        *_delegated_access(kubeconfig),
        f"--kubeconfig={kubeconfig}",
        # It would taint and drain nodes whose Lease no kubelet renews.
        "--controllers=*,-node-lifecycle-controller",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.ca_file}",
        "--leader-elect=false",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_QPS}",
    ]


def kube_scheduler(
    files: layout.Layout, *, port: int, kubeconfig: Path, configuration: Path
) -> list[str]:
    """Return the command line of a scheduler; the rest is in its configuration file."""
    return [
        "kube-scheduler",
        *_serving(files, port),
        *_delegated_access(kubeconfig),
        f"--config={configuration}",
    ]


def _serving(files: layout.Layout, port: int) -> Sequence[str]:
    return (
        f"--bind-address={ports.LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.server_certificate}",
        f"--tls-private-key-file={files.server_key}",
    )


def _delegated_access(kubeconfig: Path) -> Sequence[str]:
    # Health and metrics without a login, as a side-car in the same pod reads them.
    return (
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    )
