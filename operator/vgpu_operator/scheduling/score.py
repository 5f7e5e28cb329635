"""How nodes that fit are preferred."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vgpu_operator.ledger import snapshot
from vgpu_operator.model import policy

BAND_PARTS: Final = 10
"""One part in so many of the scores' range is for nodes that are busy."""

Scores: TypeAlias = npt.NDArray[np.int64]

NO_LINES: Final[Mapping[int, int]] = MappingProxyType({})

_FULL: Final = 30.0
"""Raw score of a node whose slots, cores and memory are all given away."""


def raw_scores(sums: snapshot.SumsView, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return how full the nodes of these rows are, before the pod; shape of ``rows``.

    10 x (used slots / slots + used cores / cores + used memory / memory) over
    all cards of a node, of all vendors; 0 where a total is 0. Higher is
    fuller; from 0 to 30 unless more is promised than there is. Always finite.
    """
    slots, cores = sums.total_slots[rows], sums.total_cores[rows]
    memory_mib = sums.total_memory_mib[rows]
    known = (slots > 0) & (cores > 0) & (memory_mib > 0)
    score = 10 * (
        sums.used_slots[rows] / np.where(known, slots, 1)
        + sums.used_cores[rows] / np.where(known, cores, 1)
        + sums.used_memory_mib[rows] / np.where(known, memory_mib, 1)
    )
    return np.where(known, score, 0.0)


def to_ranks(
    raw: npt.NDArray[np.float64], node_policy: policy.NodePolicy, max_score: int
) -> npt.NDArray[np.int64]:
    """Map raw scores of any size to whole numbers from 0 to ``max_score``.

    Vendors' own scores have no common bounds (some outweigh the base score
    ten thousand times), so each score counts by its place among the different
    ones. Monotone as ``to_extender_scores``, and only the preferred nodes get
    ``max_score``: a linear map would round their lead away.
    """
    different, place = np.unique(raw, return_inverse=True)
    if node_policy is policy.NodePolicy.SPREAD:
        place = len(different) - 1 - place
    if len(different) < 2:
        return np.full(len(raw), max_score, dtype=np.int64)
    ranks: npt.NDArray[np.int64] = place.astype(np.int64) * max_score // (len(different) - 1)
    return ranks


def to_extender_scores(
    raw: npt.NDArray[np.float64], node_policy: policy.NodePolicy, max_score: int
) -> npt.NDArray[np.int64]:
    """Map raw scores to whole numbers from 0 to ``max_score``, higher is preferred.

    Monotone: rising under binpack (the fullest node is preferred), falling
    under spread. Raw scores outside 0 to 30 count as the nearer end.
    """
    share = np.clip(raw / _FULL, 0.0, 1.0)
    if node_policy is policy.NodePolicy.SPREAD:
        share = 1.0 - share
    return np.rint(share * max_score).astype(np.int64)


def behind_free(
    scores: Scores,
    rows: npt.NDArray[np.intp],
    lines: Mapping[int, int],
    max_score: int,
) -> Scores:
    """Return the scores of nodes with the busy ones behind those that are free.

    All are as they were where every node is as busy. Otherwise the least busy
    keep their order above ``band``, and each other one comes below all of
    them, by one for each pod more in its line.

    Args:
        scores: 0 to ``max_score``.
        rows: of the nodes, -1 where there is none; shape of ``scores``.
        lines: by row, how many pods stand before a new one; 0 where missing.
        max_score: the highest score that there is.
    """
    if not lines or not len(rows):
        return scores
    depth_of = np.zeros(max(rows.max(), *lines) + 2, dtype=np.int64)
    depth_of[list(lines)] = list(lines.values())
    depths = depth_of[rows]
    least = depths.min()
    is_free = depths == least
    if is_free.all():
        return scores
    band = max(1, max_score // BAND_PARTS)
    moved = band + scores * (max_score - band) // max_score
    last_free = moved[is_free].min()
    return np.where(is_free, moved, np.clip(last_free - (depths - least), 0, moved))
