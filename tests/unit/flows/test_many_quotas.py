"""Many ResourceQuotas of one namespace: the tightest of each amount holds."""

import itertools
import random

import pytest

from support.operator_books import open_books
from vgpu_operator.flows import books, quotas
from vgpu_operator.model import quota, records


def record(name: str, version: int = 1, /, **limits: int | None) -> records.QuotaRecord:
    return records.QuotaRecord(
        namespace="team-a",
        name=name,
        uid=f"uid-of-{name}",
        resource_version=str(version),
        limits={"NVIDIA": quota.Allowance(**limits)},
    )


def limit(held: books.Books) -> tuple[int | None, int | None]:
    found = held.ledger.quota_standing("team-a").limits.get("NVIDIA", quota.UNLIMITED)
    return found.memory_mib, found.cores


def test_the_tightest_holds_while_others_come_change_and_go() -> None:
    held = open_books()
    steps = [
        (lambda: quotas.quota_seen(held, record("a", memory_mib=50)), (50, None)),
        (lambda: quotas.quota_seen(held, record("b", memory_mib=30, cores=9)), (30, 9)),
        (lambda: quotas.quota_seen(held, record("c", memory_mib=40, cores=7)), (30, 7)),
        (lambda: quotas.quota_seen(held, record("b", 2, memory_mib=60, cores=9)), (40, 7)),
        (lambda: quotas.quota_seen(held, record("a", 2, memory_mib=20)), (20, 7)),
        (lambda: quotas.quota_gone(held, "team-a", "b"), (20, 7)),
        (lambda: quotas.quota_gone(held, "team-a", "a"), (40, 7)),
        (lambda: quotas.quota_seen(held, record("c", 3, memory_mib=40)), (40, None)),
        (lambda: quotas.quota_gone(held, "team-a", "c"), (None, None)),
    ]

    for step, expected in steps:
        step()
        assert limit(held) == expected


@pytest.mark.parametrize("seed", range(20))
def test_any_order_ends_at_the_smallest_of_what_is_left(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    held, left = open_books(), {}
    versions = itertools.count(1)
    for _ in range(60):
        name = chance.choice("abcdef")
        if chance.random() < 0.3 and name in left:
            quotas.quota_gone(held, "team-a", name)
            del left[name]
            # A ResourceQuota that comes back under a name is another one.
            held.gone_quotas.clear()
        else:
            amounts = [chance.choice([None, 1, 2, 3]) for _ in range(2)]
            left[name] = amounts
            memory, cores = amounts
            quotas.quota_seen(held, record(name, next(versions), memory_mib=memory, cores=cores))
        memories, of_cores = ([amounts[n] for amounts in left.values()] for n in (0, 1))

        assert limit(held) == tuple(
            min((one for one in many if one is not None), default=None)
            for many in (memories, of_cores)
        )


def test_a_looser_one_more_or_less_is_judged_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: 3000 ResourceQuotas once took 16 seconds."""
    held = open_books()
    quotas.quota_seen(held, record("tight", memory_mib=1))
    folded = []
    real = quota.tightest
    monkeypatch.setattr(
        quota, "tightest", lambda many: real(folded.append(1) or one for one in many)
    )

    for number in range(200):
        quotas.quota_seen(held, record(f"q{number}", memory_mib=5))
    for number in range(200):
        quotas.quota_gone(held, "team-a", f"q{number}")

    assert limit(held) == (1, None)
    assert len(folded) <= 2 * 200
