"""Builds the cluster's programs from their Go sources, once for each content.

A program is kept under a name that holds the hash of everything that shapes
it, so a changed source, Go or version builds anew and nothing else does. What
it does once it runs is in ``controlplane/*.go`` or ``kubelet/*.go``; its
arguments are in ``flags`` or ``real_node.kubelet``.
"""

import hashlib
import importlib.resources
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgpu_operator.cli.cluster import cache, longrun, toolchain, versions
from vgpu_operator.cli.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What can be built.

    Attributes:
        name: of the folder with its sources, and of the program.
        title: what people call it.
        cost: how long its first build takes, and what it downloads.
    """

    name: str
    title: str
    cost: str


CONTROL_PLANE = Program(
    name="controlplane",
    title="the control plane",
    cost="5 to 12 minutes on 2 cores, and about 0.7 GB to download if Go has not yet",
)
KUBELET = Program(
    name="kubelet",
    title="the kubelet",
    cost="2 to 5 minutes on 2 cores once the control plane is built, 10 before it",
)


def build(
    program: Program = CONTROL_PLANE,
    *,
    kubernetes_version: str = versions.PINNED,
    report: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    abort: threading.Event | None = None,
) -> Path:
    """Return a program, building it when the cache has none.

    Blocks for minutes on the first call; ``build_in_background`` is the way for
    code that runs in an event loop.

    Args:
        program: Which one.
        kubernetes_version: Any but the pinned one is derived from it, and
            downloads and compiles anew.
        report: Takes one line of progress at a time, at least every 20 s.
        environment: Stands in for the process's own environment.
        abort: Setting it from another thread ends the build.

    Raises:
        ClusterError: It cannot be built; says where it failed and what to do.
        Aborted: ``abort`` was set.
    """
    environment = os.environ if environment is None else environment
    abort = threading.Event() if abort is None else abort
    folder = cache.cache_directory(environment)
    flags = versions.linker_flags(kubernetes_version)
    sources = _read_sources(program)
    search = toolchain.GoSearch(environment=environment, cache=folder, report=report, abort=abort)

    def kept_as(go: toolchain.GoToolchain) -> Path:
        key = content_key(sources, go_version=go.version, linker_flags=flags)
        return folder / f"{program.name}-{kubernetes_version}-{key[:16]}"

    go = toolchain.find_toolchain(search)
    if go is not None and os.access(kept_as(go), os.X_OK):
        # Without the lock: a build of another version may hold it for minutes.
        return kept_as(go)
    with cache.exclusive(folder, report=report, abort=abort):
        _remove_unfinished(folder)
        # Looked up again: whoever held the lock may have brought both.
        go = toolchain.find_toolchain(search) or toolchain.install_toolchain(search)
        built = kept_as(go)
        if not os.access(built, os.X_OK):
            _Build(
                program=program,
                go=go,
                kubernetes_version=kubernetes_version,
                sources=sources,
                built=built,
                search=search,
            ).run()
        return built


async def build_in_background(
    program: Program = CONTROL_PLANE,
    *,
    kubernetes_version: str = versions.PINNED,
    report: Callable[[str], None],
) -> Path:
    """Build in a thread, so that the event loop runs on and Ctrl-C ends the build.

    ``report`` is called from that thread.
    """
    return await longrun.in_thread(
        lambda abort: build(
            program, kubernetes_version=kubernetes_version, report=report, abort=abort
        )
    )


def content_key(sources: Mapping[str, bytes], *, go_version: str, linker_flags: str) -> str:
    """Return the hash of all that decides what program comes out.

    Lengths are hashed too: no two different sets may run into the same bytes.
    """
    digest = hashlib.sha256()
    parts = [go_version.encode(), linker_flags.encode()]
    for name in sorted(sources):
        parts += [name.encode(), sources[name]]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _read_sources(program: Program) -> dict[str, bytes]:
    folder = importlib.resources.files("vgpu_operator.cli.cluster").joinpath(program.name)
    wanted = (".go", "go.mod", "go.sum")
    if not folder.is_dir():
        raise ClusterError(f"the Go sources are missing at {folder}; install vgpu-operator again")
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.name.endswith(wanted)}


def _remove_unfinished(folder: Path) -> None:
    # The lock is ours: such a folder belongs to a build whose process was killed.
    for left in folder.glob("build-*"):
        shutil.rmtree(left, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    program: Program
    go: toolchain.GoToolchain
    kubernetes_version: str
    sources: Mapping[str, bytes]
    built: Path
    search: toolchain.GoSearch

    def run(self) -> None:
        started = time.monotonic()
        self.search.report(
            f"building {self.program.title} of Kubernetes {self.kubernetes_version} with "
            f"{self.go.version}: {self.program.cost}; later starts take it from "
            f"{self.built.parent}"
        )
        # In the cache folder, not in /tmp: a rename is atomic on one file system only.
        with tempfile.TemporaryDirectory(prefix="build-", dir=self.built.parent) as name:
            folder = Path(name)
            pinned = self.kubernetes_version == versions.PINNED
            self._lay_out(folder, pinned=pinned)
            made = folder / self.program.name
            flags = versions.linker_flags(self.kubernetes_version)
            modules = "readonly" if pinned else "mod"
            options = ["-v", "-trimpath", f"-mod={modules}", f"-ldflags={flags}"]
            self._go(folder, "build.log", ["build", *options, "-o", str(made), "."])
            made.rename(self.built)
        size_mb = self.built.stat().st_size / 1e6
        elapsed_s = time.monotonic() - started
        self.search.report(
            f"built {self.program.title} in {elapsed_s:.0f} s: {self.built} ({size_mb:.0f} MB)"
        )

    def _lay_out(self, folder: Path, *, pinned: bool) -> None:
        (folder / "tmp").mkdir()
        for name, content in self.sources.items():
            (folder / name).write_bytes(content)
        if pinned:
            return
        (folder / "go.sum").unlink()
        text = versions.derive_go_mod(
            self.sources["go.mod"].decode(),
            kubernetes_go_mod=self._kubernetes_go_mod(folder),
            kubernetes_version=self.kubernetes_version,
        )
        (folder / "go.mod").write_text(text)

    def _kubernetes_go_mod(self, folder: Path) -> str:
        module = f"k8s.io/kubernetes@v{self.kubernetes_version}"
        answer = self._go(folder, "download.log", ["mod", "download", "-json", module])
        try:
            path: str = json.loads(answer.read_text())["GoMod"]
        except (ValueError, KeyError) as fault:
            raise ClusterError(f"go mod download gave no go.mod for {module}; try again") from fault
        return Path(path).read_text()

    def _go(self, folder: Path, log_name: str, arguments: Sequence[str]) -> Path:
        log_file = folder / log_name
        environment = self.go.environment(self.search.environment)
        command = longrun.LongCommand(
            argv=[str(self.go.program), *arguments],
            directory=folder,
            environment=environment | {"GOTMPDIR": str(folder / "tmp")},
            log_file=log_file,
        )
        exit_code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: self._tell(log_file, elapsed_s),
            abort=self.search.abort,
        )
        if exit_code != 0:
            kept = self.built.parent / f"failed-{log_name}"
            log_file.replace(kept)
            raise ClusterError(
                f"{self.go.version} could not build {self.program.title} (exit code {exit_code}: "
                f"{longrun.last_line(kept)}); all it said is in {kept}, and another try goes on "
                "where this one ended"
            )
        return log_file

    def _tell(self, log_file: Path, elapsed_s: float) -> None:
        lines = log_file.read_text(errors="replace").splitlines()
        downloads = sum(line.startswith("go: downloading ") for line in lines)
        self.search.report(
            f"building {self.program.title}: {elapsed_s:.0f} s, {downloads} modules downloaded, "
            f"{len(lines) - downloads} packages compiled"
        )
