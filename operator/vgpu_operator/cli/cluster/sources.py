"""Where a cluster comes from: made here, made by kind, or there already."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal, Protocol, TypeAlias

from vgpu_operator.cli.cluster import kubeconfig, longrun
from vgpu_operator.cli.cluster.control_plane import ControlPlane, ControlPlaneOptions
from vgpu_operator.cli.cluster.errors import ClusterError

Choice: TypeAlias = Literal["local", "kind", "current"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster to work on.

    Attributes:
        kubeconfig: how to reach it.
        context: which context of the kubeconfig.
        server_url: its API server.
        control_plane: what was made for this; None where the cluster is not ours.
    """

    kubeconfig: Path
    context: str
    server_url: str
    control_plane: ControlPlane | None = None

    @property
    def can_start_scheduler(self) -> bool:
        """Tell whether schedulers can be started beside it, through ``control_plane``."""
        return self.control_plane is not None


class ClusterSource(Protocol):
    """Gives a cluster on entry, and takes away what it made on exit."""

    async def __aenter__(self) -> Cluster:
        """Make or find the cluster and wait until it is ready."""

    async def __aexit__(self, *_: object) -> None:
        """Remove what was made; a cluster that was there before stays untouched."""


def cluster_source(
    choice: Choice,
    *,
    report: Callable[[str], None],
    options: ControlPlaneOptions | None = None,
    kubeconfig_file: Path | None = None,
    context: str | None = None,
) -> ClusterSource:
    """Return the source by its name on the command line.

    Args:
        choice: ``local``, ``kind`` or ``current``.
        report: Takes lines of progress.
        options: For ``local``.
        kubeconfig_file: For ``current``; None for ``$KUBECONFIG`` or the usual place.
        context: For ``current``; None for the current one.
    """
    if choice == "local":
        return LocalCluster(options, report=report)
    if choice == "kind":
        return KindCluster(report=report)
    return CurrentCluster(kubeconfig_file, context=context)


class LocalCluster:
    """A control plane of our own, for as long as it is entered."""

    def __init__(
        self, options: ControlPlaneOptions | None, *, report: Callable[[str], None]
    ) -> None:
        self._control_plane = ControlPlane(options, report=report)

    async def __aenter__(self) -> Cluster:
        await self._control_plane.start()
        path = self._control_plane.kubeconfig
        target = _read_target(path, context=None)
        return Cluster(
            kubeconfig=path,
            context=target.context,
            server_url=target.server_url,
            control_plane=self._control_plane,
        )

    async def __aexit__(self, *_: object) -> None:
        await self._control_plane.stop()


class CurrentCluster:
    """A cluster that is there already."""

    def __init__(
        self,
        kubeconfig_file: Path | None = None,
        *,
        context: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._file = kubeconfig_file
        self._context = context
        self._environment = os.environ if environment is None else environment

    async def __aenter__(self) -> Cluster:
        path = self._file or _usual_kubeconfig(self._environment)
        target = _read_target(path, context=self._context)
        return Cluster(kubeconfig=path, context=target.context, server_url=target.server_url)

    async def __aexit__(self, *_: object) -> None:
        """Leave everything as it is."""


class KindCluster:
    """A cluster in containers, made and deleted by the ``kind`` program.

    Where the tests of this project ran there was no container engine: only the
    calls that this makes are tested, not kind itself.
    """

    def __init__(
        self, *, report: Callable[[str], None], environment: Mapping[str, str] | None = None
    ) -> None:
        self._report = report
        self._environment = dict(os.environ if environment is None else environment)
        self._name = f"vgpu-{secrets.token_hex(3)}"
        self._directory: Path | None = None

    async def __aenter__(self) -> Cluster:
        self._require_kind()
        folder = self._directory = Path(tempfile.mkdtemp(prefix="vgpu-kind-"))
        path = folder / "kubeconfig"
        try:
            self._report(f"creating the kind cluster {self._name}; a minute or more")
            await longrun.in_thread(
                lambda abort: self._kind(folder, ["create", "cluster", "--wait", "5m"], abort)
            )
            target = _read_target(path, context=None)
        except BaseException:
            await self.__aexit__()
            raise
        return Cluster(kubeconfig=path, context=target.context, server_url=target.server_url)

    async def __aexit__(self, *_: object) -> None:
        folder, self._directory = self._directory, None
        if folder is None:
            return
        try:
            await longrun.in_thread(lambda abort: self._kind(folder, ["delete", "cluster"], abort))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _require_kind(self) -> None:
        path = self._environment.get("PATH")
        if shutil.which("kind", path=path) is None:
            raise ClusterError(
                "there is no `kind` program on the PATH; install kind, or use --cluster local"
            )
        for engine in ("docker", "podman", "nerdctl"):
            program = shutil.which(engine, path=path)
            if program is not None and self._answers(program):
                self._environment["KIND_EXPERIMENTAL_PROVIDER"] = engine
                return
        raise ClusterError(
            "kind needs a running container engine and neither docker, podman nor nerdctl "
            "answers here; start one, or use --cluster local"
        )

    def _answers(self, engine: str) -> bool:
        try:
            answer = subprocess.run(
                [engine, "info"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return answer.returncode == 0

    def _kind(self, folder: Path, arguments: list[str], abort: Event) -> None:
        log_file = folder / "kind.log"
        options = ["--name", self._name, "--kubeconfig", str(folder / "kubeconfig")]
        command = longrun.LongCommand(
            argv=["kind", *arguments, *options],
            directory=folder,
            environment=self._environment,
            log_file=log_file,
        )
        verb = " ".join(arguments[:2])
        exit_code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: self._report(f"kind {verb}: {elapsed_s:.0f} s"),
            abort=abort,
        )
        if exit_code != 0:
            raise ClusterError(
                f"`kind {verb}` failed (exit code {exit_code}: {longrun.last_line(log_file)}); "
                "see that the container engine works, or use --cluster local"
            )


def _usual_kubeconfig(environment: Mapping[str, str]) -> Path:
    listed = [item for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    if len(listed) > 1:
        raise ClusterError("KUBECONFIG names several files; name the one to use with --kubeconfig")
    if listed:
        return Path(listed[0])
    return Path(environment.get("HOME") or Path.home()) / ".kube" / "config"


def _read_target(path: Path, *, context: str | None) -> kubeconfig.Target:
    try:
        text = path.read_bytes()
    except OSError as fault:
        raise ClusterError(
            f"the kubeconfig {path} cannot be read ({fault.strerror}); name one with "
            "--kubeconfig, or make a cluster with --cluster local"
        ) from fault
    return kubeconfig.decode_target(text, context=context, origin=str(path))
