"""Enflame's whole cards beyond the recorded cases."""

import dataclasses

from support import vendor_values as v
from vgpu_operator.model import request
from vgpu_operator.model.vendor_settings.enflame import EnflameSettings
from vgpu_operator.vendors import enflame

(GCU,) = enflame.backends(EnflameSettings())


def wish(count: int) -> request.DeviceRequest:
    found = GCU.derive({"enflame.com/gcu": str(count)}, {})
    assert found is not None
    return found


def test_a_used_or_broken_card_serves_nobody() -> None:
    cards = v.cards_of(GCU, v.node({"enflame.com/gcu": "3"}))
    broken = dataclasses.replace(cards[2], healthy=False)
    states = [v.state(broken), v.state(cards[1], 1, 100, 100), v.state(cards[0])]

    assert v.choose(GCU, states, wish(1)) == [("n1-GCU-0", 100, 100, 1)]
    assert v.choose(GCU, states, wish(2)) == {
        "CardNotHealth": 1,
        "ExclusiveDeviceAllocateConflict": 1,
        "AllocatedCardsInsufficientRequest": 1,
    }
    assert v.choose(GCU, states, wish(4)) == {"NodeInsufficientDevice": 0}


def test_the_pods_own_earlier_container_takes_the_card_too() -> None:
    cards = v.cards_of(GCU, v.node({"enflame.com/gcu": "1"}))

    assert v.choose(GCU, [v.state(cards[0], 1, 100, 100)], wish(1)) == {
        "ExclusiveDeviceAllocateConflict": 1
    }


def test_there_is_no_lock_and_no_handshake() -> None:
    assert (GCU.spec.lock_key, GCU.spec.handshake_key, GCU.spec.register_key) == (None, None, None)
