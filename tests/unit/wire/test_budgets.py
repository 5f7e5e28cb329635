"""Which pods a PodDisruptionBudget covers, as Kubernetes reads its selector."""

import pytest

from vgpu_operator.wire import budgets


def budget(selector: object = None, **status: object) -> budgets.budgets.Budget:
    """Return what is read of a budget; without a selector when None."""
    spec = {} if selector is None else {"selector": selector}
    raw = {"metadata": {"namespace": "team-a", "name": "web"}, "spec": spec, "status": status}
    return budgets.decode_budget(raw)


def expression(operator: str, *values: str, key: str = "tier") -> dict[str, object]:
    """Return a selector of one expression."""
    found: dict[str, object] = {"key": key, "operator": operator}
    if values:
        found["values"] = list(values)
    return {"matchExpressions": [found]}


@pytest.mark.parametrize(
    ("selector", "labels", "covered"),
    [
        ({"matchLabels": {"app": "web"}}, {"app": "web", "tier": "gold"}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "db"}, False),
        ({"matchLabels": {"app": "web", "tier": "gold"}}, {"app": "web"}, False),
        (expression("In", "gold", "silver"), {"tier": "silver"}, True),
        (expression("In", "gold", "silver"), {}, False),
        (expression("NotIn", "gold"), {"tier": "silver"}, True),
        (expression("NotIn", "gold"), {"tier": "gold"}, False),
        (expression("NotIn", "gold"), {}, True),
        (expression("Exists"), {"tier": ""}, True),
        (expression("Exists"), {}, False),
        (expression("DoesNotExist"), {}, True),
        (expression("DoesNotExist"), {"tier": ""}, False),
        ({"matchLabels": {"app": "web"}, **expression("Exists")}, {"app": "web"}, False),
        ({"matchLabels": {"app": "web"}, **expression("Exists")}, {"app": "web", "tier": ""}, True),
        ({}, {}, True),
        ({}, {"app": "web"}, True),
        (None, {"app": "web"}, False),
    ],
)
def test_a_selector_covers_the_pods_that_all_of_it_holds_of(selector, labels, covered):
    assert budget(selector).covers("team-a", labels) is covered


def test_a_budget_covers_no_pod_of_another_namespace():
    assert not budget({}).covers("team-b", {})


@pytest.mark.parametrize(
    "selector",
    [
        [],
        {"matchLabels": ["app"]},
        {"matchLabels": {"app": 7}},
        {"matchExpressions": {"key": "tier", "operator": "Exists"}},
        {"matchExpressions": [None]},
        expression("Like", "gold"),
        expression("In"),
        expression("Exists", "gold"),
        expression("In", "gold", key=""),
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": [7]}]},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": "gold"}]},
    ],
)
def test_a_selector_that_the_api_server_would_not_take_covers_nobody(selector):
    assert not budget(selector).covers("team-a", {"app": "web", "tier": "gold"})


@pytest.mark.parametrize(
    ("written", "allowed"), [(2, 2), (0, 0), (-1, 0), (None, 0), ("2", 0), (True, 0), (1.5, 0)]
)
def test_what_no_number_says_is_allowed_is_not(written, allowed):
    assert budget({}, disruptionsAllowed=written).allowed == allowed


def test_pods_whose_eviction_was_counted_already_are_known_by_name():
    assert budget({}, disruptedPods={"web-0": "2026-01-15T10:00:00Z"}).disrupted == {"web-0"}


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "lets_go"),
    [
        ("AlwaysAllow", 0, 3, True),
        ("IfHealthyBudget", 2, 3, False),
        ("IfHealthyBudget", 3, 3, True),
        (None, 2, 3, False),
        (None, 3, 3, True),
        (None, 4, 3, True),
        (None, 0, 0, False),
        (None, None, None, False),
        ("Other", 2, 3, False),
    ],
)
def test_when_pods_that_are_not_ready_may_go_whatever_is_allowed(policy, healthy, desired, lets_go):
    """As ``pkg/registry/core/pod/storage/eviction.go`` of Kubernetes 1.36 has it."""
    found = budgets.decode_budget(
        {
            "metadata": {"namespace": "team-a", "name": "web"},
            "spec": {"selector": {}, "unhealthyPodEvictionPolicy": policy},
            "status": {"currentHealthy": healthy, "desiredHealthy": desired},
        }
    )

    assert found.lets_unready_go is lets_go
