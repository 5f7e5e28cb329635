"""MetaX, whole cards."""

import dataclasses

import pytest

from support import vendor_values
from vgpu_operator.model import errors, fitting, policy
from vgpu_operator.model.vendor_settings import metax as metax_settings
from vgpu_operator.vendors import base, metax

(METAX,) = metax.backends(metax_settings.MetaxSettings())
CARDS = vendor_values.cards_of(METAX, vendor_values.node({"metax-tech.com/gpu": "3"}))


def grant_of(cards: int, notes: dict[str, str]) -> base.Grant:
    shares = tuple(vendor_values.share(card.id) for card in CARDS[:cards])
    return dataclasses.replace(vendor_values.grant(CARDS, shares), node_notes=notes)


def score(cards: int, node_policy: policy.NodePolicy, **notes: str) -> float:
    texts = {f"metax-tech.com/gpu.topology.{name}": text for name, text in notes.items()}
    state = fitting.NodeState(name="n1", cards=())
    return METAX.node_score(state, grant_of(cards, texts), node_policy)


BINPACK, SPREAD = policy.NodePolicy.BINPACK, policy.NodePolicy.SPREAD


def test_cards_are_made_up_from_the_nodes_capacity() -> None:
    assert [(card.id, card.index, card.slots, card.memory_mib) for card in CARDS] == [
        ("n1-metax-0", 0, 1, 65536),
        ("n1-metax-1", 1, 1, 65536),
        ("n1-metax-2", 2, 1, 65536),
    ]


def test_a_node_that_says_nothing_and_one_that_says_0_are_told_apart() -> None:
    assert METAX.register_text(vendor_values.node()) is None
    assert vendor_values.cards_of(METAX, vendor_values.node({"metax-tech.com/gpu": "0"})) == ()


def test_a_capacity_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(errors.DecodeError, match="at most"):
        METAX.decode_devices("metax-tech.com/gpu=100000", node="n1")


def test_the_whole_card_is_taken_the_highest_index_first() -> None:
    wish = METAX.derive({"metax-tech.com/gpu": "2"}, {})
    assert wish is not None

    found = vendor_values.choose(METAX, [vendor_values.state(card) for card in CARDS], wish)

    assert found == [("n1-metax-0", 65536, 100, 1), ("n1-metax-1", 65536, 100, 1)]


def test_every_container_of_a_pod_gets_a_card_of_its_own() -> None:
    wish = METAX.derive({"metax-tech.com/gpu": "1"}, {})
    assert wish is not None
    first = vendor_values.state(CARDS[0], 1, 65536, 100)
    earlier = ((vendor_values.share("n1-metax-0", 65536, 100),),)

    found = vendor_values.choose(
        METAX, [first, vendor_values.state(CARDS[1])], wish, container=1, earlier=earlier
    )

    assert found == [("n1-metax-1", 65536, 100, 1)]


@pytest.mark.parametrize(
    ("node_policy", "cards", "want"), [(BINPACK, 2, 1800.0), (SPREAD, 1, 1990.0)]
)
def test_the_plugins_tables_score_the_node(
    node_policy: policy.NodePolicy, cards: int, want: float
) -> None:
    tables = {"losses": '{"1":100,"2":200}', "scores": '{"1":10,"2":20}'}

    assert score(cards, node_policy, **tables) == want


@pytest.mark.parametrize("text", ["{", "[]", '{"1":"x"}', '{"2":5}'])
def test_a_table_without_the_number_counts_as_0(text: str) -> None:
    assert score(1, BINPACK, losses=text) == 2000.0


def test_a_node_without_the_policys_table_gets_no_score() -> None:
    assert score(1, BINPACK, scores='{"1":5}') == 0.0


def test_a_renamed_resource_is_read_and_an_empty_name_switches_the_vendor_off() -> None:
    (renamed,) = metax.backends(metax_settings.MetaxSettings(resource_count_name="a.io/gpu"))

    assert renamed.derive({"a.io/gpu": "1"}, {}) is not None
    assert metax.backends(metax_settings.MetaxSettings(resource_count_name="")) == ()
