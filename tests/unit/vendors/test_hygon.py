"""Hygon beyond the recorded cases."""

from support import vendor_values as v
from vgpu_operator.model import request
from vgpu_operator.model.vendor_settings.hygon import HygonSettings
from vgpu_operator.vendors import hygon

(DCU,) = hygon.backends(HygonSettings())


def test_memory_that_is_no_whole_number_is_passed_over_with_a_warning() -> None:
    limits = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1500m"}

    assert DCU.derive(limits, {}) == request.DeviceRequest(
        vendor="DCU", count=1, memory_percent=100, cores_percent=100
    )
    assert DCU.admit(v.container(limits), {}).warnings == (
        "hygon.com/dcumem: '1500m' is no whole number; the container gets all memory of its cards",
    )


def test_the_factor_makes_mib_of_units_and_0_is_no_factor() -> None:
    limits = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "3"}
    for factor, memory_mib in ((0, 3), (1, 3), (1024, 3072)):
        (vendor,) = hygon.backends(HygonSettings(memory_factor=factor))
        wish = vendor.derive(limits, {})

        assert wish is not None
        assert wish.memory_mib == memory_mib


def test_the_keys_are_the_ones_that_the_plugin_reads() -> None:
    assert DCU.spec.register_key == "hami.io/node-dcu-register"
    assert DCU.spec.handshake_key == "hami.io/node-handshake-dcu"
    assert DCU.spec.lock_key == "hami.io/mutex.lock"
    assert DCU.selection({"hygon.com/use-dcutype": "K100", "hygon.com/nouse-gpuuuid": "a"}) == (
        request.CardSelection(use_types=("K100",), avoid_ids=("a",))
    )
