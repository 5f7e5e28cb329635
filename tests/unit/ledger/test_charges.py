"""What a pod's shares cost its cards."""

import pytest

from support import clusters
from vgpu_operator.ledger import charges
from vgpu_operator.model import records, request, settings

INIT, SIDECAR = request.ContainerKind.INIT, request.ContainerKind.SIDECAR
CARDS = {
    "GPU-a0": clusters.card("GPU-a0"),
    "GPU-a1": clusters.card("GPU-a1", memory_mib=16384),
}


def hold(
    record: records.PodRecord, trust: settings.Trust = settings.Trust.REQUESTS
) -> charges.Holding | None:
    return charges.of_record(
        record,
        vendors=(clusters.VENDOR,),
        trust=trust,
        find_card=lambda _, card: CARDS.get(card),
        rules={},
    )


def cost(
    record: records.PodRecord, trust: settings.Trust = settings.Trust.REQUESTS
) -> dict[str, tuple[int, int, int]]:
    """Return (slots, memory, cores) per card."""
    held = hold(record, trust)
    cards = held.charges.get(clusters.VENDOR, {}) if held else {}
    return {card: (one.slots, one.memory_mib, one.cores_percent) for card, one in cards.items()}


def asking(memory_mib: int, cores_percent: int = 0, kind: str = "app") -> request.ContainerRequest:
    return clusters.container(
        clusters.asks(memory_mib=memory_mib, cores_percent=cores_percent),
        kind=request.ContainerKind(kind),
    )


def test_shares_of_one_card_add_up() -> None:
    wish = clusters.wish(asking(2000, 10), asking(3000, 20))
    promised = clusters.promise(
        "node-a",
        [clusters.share("GPU-a0", 2000, 10)],
        [clusters.share("GPU-a0", 3000, 20)],
    )

    assert cost(clusters.pod(wish, promised)) == {"GPU-a0": (2, 5000, 30)}


def test_three_init_containers_cost_the_largest_of_them() -> None:
    wish = clusters.wish(*[asking(10240, kind="init")] * 3, asking(4096))
    promised = clusters.promise(
        "node-a",
        *[[clusters.share("GPU-a0", 10240)]] * 3,
        [clusters.share("GPU-a0", 4096)],
    )

    assert cost(clusters.pod(wish, promised, init_done=False)) == {"GPU-a0": (1, 10240, 0)}
    assert cost(clusters.pod(wish, promised, init_done=True)) == {"GPU-a0": (1, 4096, 0)}


def test_an_init_container_runs_beside_the_sidecars_declared_before_it() -> None:
    wish = clusters.wish(
        asking(4096, kind="sidecar"), asking(8192, kind="init"), asking(6144, kind="app")
    )
    promised = clusters.promise(
        "node-a", *([clusters.share("GPU-a0", memory)] for memory in (4096, 8192, 6144))
    )

    assert cost(clusters.pod(wish, promised, init_done=False)) == {"GPU-a0": (2, 12288, 0)}
    assert cost(clusters.pod(wish, promised, init_done=True)) == {"GPU-a0": (2, 10240, 0)}


def test_an_init_container_does_not_wait_for_sidecars_declared_after_it() -> None:
    wish = clusters.wish(asking(8192, kind="init"), asking(4096, kind="sidecar"))
    promised = clusters.promise(
        "node-a", [clusters.share("GPU-a0", 8192)], [clusters.share("GPU-a0", 4096)]
    )

    assert cost(clusters.pod(wish, promised, init_done=False)) == {"GPU-a0": (1, 8192, 0)}


def test_slots_stay_at_their_peak_when_init_containers_are_done() -> None:
    wish = clusters.wish(
        clusters.container(clusters.asks(2, memory_mib=100), kind=INIT), asking(50)
    )
    promised = clusters.promise(
        "node-a",
        [clusters.share("GPU-a0", 100), clusters.share("GPU-a1", 100)],
        [clusters.share("GPU-a0", 50)],
    )

    assert cost(clusters.pod(wish, promised, init_done=True)) == {
        "GPU-a0": (1, 50, 0),
        "GPU-a1": (1, 0, 0),
    }


def test_a_share_costs_at_most_what_its_container_asks() -> None:
    wish = clusters.wish(asking(1000, 10))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 9000, 90)])
    record = clusters.pod(wish, promised)

    assert cost(record) == {"GPU-a0": (1, 1000, 10)}
    assert cost(record, settings.Trust.ANNOTATIONS) == {"GPU-a0": (1, 9000, 90)}


def test_a_smaller_promise_costs_what_it_says() -> None:
    wish = clusters.wish(asking(1000, 10))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 400, 5)])

    assert cost(clusters.pod(wish, promised)) == {"GPU-a0": (1, 400, 5)}


def test_asked_cores_above_a_whole_card_count_as_a_whole_card() -> None:
    wish = clusters.wish(asking(1000, 150))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 1000, 150)])

    assert cost(clusters.pod(wish, promised)) == {"GPU-a0": (1, 1000, 100)}


def test_more_devices_than_asked_cost_nothing_and_are_reported() -> None:
    wish = clusters.wish(asking(1000))
    promised = clusters.promise(
        "node-a", [clusters.share("GPU-a0", 1000), clusters.share("GPU-a1", 700, 20)]
    )
    held = hold(clusters.pod(wish, promised))

    assert held is not None
    assert cost(clusters.pod(wish, promised)) == {"GPU-a0": (1, 1000, 0)}
    assert held.surplus == (
        charges.Surplus(
            vendor="NVIDIA",
            container=0,
            device_id="GPU-a1",
            slots=1,
            memory_mib=700,
            cores_percent=20,
        ),
    )


def test_a_forged_promise_of_a_pod_that_asks_nothing_costs_nothing() -> None:
    wish = clusters.wish(clusters.container())
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 24576, 100)])

    assert cost(clusters.pod(wish, promised)) == {}


@pytest.mark.parametrize(
    ("card", "cap"),
    [("GPU-a1", 8192), ("GPU-zz", 9000)],
    ids=["of the card's memory", "as promised while the card is absent"],
)
def test_a_percentage_is_worked_out_on_the_card(card: str, cap: int) -> None:
    wish = clusters.wish(clusters.asks(percent=50))
    promised = clusters.promise("node-a", [clusters.share(card, 9000)])

    assert cost(clusters.pod(wish, promised)) == {card: (1, cap, 0)}


def test_a_text_without_empty_entries_is_read_as_the_containers_that_ask() -> None:
    """HAMi leaves out the entries of containers without a device."""
    wish = clusters.wish(
        clusters.container(kind=INIT), clusters.container(), asking(2000), clusters.container()
    )
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 2000)])

    assert cost(clusters.pod(wish, promised, init_done=True)) == {"GPU-a0": (1, 2000, 0)}


def test_a_text_of_full_length_is_never_shifted() -> None:
    wish = clusters.wish(clusters.container(), asking(2000))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 2000)], [])

    assert cost(clusters.pod(wish, promised)) == {}


def test_absurd_and_negative_amounts_stay_within_bounds() -> None:
    wish = clusters.wish(asking(1))
    promised = clusters.promise(
        "node-a", [clusters.share("GPU-a0", -5, -5), clusters.share("GPU-a1", 2**80, 2**80)]
    )

    assert cost(clusters.pod(wish, promised), settings.Trust.ANNOTATIONS) == {
        "GPU-a0": (1, 0, 0),
        "GPU-a1": (1, 2**40, 2**40),
    }


@pytest.mark.parametrize(
    "fields",
    [{"node_name": ""}, {"node_name": "node-b"}, {"phase": "Succeeded"}, {"phase": "Failed"}],
    ids=["unbound", "bound elsewhere", "succeeded", "failed"],
)
def test_a_promise_counts_only_where_the_living_pod_is_bound(fields: dict[str, str]) -> None:
    wish = clusters.wish(asking(1000))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 1000)])
    record = clusters.pod(
        wish, promised, node_name=fields.get("node_name"), phase=fields.get("phase", "Running")
    )

    assert hold(record) is None


def test_a_terminating_pod_still_costs_its_cards() -> None:
    wish = clusters.wish(asking(1000))
    promised = clusters.promise("node-a", [clusters.share("GPU-a0", 1000)])

    assert cost(clusters.pod(wish, promised, deleting=True)) == {"GPU-a0": (1, 1000, 0)}


def test_only_a_pod_that_asks_for_the_vendor_can_block_its_cards() -> None:
    asks_it = clusters.pod(
        clusters.wish(asking(1000)), clusters.promise("node-a", []), faults=["NVIDIA"]
    )
    asks_nothing = clusters.pod(
        clusters.wish(clusters.container()), clusters.promise("node-a", []), faults=["NVIDIA"]
    )

    held = hold(asks_it)
    assert held is not None
    assert held.blocks == {"NVIDIA"}
    assert hold(asks_nothing) is None
