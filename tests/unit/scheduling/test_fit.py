"""Why a node cannot take a pod, in HAMi's words."""

import dataclasses

import pytest

from support import clusters
from vgpu_operator.ledger import ledger
from vgpu_operator.model import device, policy, reason, request
from vgpu_operator.scheduling import fit

ALL = fit.Defaults()
MUTEX = (policy.CardPolicy.MUTEX,)


def books_of(
    *cards: device.Device,
    held: tuple[tuple[str, int, int], ...] = (),
    cordoned: tuple[str, ...] = (),
    allocatable: int | None = 80,
) -> ledger.Ledger:
    """Return node-a with these cards; ``held`` is (card, MiB, cores) of running pods."""
    return clusters.build_ledger(
        clusters.Cluster(
            nodes={"node-a": clusters.node(*cards, cordoned=cordoned, allocatable=allocatable)},
            pods=[
                clusters.holder(f"h{number}", "node-a", card, memory, cores)
                for number, (card, memory, cores) in enumerate(held)
            ],
        )
    )


def refusal(books: ledger.Ledger, wish: request.PodRequest) -> reason.NodeRejection | None:
    return fit.place(books.snapshot(), ["node-a"], wish, ALL).rejections.get("node-a")


def why(books: ledger.Ledger, wish: request.PodRequest) -> str:
    found = refusal(books, wish)
    return found.text if found else "fits"


ONE = clusters.card("GPU-a0")
TWO = (clusters.card("GPU-a0", index=0), clusters.card("GPU-a1", index=1))
SMALL = clusters.wish(clusters.asks(memory_mib=100))


def selecting(**rules: object) -> request.PodRequest:
    selection = request.CardSelection(**rules)  # type: ignore[arg-type]
    return clusters.wish(clusters.asks(memory_mib=100), selection=selection)


@pytest.mark.parametrize(
    ("books", "wish", "expected"),
    [
        pytest.param(
            books_of(clusters.card("GPU-a0", healthy=False)),
            SMALL,
            "1/1 CardNotHealth",
            id="an unhealthy card",
        ),
        pytest.param(
            books_of(*TWO, cordoned=("GPU-a0", "GPU-a1")),
            SMALL,
            "2/2 CardCordoned",
            id="cordoned cards",
        ),
        pytest.param(
            books_of(ONE), selecting(use_types=("H100",)), "1/1 CardTypeMismatch", id="another type"
        ),
        pytest.param(
            books_of(ONE), selecting(use_types=("a10",)), "fits", id="a type in small letters"
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", card_type="NVIDIA-NVIDIA A100")),
            selecting(use_types=("A10",)),
            "fits",
            id="a type word inside a longer type",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", card_type="NVIDIA-NVIDIA A100")),
            selecting(use_types=("A10",), avoid_types=("A100",)),
            "1/1 CardTypeMismatch",
            id="avoid wins over use",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", card_type="NVIDIA-NVIDIA T1000 8GB")),
            selecting(use_types=("t1000 8gb",)),
            "fits",
            id="a type with a space",
        ),
        pytest.param(
            books_of(ONE), selecting(mode="mps"), "1/1 CardTypeMismatch", id="another mode"
        ),
        pytest.param(
            books_of(ONE), selecting(mode="x,hami-core"), "fits", id="a mode that holds the card's"
        ),
        pytest.param(
            books_of(*TWO), selecting(use_ids=("GPU-a",)), "2/2 CardUuidMismatch", id="half an id"
        ),
        pytest.param(
            books_of(*TWO),
            selecting(use_ids=("GPU-a0",), avoid_ids=("GPU-a0",)),
            "2/2 CardUuidMismatch",
            id="an id both wanted and avoided",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", slots=3), held=(("GPU-a0", 100, 0),) * 3),
            SMALL,
            "1/1 CardTimeSlicingExhausted",
            id="all slots taken",
        ),
        pytest.param(
            books_of(ONE, held=(("GPU-a0", 1, 0),)),
            clusters.wish(clusters.asks(memory_mib=1), card_policies=MUTEX),
            "1/1 ExclusiveDeviceAllocateConflict",
            id="a used card under mutex",
        ),
        pytest.param(
            books_of(
                clusters.card("GPU-a0", memory_mib=46068, slots=50),
                held=(("GPU-a0", 2000, 0),) * 23,
            ),
            clusters.wish(clusters.asks(memory_mib=2000)),
            "1/1 CardInsufficientMemory",
            id="the 24th pod of 2000 MiB on 46068",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", memory_mib=0)),
            clusters.wish(clusters.asks(percent=10)),
            "1/1 CardInsufficientMemory",
            id="a percentage of no memory",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", cores_percent=200), held=(("GPU-a0", 1, 100),) * 2),
            clusters.wish(clusters.asks(memory_mib=1, cores_percent=1)),
            "1/1 CardInsufficientCore",
            id="cores of a scaled card used up",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", cores_percent=200), held=(("GPU-a0", 1, 100),)),
            clusters.wish(clusters.asks(memory_mib=1, cores_percent=100)),
            "fits",
            id="100 cores are not exclusive on a scaled card",
        ),
        pytest.param(
            books_of(ONE, held=(("GPU-a0", 1000, 0),)),
            clusters.wish(clusters.asks(memory_mib=1000, cores_percent=150)),
            "1/1 ExclusiveDeviceAllocateConflict",
            id="more than all cores of a used card",
        ),
        pytest.param(
            books_of(ONE, held=(("GPU-a0", 1000, 100),)),
            SMALL,
            "1/1 CardComputeUnitsExhausted",
            id="no cores asked, all given away",
        ),
        pytest.param(
            books_of(ONE),
            clusters.wish(clusters.asks(2, memory_mib=100)),
            "NodeInsufficientDevice",
            id="more cards than the node has",
        ),
        pytest.param(
            books_of(clusters.card("GPU-a0", card_type="Tesla P4")),
            SMALL,
            "NodeInsufficientDevice",
            id="a type without the vendor's keyword",
        ),
        pytest.param(
            books_of(
                clusters.card("GPU-a0", healthy=False),
                clusters.card("GPU-a1", healthy=False, memory_mib=1),
                clusters.card("GPU-a2", card_type="NVIDIA-H100"),
                clusters.card("GPU-a3", memory_mib=50),
            ),
            selecting(use_types=("A10",)),
            "1/4 CardInsufficientMemory, 1/4 CardTypeMismatch, 2/4 CardNotHealth",
            id="the first fact counts, the counts are sorted as text",
        ),
        pytest.param(
            books_of(*TWO, held=(("GPU-a1", 24000, 0),)),
            clusters.wish(clusters.asks(2, memory_mib=1000)),
            "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory",
            id="too few of several cards",
        ),
    ],
)
def test_the_reason_is_hamis(books: ledger.Ledger, wish: request.PodRequest, expected: str) -> None:
    assert why(books, wish) == expected


def test_the_second_container_sees_what_the_first_took() -> None:
    wish = clusters.wish(clusters.asks(memory_mib=10240), clusters.asks(memory_mib=1024))

    assert why(books_of(clusters.card("GPU-a0", memory_mib=10240)), wish) == (
        "1/1 CardInsufficientMemory"
    )
    assert why(books_of(*(dataclasses.replace(c, memory_mib=10240) for c in TWO)), wish) == "fits"


def test_init_containers_do_not_add_up() -> None:
    init = clusters.container(clusters.asks(memory_mib=10240), kind=request.ContainerKind.INIT)
    wish = clusters.wish(init, init, init, clusters.asks(memory_mib=4096))

    assert why(books_of(clusters.card("GPU-a0", memory_mib=16384)), wish) == "fits"


@pytest.mark.parametrize(("memory_mib", "expected"), [(12288, "fits"), (12287, "refused")])
def test_an_init_container_needs_room_beside_earlier_sidecars(
    memory_mib: int, expected: str
) -> None:
    wish = clusters.wish(
        clusters.container(clusters.asks(memory_mib=4096), kind=request.ContainerKind.SIDECAR),
        clusters.container(clusters.asks(memory_mib=8192), kind=request.ContainerKind.INIT),
        clusters.asks(memory_mib=6144),
    )

    found = why(books_of(clusters.card("GPU-a0", memory_mib=memory_mib)), wish)

    assert found == ("fits" if expected == "fits" else "1/1 CardInsufficientMemory")


@pytest.mark.parametrize(
    ("books", "condition"),
    [
        (books_of(), "no NVIDIA cards are registered"),
        (
            books_of(ONE, allocatable=0),
            "kubelet offers no NVIDIA devices (allocatable is 0 or absent)",
        ),
        (
            books_of(ONE, allocatable=None),
            "kubelet offers no NVIDIA devices (allocatable is 0 or absent)",
        ),
    ],
    ids=["no cards", "allocatable 0", "allocatable absent"],
)
def test_an_unregistered_node_says_which_condition_failed(
    books: ledger.Ledger, condition: str
) -> None:
    found = refusal(books, SMALL)

    assert found is not None
    assert found.text == f"node unregistered: {condition}"
    assert not found.resolvable


def test_unknown_names_are_refused_in_an_empty_ledger_too() -> None:
    for books in (books_of(ONE), clusters.build_ledger(clusters.Cluster(nodes={}))):
        found = fit.place(books.snapshot(), ["node-x", "node-y"], SMALL, ALL)

        assert found.fitting == ()
        assert {name: one.text for name, one in found.rejections.items()} == dict.fromkeys(
            ("node-x", "node-y"), "node unregistered: the node is not known to the operator"
        )


def test_every_vendor_has_to_fit() -> None:
    cluster = clusters.Cluster(
        nodes={
            "node-a": clusters.Node(
                cards={"NVIDIA": (ONE,), "MLU": (clusters.card("MLU-0", card_type="MLU370"),)},
                allocatable={"NVIDIA": 10, "MLU": 10},
            ),
            "node-b": clusters.node(clusters.card("GPU-b0")),
        },
        vendors=("NVIDIA", "MLU"),
    )
    wish = clusters.wish(
        clusters.container(SMALL.containers[0].devices[0], clusters.asks(vendor="MLU"))
    )

    found = fit.place(clusters.build_ledger(cluster).snapshot(), ["node-b", "node-a"], wish, ALL)

    assert found.fitting == ("node-a",)
    assert found.rejections["node-b"].text == "node unregistered: no MLU cards are registered"


def test_a_pod_that_asks_the_impossible_fits_nowhere() -> None:
    container = dataclasses.replace(SMALL.containers[0], impossible="gpumem is too large")
    wish = dataclasses.replace(SMALL, containers=(container,))

    assert why(books_of(ONE), wish) == "gpumem is too large"
    found = refusal(books_of(ONE), wish)
    assert found is not None
    assert not found.resolvable


def test_a_pod_that_asks_nothing_fits_everywhere() -> None:
    wish = clusters.wish(clusters.container())

    found = fit.place(books_of(ONE).snapshot(), ["node-x", "node-a"], wish, ALL)

    assert found.fitting == ("node-x", "node-a")
    assert found.scores(100).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("books", "wish", "resolvable"),
    [
        (books_of(ONE, held=(("GPU-a0", 24576, 0),)), SMALL, True),
        (books_of(ONE), clusters.wish(clusters.asks(memory_mib=24577)), False),
        (books_of(ONE), selecting(use_types=("H100",)), False),
        (books_of(ONE), clusters.wish(clusters.asks(2, memory_mib=1)), False),
        (
            books_of(
                TWO[0], dataclasses.replace(TWO[1], healthy=False), held=(("GPU-a0", 1, 100),)
            ),
            clusters.wish(clusters.asks(2, memory_mib=1)),
            False,
        ),
    ],
    ids=["full", "larger than any card", "wrong type", "too few cards", "too few healthy cards"],
)
def test_only_what_an_eviction_can_change_is_resolvable(
    books: ledger.Ledger, wish: request.PodRequest, resolvable: bool
) -> None:
    found = refusal(books, wish)

    assert found is not None
    assert found.resolvable is resolvable


def test_few_names_of_many_nodes_are_judged_alike() -> None:
    names = [f"node-{number}" for number in range(9)]
    cluster = clusters.Cluster(
        nodes={
            name: clusters.node(clusters.card(f"GPU-{name}", memory_mib=100 * number))
            for number, name in enumerate(names)
        }
    )
    view = clusters.build_ledger(cluster).snapshot()
    wish = clusters.wish(
        clusters.asks(memory_mib=500),
        selection=request.CardSelection(avoid_ids=("GPU-node-8",)),
    )

    found = fit.place(view, ["node-x", "node-8", "node-2", "node-7"], wish, ALL)

    assert found.fitting == ("node-7",)
    assert {name: why.text for name, why in found.rejections.items()} == {
        "node-x": "node unregistered: the node is not known to the operator",
        "node-8": "1/1 CardUuidMismatch",
        "node-2": "1/1 CardInsufficientMemory",
    }


def test_an_answer_stays_right_when_the_ledger_goes_on() -> None:
    books = books_of(ONE, held=(("GPU-a0", 24576, 0),))
    found = fit.place(books.snapshot(), ["node-a"], SMALL, ALL)

    books.forget("h0")
    books.set_devices("node-a", clusters.VENDOR, ())

    assert found.rejections["node-a"].text == "1/1 CardInsufficientMemory"
