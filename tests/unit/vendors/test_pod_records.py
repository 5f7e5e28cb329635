"""What is kept of a Pod."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.pods import container, pod
from vgpu_operator.model import allocation, records, request, settings
from vgpu_operator.vendors import records as readers
from vgpu_operator.vendors import registry

VENDORS = registry.build(settings.Settings())


def record_of(raw: dict[str, Any]) -> records.PodRecord:
    return readers.pod_record(raw, VENDORS, aliases={})


def share(memory_mib: int) -> allocation.DeviceShare:
    return allocation.DeviceShare(
        device_id="GPU-a0", vendor_word="NVIDIA", memory_mib=memory_mib, cores_percent=0
    )


def test_a_plain_pod_has_a_plain_record() -> None:
    raw = pod(container(), nodeName="node-a", schedulerName="default-scheduler")
    raw["metadata"]["resourceVersion"] = "5"

    key = request.PodKey(namespace="team-a", name="p1", uid="u1")
    assert record_of(raw) == records.PodRecord(
        key=key,
        resource_version="5",
        node="node-a",
        phase="",
        scheduler="default-scheduler",
        request=request.PodRequest(
            pod=key,
            containers=(request.ContainerRequest(name="main", kind=request.ContainerKind.APP),),
        ),
    )


def test_a_placed_pod_keeps_its_promise() -> None:
    raw = pod(
        container("side"),
        container("main", gpu=1, mem=2000),
        annotations={
            "hami.io/vgpu-node": "node-a",
            "hami.io/vgpu-devices-allocated": ";GPU-a0,NVIDIA,2000,0:;",
            "hami.io/vgpu-devices-to-allocate": ";GPU-a0,NVIDIA,2000,0:;",
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1705054796",
        },
        nodeName="node-a",
        status={"phase": "Pending", "startTime": "2026-01-15T10:00:00Z"},
    )
    raw["metadata"]["deletionTimestamp"] = "2026-01-15T10:00:00Z"

    record = record_of(raw)

    assert record.promised == {"NVIDIA": ((), (share(2000),))}
    assert record.promised_node == "node-a"
    assert record.to_allocate == {"NVIDIA"}
    assert record.bind_phase is records.BindPhase.ALLOCATING
    assert record.bind_time_s == 1705054796
    assert (record.phase, record.admitted, record.deleting) == ("Pending", True, True)
    assert record.leaves_by == datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
    assert record.faults == {}


@pytest.mark.parametrize("text", ["", ";", ";;;"])
def test_an_emptied_work_list_waits_for_nobody(text: str) -> None:
    raw = pod(container(gpu=1), annotations={"hami.io/vgpu-devices-to-allocate": text})

    assert record_of(raw).to_allocate == frozenset()


def test_an_unreadable_entry_is_a_fault_and_the_rest_stays() -> None:
    raw = pod(
        container(gpu=2, mem=1),
        annotations={
            "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,5,0:GPU-a1,NVIDIA,abc,0:;",
            "hami.io/bind-phase": "Done",
            "hami.io/bind-time": "yesterday",
        },
    )

    record = record_of(raw)

    assert record.promised == {"NVIDIA": ((share(5),),)}
    assert record.faults["NVIDIA"].key == "hami.io/vgpu-devices-allocated"
    assert record.faults["NVIDIA"].segment == 0
    assert (record.bind_phase, record.bind_time_s) == (None, None)


def test_bad_weights_make_the_request_impossible_and_keep_its_cards() -> None:
    raw = pod(
        container("side"),
        container("main", gpu=1, mem=2000),
        annotations={"hami.io/device-scoring-weights": "slot"},
    )

    wish = record_of(raw).request

    assert wish.impossible.startswith("annotation hami.io/device-scoring-weights: 'slot'")
    assert wish.containers[0].impossible == ""
    assert wish.containers[1].of("NVIDIA") == request.DeviceRequest(
        vendor="NVIDIA", count=1, memory_mib=2000
    )


def ended(name: str, code: int) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code}}}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        pytest.param([], False, id="not started"),
        pytest.param([ended("i0", 0)], False, id="one of two"),
        pytest.param([ended("i0", 0), {"name": "i1", "state": {"running": {}}}], False, id="runs"),
        pytest.param([ended("i0", 0), ended("i1", 1)], False, id="failed"),
        pytest.param([ended("i0", 0), ended("i1", 0)], True, id="both ended well"),
    ],
)
def test_init_is_done_when_every_ordinary_init_container_ended_well(
    statuses: list[dict[str, Any]], expected: bool
) -> None:
    side = container("side") | {"restartPolicy": "Always"}
    raw = pod(
        container(),
        init=(side, container("i0"), container("i1")),
        status={"initContainerStatuses": statuses},
    )

    assert record_of(raw).init_done is expected


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({"scheduling.x-k8s.io/pod-group": "g1"}, {}, "g1"),
        ({}, {"schedulingGroup": {"podGroupName": "g2"}}, "g2"),
        ({}, {}, ""),
    ],
)
def test_the_pod_group_comes_from_label_or_spec(
    labels: dict[str, str], spec: dict[str, Any], expected: str
) -> None:
    assert record_of(pod(container(), labels=labels, **spec)).group == expected


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"persistentVolumeClaim": {"claimName": "data"}}, True),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, True),
        ({"emptyDir": {}}, False),
    ],
)
def test_only_claims_make_binding_slow(volume: dict[str, Any], expected: bool) -> None:
    assert record_of(pod(container(), volumes=[volume])).has_volumes is expected


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "Unschedulable", True),
        ("False", "SchedulingGated", False),
        ("True", "", False),
    ],
)
def test_a_pod_is_refused_when_the_scheduler_says_unschedulable(
    status: str, reason: str, expected: bool
) -> None:
    condition = {"type": "PodScheduled", "status": status, "reason": reason}

    record = record_of(pod(container(), status={"conditions": [condition]}))

    assert record.refused is expected


def test_what_only_the_protocol_writes_is_noted_by_key_unless_it_is_blank() -> None:
    raw = pod(
        container(gpu=1),
        annotations={
            "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,1000,0:;",
            "hami.io/vgpu-devices-to-allocate": "",
            "team-a/own": "kept",
        },
    )

    assert record_of(raw).carried == {"hami.io/vgpu-devices-allocated"}


def test_the_fence_and_the_opt_out_are_noted() -> None:
    raw = pod(
        container(gpu=1),
        annotations={"vgpu-operator.io/fenced": "2026-01-15T10:00:00+00:00"},
        labels={"hami.io/webhook": "ignore"},
    )

    found = record_of(raw)

    assert (found.fenced, found.opted_out) == ("2026-01-15T10:00:00+00:00", True)
    assert not record_of(pod(container(gpu=1))).opted_out


def test_what_preemption_decides_on_is_kept() -> None:
    raw = pod(
        container(gpu=1),
        labels={"app": "trainer", "team": "a"},
        priority=1000000,
        priorityClassName="batch",
        preemptionPolicy="Never",
        status={"startTime": "2026-01-15T10:00:00Z", "nominatedNodeName": "node-a"},
    )

    found = record_of(raw)

    assert (found.priority, found.priority_class, found.never_preempts) == (1000000, "batch", True)
    assert found.labels == {"app": "trainer", "team": "a"}
    assert found.started == datetime(2026, 1, 15, 10, 0, tzinfo=UTC)
    assert found.nominated_node == "node-a"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"priority": None, "priorityClassName": None, "preemptionPolicy": None},
        {"priority": "1000", "priorityClassName": 7, "preemptionPolicy": ["Never"]},
        {"priority": True},
        {"priority": 2**31},
        {"priority": -(2**31) - 1},
        {"priority": 1.5, "preemptionPolicy": "PreemptLowerPriority"},
    ],
)
def test_a_priority_that_is_none_is_zero(spec: dict[str, Any]) -> None:
    raw = pod(container(gpu=1), **spec, status={"startTime": 5, "nominatedNodeName": 5})

    found = record_of(raw)

    assert (found.priority, found.priority_class, found.never_preempts) == (0, "", False)
    assert (found.started, found.nominated_node, found.labels) == (None, "", {})


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2000001000, 2**31 - 1])
def test_every_priority_of_32_bits_is_kept(priority: int) -> None:
    assert record_of(pod(container(gpu=1), priority=priority)).priority == priority


def test_equal_labels_of_pods_with_devices_are_one_object() -> None:
    """50,000 pods come from few templates; our own label would make them differ by node."""

    def labels_of(node: str, *resources: str) -> Any:
        raw = pod(
            container(**dict.fromkeys(resources, 1)),
            labels={"app": "trainer", "hami.io/vgpu-node": node, "team": "a"},
        )
        return record_of(raw).labels

    assert labels_of("node-a", "gpu") is labels_of("node-b", "gpu")
    assert labels_of("node-a", "gpu") == {"app": "trainer", "team": "a"}
    assert labels_of("node-a") == {}


def test_labels_that_are_no_texts_cost_only_themselves() -> None:
    raw = pod(container(gpu=1))
    raw["metadata"]["labels"] = {"app": "trainer", "list": ["a"], "number": 7}

    assert record_of(raw).labels == {"app": "trainer"}


def test_labels_cannot_be_changed_by_whoever_reads_them() -> None:
    labels = record_of(pod(container(gpu=1), labels={"app": "trainer"})).labels

    with pytest.raises(TypeError):
        labels["app"] = "other"  # type: ignore[index]


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([], False),
        (None, False),
    ],
)
def test_a_pod_is_ready_where_its_condition_says_so(conditions: Any, ready: bool) -> None:
    assert record_of(pod(container(gpu=1), status={"conditions": conditions})).ready is ready
