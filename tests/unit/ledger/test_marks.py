"""Questions about a row's cards are asked once, until the cards change."""

from support import clusters
from vgpu_operator.ledger import marks
from vgpu_operator.model import device

CARDS = {0: (clusters.card("GPU-0"),), 2: (clusters.card("GPU-2"), clusters.card("GPU-3"))}


def test_a_row_is_asked_again_only_when_its_cards_changed() -> None:
    asked: list[str] = []

    def judge(cards: tuple[device.Device, ...]) -> bool:
        asked.append(cards[0].id)
        return len(cards) == 2

    kept = marks.Marks()
    assert kept.of("q", judge, cards=CARDS, n_rows=3).tolist() == [False, False, True]
    assert kept.of("q", judge, cards=CARDS, n_rows=3).tolist() == [False, False, True]
    assert sorted(asked) == ["GPU-0", "GPU-2"]

    kept.changed(2)
    fewer = {0: CARDS[0], 4: CARDS[2]}
    kept.changed(4)

    assert kept.of("q", judge, cards=fewer, n_rows=5).tolist() == [False] * 4 + [True]
    assert sorted(asked) == ["GPU-0", "GPU-2", "GPU-2"]


def test_many_questions_do_not_pile_up() -> None:
    kept = marks.Marks()

    for number in range(100):
        kept.of(number, lambda _: True, cards=CARDS, n_rows=3)

    assert len(kept._answers) == len(kept._stale) == 16
