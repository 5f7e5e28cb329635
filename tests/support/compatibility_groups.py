"""The document's sections, and which differences each shows, in their order.

A difference that no section names stands under the last heading.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from support import compatibility_by_design as by_design
from support.compatibility_seen import Difference

Line: TypeAlias = Difference | by_design.ByDesign

LAST = "Other"

GROUPS: dict[str, tuple[str, ...]] = {
    "Admission": (
        "nonsense-is-refused",
        "too-large-in-its-unit",
        "amd-cards-are-counted",
        "refusals-in-a-sentence",
        "other-schedulers-without-a-remark",
        "a-count-of-0-asks-for-nothing",
        "requests-count-as-limits",
        "amounts-in-requests-count",
        "requests-are-left-to-the-api-server",
        "requested-count-beside-limited-memory",
        "cores-end-at-100",
        "default-memory-shares",
        "cards-are-hidden-from-containers-without-any",
        "own-variables-stay",
        "protocol-keys-are-stripped",
    ),
    "Nodes: register and handshake": (
        "stamps-only-for-registered-vendors",
        "cards-are-read-whatever-the-handshake-says",
        "texts-count-when-they-change",
        "cordons-count-at-once",
        "cordons-for-every-vendor",
        "a-bad-text-costs-only-itself",
        "one-bad-segment",
        "ids-are-unique",
        "cards-need-an-id",
        "an-empty-list-is-a-list",
        "a-removed-text-keeps-its-cards",
        "cards-leave-with-the-capacity",
        "nothing-allocatable-takes-no-pod",
        "expired-at-first-sight",
        "no-stamp-on-a-dead-node",
        "more-clock-forms",
        "stamps-in-utc",
        "stamps-from-the-future-age",
        "nothing-written-to-a-locked-node",
        "nothing-stops-the-scheduler",
    ),
    "Books: what pods hold": (
        "terminating-pods-hold-their-cards",
        "unbound-pods-hold-nothing",
        "unreadable-promises-close-the-node",
        "negative-promises",
        "semicolons-end-containers",
        "side-cars-live-as-long-as-the-pod",
        "slots-after-init-containers",
        "a-failed-phase-frees-no-card",
        "promises-are-capped-by-requests",
        "busy-nodes-come-behind",
        "claims-between-filter-and-bind",
    ),
    "Filter and scores": (
        "filters-write-nothing",
        "dry-run-names-the-nodes",
        "dry-run-of-a-dead-node",
        "equal-cards-by-index",
        "scores-in-double-precision",
        "scores-from-0-to-100",
        "a-missing-vendor-is-unregistered",
        "bad-weights-are-a-reason",
        "a-list-of-commas-allows-no-card",
        "a-percentage-of-nothing",
        "reasons-apart",
        "refused-pods-are-woken",
    ),
    "Bind and locks": (
        "one-binding-carries-all",
        "one-segment-per-container",
        "only-vendors-asked-for",
        "texts-of-others-are-blanked",
        "no-label-that-cannot-be-one",
        "binds-wait-in-line",
        "no-clock-in-cases",
        "locks-end-with-their-owner",
        "living-owners-keep-their-lock",
        "fenced-before-its-lock-is-taken",
        "locks-of-several-vendors",
        "a-failed-bind-removes-no-lock",
        "lock-words",
        "lock-with-an-unreadable-time",
        "own-lock-written-again",
        "init-containers-take-the-lock",
        "mlu-lock-for-init-containers-too",
        "the-lease-of-its-own-side-car",
    ),
    "Quotas": (
        "quotas-count-what-pods-hold",
        "quotas-hold-on-the-card",
        "the-tightest-quota-holds",
    ),
    "NVIDIA": (
        "mig-cores-count",
        "mig-container-index",
        "health-is-the-plugins-word",
        "old-mig-ids-are-charged",
        "topology-on-every-numa-node",
    ),
    "Other vendors": (
        "a-chip-is-not-its-namesake",
        "pairs-count-against-all-cards",
        "neuron-cores-are-known-on-the-node",
        "neuron-devices-with-four-cores",
        "slices-are-slots",
        "slices-that-others-hold",
        "kunlun-wings-by-index",
        "kunlun-slice-in-requests",
        "metax-memory-in-gib",
        "all-cards-that-were-asked-for",
    ),
    "Metrics": (
        "cards-are-exported-by-the-leader-only",
        "containers-have-series-of-their-own",
    ),
}


def sections(lines: Sequence[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Yield every heading with its differences."""
    by_name = {line.name: line for line in lines}
    for heading, names in GROUPS.items():
        yield heading, [by_name.pop(name) for name in names]
    if by_name:
        yield LAST, list(by_name.values())
