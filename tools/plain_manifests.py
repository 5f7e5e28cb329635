"""Writes ``manifests/``: what the chart makes, as plain YAML for ``kubectl apply``.

    plain_manifests.py            write every file again
    plain_manifests.py --check    write nothing; exit 1 with one line per stale file

Helm renders them, the one that the tests build (``support.helm``): hence no part of
``make docs``, which needs no Go. ``tests/unit/chart/test_manifests.py`` holds them current.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import written_files

from support import helm

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "manifests"

WRITTEN_BY: Final = "# Written by tools/plain_manifests.py (make manifests); do not edit.\n"

_DOCUMENT: Final = re.compile(r"^---\n", re.MULTILINE)
_OF_HELM_ALONE: Final = re.compile(
    r"^ +(helm\.sh/(chart|hook|hook-delete-policy)|app\.kubernetes\.io/managed-by): .*\n",
    re.MULTILINE,
)
_LEFT_EMPTY: Final = re.compile(r"^( +)annotations:\n(?!\1 )", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One file.

    Attributes:
        told: the comment at its head.
        values: file of values, from the project's root.
        pod_security: which of Kubernetes' Pod Security Standards its namespace enforces;
            empty: the file holds no namespace.
        hooks: hold what Helm runs as a hook, and nothing else; otherwise all else.
    """

    told: str
    values: str = ""
    pod_security: str = ""
    hooks: bool = False


FILES: Final[Mapping[str, Manifest]] = {
    "vgpu-operator.yaml": Manifest(
        told="The chart with its default values: docs/install.md, Without Helm.",
        # HAMi's device plugin mounts folders of the host.
        pod_security="privileged",
    ),
    "cleanup.yaml": Manifest(
        told="What is run before vgpu-operator.yaml is deleted: docs/uninstall.md, Without Helm.",
        hooks=True,
    ),
    "kind/vgpu-operator.yaml": Manifest(
        told="The chart with manifests/kind/values.yaml, simulated cards: docs/kind.md.",
        values="manifests/kind/values.yaml",
        pod_security="restricted",
    ),
    "kind/node-agent.yaml": Manifest(
        told="The chart with manifests/kind/node-agent-values.yaml, the node agent: docs/kind.md.",
        values="manifests/kind/node-agent-values.yaml",
        # The agent mounts folders of the host.
        pod_security="privileged",
    ),
}
"""Every rendered file, by its path in ``manifests/``."""


def text(manifest: Manifest, client: helm.Helm) -> str:
    """Return what a file must hold."""
    documents = [
        document
        for document in _rendered(manifest, client)
        if ("helm.sh/hook:" in document) == manifest.hooks
    ]
    if manifest.pod_security:
        documents.insert(0, _namespace(manifest.pod_security))
    head = f"# {manifest.told}\n{WRITTEN_BY}"
    return head + "".join(f"---\n{_without_helm(document)}" for document in documents)


def _rendered(manifest: Manifest, client: helm.Helm) -> Iterator[str]:
    arguments = ["-f", str(ROOT / manifest.values)] if manifest.values else []
    answer = client.run(
        *("template", helm.RELEASE, str(helm.CHART), "--namespace", helm.NAMESPACE),
        *("--kube-version", helm.KUBERNETES, *arguments),
    )
    if answer.code != 0:
        raise SystemExit(f"helm template: {answer.complaint.strip()}")
    for document in _DOCUMENT.split(answer.out):
        if document.strip():
            yield document


def _without_helm(document: str) -> str:
    """Take out what would say that Helm keeps the object."""
    shorn = _LEFT_EMPTY.sub("", _OF_HELM_ALONE.sub("", document))
    return "\n".join(line for line in shorn.split("\n") if line.strip()) + "\n"


def _namespace(pod_security: str) -> str:
    return (
        "apiVersion: v1\n"
        "kind: Namespace\n"
        "metadata:\n"
        f"  name: {helm.NAMESPACE}\n"
        "  labels:\n"
        f"    pod-security.kubernetes.io/enforce: {pod_security}\n"
    )


def stale_files(client: helm.Helm) -> dict[Path, str]:
    """Return the files that are not what the chart makes, with what they should be."""
    return written_files.stale(
        {FOLDER / name: text(manifest, client) for name, manifest in FILES.items()}
    )


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit code."""
    return written_files.main(
        arguments,
        _stale_files,
        program="plain_manifests.py",
        command="make manifests",
        root=ROOT,
    )


def _stale_files() -> dict[Path, str]:
    with tempfile.TemporaryDirectory(prefix="vgpu-helm-") as home:
        return stale_files(helm.Helm(program=helm.build(report=print), home=Path(home)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
