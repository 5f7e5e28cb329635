"""Cases from real use, area L: a cluster autoscaler asks about nodes that do not exist."""

from typing import Any

import pytest

from support import operator_books
from support.case_cluster import REG1, node
from support.extender_calls import Client, extender, pod
from support.operator_books import used_mib

Json = dict[str, Any]

P_11000_100 = pod("p1", mem=11000, **{"nvidia.com/gpucores": "100"})
TEMPLATE = node(*REG1, name="template")
FRESH = {"metadata": {"name": "fresh"}, "status": {"allocatable": {"nvidia.com/gpu": "10"}}}


async def ask(client: Client, *nodes: Json, raw: Json = P_11000_100) -> Json:
    """Ask as the autoscaler does: with whole Node objects."""
    answer: Json = await client.ask("/filter", {"Pod": raw, "Nodes": {"items": [*nodes]}})
    return answer


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
async def test_case_167_a_template_node_is_judged_from_its_object_and_nothing_else_changes(
    leads: bool,
) -> None:
    async with extender() as client:
        shell = client.shell
        shell.books.leader = leads
        shell.not_serving = "" if leads else "this replica does not lead"
        shell.put_node()
        path = shell.put_pod("p1", mem=11000)
        before = shell.books.ledger.generation, dict(shell.notes(path))
        shell.kube.requests.clear()

        answer = await ask(client, TEMPLATE)

        assert answer["Nodes"]["items"] == [TEMPLATE], "whole, as it was given"
        assert answer["NodeNames"] is None
        assert answer["Error"] == ""
        assert (shell.books.ledger.generation, dict(shell.notes(path))) == before
        assert shell.books.nodes.keys() == {"node-a"}
        assert len(shell.sink) == 0
        assert shell.kube.requests == []


async def test_case_167_a_template_that_does_not_fit_makes_no_event_and_no_refusal() -> None:
    async with extender() as client:
        shell = client.shell
        answer = await ask(client, TEMPLATE, raw=pod("p1", mem=24577))

        assert answer["Nodes"]["items"] == []
        assert answer["FailedAndUnresolvableNodes"] == {"template": "1/1 CardInsufficientMemory"}
        assert len(shell.sink) == 0
        assert shell.books.refused == {}


async def test_case_167_templates_reserve_nothing_for_the_next_question_or_the_real_pod() -> None:
    """A hundred pods are asked about one after the other; each finds the template empty."""
    whole = pod("p1", mem=24576)
    async with extender() as client:
        shell = client.shell
        shell.put_node()
        for _ in range(3):
            assert (await ask(client, TEMPLATE, raw=whole))["Nodes"]["items"] == [TEMPLATE]
        named = {**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "name": "node-a"}}
        await ask(client, named, raw=whole)

        answer = await client.ask("/filter", {"Pod": pod("p2", mem=24576), "NodeNames": ["node-a"]})

        assert answer["NodeNames"] == ["node-a"]
        assert used_mib(shell.books) == {"GPU-a0": 0}


async def test_case_168_a_fresh_node_is_unregistered_until_its_cards_are() -> None:
    registered = {
        **FRESH,
        "metadata": {
            "name": "fresh",
            "annotations": {"hami.io/node-nvidia-register": operator_books.ONE_CARD},
        },
    }
    async with extender() as client:
        before = await ask(client, FRESH, TEMPLATE)
        after = await ask(client, registered)

    failed = before["FailedNodes"] | before["FailedAndUnresolvableNodes"]
    assert failed.keys() == {"fresh"}
    assert failed["fresh"].startswith("node unregistered")
    assert before["Nodes"]["items"] == [TEMPLATE]
    assert after["Nodes"]["items"] == [registered]
