"""What the operator has left on nodes goes; a lock that somebody needs, and others' keys, stay."""

from collections.abc import Mapping

import pytest

from vgpu_operator.flows import cleanup
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

VENDORS = registry.build(settings.with_every_vendor(settings.Settings()))
LOCK = {"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p1"}
STAMPS = {
    "hami.io/node-handshake": "Requesting_2026-01-01 00:00:00",
    "hami.io/node-handshake-dcu": "Requesting_2026-01-01 00:00:00",
    "4pd.io/node-handshake": "Requesting_2026.01.01 00:00:00",
    "vgpu-operator.io/wake": "7",
}
OTHERS = {
    "hami.io/node-nvidia-register": "[]",
    "hami.io/device-cordon": "GPU-1",
    "note": "x",
}


def left(annotations: Mapping[str, str], *pods: cleanup.BoundPod) -> cleanup.Left:
    (found,) = cleanup.left_on({"n1": annotations}, pods, VENDORS)
    return found


def test_stamps_and_locks_go_and_what_others_write_stays() -> None:
    found = left({**LOCK, **STAMPS, **OTHERS})

    assert set(found.remove) == {*LOCK, *STAMPS}
    assert found.keep == ()


def test_a_clean_node_is_not_named() -> None:
    assert cleanup.left_on({"n1": OTHERS}, (), VENDORS) == ()


@pytest.mark.parametrize("key", ["hami.io/bind-phase", "4pd.io/bind-phase"])
def test_the_lock_of_a_pod_that_is_being_served_stays(key: str) -> None:
    serving = cleanup.BoundPod(
        namespace="default", name="p1", node="n1", phase="Pending", annotations={key: "allocating"}
    )

    found = left({**LOCK, **STAMPS}, serving)

    assert found.keep == ("hami.io/mutex.lock",)
    assert set(found.remove) == set(STAMPS)
    assert found.because == "pod default/p1 is being served there"


@pytest.mark.parametrize(
    ("phase", "bind_phase", "node"),
    [
        pytest.param("Running", "success", "n1", id="it has been served"),
        pytest.param("Failed", "allocating", "n1", id="it has ended"),
        pytest.param("Pending", "allocating", "n2", id="it is served elsewhere"),
    ],
)
def test_a_lock_that_nobody_needs_goes(phase: str, bind_phase: str, node: str) -> None:
    other = cleanup.BoundPod(
        namespace="default",
        name="p1",
        node=node,
        phase=phase,
        annotations={"hami.io/bind-phase": bind_phase},
    )

    assert left(LOCK, other).remove == ("hami.io/mutex.lock",)


def test_locks_of_vendors_with_their_own_go_too() -> None:
    assert left({"cambricon.com/dsmlu.lock": "x", "4pd.io/mutex.lock": "y"}).remove == (
        "4pd.io/mutex.lock",
        "cambricon.com/dsmlu.lock",
    )
