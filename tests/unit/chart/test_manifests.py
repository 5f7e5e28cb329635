"""``manifests/``: plain YAML that is what the chart makes, without Helm's own marks."""

import re
import subprocess
from typing import Any

import plain_manifests
import pytest
import yaml

from support.helm import CHART, ROOT, Helm

PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("install", "uninstall")}

COMMAND = re.compile(r"^(sed (?:.*\\\n)*.*) \| kubectl apply -f -$", re.MULTILINE)


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "manifests" / name).read_text()))


def identity(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def test_every_file_is_what_the_chart_makes_now(helm: Helm) -> None:
    stale = [str(path.relative_to(ROOT)) for path in plain_manifests.stale_files(helm)]

    assert stale == [], "run make manifests"


def test_both_files_together_hold_every_object_of_a_release_and_the_namespace(helm: Helm) -> None:
    release = {identity(item): item for item in helm.template()}

    plain = {
        identity(item): item for item in [*objects("vgpu-operator.yaml"), *objects("cleanup.yaml")]
    }

    assert plain.pop(("Namespace", "vgpu-system"))
    assert plain.keys() == release.keys()
    for key, item in release.items():
        apart = ("metadata",)
        assert {name: part for name, part in plain[key].items() if name not in apart} == {
            name: part for name, part in item.items() if name not in apart
        }


@pytest.mark.parametrize("name", plain_manifests.FILES)
def test_nothing_says_that_helm_keeps_it(name: str) -> None:
    text = (ROOT / "manifests" / name).read_text()

    assert "helm.sh" not in text
    assert "managed-by" not in text
    assert "hook" not in re.sub("webhook", "", text, flags=re.IGNORECASE)


@pytest.mark.parametrize(
    ("name", "pod_security"),
    [
        ("vgpu-operator.yaml", "privileged"),
        ("kind/vgpu-operator.yaml", "restricted"),
        ("kind/node-agent.yaml", "privileged"),
    ],
)
def test_the_namespace_comes_first_and_enforces_what_its_pods_need(
    name: str, pod_security: str
) -> None:
    first = objects(name)[0]

    assert identity(first) == ("Namespace", "vgpu-system")
    assert first["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": pod_security}


@pytest.mark.parametrize("page", PAGES)
def test_the_command_of_a_page_names_a_registry_and_the_kube_scheduler_of_the_cluster(
    page: str,
) -> None:
    (command,) = COMMAND.findall(PAGES[page])

    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )

    images = set(re.findall(r"image: (\S+)", done.stdout))
    ours = f"registry.example.com/vgpu-operator:{_version()}"
    others = {image for image in images if "vgpu-operator" not in image}
    assert images - others == {ours}
    assert not others or "registry.k8s.io/kube-scheduler:v1.35.4" in others


def _version() -> str:
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"])
