"""Every vendor that is judged for all nodes at once says what the slow twin says.

Thousands of random questions over the real vendors, mixed on nodes and in
pods: what fits, why not, the scores, and which cards are chosen.
"""

import collections

import pytest

from support import clusters, random_vendors, slow_twin
from vgpu_operator.model import allocation, reason
from vgpu_operator.scheduling import choose, fit

SEEDS = range(10)
QUESTIONS = 400
LEAST_OF_A_SEED = 150
"""Nodes that are judged for each vendor with one seed: with all seeds, at least 1,500."""


def test_these_are_the_vendors_with_a_fast_path() -> None:
    assert sorted(random_vendors.FAST) == [
        "BI-V100",
        "BI-V150",
        "DCU",
        "MLU",
        "MR-V100",
        "MR-V50",
        "Metax-GPU",
        "NVIDIA",
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_place_and_choose_say_what_the_slow_twin_says(seed: int) -> None:
    judged: collections.Counter[str] = collections.Counter()
    for number, question in enumerate(random_vendors.questions(seed, QUESTIONS)):
        assert_as_the_twin(question, f"seed {seed}, question {number}")
        for vendor in question.wish.vendors:
            judged[vendor] += len(question.cluster.nodes)

    assert judged.keys() == random_vendors.FAST.keys()
    assert min(judged.values()) >= LEAST_OF_A_SEED, judged


def assert_as_the_twin(question: random_vendors.Question, which: str) -> None:
    books = clusters.build_ledger(question.cluster, rules=random_vendors.FAST)
    view = books.snapshot()
    names = [*question.cluster.nodes, "node-z"]
    policies = question.defaults.card_policies
    twin = slow_twin.Twin(question.cluster)
    expected = {
        name: twin.judge(name, question.wish, policies, question.allowances) for name in names
    }

    found = fit.place(view, names, question.wish, question.defaults, allowances=question.allowances)

    assert found.fitting == tuple(name for name in names if expected[name].fits), which
    assert found.raw_scores.tolist() == [expected[name].score for name in found.fitting], which
    for name, answer in expected.items():
        if not answer.fits:
            assert_refused(found.rejections[name], answer, which)
        if name == "node-z":
            continue
        chosen = choose.choose(
            view, name, question.wish, question.defaults, allowances=question.allowances
        )
        if not answer.fits:
            assert chosen == found.rejections[name], which
            continue
        assert isinstance(chosen, allocation.Allocation), which
        assert {
            vendor: [
                [(share.device_id, share.memory_mib, share.cores_percent) for share in entry]
                for entry in entries
            ]
            for vendor, entries in chosen.shares.items()
        } == answer.shares, which


def assert_refused(found: reason.NodeRejection, answer: slow_twin.NodeAnswer, which: str) -> None:
    words = found.text.partition(": ")[0] if answer.unregistered else found.text
    assert words == answer.text(), which
    assert found.resolvable == answer.resolvable, which


def test_the_questions_are_of_every_kind() -> None:
    """A generator that asks only what always fits would prove nothing."""
    asked: dict[str, set[bool]] = {}
    reasons: set[str] = set()
    vendors_together = 0
    for question in random_vendors.questions(seed=99, number=600):
        twin = slow_twin.Twin(question.cluster)
        vendors_together += len(question.wish.vendors) > 1
        for name in question.cluster.nodes:
            answer = twin.judge(
                name, question.wish, question.defaults.card_policies, question.allowances
            )
            reasons.update(answer.counts)
            for vendor in question.wish.vendors:
                asked.setdefault(vendor, set()).add(answer.fits)

    assert asked == {vendor: {True, False} for vendor in random_vendors.FAST}
    assert vendors_together > 50
    assert reasons == {
        "AllocatedCardsInsufficientRequest",
        "CardComputeUnitsExhausted",
        "CardCordoned",
        "CardInsufficientCore",
        "CardInsufficientMemory",
        "CardNotHealth",
        "CardTimeSlicingExhausted",
        "CardTypeMismatch",
        "CardUuidMismatch",
        "ExclusiveDeviceAllocateConflict",
        "NodeInsufficientDevice",
        "NumaNotFit",
        "ResourceQuotaNotFit",
    }
