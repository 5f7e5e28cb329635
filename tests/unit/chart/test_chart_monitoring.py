"""Alert rules fire when they should, each has a runbook; dashboards and rules are in the chart."""

import json
import re
from pathlib import Path
from typing import Any

import dashboards
import metric_docs
import pytest
import yaml

from support.helm import CHART, NAMESPACE, ROOT, Helm, one
from support.prometheus import Programs

RULES_FILE = CHART / "files" / "alert-rules.yaml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
]
ALERTS = [rule["alert"] for rule in RULES]
TESTS = ROOT / "tests" / "golden" / "alert-tests.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"

_NAME = re.compile(r"\b((?:vgpu|hami)_[a-z_]+)\b")


def known(names: set[str]) -> set[str]:
    """Return those of these names that some page of the operator has."""
    return names & metric_docs.names()


def test_the_rules_are_ones_that_prometheus_reads(prometheus_programs: Programs) -> None:
    answer = prometheus_programs.tool("check", "rules", str(RULES_FILE))

    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_each_rule_fires_when_it_should_and_none_while_all_is_well(
    prometheus_programs: Programs,
) -> None:
    answer = prometheus_programs.tool("test", "rules", str(TESTS))

    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_alert_is_seen_firing_and_not_firing() -> None:
    healthy, *ill = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {
        case["alertname"]
        for test in ill
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }

    assert {case["alertname"] for case in healthy["alert_rule_test"]} == set(ALERTS)
    assert fired == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_runbook_that_says_what_it_means_and_what_to_do(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text()

    assert text.startswith(f"# {alert}: ")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["What it means", "How to look", "What to do"]
    assert f"[{alert}]({alert}.md)" in (RUNBOOKS / "README.md").read_text()


def test_there_is_no_runbook_without_its_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Vgpu*.md")} == set(ALERTS)


@pytest.mark.parametrize("rule", RULES, ids=ALERTS)
def test_an_alert_asks_for_series_that_exist(rule: dict[str, Any]) -> None:
    names = set(_NAME.findall(rule["expr"]))

    assert names
    assert names == known(names)


@pytest.mark.parametrize("board", dashboards.BOARDS, ids=lambda board: board.uid)
def test_a_dashboard_asks_for_series_that_exist(board: dashboards.Board) -> None:
    asked = [query.expr for row in board.rows for panel in row.panels for query in panel.queries]
    names = {name for expr in asked for name in _NAME.findall(expr)}
    names |= {variable.metric for variable in board.variables}

    assert names
    assert names == known(names)


RATIOS_TO_1 = ("hami_node_gpu_memory_allocated_ratio",)
"""Ratios from 0 to 1; all others are in percent of one card."""


@pytest.mark.parametrize("board", dashboards.BOARDS, ids=lambda board: board.uid)
def test_no_full_card_reads_1_percent(board: dashboards.Board) -> None:
    """HAMi's own dashboard shows a ratio of 0 to 1 as percent."""
    for row in board.rows:
        for panel in row.panels:
            for query in panel.queries:
                is_alone = re.fullmatch(r"(hami_\w+_ratio)\{[^}]*\}", query.expr)
                if is_alone is not None:
                    to_1 = is_alone[1] in RATIOS_TO_1
                    assert panel.unit == ("percentunit" if to_1 else "percent"), panel.title
                    assert panel.full == (1.0 if to_1 else 100.0), panel.title
                elif "/" in query.expr and "hami_" in query.expr:
                    assert panel.unit == "percentunit", panel.title


@pytest.mark.parametrize("board", dashboards.BOARDS, ids=lambda board: board.uid)
def test_a_dashboards_file_says_what_every_panel_is_and_reads_one_data_source(
    board: dashboards.Board,
) -> None:
    found = json.loads((CHART / "dashboards" / f"{board.uid}.json").read_text())

    panels = [panel for panel in found["panels"] if panel["type"] != "row"]
    assert len(panels) == sum(len(row.panels) for row in board.rows)
    assert all(panel["title"] and panel["description"] for panel in panels)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
    sources = {part["datasource"]["uid"] for panel in panels for part in (panel, *panel["targets"])}
    assert sources == {"${datasource}"}
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)


def test_neither_dashboards_nor_rules_are_made_unless_asked_for(helm: Helm) -> None:
    kinds = [(item["kind"], item["metadata"]["name"]) for item in helm.template()]

    assert not [name for kind, name in kinds if kind == "PrometheusRule"]
    assert not [name for kind, name in kinds if kind == "ConfigMap" and "vgpu-cards" in name]


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds(helm: Helm) -> None:
    values = {
        "dashboards": {
            "enabled": True,
            "label": "my-dashboards",
            "labelValue": "yes",
            "annotations": {"grafana_folder": "vGPU"},
            "namespace": "monitoring",
        }
    }

    found = [
        item
        for item in helm.template(values)
        if item["metadata"]["labels"].get("my-dashboards") == "yes"
    ]

    assert len(found) == len(dashboards.BOARDS)
    assert {item["metadata"]["namespace"] for item in found} == {"monitoring"}
    assert found[0]["metadata"]["annotations"] == {"grafana_folder": "vGPU"}
    data = {name: text for item in found for name, text in item["data"].items()}
    for board in dashboards.BOARDS:
        assert json.loads(data[f"{board.uid}.json"])["title"] == board.title


def test_a_label_that_is_given_twice_is_written_once(helm: Helm) -> None:
    twice = {"labels": {"release": "prometheus", "app.kubernetes.io/part-of": "mine"}}
    objects = helm.template(
        {
            "global": {"labels": {"release": "everywhere"}},
            "prometheusRule": {"enabled": True, **twice},
            "prometheus": {"enabled": True, **twice},
            "dashboards": {"enabled": True, "label": "release", "labelValue": "grafana"},
        }
    )

    def release_of(kind: str) -> set[str]:
        return {item["metadata"]["labels"]["release"] for item in objects if item["kind"] == kind}

    assert release_of("PrometheusRule") == {"prometheus"}
    assert release_of("ServiceMonitor") == {"prometheus"}
    assert release_of("ConfigMap") == {"everywhere", "grafana"}


def test_a_dashboard_without_a_label_is_refused_with_a_sentence(helm: Helm) -> None:
    said = helm.refusal({"dashboards": {"enabled": True, "label": ""}})

    assert "/dashboards/label" in said


def test_series_that_any_process_has_are_asked_of_the_operator_only() -> None:
    exprs = [
        query.expr
        for board in dashboards.BOARDS
        for row in board.rows
        for panel in row.panels
        for query in panel.queries
        if "process_" in query.expr
    ]

    assert len(exprs) == 2
    assert all(expr.endswith(" and on (instance, job) vgpu_leader") for expr in exprs)


def test_the_rules_are_an_object_with_the_address_of_each_runbook(
    helm: Helm, prometheus_programs: Programs, tmp_path: Path
) -> None:
    base = "https://docs.example.com/runbooks/"
    values = {"enabled": True, "labels": {"release": "prometheus"}, "runbookUrl": base}

    made = one(helm.template({"prometheusRule": values}), "PrometheusRule")

    assert made["metadata"]["labels"]["release"] == "prometheus"
    assert made["metadata"]["namespace"] == NAMESPACE
    rules = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
    assert [rule["annotations"].pop("runbook_url") for rule in rules] == [
        f"{base}{alert}" for alert in ALERTS
    ]
    assert rules == RULES
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(made["spec"]))
    assert prometheus_programs.tool("check", "rules", str(tmp_path / "rules.yaml")).returncode == 0


def test_hamis_value_for_older_names_reaches_the_operator_and_keeps_other_settings(
    helm: Helm,
) -> None:
    values = {"legacyMetrics": True, "settings": {"metrics": {"webUiNames": True}}}

    config = one(helm.template(values), "ConfigMap", "-scheduler")

    settings = yaml.safe_load(config["data"]["settings.yaml"])
    assert settings["metrics"] == {"legacyNames": True, "webUiNames": True}
