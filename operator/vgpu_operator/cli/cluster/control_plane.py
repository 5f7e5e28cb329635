"""A Kubernetes control plane on this machine: etcd and what stands around it.

It needs no container engine. Nodes are objects without a kubelet: pods can be
scheduled and bound to them, and nothing runs.
"""

import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

import yaml

from vgpu_operator.cli.cluster import (
    audit,
    binary,
    certificates,
    kubeconfig,
    layout,
    plans,
    ports,
    probe,
    supervisor,
    versions,
)
from vgpu_operator.cli.cluster.errors import ClusterError
from vgpu_operator.cli.cluster.process import Component
from vgpu_operator.kube import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneOptions:
    """What kind of control plane.

    Attributes:
        directory: where its files go; None for a temporary folder, which
            ``stop`` removes.
        keep: leave the temporary folder where it is.
        scheduler_config: configuration of the first scheduler; None starts none.
        controller_manager: run the controllers (Deployments, Jobs, service
            accounts, garbage collection).
        audit: note every request in ``audit_log``.
        kubernetes_version: any but the pinned one is built anew from modules.
        extra_apiserver_args: come last, so they may override.
        start_limit_s: how long one component may take until it is ready.
    """

    directory: Path | None = None
    keep: bool = False
    scheduler_config: Mapping[str, object] | None = None
    controller_manager: bool = False
    audit: bool = False
    kubernetes_version: str = versions.PINNED
    extra_apiserver_args: Sequence[str] = ()
    start_limit_s: float = 90.0


class ControlPlane:
    """The running control plane, as an async context manager.

    Nothing in it belongs to an event loop, so a fixture may start it in one
    loop and tests use it in others. All loops must run in the same thread, one
    that lives as long as the cluster: see ``process.Component.start``.

    Attributes:
        options: as given.
        authority: signs certificates that the cluster's users and servers trust.
    """

    def __init__(
        self,
        options: ControlPlaneOptions | None = None,
        *,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options or ControlPlaneOptions()
        self.authority = certificates.CertificateAuthority(clock.SystemClock().now())
        self._report = report or _say_nothing
        self._layout: layout.Layout | None = None
        self._supervisor: supervisor.Supervisor | None = None
        self._server_url = ""
        self._kubeconfigs: dict[tuple[str, ...], Path] = {}
        self._remove_directory: Callable[[], object] = lambda: None

    @property
    def directory(self) -> Path:
        """Return the folder that holds all its files."""
        return self._files.root

    @property
    def server_url(self) -> str:
        """Return the API server's address, ``https://127.0.0.1:<port>``."""
        self._require_started()
        return self._server_url

    @property
    def ca_file(self) -> Path:
        """Return the certificate to check its servers with."""
        return self._files.ca_file

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.kubeconfig_for(kubeconfig.ADMIN_USER, [kubeconfig.ADMIN_GROUP])

    @property
    def audit_log(self) -> Path:
        """Return the log of all requests, for ``audit.read_requests``."""
        return self._files.audit_log

    @property
    def logs(self) -> Path:
        """Return the folder with one log for each component."""
        return self._files.logs

    @property
    def components(self) -> Mapping[str, Component]:
        """Return the components by name, as they are now."""
        return MappingProxyType(self._require_started().components)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Build the program if need be, start everything, and wait until it is ready.

        However this ends early (a fault, a cancelled task), nothing is left
        running.
        """
        if self._supervisor is not None:
            raise ClusterError("this control plane runs already; stop it first")
        program = await binary.build_in_background(
            kubernetes_version=self.options.kubernetes_version, report=self._report
        )
        files = self._layout = self._prepare_files()
        self._supervisor = supervisor.Supervisor(
            program, logs=files.logs, start_limit_s=self.options.start_limit_s
        )
        try:
            await self._start_storage_and_server()
            if self.options.controller_manager:
                await self._start_controller_manager()
            if self.options.scheduler_config is not None:
                await self.start_scheduler(self.options.scheduler_config)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything, clients before servers; remove a temporary folder.

        May be called again, and when ``start`` failed.
        """
        owner = self._supervisor
        if owner is None:
            return
        try:
            servers = (plans.APISERVER, plans.ETCD)
            await owner.stop([name for name in owner.components if name not in servers])
            for name in servers:
                await owner.stop([name])
        finally:
            owner.kill_all()
            self._supervisor = None
            self._remove_directory()

    async def restart(self, name: str) -> None:
        """Stop one component, start it on the same port, and wait until all is well again."""
        owner = self._require_started()
        await owner.restart(name)
        if name == plans.ETCD:
            await owner.wait_until_ready(plans.APISERVER)

    async def start_scheduler(
        self,
        config: Mapping[str, object],
        *,
        name: str = plans.SCHEDULER,
        hostname: str | None = None,
    ) -> Component:
        """Start a scheduler, once what it talks to is known.

        Args:
            config: From ``scheduler_config.scheduler_configuration``. Without a
                kubeconfig it gets one for ``system:kube-scheduler`` that may do
                everything, the Lease included.
            name: One for each scheduler, such as ``kube-scheduler-2``.
            hostname: What it believes this machine is called; its Lease
                identity begins with it. Needs root or user namespaces.
        """
        files = self._files
        access = self.kubeconfig_for("system:kube-scheduler", [kubeconfig.ADMIN_GROUP])
        given = config.get("clientConnection")
        client = given if isinstance(given, Mapping) else {}
        completed = {**config, "clientConnection": {"kubeconfig": str(access), **client}}
        configuration = files.scheduler_config(name)
        layout.write_private(configuration, yaml.safe_dump(completed).encode())
        scheduler = plans.SchedulerPlan(
            name=name, hostname=hostname, kubeconfig=access, configuration=configuration
        )
        owner = self._require_started()
        await owner.start(plans.kube_scheduler(files, scheduler))
        return owner.components[name]

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig (mode 0600) that logs in as this user with a certificate.

        What the user may do is up to RBAC. The same user and groups give the
        same file.
        """
        self._require_started()
        identity = (user, *groups)
        if identity not in self._kubeconfigs:
            text = kubeconfig.encode_kubeconfig(
                server_url=self._server_url,
                ca_pem=self.authority.certificate_pem,
                user=user,
                credentials=self.authority.issue_client(user, groups),
            )
            # Numbered: two identities may look the same as a file name.
            number = len(self._kubeconfigs) + 1
            path = self._files.kubeconfig_file(f"{number}-{re.sub(r'[^A-Za-z0-9]+', '-', user)}")
            layout.write_private(path, text)
            self._kubeconfigs[identity] = path
        return self._kubeconfigs[identity]

    def _prepare_files(self) -> layout.Layout:
        if self.options.directory is not None:
            root = self.options.directory.absolute()
            root.mkdir(parents=True, exist_ok=True)
        else:
            root = Path(tempfile.mkdtemp(prefix="vgpu-cluster-"))
            if not self.options.keep:
                # Also when nobody calls stop: at the end of this object, or of Python.
                self._remove_directory = weakref.finalize(
                    self, shutil.rmtree, root, ignore_errors=True
                )
        files = layout.Layout(root)
        front_proxy = certificates.CertificateAuthority(clock.SystemClock().now())
        files.write_certificates(self.authority, front_proxy=front_proxy)
        layout.write_private(files.audit_policy, json.dumps(audit.POLICY).encode())
        files.logs.mkdir(exist_ok=True)
        return files

    async def _start_storage_and_server(self) -> None:
        files, owner = self._files, self._require_started()
        etcd_port, _ = await owner.start(plans.etcd(files))
        server = plans.kube_apiserver(
            files,
            etcd_port=etcd_port,
            service_accounts=self.options.controller_manager,
            audit=self.options.audit,
            extra=self.options.extra_apiserver_args,
        )
        (port,) = await owner.start(server)
        # Files of an earlier start name its address.
        self._kubeconfigs.clear()
        self._server_url = f"https://{ports.LOOPBACK}:{port}"

    async def _start_controller_manager(self) -> None:
        files, owner = self._files, self._require_started()
        access = self.kubeconfig_for("system:kube-controller-manager")
        await owner.start(plans.kube_controller_manager(files, kubeconfig=access))
        await probe.wait_until_ready(
            owner.components[plans.CONTROLLER_MANAGER],
            plans.default_service_account(files, self._server_url),
            limit_s=self.options.start_limit_s,
        )

    @property
    def _files(self) -> layout.Layout:
        if self._layout is None:
            raise ClusterError("this control plane was not started yet; start it first")
        return self._layout

    def _require_started(self) -> supervisor.Supervisor:
        if self._supervisor is None:
            raise ClusterError("this control plane is not running; start it first")
        return self._supervisor


def _say_nothing(_line: str) -> None:
    """Stand in for a report that nobody wants."""
