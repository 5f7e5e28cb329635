"""A card that falls ill takes no new pod until it is well again (issue 9, must hold 3)."""

import pytest

from support import node_chain
from support import real_node as on_node
from support.node_chain import RESOURCE, SLOTS, Chain, asking

pytestmark = pytest.mark.apiserver

MOST_MIB = 20000
"""So much that a card has room for one such pod."""


async def test_a_card_that_is_unhealthy_takes_no_pod_until_it_is_healthy_again(
    chain: Chain, real_namespace: str
) -> None:
    for name in ("one", "two"):
        await chain.create(real_namespace, name, asking("main", MOST_MIB))
    running = {
        pod["metadata"]["name"]: pod
        for name in ("one", "two")
        for pod in [await chain.assert_sees_its_slices(real_namespace, name)]
    }
    (on_first,) = [
        name
        for name, pod in running.items()
        if (await chain.slices(pod))["main"]["NVIDIA_VISIBLE_DEVICES"] == chain.card(0)
    ]

    told = await chain.node_events()
    # put_cards waits until kubelet and operator count the healthy card only.
    await chain.put_cards(2, sick=(0,))

    assert await chain.allocatable() == SLOTS
    ill = await chain.next_event("CardUnhealthy", after=told)
    assert (ill["type"], chain.card(0) in ill["message"]) == ("Warning", True)
    cards = (await chain.state(f"nodes/{chain.node.name}"))["cards"]
    assert {card["id"]: bool(card["state"]) for card in cards} == {
        chain.card(0): True,
        chain.card(1): False,
    }
    for name, pod in running.items():
        after = await chain.running(real_namespace, name)
        assert node_chain.runs_of(after) == node_chain.runs_of(pod)
    await chain.until_all_agree()

    # Its holder leaves: there is room again, but on a sick card.
    await on_node.delete(chain.kube, real_namespace, on_first)
    await chain.until_gone(real_namespace, on_first)
    await chain.create(real_namespace, "three", asking("main", MOST_MIB))
    await chain.until_unplaced(real_namespace, "three")

    await chain.put_cards(2)

    assert await chain.allocatable() == 2 * SLOTS
    well = await chain.next_event("CardHealthy", after=told)
    assert (well["type"], chain.card(0) in well["message"]) == ("Normal", True)
    three = await chain.assert_sees_its_slices(real_namespace, "three")
    assert (await chain.slices(three))["main"]["NVIDIA_VISIBLE_DEVICES"] == chain.card(0)
    await chain.until_all_agree()


async def test_a_node_whose_cards_are_all_unhealthy_offers_nothing_and_keeps_its_pods(
    chain: Chain, real_namespace: str
) -> None:
    await chain.create(real_namespace, "stays", asking("main", 3000))
    before = await chain.assert_sees_its_slices(real_namespace, "stays")

    await chain.put_cards(2, sick=(0, 1))
    await chain.create(real_namespace, "waits", asking("main", 3000))

    await chain.until_unplaced(real_namespace, "waits")
    assert await chain.allocatable() == 0
    capacity = (await chain.kube_node())["status"]["capacity"]
    assert int(capacity[RESOURCE]) == 2 * SLOTS
    after = await chain.running(real_namespace, "stays")
    assert node_chain.runs_of(after) == node_chain.runs_of(before)

    await chain.put_cards(2)
    await chain.assert_sees_its_slices(real_namespace, "waits")
    await chain.until_all_agree()
