import json

import pytest

from support.cli_cluster import put_operator, put_pod
from vgpu_operator.kube import errors


def test_every_card_is_a_row_by_node_and_index(command_line):
    assert command_line.run("nodes") == 0

    assert command_line.out.splitlines() == [
        "NODE   CARD     INDEX   TYPE              SLOTS   MEMORY(MiB)   CORES(%)   STATE",
        "n1     GPU-a0       0   NVIDIA A10         1/10    3000/24576     30/100   cordoned",
        "n2     GPU-b0       0   NVIDIA A10         0/10       0/24576      0/100   healthy",
        "n2     GPU-b1       1   NVIDIA-Tesla T4     0/4       0/16384      0/100   unhealthy",
    ]


def test_wide_adds_handshake_allocatable_and_lock(command_line):
    command_line.run("nodes", "n1", "-o", "wide")

    header, row = command_line.out.splitlines()
    assert header.split()[8:] == [
        "VENDOR",
        "NUMA",
        "MODE",
        "DIALECT",
        "HANDSHAKE",
        "ALLOCATABLE",
        "LOCK",
    ]
    assert row.split()[9:] == [
        "NVIDIA",
        "0",
        "hami-core",
        "hami",
        "requesting",
        "30s",
        "10",
        "team-a/p1",
        "10s",
    ]


def test_json_holds_numbers_and_times(command_line):
    command_line.run("nodes", "n1", "-o", "json")

    assert json.loads(command_line.out)["items"] == [
        {
            "node": "n1",
            "card": "GPU-a0",
            "index": 0,
            "vendor": "NVIDIA",
            "type": "NVIDIA A10",
            "slots": {"used": 1, "total": 10},
            "memoryMiB": {"used": 3000, "total": 24576},
            "coresPercent": {"used": 30, "total": 100},
            "healthy": True,
            "cordoned": True,
            "numa": 0,
            "mode": "hami-core",
            "dialect": "hami",
            "handshake": {"state": "requesting", "ageSeconds": 30},
            "allocatable": 10,
            "lock": {
                "holder": "team-a/p1",
                "ageSeconds": 10,
                "text": "2026-01-15T10:00:20Z,team-a,p1",
            },
        }
    ]


def test_labels_choose_nodes(command_line):
    command_line.run("nodes", "-l", "zone=a", "-o", "json")

    assert [row["node"] for row in json.loads(command_line.out)["items"]] == ["n1"]


def test_only_reading_requests_are_sent(command_line):
    command_line.run("nodes", "n1")

    assert {request.verb for request in command_line.kube.requests} == {"GET"}


def test_a_node_that_is_not_there_is_an_error(command_line):
    assert command_line.run("nodes", "n9") == 1

    assert command_line.out == ""
    assert "n9" in command_line.err
    assert command_line.err.count("\n") == 1


def test_a_node_without_cards_is_said_on_standard_error(command_line):
    command_line.kube.put("/api/v1/nodes/bare", {"metadata": {}})

    assert command_line.run("nodes", "bare") == 0
    assert (command_line.out, command_line.err) == (
        "",
        "node bare has registered no card\n",
    )


def test_an_unreadable_register_text_is_a_warning_and_costs_no_other_node(command_line):
    text = "GPU-x,10,oops,100,T4,0,true:GPU-y,10,1024,100,T4,0,true:"
    command_line.kube.put(
        "/api/v1/nodes/bad", {"metadata": {"annotations": {"hami.io/node-nvidia-register": text}}}
    )

    assert command_line.run("nodes") == 0
    assert "warning: node bad: hami.io/node-nvidia-register, segment 0" in command_line.err
    assert "GPU-y" in command_line.out
    assert "GPU-a0" in command_line.out


def test_a_plugin_that_is_away_shows_in_the_state(command_line):
    node = command_line.kube.objects["/api/v1/nodes/n2"]
    command_line.kube.put(
        "/api/v1/nodes/n2", {**node, "status": {"allocatable": {"nvidia.com/gpu": "0"}}}
    )

    command_line.run("nodes", "n2")

    assert "unhealthy, no plugin" in command_line.out


def test_a_lock_that_cannot_be_read_is_nobodys(command_line):
    node = command_line.kube.objects["/api/v1/nodes/n1"]
    notes = {**node["metadata"]["annotations"], "hami.io/mutex.lock": "x,y"}
    command_line.kube.put(
        "/api/v1/nodes/n1", {**node, "metadata": {**node["metadata"], "annotations": notes}}
    )

    command_line.run("nodes", "n1", "-o", "wide")

    assert "(nobody) ?" in command_line.out


def test_a_forged_promise_counts_only_as_far_as_its_pod_asks(command_line):
    put_pod(command_line.kube, "liar", node="n2", shares="GPU-b0,NVIDIA,20000,100:;")

    command_line.run("nodes", "n2", "-o", "json")

    assert json.loads(command_line.out)["items"][0]["memoryMiB"]["used"] == 3000


def test_missing_rights_say_what_is_needed(command_line):
    command_line.kube.fail_next("GET", "/nodes", errors.Denied("GET /nodes: 403 no", status=403))

    assert command_line.run("nodes") == 1
    assert command_line.err == (
        "error: GET /nodes: 403 no; ask for rights to do this (reading needs get, list and watch)\n"
    )


def put_chip(kube, register_key="hami.io/node-register-Ascend910B3", resource="Ascend910B3"):
    """Put a node with one chip, and a pod that holds 16 GiB of it."""
    card = (
        '[{"id":"NPU-0","count":4,"devmem":65536,"devcore":20,'
        f'"type":"{resource}","health":true}}]'
    )
    kube.put("/api/v1/nodes/npu-1", {"metadata": {"annotations": {register_key: card}}})
    limits = {f"huawei.com/{resource}": "1", f"huawei.com/{resource}-memory": "16384"}
    shares = f"NPU-0,{resource},16384,0:;"
    notes = {"hami.io/vgpu-node": "npu-1", f"hami.io/{resource}-devices-allocated": shares}
    kube.put(
        "/api/v1/namespaces/team-a/pods/chip",
        {
            "metadata": {"annotations": notes},
            "spec": {
                "nodeName": "npu-1",
                "containers": [{"name": "main", "resources": {"limits": limits}}],
            },
            "status": {"phase": "Running"},
        },
    )


def test_cards_of_vendors_that_are_off_by_default_are_shown_too(command_line):
    put_chip(command_line.kube)

    command_line.run("nodes", "npu-1", "-o", "json")
    (card,) = json.loads(command_line.out)["items"]
    command_line.run("pods", "chip", "-n", "team-a", "-o", "json")
    (share,) = json.loads(command_line.out)["items"]

    assert (card["card"], card["vendor"]) == ("NPU-0", "Ascend910B3")
    assert card["memoryMiB"] == {"used": 16384, "total": 65536}
    assert (share["card"], share["vendor"], share["memoryMiB"]) == ("NPU-0", "Ascend910B3", 16384)


def test_a_chip_of_the_settings_own_is_shown_where_they_are_given(command_line, tmp_path):
    put_chip(command_line.kube, "hami.io/node-register-Ascend999", "Ascend999")
    config = tmp_path / "device-config.yaml"
    config.write_text(
        "vnpus: [{commonWord: Ascend999, resourceName: huawei.com/Ascend999, "
        "resourceMemoryName: huawei.com/Ascend999-memory, "
        "memoryAllocatable: 65536, memoryCapacity: 65536}]"
    )

    command_line.run("nodes", "npu-1", "--device-config", str(config), "-o", "json")

    (card,) = json.loads(command_line.out)["items"]
    assert card["memoryMiB"] == {"used": 16384, "total": 65536}


def test_a_renamed_resource_counts_where_the_settings_are_given(command_line, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("vendors: {nvidia: {resourceCountName: acme.com/gpu}}")
    node = command_line.kube.objects["/api/v1/nodes/n1"]
    status = {"allocatable": {"acme.com/gpu": "7"}}
    command_line.kube.put("/api/v1/nodes/n1", {**node, "status": status})

    command_line.run("nodes", "n1", "--config", str(config), "-o", "json")

    assert json.loads(command_line.out)["items"][0]["allocatable"] == 7


def test_a_wrong_setting_is_named(command_line, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("vendors: {nvidia: {colour: red}}")

    for command in ("nodes", "pods"):
        assert command_line.run(command, "--config", str(config)) == 1
        assert command_line.err == (
            f"error: {config}: the configuration is wrong at vendors.nvidia.colour: "
            "there is no such setting\n"
        )


def put_neuron(kube):
    """Put a device of two cores, the second of which a pod holds: the mask of it is 2."""
    offered = {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    kube.put("/api/v1/nodes/nn", {"status": {"allocatable": offered, "capacity": offered}})
    kube.put(
        "/api/v1/namespaces/team-a/pods/neuron",
        {
            "metadata": {
                "annotations": {
                    "hami.io/vgpu-node": "nn",
                    "hami.io/aws-neuron-devices-allocated": "nn-AWSNeuron-0,AWSNeuron,0,2:;",
                    "AWS_NEURON_IDS": "1",
                    "hami.io/bind-phase": "success",
                }
            },
            "spec": {
                "nodeName": "nn",
                "containers": [
                    {"name": "c", "resources": {"limits": {"aws.amazon.com/neuroncore": "1"}}}
                ],
            },
            "status": {"phase": "Running"},
        },
    )


def test_cores_that_are_kept_as_a_mask_are_counted_everywhere(command_line):
    """One of two cores is taken; as numbers the masks are 2 and 3."""
    put_neuron(command_line.kube)
    waits = {
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": "c", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}],
        },
        "status": {"phase": "Pending"},
    }
    command_line.kube.put("/api/v1/namespaces/team-a/pods/two", waits)

    command_line.run("nodes", "nn")
    assert "1/2 cores" in command_line.out
    command_line.run("nodes", "nn", "-o", "json")
    (row,) = json.loads(command_line.out)["items"]
    assert row["coresPercent"] == {"used": 1, "total": 2}
    command_line.run("top", "nn")
    assert "1/2 cores" in command_line.out
    command_line.run("pods", "neuron", "-n", "team-a")
    assert "1 cores" in command_line.out
    command_line.run("explain", "two", "-n", "team-a", "--all")
    assert "1/2 cores" in command_line.out
    command_line.run("explain", "neuron", "-n", "team-a")
    assert "holds nn-AWSNeuron-0 (0 MiB, 1 cores)" in command_line.out


def test_the_installed_operators_names_count(command_line):
    put_operator(command_line.kube, "vendors: {nvidia: {resourceCountName: example.com/gpu}}\n")
    node = command_line.kube.objects["/api/v1/nodes/n1"]
    command_line.kube.put(
        "/api/v1/nodes/n1", {**node, "status": {"allocatable": {"example.com/gpu": "7"}}}
    )

    command_line.run("nodes", "n1", "-o", "json")
    (row,) = json.loads(command_line.out)["items"]
    assert row["allocatable"] == 7


def test_a_setting_on_the_command_line_counts_before_the_installed_ones(command_line, tmp_path):
    put_operator(command_line.kube, "no: setting\n")
    path = tmp_path / "settings.yaml"
    path.write_text("schedulerName: x\n")

    assert command_line.run("nodes", "--config", str(path)) == 0
    assert command_line.err == ""


@pytest.mark.parametrize("arguments", [("nodes",), ("pods", "-A"), ("pods", "--surplus"), ("top",)])
def test_settings_that_are_only_assumed_are_said_to_be(command_line, arguments):
    command_line.kube.fail_next("GET", "/deployments", errors.ServerFault("500 no", status=500))

    command_line.run(*arguments)
    (line,) = [line for line in command_line.err.splitlines() if line.startswith("note: ")]
    assert line.startswith("note: the installed operator's settings were not found")
    assert line.endswith("500 no")


def test_without_an_installed_operator_nothing_is_assumed_of_one(command_line):
    place = "/apis/apps/v1/namespaces/kube-system/deployments/vgpu-operator"
    del command_line.kube.objects[place]

    assert command_line.run("nodes") == 0
    assert command_line.err == ""
