"""The Python side of the kubelet's APIs is what protoc makes of our descriptions of them."""

import proto

from vgpu_operator.node_agent.api import device_plugin_pb2, pod_resources_pb2


def test_the_generated_modules_are_up_to_date():
    assert list(proto.stale()) == [], "run make proto"


def test_messages_are_on_the_wire_as_the_kubelet_s_are():
    """Bytes by hand, from the field numbers of the kubelet's API: tag, length, content."""
    request = device_plugin_pb2.RegisterRequest(
        version="v1beta1",
        endpoint="x.sock",
        resource_name="a/b",
        options=device_plugin_pb2.DevicePluginOptions(
            pre_start_required=True, get_preferred_allocation_available=True
        ),
    )

    assert request.SerializeToString() == (
        b"\x0a\x07v1beta1" + b"\x12\x06x.sock" + b"\x1a\x03a/b" + b"\x22\x04\x08\x01\x10\x01"
    )


def test_what_the_kubelet_tells_beyond_our_description_is_skipped():
    """Field 4 (CPUs of the pod) and 3 of a container come too; only names and devices are read."""
    devices = b"\x0a\x03a/b" + b"\x12\x02d0" + b"\x1a\x02\x0a\x00"
    container = b"\x0a\x02c0" + b"\x12" + bytes([len(devices)]) + devices + b"\x1a\x02\x01\x02"
    pod = b"\x0a\x02p1\x12\x07default\x1a" + bytes([len(container)]) + container + b"\x22\x01\x03"
    answer = pod_resources_pb2.ListPodResourcesResponse.FromString(
        b"\x0a" + bytes([len(pod)]) + pod
    )

    [found] = answer.pod_resources
    [held] = found.containers
    assert (found.namespace, found.name, held.name) == ("default", "p1", "c0")
    assert list(held.devices[0].device_ids) == ["d0"]
