import json

from support.cli_cluster import put_operator, put_pod
from vgpu_operator.cli import kube_context
from vgpu_operator.kube import errors

WORDS = "0/2 nodes are available: 1/1 CardInsufficientMemory."


def test_holders_and_waiters_are_shown_and_pods_without_cards_are_not(command_line):
    assert command_line.run("pods", "-A") == 0

    lines = command_line.out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        [
            *["NAMESPACE", "POD", "NODE", "CONTAINER", "CARD"],
            "MEMORY(MiB)",
            "CORES(%)",
            "PHASE",
            "MESSAGE",
        ],
        ["team-a", "p1", "n1", "main", "GPU-a0", "3000", "30", "Running"],
    ]
    assert lines[2].split()[:8] == ["team-a", "p2", "-", "-", "-", "-", "-", "Pending"]
    assert lines[2].endswith(WORDS)
    assert len(lines) == 3


def test_json_holds_every_field(command_line):
    command_line.run("pods", "p1", "-n", "team-a", "-o", "json")

    assert json.loads(command_line.out) == {
        "kind": "PodShareList",
        "items": [
            {
                "namespace": "team-a",
                "pod": "p1",
                "node": "n1",
                "container": "main",
                "vendor": "NVIDIA",
                "card": "GPU-a0",
                "memoryMiB": 3000,
                "coresPercent": 30,
                "phase": "Running",
                "deleting": False,
                "bindPhase": "success",
                "message": "",
            }
        ],
    }


def test_the_contexts_namespace_is_the_default(command_line, tmp_path):
    path = tmp_path / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: k, cluster: {server: 'https://x'}}]\n"
        "users: [{name: u, user: {}}]\n"
        "contexts:\n- {name: c, context: {cluster: k, user: u, namespace: team-b}}\n"
        "- {name: d, context: {cluster: k, user: u}}\n"
    )
    put_pod(command_line.kube, "mine", namespace="team-b")

    command_line.run("pods", "--kubeconfig", str(path), "-o", "json")

    assert [row["pod"] for row in json.loads(command_line.out)["items"]] == ["mine"]
    assert kube_context.default_namespace(kubeconfig=str(path), context="d") == "default"
    assert kube_context.default_namespace(kubeconfig="/does/not/exist", context=None) == "default"


def test_pods_that_ended_are_left_out(command_line):
    put_pod(command_line.kube, "done", node="n1", shares="GPU-a0,NVIDIA,1,1:;", phase="Succeeded")

    command_line.run("pods", "-A", "-o", "json")

    assert [row["pod"] for row in json.loads(command_line.out)["items"]] == ["p1", "p2"]


def test_labels_choose_pods(command_line):
    command_line.run("pods", "-A", "-l", "app=p2", "-o", "json")

    assert [row["pod"] for row in json.loads(command_line.out)["items"]] == ["p2"]


def test_a_namespace_without_such_pods_is_said(command_line):
    assert command_line.run("pods", "-n", "empty") == 0
    assert command_line.err == "no pod in namespace empty asks for a card\n"


def test_rights_on_pods_alone_are_enough(command_line):
    command_line.kube.fail_next("GET", "/nodes", errors.Denied("403", status=403))

    assert command_line.run("pods", "-n", "team-a") == 0
    assert "GPU-a0" in command_line.out


def test_a_bound_pod_without_a_promise_is_pointed_out(command_line):
    put_pod(command_line.kube, "astray", node="n2", phase="Running")

    command_line.run("pods", "astray", "-n", "team-a", "-o", "json")

    (row,) = json.loads(command_line.out)["items"]
    assert row["message"] == "bound without a promise: it went past the scheduler"


def test_a_promise_that_cannot_be_read_is_pointed_out(command_line):
    put_pod(command_line.kube, "odd", node="n2", shares="GPU-b0,NVIDIA,much,0:;")

    command_line.run("pods", "odd", "-n", "team-a", "-o", "json")

    (row,) = json.loads(command_line.out)["items"]
    assert "memory must be an integer, got 'much'" in row["message"]


def test_a_message_cannot_move_the_cursor(command_line):
    put_pod(command_line.kube, "evil", message="\x1b[2Jgone")

    command_line.run("pods", "-A")

    assert "\\x1b[2Jgone" in command_line.out


def test_a_pod_that_is_not_there_is_an_error(command_line):
    assert command_line.run("pods", "p9", "-n", "team-a") == 1
    assert "p9" in command_line.err


def test_a_name_and_all_namespaces_are_wrong_usage(command_line):
    assert command_line.run("pods", "p1", "-A") == 2
    assert command_line.err.startswith("error: ")


def test_a_promise_with_more_entries_than_containers_is_shown(command_line):
    """Where annotations alone are trusted the second entry is charged too."""
    put_operator(command_line.kube, "ledger: {trust: annotations}\n")
    put_pod(
        command_line.kube,
        "p4",
        node="n2",
        shares="GPU-b0,NVIDIA,1000,10:;GPU-b1,NVIDIA,2000,10:;",
        phase="Running",
    )

    assert command_line.run("pods", "p4", "-n", "team-a", "-o", "json") == 0
    shown = [(row["container"], row["card"]) for row in json.loads(command_line.out)["items"]]
    assert shown == [("main", "GPU-b0"), ("(number 2)", "GPU-b1")]
