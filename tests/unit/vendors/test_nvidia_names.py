"""NVIDIA's irregular keys, and its cards."""

from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

(NVIDIA, *_) = registry.build(settings.Settings())


def test_the_keys_are_the_ones_that_hamis_plugin_reads() -> None:
    spec = NVIDIA.spec

    assert (spec.keyword, spec.id) == ("NVIDIA", "nvidia")
    assert spec.register_key == "hami.io/node-nvidia-register"
    assert spec.handshake_key == "hami.io/node-handshake"
    assert spec.lock_key == "hami.io/mutex.lock"
    assert spec.pod_keys == (
        "hami.io/vgpu-devices-to-allocate",
        "hami.io/vgpu-devices-allocated",
        "hami.io/vgpu-mig-allocations",
    )
    assert spec.resources == (
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
    )


def test_cards_are_read_and_faults_name_the_annotation() -> None:
    read = NVIDIA.decode_devices(
        '[{"id":"GPU-a0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-NVIDIA A10",'
        '"mode":"hami-core","health":true},{"id":7}]',
        node="node-a",
    )

    assert [card.id for card in read.devices] == ["GPU-a0"]
    assert [fault.key for fault in read.faults] == ["hami.io/node-nvidia-register"]
