"""Series that are read from the books."""

import asyncio
import dataclasses
import math

import prometheus_client as prom
import pytest
from prometheus_client import parser

from support import clusters
from support.operator_books import bound, open_books, pending, put_node, register_text
from vgpu_operator.flows import books, register
from vgpu_operator.metrics import cards_page, collector


def page(held: books.Books) -> str:
    """Return what a scrape of these books gets."""

    async def cards() -> bytes:
        return b"".join([piece async for piece in cards_page.pieces(held)])

    registry = prom.CollectorRegistry()
    registry.register(collector.BooksCollector(held))
    return (prom.generate_latest(registry) + asyncio.run(cards())).decode()


def samples(held: books.Books) -> dict[tuple[str, str, str], float]:
    """Return every sample by name, node and card."""
    return {
        (
            sample.name,
            sample.labels.get("node", ""),
            sample.labels.get("device_uuid", ""),
        ): sample.value
        for family in parser.text_string_to_metric_families(page(held))
        for sample in family.samples
    }


def one_node(**kinds: object) -> books.Books:
    held = open_books()
    put_node(held, **kinds)
    return held


def test_case_149_bytes_are_mib_times_1048576() -> None:
    held = one_node()
    held.ledger.observe(bound(pending()))

    found = samples(held)

    assert found["hami_gpu_memory_limit_bytes", "node-a", "GPU-a0"] == 25769803776
    assert found["hami_gpu_memory_allocated_bytes", "node-a", "GPU-a0"] == 1048576000
    assert found["hami_vgpu_memory_allocated_bytes", "node-a", "GPU-a0"] == 1048576000


def test_shares_cores_and_ratio_are_the_ledgers() -> None:
    held = one_node()
    pod = pending("p1", clusters.asks(memory_mib=6144, cores_percent=30))
    shares = ((clusters.share("GPU-a0", 6144, 30),),)
    held.ledger.observe(bound(pod, promised={"NVIDIA": shares}))

    found = samples(held)

    assert found["hami_gpu_shared_count", "node-a", "GPU-a0"] == 1
    assert found["hami_gpu_core_allocated_ratio", "node-a", "GPU-a0"] == 30
    assert found["hami_node_gpu_memory_allocated_ratio", "node-a", "GPU-a0"] == 0.25


@pytest.mark.parametrize(
    "cards",
    [
        register_text(("GPU-a0", 0)),
        register_text(("GPU-a0", 24576), count=0),
        register_text(("GPU-a0", 0), ("GPU-a1", 24576), count=0).replace("100", "0"),
    ],
    ids=["no memory", "no slots", "nothing"],
)
def test_case_35_and_146_a_card_without_capacity_gives_no_nan_and_no_ratio(cards: str) -> None:
    held = one_node(register=cards)

    found = samples(held)

    assert all(math.isfinite(value) for value in found.values())
    assert "NaN" not in page(held)
    has_memory = found["hami_gpu_memory_limit_bytes", "node-a", "GPU-a0"] > 0
    ratio = ("hami_node_gpu_memory_allocated_ratio", "node-a", "GPU-a0")
    assert (ratio in found) is has_memory


def test_case_146_a_name_that_no_page_can_carry_breaks_nothing() -> None:
    held = one_node()
    (card,) = held.ledger.devices("node-a", "NVIDIA")
    held.ledger.set_devices(
        "node-a", "NVIDIA", [dataclasses.replace(card, type='A10\udcff "new"\nline')]
    )

    assert ("hami_gpu_memory_limit_bytes", "node-a", "GPU-a0") in samples(held)


def test_case_144_a_deleted_node_has_no_series() -> None:
    held = one_node()
    held.ledger.observe(bound(pending()))
    assert 'node="node-a"' in page(held)

    register.node_gone(held, "node-a")

    assert 'node="node-a"' not in page(held)


def test_case_151_a_follower_exports_its_own_state_and_no_allocation() -> None:
    held = one_node()
    held.ledger.observe(bound(pending()))
    held.leader = False

    found = samples(held)

    assert {name for name, _, _ in found if name.startswith("hami_")} == {"hami_build_info"}
    assert (found["vgpu_leader", "", ""], found["vgpu_synced", "", ""]) == (0, 1)
    assert found["vgpu_nodes", "", ""] == 1


def test_case_148_a_share_says_the_containers_place_in_the_pod_init_first() -> None:
    pod = pending(
        "p1",
        clusters.container(kind=clusters.request.ContainerKind.INIT, name="init"),
        clusters.asks(memory_mib=2000),
    )
    held = one_node()
    shares = ((), (clusters.share("GPU-a0", 2000),))
    held.ledger.observe(bound(pod, promised={"NVIDIA": shares}))

    assert 'container_index="1",container="main"' in page(held)


def test_a_pod_that_has_ended_has_no_series() -> None:
    held = one_node()
    held.ledger.observe(dataclasses.replace(bound(pending()), phase="Succeeded"))

    assert 'pod="p1"' not in page(held)


def test_binds_that_wait_and_locks_are_counted() -> None:
    held = one_node(lock="2026-01-15T09:59:30Z,team-a,p1")

    found = samples(held)

    assert found["vgpu_node_locks", "", ""] == 1
    assert found["vgpu_binds_waiting", "", ""] == 0
