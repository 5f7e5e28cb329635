"""Moore Threads beyond the recorded cases."""

import pytest

from support import vendor_values as v
from vgpu_operator.model import errors, request
from vgpu_operator.model.vendor_settings.mthreads import MthreadsSettings
from vgpu_operator.vendors import mthreads

(VGPU,) = mthreads.backends(MthreadsSettings())
COUNT = "mthreads.com/vgpu"
MEMORY = "mthreads.com/sgpu-memory"
CORES = "mthreads.com/sgpu-core"
CARDS = v.cards_of(VGPU, v.node({CORES: "32", MEMORY: "192"}))


def share_wish() -> request.DeviceRequest:
    found = VGPU.derive({COUNT: "1", MEMORY: "32", CORES: "8"}, {})
    assert found is not None
    return found


def test_a_later_container_stays_on_the_card_of_the_earlier_one() -> None:
    states = [v.state(CARDS[1]), v.state(CARDS[0], 1, 16384, 8)]
    earlier = ((), (v.share(CARDS[0].id, 16384, 8),))

    answer = v.choose(VGPU, states, share_wish(), container=2, earlier=earlier)

    assert answer == [("n1-mthreads-0", 16384, 8, 1)]


def test_two_cards_in_an_earlier_container_leave_none_for_a_later_one() -> None:
    states = [v.state(CARDS[1], 1, 0, 0), v.state(CARDS[0], 1, 0, 0)]
    earlier = ((v.share(CARDS[1].id), v.share(CARDS[0].id)),)

    answer = v.choose(VGPU, states, share_wish(), container=1, earlier=earlier)

    assert answer == {"CardNotFoundCustomFilterRule": 2}


def test_the_last_container_with_cards_names_the_index() -> None:
    given = v.grant(CARDS, (v.share(CARDS[1].id),), (v.share(CARDS[0].id),), ())

    assert VGPU.more_annotations(given, v.NOW) == {
        "mthreads.com/gpu-index": "0",
        "mthreads.com/predicate-node": "n1",
        "mthreads.com/predicate-time": "1768471200000000000",
    }


def test_amounts_of_several_cards_are_shared_out() -> None:
    assert VGPU.derive({COUNT: "3", MEMORY: "64", CORES: "16"}, {}) == request.DeviceRequest(
        vendor="Mthreads",
        count=3,
        memory_mib=64 * 512 // 3,
        memory_percent=0,
        cores_percent=5,
    )


def test_a_whole_card_is_written_over_what_stood_there() -> None:
    changes = VGPU.admit(v.container({COUNT: "2", MEMORY: "4"}), {})

    assert changes.resources == {CORES: "32", MEMORY: "192"}
    assert changes.annotations == {"mthreads.com/request-gpu-num": "2"}


def test_more_cards_than_can_be_written_are_refused() -> None:
    with pytest.raises(errors.RequestError, match="ask for fewer"):
        VGPU.admit(v.container({COUNT: "2147483647"}), {})


def test_a_share_is_charged_no_more_than_was_asked() -> None:
    forged = v.share(CARDS[0].id, 49152, 16)

    assert VGPU.cap(share_wish(), forged, CARDS[0]) == v.share(CARDS[0].id, 16384, 8)


def test_the_work_list_is_never_written() -> None:
    assert VGPU.spec.to_allocate_key is None
    assert VGPU.spec.allocated_key == "hami.io/mthreads-vgpu-devices-allocated"
