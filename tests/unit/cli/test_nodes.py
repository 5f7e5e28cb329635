import json

from support.cli_cluster import put_pod
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
