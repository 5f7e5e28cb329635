"""Cases from real use, area H: namespace quotas.

``P(n, mem, cores)`` in the reports is ``asks(n, mem, cores)`` here; limits are
of ``team-a``, where all pods are.
"""

import json

import pytest

from support import case_cluster
from support.case_cluster import REG1, REG2, CaseCluster, asks, card, node, pod
from support.dialogue import Dialogue
from support.operator_books import NOW
from support.resource_quotas import CORES, MEMORY, limit
from vgpu_operator.flows import bind, effects, pod_events, quotas
from vgpu_operator.wire import extender


def used(one: CaseCluster) -> tuple[int, int]:
    """Return the MiB and cores of NVIDIA cards that the namespace's pods hold."""
    amount = one.books.ledger.quota_standing("team-a").used.get("NVIDIA")
    return (0, 0) if amount is None else (amount.memory_mib, amount.cores)


def refused(one: CaseCluster, *containers: case_cluster.Json, **fields: case_cluster.Json) -> str:
    """Return why admission refuses a pod of these containers; empty when it does not."""
    verdict = one.admit(pod("asking", *containers, **fields))
    assert verdict.code == (200 if verdict.allowed else 403)
    return verdict.message


# --- 131: amounts times cards ----------------------------------------------------------


def test_case_131_every_card_of_a_container_counts() -> None:
    one = CaseCluster(node(*REG2))
    limit(one.books, {MEMORY: 4096})

    one.place(pod("p1", asks(2, 2048, 20)))

    assert used(one) == (4096, 40)
    assert refused(one, asks(1, 1)).startswith("exceeding resource quota: ")


# --- 132: the sum over containers ------------------------------------------------------


def test_case_132_containers_add_up() -> None:
    one = CaseCluster(node(*REG2))
    limit(one.books, {MEMORY: 2000})

    assert refused(one, asks(1, 1024), asks(1, 1024, name="side")) == (
        "exceeding resource quota: the pod takes at least 2048 of nvidia.com/gpumem, and 2000 of "
        "the namespace's 2000 are left (its pods hold 0); ask for less, end other pods, or raise "
        "limits.nvidia.com/gpumem in the namespace's ResourceQuota"
    )
    assert not refused(one, asks(1, 1024), asks(1, 976, name="side"))


@pytest.mark.parametrize(("most", "fits"), [(5000, True), (4999, False)])
def test_case_132_init_containers_count_by_the_largest_and_side_cars_are_added(
    most: int, fits: bool
) -> None:
    one = CaseCluster(node(*REG2))
    limit(one.books, {MEMORY: most})
    sidecar = asks(1, 1000, name="log", restartPolicy="Always")
    init = (sidecar, asks(1, 4000, name="load"), asks(1, 3000, name="check"))

    assert (not refused(one, asks(1, 2000), init=init)) is fits


# --- 133: ended pods, removed limits ---------------------------------------------------


def test_case_133_a_pod_that_has_ended_frees_its_share() -> None:
    promised = "GPU-a0,NVIDIA,3000,30:;"
    job = case_cluster.running("job", asks(1, 3000, 30), promised=promised)
    one = CaseCluster(node(*REG1), pods=(job,))
    limit(one.books, {MEMORY: 3000})
    assert used(one) == (3000, 30)
    assert refused(one, asks(1, 1))

    pod_events.pod_seen(one.books, one.record(job | {"status": {"phase": "Succeeded"}}))

    assert used(one) == (0, 0)
    assert not refused(one, asks(1, 3000))


def test_case_133_a_key_that_is_removed_limits_no_longer() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 3000, CORES: 10})
    assert "gpucores" in refused(one, asks(1, 1000, 50))

    limit(one.books, {MEMORY: 3000}, version="2")

    assert not refused(one, asks(1, 1000, 50))
    assert refused(one, asks(1, 3001, 50))


# --- 136: a limit of 0 -----------------------------------------------------------------


def test_case_136_a_limit_of_0_blocks_and_no_limit_does_not() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 0})

    assert refused(one, asks(1, 1))
    assert refused(one, asks(1)), "a whole card has memory too"
    assert not refused(one, case_cluster.limited({}))


# --- 138: a bind that failed -----------------------------------------------------------


def test_case_138_a_bind_that_fails_gives_its_share_of_the_quota_back() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 1000})
    record = one.record(pod("p1", asks(1, 1000)))
    pod_events.pod_seen(one.books, record)
    args = extender.BindArgs(namespace="team-a", name="p1", uid=record.key.uid, node="node-a")

    talk = Dialogue(bind.bind(one.books, args, NOW))
    assert used(one) == (1000, 0)
    talk.expects(effects.PatchNode)
    talk.fails(effects.Denied("PATCH nodes/node-a: 500"))

    assert talk.ended
    assert talk.result.error
    assert used(one) == (0, 0)


# --- 140: a deletion that was missed ---------------------------------------------------


def test_case_140_a_quota_that_the_next_list_lacks_limits_nothing() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 1}, name="old", version="5")
    limit(one.books, {MEMORY: 3000}, name="new", version="20")
    assert refused(one, asks(1, 2000))

    quotas.quotas_listed(one.books, uids={"uid-of-other"}, version="10")

    assert not refused(one, asks(1, 2000))
    assert refused(one, asks(1, 3001)), "what is known from later than the list stays"


def test_case_140_no_late_event_revives_a_quota_that_is_gone() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 1})
    quotas.quota_gone(one.books, "team-a", "cards", uid="uid-of-cards")

    limit(one.books, {MEMORY: 1}, version="2")

    assert not refused(one, asks(1, 2000))


# --- 141: the prefix of limits ---------------------------------------------------------


def test_case_141_only_the_prefix_limits_counts_and_requests_is_told_once() -> None:
    one = CaseCluster(node(*REG1))
    hard = {"requests.nvidia.com/gpumem": 1, "nvidia.com/gpumem": 1, "xlimits.nvidia.com/gpumem": 1}

    told = limit(one.books, hard)
    again = limit(one.books, hard | {"pods": 5}, version="2")

    assert told == (
        "requests.nvidia.com/gpumem is counted by the API server alone, per container and not per "
        "card; write limits.nvidia.com/gpumem for what the cards hold",
    )
    assert again == ()
    assert not refused(one, asks(1, 1000))
    quotas.quota_gone(one.books, "team-a", "cards")
    assert not refused(one, asks(1, 1000))


# --- 142: every vendor, in the pods' unit ----------------------------------------------


def test_case_142_a_limit_is_in_the_unit_that_pods_ask_in() -> None:
    one = CaseCluster(node(*REG1), vendors={"nvidia": {"memoryFactor": 100}})
    limit(one.books, {MEMORY: 50})

    one.place(pod("p1", asks(1, 30)))

    assert used(one) == (3000, 0)
    assert "takes at least 30 of nvidia.com/gpumem, and 20 of the namespace's 50" in refused(
        one, asks(1, 30)
    )
    assert not refused(one, asks(1, 20))


MLU = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20"}
METAX = {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "16"}


@pytest.mark.parametrize(
    ("limits", "key", "most", "fits"),
    [
        (MLU, "cambricon.com/mlu.smlu.vmemory", "20", True),
        (MLU, "cambricon.com/mlu.smlu.vmemory", "19", False),
        (METAX, "metax-tech.com/vmemory", "16", True),
        (METAX, "metax-tech.com/vmemory", "16Gi", True),
        (METAX, "metax-tech.com/vmemory", "15Gi", False),
        ({"hygon.com/dcunum": "1", "hygon.com/dcucores": "60"}, "hygon.com/dcucores", "59", False),
        ({"aws.amazon.com/neuroncore": "2"}, "aws.amazon.com/neuroncore", "2", True),
        ({"aws.amazon.com/neuroncore": "4"}, "aws.amazon.com/neuroncore", "3", False),
        ({"enflame.com/gcu-memory": "20"}, "enflame.com/gcu-memory", "19", False),
    ],
)
def test_case_142_every_vendor_is_limited(
    limits: dict[str, str], key: str, most: str, fits: bool
) -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {f"limits.{key}": most})

    assert (not refused(one, case_cluster.limited(limits))) is fits


def test_case_142_vendors_that_hami_checks_at_admission_only_are_held_when_cards_are_chosen() -> (
    None
):
    """A whole card's memory is known only there."""
    register = json.dumps([card("DCU-0", type="DCU-K100", devmem=65536)])
    dcu = node(
        notes={"hami.io/node-dcu-register": register},
        allocatable={"hygon.com/dcunum": "10"},
    )
    one = CaseCluster(dcu)
    limit(one.books, {"limits.hygon.com/dcumem": 65535})

    placed = one.place(pod("p1", case_cluster.limited({"hygon.com/dcunum": "1"})))

    assert one.reason(placed) == "1/1 ResourceQuotaNotFit"
    limit(one.books, {"limits.hygon.com/dcumem": 65536}, version="2")
    assert one.place(pod("p2", case_cluster.limited({"hygon.com/dcunum": "1"}))).node == "node-a"


# --- 143: after init containers --------------------------------------------------------


def test_case_143_what_init_containers_held_is_free_when_they_are_done() -> None:
    """kube-apiserver counts max(app, init) for the pod's life; the cards are free, so ours is."""
    promised = "GPU-a0,NVIDIA,8000,0:;GPU-a0,NVIDIA,2000,0:;"
    raw = pod(
        "p1",
        asks(1, 2000),
        init=(asks(1, 8000, name="load"),),
        notes={"hami.io/vgpu-node": "node-a", case_cluster.ALLOCATED: promised},
        node_name="node-a",
    )
    one = CaseCluster(node(*REG1), pods=(raw,))
    limit(one.books, {MEMORY: 10000})
    assert used(one) == (8000, 0)
    assert refused(one, asks(1, 8000))

    ended = {"name": "load", "state": {"terminated": {"exitCode": 0}}}
    done = raw | {"status": {"phase": "Running", "initContainerStatuses": [ended]}}
    pod_events.pod_seen(one.books, one.record(done))

    assert used(one) == (2000, 0)
    assert not refused(one, asks(1, 8000))


# --- what the tests above take for granted ---------------------------------------------


def test_the_quota_of_another_namespace_limits_nobody_here() -> None:
    one = CaseCluster(node(*REG1))
    limit(one.books, {MEMORY: 0}, namespace="team-b")

    assert not refused(one, asks(1, 1000))


@pytest.mark.parametrize("order", [("tight", "loose"), ("loose", "tight")])
def test_of_several_quotas_the_tightest_holds(order: tuple[str, str]) -> None:
    one = CaseCluster(node(*REG1))
    for name in order:
        limit(one.books, {MEMORY: {"tight": 1000, "loose": 5000}[name]}, name=name)

    assert refused(one, asks(1, 1001))
    assert not refused(one, asks(1, 1000))
