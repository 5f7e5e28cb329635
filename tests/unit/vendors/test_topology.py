"""Which NVIDIA cards go together: link scores of pairs."""

import itertools
import random
import time

import pytest

from vgpu_operator.model import errors
from vgpu_operator.vendors import topology

NAMES = [f"GPU-{index}" for index in range(16)]


def scores_of(rng: random.Random, names: list[str], values: list[int]) -> dict[str, dict[str, int]]:
    return {one: {other: rng.choice(values) for other in names if other != one} for one in names}


def listed_all(names: list[str], count: int, scores: topology.PairScores) -> tuple[int, ...]:
    """The obvious twin: every set in order, the first with the highest sum stays."""

    def total(cards: tuple[int, ...]) -> int:
        return sum(
            scores.get(names[one], {}).get(names[other], 0)
            for one, other in itertools.combinations(cards, 2)
        )

    return max(itertools.combinations(range(len(names)), count), key=total)


def test_the_set_with_the_highest_sum_is_taken() -> None:
    scores = {"a": {"b": 100, "c": 200}, "b": {"a": 100, "c": 150}, "c": {"a": 200, "b": 150}}

    assert topology.best_linked(["a", "b", "c"], 2, scores) == (0, 2)


def test_the_card_that_is_linked_worst_serves_a_single_wish() -> None:
    scores = {"a": {"b": 100, "c": 200}, "b": {"a": 100, "c": 150}, "c": {"a": 200, "b": 150}}

    assert topology.worst_linked(["a", "b", "c"], scores) == 1


def test_a_score_counts_in_the_direction_of_the_earlier_card_only() -> None:
    scores = {"a": {"b": 100}, "c": {"b": 90}}

    assert topology.best_linked(["c", "b", "a"], 2, scores) == (0, 1)


@pytest.mark.parametrize("scores", [{}, {"GPU-0": {"GPU-9": 0}}])
def test_case_60_without_scores_some_set_is_taken_all_the_same(scores: topology.PairScores) -> None:
    assert topology.best_linked(NAMES[:4], 2, scores) == (0, 1)
    assert topology.worst_linked(NAMES[:4], scores) == 0


@pytest.mark.parametrize("seed", range(30))
def test_the_answer_is_the_one_of_listing_every_set(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    names = NAMES[: rng.randint(3, 9)]
    count = rng.randint(2, len(names))
    values = rng.choice([[0, 10], [20, 220], list(range(-5, 40))])
    scores = scores_of(rng, names, values)

    assert topology.best_linked(names, count, scores) == listed_all(names, count, scores)


@pytest.mark.parametrize("values", [[0], [20, 220], list(range(1000))])
def test_case_158_eight_of_sixteen_cards_are_found_in_bounded_work(values: list[int]) -> None:
    scores = scores_of(random.Random(1), NAMES, values)  # noqa: S311
    search = topology._Search(
        [[scores[one].get(other, 0) for other in NAMES] for one in NAMES], count=8
    )

    began = time.process_time()
    search.extend([], 0, [0] * len(NAMES), 0)

    assert search.steps < topology.STEPS
    assert time.process_time() - began < 1  # about 30 ms; the limit is for busy machines


def test_where_the_work_ends_early_a_good_set_is_taken() -> None:
    names = [f"GPU-{index}" for index in range(64)]
    rng = random.Random(7)  # noqa: S311
    scores = scores_of(rng, names, list(range(1000)))
    for one, other in itertools.permutations(range(40, 56), 2):
        scores[names[one]][names[other]] = 5000

    assert topology.best_linked(names, 16, scores) == tuple(range(40, 56))


def test_more_cards_than_are_searched_are_grown_one_by_one() -> None:
    names = [f"GPU-{index}" for index in range(200)]

    assert topology.best_linked(names, 3, {"GPU-7": {"GPU-9": 5}}) == (0, 7, 9)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('[{"uuid":"a","score":{"b":1.5}}]', 1),
        ('[{"uuid":"a"},{"uuid":"b","score":[]}]', 14),
        ('[{"uuid":"a"},7]', 14),
        ('{"uuid":"a"}', 0),
    ],
)
def test_scores_that_cannot_be_read_are_refused_with_their_place(text: str, offset: int) -> None:
    with pytest.raises(errors.DecodeError) as fault:
        topology.decode_pair_scores(text)

    assert (fault.value.key, fault.value.offset) == (topology.PAIR_SCORES_KEY, offset)


def test_card_ids_keep_their_case() -> None:
    assert topology.decode_pair_scores('[{"UUID":"GPU-A","Score":{"GPU-B":1}}]') == {
        "GPU-A": {"GPU-B": 1}
    }
