"""What is kept of a Node."""

from vgpu_operator.model import records, settings
from vgpu_operator.vendors import records as readers
from vgpu_operator.vendors import registry

VENDORS = registry.build(settings.Settings())


def test_a_node_keeps_texts_and_counts_by_vendor() -> None:
    raw = {
        "metadata": {
            "name": "node-a",
            "uid": "n1",
            "resourceVersion": "7",
            "annotations": {
                "hami.io/node-nvidia-register": "[]",
                "hami.io/node-handshake": "Requesting_2026-01-15 10:00:00",
                "hami.io/mutex.lock": "2026-01-15T10:00:00Z,team-a,p1",
                "hami.io/device-cordon": " GPU-a0, ,GPU-a1,",
                "vgpu-operator.io/wake": "3",
                "volcano.sh/node-vgpu-register": "ignored",
            },
        },
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "20"}},
    }

    assert readers.node_record(raw, VENDORS) == records.NodeRecord(
        name="node-a",
        uid="n1",
        resource_version="7",
        registers={"NVIDIA": "[]"},
        handshakes={"NVIDIA": "Requesting_2026-01-15 10:00:00"},
        allocatable={"NVIDIA": 20},
        locks={"hami.io/mutex.lock": "2026-01-15T10:00:00Z,team-a,p1"},
        cordoned=frozenset({"GPU-a0", "GPU-a1"}),
        woken="3",
    )


def test_nothing_on_a_node_is_nothing_in_its_record() -> None:
    raw = {"metadata": {"name": "node-a", "uid": "n1", "resourceVersion": "7"}}

    assert readers.node_record(raw, VENDORS) == records.NodeRecord(
        name="node-a", uid="n1", resource_version="7"
    )


def test_an_empty_annotation_and_a_count_of_zero_are_kept_apart_from_absent_ones() -> None:
    raw = {
        "metadata": {"name": "node-a", "annotations": {"hami.io/node-handshake": ""}},
        "status": {"allocatable": {"nvidia.com/gpu": "0"}},
    }

    record = readers.node_record(raw, VENDORS)

    assert record.handshakes == {"NVIDIA": ""}
    assert record.allocatable == {"NVIDIA": 0}
    assert record.registers == {}
