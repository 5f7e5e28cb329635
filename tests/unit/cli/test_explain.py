"""``vgpu explain`` on a small cluster: its first lines are the answer."""

import json

import pytest

from support import explained
from support.cli_cluster import put_pod
from vgpu_operator.cli import options, render
from vgpu_operator.kube import errors

PODS = "/api/v1/namespaces/team-a/pods"


@pytest.fixture
def waiting(command_line):
    """A pod that asks for more memory than the one healthy, open card (24,576 MiB) has."""
    change(command_line, "p2", mem="30000")
    return command_line


def change(command_line, name, *, mem="3000", scheduler="hami-scheduler", **spec):
    raw = command_line.kube.objects[f"{PODS}/{name}"]
    limits = raw["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/gpumem"] = mem
    raw["spec"] |= {"schedulerName": scheduler, **spec}
    command_line.kube.put(f"{PODS}/{name}", raw)
    return raw


def say(command_line, raw, reason, message, at="2026-01-15T09:50:30Z"):
    command_line.kube.put(
        "/api/v1/namespaces/team-a/events/e1",
        {
            "involvedObject": {"name": raw["metadata"]["name"], "uid": raw["metadata"]["uid"]},
            "reason": reason,
            "message": message,
            "lastTimestamp": at,
        },
    )


def test_the_first_lines_say_why_it_waits_and_what_helps(waiting):
    assert waiting.run("explain", "p2", "-n", "team-a") == 1

    assert waiting.out.splitlines()[:2] == [
        "team-a/p2 waits: none of 2 nodes has the cards that it asks for.",
        "Smallest change: ask for at most 24576 of nvidia.com/gpumem (now 30000);"
        " it then fits on n2.",
    ]


def test_every_card_of_the_nearest_nodes_is_asked_against_free(waiting):
    waiting.run("explain", "p2", "-n", "team-a")

    lines = [line.split() for line in waiting.out.splitlines()]
    assert [
        "n2",
        "GPU-b0",
        "24576/24576",
        "100/100",
        "10/10",
        "CardInsufficientMemory",
        "-",
    ] in lines
    assert "GPU-a0   21576/24576    70/100    9/10   CardCordoned" in waiting.out
    assert "team-a/p1 (3000 MiB)" in waiting.out


def test_kube_schedulers_words_and_the_events_are_there(waiting):
    say(waiting, waiting.kube.objects[f"{PODS}/p2"], "FilteringFailed", "2 nodes x (n1, n2)")

    waiting.run("explain", "p2", "-n", "team-a")

    assert "0/2 nodes are available: 1/1 CardInsufficientMemory." in waiting.out
    assert "FilteringFailed, 10m ago: 2 nodes x (n1, n2)" in waiting.out


def test_json_says_the_same_in_fields(waiting):
    waiting.run("explain", "p2", "-n", "team-a", "-o", "json")

    read = json.loads(waiting.out)
    assert (read["kind"], read["pod"], read["fits"]) == ("PodExplanation", "team-a/p2", [])
    assert read["ways"][0]["amounts"] == [
        {"resource": "nvidia.com/gpumem", "asked": 30000, "most": 24576}
    ]
    assert {one["reason"]: one["nodes"] for one in read["reasons"]} == {
        "CardCordoned": ["n1"],
        "CardNotHealth, CardInsufficientMemory": ["n2"],
    }
    assert [one["node"] for one in read["items"]] == ["n2", "n1"]


def test_a_pod_that_could_be_placed_now_is_said_so(command_line):
    change(command_line, "p2")

    assert command_line.run("explain", "p2", "-n", "team-a") == 0
    assert command_line.out.startswith(
        "team-a/p2 waits, yet 1 of 2 nodes could take it as things stand: n2."
    )


def test_a_running_pod_says_where_it_is_and_how_that_node_stands_now(command_line):
    command_line.kube.put(
        "/api/v1/nodes/n1",
        {
            **(node := command_line.kube.objects["/api/v1/nodes/n1"]),
            "metadata": {
                **node["metadata"],
                "annotations": {
                    key: text
                    for key, text in node["metadata"]["annotations"].items()
                    if key != "hami.io/device-cordon"
                },
            },
        },
    )

    assert command_line.run("explain", "p1", "-n", "team-a") == 0
    first, second, *_ = command_line.out.splitlines()
    assert first == "team-a/p1 is on n1 and holds GPU-a0 (3000 MiB, 30% cores)."
    assert second.startswith("As of now 2 of 2 nodes could take it, and n1 is number ")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"scheduler": "default-scheduler"}, "but its scheduler is default-scheduler, not hami-"),
        ({"schedulingGates": [{"name": "kueue"}]}, "held back by its scheduling gates (kueue)"),
        ({"nodeSelector": {"zone": "a"}}, "Smallest change: let it go to n2, whose cards are free"),
    ],
)
def test_other_causes_are_named_first(command_line, fields, words):
    change(command_line, "p2", **fields)

    command_line.run("explain", "p2", "-n", "team-a")

    assert words in " ".join(command_line.out.splitlines()[:2])


def test_a_pod_that_asks_for_no_card_is_no_business_of_the_cards(command_line):
    assert command_line.run("explain", "plain", "-n", "team-a") == 0
    assert "asks for no card" in command_line.out


def test_a_manifest_passes_the_webhooks_rules_first(command_line, tmp_path):
    """The webhook adds the card, the scheduler, and refuses a preset node."""
    path = tmp_path / "job.yaml"
    job = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  template:\n"
        "    spec:\n      containers:\n      - name: main\n        resources:\n"
        "          limits: {nvidia.com/gpumem: 4000}\n"
    )
    path.write_text(job)

    assert command_line.run("explain", "-f", str(path), "-n", "team-a") == 0
    assert command_line.out.startswith("team-a/train would fit on 1 of 2 nodes: n2.")
    assert "main: 1 NVIDIA card, with 4000 MiB" in command_line.out

    path.write_text(job + "      nodeName: n2\n")
    assert command_line.run("explain", "-f", str(path), "-n", "team-a") == 1
    assert "would be refused at admission" in command_line.out
    assert "remove spec.nodeName" in command_line.out


def test_a_quota_answers_a_manifest_too(command_line, tmp_path):
    command_line.kube.put(
        "/api/v1/namespaces/team-a/resourcequotas/q",
        {"spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}},
    )
    path = tmp_path / "pod.yaml"
    path.write_text(
        "kind: Pod\nmetadata: {name: p9, namespace: team-a}\nspec:\n  containers:\n"
        "  - name: main\n    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4000}}\n"
    )

    assert command_line.run("explain", "-f", str(path)) == 1
    assert "2000 of the namespace's 5000 are left" in command_line.out


def test_a_file_without_pods_is_wrong_usage(command_line, tmp_path):
    path = tmp_path / "cm.yaml"
    path.write_text("kind: ConfigMap\nmetadata: {name: a}\n")

    assert command_line.run("explain", "-f", str(path)) == 2
    assert "holds no Pod" in command_line.err


def test_one_node_then_and_now(command_line):
    """Refused at 09:50:30 for 5,000 MiB; since then p3 has come with 20,000 of 24,576."""
    raw = change(command_line, "p2", mem="5000")
    say(command_line, raw, "FilteringFailed", "1 nodes CardInsufficientMemory (n2)")
    put_pod(command_line.kube, "p3", node="n2", shares="GPU-b0,NVIDIA,3000,30:;", phase="Running")
    came = command_line.kube.objects[f"{PODS}/p3"]
    came["metadata"]["annotations"]["hami.io/bind-time"] = "1768471200"  # 10:00:00
    command_line.kube.put(f"{PODS}/p3", came)

    command_line.run("explain", "p2", "-n", "team-a", "--node", "n2")

    assert command_line.out.splitlines()[0] == (
        "n2 refused the pod 10m ago: 1 nodes CardInsufficientMemory (n2). Now: it could take"
        " the pod."
    )
    assert "Pods that have come since: team-a/p3." in command_line.out
    assert "NVIDIA card GPU-b0 then had at most 24576 of 24576 MiB" in command_line.out
    assert "something that has left kept it off" in command_line.out


def test_one_node_without_an_event_says_what_is_not_known(waiting):
    waiting.run("explain", "p2", "-n", "team-a", "--node", "n1")

    assert "Now: " not in waiting.out.splitlines()[0]
    assert "no event tells any more" in waiting.out.splitlines()[0]


def test_rights_that_are_missing_for_the_rest_are_a_note(waiting):
    waiting.kube.fail_next("GET", "/resourcequotas", errors.Denied("403", status=403))
    waiting.kube.fail_next("GET", "/events", errors.Denied("403", status=403))

    assert waiting.run("explain", "p2", "-n", "team-a") == 1
    assert "ResourceQuotas may not be listed" in waiting.out
    assert "Events may not be listed" in waiting.out


def test_five_thousand_alike_nodes_are_one_line(command_line):
    for number in range(300):
        node = explained.node(f"far-{number}", explained.card(f"c{number}"))
        command_line.kube.put(f"/api/v1/nodes/far-{number}", node)
    change(command_line, "p2", mem="30000")

    command_line.run("explain", "p2", "-n", "team-a")

    assert "300   CardInsufficientMemory" in command_line.out
    assert len(command_line.out.splitlines()) < 40
    assert "(297 more nodes: --all shows them" in command_line.out


@pytest.mark.parametrize("arguments", [(), ("p2", "-f", "x"), ("p2", "--all", "--node", "n1")])
def test_what_does_not_go_together_is_wrong_usage(command_line, arguments):
    assert command_line.run("explain", *arguments) == 2
    assert command_line.err.count("\n") == 1


def test_a_narrow_terminal_gets_lines_instead_of_a_table(waiting, monkeypatch):
    monkeypatch.setattr(options, "screen", lambda: render.Screen(width=60))

    waiting.run("explain", "p2", "-n", "team-a")

    assert "n1 GPU-a0: CardCordoned\n  free 21576/24576 MiB, 70/100%, 9/10 slots" in waiting.out
    assert "HELD BY" not in waiting.out
