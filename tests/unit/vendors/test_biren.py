"""Biren beyond the recorded cases."""

from support import vendor_values as v
from vgpu_operator.model import request
from vgpu_operator.model.vendor_settings.biren import BirenSettings
from vgpu_operator.vendors import biren

(BR,) = biren.backends(BirenSettings())
WISH = request.DeviceRequest(vendor="Biren", count=1, memory_percent=100)


def test_devices_are_charged_slots_and_nothing_else() -> None:
    states = [v.state(v.card("a", "Biren", slots=2), 1), v.state(v.card("b", "Biren"))]

    assert v.choose(BR, states, WISH) == [("a", 0, 0, 1)]
    assert BR.cap(WISH, v.share("a", 500, 10), None) == v.share("a", 0, 0)


def test_mutex_wants_an_unused_device() -> None:
    states = [v.state(v.card("a", "Biren", slots=2), 1), v.state(v.card("b", "Biren"))]

    assert v.choose(BR, states, WISH, unused_only=True) == [("b", 0, 0, 1)]


def test_a_device_without_memory_serves_all_the_same() -> None:
    assert v.choose(BR, [v.state(v.card("a", "Biren", memory_mib=0))], WISH) == [("a", 0, 0, 1)]


def test_cores_are_100_whatever_is_registered() -> None:
    text = '[{"id":"a","count":1,"devcore":7,"type":"Biren","health":true},{"id":7}]'

    read = BR.decode_devices(text, node="n1")

    assert [card.cores_percent for card in read.devices] == [100]
    assert len(read.faults) == 1
