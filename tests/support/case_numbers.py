"""The reported cases that each have a test, by number, with what they are about.

Areas: A register texts and pod annotations, B handshake, C filter, D scores,
F ledger, G admission, H quotas. Numbers between them were never given out.
"""

from collections.abc import Mapping
from typing import Final

CASES: Final[Mapping[str, Mapping[int, str]]] = {
    "A": {
        1: "one segment for every container",
        3: "an empty slot in the middle",
        4: "init containers come first",
        6: "bad numbers are no zeros",
        8: "three forms of the register text",
        9: "Volcano's six fields",
        10: "types with spaces",
        11: "several devices in a container",
        12: "memory with a suffix",
        14: "a lock with two parts",
        16: "what is still to allocate",
        18: "irregular pod keys",
    },
    "B": {
        19: "the plugin died",
        21: "an old Deleted mark",
        23: "a changed register text",
        25: "nothing allocatable",
        27: "a broken text on a dead node",
        28: "a handshake without a time",
        29: "an added card",
        30: "vendors that never registered",
        31: "a deleted node's books",
        33: "keys that are written to a node",
        35: "cards with nothing to give",
        37: "a burst of node events",
        38: "why a node is unregistered",
    },
    "C": {
        39: "a pod's earlier containers",
        41: "a first container without devices",
        42: "A10 is a part of A100",
        43: "commas at the end",
        44: "empty rules",
        45: "both lists of ids",
        46: "percentages above 100",
        48: "different cards",
        50: "memory promised twice",
        51: "slots that run out",
        53: "pods without devices",
        55: "one event for each reason",
        57: "exactly a MIG profile",
        60: "no link scores",
        61: "a MIG pod on a plain card",
        62: "per-profile resources",
        64: "100 cores are the whole card",
        65: "no cores on a card without any left",
        66: "scaled cores",
    },
    "D": {
        67: "score before NUMA",
        69: "the request is no part of a node's score",
        71: "a card without capacity",
        72: "packing and spreading are one order",
        74: "more than card 0",
        75: "policies of the pod, not of its Job",
        77: "weights that cannot be read",
        78: "unknown policies, and cards of one's own",
    },
    "F": {
        100: "a deletion that nobody delivered",
        102: "pods that are being deleted",
        105: "several init containers",
        106: "side-cars",
        108: "an old decision on an unbound pod",
        111: "pods of every owner",
        112: "a node that one table lacks",
        113: "readers and writers at once",
        114: "a node that comes back",
        115: "pods that come and go",
        116: "the first filter after a start",
    },
    "G": {
        117: "whose scheduler",
        119: "privileged pods with devices",
        120: "privileged pods without",
        121: "pods with a node assigned",
        123: "limits or requests alone",
        125: "a webhook that cannot be reached",
        127: "opting out",
        128: "hidden cards",
        129: "every container is changed",
    },
    "H": {
        131: "amounts times cards",
        132: "the sum over containers",
        133: "ended pods, removed limits",
        136: "a limit of 0",
        138: "a bind that failed",
        140: "a deletion that was missed",
        141: "the prefix of limits",
        142: "every vendor, in the pods' unit",
        143: "after init containers",
    },
}

NOT_TESTED: Final[Mapping[int, str]] = {}
"""Cases that do not apply here, and why, in a sentence."""

PARTIAL: Final[Mapping[int, str]] = {
    125: "The webhook's failure policy in the rendered chart is tested when there is a chart.",
    127: "The selectors in the rendered chart are tested when there is a chart.",
}
"""Cases of which a part is tested, and what is still missing and why, in a sentence."""
