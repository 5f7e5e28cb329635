"""Likely faults of HAMi that were found by reading its source; nobody has reported them.

N4 and N8 are tested where their code is: ``test_routes``, ``test_bind_waits``,
``test_bind_takes_over``, ``test_node_lock_rules``.
"""

import datetime
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import parser

from support import case_cluster, operator_books
from support.case_cluster import NOW, REG1, CaseCluster, asks, card, node, pod, running, taken
from support.operator_books import later
from support.resource_quotas import MEMORY, limit
from vgpu_operator.flows import effects, register
from vgpu_operator.kube import clock
from vgpu_operator.metrics import cards_page
from vgpu_operator.wire import handshake, pod_devices

HANDSHAKE = "hami.io/node-handshake"

# --- N6: the last semicolon ------------------------------------------------------------

ONE = "GPU-a0,NVIDIA,2000,10:"


@pytest.mark.parametrize(
    ("text", "containers"),
    [
        (f"{ONE};", 1),
        (f"{ONE[:-1]},7:;", 1),
        (f"{ONE}", 1),
        (f";{ONE};", 2),
        (f"{ONE};;", 2),
        (f";{ONE};;", 3),
        (f"{ONE};;;;;", 1),
    ],
)
def test_case_n6_the_last_semicolon_is_no_further_container(text: str, containers: int) -> None:
    shares = pod_devices.decode_pod_devices(text, containers=containers).shares
    held = [len(entry) for entry in shares]
    old = running("old", *(asks(1, 2000, 10, name=f"c{n}") for n in range(containers)), promised="")
    old["metadata"]["annotations"][case_cluster.ALLOCATED] = text
    cluster = CaseCluster(node(*REG1), pods=(old,))

    assert (len(shares), sum(held)) == (containers, 1)
    if not text.endswith(";;;"):  # those that a plugin has added
        assert len(pod_devices.decode_pod_devices(text).shares) == containers
    assert held.index(1) == text.index("G"), "each semicolon before it is a container"
    assert cluster.used() == {"GPU-a0": (1, 2000, 10)}
    assert cluster.place(pod("new", asks(1, 1000))).node == "node-a", "nothing is unreadable"


def test_case_n6_what_we_write_has_exactly_one_segment_for_each_container() -> None:
    cluster = CaseCluster(node(*REG1))

    placed = cluster.place(pod("p1", asks(1, 1000, name="a"), asks(1, 2000, name="b")))

    assert case_cluster.allocated(placed) == "GPU-a0,NVIDIA,1000,0:;GPU-a0,NVIDIA,2000,0:;"


# --- N10: one card id twice ------------------------------------------------------------


async def allocated_bytes(cluster: CaseCluster) -> dict[tuple[str, str], float]:
    """Return what a scrape shows as promised of each node's cards."""
    cluster.books.leader = True
    pieces = [piece async for piece in cards_page.pieces(cluster.books)]
    return {
        (sample.labels["node"], sample.labels["device_uuid"]): sample.value
        for family in parser.text_string_to_metric_families(b"".join(pieces).decode())
        for sample in family.samples
        if sample.name == "hami_gpu_memory_allocated_bytes"
    }


async def test_case_n10_of_two_entries_with_one_id_the_first_counts_and_once() -> None:
    cluster = CaseCluster(node(card(), card(index=1, devmem=40960)))

    assert cluster.place(pod("p1", asks(1, 20000))).node == "node-a"
    refused = cluster.place(pod("p2", asks(1, 20000)))
    assert cluster.reason(refused) == "1/1 CardInsufficientMemory"
    assert await allocated_bytes(cluster) == {("node-a", "GPU-a0"): 20000 * 2**20}


@pytest.mark.parametrize("form", ["JSON", "colons"])
def test_case_n10_an_id_that_comes_twice_is_told_on_the_node_and_costs_no_other_card(
    form: str,
) -> None:
    text = json.dumps([card(), card(index=1), card("GPU-a1", index=2)])
    if form == "colons":
        text = "".join(
            f"{card_id},10,24576,100,NVIDIA-A10,0,true:"
            for card_id in ("GPU-a0", "GPU-a0", "GPU-a1")
        )
    held = operator_books.open_books()

    reaction = register.node_seen(held, operator_books.node(register=text), NOW)

    assert [one.id for one in held.ledger.devices("node-a", "NVIDIA")] == ["GPU-a0", "GPU-a1"]
    (event,) = [one for one in reaction.effects if isinstance(one, effects.PostEvent)]
    assert (event.reason, event.node) == ("RegisterUnreadable", "node-a")
    assert "GPU-a0" in event.message


async def test_case_n10_one_id_on_two_nodes_is_two_cards_in_ledger_and_metrics() -> None:
    old = running("old", asks(1, 8000), promised="GPU-a0,NVIDIA,8000,0:;", node_name="node-b")
    cluster = CaseCluster(node(*REG1), node(*REG1, name="node-b"), pods=(old,))

    assert cluster.used("node-a") == {}
    assert cluster.used("node-b") == {"GPU-a0": (1, 8000, 0)}
    assert await allocated_bytes(cluster) == {
        ("node-a", "GPU-a0"): 0,
        ("node-b", "GPU-a0"): 8000 * 2**20,
    }
    whole = cluster.place(pod("new", asks(1, 24576)))
    assert whole.node == "node-a"
    assert cluster.used("node-b") == {"GPU-a0": (1, 8000, 0)}


# --- N12: the profile and the quota ----------------------------------------------------

MIG = card(
    mode="mig",
    count=7,
    devmem=40960,
    migProfiles=[
        {
            "name": "1g.5gb",
            "memoryMB": 5120,
            "core": 14,
            "sliceCount": 1,
            "placements": [{"start": start, "size": 1} for start in range(7)],
        }
    ],
)


@pytest.mark.parametrize(("most", "fits"), [(5119, False), (5120, True)])
def test_case_n12_a_quota_is_compared_with_the_profile_that_the_pod_gets(
    most: int, fits: bool
) -> None:
    cluster = CaseCluster(node(MIG))
    limit(cluster.books, {MEMORY: most})

    placed = cluster.place(pod("p1", asks(1, 4000)))

    assert (placed.node == "node-a") is fits
    standing = cluster.books.ledger.quota_standing("team-a").used.get("NVIDIA")
    assert (0 if standing is None else standing.memory_mib) == (5120 if fits else 0)
    if not fits:
        assert "ResourceQuotaNotFit: 5120 MiB" in cluster.reason(placed)


# --- N13: two time zones ---------------------------------------------------------------

SHANGHAI, LOS_ANGELES = "<+08>-8", "<-08>8"
"""As POSIX writes them: eight hours before and behind UTC, wherever the machine stands."""


@contextmanager
def time_zone(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Run as a process whose local time is that zone's."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


def test_case_n13_a_stamp_means_the_same_to_schedulers_in_two_time_zones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with time_zone(monkeypatch, SHANGHAI):
        assert time.localtime(0).tm_hour == 8
        text = handshake.encode_requesting(clock.SystemClock().now())
        fixed = handshake.encode_requesting(NOW)
    with time_zone(monkeypatch, LOS_ANGELES):
        assert time.localtime(0).tm_hour == 16
        read = handshake.decode_handshake(text).time
        assert read is not None
        age = clock.SystemClock().now() - read

    assert fixed == "Requesting_2026-01-15 10:00:00"
    assert datetime.timedelta(0) <= age < datetime.timedelta(seconds=30)


def stamped(text: str, *, allocatable: str = "10") -> dict[str, Any]:
    return node(*REG1, notes={HANDSHAKE: text}, allocatable={"nvidia.com/gpu": allocatable})


def test_case_n13_a_stamp_of_a_zone_ahead_of_utc_ages_from_when_it_was_first_seen() -> None:
    """HAMi in Shanghai wrote it ten seconds ago, in its own local time."""
    ahead = "Requesting_2026-01-15 17:59:50"
    cluster = CaseCluster()

    written = cluster.show(stamped(ahead, allocatable="0"))
    assert written["node-a"] == {}
    cluster.show(stamped(ahead, allocatable="0"), now=later(59))
    assert [one.id for one in cluster.cards()] == ["GPU-a0"], "not expired"
    cluster.show(stamped(ahead, allocatable="0"), now=later(60))

    assert cluster.cards() == (), "and not kept for eight hours"


def test_case_n13_a_stamp_of_a_zone_behind_utc_costs_a_living_node_nothing() -> None:
    """It looks eight hours old; expiry alone removes nothing."""
    behind = "Requesting_2026-01-15 01:59:50"
    cluster = CaseCluster()

    cluster.show(stamped(behind))

    assert [one.id for one in cluster.cards()] == ["GPU-a0"]
    assert cluster.place(pod("p1", asks(1, 1000))).node == "node-a"


# --- N15: the request in a card's score ------------------------------------------------


@pytest.mark.parametrize(
    ("card_type", "chosen"), [(case_cluster.A10, "GPU-small"), ("NVIDIA", "GPU-large")]
)
def test_case_n15_the_request_counts_only_where_the_type_is_the_vendors_word(
    card_type: str, chosen: str
) -> None:
    """Spread takes the emptier card: 30 % and 35 % are used, 70 % and 45 % would be.

    Real plugins register models, so for them used by total decides alone, as in HAMi.
    """
    small = card("GPU-small", index=0, devmem=10000, type=card_type)
    large = card("GPU-large", index=1, devmem=40000, type=card_type)
    pods = tuple(
        running(f"on-{name}", asks(1, mib), promised=f"{name},NVIDIA,{mib},0:;")
        for name, mib in (("GPU-small", 3000), ("GPU-large", 14000))
    )
    cluster = CaseCluster(node(small, large), pods=pods)
    spread = {"hami.io/gpu-scheduler-policy": "spread"}

    placed = cluster.place(pod("p1", asks(1, 4000), notes=spread))

    assert taken(placed) == [[chosen]]
