"""A cluster in which several dialects are spoken: cards, handshakes, locks, promises."""

from typing import Any

import pytest

from support import json_patch
from support.dialogue import Dialogue
from support.operator_books import (
    NOW,
    NVIDIA,
    bind_args,
    later,
    open_books,
    register_text,
    used_mib,
)
from support.pods import container, pod
from vgpu_operator.flows import admit, bind, books, effects, pod_events, register
from vgpu_operator.model import settings
from vgpu_operator.vendors import records as readers
from vgpu_operator.vendors import registry

VENDORS = registry.build(settings.Settings())
COLON = "GPU-a0,10,24576,100,NVIDIA-NVIDIA A10,0,true:"
OLD_REGISTER, OLD_HANDSHAKE = "4pd.io/node-nvidia-register", "4pd.io/node-handshake"
OLD_LOCK, LOCK = "4pd.io/mutex.lock", "hami.io/mutex.lock"
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
UNIX = "1768471200"
"""Ten o'clock."""


def see(
    held: books.Books,
    name: str = "node-a",
    *,
    version: str = "10",
    allocatable: int = 10,
    at_s: float = 0,
    **annotations: str,
) -> effects.Reaction:
    """Let the books see a raw Node."""
    raw = {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": version,
            "annotations": annotations,
        },
        "status": {"allocatable": {"nvidia.com/gpu": str(allocatable)}},
    }
    return register.node_seen(held, readers.node_record(raw, held.vendors), later(at_s))


def see_pod(
    held: books.Books, *containers: dict[str, Any], node: str = "", **annotations: str
) -> Any:
    raw = pod(*containers, annotations=annotations, schedulerName="hami-scheduler")
    raw["metadata"]["resourceVersion"] = "5"
    if node:
        raw["spec"]["nodeName"] = node
    record = readers.pod_record(raw, held.vendors, aliases={})
    pod_events.pod_seen(held, record)
    return record


def written(reaction: effects.Reaction) -> list[dict[str, str | None]]:
    return [dict(e.annotations) for e in reaction.effects if isinstance(e, effects.PatchNode)]


def has_card(held: books.Books) -> bool:
    return bool(held.ledger.devices("node-a", NVIDIA))


# --- the handshake ---------------------------------------------------------------


def test_the_stamp_is_written_under_the_key_of_the_nodes_dialect() -> None:
    held = open_books()
    reported = "Reported_2026.01.15 09:59:58"

    assert written(see(held, **{OLD_REGISTER: COLON, OLD_HANDSHAKE: reported})) == [
        {OLD_HANDSHAKE: "Requesting_2026-01-15 10:00:00"}
    ]
    assert written(
        see(
            held,
            "node-b",
            **{"HAMi.sh/node-register-nvidia": COLON, "HAMi.sh/node-handshake-nvidia": reported},
        )
    ) == [{"HAMi.sh/node-handshake-nvidia": "Requesting_2026-01-15 10:00:00"}]


def test_five_minutes_pass_before_the_cards_leave_and_the_handshake_says_deleted() -> None:
    held = open_books()
    texts = {OLD_REGISTER: COLON, OLD_HANDSHAKE: "Requesting_2026-01-15 10:00:00"}
    see(held, allocatable=0, **texts)

    assert written(register.step_handshakes(held, ("node-a",), later(299))) == []
    assert has_card(held)
    reaction = register.step_handshakes(held, ("node-a",), later(300))

    assert written(reaction) == [{OLD_HANDSHAKE: "Deleted_2026-01-15 10:05:00"}]
    assert not has_card(held)


def test_the_threshold_can_be_set() -> None:
    held = open_books(dialects={"4pd": {"handshakeExpiryS": 20}})
    see(
        held,
        allocatable=0,
        **{OLD_REGISTER: COLON, OLD_HANDSHAKE: "Requesting_2026-01-15 10:00:00"},
    )

    register.step_handshakes(held, ("node-a",), later(20))

    assert not has_card(held)


def test_deleted_stays_until_the_node_shows_signs_of_life() -> None:
    held = open_books()
    gone = {OLD_REGISTER: COLON, OLD_HANDSHAKE: "Deleted_2026-01-15 09:50:00"}

    # A fresh process finds it so: the cards are gone already.
    assert written(see(held, allocatable=0, **gone)) == []
    assert not has_card(held)

    assert written(see(held, version="11", allocatable=10, **gone)) == [
        {OLD_HANDSHAKE: "Requesting_2026-01-15 10:00:00"}
    ]
    assert has_card(held)


# --- locks -----------------------------------------------------------------------


def test_a_pods_lock_follows_the_dialect_of_each_node() -> None:
    held = open_books()
    see(held, "node-a", **{OLD_REGISTER: COLON})
    see(held, "node-b", **{REGISTER: register_text(("GPU-b0", 24576))})
    wish = see_pod(held, container(gpu=1, mem=1000)).request

    assert held.lock_keys(wish, "node-a") == (OLD_LOCK,)
    assert held.lock_keys(wish, "node-b") == (LOCK,)


# --- the promise -----------------------------------------------------------------


def binding_of(held: books.Books, *containers: dict[str, Any], **annotations: str) -> Any:
    """Return the Binding of a pod to node-a, and the lock's patch before it."""
    held.trusted_nodes.add("node-a")
    record = see_pod(held, *containers, **annotations)
    talk = Dialogue(bind.bind(held, bind_args(record), NOW))
    lock = talk.expects(effects.PatchNode)
    talk.answers("11")
    return talk.expects(effects.BindPod), lock


def test_a_pod_bound_to_a_node_of_the_forerunner_is_written_in_its_dialect() -> None:
    held = open_books()
    see(held, **{OLD_REGISTER: COLON})

    binding, lock = binding_of(
        held, container("a"), container("b", gpu=1, mem=3000), container("c", gpu=1, mem=5000)
    )

    text = ";GPU-a0,NVIDIA,3000,0:;GPU-a0,NVIDIA,5000,0:"
    assert binding.annotations == {
        "4pd.io/vgpu-node": "node-a",
        "4pd.io/vgpu-time": UNIX,
        "4pd.io/bind-time": UNIX,
        "4pd.io/bind-phase": "allocating",
        "4pd.io/devices-to-allocate": text,
        "4pd.io/vgpu-ids-new": text,
    }
    assert binding.labels == {}
    assert lock.annotations == {OLD_LOCK: "2026-01-15T10:00:00Z"}


def test_the_walk_throughs_separator_is_written_where_the_settings_say_so() -> None:
    held = open_books(dialects={"4pd": {"containerSeparator": ":"}})
    see(held, **{"HAMi.sh/node-register-nvidia": COLON})

    binding, _ = binding_of(held, container("b", gpu=1, mem=3000), container("c", gpu=1, mem=5000))

    text = "GPU-a0,NVIDIA,3000,0:GPU-a0,NVIDIA,5000,0:"
    assert binding.annotations["4pd.io/vgpu-ids-new"] == text
    assert binding.annotations["4pd.io/devices-to-allocate"] == text


@pytest.mark.parametrize(
    ("node", "foreign"),
    [
        ({OLD_REGISTER: COLON}, ("hami.io/vgpu-node", "hami.io/vgpu-devices-allocated")),
        ({REGISTER: COLON}, ("4pd.io/vgpu-node", "4pd.io/vgpu-ids-new", "4pd.io/bind-phase")),
    ],
)
def test_keys_of_the_other_dialect_on_the_pod_are_overwritten(
    node: dict[str, str], foreign: tuple[str, ...]
) -> None:
    held = open_books()
    see(held, **node)

    binding, _ = binding_of(held, container(gpu=1, mem=1000), **dict.fromkeys(foreign, "left"))

    assert {key: binding.annotations[key] for key in foreign} == dict.fromkeys(foreign, "")


def test_issue_4_hold_4_cards_stay_charged_while_a_node_moves_between_the_dialects() -> None:
    held = open_books()
    old, new = {OLD_REGISTER: COLON}, {REGISTER: register_text(("GPU-a0", 24576))}
    text = "GPU-a0,NVIDIA,3000,0:"
    see(held, version="10", **old)
    see_pod(
        held,
        container(gpu=1, mem=3000),
        node="node-a",
        **{"4pd.io/vgpu-node": "node-a", "4pd.io/vgpu-ids-new": text},
    )

    for version, texts in enumerate((old, old | new, new, old), start=11):
        see(held, version=str(version), **texts)
        assert used_mib(held) == {"GPU-a0": 3000}
        assert len(held.ledger.devices("node-a", NVIDIA)) == 1

    assert held.dialect_of("node-a", NVIDIA).name == "4pd"


def test_a_node_that_moves_to_todays_keys_is_asked_under_todays_key() -> None:
    held = open_books()
    stale = {OLD_REGISTER: COLON, OLD_HANDSHAKE: "Requesting_2026-01-15 09:59:00"}
    see(held, version="10", **stale)

    reaction = see(held, version="11", **stale, **{REGISTER: COLON})

    assert written(reaction) == [{HANDSHAKE: "Requesting_2026-01-15 10:00:00"}]
    assert held.dialect_of("node-a", NVIDIA).name == "hami"


# --- admission -------------------------------------------------------------------


def test_protocol_keys_of_the_forerunner_are_stripped_from_a_new_pod() -> None:
    protocol = {
        "4pd.io/vgpu-node": "node-a",
        "4pd.io/vgpu-time": UNIX,
        "4pd.io/vgpu-ids-new": "GPU-a0,NVIDIA,3000,0:",
        "4pd.io/devices-to-allocate": "GPU-a0,NVIDIA,3000,0:",
        "4pd.io/bind-phase": "success",
        "4pd.io/bind-time": UNIX,
    }
    raw = pod(container(gpu=1, mem=1000), annotations=protocol | {"mine": "stays"})

    verdict = admit.admit(raw, settings=settings.Settings(), vendors=VENDORS)

    after: dict[str, Any] = json_patch.apply(raw, verdict.patch)
    assert after["metadata"]["annotations"] == {"mine": "stays"}
