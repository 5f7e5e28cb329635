"""Nonsense in a pod is told in one sentence, and none of it reaches an annotation.

For every back end and every resource and annotation that a pod's author
writes: the amounts stand in a recorded pod that was placed on a recorded node.
"""

import re
from typing import Any, Final

import pytest

from support import case_cluster, json_patch, recorded_asks
from vgpu_operator.flows import admit
from vgpu_operator.vendors import base
from vgpu_operator.wire import keys

Json = dict[str, Any]

ASKS: Final = recorded_asks.every()

NONSENSE: Final = (
    "-1",
    "-2147483649",
    "0.5",
    "500m",
    "1.5",
    "abc",
    "",
    " 1",
    "NaN",
    "0x10",
    "\uff11",  # a 1 of double width
    "4294967346",
    "9223372036854775808",
    "1e40",
    "1" * 70,
    True,
    [1],
    {"1": 1},
)
"""No amount that can be meant: negative, fractional, no number, beyond 32 and 64 bits."""

OVER_100: Final = ("101", "150", "2147483647")

VENDORS: Final = {vendor.spec.id: vendor for vendor in (ask.vendor for ask in ASKS.values())}


def test_every_back_end_takes_part() -> None:
    assert len(VENDORS) == 25
    assert len(ASKS) == sum(len(vendor.spec.resources) for vendor in VENDORS.values())


def cluster_of(ask: recorded_asks.Ask) -> case_cluster.CaseCluster:
    return case_cluster.CaseCluster(*ask.nodes, **recorded_asks.EVERY_VENDOR)


def assert_one_sentence(text: str, *words: str) -> None:
    assert "\n" not in text
    assert len(text) < 400
    assert not text.endswith((":", ";", ","))
    for word in words:
        assert word in text


def assert_says_so(verdict: admit.Verdict, resource: str) -> None:
    """A refusal, or a warning, that names container, resource and value."""
    if verdict.allowed:
        told = [text for text in verdict.warnings if f" {resource}: " in text]
        assert told, "allowed without a word"
        assert_one_sentence(told[0], "container ")
        return
    assert verdict.patch == ()
    assert verdict.code in (403, 422)
    assert_one_sentence(verdict.message, "container ", resource)


def assert_sane(
    cluster: case_cluster.CaseCluster, found: case_cluster.Outlook, value: object
) -> None:
    """The pod is refused with a sentence, or what it is given lies within the cards."""
    for text in found.refusals.values():
        assert text
        assert_one_sentence(text)
    if found.granted is None:
        return
    for word, shares in found.granted.shares.items():
        cards = {card.id: card for card in cluster.cards(word, found.granted.node)}
        for entry in shares:
            for share in entry:
                card = cards[share.device_id]
                assert 0 <= share.memory_mib <= card.memory_mib
                assert 0 <= share.cores_percent <= max(card.cores_percent, 100)
    for key, text in found.annotations.items():
        assert not re.search(r"(?<![\w.-])-\d|NaN|nan|\[1\]|True|abc|0x10", text), key
        if len(str(value)) > 3:
            assert str(value) not in text, key


@pytest.mark.parametrize("ask", ASKS.values(), ids=str)
def test_the_pod_that_nonsense_is_written_into_is_a_good_one(ask: recorded_asks.Ask) -> None:
    cluster = cluster_of(ask)

    assert cluster.place(ask.pod).node is not None


@pytest.mark.parametrize("ask", ASKS.values(), ids=str)
def test_admission_says_what_cannot_be_meant(ask: recorded_asks.Ask) -> None:
    cluster = cluster_of(ask)

    for value in NONSENSE:
        assert_says_so(cluster.admit(ask.with_amount(value)), ask.resource)


@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize("ask", ASKS.values(), ids=str)
def test_no_nonsense_reaches_an_annotation_past_admission(
    ask: recorded_asks.Ask, where: str
) -> None:
    cluster = cluster_of(ask)

    for value in (*NONSENSE, *OVER_100):
        raw = ask.with_amount(value, where=where)
        assert_sane(cluster, cluster.outlook(raw), value)


@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize("ask", ASKS.values(), ids=str)
def test_what_admission_lets_through_is_sane(ask: recorded_asks.Ask, where: str) -> None:
    cluster = cluster_of(ask)

    for value in (*NONSENSE, *OVER_100):
        raw = ask.with_amount(value, where=where)
        verdict = cluster.admit(raw)
        if verdict.allowed:
            stored = json_patch.apply(raw, verdict.patch)
            assert_sane(cluster, cluster.outlook(stored), value)


PERCENT: Final = {
    name: ask
    for name, ask in ASKS.items()
    if name in (ask.vendor.spec.cores_resource, ask.vendor.spec.memory_percent_resource)
    and ask.vendor.spec.id not in ("mthreads", "awsneuron")
}
"""Resources in percent of a card; Moore Threads counts sixteenths, AWS whole cores."""


@pytest.mark.parametrize("ask", PERCENT.values(), ids=str)
def test_admission_says_what_is_more_than_a_card(ask: recorded_asks.Ask) -> None:
    cluster = cluster_of(ask)

    for value in OVER_100:
        assert_says_so(cluster.admit(ask.with_amount(value)), ask.resource)


# --- annotations -----------------------------------------------------------------

ONE_ASK: Final = {
    spec_id: next(ask for ask in ASKS.values() if ask.vendor is vendor)
    for spec_id, vendor in VENDORS.items()
}
UNKNOWN_WORDS: Final = {
    keys.NODE_POLICY: ("fullest", "binpack,spread", "-1"),
    keys.CARD_POLICY: ("mutx", "binpack,best", "0.5"),
    keys.SCORING_WEIGHTS: ("slot=1", "slot=-1,core=1,memory=1", "slot=0.5,core=1,memory=1", "x"),
}


@pytest.mark.parametrize("key", UNKNOWN_WORDS)
@pytest.mark.parametrize("spec_id", VENDORS)
def test_unknown_words_of_policies_and_weights_are_told(spec_id: str, key: str) -> None:
    ask = ONE_ASK[spec_id]
    cluster = cluster_of(ask)

    for text in UNKNOWN_WORDS[key]:
        raw = ask.with_note(key, text)
        verdict = cluster.admit(raw)
        told = [*filter(None, [verdict.message]), *verdict.warnings]
        assert any(key in sentence for sentence in told), text
        for sentence in told:
            assert_one_sentence(sentence)
        assert_sane(cluster, cluster.outlook(raw), text)


def author_keys(vendor: base.Vendor) -> list[str]:
    """Return the annotations by which a pod's author chooses cards."""
    spec = vendor.spec
    own = (
        spec.use_type_key,
        spec.avoid_type_key,
        spec.use_id_key,
        spec.avoid_id_key,
        spec.numa_bind_key,
        spec.mode_key,
    )
    return [*filter(None, own), *spec.pod_note_keys]


@pytest.mark.parametrize("spec_id", VENDORS)
def test_no_text_in_a_vendors_annotation_reaches_another_or_is_a_crash(spec_id: str) -> None:
    ask = ONE_ASK[spec_id]
    cluster = cluster_of(ask)

    for key in author_keys(ask.vendor):
        for text in ("abc", ",", "[1]", "{", "-1", "0x10", 7, True, ["x"], None):
            raw = ask.with_note(key, text)
            verdict = cluster.admit(raw)
            if not verdict.allowed:
                assert_one_sentence(verdict.message, "container ", key)
            found = cluster.outlook(raw)
            assert_sane(cluster, found, text)
            others = [note for name, note in found.annotations.items() if name != key]
            assert not any(str(text) in note for note in others if len(str(text)) > 2), (key, text)


def test_numa_bind_takes_a_boolean_and_says_so() -> None:
    ask = ONE_ASK["nvidia"]
    cluster = cluster_of(ask)

    (told,) = cluster.admit(ask.with_note("nvidia.com/numa-bind", "maybe")).warnings

    assert told.startswith("annotation nvidia.com/numa-bind: 'maybe' is ")
    assert cluster.admit(ask.with_note("nvidia.com/numa-bind", "true")).warnings == ()
