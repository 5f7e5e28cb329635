"""What operator and scheduler stand on: our own control plane, or a cluster that is there."""

import importlib.resources
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from vgpu_operator.cli.cluster import binary, layout, ports, probe, sources
from vgpu_operator.cli.cluster.control_plane import ControlPlane
from vgpu_operator.cli.cluster.process import Component

OPERATOR_USER = "vgpu-operator"
START_LIMIT_S = 60.0


class Ground(Protocol):
    """Where processes that belong to a cluster can be started."""

    @property
    def directory(self) -> Path:
        """Folder for configuration files."""

    @property
    def logs(self) -> Path:
        """Folder with one log for each process."""

    @property
    def calls_loopback(self) -> bool:
        """Whether the API server can call a webhook on this machine's loopback."""

    def operator_kubeconfig(self) -> Path:
        """Return the kubeconfig that the operator logs in with."""

    def rights(self) -> Sequence[dict[str, Any]]:
        """Return the roles and bindings that are to be made for the operator."""

    async def start_scheduler(
        self, config: Mapping[str, object], *, name: str, hostname: str | None
    ) -> Component:
        """Start a kube-scheduler with that configuration and wait until it is ready."""

    async def stop(self) -> None:
        """Stop what was started here."""


class LocalGround:
    """Our own control plane; the operator has its own user with the rights of ``rbac.yaml``."""

    calls_loopback = True

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    @property
    def directory(self) -> Path:
        """Return the control plane's folder."""
        return self.plane.directory

    @property
    def logs(self) -> Path:
        """Return the control plane's log folder."""
        return self.plane.logs

    def operator_kubeconfig(self) -> Path:
        """Return a kubeconfig with the operator's own certificate."""
        return self.plane.kubeconfig_for(OPERATOR_USER)

    def rights(self) -> Sequence[dict[str, Any]]:
        """Return what ``rbac.yaml`` gives the operator's user."""
        return rights_of_the_operator()

    async def start_scheduler(
        self, config: Mapping[str, object], *, name: str, hostname: str | None
    ) -> Component:
        """Start a kube-scheduler beside the control plane's other components."""
        return await self.plane.start_scheduler(config, name=name, hostname=hostname)

    async def stop(self) -> None:
        """Leave everything to the control plane's own end."""


class ForeignGround:
    """A cluster that somebody else runs; the scheduler is ours, from the local build."""

    calls_loopback = False

    def __init__(self, cluster: sources.Cluster, directory: Path, program: Path) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self._cluster = cluster
        self._program = program
        self._started: list[tuple[Component, ports.ReservedPort]] = []

    @classmethod
    async def prepare(
        cls, cluster: sources.Cluster, directory: Path, *, report: Any
    ) -> "ForeignGround":
        """Build the scheduler where it is not built yet."""
        return cls(cluster, directory, await binary.build_in_background(report=report))

    def operator_kubeconfig(self) -> Path:
        """Return a copy of the cluster's kubeconfig in which our context is the current one."""
        path = self.directory / "kubeconfig"
        if not path.exists():
            loaded = yaml.safe_load(self._cluster.kubeconfig.read_bytes())
            loaded["current-context"] = self._cluster.context
            _make_absolute(loaded, self._cluster.kubeconfig.parent)
            layout.write_private(path, yaml.safe_dump(loaded).encode())
        return path

    def rights(self) -> Sequence[dict[str, Any]]:
        """Return what ``rbac.yaml`` gives a user of the operator's name."""
        return rights_of_the_operator()

    async def start_scheduler(
        self,
        config: Mapping[str, object],
        *,
        name: str,
        hostname: str | None,
    ) -> Component:
        """Start a kube-scheduler on this machine that logs in to the cluster."""
        access = {"kubeconfig": str(self.operator_kubeconfig())}
        given = config.get("clientConnection")
        client = {**(given if isinstance(given, Mapping) else {}), **access}
        file = self.directory / f"{name}.yaml"
        layout.write_private(file, yaml.safe_dump({**config, "clientConnection": client}).encode())
        port = ports.ReservedPort()
        argv = [
            str(self._program),
            "kube-scheduler",
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port.number}",
            f"--cert-dir={self.directory / name}",
        ]
        component = Component(name, argv, log_file=self.logs / f"{name}.log", hostname=hostname)
        component.start()
        self._started.append((component, port))
        await probe.wait_until_ready(
            component,
            probe.Endpoint(url=f"https://127.0.0.1:{port.number}/healthz", tls=_any_certificate()),
            limit_s=START_LIMIT_S,
        )
        return component

    async def stop(self) -> None:
        """Stop the schedulers."""
        while self._started:
            component, port = self._started.pop()
            await component.stop()
            port.release()


def _make_absolute(kubeconfig: dict[str, Any], base: Path) -> None:
    """Make the files that a kubeconfig names findable from anywhere."""
    for entry in (*kubeconfig.get("clusters", ()), *kubeconfig.get("users", ())):
        for section in ("cluster", "user"):
            fields = entry.get(section) or {}
            for name in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if fields.get(name):
                    fields[name] = str(base / fields[name])


def _any_certificate() -> ssl.SSLContext:
    """Trust our own child on loopback whatever certificate it has made for itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def rights_of_the_operator() -> Sequence[dict[str, Any]]:
    """Return the objects of ``rbac.yaml``, from which the chart's rules are made too."""
    text = importlib.resources.files("vgpu_operator.cli").joinpath("rbac.yaml").read_text()
    return tuple(yaml.safe_load_all(text))
