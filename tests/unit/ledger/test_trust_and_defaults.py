"""A changed default takes no promise from a pod that is bound (design, Ledger)."""

from vgpu_operator.ledger.ledger import Ledger
from vgpu_operator.model import device, settings
from vgpu_operator.vendors import records, registry


def ledger_with_one_card() -> Ledger:
    book = Ledger(vendors=("NVIDIA",), trust=settings.Trust.REQUESTS)
    card = device.Device(
        id="GPU-a0", type="NVIDIA A10", slots=10, memory_mib=24576, cores_percent=100, healthy=True
    )
    book.set_devices("node-a", "NVIDIA", (card,))
    return book


def bound_pod(limits: dict[str, str], promise: str) -> dict:
    return {
        "metadata": {
            "name": "p",
            "namespace": "team-a",
            "uid": "u1",
            "annotations": {
                "hami.io/vgpu-node": "node-a",
                "hami.io/vgpu-devices-allocated": promise,
            },
        },
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running"},
    }


def used_after(nvidia: settings.NvidiaSettings, pod: dict) -> tuple[int, int]:
    configured = settings.Settings(vendors=settings.VendorSettings(nvidia=nvidia))
    book = ledger_with_one_card()
    book.observe(records.pod_record(pod, registry.build(configured), aliases={}))
    (card,) = book.usage("node-a", "NVIDIA")
    return card.used_memory_mib, card.used_cores_percent


def test_a_lowered_default_leaves_the_promise_of_a_bound_pod_alone() -> None:
    pod = bound_pod({"nvidia.com/gpu": "1"}, "GPU-a0,NVIDIA,8000,30:;")

    assert used_after(settings.NvidiaSettings(default_memory=2000), pod) == (8000, 30)


def test_an_amount_that_the_container_names_caps_what_its_annotation_promises() -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "20"}
    pod = bound_pod(limits, "GPU-a0,NVIDIA,8000,90:;")

    assert used_after(settings.NvidiaSettings(), pod) == (2000, 20)


def test_what_is_not_named_is_never_charged_beyond_the_card() -> None:
    pod = bound_pod({"nvidia.com/gpu": "1"}, "GPU-a0,NVIDIA,99999,900:;")

    assert used_after(settings.NvidiaSettings(), pod) == (24576, 100)
