"""kubectl for tests: built once from its Go module, of the control plane's own version.

Loaded as a plugin: ``pytest_plugins = ["support.kubectl"]``.
"""

import hashlib
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from vgpu_operator.cli.cluster import cache, longrun, toolchain, versions
from vgpu_operator.cli.cluster.errors import ClusterError

SOURCES = Path(__file__).with_name("kubectl_program")


def build(*, report: Any) -> Path:
    """Return kubectl, building it when the cache has none of these sources."""
    folder = cache.cache_directory(os.environ)
    search = toolchain.GoSearch(
        environment=os.environ, cache=folder, report=report, abort=threading.Event()
    )
    digest = hashlib.sha256()
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.read_bytes())
    program = folder / f"kubectl-{versions.PINNED}-{digest.hexdigest()[:16]}"
    if os.access(program, os.X_OK):
        return program
    # A lock of its own: nobody waits minutes here because a control plane is being built.
    with cache.exclusive(folder / "kubectl.lock", report=report, abort=search.abort):
        if not os.access(program, os.X_OK):
            go = toolchain.find_toolchain(search) or toolchain.install_toolchain(search)
            _build(program, go, report)
    return program


def _build(program: Path, go: toolchain.GoToolchain, report: Any) -> None:
    report(f"building kubectl {versions.PINNED} with {go.version}: 1 to 5 minutes, once")
    major, minor, _ = versions.PINNED.split(".")
    stamps = {"gitVersion": f"v{versions.PINNED}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(
        f"-X k8s.io/component-base/version.{name}={text}" for name, text in stamps.items()
    )
    with tempfile.TemporaryDirectory(prefix="build-kubectl-", dir=program.parent) as name:
        folder = Path(name)
        for file in SOURCES.iterdir():
            shutil.copy(file, folder / file.name)
        command = longrun.LongCommand(
            argv=[
                *(str(go.program), "build", "-trimpath", "-mod=readonly"),
                *(f"-ldflags=-s -w {flags}", "-o", "kubectl", "."),
            ],
            directory=folder,
            environment=go.environment(os.environ),
            log_file=folder / "build.log",
        )
        code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: report(f"building kubectl: {elapsed_s:.0f} s"),
            abort=threading.Event(),
        )
        if code != 0:
            raise ClusterError(f"kubectl could not be built: {longrun.last_line(command.log_file)}")
        (folder / "kubectl").rename(program)


@pytest.fixture(scope="session")
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    """Build kubectl once; where that is impossible, skip, or fail in CI."""
    terminal: Any = request.config.pluginmanager.get_plugin("terminalreporter")
    try:
        return build(report=getattr(terminal, "write_line", print))
    except ClusterError as fault:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no kubectl: {fault}", pytrace=False)
        pytest.skip(f"no kubectl: {fault}")
