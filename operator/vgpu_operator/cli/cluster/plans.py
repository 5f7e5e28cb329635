"""How each component of a local cluster is run: arguments, ports, readiness."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import flags, layout, ports, probe, supervisor

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"


def etcd(files: layout.Layout) -> supervisor.Plan:
    """Plan the database; its first port is the one for clients."""
    return supervisor.Plan(
        name=ETCD,
        n_ports=2,
        arguments=lambda numbers: flags.etcd(files, client_port=numbers[0], peer_port=numbers[1]),
        endpoint=lambda numbers: probe.Endpoint(
            url=f"http://{ports.LOOPBACK}:{numbers[0]}/readyz", tls=None
        ),
        # It would wait 7 s for its clients to leave. Nothing is lost without:
        # what it has written is with the kernel.
        stop_limit_s=1.0,
    )


def kube_apiserver(
    files: layout.Layout,
    *,
    etcd_port: int,
    service_accounts: bool,
    audit: bool,
    extra: Sequence[str],
) -> supervisor.Plan:
    """Plan the API server; ``extra`` arguments come last and so may override."""
    return supervisor.Plan(
        name=APISERVER,
        n_ports=1,
        arguments=lambda numbers: [
            *flags.kube_apiserver(
                files,
                port=numbers[0],
                etcd_port=etcd_port,
                service_accounts=service_accounts,
                audit=audit,
            ),
            *extra,
        ],
        endpoint=lambda numbers: _https(files, numbers[0], "/readyz"),
    )


def kube_controller_manager(files: layout.Layout, *, kubeconfig: Path) -> supervisor.Plan:
    """Plan the controllers."""
    return supervisor.Plan(
        name=CONTROLLER_MANAGER,
        n_ports=1,
        arguments=lambda numbers: flags.kube_controller_manager(
            files, port=numbers[0], kubeconfig=kubeconfig
        ),
        endpoint=lambda numbers: _https(files, numbers[0], "/healthz"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPlan:
    """What tells one scheduler from another."""

    name: str
    hostname: str | None
    kubeconfig: Path
    configuration: Path


def kube_scheduler(files: layout.Layout, scheduler: SchedulerPlan) -> supervisor.Plan:
    """Plan a scheduler; one that waits for its Lease counts as ready too."""
    return supervisor.Plan(
        name=scheduler.name,
        n_ports=1,
        arguments=lambda numbers: flags.kube_scheduler(
            files,
            port=numbers[0],
            kubeconfig=scheduler.kubeconfig,
            configuration=scheduler.configuration,
        ),
        endpoint=lambda numbers: _https(files, numbers[0], "/readyz"),
        hostname=scheduler.hostname,
    )


def default_service_account(files: layout.Layout, server_url: str) -> probe.Endpoint:
    """Return what is there once pods are admitted into the default namespace."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    return probe.Endpoint(url=server_url + path, tls=admin_tls(files))


def admin_tls(files: layout.Layout) -> ssl.SSLContext:
    """Return a context that trusts this cluster and logs in as its administrator."""
    context = ssl.create_default_context(cafile=str(files.ca_file))
    context.load_cert_chain(files.admin_certificate, files.admin_key)
    return context


def _https(files: layout.Layout, port: int, path: str) -> probe.Endpoint:
    return probe.Endpoint(url=f"https://{ports.LOOPBACK}:{port}{path}", tls=admin_tls(files))
