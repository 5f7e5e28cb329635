"""Admission and requests against HAMi v2.10.0's recorded answers.

Every field is compared. Where this project answers otherwise, ``DIFFERENCES``
says what it answers and why; a difference that is not listed fails, and so
does one that is listed and no longer there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from support import json_patch, nvidia_vectors
from vgpu_operator.flows import admit
from vgpu_operator.model import errors, request
from vgpu_operator.vendors import registry, requests
from vgpu_operator.wire import quantity

CASES = {
    case["name"]: case
    for name in ("nvidia-admission", "nvidia-request")
    for case in nvidia_vectors.cases(name)
}


@dataclass(frozen=True)
class Different:
    why: str
    fields: Mapping[str, Any]


NO_CARD = Different(
    why="a count of 0 asks for no card, so the pod stays as it is",
    fields={"schedulerName": ""},
)
NOT_OURS = Different(
    why="a pod of another scheduler is allowed without a remark",
    fields={"code": None, "message": None},
)


def refused(message: str, *, requests: Any = None, why: str = "") -> Different:
    return Different(
        why=why or "what cannot be meant is refused instead of running without a card",
        fields={
            "allowed": False,
            "code": 422,
            "message": message,
            "schedulerName": None,
            "limits_after": None,
            "env_added": None,
            "annotations_added": None,
        }
        | ({"requests": requests} if requests is not None else {}),
    )


def other_text(message: str, *, code: int) -> Different:
    return Different(
        why="the sentence says what to do; a bad value is the author's fault, not the server's",
        fields={"message": message} | ({} if code == 403 else {"code": code}),
    )


PRIVILEGED = other_text(
    "container main is privileged: it would reach every card of its node, past all limits; set "
    "its securityContext.privileged to false, or ask for no card in this pod",
    code=403,
)

DIFFERENCES: dict[str, Different] = {
    "nvidia/admission/privileged-gpu": PRIVILEGED,
    "nvidia/admission/privileged-and-node": PRIVILEGED,
    "nvidia/admission/bad-pct-and-privileged": other_text(
        "container main: nvidia.com/gpumem-percentage: '101' is more than 100; "
        "write an integer between 0 and 100",
        code=422,
    ),
    "nvidia/admission/scheduler-volcano-force-true": NOT_OURS,
    "nvidia/admission/scheduler-volcano-force-false": NOT_OURS,
    "nvidia/admission/forged-annotations": Different(
        why="protocol keys of a copied manifest are stripped",
        fields={
            "annotations_removed": [
                "hami.io/bind-phase",
                "hami.io/vgpu-devices-allocated",
                "hami.io/vgpu-node",
            ]
        },
    ),
    "nvidia/admission/pct-100-in-requests": Different(
        why="a value in requests only is written to limits too (the API server wants both)",
        fields={
            "limits_after": [
                (
                    "app",
                    "main",
                    {
                        "nvidia.com/gpu": 1,
                        "nvidia.com/gpucores": 100,
                        "nvidia.com/gpumem-percentage": 100,
                    },
                    {"nvidia.com/gpumem-percentage": 100},
                )
            ]
        },
    ),
    "nvidia/request/requests-only-count": Different(
        why="a value in requests only is written to limits too (the API server wants both)",
        fields={
            "limits_after": [
                (
                    "app",
                    "main",
                    {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 100},
                    {"nvidia.com/gpu": 1},
                )
            ]
        },
    ),
    "nvidia/request/count-request-mem-limit": Different(
        why="the count in requests is the author's; a default of 1 beside it would be refused",
        fields={
            "limits_after": [
                (
                    "app",
                    "main",
                    {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 2000},
                    {"nvidia.com/gpu": 2},
                )
            ],
            "requests": [(2, 2000, 101, 0)],
        },
    ),
    "nvidia/request/count-0": Different(
        why="a count of 0 asks for no card, so the pod stays as it is",
        fields={"schedulerName": "", "limits_after": [("app", "main", {"nvidia.com/gpu": 0}, {})]},
    ),
    "nvidia/request/count-0-mem": NO_CARD,
    "nvidia/request/count-500m": refused(
        "container main: nvidia.com/gpu: '500m' is no whole number; "
        "write how many cards the container needs, such as 1",
        requests=["impossible"],
    ),
    "nvidia/request/mem-1500m": refused(
        "container main: nvidia.com/gpumem: '1500m' is no whole number; "
        "write MiB as a plain number without a suffix, such as 4000",
        requests=["impossible"],
    ),
    "nvidia/request/mem-1.5": refused(
        "container main: nvidia.com/gpumem: '1.5' is no whole number; "
        "write MiB as a plain number without a suffix, such as 4000",
        requests=["impossible"],
    ),
    "nvidia/request/pct-101": other_text(
        "container main: nvidia.com/gpumem-percentage: '101' is more than 100; "
        "write an integer between 0 and 100",
        code=422,
    ),
    "nvidia/request/pct-2^32+50": other_text(
        "container main: nvidia.com/gpumem-percentage: '4294967346' is more than 100; "
        "write an integer between 0 and 100",
        code=422,
    ),
    "nvidia/request/requests-pct-200-no-gpu": other_text(
        "container main: nvidia.com/gpumem-percentage: '200' is more than 100; "
        "write an integer between 0 and 100",
        code=422,
    ),
    "nvidia/request/pct-500m": refused(
        "container main: nvidia.com/gpumem-percentage: '500m' is no whole number; "
        "write an integer between 0 and 100",
    ),
    "nvidia/config/default-cores-bad": refused(
        "container main: nvidia.com/gpucores: '500m' is no whole number; "
        "write percent of one card as a whole number, 0 to 100",
    ),
    "nvidia/config/memory-factor-overflow": refused(
        "container main: nvidia.com/gpumem: '2097152' is more than 2097151; "
        "write units of 1024 MiB as a plain number without a suffix, such as 3",
        requests=["impossible"],
    ),
    "nvidia/config/default-memory": Different(
        why="a container that gets defaultMemory takes a part of the card, so it shares",
        fields={
            "limits_after": [("app", "main", {"nvidia.com/gpu": 1}, {})],
            "requests": [(1, 2000, 101, 0)],
        },
    ),
}


def quantities(values: Mapping[str, str] | None) -> dict[str, int]:
    return {name: quantity.decode_integer(value) for name, value in (values or {}).items()}


def limits_of(pod: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            kind,
            container["name"],
            quantities((container.get("resources") or {}).get("limits")),
            quantities((container.get("resources") or {}).get("requests")),
        )
        for kind, field in (("init", "initContainers"), ("app", "containers"))
        for container in pod["spec"].get(field, [])
    ]


def added_env(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        new["name"]: new["env"][len(old.get("env") or []) :]
        for field in ("initContainers", "containers")
        for old, new in zip(
            before["spec"].get(field, []), after["spec"].get(field, []), strict=True
        )
        if new.get("env") != old.get("env")
    }


def one_request(container: request.ContainerRequest) -> Any:
    if container.impossible:
        return "impossible"
    wish = container.of("NVIDIA")
    if wish is None:
        return None
    percent = 101 if wish.memory_percent is None else wish.memory_percent
    return (wish.count, wish.memory_mib, percent, wish.cores_percent)


def observed(case: Mapping[str, Any]) -> dict[str, Any]:
    pod = case["pod"]
    settings = nvidia_vectors.case_settings(case)
    vendors = registry.build(settings)
    verdict = admit.admit(pod, settings=settings, vendors=vendors)
    after = json_patch.apply(pod, verdict.patch) if verdict.allowed else pod
    wish = requests.pod_request(after, vendors, aliases={})
    answer: dict[str, Any] = {
        "allowed": verdict.allowed,
        "code": None if verdict.allowed else verdict.code,
        "message": verdict.message or None,
        "requests": [one_request(container) for container in wish.containers],
        "annotations_removed": [],
    }
    if verdict.allowed:
        old = pod["metadata"].get("annotations", {})
        new = after["metadata"].get("annotations", {})
        answer |= {
            "schedulerName": after["spec"].get("schedulerName", ""),
            "runtimeClassName": after["spec"].get("runtimeClassName"),
            "env_added": added_env(pod, after),
            "annotations_added": {k: v for k, v in new.items() if k not in old},
            "annotations_removed": sorted(k for k in old if k not in new),
            "limits_after": limits_of(after),
        }
    return answer


def recorded(case: Mapping[str, Any]) -> dict[str, Any]:
    expect = case["expect"]
    admission = expect["admission"]
    answer = {
        "allowed": admission["allowed"],
        "code": admission.get("code"),
        "message": admission.get("message"),
        "annotations_removed": [],
    }
    if expect.get("requests") is not None:
        answer["requests"] = [
            tuple(entry["NVIDIA"][f] for f in ("nums", "memreq", "mem_percentage", "cores"))
            if entry
            else None
            for entry in expect["requests"]
        ]
    if admission["allowed"] and admission["called"]:
        answer |= {
            name: admission[name]
            for name in ("schedulerName", "runtimeClassName", "env_added", "annotations_added")
        }
        answer["limits_after"] = (
            [
                (c["kind"], c["name"], quantities(c["limits"]), quantities(c["requests"]))
                for c in admission["limits_after"]
            ]
            if all_whole(admission["limits_after"])
            else "not whole"
        )
    return answer


def all_whole(containers: list[dict[str, Any]]) -> bool:
    try:
        for container in containers:
            quantities(container["limits"])
    except errors.DecodeError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(CASES))
def test_admission_and_requests_are_as_recorded_or_differ_as_listed(name: str) -> None:
    case = CASES[name]
    want = recorded(case)

    have = observed(case)

    differing = {field: have.get(field) for field in want if have.get(field) != want[field]}
    listed = DIFFERENCES.get(name)
    assert differing == (dict(listed.fields) if listed else {})


def test_every_listed_difference_belongs_to_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
    assert len(CASES) == 18 + 56
