"""Does the ledger say what the API says? Compares it with a fresh list of pods."""

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_operator.ledger import ledger
from vgpu_operator.model import records, request
from vgpu_operator.wire import resource_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Pods that the ledger charges wrongly, sorted.

    Attributes:
        missed: hold cards by the list and none by the ledger.
        redundant: hold cards by the ledger and none by the list.
        differing: hold other cards or amounts than the list says.
    """

    missed: tuple[request.PodKey, ...]
    redundant: tuple[request.PodKey, ...]
    differing: tuple[request.PodKey, ...]

    @property
    def clean(self) -> bool:
        """Whether ledger and list agree."""
        return not (self.missed or self.redundant or self.differing)


def audit(book: ledger.Ledger, listed: Iterable[records.PodRecord]) -> Report:
    """Compare the ledger with all pods of one consistent list.

    A pod whose binding is under way is left out: the list cannot know. So is
    one that the ledger has seen in a newer version than the list. Hand in a
    list that is at least as new as the last deletion or creation observed.
    """
    fresh = {record.key.uid: record for record in listed}
    missed: list[request.PodKey] = []
    redundant: list[request.PodKey] = []
    differing: list[request.PodKey] = []
    for uid, record in fresh.items():
        seen = book.record(uid)
        if book.assumed(uid) or (
            seen is not None
            and resource_version.is_earlier(record.resource_version, seen.resource_version)
        ):
            continue
        expected, held = book.would_hold(record), book.holding(uid)
        if expected == held:
            continue
        if held is None:
            missed.append(record.key)
        elif expected is None:
            redundant.append(record.key)
        else:
            differing.append(record.key)
    redundant += [
        record.key
        for record in book.records()
        if record.key.uid not in fresh
        and book.holding(record.key.uid) is not None
        and not book.assumed(record.key.uid)
    ]
    return Report(
        missed=tuple(sorted(missed)),
        redundant=tuple(sorted(redundant)),
        differing=tuple(sorted(differing)),
    )
