"""How many ids the kubelet is told of."""

import pytest

from support import node_agent_world
from support.node_agent_world import World
from vgpu_operator.model import device, errors
from vgpu_operator.node_agent import device_list


def cards(*slots: int) -> list[device.Device]:
    return [
        device.Device(
            id=f"GPU-{place}",
            type="T4",
            slots=each,
            memory_mib=1,
            cores_percent=100,
            healthy=True,
        )
        for place, each in enumerate(slots)
    ]


def test_ten_thousand_slots_on_all_cards_together_can_be_listed():
    device_list.refuse_too_many(cards(5000, 5000))


@pytest.mark.parametrize("slots", [(10_001,), (5000, 5001), (2**31 - 1,)])
def test_more_are_refused_with_their_number_before_a_list_is_made(slots: tuple[int, ...]):
    says = f"have {sum(slots)} slots in all, and the kubelet cannot list more than 10000: give"

    with pytest.raises(errors.SettingsError, match=says):
        device_list.refuse_too_many(cards(*slots))


async def test_an_agent_with_too_many_does_not_start(world: World):
    world.cards.write_text("{cards: 1, slots: 200000}")

    with pytest.raises(errors.SettingsError, match="200000 slots"):
        await world.start()


async def test_a_file_that_asks_for_too_many_later_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
):
    await world.start_and_register()
    said = [""]

    def is_told() -> bool:
        said[0] += capsys.readouterr().out
        return "kept the cards as they were" in said[0] and "200000 slots" in said[0]

    world.cards.write_text("{cards: 1, slots: 200000}")
    await node_agent_world.until(is_told)
    assert world.kubelet.healthy == 8

    world.cards.write_text("{cards: 1, slots: 4}")
    await world.kubelet.until_listed(healthy=4)
