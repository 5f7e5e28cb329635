"""``vgpu explain`` on a small cluster: its first lines are the answer."""

import json

import pytest
import yaml

from support import explained
from support.cli_cluster import put_operator, put_pod
from vgpu_operator.cli import cluster_books, explain, options, render
from vgpu_operator.kube import errors
from vgpu_operator.vendors import records

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


def manifest(name, mem, **spec):
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"containers": containers, **spec},
    }


def written(tmp_path, *objects):
    path = tmp_path / "objects.yaml"
    path.write_text("---\n".join(json.dumps(one) + "\n" for one in objects))
    return str(path)


def workload(kind, pod, **spec):
    metadata = {"name": "train", "namespace": "team-a"}
    return {"kind": kind, "metadata": metadata, "spec": {**spec, "template": pod}}


def test_the_pods_of_a_file_count_one_after_another_on_books_that_are_opened_once(
    command_line, tmp_path, monkeypatch
):
    """The one card that is open has 24,576 MiB: 20,000 and 4,000, but not 20,000 again."""
    opened = []
    really = cluster_books.opened
    monkeypatch.setattr(
        cluster_books, "opened", lambda *given: opened.append(given) or really(*given)
    )
    path = written(tmp_path, *(manifest(*one) for one in (("a", 20000), ("b", 20000), ("c", 4000))))

    assert command_line.run("explain", "-f", path) == 1

    firsts = [line for line in command_line.out.splitlines() if line.startswith("team-a/")]
    assert firsts == [
        "team-a/a would fit on 1 of 2 nodes: n2.",
        "team-a/b would wait: none of 2 nodes has the cards that it asks for.",
        "team-a/c would fit on 1 of 2 nodes: n2.",
    ]
    assert "team-a/a (20000 MiB)" in command_line.out
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("kind", "spec", "code", "answer"),
    [
        ("Deployment", {"replicas": 2}, 0, "All 2 copies of team-a/train would fit"),
        ("Deployment", {"replicas": 3}, 1, "2 of 3 copies of team-a/train would fit"),
        ("Job", {"parallelism": 5, "completions": 2}, 0, "All 2 copies of team-a/train"),
        ("StatefulSet", {}, 0, "team-a/train would fit on 1 of 2 nodes: n2."),
    ],
)
def test_the_copies_of_a_workload_are_placed_one_after_another(
    command_line, tmp_path, kind, spec, code, answer
):
    """Two pods of 12,000 MiB go on the one open card of 24,576 MiB."""
    path = written(tmp_path, workload(kind, manifest("x", 12000), **spec))

    assert command_line.run("explain", "-f", path) == code
    assert command_line.out.startswith(answer)


def test_the_copy_that_finds_no_place_says_why(command_line, tmp_path):
    path = written(tmp_path, workload("Deployment", manifest("x", 12000), replicas=3))

    command_line.run("explain", "-f", path, "-o", "json")

    read = json.loads(command_line.out)
    assert read["copies"] == {"wanted": 3, "placed": {"n2": 2}}
    assert read["answer"] == [
        "2 of 3 copies of team-a/train would fit, one after another: n2 (2).",
        "team-a/train-3 would wait: none of 2 nodes has the cards that it asks for.",
        read["answer"][2],
    ]
    assert read["answer"][2].startswith("Smallest change: ")


def test_copies_take_cpu_from_each_other(command_line, tmp_path):
    node = command_line.kube.objects["/api/v1/nodes/n2"]
    allocatable = {"nvidia.com/gpu": "14", "cpu": "5"}
    command_line.kube.put("/api/v1/nodes/n2", {**node, "status": {"allocatable": allocatable}})
    pod = manifest("x", 1000)
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    path = written(tmp_path, workload("Deployment", pod, replicas=3))

    assert command_line.run("explain", "-f", path) == 1
    assert command_line.out.startswith("2 of 3 copies")
    assert "not enough cpu: 2 asked, 1 free" in command_line.out


def test_a_number_of_copies_that_is_none_is_refused(command_line, tmp_path):
    path = written(tmp_path, workload("Deployment", manifest("x", 1000), replicas="three"))

    assert command_line.run("explain", "-f", path) == 1
    assert "spec.replicas: a whole number is wanted" in command_line.err


def test_more_copies_than_are_judged_are_said(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr(explain, "MOST_COPIES", 2)
    path = written(tmp_path, workload("Deployment", manifest("x", 1000), replicas=9))

    command_line.run("explain", "-f", path)
    assert "only 2 of the 9 copies of team-a/train were judged" in command_line.out


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_several_pods_are_one_list_for_a_program(command_line, tmp_path, output, load):
    path = written(tmp_path, manifest("a", 20000), manifest("b", 20000))

    command_line.run("explain", "-f", path, "-o", output)

    read = load(command_line.out)
    assert read["kind"] == "PodExplanationList"
    assert [(one["kind"], one["pod"], one["fits"]) for one in read["items"]] == [
        ("PodExplanation", "team-a/a", ["n2"]),
        ("PodExplanation", "team-a/b", []),
    ]


@pytest.mark.parametrize("gates", ["foo", ["foo"], [{"name": 5}], 5])
def test_a_manifest_of_a_wrong_shape_is_no_crash(command_line, tmp_path, gates):
    expression = {"key": "a", "operator": "In", "values": 5}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    path = written(tmp_path, manifest("a", 1000, schedulingGates=gates, affinity=affinity))

    assert command_line.run("explain", "-f", path) == 1
    assert "Traceback" not in command_line.err
    assert command_line.out.startswith("team-a/a ")


def chip_pod(**more):
    limits = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}
    raw = manifest("chip", 1)
    raw["spec"]["containers"][0]["resources"] = {"limits": limits}
    return raw | more


def put_chip_node(kube):
    card = '[{"id":"x","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]'
    kube.put(
        "/api/v1/nodes/n3",
        {
            "metadata": {"annotations": {"hami.io/node-register-Ascend910B3": card}},
            "status": {"allocatable": {"huawei.com/Ascend910B3": "4"}},
        },
    )


def test_a_vendor_that_the_settings_leave_out_is_not_judged_as_if_it_were_served(
    command_line, tmp_path
):
    """Ascend is off unless it is switched on."""
    put_chip_node(command_line.kube)
    path = written(tmp_path, chip_pod())

    assert command_line.run("explain", "-f", path) == 1
    assert command_line.out.startswith(
        "team-a/chip asks for Ascend910B3, which the operator's settings leave out: "
    )

    put_operator(command_line.kube, "vendors: {ascend: {enabled: true}}\n")
    assert command_line.run("explain", "-f", path) == 0
    assert command_line.out.startswith("team-a/chip would fit on 1 of 3 nodes: n3.")


def test_what_a_running_pod_holds_of_a_vendor_that_is_left_out_is_shown(command_line):
    put_chip_node(command_line.kube)
    raw = chip_pod(status={"phase": "Running"})
    raw["spec"]["nodeName"] = "n3"
    raw["metadata"]["annotations"] = {
        "hami.io/vgpu-node": "n3",
        "hami.io/Ascend910B3-devices-allocated": "x,Ascend910B3,16384,5:;",
    }
    command_line.kube.put(f"{PODS}/chip", raw)

    assert command_line.run("explain", "chip", "-n", "team-a") == 0
    assert command_line.out.startswith("team-a/chip is on n3 and holds x (16384 MiB")
    assert "The operator's settings leave Ascend910B3 out: nobody counts it." in command_line.out


def test_the_installed_operators_settings_count(command_line):
    """p2 names a scheduler that is the operator's own only there."""
    change(command_line, "p2", scheduler="other-scheduler")
    put_operator(command_line.kube, "schedulerName: other-scheduler\n")

    assert command_line.run("explain", "p2", "-n", "team-a") == 0
    assert "as things stand: n2" in command_line.out


@pytest.mark.parametrize(
    "fault",
    [
        errors.Denied("GET /deployments: 403", status=403),
        errors.ServerFault("GET /deployments: 500", status=500),
    ],
)
def test_settings_that_are_only_assumed_are_said_to_be(command_line, fault):
    command_line.kube.fail_next("GET", "/deployments", fault)

    command_line.run("explain", "p2", "-n", "team-a")
    assert "the usual ones are assumed" in command_line.out


def test_settings_of_the_operator_that_are_wrong_are_not_counted(command_line):
    put_operator(command_line.kube, "schedulerNam: x\n")

    command_line.run("explain", "p2", "-n", "team-a")
    assert "the usual ones are assumed" in command_line.out
    assert "schedulerNam" in command_line.out


def test_reasons_that_nobody_judges_here_come_first(command_line):
    raw = change(command_line, "p2")
    raw["status"]["conditions"][0]["message"] = (
        "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 1 Insufficient"
        " cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    command_line.kube.put(f"{PODS}/p2", raw)

    command_line.run("explain", "p2", "-n", "team-a")
    assert command_line.out.splitlines()[:2] == [
        "team-a/p2 waits for what is not judged here: kube-scheduler last said 1 node(s) didn't"
        " match pod anti-affinity rules.",
        "Its cards, and all else that is judged, would be free on n2.",
    ]


@pytest.mark.parametrize(("name", "words"), [("p1", "what it holds"), ("p2", "no scheduler looks")])
def test_a_pod_that_is_being_deleted_is_said_to_be(command_line, name, words):
    raw = change(command_line, name)
    raw["metadata"]["deletionTimestamp"] = "2026-01-15T10:00:00Z"
    command_line.kube.put(f"{PODS}/{name}", raw)

    command_line.run("explain", name, "-n", "team-a")
    first = command_line.out.splitlines()[0]
    assert first.startswith(f"team-a/{name} is being deleted: {words}")


def test_an_event_whose_names_are_cut_says_perhaps(command_line):
    raw = change(command_line, "p2")
    say(command_line, raw, "FilteringFailed", "9 nodes CardInsufficientMemory (a1, a2, …)")

    command_line.run("explain", "p2", "-n", "team-a", "--node", "n2")
    assert command_line.out.startswith("n2 perhaps refused the pod 10m ago, for the event's list")
    assert "Perhaps: the event's list of names is cut" in command_line.out


@pytest.mark.parametrize(
    ("path", "fault", "words"),
    [
        (
            "/resourcequotas",
            errors.ServerFault("500", status=500),
            "ResourceQuotas could not (500)",
        ),
        ("/events", errors.ServerFault("500", status=500), "Events could not (500) be listed"),
    ],
)
def test_a_list_beside_that_fails_is_a_note(waiting, path, fault, words):
    waiting.kube.fail_next("GET", path, fault)

    assert waiting.run("explain", "p2", "-n", "team-a") == 1
    assert waiting.out.startswith("team-a/p2 waits: none of 2 nodes")
    assert words in waiting.out


def test_without_rights_for_the_cluster_the_pod_and_its_events_are_still_told(waiting):
    say(waiting, waiting.kube.objects[f"{PODS}/p2"], "FilteringFailed", "2 nodes x (n1, n2)")
    waiting.kube.fail_next("GET", "/nodes", errors.Denied("GET /nodes: 403", status=403))

    assert waiting.run("explain", "p2", "-n", "team-a") == 1
    assert waiting.out.splitlines()[:2] == [
        "team-a/p2 waits for a node.",
        "kube-scheduler last said: 0/2 nodes are available: 1/1 CardInsufficientMemory.",
    ]
    assert "FilteringFailed, 10m ago: 2 nodes x (n1, n2)" in waiting.out
    assert "nodes and cards were not judged: GET /nodes: 403" in waiting.out


def test_the_priority_of_a_pod_that_is_to_go_is_said(waiting):
    raw = change(waiting, "p2", mem="24000")
    put_pod(waiting.kube, "p3", node="n2", shares="GPU-b0,NVIDIA,3000,30:;", phase="Running")
    waiting.kube.objects[f"{PODS}/p3"]["spec"]["priority"] = 1000

    waiting.run("explain", raw["metadata"]["name"], "-n", "team-a")
    assert "end 1 pod on n2: team-a/p3 (priority 1000)" in waiting.out


def test_pods_that_are_nobodys_concern_are_not_read(command_line, monkeypatch):
    read = []
    really = records.pod_record
    monkeypatch.setattr(
        records,
        "pod_record",
        lambda raw, *given, **named: (
            read.append(raw["metadata"]["name"]) or really(raw, *given, **named)
        ),
    )

    for arguments in (("explain", "p2", "-n", "team-a"), ("pods", "-A"), ("nodes",), ("top",)):
        command_line.run(*arguments)
        assert "p1" in read
        assert "plain" not in read
        read.clear()


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
