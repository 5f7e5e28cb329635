"""Thousands of node names become rows, whatever their order and whoever is among them."""

import random
from collections.abc import Callable

import pytest

from support import clusters
from vgpu_operator.ledger import ledger, snapshot
from vgpu_operator.model import settings


def books_of(n_nodes: int) -> ledger.Ledger:
    built = clusters.Cluster(nodes=clusters.eight_card_nodes(n_nodes), pods=[])
    return clusters.build_ledger(built, trust=settings.Trust.REQUESTS)


@pytest.mark.parametrize("n_asked", [0, 1, 63, 64, 300])
def test_every_name_gets_its_row_and_a_strange_one_minus_one(n_asked: int) -> None:
    books = books_of(300)
    names = list(books.node_names)
    random.Random(1).shuffle(names)  # noqa: S311  # any order
    asked = [*names[:n_asked], "stranger", *names[:1]]

    found = books.snapshot().rows(tuple(asked)).tolist()

    assert found == [-1 if name == "stranger" else books.snapshot().row(name) for name in asked]


def test_a_node_that_leaves_has_no_row_and_one_that_comes_has_its_own() -> None:
    books = books_of(100)
    names = (*books.node_names, "node-new")
    assert books.snapshot().rows(names).tolist()[-1] == -1

    books.forget_node(names[0])
    books.set_devices("node-new", "NVIDIA", books.devices(names[1], "NVIDIA"))

    rows = books.snapshot().rows(names).tolist()
    assert rows[0] == -1
    assert rows[-1] == books.snapshot().row("node-new")
    assert len(set(rows)) == len(names)


@pytest.mark.parametrize(
    "alike", [lambda _: 7, lambda name: len(name), lambda name: int(name[-1:] == "7")]
)
def test_names_with_one_hash_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, alike: Callable[[str], int]
) -> None:
    books = books_of(100)
    names = books.node_names
    monkeypatch.setattr(snapshot, "hash", alike, raising=False)

    assert books.snapshot().rows(names).tolist() == [books.snapshot().row(n) for n in names]


@pytest.mark.parametrize("value", [0, 2**63 - 1, -(2**63)])
def test_a_strange_name_with_any_hash_has_no_row(
    monkeypatch: pytest.MonkeyPatch, value: int
) -> None:
    books = books_of(100)
    names = books.node_names
    monkeypatch.setattr(
        snapshot, "hash", lambda name: value if name == "stranger" else hash(name), raising=False
    )

    assert books.snapshot().rows((*names, "stranger")).tolist()[-1] == -1
