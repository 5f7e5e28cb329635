"""The filter's answers against those that HAMi v2.10.0 gave to the same questions."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support import recorded_filter, vendor_vectors
from vgpu_operator.model import reason
from vgpu_operator.scheduling import choose, fit
from vgpu_operator.wire import pod_devices

FILES: Final = ("nvidia-fit", "nvidia-policy", "nvidia-usage", "random")
CASES: Final = {case["name"]: case for case in vendor_vectors.cases(*FILES)}

EMPTY_SEGMENTS: Final = "one segment per container, also where HAMi leaves the empty ones out"
NAMES_CONDITION: Final = "node unregistered names the condition that failed"
NAMES_HOLDER: Final = "a card that takes nobody names the pod whose MIG instances are not known"
NUMA_FIRST: Final = (
    "topology-aware with numa-bind takes the NUMA node that numa-bind takes; "
    "HAMi looks at the last one only"
)

DIFFERENCES: Final[Mapping[str, str]] = {
    "nvidia/fit/sixteen-cards-ties": (
        "equal cards go by index; HAMi's order among more than 12 is its sorting routine's"
    ),
    "nvidia/fit/devmem-zero-pct": "a percentage of a card without memory does not fit",
    "nvidia/fit/node-no-devices": NAMES_CONDITION,
    "nvidia/simulation/no-annotation": NAMES_CONDITION,
    "nvidia/simulation/handshake-expired": NAMES_CONDITION,
    "nvidia/policy/topo-numa-last-group-short": NUMA_FIRST,
    "nvidia/usage/terminating": "a terminating pod is charged until it is gone",
    "nvidia/usage/malformed-fields": "an unreadable promise keeps new pods off the node",
    "nvidia/usage/mem-over-int32": "an unreadable promise keeps new pods off the node",
    "nvidia/usage/self-refilter": "a bound pod keeps its cards when it is filtered again",
    "nvidia/fit/mig-cores-50": "a MIG profile needs as many cores as are asked for",
    "nvidia/fit/mig-allocation-on-hami-core-card": NAMES_HOLDER,
    "nvidia/fit/mig-allocation-unknown-card": NAMES_HOLDER,
    "nvidia/fit/mig-used-bad-allocation": NAMES_HOLDER,
    "nvidia/fit/mig-legacy-uuid": "a share of a MIG instance is charged to its card",
    "nvidia/fit/mig-side-first": EMPTY_SEGMENTS,
    "random/117": EMPTY_SEGMENTS,
    "random/004": EMPTY_SEGMENTS,
    "random/076": EMPTY_SEGMENTS,
    "random/082": EMPTY_SEGMENTS,
    "random/093": EMPTY_SEGMENTS,
    "random/110": EMPTY_SEGMENTS,
    "random/145": EMPTY_SEGMENTS,
    "random/149": EMPTY_SEGMENTS,
    "random/159": EMPTY_SEGMENTS,
    "random/177": EMPTY_SEGMENTS,
}
"""Where we answer differently on purpose. Exact: a case that is listed must differ."""


def why_not_ours(case: Mapping[str, Any]) -> str:
    """Return why a question lies outside of what these layers answer today."""
    expect = case["expect"]
    if not expect.get("filter", {}).get("called"):
        return "the filter was not asked"
    if not any(expect["requests"]):
        return "the pod asks for nothing: the flow answers"
    if any(vendor != recorded_filter.VENDOR for asked in expect["requests"] for vendor in asked):
        return "asks for another vendor"
    if "quotas" in case:
        return "quota is checked elsewhere"
    if expect["filter"]["error"]:
        return "the pod's weights cannot be read: the request says so, not the filter"
    return ""


def difference(case: Mapping[str, Any]) -> str:
    """Return how our answer differs from every answer that HAMi gave; empty when not."""
    found = [_difference(case, answer) for answer in recorded_filter.answers(case)]
    return "" if "" in found else found[0]


def _difference(case: Mapping[str, Any], answer: recorded_filter.Answer) -> str:
    view = recorded_filter.build_ledger(case).snapshot()
    wish = recorded_filter.build_request(case)
    defaults = recorded_filter.build_defaults(case)
    names = [node["metadata"]["name"] for node in case["nodes"]]
    found = fit.place(view, names, wish, defaults)
    scores = zip(found.fitting, found.raw_scores.tolist(), strict=True)
    if {name: f"{score:.2f}" for name, score in scores} != answer.scores:
        return "other scores"
    if answer.node is None:
        texts = {name: why.text for name, why in found.rejections.items()}
        return "" if texts == answer.failed else "other reasons"
    best = max(found.scores(1_000_000).tolist())
    if found.scores(1_000_000).tolist()[found.fitting.index(answer.node)] != best:
        return "another node"
    chosen = choose.choose(view, answer.node, wish, defaults)
    if isinstance(chosen, reason.NodeRejection):
        return "the node is refused"
    text = pod_devices.encode_pod_devices(chosen.shares[recorded_filter.VENDOR])
    if text == answer.allocated:
        return ""
    if [part for part in text.split(";") if part] == [
        part for part in answer.allocated.split(";") if part
    ]:
        return "other empty segments"
    return "other cards"


OURS: Final = sorted(name for name, case in CASES.items() if not why_not_ours(case))


def test_the_questions_outside_are_those_that_a_rule_names() -> None:
    outside: dict[str, int] = {}
    for case in CASES.values():
        why = why_not_ours(case)
        outside[why] = outside.get(why, 0) + 1

    assert outside == {
        "": 237,
        "the filter was not asked": 14,
        "the pod asks for nothing: the flow answers": 1,
        "asks for another vendor": 1,
        "quota is checked elsewhere": 4,
        "the pod's weights cannot be read: the request says so, not the filter": 6,
    }
    assert set(DIFFERENCES) <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_the_answer_is_hamis_unless_it_differs_on_purpose(name: str) -> None:
    found = difference(CASES[name])

    assert bool(found) == (name in DIFFERENCES), found or f"no longer: {DIFFERENCES[name]}"


@pytest.mark.parametrize(
    "name", sorted(name for name, why in DIFFERENCES.items() if why == EMPTY_SEGMENTS)
)
def test_only_the_empty_segments_differ_there(name: str) -> None:
    assert difference(CASES[name]) == "other empty segments"


@pytest.mark.parametrize(
    "name", sorted(name for name, why in DIFFERENCES.items() if why == NAMES_CONDITION)
)
def test_only_the_condition_is_added_there(name: str) -> None:
    case = CASES[name]
    view = recorded_filter.build_ledger(case).snapshot()
    wish = recorded_filter.build_request(case)

    found = fit.place(view, ["node-a"], wish, recorded_filter.build_defaults(case))

    assert recorded_filter.answers(case)[0].failed == {"node-a": "node unregistered"}
    assert found.rejections["node-a"].text.startswith("node unregistered: ")
