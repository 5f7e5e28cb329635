"""The reported cases that each have a test, by number, with what they are about.

Areas: A register texts and pod annotations, B handshake, C filter, D scores,
E binding and locks, F ledger, G admission, H quotas, J scale, K leadership,
L the autoscaler. Numbers between them were never given out. Section N, found by
reading HAMi's source, counts from 1 again: its tests are named ``n4``, ``n6``, ….
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
    "E": {
        79: "another pod's lock",
        81: "an owner that is gone",
        82: "an owner that is done",
        85: "several locks or none",
        86: "a release for nobody",
        89: "a pod deleted between filter and bind",
        91: "a pod replaced by one of its name",
        92: "a failed bind is an answer",
        93: "JSON on every path",
        94: "bodies that lack something",
        95: "the lock outlives the bind",
        96: "one pod at a time",
        97: "members of a group",
        99: "pods past the webhook",
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
    "J": {
        153: "many binds on one node",
        155: "few requests for a bind",
        157: "scrapes without lists",
        158: "eight of sixteen cards",
        159: "how long a lock is held",
    },
    "K": {
        160: "a follower is ready",
        162: "a follower that is promoted",
        164: "a Lease that says nothing",
        165: "who writes to nodes",
        166: "admission without a leader",
    },
    "L": {
        167: "nodes that do not exist",
        168: "a node before its cards",
    },
    "N": {
        4: "large bodies",
        6: "the last semicolon",
        8: "locks without a UID",
        10: "one card id twice",
        12: "the profile and the quota",
        13: "two time zones",
        15: "the request in a card's score",
    },
}

NOT_TESTED: Final[Mapping[str, str]] = {}
"""Cases that do not apply here, and why, in a sentence."""

WAIT_FOR_THE_CHART: Final[Mapping[str, str]] = {
    "125": "The webhook's failure policy in the rendered chart is tested when there is a chart.",
    "127": "The selectors in the rendered chart are tested when there is a chart.",
    "166": "That the chart's Service selects followers too is tested when there is a chart.",
}
"""Cases of which all but the chart's part is tested, and what that part is, in a sentence."""

WAIT_FOR_THE_METRIC: Final[Mapping[str, str]] = {
    "159": "How long locks are waited for and held is tested when there are series of it.",
}
"""Cases of which all but a metric is tested, and which that is, in a sentence."""
