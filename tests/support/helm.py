"""Helm for tests: built once from its Go module, and what tests ask of it.

Loaded as a plugin: ``pytest_plugins = ["support.helm"]``.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import go_program, missing_tools
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


def build(*, report: Callable[[str], None]) -> Path:
    """Return Helm's program, building it when the cache has none."""
    kubernetes = {"k8sVersionMajor": "1", "k8sVersionMinor": "36"}
    stamps = {
        "internal/version.version": f"v{VERSION}",
        **{f"pkg/chartutil.{key}": text for key, text in kubernetes.items()},
        **{f"pkg/lint/rules.{key}": text for key, text in kubernetes.items()},
    }
    recipe = go_program.Recipe(
        name="helm",
        title=f"Helm {VERSION}",
        kept_as=f"helm-{VERSION}",
        arguments=("install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"),
        stamps={f"helm.sh/helm/v3/{key}": text for key, text in stamps.items()},
    )
    return go_program.program(recipe, report=report)


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


def program(report: Callable[[str], None] = print) -> Path:
    """Build Helm once; where that is impossible, skip, or fail in CI."""
    try:
        return build(report=report)
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no Helm: {fault}")


@pytest.fixture(scope="session")
def helm_program(request: pytest.FixtureRequest) -> Path:
    """Give Helm, built with a word on the terminal about how it goes."""
    return program(missing_tools.progress(request.config))


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    """Give Helm without a cluster."""
    return Helm(program=helm_program, home=tmp_path)
