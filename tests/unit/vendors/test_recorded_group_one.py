"""Eight vendors against HAMi v2.10.0's recorded answers, without ledger or filter.

Every field is compared. Where this project answers otherwise, the tables below
say what it answers; a difference that is not listed fails, and so does one
that is listed and no longer there.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support import vendor_vectors
from vgpu_operator.model.vendor_settings import amd as amd_settings
from vgpu_operator.model.vendor_settings import biren as biren_settings
from vgpu_operator.model.vendor_settings import cambricon as cambricon_settings
from vgpu_operator.model.vendor_settings import enflame as enflame_settings
from vgpu_operator.model.vendor_settings import hygon as hygon_settings
from vgpu_operator.model.vendor_settings import mthreads as mthreads_settings
from vgpu_operator.model.vendor_settings import vastai as vastai_settings
from vgpu_operator.vendors import (
    amd,
    base,
    biren,
    cambricon,
    enflame,
    enflame_drs,
    hygon,
    mthreads,
    vastai,
)

ENFLAME: Final = enflame_settings.EnflameSettings()

VENDORS: Final[Mapping[str, base.Vendor]] = {
    vendor.spec.id: vendor
    for vendor in (
        *cambricon.backends(cambricon_settings.CambriconSettings()),
        *hygon.backends(hygon_settings.HygonSettings()),
        *enflame.backends(ENFLAME),
        *enflame_drs.backends(ENFLAME),
        *mthreads.backends(mthreads_settings.MthreadsSettings()),
        *biren.backends(biren_settings.BirenSettings()),
        *vastai.backends(vastai_settings.VastaiSettings()),
        *amd.backends(amd_settings.AmdSettings()),
    )
}

CASES: Final = {case["name"]: case for case in vendor_vectors.cases(*VENDORS)}
JUDGED: Final = {name: case for name, case in CASES.items() if not case["expect"].get("panic")}

# --- devices -----------------------------------------------------------------------------

HEALTH: Final = {
    # The text is there; whether its cards are believed is the handshake's business.
    "hygon-dcu/health/requesting-old",
    "hygon-dcu/health/requesting-bad",
    "hygon-dcu/health/requesting-bad-no-allocatable",
    "hygon-dcu/health/expired-after-register",
    "biren/health/requesting-fresh-no-allocatable",
    "biren/health/requesting-old-no-allocatable",
    "biren/health/requesting-bad-no-allocatable",
    "vastai/health/requesting-fresh-no-allocatable",
    "vastai/health/requesting-old-no-allocatable",
    "vastai/health/requesting-bad",
    "vastai/health/requesting-bad-no-allocatable",
    "vastai/health/expired-after-register",
    "vastai/health/changed-but-no-update",
    # Capacity or annotation is gone: the node says nothing, and takes no new pod.
    "cambricon-mlu/health/capacity-gone",
    "enflame-drs/health/annotation-gone",
    "mthreads/health/capacity-gone",
    # The register annotation stays when the count drops to 0; the node takes no new pod.
    "amd/health/capacity-zero",
}
"""Cases in which HAMi holds other cards than the node's text lists."""

READ: Final = {
    # One bad device costs only itself.
    "hygon-dcu/decode/one-bad-of-two": ["DCU-a0"],
    # Both forms of a register text are read for every vendor.
    "hygon-dcu/decode/json": ["DCU-a0"],
}
"""Cases in which we read cards and HAMi reads none."""


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_cards_are_read_as_recorded_or_differ_as_listed(name: str) -> None:
    case = JUDGED[name]
    want = vendor_vectors.recorded_devices(case)

    have = vendor_vectors.decoded_devices(case, tuple(VENDORS.values()))

    if name in READ:
        ids = [card["id"] for cards in have.values() for card in cards]
        assert (want, ids) == ({}, READ[name])
    elif name in HEALTH:
        assert have != want
    else:
        assert have == want


def test_an_entry_that_stops_the_peer_costs_us_only_itself() -> None:
    (stopped,) = CASES.keys() - JUDGED.keys()

    assert stopped == "biren/decode/list-null"
    read = vendor_vectors.decoded_devices(CASES[stopped], tuple(VENDORS.values()))
    assert read == {}


# --- admission and requests ----------------------------------------------------------------

COUNT: Final = "write how many cards the container needs, such as 1"
CORES: Final = "write percent of one card as a whole number, 0 to 100"
AMD_CORES: Final = "write percent of one card as a whole number, 1 to 100"
SIZES: Final = "write units of 512 MiB: one of 2, 4, 8, 16, 32, 64, 96"
PRIVILEGED: Final = (
    "container main is privileged: it would reach every card of its node, past all limits; set "
    "its securityContext.privileged to false, or ask for no card in this pod"
)
PRESET: Final = (
    "the pod has node 'node-a' assigned: hami-scheduler must place a pod that asks for a card, "
    "because it chooses the card; remove spec.nodeName and select the node by spec.nodeSelector "
    "or spec.affinity"
)

REFUSED: Final = {
    # HAMi admits these, derives no request, and lets the pod go anywhere.
    "cambricon-mlu/request/count-500m": f"cambricon.com/vmlu: '500m' is no whole number; {COUNT}",
    "cambricon-mlu/request/mem-over-int32": (
        "cambricon.com/mlu.smlu.vmemory: '4294967296' is more than 8388607; "
        "write units of 256 MiB as a plain number, such as 16"
    ),
    "cambricon-mlu/request/mem-500m": (
        "cambricon.com/mlu.smlu.vmemory: '500m' is no whole number; "
        "write units of 256 MiB as a plain number, such as 16"
    ),
    "hygon-dcu/request/count-500m": f"hygon.com/dcunum: '500m' is no whole number; {COUNT}",
    "hygon-dcu/request/count-over-int32": (
        f"hygon.com/dcunum: '4294967297' is more than 2147483647; {COUNT}"
    ),
    "hygon-dcu/request/mem-over-int32": (
        "hygon.com/dcumem: '4294967296' is more than 2147483647; "
        "write MiB as a plain number without a suffix"
    ),
    "hygon-dcu/request/cores-over-int32": (
        f"hygon.com/dcucores: '4294967296' is more than 2147483647; {CORES}"
    ),
    "enflame-drs/request/direct-500m": (
        "enflame.com/drs-gcu: '500m' is no whole number; write slices of one card, such as 1"
    ),
    "enflame-drs/request/direct-4294967297": (
        "enflame.com/drs-gcu: '4294967297' is more than 2147483647; "
        "write slices of one card, such as 1"
    ),
    "vastai/request/count-500m": f"vastaitech.com/va: '500m' is no whole number; {COUNT}",
    "amd/request/count-500m": f"amd.com/gpu: '500m' is no whole number; {COUNT}",
    "amd/request/count-over-int32": f"amd.com/gpu: '4294967297' is more than 2147483647; {COUNT}",
    "amd/request/mem-over-int32": (
        "amd.com/gpumem: '4294967296' is more than 2147483647; "
        "write MiB as a plain number without a suffix, such as 16384"
    ),
    "amd/request/mem-500m": (
        "amd.com/gpumem: '500m' is no whole number; "
        "write MiB as a plain number without a suffix, such as 16384"
    ),
    "amd/request/mem-only": "amd.com/gpumem alone asks for no card; add amd.com/gpu, such as 1",
    # HAMi keeps the low 32 bits.
    "cambricon-mlu/request/cores-over-int32": (
        f"cambricon.com/mlu.smlu.vcore: '4294967296' is more than 2147483647; {CORES}"
    ),
}
"""Pods that HAMi admits and we refuse; the same sentence keeps an older one unplaced."""

OTHER_TEXT: Final = {
    # A bad value is the author's fault, not the server's: 422 instead of 500.
    "enflame-drs/request/spec-mNone-c101": (
        "enflame.com/gcu-core: '101' is more than 100; write percent of one card, 1 to 100"
    ),
    "enflame-drs/request/spec-mNone-c0": "enflame.com/gcu-core: '0' is nothing; write 1 or more",
    "mthreads/request/count-0": "mthreads.com/vgpu: 0 cards cannot be asked for; write 1 or more",
    "mthreads/admission/requests-count-0": (
        "mthreads.com/vgpu: 0 cards cannot be asked for; write 1 or more"
    ),
    "mthreads/request/mem-0": f"mthreads.com/sgpu-memory: 0 is no size of a share; {SIZES}",
    "mthreads/request/mem-over": (
        f"mthreads.com/sgpu-memory: 2000000 is no size of a share; {SIZES}"
    ),
    "mthreads/request/mem-over-int32": (
        f"mthreads.com/sgpu-memory: '4294967296' is more than 4194303; {SIZES}"
    ),
    "mthreads/request/mem-500m": f"mthreads.com/sgpu-memory: '500m' is no whole number; {SIZES}",
    "mthreads/request/mem-2Ki": f"mthreads.com/sgpu-memory: 2048 is no size of a share; {SIZES}",
    "mthreads/request/legal-mem-1": f"mthreads.com/sgpu-memory: 1 is no size of a share; {SIZES}",
    "mthreads/request/legal-mem-97": f"mthreads.com/sgpu-memory: 97 is no size of a share; {SIZES}",
    "amd/request/cores-0": f"amd.com/gpucores: 0 is no share; {AMD_CORES}",
    "amd/request/cores-150": f"amd.com/gpucores: '150' is more than 100; {AMD_CORES}",
    "amd/request/cores-over-int32": f"amd.com/gpucores: '4294967296' is more than 100; {AMD_CORES}",
    "amd/request/cores-500m": f"amd.com/gpucores: '500m' is no whole number; {AMD_CORES}",
    "amd/fit/share-cores-0-on-full": f"amd.com/gpucores: 0 is no share; {AMD_CORES}",
    "amd/admission/cores-0-denied": f"amd.com/gpucores: 0 is no share; {AMD_CORES}",
}
"""Refused by both, with a sentence that says what to write."""

PER_QUOTA: Final = {
    "cambricon-mlu/quota/quota-mem-over",
    "hygon-dcu/quota/quota-mem-over",
    "hygon-dcu/quota/quota-cores-over",
    "hygon-dcu/quota/quota-bare-count",
    "hygon-dcu/quota/quota-used",
    "enflame-drs/quota/quota-core",
    "enflame-drs/quota/quota-used",
    "mthreads/quota/quota-mem-over",
    "amd/quota/quota-bare-count",
    "amd/quota/quota-used",
}
"""No quota takes part here; the vendor itself has nothing against the pod."""

# A count of 0 asks for no card, so the pod stays as it is.
NO_CARD: Final = {"schedulerName": ""}


def also_in_limits(name: str, count: Mapping[str, int], memory: str, units: int) -> dict[str, Any]:
    """A value in requests only is written to limits: the API server wants both."""
    both = {**count, memory: units}
    return {"stored": [(name, both, both)]}


ADMISSION: Final[Mapping[str, Mapping[str, Any]]] = {
    **{
        name: {
            "allowed": False,
            "code": 422,
            "message": f"container main: {sentence}",
            "requests": [f"container main: {sentence}"],
            **dict.fromkeys(
                (
                    "schedulerName",
                    "env_added",
                    "annotations_added",
                    "stored",
                )
            ),
        }
        for name, sentence in REFUSED.items()
    },
    **{
        name: {"code": 422, "message": f"container main: {sentence}"}
        for name, sentence in OTHER_TEXT.items()
    },
    **{name: {"allowed": True, "code": None, "message": None} for name in PER_QUOTA},
    **{
        f"{vendor}/request/count-0": NO_CARD
        for vendor in ("amd", "cambricon-mlu", "hygon-dcu", "vastai")
    },
    **{
        f"{vendor}/admission/privileged": {"message": PRIVILEGED}
        for vendor in ("enflame-drs", "enflame-gcu", "hygon-dcu")
    },
    **{
        f"{vendor}/admission/preset-node": {"message": PRESET}
        for vendor in ("amd", "biren", "cambricon-mlu", "mthreads", "vastai")
    },
    "cambricon-mlu/request/mem-in-requests": also_in_limits(
        "main", {"cambricon.com/vmlu": 1}, "cambricon.com/mlu.smlu.vmemory", 20
    ),
    "hygon-dcu/request/mem-in-requests": also_in_limits(
        "main", {"hygon.com/dcunum": 1}, "hygon.com/dcumem", 2000
    ),
    # HAMi writes a whole card beside it, which the API server refuses.
    "mthreads/request/mem-in-requests": also_in_limits(
        "main", {"mthreads.com/vgpu": 1}, "mthreads.com/sgpu-memory", 32
    )
    | {
        "requests": [
            {
                "Mthreads": {
                    "nums": 1,
                    "type": "Mthreads",
                    "memreq": 16384,
                    "mem_percentage": 0,
                    "cores": 0,
                }
            }
        ]
    },
}


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_admission_and_requests_are_as_recorded_or_differ_as_listed(name: str) -> None:
    case = JUDGED[name]
    want = vendor_vectors.recorded_admission(case)

    have = vendor_vectors.observed_admission(case, tuple(VENDORS.values()))

    assert vendor_vectors.differing(want, have) == ADMISSION.get(name, {})


# --- the choice ------------------------------------------------------------------------------

CHOICES: Final = {name: case for name, case in JUDGED.items() if vendor_vectors.has_choice(case)}

CHOICE: Final[Mapping[str, Mapping[str, Any]]] = {
    # The quota of the namespace takes no part here.
    "cambricon-mlu/quota/quota-two-cards-fit": {"failed": {}, "scores": {"node-a": "0.00"}},
    # All memory of a card without memory is never there, whatever the vendor. The common
    # checks, which judge this vendor, say so.
    "cambricon-mlu/decode/no-mem": {
        "failed": {"node-a": "2/2 CardInsufficientMemory"},
        "scores": {},
        "annotations": {},
    },
    # Every container has its segment.
    "hygon-dcu/request/sidecar-first": {
        "annotations": {
            "hami.io/dcu-devices-to-allocate": ";DCU-a1,DCU,16384,100:;",
            "hami.io/dcu-devices-allocated": ";DCU-a1,DCU,16384,100:;",
        }
    },
    "amd/request/sidecar-first": {
        "annotations": {
            "hami.io/amd-devices-to-allocate": ";AMD-a1,AMD Instinct MI300X VF,196608,304:;",
            "hami.io/amd-devices-allocated": ";AMD-a1,AMD Instinct MI300X VF,196608,304:;",
        }
    },
    # As many dies as asked, also where nobody says which card they sit on.
    "vastai/decode/aic-missing": {
        "annotations": {
            "hami.io/Vastai-devices-to-allocate": "VA-a2,Vastai,0,0:VA-a1,Vastai,0,0:;",
            "hami.io/Vastai-devices-allocated": "VA-a2,Vastai,0,0:VA-a1,Vastai,0,0:;",
        }
    },
}


@pytest.mark.parametrize("name", sorted(CHOICES))
def test_cards_are_chosen_as_recorded_or_differ_as_listed(name: str) -> None:
    case = CHOICES[name]
    accepted = [vendor_vectors.recorded_choice(case), *vendor_vectors.other_choices(case)]

    have = vendor_vectors.observed_choice(case, VENDORS[case["vendor"]])

    expected = CHOICE.get(name, {})
    assert any(vendor_vectors.differing(want, have) == expected for want in accepted)


def test_every_listed_difference_belongs_to_a_case() -> None:
    assert JUDGED.keys() >= {*HEALTH, *READ, *ADMISSION}
    assert CHOICES.keys() >= CHOICE.keys()
    assert (len(CASES), len(CHOICES)) == (341, 259)
