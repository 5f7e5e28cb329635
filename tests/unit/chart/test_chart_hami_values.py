"""HAMi's values files install as they are, and mean here what they mean there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import Helm, one
from vgpu_operator.cli import run as cli_run
from vgpu_operator.flows import books
from vgpu_operator.model import device_config
from vgpu_operator.vendors import registry

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
DEFAULTS: dict[str, Any] = yaml.safe_load((GOLDEN / "hami-values.yaml").read_text())
DEVICE_CONFIG = (GOLDEN / "hami-device-config.yaml").read_text()

MANAGED_BY_HAMI = {
    *("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"),
    *("nvidia.com/gpumem-percentage", "nvidia.com/priority"),
    "cambricon.com/vmlu",
    *("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    *("metax-tech.com/gpu", "metax-tech.com/sgpu", "metax-tech.com/vcore"),
    *("metax-tech.com/vmemory", "mthreads.com/vgpu"),
    *("enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"),
    *("enflame.com/gcu", "kunlunxin.com/xpu", "kunlunxin.com/vxpu"),
    *("kunlunxin.com/vxpu-memory", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"),
    *("vastaitech.com/va", "birentech.com/gpu"),
    *("amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"),
}
"""What HAMi's chart v2.10.0 renders with its defaults."""

READ_AND_NOT_LISTED_BY_HAMI = {
    *("cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    *("mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
}
"""Its scheduler counts these too; kube-scheduler must not."""


def altered(**changes: Any) -> dict[str, Any]:
    """Return HAMi's values with some changed, each path's parts joined by ``__``."""
    values: dict[str, Any] = yaml.safe_load((GOLDEN / "hami-values.yaml").read_text())
    for path, value in changes.items():
        *groups, last = path.split("__")
        at = values
        for group in groups:
            at = at[group]
        at[last] = value
    return values


def managed(objects: list[dict[str, Any]]) -> list[str]:
    text = one(objects, "ConfigMap", "-scheduler")["data"]["config.yaml"]
    (extender,) = yaml.safe_load(text)["extenders"]
    assert all(item["ignoredByScheduler"] for item in extender["managedResources"])
    return [item["name"] for item in extender["managedResources"]]


def operator_settings(objects: list[dict[str, Any]], folder: Path) -> Any:
    """Read both files as the operator does at its start."""
    settings = folder / "settings.yaml"
    settings.write_text(one(objects, "ConfigMap", "-scheduler")["data"]["settings.yaml"])
    devices = folder / "device-config.yaml"
    devices.write_text(one(objects, "ConfigMap", "-device")["data"]["device-config.yaml"])
    return cli_run.load_settings(settings, device_config=devices)


RENAMED = altered(
    resourceName="example.com/vgpu",
    resourceMem="example.com/vgpumem",
    resourcePriority="",
    dcuResourceName="example.com/dcu",
    enflameResourceNameDRSGCU="example.com/slice",
)
SELECTED = altered(
    devicePlugin__nvidiaNodeSelector={"gpu": None, "gpu-vendor": "NVIDIA"},
    scheduler__tolerations=[{"operator": "Exists"}],
    scheduler__admissionWebhook__whitelistNamespaces=["kube-system"],
)
POLICIES = altered(
    scheduler__defaultSchedulerPolicy={
        "nodeSchedulerPolicy": "spread",
        "gpuSchedulerPolicy": "topology-aware",
    },
    scheduler__overwriteEnv="true",
    devices__ascend__enabled=True,
    devices__iluvatar__enabled=True,
    devicePlugin__deviceSplitCount=4,
)
OFF = altered(devices__biren__enabled=False, devices__enflame__enabled=False)
WHOLE_CONTENT: dict[str, Any] = altered()
WHOLE_CONTENT["device-config"] = {"content": DEVICE_CONFIG.replace("nvidia.com/", "example.com/")}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(DEFAULTS, id="defaults"),
        pytest.param(RENAMED, id="renamed resources"),
        pytest.param(SELECTED, id="label selectors"),
        pytest.param(POLICIES, id="policies"),
        pytest.param(OFF, id="vendors switched off"),
        pytest.param(WHOLE_CONTENT, id="device-config.content"),
        pytest.param({}, id="no values at all"),
    ],
)
def test_case_180_every_name_of_a_resource_comes_from_one_place(
    helm: Helm, values: dict[str, Any], tmp_path: Path
) -> None:
    objects = helm.template(values)
    settings = operator_settings(objects, tmp_path)

    counted_by_the_operator = {
        name for vendor in registry.build(settings) for name in vendor.spec.resources if name
    }
    names = managed(objects)
    assert set(names) == counted_by_the_operator
    assert len(names) == len(set(names))


def test_the_defaults_of_hami_manage_what_its_scheduler_counts(helm: Helm) -> None:
    names = managed(helm.template(DEFAULTS))

    assert set(names) == MANAGED_BY_HAMI | READ_AND_NOT_LISTED_BY_HAMI


def test_the_device_configuration_of_hamis_defaults_is_hamis(helm: Helm) -> None:
    text = one(helm.template(DEFAULTS), "ConfigMap", "-device")["data"]["device-config.yaml"]

    assert device_config.decode(text) == device_config.decode(DEVICE_CONFIG)


def test_a_renamed_resource_reaches_everybody_who_reads_names(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template(RENAMED)
    settings = operator_settings(objects, tmp_path)

    assert "example.com/vgpu" in managed(objects)
    assert "nvidia.com/gpu" not in managed(objects)
    assert "nvidia.com/priority" not in managed(objects)
    assert settings.vendors.nvidia.resource_count_name == "example.com/vgpu"
    assert settings.vendors.nvidia.resource_priority_name == ""
    assert settings.vendors.enflame.slices_resource == "example.com/slice"


def test_policies_and_switches_reach_the_operator(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template(POLICIES)
    settings = operator_settings(objects, tmp_path)

    assert settings.default_scheduler_policy.node_scheduler_policy == "spread"
    assert settings.default_scheduler_policy.gpu_scheduler_policy == "topology-aware"
    assert settings.vendors.nvidia.overwrite_env is True
    assert {"huawei.com/Ascend910B3", "iluvatar.ai/MR-V50-vgpu"} <= set(managed(objects))
    plugin = one(objects, "DaemonSet", "-device-plugin")["spec"]["template"]["spec"]
    environment = {item["name"]: item.get("value") for item in plugin["containers"][0]["env"]}
    assert environment["ENABLE_TOPOLOGY_SCORE"] == "true"
    text = one(objects, "ConfigMap", "-device")["data"]["device-config.yaml"]
    assert yaml.safe_load(text)["nvidia"]["deviceSplitCount"] == 4


@pytest.mark.parametrize("text", ["mutex,binpack", "numa, spread"])
def test_a_chain_of_policies_reaches_the_operator(helm: Helm, tmp_path: Path, text: str) -> None:
    values = altered(scheduler__defaultSchedulerPolicy__gpuSchedulerPolicy=text)

    settings = operator_settings(helm.template(values), tmp_path)

    known = books.open_books(settings, registry.build(settings)).defaults
    assert known.card_policies == tuple(word.strip() for word in text.split(","))


def test_a_whole_device_configuration_stands_as_it_is(helm: Helm) -> None:
    objects = helm.template(WHOLE_CONTENT)

    text = one(objects, "ConfigMap", "-device")["data"]["device-config.yaml"]
    assert text.strip() == WHOLE_CONTENT["device-config"]["content"].strip()
    assert "example.com/gpu" in managed(objects)
    assert "nvidia.com/gpu" not in managed(objects)


@pytest.mark.parametrize(
    ("content", "gone"),
    [
        pytest.param(
            'nvidia: {resourcePriorityName: ""}', "nvidia.com/priority", id="switched off"
        ),
        pytest.param("kunlun: {resourceCountName: a.com/x}", "kunlunxin.com/xpu", id="renamed"),
        pytest.param("vnpus: []", "huawei.com/Ascend910A", id="the older form of a list of chips"),
    ],
)
def test_a_device_configuration_that_names_little_lies_over_the_defaults(
    helm: Helm, content: str, gone: str, tmp_path: Path
) -> None:
    objects = helm.template(
        {"device-config": {"content": content}, "devices": {"ascend": {"enabled": True}}}
    )

    assert gone not in managed(objects)
    assert "mthreads.com/vgpu" in managed(objects)
    settings = operator_settings(objects, tmp_path)
    counted = {n for vendor in registry.build(settings) for n in vendor.spec.resources if n}
    assert set(managed(objects)) == counted


def test_a_vendor_that_is_off_is_left_to_kube_scheduler_as_in_hami(helm: Helm) -> None:
    names = managed(helm.template({"devices": {"kunlun": {"enabled": False}}}))

    assert not [name for name in names if name.startswith("kunlunxin.com/")]


def test_case_173_a_name_that_stands_for_two_things_is_refused(helm: Helm) -> None:
    complaint = helm.refusal({"resourceMem": "nvidia.com/gpu"})

    assert "names nvidia.com/gpu twice, at nvidia.resourceCountName" in complaint
    assert "give each resource a name of its own" in complaint


def test_images_of_hamis_scheduler_are_not_run(helm: Helm) -> None:
    pod = one(helm.template(DEFAULTS), "Deployment", "-scheduler")["spec"]["template"]["spec"]

    images = {container["name"]: container["image"] for container in pod["containers"]}
    assert images["vgpu-operator"] == "vgpu-operator:0.1.0"
    assert images["kube-scheduler"] == (
        "registry.cn-hangzhou.aliyuncs.com/google_containers/kube-scheduler:v1.36.3"
    )
