"""Objects made to harm: nodes that lie, names that lead elsewhere, objects that are huge."""

import io
import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest
from yarl import URL

from support import operator_books
from support.pods import container, pod
from vgpu_operator import app
from vgpu_operator.flows import admit, bind, register
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.kube import paths
from vgpu_operator.model import settings
from vgpu_operator.vendors import records, registry
from vgpu_operator.wire import extender

LARGEST: Final = 2**31 - 1
EVERY: Final = settings.with_every_vendor(settings.Settings())
VENDORS: Final = registry.build(EVERY)
ANNOTATIONS_BYTES: Final = 2**18 - 2**12
"""What the API server lets one object have of annotations, less the others of ours."""

SLOWEST_S: Final = 1.0
"""Processor time that one hostile object may cost."""


def quick(work: Callable[[], Any]) -> Any:
    """Do it, and check that it has cost little."""
    begun = time.process_time()
    done = work()
    assert time.process_time() - begun < SLOWEST_S
    return done


# --- forged nodes ------------------------------------------------------------------


def cards(amount: int, **fields: object) -> str:
    """Return a register text of that many cards."""
    card = {"count": 10, "devmem": 1000, "devcore": 100, "type": "NVIDIA-X", "health": True}
    return json.dumps([{"id": f"F-{n}", "index": n, **card, **fields} for n in range(amount)])


def test_a_node_that_promises_the_world_changes_no_answer_about_another() -> None:
    honest, both = operator_books.open_books(), operator_books.open_books()
    for books in (honest, both):
        operator_books.put_node(books, "node-b")
    forged = cards(64, count=LARGEST, devmem=LARGEST, devcore=LARGEST)
    operator_books.put_node(both, "node-a", register=forged, allocatable=LARGEST)
    asks = operator_books.pending()

    alone = flow_filter.filter_nodes(honest, asks, ("node-b",), operator_books.NOW)
    beside = flow_filter.filter_nodes(both, asks, ("node-a", "node-b"), operator_books.NOW)

    assert "node-b" in alone.fitting
    assert set(beside.fitting) == {"node-a", "node-b"}
    scores = flow_filter.score_nodes(both, asks, ("node-a", "node-b"))
    assert all(0 <= score <= 100 for score in scores)


def test_a_node_with_as_many_cards_as_an_annotation_holds_costs_little() -> None:
    text = cards(2200)
    assert len(text) < ANNOTATIONS_BYTES
    books = operator_books.open_books()
    operator_books.put_node(books, "node-b")

    quick(lambda: operator_books.put_node(books, "node-a", register=text))
    answer = quick(
        lambda: flow_filter.filter_nodes(
            books, operator_books.pending(), ("node-a", "node-b"), operator_books.NOW
        )
    )

    assert "node-b" in answer.fitting


def test_a_node_that_is_gone_takes_its_forged_cards_with_it() -> None:
    books = operator_books.open_books()
    operator_books.put_node(books, "node-a", register=cards(64, devmem=LARGEST))

    register.node_gone(books, "node-a")

    assert operator_books.used_mib(books) == {}


# --- hostile names -----------------------------------------------------------------

HOSTILE: Final = (
    "..",
    ".",
    "",
    "a/../../../nodes/b",
    "a%2f..%2fb",
    "a?watch=1",
    "a#b",
    "a\nb",
    "a\x00b",
    "a b",
    "A",
    "-a",
    "a" * 254,
    "\u0430",  # a Cyrillic letter that looks like a Latin one
    "$(reboot)",
)


@pytest.mark.parametrize("field", ["namespace", "name", "node"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_bind_with_a_hostile_name_is_refused_before_anything_is_asked(
    field: str, name: str
) -> None:
    books = operator_books.open_books()
    names = {"namespace": "team-a", "name": "p1", "uid": "u1", "node": "node-a", field: name}

    with pytest.raises(StopIteration) as ended:
        next(bind.bind(books, extender.BindArgs(**names), operator_books.NOW))

    assert "is no such name" in ended.value.value.error
    assert "\n" not in ended.value.value.error


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.strip(".")])
def test_a_hostile_name_stays_one_part_of_its_path(name: str) -> None:
    url = URL(f"https://api{paths.pod('team-a', name)}")

    assert url.raw_path.split("/")[:6] == ["", "api", "v1", "namespaces", "team-a", "pods"]
    assert len(url.raw_path.split("/")) == 7
    assert url.query_string == ""


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_a_name_with_a_line_break_makes_no_line_of_its_own_in_the_log(
    as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import structlog

    written = io.StringIO()
    monkeypatch.setattr(app, "_stderr", lambda: written)
    try:
        app.configure_logging(as_json=as_json)
        structlog.get_logger("x").info("pod admission", pod='a\n{"event":"forged"}\x1b[2J')
    finally:
        structlog.reset_defaults()

    assert written.getvalue().count("\n") == 1
    assert "\x1b[2J" not in written.getvalue()


# --- huge objects ------------------------------------------------------------------


def judged(raw: dict[str, Any]) -> admit.Verdict:
    return quick(lambda: admit.admit(raw, settings=EVERY, vendors=VENDORS))


def test_a_pod_of_more_containers_than_a_kubelet_starts_is_refused_in_a_sentence() -> None:
    verdict = judged(pod(*[container(gpu=1, mem=1)] * 20_000))

    assert (verdict.allowed, verdict.code) == (False, 422)
    assert verdict.message == (
        "the pod has 20000 containers, and one that asks for cards may have 512; "
        "put them into several pods"
    )


def test_a_pod_of_as_many_containers_that_asks_for_no_card_is_left_alone() -> None:
    assert judged(pod(*[container()] * 20_000)) == admit.UNTOUCHED


def test_a_pod_of_512_containers_is_admitted() -> None:
    verdict = judged(pod(*[container(gpu=1, mem=1)] * 512))

    assert verdict.allowed


WORDS: Final = (";", ":", ",", "a", "GPU-a0,NVIDIA,3000,20:", ";GPU-a0,NVIDIA,3000,20:", "[{", "; ")
KEYS: Final = sorted(
    {key for vendor in VENDORS for key in vendor.spec.pod_keys}
    | {"4pd.io/vgpu-ids-new", "4pd.io/devices-to-allocate"}
)


@pytest.mark.parametrize("word", WORDS)
def test_an_annotation_as_long_as_the_api_takes_costs_little(word: str) -> None:
    text = (word * ANNOTATIONS_BYTES)[:ANNOTATIONS_BYTES]
    raw = pod(container(gpu=1, mem=1000))
    raw["spec"]["nodeName"] = "node-a"

    for key in KEYS:
        notes = {"hami.io/vgpu-node": "node-a", "4pd.io/vgpu-node": "node-a", key: text}
        raw["metadata"]["annotations"] = notes
        quick(lambda: records.pod_record(raw, VENDORS, aliases={}))


def test_a_pod_nested_as_deep_as_json_goes_is_no_crash() -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    raw = pod(container(gpu=1, mem=1000))
    raw["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": deep}
    raw["spec"]["containers"][0]["env"] = deep
    raw["spec"]["volumes"] = deep

    verdict = judged(raw)

    assert verdict.allowed
