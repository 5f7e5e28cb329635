"""Values that cannot be meant are refused with their path, before anything is installed."""

import json
from typing import Any

import chart_files
import pytest
import yaml

from support.helm import CHART, Helm, one


@pytest.mark.parametrize(
    ("values", "where"),
    [
        pytest.param({"schedulr": {}}, "'schedulr' not allowed", id="a misspelt name"),
        pytest.param(
            {"scheduler": {"replica": 2}},
            "at '/scheduler': additional properties 'replica'",
            id="a misspelt name in a group",
        ),
        pytest.param({"scheduler": {"replicas": 0}}, "at '/scheduler/replicas'", id="too few"),
        pytest.param({"scheduler": {"replicas": "2"}}, "at '/scheduler/replicas'", id="a text"),
        pytest.param({"resourceName": "gpu"}, "at '/resourceName'", id="no domain"),
        pytest.param({"mluResourceName": ""}, "at '/mluResourceName'", id="empty"),
        pytest.param(
            {"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "pack"}}},
            "at '/scheduler/defaultSchedulerPolicy/nodeSchedulerPolicy'",
            id="an unknown policy",
        ),
        pytest.param(
            {"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulerPolicy": "mutex,pack"}}},
            "at '/scheduler/defaultSchedulerPolicy/gpuSchedulerPolicy'",
            id="an unknown word in a chain of policies",
        ),
        pytest.param(
            {"device-config": {"overrides": {"biren": {"enabled": False}}}},
            "at '/device-config/overrides/biren': additional properties 'enabled'",
            id="a switch in the device configuration, where HAMi has none",
        ),
        pytest.param(
            {"scheduler": {"admissionWebhook": {"failurePolicy": "Open"}}},
            "at '/scheduler/admissionWebhook/failurePolicy'",
            id="an unknown choice",
        ),
        pytest.param(
            "devicePlugin: {nvidiaNodeSelector: {gpu: on}}",
            "at '/devicePlugin/nvidiaNodeSelector/gpu': got boolean",
            id="a label without quotes",
        ),
        pytest.param(
            {"settings": {"bind": {"stuckAfterS": -1}}},
            "at '/settings/bind/stuckAfterS'",
            id="a setting out of its range",
        ),
        pytest.param(
            {"settings": {"vendors": {}}},
            "at '/settings': additional properties 'vendors'",
            id="a setting that has its own value elsewhere",
        ),
        pytest.param(
            {"device-config": {"overrides": {"nvidia": {"memoryFaktor": 2}}}},
            "at '/device-config/overrides/nvidia': additional properties 'memoryFaktor'",
            id="an unknown field of the device configuration",
        ),
        pytest.param(
            {"scheduler": {"kubeScheduler": {"enabled": False}}},
            "scheduler.kubeScheduler.enabled must be true",
            id="no kube-scheduler to ask the extender",
        ),
        pytest.param(
            {"agent": {"backend": "amd"}}, "at '/agent/backend'", id="an unknown back end"
        ),
        pytest.param(
            {"agent": {"pluginPath": "device-plugins"}},
            "at '/agent/pluginPath'",
            id="a path that begins nowhere",
        ),
        pytest.param(
            {"agent": {"failures": {"slowly": 1}}},
            "at '/agent/failures': additional properties 'slowly'",
            id="an unknown failure",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(
    helm: Helm, values: dict[str, Any] | str, where: str
) -> None:
    assert where in helm.refusal(values)


def test_a_default_of_a_map_stays_beside_what_is_given(helm: Helm) -> None:
    objects = helm.template({"devicePlugin": {"nvidiaNodeSelector": {"gpu-vendor": "NVIDIA"}}})

    pod = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "on", "gpu-vendor": "NVIDIA"}


@pytest.mark.parametrize("label", ["gpu-vendor", "gpu-plugin"])
def test_null_takes_a_default_of_a_map_away(helm: Helm, label: str) -> None:
    selector = {"gpu": None, label: "NVIDIA"}
    objects = helm.template({"devicePlugin": {"nvidiaNodeSelector": selector}})

    pod = one(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {label: "NVIDIA"}


def test_single_fields_of_the_device_configuration_can_be_set(helm: Helm) -> None:
    objects = helm.template(
        {"device-config": {"overrides": {"nvidia": {"defaultMemory": 4000, "defaultCores": 10}}}}
    )

    text = one(objects, "ConfigMap", "-device")["data"]["device-config.yaml"]
    nvidia = yaml.safe_load(text)["nvidia"]
    assert (nvidia["defaultMemory"], nvidia["defaultCores"]) == (4000, 10)
    assert nvidia["resourceCountName"] == "nvidia.com/gpu"


def test_every_value_that_is_not_ignored_has_a_meaning_and_stands_in_the_file() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    for path, field, meaning in chart_files.all_fields():
        at: Any = defaults
        for part in path.split("."):
            at = at.get(part, "absent") if isinstance(at, dict) else "absent"
        if chart_files.why_ignored(field):
            assert at == "absent", path
        else:
            assert at != "absent", path
            assert meaning or ".image." in path, path


def test_generated_files_follow_from_the_models() -> None:
    for path, text in chart_files.texts().items():
        assert path.read_text() == text, f"{path}: run make docs"


def test_the_schema_refuses_unknown_names_in_every_group() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def groups(node: Any, path: str) -> Any:
        if "properties" in node:
            yield path, node
            for name, inner in node["properties"].items():
                yield from groups(inner, f"{path}.{name}")

    found = dict(groups(schema, ""))
    assert len(found) > 40
    open_groups = [
        path for path, node in found.items() if node["additionalProperties"] is not False
    ]
    assert open_groups == []
