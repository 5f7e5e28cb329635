"""Helm for tests: built once from its Go module, and what tests ask of it.

Loaded as a plugin: ``pytest_plugins = ["support.helm"]``.
"""

import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from vgpu_operator.cli.cluster import cache, longrun, toolchain
from vgpu_operator.cli.cluster.errors import ClusterError

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "vgpu-operator"

VERSION = "3.22.0"
RELEASE = "vgpu"
NAMESPACE = "vgpu-system"
KUBERNETES = "v1.36.3"
"""What ``helm template`` renders for where a test names no other version."""

COMMAND_LIMIT_S = 120.0

Json = dict[str, Any]


def build(*, report: Any) -> Path:
    """Return Helm's program, building it when the cache has none."""
    folder = cache.cache_directory(os.environ)
    search = toolchain.GoSearch(
        environment=os.environ, cache=folder, report=report, abort=threading.Event()
    )
    program = folder / f"helm-{VERSION}"
    if os.access(program, os.X_OK):
        return program
    with cache.exclusive(folder, report=report, abort=search.abort):
        if not os.access(program, os.X_OK):
            go = toolchain.find_toolchain(search) or toolchain.install_toolchain(search)
            _build(program, go, report)
    return program


def _build(program: Path, go: toolchain.GoToolchain, report: Any) -> None:
    report(f"building Helm {VERSION} with {go.version}: 1 to 5 minutes, once")
    stamps = {
        "internal/version.version": f"v{VERSION}",
        "pkg/chartutil.k8sVersionMajor": "1",
        "pkg/chartutil.k8sVersionMinor": "36",
        "pkg/lint/rules.k8sVersionMajor": "1",
        "pkg/lint/rules.k8sVersionMinor": "36",
    }
    flags = " ".join(
        ["-s -w", *(f"-X helm.sh/helm/v3/{key}={value}" for key, value in stamps.items())]
    )
    with tempfile.TemporaryDirectory(prefix="build-helm-", dir=program.parent) as name:
        folder = Path(name)
        command = longrun.LongCommand(
            argv=[
                *(str(go.program), "install", "-trimpath", f"-ldflags={flags}"),
                f"helm.sh/helm/v3/cmd/helm@v{VERSION}",
            ],
            directory=folder,
            environment=go.environment(os.environ) | {"GOBIN": str(folder)},
            log_file=folder / "build.log",
        )
        code = longrun.run(
            command,
            heartbeat=lambda elapsed_s: report(f"building Helm: {elapsed_s:.0f} s"),
            abort=threading.Event(),
        )
        if code != 0:
            raise ClusterError(f"Helm could not be built: {longrun.last_line(command.log_file)}")
        (folder / "helm").rename(program)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one command of Helm ended."""

    code: int
    out: str
    complaint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """Helm, with folders of its own instead of the user's."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Mapping[str, Any] | str | None = None) -> Answer:
        """Run one command; ``values`` become a file, a text as it stands."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HELM_") and name != "KUBECONFIG"
        }
        for kind in ("CACHE", "CONFIG", "DATA"):
            environment[f"HELM_{kind}_HOME"] = str(self.home / kind.lower())
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        argv = [str(self.program), *arguments]
        if values is not None:
            file = self.home / "values.yaml"
            file.write_text(values if isinstance(values, str) else yaml.safe_dump(dict(values)))
            argv += ["-f", str(file)]
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        return Answer(code=done.returncode, out=done.stdout, complaint=done.stderr)

    def template(
        self,
        values: Mapping[str, Any] | str | None = None,
        *,
        kubernetes: str = KUBERNETES,
        arguments: Sequence[str] = (),
    ) -> list[Json]:
        """Return the objects that these values make; fails the test when they make none."""
        answer = self.run(
            *("template", RELEASE, str(CHART), "-n", NAMESPACE, "--kube-version", kubernetes),
            *arguments,
            values=values,
        )
        if answer.code != 0:
            pytest.fail(answer.complaint)
        return [document for document in yaml.safe_load_all(answer.out) if document]

    def refusal(self, values: Mapping[str, Any] | str) -> str:
        """Return what Helm says of values that it must not take."""
        answer = self.run(
            *("template", RELEASE, str(CHART), "-n", NAMESPACE, "--kube-version", KUBERNETES),
            values=values,
        )
        assert answer.code != 0, "these values were taken"
        return answer.complaint


def one(objects: Sequence[Json], kind: str, name: str = "") -> Json:
    """Return the one object of that kind whose name ends so."""
    (found,) = [
        item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(name)
    ]
    return found


def program(report: Any = print) -> Path:
    """Build Helm once; where that is impossible, skip, or fail in CI."""
    try:
        return build(report=report)
    except ClusterError as fault:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no Helm: {fault}", pytrace=False)
        pytest.skip(f"no Helm: {fault}")


@pytest.fixture(scope="session")
def helm_program(request: pytest.FixtureRequest) -> Path:
    """Give Helm, built with a word on the terminal about how it goes."""
    terminal: Any = request.config.pluginmanager.get_plugin("terminalreporter")
    return program(getattr(terminal, "write_line", print))


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    """Give Helm without a cluster."""
    return Helm(program=helm_program, home=tmp_path)
