import pytest

from vgpu_operator.model.device import Device
from vgpu_operator.node_agent.nvml_cards import Cards, Options
from vgpu_operator.node_agent.nvml_library import Card, Lost, Xid

DOUBLE_BIT_ECC = 48
CONTAINED_ECC = 94


def card(index=0, **fields):
    usual = {"name": "NVIDIA A10", "memory_mib": 24576, "recovery": ""}
    return Card(**({"index": index, "uuid": f"GPU-{index}"} | usual | fields))


def seen(*looked, **options):
    cards = Cards(Options(**options))
    cards.see(looked, now_s=0)
    return cards


def health(cards):
    return [each.healthy for each in cards.devices()]


def test_a_card_is_registered_as_hamis_plugin_registered_it():
    # Recorded: HAMi v2.10.0's plugin over cards of these names and sizes.
    cards = seen(card(1), card(3, name="Tesla T4", memory_mib=16384, numa=1))

    usual = {"slots": 10, "cores_percent": 100, "mode": "hami-core", "healthy": True}
    assert cards.devices() == (
        Device(id="GPU-1", index=1, type="NVIDIA A10", memory_mib=24576, numa=0, **usual),
        Device(id="GPU-3", index=3, type="NVIDIA-Tesla T4", memory_mib=16384, numa=1, **usual),
    )


def test_cards_come_in_the_order_of_their_index():
    cards = seen(card(2))
    cards.see([card(0), card(1), card(2)], now_s=1)

    assert [each.index for each in cards.devices()] == [0, 1, 2]


def test_slots_and_memory_follow_the_options():
    (only,) = seen(card(memory_mib=10001), slots=4, memory_scaling=1.5).devices()

    assert (only.slots, only.memory_mib) == (4, 15001)


def test_a_card_that_tells_of_no_memory_is_left_out_and_it_is_said_what_to_do():
    cards = seen(card(0), card(1, memory_mib=None))

    assert [each.id for each in cards.devices()] == ["GPU-0"]
    assert list(cards.complaints()) == ["GPU-1"]
    assert "--memory-where-untold" in cards.complaints()["GPU-1"]


def test_a_card_that_tells_of_no_memory_has_what_the_option_says():
    (only,) = seen(card(memory_mib=None), memory_where_untold_mib=65536).devices()

    assert only.memory_mib == 65536


def test_a_card_in_mig_mode_is_registered_unhealthy_and_its_instances_are_named():
    cards = seen(card(mig=True, mig_room=7, instances=("1g.5gb MIG-x", "3g.20gb MIG-y")))

    (only,) = cards.devices()
    assert (only.mode, only.healthy, only.slots) == ("mig", False, 7)
    why = cards.complaints()["GPU-0"]
    assert "1g.5gb MIG-x, 3g.20gb MIG-y" in why
    assert "nvidia-smi -mig 0" in why


def test_memory_is_not_scaled_in_mig_mode():
    (only,) = seen(card(mig=True, mig_room=7), memory_scaling=2).devices()

    assert only.memory_mib == 24576


def test_a_card_that_fell_off_the_bus_stays_and_is_unhealthy():
    cards = seen(card(0), card(1))

    cards.see([card(0), Lost(index=1, why="GPU is lost")], now_s=1)

    assert health(cards) == [True, False]
    assert "GPU is lost" in cards.complaints()["GPU-1"]
    assert cards.any_gone()


def test_a_card_that_is_no_longer_listed_stays_and_is_unhealthy():
    cards = seen(card(0), card(1))

    cards.see([card(0)], now_s=1)

    assert health(cards) == [True, False]
    assert cards.any_gone()


def test_a_card_that_comes_back_is_healthy():
    cards = seen(card(0), card(1))
    cards.see([card(0), Lost(index=1, why="GPU is lost")], now_s=1)

    cards.see([card(0), card(1)], now_s=2)

    assert health(cards) == [True, True]
    assert not cards.any_gone()
    assert not cards.complaints()


def test_a_card_that_was_lost_from_the_start_has_no_name_but_is_told_of():
    cards = seen(card(0), Lost(index=1, why="GPU is lost"))

    assert [each.id for each in cards.devices()] == ["GPU-0"]
    assert cards.complaints() == {"card 1": "GPU is lost"}
    assert cards.any_gone()


def test_another_card_in_its_place_is_another_card():
    cards = seen(card(0))

    cards.see([card(0, uuid="GPU-new")], now_s=1)

    assert {each.id: each.healthy for each in cards.devices()} == {"GPU-0": False, "GPU-new": True}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_a_fault_of_an_application_does_not_count(xid):
    cards = seen(card())

    assert not cards.report(Xid(uuid="GPU-0", number=xid), now_s=1)
    assert health(cards) == [True]


def test_a_fault_of_a_card_counts_against_that_card_only():
    cards = seen(card(0), card(1))

    assert cards.report(Xid(uuid="GPU-1", number=DOUBLE_BIT_ECC), now_s=1)

    assert health(cards) == [True, False]
    assert "XID 48" in cards.complaints()["GPU-1"]


def test_a_fault_of_an_untold_card_counts_against_all():
    cards = seen(card(0), card(1))

    cards.report(Xid(uuid=None, number=DOUBLE_BIT_ECC), now_s=1)

    assert health(cards) == [False, False]


def test_a_fault_can_be_declared_harmless():
    cards = seen(card(), ignored_xids=frozenset({CONTAINED_ECC}))

    assert not cards.report(Xid(uuid="GPU-0", number=CONTAINED_ECC), now_s=1)
    assert health(cards) == [True]


def test_what_the_driver_wants_done_makes_a_card_unhealthy_without_a_fault():
    # As after a restart of the agent: the fault was reported to the one before.
    cards = seen(card(recovery="reset the card"))

    assert health(cards) == [False]
    assert cards.complaints() == {"GPU-0": "the driver asks to reset the card"}


def test_a_card_is_trusted_again_a_while_after_its_last_fault_if_the_driver_wants_nothing():
    cards = seen(card(), trust_after_s=30)
    cards.report(Xid(uuid="GPU-0", number=CONTAINED_ECC), now_s=10)
    cards.report(Xid(uuid="GPU-0", number=CONTAINED_ECC), now_s=20)

    cards.see([card()], now_s=49.9)
    assert health(cards) == [False]

    cards.see([card()], now_s=50)
    assert health(cards) == [True]


@pytest.mark.parametrize("recovery", [None, "reset the card"])
def test_a_faulty_card_is_not_trusted_again_on_nobodys_word(recovery):
    cards = seen(card())
    cards.report(Xid(uuid="GPU-0", number=DOUBLE_BIT_ECC), now_s=1)

    cards.see([card(recovery=recovery)], now_s=1_000_000)

    assert health(cards) == [False]


def test_no_card_is_healthy_while_none_can_be_asked():
    cards = seen(card(0), card(1))

    cards.lose_sight("the driver is gone")
    assert health(cards) == [False, False]

    cards.see([card(0), card(1)], now_s=1)
    assert health(cards) == [True, True]
