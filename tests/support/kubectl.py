"""kubectl for tests: built once from its Go module, of the control plane's own version.

Loaded as a plugin: ``pytest_plugins = ["support.kubectl"]``.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from support import go_program, missing_tools
from vgpu_operator.cli.cluster import versions
from vgpu_operator.cli.cluster.errors import ClusterError

SOURCES = Path(__file__).with_name("kubectl_program")


def build(*, report: Callable[[str], None]) -> Path:
    """Return kubectl, building it when the cache has none of these sources."""
    sources = sorted(SOURCES.iterdir())
    digest = hashlib.sha256()
    for file in sources:
        digest.update(file.read_bytes())
    major, minor, _ = versions.PINNED.split(".")
    stamps = {"gitVersion": f"v{versions.PINNED}", "gitMajor": major, "gitMinor": minor}
    recipe = go_program.Recipe(
        name="kubectl",
        title=f"kubectl {versions.PINNED}",
        kept_as=f"kubectl-{versions.PINNED}-{digest.hexdigest()[:16]}",
        arguments=("build", "-mod=readonly", "-o", "kubectl", "."),
        stamps={f"k8s.io/component-base/version.{key}": text for key, text in stamps.items()},
        sources=sources,
    )
    return go_program.program(recipe, report=report)


@pytest.fixture(scope="session")
def kubectl_program(request: pytest.FixtureRequest) -> Path:
    """Build kubectl once; where that is impossible, skip, or fail in CI."""
    try:
        return build(report=missing_tools.progress(request.config))
    except ClusterError as fault:
        missing_tools.skip_or_fail(f"no kubectl: {fault}")
