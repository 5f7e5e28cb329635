"""``vgpu simulate --preempt``: who would be evicted, from files alone."""

import json

import pytest

from support import simulate_files
from support.simulate_files import MIB


def node(name, cards=1):
    return simulate_files.node(name, *(f"GPU-{name}{index}" for index in range(cards)))


def pod(name, mem, **spec):
    return simulate_files.pod(name, mem=mem, **spec)


def runs(name, card, mem, **spec):
    """A pod that runs with a share of a card; the card's name says on which node."""
    home = card.removeprefix("GPU-")[:-1]
    found = simulate_files.holder(name, card, mem, node=home, **spec)
    found["metadata"]["labels"] = {"app": name}
    found["status"] = {"phase": "Running", "startTime": "2026-01-15T09:00:00Z"}
    return found


def priority_class(name, value, **more):
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **more}


def budget(app, allowed):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"keep-{app}"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


HIGH = priority_class("high", 1000)


@pytest.fixture
def simulated(command_line, tmp_path):
    """Write objects to a file, place them with --preempt; return exit code and items by pod."""

    def run(*objects, output="json", settings=None):
        file = tmp_path / "all.json"
        file.write_text(json.dumps({"kind": "List", "items": objects}), encoding="utf-8")
        more = []
        if settings is not None:
            config = tmp_path / "config.json"
            config.write_text(json.dumps({"preemption": settings}), encoding="utf-8")
            more = ["--config", str(config)]
        code = command_line.run("simulate", "-f", str(file), "--preempt", "-o", output, *more)
        if output != "json":
            return code, command_line.out
        return code, {item["pod"]: item for item in json.loads(command_line.out)["items"]}

    return run


def victims(item):
    return [one["pod"] for one in item["preemption"]["victims"]]


def test_the_fewest_pods_of_the_lowest_priority_are_named(simulated):
    code, found = simulated(
        node("a", cards=2),
        runs("half", "GPU-a0", MIB // 2),
        runs("other-half", "GPU-a0", MIB // 2),
        runs("whole", "GPU-a1", MIB),
        HIGH,
        pod("urgent", MIB, priorityClassName="high"),
    )

    assert code == 0
    item = found["urgent"]
    assert (item["fits"], item["node"], item["priority"]) == (False, "", 1000)
    assert item["preemption"] == {
        "outcome": "evicts",
        "node": "a",
        "victims": [
            {"namespace": "default", "pod": "whole", "priority": 0, "budgetsBroken": []},
        ],
        "sentence": "Evicting default/whole (priority 0) from a makes room for it.",
    }
    assert [share["card"] for share in item["shares"]] == ["GPU-a1"]


def test_a_pod_that_fits_evicts_nobody(simulated):
    code, found = simulated(node("a"), HIGH, pod("urgent", MIB, priorityClassName="high"))

    assert code == 0
    assert found["urgent"]["fits"]
    assert "preemption" not in found["urgent"]


def test_what_is_held_for_one_pod_is_not_promised_to_the_next(simulated):
    code, found = simulated(
        node("a"),
        node("b"),
        runs("low-a", "GPU-a0", MIB),
        runs("low-b", "GPU-b0", MIB),
        HIGH,
        *(pod(f"urgent-{number}", MIB, priorityClassName="high") for number in range(3)),
    )

    assert code == 1
    names = [victims(found[f"urgent-{number}"]) for number in range(3)]
    assert sorted(names[:2]) == [["low-a"], ["low-b"]]
    assert found["urgent-2"]["preemption"]["outcome"] == "none"


def test_a_budget_that_allows_none_keeps_its_pods(simulated):
    holder, urgent = runs("web", "GPU-a0", MIB), pod("urgent", MIB, priorityClassName="high")
    code, found = simulated(node("a"), holder, HIGH, budget("web", 0), urgent)

    assert code == 1
    preemption = found["urgent"]["preemption"]
    assert (preemption["outcome"], preemption["node"]) == ("blocked", "")
    assert preemption["victims"][0]["budgetsBroken"] == ["default/keep-web"]
    assert (
        "PodDisruptionBudget default/keep-web allows no more evictions now"
        in (found["urgent"]["message"])
    )
    assert simulated(node("a"), holder, HIGH, budget("web", 1), urgent)[0] == 0


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ({"preemptionPolicy": "Never"}, None, "its preemptionPolicy is Never"),
        ({}, {"enabled": False}, "preemption.enabled is off"),
        ({}, {"exemptNamespaces": ["default"]}, "preemption.exemptNamespaces holds its namespace"),
        ({}, {"exemptPriorityClasses": ["high"]}, "preemption.exemptPriorityClasses holds its"),
        ({}, {"minPriorityGap": 1001}, "less than preemption.minPriorityGap (1001) below"),
        ({"priorityClassName": "low"}, None, "without pods of a lower priority than its own (10)"),
    ],
    ids=["never", "off", "namespace", "class", "gap", "equal"],
)
def test_why_nobody_is_evicted_is_said(simulated, spec, settings, words):
    code, found = simulated(
        node("a"),
        runs("holder", "GPU-a0", MIB, priority=10 if "priorityClassName" in spec else 0),
        HIGH,
        priority_class("low", 10),
        pod("urgent", MIB, **{"priorityClassName": "high", **spec}),
        settings=settings,
    )

    assert code == 1
    assert words in found["urgent"]["message"]
    assert found["urgent"]["preemption"]["victims"] == []


def test_an_exempt_victim_is_the_reason(simulated):
    _, found = simulated(
        node("a"),
        runs("holder", "GPU-a0", MIB, priorityClassName="batch"),
        HIGH,
        priority_class("batch", 0),
        pod("urgent", MIB, priorityClassName="high"),
        settings={"exemptPriorityClasses": ["batch"]},
    )

    assert "whose leaving would help are exempt" in found["urgent"]["message"]


def test_a_class_that_is_in_no_file_is_told(simulated, command_line):
    urgent = pod("urgent", MIB, priorityClassName="nowhere")
    code, _ = simulated(node("a"), runs("low", "GPU-a0", MIB), urgent)

    assert code == 1
    assert "PriorityClass nowhere of 1 pod is in no file" in command_line.err


def test_the_default_class_counts_for_pods_that_name_none(simulated):
    default = priority_class("usual", 50, globalDefault=True)
    low = runs("low", "GPU-a0", MIB, priority=0)
    code, found = simulated(node("a"), low, default, pod("p", MIB))

    assert (code, found["p"]["priority"]) == (0, 50)
    assert victims(found["p"]) == ["low"]


def test_the_table_says_who_leaves_which_node(simulated):
    urgent = pod("urgent", MIB, priorityClassName="high")
    _, text = simulated(node("a"), runs("low", "GPU-a0", MIB), HIGH, urgent, output="table")

    assert "EVICTS" in text
    assert "default/low from a" in " ".join(text.split())


def test_the_same_files_are_always_answered_alike(simulated):
    objects = [
        *(node(name) for name in "abcdef"),
        *(runs(f"low-{name}", f"GPU-{name}0", MIB) for name in "abcdef"),
        HIGH,
        pod("urgent", MIB, priorityClassName="high"),
    ]
    first = simulated(*objects)
    backwards = simulated(*objects[:6][::-1], *objects[6:12][::-1], *objects[12:])

    assert simulated(*objects) == first
    assert victims(first[1]["urgent"]) == victims(backwards[1]["urgent"])


def test_cases_are_answered_without_preemption(command_line):
    assert command_line.run("simulate", "--cases", "-", "--preempt") != 0
    assert "--preempt needs -f FILE" in command_line.err


def test_a_priority_that_is_no_number_is_told_with_its_place(simulated, command_line):
    code, _ = simulated(node("a"), pod("urgent", MIB, priority="high"), output="table")

    assert code != 0
    assert "spec.priority: a whole number is wanted" in command_line.err
