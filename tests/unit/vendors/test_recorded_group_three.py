"""Ascend and Iluvatar against HAMi v2.10.0's recorded answers, without ledger and filter.

Compared are the cards that nodes register, admission and the requests derived
after it, and which cards a pod gets, with everything written on it. Where this
project answers otherwise, ``DIFFERENCES`` says what it answers and why; one
that is not listed fails, and so does one that is listed and no longer there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from support import vendor_vectors
from vgpu_operator.model import device_config, settings
from vgpu_operator.vendors import base, registry

FILES = {
    "ascend-310p": 61,
    "ascend-910a": 68,
    "ascend-910b2": 41,
    "ascend-910b3": 60,
    "ascend-910b4": 34,
    "ascend-910b4-1": 39,
    "ascend-910c": 55,
    "iluvatar": 131,
}
CASES = {case["name"]: case for case in vendor_vectors.cases(*FILES)}

QUOTA = "exceeding resource quota"
"""The peer's webhook knows quotas; ours is judged with the flows."""

REFUSED_MESSAGES = {
    "device request must be 1 or 2*n": "comes in pairs; write 1, which becomes 2",
    "is invalid": "is more than",
    "vNPU not supported for multiple devices": "a container gets a part of one card only",
    "is only supported in hami-core (soft split) mode": "a hard split has no cores of its own",
    "container main is privileged": "container main is privileged: ",
    "pod has node assigned": "the pod has node ",
}
"""What a refusal of the peer's holds, and what ours holds of the same pod."""

STRICTER_MESSAGES = ("is no whole number", "is more than 2147483647")
"""Ours where the peer's reader rounds a value or cuts it before it refuses the pod."""


@dataclass(frozen=True)
class Different:
    why: str
    fields: Mapping[str, Any]


def refused(message: str) -> Different:
    return Different(
        why="what cannot be meant is refused, not rounded, cut to 32 bits or let through",
        fields={
            "allowed": False,
            "code": 422,
            "message": f"container main: {message}",
            "schedulerName": None,
            "env_added": None,
            "annotations_added": None,
            "stored": None,
        },
    )


def no_count(resource: str, value: str) -> Different:
    hint = "write how many cards the container needs, such as 1"
    wrong = "is no whole number" if value.endswith("m") else "is more than 2147483647"
    return refused(f"{resource}: '{value}' {wrong}; {hint}")


def no_cores(resource: str, value: str) -> Different:
    hint = "write percent of one card as a whole number, 0 to 100"
    wrong = "is no whole number" if value.endswith("m") else "is more than 2147483647"
    return refused(f"{resource}: '{value}' {wrong}; {hint}")


def other_counts(text: str) -> Different:
    return Different(
        why="the reasons of pairs count the node's cards, not the cards asked for",
        fields={"failed": {"node-a": text}},
    )


ONLY_IN_REQUESTS = "a value in requests only is written to limits too (the API server wants both)"
NO_MIB = "write MiB as a plain number without a suffix, such as 8192"
NO_UNITS = "write units of 256 MiB as a plain number, such as 16"
HIDDEN = [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]

DIFFERENCES: dict[str, Different] = {
    "ascend-310p/request/count-500m": no_count("huawei.com/Ascend310P", "500m"),
    "ascend-910a/request/count-500m": no_count("huawei.com/Ascend910A", "500m"),
    "ascend-910b3/request/count-500m": no_count("huawei.com/Ascend910B3", "500m"),
    "ascend-310p/request/mem-500m": refused(
        f"huawei.com/Ascend310P-memory: '500m' is no whole number; {NO_MIB}"
    ),
    "ascend-910a/request/mem-500m": refused(
        f"huawei.com/Ascend910A-memory: '500m' is no whole number; {NO_MIB}"
    ),
    "ascend-910a/request/mem-in-requests": Different(
        why=ONLY_IN_REQUESTS + "; the peer overwrites it with the whole card",
        fields={
            "stored": [
                (
                    "main",
                    {"huawei.com/Ascend910A": 1, "huawei.com/Ascend910A-memory": 2184},
                    {"huawei.com/Ascend910A": 1, "huawei.com/Ascend910A-memory": 2184},
                )
            ],
            "requests": [{"Ascend910A": (1, 2184, None, 0)}],
        },
    ),
    "ascend-910a/admission/overwrite-env-two-chips": Different(
        why="a container that uses a chip keeps its cards visible; a variable is added once",
        fields={"env_added": {"s": HIDDEN}},
    ),
    "ascend-910a/admission/overwrite-env-no-npu": Different(
        why="a pod that asks for no card stays as it is", fields={"env_added": {}}
    ),
    "ascend-910b3/request/count-0": Different(
        why="a count of 0 asks for no card, so the pod stays as it is",
        fields={
            "schedulerName": "",
            "stored": [("main", {"huawei.com/Ascend910B3": 0}, {"huawei.com/Ascend910B3": 0})],
        },
    ),
    "ascend-910b4/fit/takes-910b4-1-cards": Different(
        why="a card of another chip, whose name only begins alike, is not given",
        fields={
            "failed": {"node-a": "2/2 CardTypeMismatch"},
            "scores": {},
            "annotations": {},
        },
    ),
    "ascend-910c/fit/pair-used135-want-4": other_counts(
        "2/8 AllocatedCardsInsufficientRequest, 3/8 CardTimeSlicingExhausted"
    ),
    "ascend-910c/fit/pair-used0246-want-2": other_counts(
        "0/8 AllocatedCardsInsufficientRequest, 4/8 CardTimeSlicingExhausted"
    ),
    "ascend-910c/fit/pair-used0123456-want-1": other_counts(
        "0/8 AllocatedCardsInsufficientRequest, 7/8 CardTimeSlicingExhausted"
    ),
    "iluvatar-mr-v100/request/mem-in-requests": Different(
        why=ONLY_IN_REQUESTS,
        fields={
            "stored": [
                (
                    "main",
                    {"iluvatar.ai/MR-V100-vgpu": 1, "iluvatar.ai/MR-V100.vMem": 16},
                    {"iluvatar.ai/MR-V100-vgpu": 1, "iluvatar.ai/MR-V100.vMem": 16},
                )
            ],
        },
    ),
    "iluvatar-bi-v150/request/mem-over-int32": refused(
        f"iluvatar.ai/BI-V150.vMem: '4294967296' is more than 8388607; {NO_UNITS}"
    ),
    "iluvatar-bi-v150/request/mem-500m": refused(
        f"iluvatar.ai/BI-V150.vMem: '500m' is no whole number; {NO_UNITS}"
    ),
} | {
    f"iluvatar-{chip.lower()}/request/{case}": judged(f"iluvatar.ai/{chip}{suffix}", value)
    for chip in ("MR-V100", "BI-V150")
    for case, suffix, value, judged in (
        ("count-500m", "-vgpu", "500m", no_count),
        ("count-over-int32", "-vgpu", "4294967297", no_count),
        ("cores-500m", ".vCore", "500m", no_cores),
        ("cores-over-int32", ".vCore", "4294967296", no_cores),
    )
}


def vendors_of(case: Mapping[str, Any]) -> tuple[base.Vendor, ...]:
    """Return every vendor under the settings that the case was recorded with."""
    flags = case.get("flags") or {}
    document = device_config.Document.model_validate(flags.get("device_config") or {})
    both = {"vendors": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}}
    return registry.build(settings.build(device_config.merged(both, document)))


def same_request(entry: Any) -> Any:
    """Bring both ways of writing a request together.

    Once memory is named the percentage says nothing (the peer writes 0, we 101);
    the peer lowers cores to the whole card when it fits a pod, we when we read it.
    """
    if isinstance(entry, str):
        return entry
    return {
        keyword: (
            asked["nums"],
            asked["memreq"],
            None if asked["memreq"] else asked["mem_percentage"],
            min(asked["cores"], 100),
        )
        for keyword, asked in entry.items()
    }


def admission_differences(want: dict[str, Any], have: dict[str, Any]) -> dict[str, Any]:
    if want["message"] == QUOTA:
        return {}
    if not want["allowed"] and not have["allowed"]:
        ours = next(ours for theirs, ours in REFUSED_MESSAGES.items() if theirs in want["message"])
        told = ours in have["message"] or any(text in have["message"] for text in STRICTER_MESSAGES)
        assert told, have["message"]
        assert have["code"] == {403: 403, 500: 422}[want["code"]]
        return {}
    for answer in (want, have):
        answer["requests"] = [same_request(entry) for entry in answer.get("requests", ())]
    differing = vendor_vectors.differing(want, have)
    if not want["requests"] or not have["allowed"]:
        differing.pop("requests", None)  # the peer's filter was not asked, or ours would not be
    return differing


def test_every_case_is_here() -> None:
    counts = {file: len(list(vendor_vectors.cases(file))) for file in FILES}

    assert counts == FILES
    assert DIFFERENCES.keys() <= CASES.keys()


@pytest.mark.parametrize(
    "name", sorted(name for name, case in CASES.items() if case["category"] != "health")
)
def test_registered_cards_are_as_recorded(name: str) -> None:
    case = CASES[name]

    want = vendor_vectors.recorded_devices(case)

    assert (
        vendor_vectors.differing(want, vendor_vectors.decoded_devices(case, vendors_of(case))) == {}
    )


@pytest.mark.parametrize("name", sorted(CASES))
def test_admission_requests_and_choice_are_as_recorded_or_differ_as_listed(name: str) -> None:
    case = CASES[name]
    vendors = vendors_of(case)

    differing = admission_differences(
        vendor_vectors.recorded_admission(case), vendor_vectors.observed_admission(case, vendors)
    ) | choice_differences(case, vendors)

    listed = DIFFERENCES.get(name)
    assert differing == (dict(listed.fields) if listed else {})


def choice_differences(case: Mapping[str, Any], vendors: tuple[base.Vendor, ...]) -> dict[str, Any]:
    if not vendor_vectors.has_choice(case) or case["name"] in NONSENSE:
        return {}
    (vendor,) = (vendor for vendor in vendors if vendor.spec.id == case["vendor"])
    want = vendor_vectors.recorded_choice(case)
    have = vendor_vectors.observed_choice(case, vendor)
    if have in vendor_vectors.other_choices(case):
        return {}
    return vendor_vectors.differing(want, have)


NONSENSE = {name for name, listed in DIFFERENCES.items() if "message" in listed.fields}
"""Cases whose pod never comes to a choice here."""
