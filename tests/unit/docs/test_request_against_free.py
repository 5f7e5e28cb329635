"""The table of ``docs/test-matrix.md``, row by row, against the scheduler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import clusters
from vgpu_operator.model import allocation, reason, settings
from vgpu_operator.scheduling import choose, fit
from vgpu_operator.vendors import registry, requests

ROOT = Path(__file__).resolve().parents[3]
MATRIX = ROOT / "docs" / "test-matrix.md"
NODE = "node-a"
TOTAL = (10, 24576, 100)


def _rows() -> Iterator[Any]:
    lines = MATRIX.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| ")][2:]
    for line in table:
        case, free, asks, answer = (cell.strip() for cell in line.strip("|").split(" | "))
        yield pytest.param(free, asks, answer, id=case)


def _cluster(free: str) -> clusters.Cluster:
    """Return the node with pods that leave exactly so much free."""
    cards = []
    pods = []
    for index, card in enumerate(free.split("; ")):
        identity = f"GPU-a{index}"
        slots, memory_mib, cores_percent = TOTAL
        cards.append(
            clusters.card(
                identity,
                index=index,
                slots=slots,
                memory_mib=memory_mib,
                cores_percent=cores_percent,
            )
        )
        left = [int(number) for number in card.split("/")]
        users, memory, cores = (all_ - rest for all_, rest in zip(TOTAL, left, strict=True))
        for user in range(users):
            holds = (memory, cores) if user == 0 else (0, 0)
            pods.append(clusters.holder(f"{identity}-{user}", NODE, identity, *holds))
    return clusters.Cluster(nodes={NODE: clusters.node(*cards)}, pods=pods)


def _pod(asks: str) -> dict[str, Any]:
    """Return the Pod that a row's request describes."""
    asks, _, annotations = asks.partition(" with ")
    containers: dict[str, list[dict[str, Any]]] = {"initContainers": [], "containers": []}
    for number, text in enumerate(asks.split(" + ")):
        field = "initContainers" if text.startswith("init ") else "containers"
        limits = {}
        for limit in text.removeprefix("init ").split(", "):
            name, _, amount = limit.partition(" ")
            if amount:
                limits[f"nvidia.com/{name}"] = amount
        containers[field].append({"name": f"c{number}", "resources": {"limits": limits}})
    metadata = {"name": "p", "uid": "u", "annotations": yaml.safe_load(annotations or "{}")}
    return {"metadata": metadata, "spec": containers}


def _told(answer: allocation.Allocation | reason.NodeRejection) -> str:
    """Write an answer as the table does."""
    if isinstance(answer, reason.NodeRejection):
        return answer.text
    return " + ".join(
        ", ".join(
            f"{share.device_id} {share.memory_mib}/{share.cores_percent}" for share in container
        )
        or "none"
        for container in answer.shares["NVIDIA"]
    )


@pytest.mark.parametrize(("free", "asks", "answer"), list(_rows()))
def test_the_matrix_says_what_fits(free: str, asks: str, answer: str) -> None:
    vendors = registry.build(settings.Settings())
    wish = requests.pod_request(_pod(asks), vendors, aliases={})
    view = clusters.build_ledger(_cluster(free)).snapshot()

    placed = fit.place(view, [NODE], wish, fit.Defaults())
    chosen = choose.choose(view, NODE, wish, fit.Defaults())

    assert _told(chosen) == answer
    assert bool(placed.fitting) == isinstance(chosen, allocation.Allocation)
