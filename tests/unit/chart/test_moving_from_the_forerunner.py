"""The page about k8s-vgpu-scheduler: its values install, and what it names is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import ROOT, Helm, one
from vgpu_operator.cli import run as cli_run
from vgpu_operator.wire import dialects

PAGE = (ROOT / "docs" / "migrate-from-k8s-vgpu-scheduler.md").read_text()
(VALUES,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def objects(helm: Helm) -> list[dict[str, Any]]:
    values = helm.home / "page.yaml"
    values.write_text(VALUES)
    done = helm.run(
        *("template", "vgpu-operator", str(ROOT / "helm" / "vgpu-operator")),
        *("--namespace", "vgpu-system", "--kube-version", "v1.36.0", "--values", str(values)),
    )
    assert done.code == 0, done.complaint
    return [item for item in yaml.safe_load_all(done.out) if item]


def test_pods_that_name_the_old_scheduler_are_ours(
    objects: list[dict[str, Any]], tmp_path: Path
) -> None:
    data = one(objects, "ConfigMap", "-scheduler")["data"]
    (profile,) = yaml.safe_load(data["config.yaml"])["profiles"]
    settings = tmp_path / "settings.yaml"
    settings.write_text(data["settings.yaml"])

    assert profile["schedulerName"] == "4pd-scheduler"
    known = cli_run.load_settings(settings)
    assert known.scheduler_name == "4pd-scheduler"
    assert known.resource_aliases["cambricon.com/mlu.smlu.vmemory"] == ("cambricon.com/mlumem",)


def test_todays_plugin_goes_to_no_node_that_has_the_forerunners(
    objects: list[dict[str, Any]],
) -> None:
    (plugin,) = [item for item in objects if item["kind"] == "DaemonSet"]

    assert plugin["spec"]["template"]["spec"]["nodeSelector"] == {"gpu-plugin": "hami"}
    assert "kubectl label node gpu-1 gpu- gpu-plugin=hami" in PAGE


def test_what_the_page_names_is_installed(objects: list[dict[str, Any]]) -> None:
    installed = {(item["kind"], item["metadata"]["name"]) for item in objects}

    named = set(re.findall(r"(?:deploy|deployment)/(vgpu-operator-[a-z-]+)", PAGE))
    assert named == {"vgpu-operator-scheduler"}
    assert ("Deployment", "vgpu-operator-scheduler") in installed
    assert ("MutatingWebhookConfiguration", "vgpu-operator-webhook") in installed
    assert "`vgpu-operator-webhook`" in PAGE


def test_every_key_of_the_forerunner_that_the_page_names_is_one() -> None:
    spoken = dialects.FORERUNNER
    known = {key for key in vars(dialects).values() if isinstance(key, str)}
    known |= {spoken.assigned_node, spoken.bind_phase}
    known |= {str(spoken.allocated), str(spoken.lock_key)}
    known |= {
        key
        for older in spoken.node_keys.values()
        for keys in older
        for key in (keys.register, keys.handshake)
    }

    named = set(re.findall(r"4pd\.io/[a-z.-]*[a-z]", PAGE))
    assert len(named) == 6
    assert named <= known
