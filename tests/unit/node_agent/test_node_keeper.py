"""The Node's annotations: written once, kept against everybody else, and the news of its cards."""

import asyncio
from pathlib import Path

import pytest

from support import node_agent_world, waiting
from support.agent_world import REGISTER
from support.node_agent_world import NODE, NODE_PATH, World
from vgpu_operator.flows import effects
from vgpu_operator.kube import errors
from vgpu_operator.node_agent import node_events, node_keeper
from vgpu_operator.wire import node_register

HANDSHAKE = "hami.io/node-handshake"


@pytest.fixture
async def registered(world: World) -> World:
    await world.start_and_register()
    return world


async def until_register(world: World, text: str) -> None:
    await world.kube.until(lambda: world.node_notes.get(REGISTER) == text)


async def test_cards_are_registered_as_hami_s_plugin_does_in_the_order_of_their_index(
    registered: World,
):
    text = registered.node_notes[REGISTER]

    assert text == (
        f'[{{"id":"GPU-{NODE}-0","count":4,"devmem":24576,"devcore":100,'
        '"type":"NVIDIA A10","mode":"hami-core","health":true},'
        f'{{"id":"GPU-{NODE}-1","index":1,"count":4,"devmem":24576,"devcore":100,'
        '"type":"NVIDIA A10","mode":"hami-core","health":true}]'
    )
    cards = node_register.decode_register(text, key=REGISTER).devices
    assert [card.index for card in cards] == [0, 1]


@pytest.mark.parametrize("edit", [None, "", "[]", "nonsense"])
async def test_an_edited_register_text_is_repaired_at_once(registered: World, edit: str | None):
    """HAMi's plugin leaves it until its cards change, or it starts again."""
    right = registered.node_notes[REGISTER]

    registered.write_node({REGISTER: edit})

    await until_register(registered, right)


async def test_a_restart_writes_nothing_that_stands_there_already(registered: World):
    await registered.stop()
    registered.kube.requests.clear()

    await registered.start_and_register()
    await registered.kubelet.until_listed(healthy=8)

    assert registered.kube.sent("PATCH") == []


async def test_a_restart_repairs_what_was_edited_meanwhile(registered: World):
    right = registered.node_notes[REGISTER]
    await registered.stop()
    registered.write_node({REGISTER: "[]"})

    await registered.start()

    await until_register(registered, right)


async def test_a_watch_that_is_too_old_begins_with_a_list(
    registered: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(node_keeper, "RECONNECT_PAUSE_S", 0.0)
    right = registered.node_notes[REGISTER]

    registered.kube.fail_next("WATCHING", "/nodes", errors.Expired("410", status=410))
    registered.write_node({REGISTER: None})

    await until_register(registered, right)


async def test_news_from_before_our_own_write_is_none(registered: World):
    """The answer to a write may be faster than the watch, which then shows the edit once more."""
    keeper = registered.agent.keeper
    written = registered.kube.objects[NODE_PATH]
    older = {"metadata": {**written["metadata"], "resourceVersion": "1", "annotations": {}}}
    registered.kube.requests.clear()

    keeper._take_in(older)
    await waiting.settled()

    assert registered.kube.sent("PATCH") == []
    assert keeper.seen is not None
    assert REGISTER in keeper.seen.annotations


async def test_a_node_that_comes_later_is_registered_then(folder: Path):
    async with node_agent_world.world(folder) as world:
        world.kube.remove(NODE_PATH)
        await world.start()
        await world.kubelet.until_listed(healthy=8)

        world.kube.put(NODE_PATH, {"metadata": {"name": NODE}})

        await world.kube.until(lambda: REGISTER in world.node_notes)


async def test_a_patch_that_fails_is_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(node_keeper, "RECONNECT_PAUSE_S", 0.0)
    world.kube.fail_next("PATCH", NODE_PATH, errors.Unreachable("connection refused"))
    world.kube.fail_next("PATCH", NODE_PATH, errors.Denied("403 forbidden", status=403))

    await world.start_and_register()

    said = capsys.readouterr().out
    assert "connection refused" in said
    assert "403 forbidden" in said


async def test_somebody_who_edits_again_and_again_is_named_and_not_raced(
    registered: World, capsys: pytest.CaptureFixture[str]
):
    said = await fight(registered, capsys)
    registered.write_node({REGISTER: "and another"})
    await waiting.settled()

    assert registered.node_notes[REGISTER] == "and another"
    assert (said + capsys.readouterr().out).count("is another device plugin of this vendor") == 1


async def test_in_a_fight_over_the_annotation_a_card_that_falls_ill_is_registered_at_once(
    registered: World, capsys: pytest.CaptureFixture[str]
):
    await fight(registered, capsys)

    registered.cards.write_text("{cards: 2, slots: 4, failures: {unhealthy: [GPU-node-1-1]}}")

    await registered.kube.until(lambda: health(registered) == [True, False])


async def test_repairs_go_on_after_the_pause(
    registered: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    right = registered.node_notes[REGISTER]
    await fight(registered, capsys)
    since_first_s = asyncio.get_running_loop().time() - registered.agent.keeper._repairs[0]

    monkeypatch.setattr(node_keeper, "REPAIRS_WITHIN_S", since_first_s + 0.2)
    registered.write_node({REGISTER: ""})  # the pause is counted anew

    await until_register(registered, right)


async def test_cards_that_change_often_are_no_fight(
    registered: World, capsys: pytest.CaptureFixture[str]
):
    sick, well = (
        "{cards: 2, slots: 4, failures: {unhealthy: [GPU-node-1-1]}}",
        "{cards: 2, slots: 4}",
    )
    for number in range(node_keeper.MOST_REPAIRS + 1):
        registered.cards.write_text(well if number % 2 else sick)
        await registered.kube.until(
            lambda wanted=[True, bool(number % 2)]: health(registered) == wanted
        )

    assert "is another device plugin" not in capsys.readouterr().out


async def fight(world: World, capsys: pytest.CaptureFixture[str]) -> str:
    """Edit the annotation until the agent no longer repairs it; return what it has said."""
    right = world.node_notes[REGISTER]
    for _ in range(node_keeper.MOST_REPAIRS):
        world.write_node({REGISTER: "[]"})
        await until_register(world, right)
    world.write_node({REGISTER: "[]"})
    said = [""]

    def is_named() -> bool:
        said[0] += capsys.readouterr().out
        return "is another device plugin of this vendor running here?" in said[0]

    await node_agent_world.until(is_named)
    assert world.node_notes[REGISTER] == "[]"
    return said[0]


# Handshake.


async def test_nvidia_s_plugin_answers_no_handshake(registered: World):
    registered.write_node({HANDSHAKE: "Requesting_2026-01-15 09:59:00", REGISTER: None})

    await registered.kube.until(lambda: REGISTER in registered.node_notes)

    assert registered.node_notes[HANDSHAKE] == "Requesting_2026-01-15 09:59:00"


@pytest.mark.parametrize(
    ("skew_s", "report"),
    [(0.0, "Reported_2026-01-15 10:00:00"), (-90.0, "Reported_2026-01-15 09:58:30")],
)
async def test_a_vendor_that_reports_answers_the_scheduler_s_request(
    world: World, skew_s: float, report: str
):
    """The switch ``clock skew`` shows in what the agent writes."""
    key = "hami.io/node-handshake-xpu"
    world.cards.write_text("{cards: 1, vendor: XPU}")
    await world.start(clock_skew_s=skew_s)
    await world.kube.until(lambda: world.node_notes.get(key) == report)

    world.write_node({key: "Requesting_2026-01-15 10:00:15"})

    await world.kube.until(lambda: world.node_notes.get(key) == report)


# Cards.


async def test_a_card_s_health_is_registered_and_told_as_events_of_the_node(registered: World):
    """Must hold 3."""
    registered.cards.write_text("{cards: 2, slots: 4, failures: {unhealthy: [GPU-node-1-1]}}")
    await registered.kube.until(lambda: len(registered.events()) == 1)
    await registered.kube.until(lambda: health(registered) == [True, False])

    registered.cards.write_text("{cards: 2, slots: 4}")
    await registered.kube.until(lambda: len(registered.events()) == 2)
    await registered.kube.until(lambda: health(registered) == [True, True])

    assert registered.events() == [
        (
            "CardUnhealthy",
            "card GPU-node-1-1 (index 1, NVIDIA A10) is not healthy: it takes no new pod; pods "
            "that use it stay",
        ),
        ("CardHealthy", "card GPU-node-1-1 (index 1, NVIDIA A10) is healthy again"),
    ]
    event = registered.kube.sent("POST", "/events")[0].body
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": NODE,
        "uid": NODE,
    }
    assert (event["type"], event["firstTimestamp"]) == ("Warning", "2026-01-15T10:00:00Z")


async def test_cards_that_leave_and_come_are_registered(registered: World):
    registered.cards.write_text("{cards: 3, slots: 4}")
    await registered.kube.until(lambda: len(health(registered)) == 3)
    await registered.kubelet.until_listed(healthy=12)

    registered.cards.write_text("{cards: 1, slots: 4}")
    await registered.kube.until(lambda: len(health(registered)) == 1)
    await registered.kubelet.until_listed(healthy=4)

    assert [reason for reason, _ in registered.events()] == ["CardGone", "CardGone"]


async def test_an_event_that_cannot_be_sent_stops_nothing(registered: World):
    registered.kube.fail_next("POST", "/events", errors.Denied("403 forbidden", status=403))

    registered.cards.write_text("{cards: 2, slots: 4, failures: {unhealthy: [GPU-node-1-1]}}")
    await registered.kube.until(lambda: health(registered) == [True, False])
    registered.cards.write_text("{cards: 2, slots: 4}")

    await registered.kube.until(lambda: len(registered.events()) == 1)


async def test_a_card_that_flaps_is_told_of_ten_times_and_then_left_to_the_log(
    registered: World, monkeypatch: pytest.MonkeyPatch
):
    async def turn(number: int) -> None:
        sick = "" if number % 2 else ", failures: {unhealthy: [GPU-node-1-1]}"
        registered.cards.write_text(f"{{cards: 2, slots: 4{sick}}}")
        await registered.kube.until(lambda: health(registered) == [True, bool(number % 2)])

    for number in range(10):
        await turn(number)
        await registered.kube.until(lambda told=number + 1: len(registered.events()) == told)
    for number in range(10, 13):
        await turn(number)
    await waiting.settled()

    assert len(registered.events()) == 10
    assert "changes again and again" not in registered.events()[8][1]
    assert registered.events()[9][1].startswith(
        "card GPU-node-1-1 (index 1, NVIDIA A10) is healthy again; this card changes again and "
        "again: the next events about it come in 10 min"
    )
    # What is told then is what differs from what was told last: it was well.
    monkeypatch.setattr(node_events, "WITHIN_S", 0.0)
    await turn(13)
    await turn(14)
    await registered.kube.until(lambda: len(registered.events()) == 11)
    assert registered.events()[10][0] == "CardUnhealthy"


async def test_a_card_that_flaps_silences_no_other(registered: World):
    ration = node_events.Ration()
    news = [
        node_events.News(
            card=card, type=effects.EventType.WARNING, reason="CardUnhealthy", message="m"
        )
        for card in ("GPU-a",) * 11 + ("GPU-b",)
    ]

    told = [ration.take(each, now_s=float(place)) for place, each in enumerate(news)]

    assert [place for place, each in enumerate(told) if each is None] == [10]
    # The first of the ten was told at 0 s: ten minutes later there is room for one again.
    assert ration.take(news[0], now_s=599.9) is None
    assert ration.take(news[0], now_s=600.0) is not None
    assert ration.take(news[0], now_s=600.0) is None


def health(world: World) -> list[bool]:
    text = world.node_notes.get(REGISTER, "[]")
    return [card.healthy for card in node_register.decode_register(text, key=REGISTER).devices]
