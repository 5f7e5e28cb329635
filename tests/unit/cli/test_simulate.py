import io
import json
import sys

import pytest

from support import simulate_files
from support.simulate_files import pod
from vgpu_operator.cli import simulate_cases
from vgpu_operator.model import errors

NODE = simulate_files.node("node-a", "GPU-a0", "GPU-a1")


def holder(name, card, mem):
    return simulate_files.holder(name, card, mem, node="node-a")


@pytest.fixture
def simulated(command_line, tmp_path):
    """Write objects to a file, place them, and return exit code and items by pod."""

    def run(*objects):
        file = tmp_path / "all.json"
        file.write_text(json.dumps({"kind": "List", "items": objects}), encoding="utf-8")
        code = command_line.run("simulate", "-f", str(file), "-o", "json")
        return code, {item["pod"]: item for item in json.loads(command_line.out)["items"]}

    return run


def cards(item):
    return [share["card"] for share in item["shares"]]


def test_pending_pods_are_placed_one_after_another(simulated):
    code, found = simulated(NODE, pod("p1"), pod("p2"))

    assert code == 0
    assert (cards(found["p1"]), cards(found["p2"])) == (["GPU-a1"], ["GPU-a0"])
    assert found["p1"]["shares"][0] == {
        "container": "main",
        "vendor": "NVIDIA",
        "card": "GPU-a1",
        "memoryMiB": 20000,
        "cores": 0,
    }


def test_a_pod_that_fits_nowhere_says_why_and_the_exit_code_is_1(simulated):
    code, found = simulated(NODE, pod("p1"), pod("p2"), pod("p3"))

    assert code == 1
    assert found["p3"]["node"] == ""
    assert found["p3"]["message"] == "no node fits: node-a: 2/2 CardInsufficientMemory"


def test_bound_pods_hold_their_cards(simulated):
    _, found = simulated(NODE, holder("old", "GPU-a1", 20000), pod("p1"))

    assert list(found) == ["p1"]
    assert cards(found["p1"]) == ["GPU-a0"]


def test_a_lock_in_a_dump_is_taken_as_served(simulated):
    annotations = NODE["metadata"]["annotations"] | {
        "hami.io/mutex.lock": "2026-01-15T10:00:00Z,default,old"
    }
    locked = {**NODE, "metadata": {**NODE["metadata"], "annotations": annotations}}

    code, found = simulated(locked, holder("old", "GPU-a1", 1000), pod("p1"))

    assert (code, cards(found["p1"])) == (0, ["GPU-a0"])


def test_admission_refuses_here_too(simulated):
    code, found = simulated(NODE, pod("p1", mem="1500m"))

    assert code == 1
    assert found["p1"]["message"].startswith("refused at admission: container main: ")


def test_a_resource_quota_counts(simulated):
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "cards", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "30000"}},
    }

    code, found = simulated(NODE, quota, pod("p1"), pod("p2"))

    assert code == 1
    assert cards(found["p1"]) == ["GPU-a1"]
    assert found["p2"]["message"].startswith(
        "refused at admission: exceeding resource quota: the pod takes at least 20000 of "
        "nvidia.com/gpumem, and 10000 of the namespace's 30000 are left"
    )


def test_pods_of_other_schedulers_are_named_and_left_alone(simulated):
    code, found = simulated(NODE, pod("p1", schedulerName="volcano"))

    assert code == 1
    assert found["p1"]["message"] == "it asks for cards, but its scheduler is volcano"


def test_pods_without_a_card_go_anywhere(simulated):
    plain = {"kind": "Pod", "metadata": {"name": "p1"}}
    plain["spec"] = {"schedulerName": "hami-scheduler", "containers": [{"name": "main"}]}

    code, found = simulated(NODE, plain)

    assert (code, found["p1"]["fits"], found["p1"]["node"]) == (0, True, "")


def test_the_table_has_a_line_a_pod(command_line, tmp_path):
    file = tmp_path / "all.yaml"
    file.write_text("\n---\n".join(map(json.dumps, (NODE, pod("p1")))), encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 0
    assert [line.split() for line in command_line.out.splitlines()] == [
        ["NAMESPACE", "POD", "NODE", "CARDS", "MESSAGE"],
        ["default", "p1", "node-a", "main:", "GPU-a1", "(20000", "MiB)"],
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: Pod\nmetadata: {name: 5}", "document 1: metadata.name: a text is wanted, got 5"),
        ("metadata: {}", "document 1: kind: a text such as Pod or Node is wanted"),
        ("---\nkind: Node\n---\n- 1", "document 1: metadata.name: a name is wanted"),
        ("- 1", "document 1: an object is wanted, got a list"),
        ("a: [", "line 2: it is no YAML: "),
        (
            "kind: List\nitems: [{kind: Pod, metadata: {name: p}, spec: {containers: [7]}}]",
            "document 1, items[0]: spec.containers[0]: an object is wanted, got 7",
        ),
        (
            "kind: NodeList\nitems:\n- {metadata: {name: n}, status: {allocatable: {a: [1]}}}",
            "document 1, items[0]: status.allocatable[a]: a quantity is wanted, got a list",
        ),
        (
            "kind: Node\nmetadata: {name: n}\n---\nkind: Node\nmetadata: {name: n}",
            "document 2: Node n is in",
        ),
    ],
)
def test_a_mistake_names_file_document_and_field(command_line, tmp_path, text, sentence):
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 1
    assert f"{file}" in command_line.err
    assert sentence in command_line.err


def test_other_kinds_are_passed_over_with_a_note(command_line, tmp_path):
    file = tmp_path / "all.json"
    file.write_text('{"kind": "Service", "metadata": {"name": "s"}}', encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 0
    assert "1 of kind Service passed over" in command_line.err


def test_one_of_the_two_inputs_is_wanted(command_line):
    assert command_line.run("simulate") == 2
    assert command_line.run("simulate", "-f", "a", "--cases", "b") == 2


def test_cases_answer_every_line_and_go_on_after_a_bad_one(command_line, monkeypatch):
    lines = [
        b'{"name": "a", "kind": "pod_decode", "text": ";"}\n',
        b"{not json\n",
        b"\n",
        b"[1]\n",
        b'{"name": "b", "kind": "riddle"}\n',
        b'{"name": "c", "nodes": [], "pods": [], "flags": {}}\n',
        b'{"name": "d", "kind": "pod_decode", "text": "GPU-a0,NVIDIA:;"}\n',
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines))))

    assert command_line.run("simulate", "--cases", "-") == 0

    found = [json.loads(line) for line in command_line.out.splitlines()]
    assert found[0] == {"name": "a", "answer": {"containers": [[], []], "reencoded": ";;"}}
    assert found[1]["name"] is None
    assert found[1]["error"].startswith("line 2 is no JSON")
    assert found[2] == {"name": None, "error": "line 4: a case is an object"}
    assert found[3]["error"].startswith("kind: 'riddle' is unknown; known are pod_encode")
    assert found[4] == {"name": "c", "error": "the case: now is missing or no time"}
    assert "error" in found[5]["answer"]


def test_the_answer_to_a_case_has_the_recorded_form(command_line, tmp_path):
    case = {
        "name": "one",
        "now": "2026-01-15T10:00:00Z",
        "flags": {},
        "record": ["node_annotations"],
        "nodes": [NODE],
        "pods": [],
        "pod": {**pod("p1", mem=3000), "metadata": {"name": "p1", "namespace": "team-a"}},
    }
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(case), encoding="utf-8")

    command_line.run("simulate", "--cases", str(file))

    answer = json.loads(command_line.out)["answer"]
    assert answer["admission"]["limits_after"][0]["limits"]["nvidia.com/gpumem"] == "3k"
    assert answer["node_annotations_written"] == {
        "node-a": {"hami.io/node-handshake": "Requesting_<now:datetime>"}
    }
    assert answer["filter"]["scores"] == {"node-a": "0.00"}
    assert answer["annotations"]["hami.io/vgpu-time"] == "<now>"
    assert answer["usage_after"] == [{"id": "GPU-a1", "used": 1, "usedcores": 0, "usedmem": 3000}]
    assert answer["bind"] == {
        "error": "",
        "annotations": {"hami.io/bind-phase": "allocating", "hami.io/bind-time": "<now>"},
        "node_annotations": {"hami.io/mutex.lock": "<now:rfc3339>,team-a,p1"},
    }


@pytest.mark.parametrize(
    "name", ["[" * 1000 + "]" * 1000, "7", '{"a": 1}', "9" * 5000, '"\\ud800"', "NaN"]
)
def test_one_strange_line_does_not_end_the_run(command_line, tmp_path, name):
    file = tmp_path / "cases.jsonl"
    good = {"name": "after", "kind": "weights", "text": "slot=1,core=1,memory=3"}
    strange = f'{{"name": {name}, "kind": "weights", "text": "slot=1"}}'
    file.write_text(f"{strange}\n{json.dumps(good)}\n", encoding="utf-8")

    assert command_line.run("simulate", "--cases", str(file)) == 0
    first, second = map(json.loads, command_line.out.splitlines())
    assert "line 1" in first["error"]
    assert second["answer"] == {"weights": {"slot": 1, "core": 1, "memory": 3}}


def test_answers_to_cases_are_utf_8_whatever_the_terminal_speaks(command_line, tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text('{"name": "\u4e2d", "kind": "weights", "text": "x"}\n', encoding="utf-8")
    written = io.BytesIO()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
        assert command_line.run("simulate", "--cases", str(file)) == 0
        sys.stdout.flush()
        text = written.getvalue().decode("utf-8")

    assert json.loads(text)["name"] == "\u4e2d"


def test_a_pod_with_a_generated_name_gets_the_first_free_number(simulated_names):
    pods = [
        {"generateName": "web-"},
        {"name": "web-1"},
        {"generateName": "web-"},
        {"generateName": "web-", "namespace": "other"},
        {"generateName": "x" * 70},
    ]

    assert simulated_names(pods) == ["web-2", "web-1", "web-3", "web-1", "x" * 58 + "1"]


@pytest.fixture
def simulated_names(command_line, tmp_path):
    def run(metadata):
        containers = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
        items = [
            {"kind": "Pod", "metadata": one, "spec": {"containers": containers}} for one in metadata
        ]
        file = tmp_path / "pods.json"
        file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
        command_line.run("simulate", "-f", str(file), "-o", "json")
        return [item["pod"] for item in json.loads(command_line.out)["items"]]

    return run


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("&a\nkind: List\nitems: [*a]\n", "line 3: *a stands within &a itself"),
        ("{kind: List, items: [" * 60 + "]}" * 60, "line 1: lists and objects are nested deeper"),
        ('{"kind":"List","items":[' * 60 + "]}" * 60, "lists and objects are nested deeper"),
        ("kind: Pod\nmetadata: {name: !!bool p}\n", "line 2: 'p' cannot be read as true or"),
        (
            "kind: List\nitems:\n- &a0 {kind: List, items: [{kind: X}, {kind: X}]}\n"
            + "".join(
                f"- &a{n} {{kind: List, items: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n"
                for n in range(1, 10)
            ),
            "stand for more than 100000 values",
        ),
    ],
)
def test_a_text_that_would_never_end_is_refused_at_once(command_line, tmp_path, text, words):
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 1
    assert f"error: {file}: " in command_line.err
    assert words in command_line.err


@pytest.mark.parametrize("option", ["-f", "--cases"])
def test_a_file_that_is_not_there_is_named(command_line, option):
    assert command_line.run("simulate", option, "nope.yaml") == 1
    assert command_line.err == "error: nope.yaml cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    "text", ["nodes: [{name: a, cards: 2}]", "vendors: {ascend: {enabled: true}}"]
)
def test_a_file_of_another_command_is_sent_there(command_line, tmp_path, text):
    file = tmp_path / "other.yaml"
    file.write_text(text, encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 1
    assert command_line.err == (
        f"error: {file}, document 1: kind: a text such as Pod or Node is wanted; "
        "settings go to --config, simulated nodes to vgpu agent --simulate\n"
    )


def test_pods_that_ask_for_nothing_known_are_pointed_to_the_vendors(command_line, tmp_path):
    file = tmp_path / "all.json"
    plain = {"kind": "Pod", "metadata": {"name": "p1"}}
    plain["spec"] = {"containers": [{"name": "main", "resources": {"limits": {"a.com/gpu": 1}}}]}
    file.write_text(json.dumps(plain), encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 0
    assert command_line.err == (
        "no pod is pending that asks for a card "
        "(no limit names a resource of these settings; see docs/vendors)\n"
    )


def test_without_a_pending_pod_nothing_is_said_of_limits(command_line, tmp_path):
    file = tmp_path / "all.json"
    file.write_text(json.dumps(NODE), encoding="utf-8")

    assert command_line.run("simulate", "-f", str(file)) == 0
    assert command_line.err == "no pod is pending that asks for a card\n"


@pytest.mark.parametrize("output", ["yaml", "table"])
def test_cases_take_no_form_of_answer(command_line, output):
    assert command_line.run("simulate", "--cases", "-", "-o", output) == 2
    assert "--cases answers lines of JSON: leave out --output" in command_line.err


def test_every_annotation_that_would_be_written_is_shown(simulated):
    asked = pod("p1", mem=3000)
    asked["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "forged"}

    _, found = simulated(NODE, asked)

    written = found["p1"]["written"]
    binding = {key: text for key, text in written["binding"].items() if not key.endswith("-time")}
    assert written["admission"] == {"hami.io/vgpu-devices-allocated": None}
    assert binding == {
        "hami.io/vgpu-node": "node-a",
        "hami.io/vgpu-devices-to-allocate": "GPU-a1,NVIDIA,3000,0:;",
        "hami.io/vgpu-devices-allocated": "GPU-a1,NVIDIA,3000,0:;",
        "hami.io/bind-phase": "allocating",
    }
    assert written["node"] == {"hami.io/mutex.lock": "2026-01-15T10:00:30Z,default,p1"}


NOW = {"name": "x", "now": "2026-01-15T10:00:00Z"}


@pytest.mark.parametrize(
    "case", [{}, {"flags": None}, {"record": None}, {"nodes": None, "pods": None, "earlier": None}]
)
def test_what_a_case_leaves_out_is_nothing(case):
    assert simulate_cases.answer(NOW | case) == {"devices": {}}


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ({"nodes": [{"status": {}}]}, "nodes[0].metadata.name is missing"),
        ({"nodes": [NODE, {"metadata": {"name": ""}}]}, "nodes[1].metadata.name is missing"),
        ({"pods": [{"metadata": None}]}, "pods[0].metadata.name is missing"),
        (
            {"nodes": [{"metadata": {"name": 7}}]},
            "nodes[0].metadata.name: a text is wanted, got 7",
        ),
        ({"nodes": [None]}, "nodes[0]: an object is wanted, got None"),
        ({"nodes": {}}, "nodes: a list is wanted, got an object"),
        ({"pod": []}, "pod: an object is wanted, got a list"),
        ({"flags": 1}, "flags: an object is wanted, got 1"),
        ({"flags": {"device_config": 1}}, "flags.device_config: an object is wanted, got 1"),
        (
            {"flags": {"colour": 1}},
            "flags.colour: there is no such flag; known are node_scheduler_policy, "
            "gpu_scheduler_policy, force_overwrite_default_scheduler, device_config",
        ),
        (
            {"earlier": [{"seconds_before": 1, "nodes": [{}]}]},
            "earlier[0].nodes[0].metadata.name is missing",
        ),
        ({"earlier": [{}]}, "earlier[0].seconds_before: a number from 0 to 1000000000 is wanted"),
        ({"kind": "pod_encode"}, "value is missing"),
        ({"kind": "pod_encode", "value": [3]}, "value[0]: a list is wanted, got 3"),
        (
            {"kind": "pod_encode", "value": [[], [{"uuid": "GPU-a0"}]]},
            "value[1][0].type: a text is wanted, got None",
        ),
    ],
)
def test_what_is_wrong_with_a_case_is_said_with_its_path(case, sentence):
    with pytest.raises(errors.DecodeError) as caught:
        simulate_cases.answer(NOW | case)

    assert str(caught.value) == f"the case: {sentence}"
