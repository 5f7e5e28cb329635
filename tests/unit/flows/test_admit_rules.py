"""Which pods are left alone, refused, or changed, and how."""

import dataclasses
from typing import Any

import pytest

from support import json_patch
from support.pods import container, pod
from vgpu_operator.flows import admit
from vgpu_operator.model import settings
from vgpu_operator.vendors import base, registry

GPU_POD = pod(container(gpu=1, mem=1000))


def judge(raw: dict[str, Any], **values: Any) -> admit.Verdict:
    built = settings.build(values)
    return admit.admit(raw, settings=built, vendors=registry.build(built))


def admitted(raw: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Return the pod after admission, which must allow it and then change nothing more."""
    verdict = judge(raw, **values)
    assert verdict.allowed, verdict.message
    after: dict[str, Any] = json_patch.apply(raw, verdict.patch)
    assert judge(after, **values).patch == ()
    return after


def nvidia(**values: Any) -> dict[str, Any]:
    return {"vendors": {"nvidia": values}}


def env_of(raw: dict[str, Any], position: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = raw["spec"]["containers"][position].get("env", [])
    return found


# --- whose pod is it -------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "force", "expected"),
    [
        ("", True, "hami-scheduler"),
        ("", False, "hami-scheduler"),
        ("hami-scheduler", True, "hami-scheduler"),
        ("hami-scheduler", False, "hami-scheduler"),
        ("default-scheduler", True, "hami-scheduler"),
        ("default-scheduler", False, "default-scheduler"),
        ("volcano", True, "volcano"),
        ("volcano", False, "volcano"),
    ],
)
def test_case_117_the_scheduler_name_is_ours_unless_somebody_elses_was_chosen(
    scheduler: str, force: bool, expected: str
) -> None:
    raw = pod(container(mem=1000), schedulerName=scheduler)

    after = admitted(raw, forceOverwriteDefaultScheduler=force)

    assert after["spec"]["schedulerName"] == expected
    if expected != "hami-scheduler":
        assert after == raw


def test_the_scheduler_name_is_the_configured_one() -> None:
    after = admitted(GPU_POD, schedulerName="gpu-scheduler")

    assert after["spec"]["schedulerName"] == "gpu-scheduler"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pod(container()), id="a pod without resources"),
        pytest.param(
            pod(container() | {"resources": {"limits": {"cpu": "1"}}}), id="a pod with cpu only"
        ),
        pytest.param(
            pod(container() | {"securityContext": {"privileged": True}}),
            id="a privileged network agent",
        ),
        pytest.param(pod(container(), nodeName="node-a"), id="a pod with a node and no card"),
        pytest.param(pod(container(gpu=0)), id="a count of zero"),
        pytest.param(
            pod(container() | {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}),
            id="a resource of a MIG profile",
        ),
        pytest.param(
            pod(container(gpu=1), labels={"hami.io/webhook": "ignore"}), id="a pod that opts out"
        ),
        pytest.param(
            pod(
                container(gpu=1),
                annotations={"kubernetes.io/config.mirror": "abc"},
                nodeName="node-a",
            ),
            id="the copy of a static pod",
        ),
        pytest.param(
            pod(container(gpu="16Gi"), nodeName="node-a", schedulerName="volcano"),
            id="a pod of another scheduler, however odd",
        ),
        pytest.param(
            pod(container(), annotations={"hami.io/vgpu-node": "node-z"}),
            id="protocol keys on a pod without cards",
        ),
    ],
)
def test_pods_that_are_not_ours_stay_as_they_are(raw: dict[str, Any]) -> None:
    values = nvidia(overwriteEnv=True, gpuCorePolicy="force", runtimeClassName="nvidia")

    assert judge(raw, **values) == admit.Verdict(allowed=True)


def test_another_value_of_the_label_is_no_opt_out() -> None:
    raw = pod(container(gpu=1, mem=1000), labels={"hami.io/webhook": "on"})

    assert admitted(raw)["spec"]["schedulerName"] == "hami-scheduler"


# --- refusals --------------------------------------------------------------------


def test_case_119_a_privileged_sidecar_of_a_gpu_pod_is_refused_by_name() -> None:
    side = container("side") | {"securityContext": {"privileged": True}}

    verdict = judge(pod(container("app", gpu=1), side))

    assert (verdict.allowed, verdict.code, verdict.patch) == (False, 403, ())
    assert verdict.message == (
        "container side is privileged: it would reach every card of its node, past all limits; "
        "set its securityContext.privileged to false, or ask for no card in this pod"
    )


@pytest.mark.parametrize("field", ["initContainers", "ephemeralContainers"])
def test_case_119_every_kind_of_privileged_container_counts(field: str) -> None:
    raw = pod(container(gpu=1))
    raw["spec"][field] = [{"name": "debug", "securityContext": {"privileged": True}}]

    verdict = judge(raw)

    assert not verdict.allowed
    assert verdict.message.startswith("container debug is privileged")


def test_case_121_a_preset_node_is_refused_with_a_way_out() -> None:
    verdict = judge(pod(container(gpu=1, mem=1000), nodeName="node-a"))

    assert (verdict.allowed, verdict.code) == (False, 403)
    assert verdict.message == (
        "the pod has node 'node-a' assigned: hami-scheduler must place a pod that asks for a card, "
        "because it chooses the card; remove spec.nodeName and select the node by "
        "spec.nodeSelector or spec.affinity"
    )


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            {"gpu": 1, "mem": "16Gi"},
            "container main: nvidia.com/gpumem: '16Gi' is more than 2147483647; "
            "write MiB as a plain number without a suffix, such as 16384",
        ),
        (
            {"gpu": 1, "mem": -5},
            "container main: nvidia.com/gpumem: '-5' is negative; "
            "write MiB as a plain number without a suffix, such as 4000",
        ),
        (
            {"gpu": -1},
            "container main: nvidia.com/gpu: '-1' is negative; "
            "write how many cards the container needs, such as 1",
        ),
        (
            {"gpu": "4294967297"},
            "container main: nvidia.com/gpu: '4294967297' is more than 2147483647; "
            "write how many cards the container needs, such as 1",
        ),
        (
            {"gpu": 1, "percent": 150},
            "container main: nvidia.com/gpumem-percentage: '150' is more than 100; "
            "write an integer between 0 and 100",
        ),
        (
            {"gpu": 1, "percent": "4294967346"},
            "container main: nvidia.com/gpumem-percentage: '4294967346' is more than 100; "
            "write an integer between 0 and 100",
        ),
        (
            {"percent": -1},
            "container main: nvidia.com/gpumem-percentage: '-1' is negative; "
            "write an integer between 0 and 100",
        ),
        (
            {"gpu": 1, "cores": "1.5"},
            "container main: nvidia.com/gpucores: '1.5' is no whole number; "
            "write percent of one card as a whole number, 0 to 100",
        ),
        (
            {"gpu": 1, "cores": "4294967346"},
            "container main: nvidia.com/gpucores: '4294967346' is more than 2147483647; "
            "write percent of one card as a whole number, 0 to 100",
        ),
        (
            {"gpu": 1, "priority": "high"},
            "container main: nvidia.com/priority: 'high' is no whole number; "
            "write a whole number such as 0 or 1",
        ),
    ],
)
def test_nonsense_is_refused_in_one_sentence(limits: dict[str, object], sentence: str) -> None:
    verdict = judge(pod(container(**limits)))

    assert (verdict.allowed, verdict.code, verdict.message) == (False, 422, sentence)


def test_nonsense_in_an_init_container_names_that_container() -> None:
    verdict = judge(pod(container(gpu=1), init=(container("load", gpu=1, percent=101),)))

    assert verdict.message.startswith("container load: nvidia.com/gpumem-percentage: '101'")


def test_memory_counts_after_the_factor() -> None:
    raw = pod(container(gpu=1, mem=2097152))

    assert judge(raw).allowed
    assert not judge(raw, **nvidia(memoryFactor=1024)).allowed


# --- defaults --------------------------------------------------------------------


def test_case_129_every_container_gets_its_count_on_its_own_merits() -> None:
    raw = pod(
        container("a0", mem=1000),
        container("a1", cores=10),
        container("plain"),
        init=(container("i0", percent=50),),
    )

    after = admitted(raw)

    assert after["spec"]["initContainers"][0]["resources"]["limits"] == {
        "nvidia.com/gpumem-percentage": "50",
        "nvidia.com/gpu": "1",
    }
    assert after["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpumem": "1000",
        "nvidia.com/gpu": "1",
    }
    assert after["spec"]["containers"][1]["resources"]["limits"] == {
        "nvidia.com/gpucores": "10",
        "nvidia.com/gpu": "1",
    }
    assert "resources" not in after["spec"]["containers"][2]


def test_no_default_count_leaves_a_pod_without_a_count_alone() -> None:
    assert judge(pod(container(mem=1000)), **nvidia(defaultGPUNum=0)).patch == ()


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({"gpu": 1}, "100"),
        ({"gpu": 2, "percent": 100}, "100"),
        ({"percent": 100}, "100"),
        ({"gpu": 1, "percent": 99}, None),
        ({"gpu": 1, "mem": 1000}, None),
        ({"gpu": 1, "cores": 0}, "0"),
        ({"gpu": 1, "percent": 100, "cores": 30}, "30"),
    ],
)
def test_a_whole_card_gets_all_cores_unless_cores_are_named(
    limits: dict[str, object], cores: str | None
) -> None:
    after = admitted(pod(container(**limits)))

    found = after["spec"]["containers"][0]["resources"]["limits"]
    assert found.get("nvidia.com/gpucores") == cores


@pytest.mark.parametrize(
    ("resources", "limits", "requests"),
    [
        pytest.param(
            {"requests": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500"}},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500"},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500"},
            id="requests only",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpumem": "500"}},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500"},
            {"nvidia.com/gpumem": "500"},
            id="one in each",
        ),
        pytest.param(
            {"limits": None, "requests": {"nvidia.com/gpumem-percentage": "10"}},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "10"},
            {"nvidia.com/gpumem-percentage": "10"},
            id="limits that are null",
        ),
    ],
)
def test_case_123_a_value_in_requests_only_is_written_to_limits_too(
    resources: dict[str, Any], limits: dict[str, str], requests: dict[str, str]
) -> None:
    after = admitted(pod(container() | {"resources": resources}))

    assert after["spec"]["containers"][0]["resources"] == {"limits": limits, "requests": requests}


def test_cores_above_a_whole_card_are_kept_with_a_warning() -> None:
    verdict = judge(pod(container(gpu=1, mem=1000, cores=150)))

    assert verdict.allowed
    assert verdict.warnings == (
        "container main: nvidia.com/gpucores: 150 is more than one whole card; it counts as 100",
    )


def test_bytes_that_fit_into_32_bits_are_warned_about() -> None:
    verdict = judge(pod(container(gpu=1, mem="1Gi")))

    assert verdict.allowed
    assert verdict.warnings == (
        "container main: nvidia.com/gpumem: 1073741824 MiB on each card is more than any card "
        "has; write MiB, not bytes",
    )


# --- variables and the RuntimeClass ----------------------------------------------


def test_priority_becomes_a_variable() -> None:
    after = admitted(pod(container(gpu=1, mem=1, priority=1), container("plain")))

    assert env_of(after, 0) == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    assert env_of(after, 1) == []


def test_a_variable_that_the_container_sets_itself_stays() -> None:
    own = [{"name": "CUDA_TASK_PRIORITY", "value": "7"}, {"name": "A", "value": "b"}]

    after = admitted(pod(container(gpu=1, mem=1, priority=1) | {"env": own}))

    assert env_of(after, 0) == own


def test_a_core_policy_goes_to_every_container_behind_its_own_variables() -> None:
    raw = pod(container(gpu=1, mem=1) | {"env": [{"name": "A", "value": "b"}]}, container("plain"))

    after = admitted(raw, **nvidia(gpuCorePolicy="force"))

    policy = {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"}
    assert env_of(after, 0) == [{"name": "A", "value": "b"}, policy]
    assert env_of(after, 1) == [policy]


def test_only_containers_without_cards_lose_sight_of_them() -> None:
    raw = pod(container(gpu=1, mem=1), container("helper"))

    after = admitted(raw, **nvidia(overwriteEnv=True))

    assert env_of(after, 0) == []
    assert env_of(after, 1) == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]


@pytest.mark.parametrize(("own", "expected"), [(None, "nvidia"), ("other", "other")])
def test_the_runtime_class_is_set_where_the_pod_names_none(own: str | None, expected: str) -> None:
    raw = pod(container(gpu=1, mem=1))
    if own:
        raw["spec"]["runtimeClassName"] = own

    after = admitted(raw, **nvidia(runtimeClassName="nvidia"))

    assert after["spec"]["runtimeClassName"] == expected


class OtherVendor:
    """Asks whenever ``other.com/card`` is set; has nothing to change."""

    spec = dataclasses.replace(
        registry.build(settings.Settings())[0].spec, keyword="OTHER", more_pod_keys=("other.com/x",)
    )

    def admit(self, raw: dict[str, Any], _pod: object) -> base.ContainerChanges:
        limits = raw.get("resources", {}).get("limits", {})
        return base.ContainerChanges(
            asks="other.com/card" in limits, annotations={"other.com/seen": "yes"}
        )


def test_vendors_share_a_pod_without_touching_each_others_containers() -> None:
    built = settings.build(nvidia(overwriteEnv=True, gpuCorePolicy="force"))
    vendors = (*registry.build(built), OtherVendor())
    other = container("other") | {"resources": {"limits": {"other.com/card": "1"}}}

    raw = pod(other, container("helper"), annotations={"other.com/x": "old"})
    verdict = admit.admit(raw, settings=built, vendors=vendors)  # type: ignore[arg-type]
    after = json_patch.apply(raw, verdict.patch)

    # No container asks NVIDIA, so its policy stays out; the other vendor's container keeps
    # its view, the helper loses the one on NVIDIA's cards.
    assert env_of(after, 0) == []
    assert env_of(after, 1) == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert after["metadata"]["annotations"] == {"other.com/seen": "yes"}


# --- the patch -------------------------------------------------------------------


def test_protocol_keys_of_a_copied_manifest_go_and_the_users_stay() -> None:
    raw = pod(
        container(gpu=1, mem=1),
        annotations={
            "hami.io/vgpu-node": "node-z",
            "hami.io/vgpu-time": "1",
            "hami.io/bind-time": "1",
            "hami.io/bind-phase": "success",
            "hami.io/vgpu-devices-to-allocate": ";",
            "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,1,1:;",
            "hami.io/vgpu-mig-allocations": "[]",
            "vgpu-operator.io/nomination": "{}",
            "hami.io/gpu-scheduler-policy": "binpack",
            "nvidia.com/use-gputype": "A10",
            "team/a~b": "kept",
        },
        labels={"hami.io/vgpu-node": "node-z", "app": "train"},
    )

    after = admitted(raw)

    assert after["metadata"]["annotations"] == {
        "hami.io/gpu-scheduler-policy": "binpack",
        "nvidia.com/use-gputype": "A10",
        "team/a~b": "kept",
    }
    assert after["metadata"]["labels"] == {"app": "train"}


def test_the_patch_names_exactly_what_changes() -> None:
    raw = pod(container(mem=1000), labels={"hami.io/vgpu-node": "node-z"})

    assert judge(raw).patch == (
        {"op": "remove", "path": "/metadata/labels/hami.io~1vgpu-node"},
        {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"},
        {"op": "add", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": "1"},
    )


def test_a_pod_that_is_already_right_gets_no_patch() -> None:
    raw = pod(container(gpu=1, mem=1000), schedulerName="hami-scheduler")

    assert judge(raw) == admit.Verdict(allowed=True)
