"""MetaX, Kunlun and AWS Neuron against HAMi v2.10.0's recorded answers, by vendor alone.

Compared are the cards that nodes register, admission and the requests derived
after it, and which cards a pod gets with everything written on it. NVIDIA's
MIG cards and link scores are judged by their text and by the choice. Where
this project answers otherwise, the tables say what it answers; a difference
that is not listed fails, and so does one that is listed and no longer there.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support import vendor_vectors
from vgpu_operator.model import errors
from vgpu_operator.model.vendor_settings import awsneuron as awsneuron_settings
from vgpu_operator.model.vendor_settings import kunlun as kunlun_settings
from vgpu_operator.model.vendor_settings import metax as metax_settings
from vgpu_operator.model.vendor_settings import nvidia as nvidia_settings
from vgpu_operator.vendors import (
    awsneuron,
    base,
    kunlun,
    kunlun_vxpu,
    metax,
    metax_sgpu,
    mig,
    nvidia,
    topology,
)

FILES: Final = {
    "metax-gpu": 22,
    "metax-sgpu": 83,
    "kunlun-xpu": 40,
    "kunlun-vxpu": 42,
    "awsneuron": 62,
}
CASES: Final = {case["name"]: case for case in vendor_vectors.cases(*FILES)}
STOPPED: Final = {"metax-sgpu/decode/list-null", "kunlun-vxpu/decode/list-null"}
"""Cases in which the peer stopped with a fault of its own."""
JUDGED: Final = sorted(CASES.keys() - STOPPED)


def vendors_of(case: Mapping[str, Any]) -> tuple[base.Vendor, ...]:
    """Return the five vendors under the settings that the case was recorded with."""
    configured = (case.get("flags") or {}).get("device_config") or {}
    of_metax = metax_settings.MetaxSettings.model_validate(configured.get("metax", {}))
    return (
        *metax.backends(of_metax),
        *metax_sgpu.backends(of_metax),
        *kunlun.backends(kunlun_settings.KunlunSettings()),
        *kunlun_vxpu.backends(kunlun_settings.KunlunSettings()),
        *awsneuron.backends(awsneuron_settings.AwsNeuronSettings()),
    )


def test_every_case_is_here() -> None:
    assert {file: len(list(vendor_vectors.cases(file))) for file in FILES} == FILES
    listed = (ADMISSION, CHOICE, OTHER_CARDS)
    assert all(table.keys() <= set(JUDGED) for table in listed)


# --- cards -------------------------------------------------------------------------------

HANDSHAKE: Final = "the text is there; whether its cards are believed is the handshake's business"
GONE: Final = "the node says nothing: the flows know what it said before, not the vendor"
OTHER_CARDS: Final[Mapping[str, str]] = {
    "metax-sgpu/decode/no-uuid": "a card without an id is none: nothing could be written of it",
    "kunlun-xpu/health/capacity-gone": GONE,
    "awsneuron/health/capacity-gone": GONE,
    "kunlun-vxpu/health/requesting-fresh-no-allocatable": HANDSHAKE,
    "kunlun-vxpu/health/requesting-old-no-allocatable": HANDSHAKE,
    "kunlun-vxpu/health/requesting-bad": HANDSHAKE,
    "kunlun-vxpu/health/expired-after-register": HANDSHAKE,
}


@pytest.mark.parametrize("name", JUDGED)
def test_cards_are_read_as_recorded_or_differ_as_listed(name: str) -> None:
    case = CASES[name]

    have = vendor_vectors.decoded_devices(case, vendors_of(case))

    assert (have != vendor_vectors.recorded_devices(case)) == (name in OTHER_CARDS), have


@pytest.mark.parametrize("name", sorted(STOPPED))
def test_an_entry_that_stops_the_peer_costs_us_only_itself(name: str) -> None:
    assert vendor_vectors.decoded_devices(CASES[name], vendors_of(CASES[name])) == {}


# --- admission and requests --------------------------------------------------------------

COUNT: Final = "write how many cards the container needs, such as 1"
GIB: Final = "write GiB as a plain number, such as 16, or bytes with a unit, such as 16Gi"
MIB: Final = "write MiB as a plain number without a suffix, such as 24576"
FROM_ONE: Final = "write a whole number from 1"
FEW_CORES: Final = "write 1 or a multiple of 2"
PRIVILEGED: Final = (
    "container main is privileged: it would reach every card of its node, past all limits; set "
    "its securityContext.privileged to false, or ask for no card in this pod"
)
PLACED: Final = (
    "the pod has node 'node-a' assigned: hami-scheduler must place a pod that asks for a card, "
    "because it chooses the card; remove spec.nodeName and select the node by spec.nodeSelector "
    "or spec.affinity"
)
UNTOUCHED: Final = {"schedulerName": ""}
"""A count of 0 asks for no card, so the pod stays as it is."""

QUOTA: Final = {"allowed": True, "code": None, "message": None}
"""Quotas are the webhook's business, not the vendor's."""


def refused(sentence: str) -> dict[str, Any]:
    """HAMi lets the pod through, as if it asked for nothing or for a whole card."""
    message = f"container main: {sentence}"
    return {
        "allowed": False,
        "code": 422,
        "message": message,
        "schedulerName": None,
        "env_added": None,
        "annotations_added": None,
        "stored": None,
        "requests": [message],
    }


def other_words(sentence: str) -> dict[str, Any]:
    """HAMi refuses the pod too; a bad value is the author's fault, not the server's."""
    return {"code": 422, "message": f"container main: {sentence}"}


def written_to_limits(**amounts: int) -> dict[str, Any]:
    """A value in requests only is written to limits too: the API server wants both."""
    names = {
        "vxpu": "kunlunxin.com/vxpu",
        "vxpu_memory": "kunlunxin.com/vxpu-memory",
        "neuron": "aws.amazon.com/neuron",
    }
    stored = {names[name]: amount for name, amount in amounts.items()}
    return {"stored": [("main", stored, stored)]}


def sgpu(memory_mib: int) -> dict[str, Any]:
    """The API server writes 1000 as 1k: that is GiB all the same."""
    wish = {
        "nums": 1,
        "type": "Metax-SGPU",
        "memreq": memory_mib,
        "mem_percentage": 0,
        "cores": 10,
    }
    return {"requests": [{"Metax-SGPU": wish}]}


def devices(count: int) -> dict[str, Any]:
    """Cores of whole devices are the node's; where no node is known they count as two each."""
    wish = {
        "nums": count,
        "type": "AWSNeuron",
        "memreq": 0,
        "mem_percentage": 0,
        "cores": 2,
    }
    return {"requests": [{"AWSNeuron": wish}]}


def no_quality(text: str) -> dict[str, Any]:
    return other_words(
        f"annotation metax-tech.com/sgpu-qos-policy: {text!r} is no quality class; "
        "write one of best-effort, fixed-share, burst-share"
    )


NO_CLASS: Final = other_words(
    "annotation metax-tech.com/sgpu-app-class: '' is no class; write online or offline"
)

ADMISSION: Final[Mapping[str, Mapping[str, Any]]] = {
    "metax-gpu/request/count-0": UNTOUCHED,
    "metax-gpu/request/count-500m": refused(
        f"metax-tech.com/gpu: '500m' is no whole number; {COUNT}"
    ),
    "metax-gpu/admission/privileged": {"message": PRIVILEGED},
    "metax-sgpu/request/count-0": UNTOUCHED | {"annotations_added": {}},
    "metax-sgpu/admission/preset-node": {"message": PLACED},
    "metax-sgpu/request/mem-over-int32": refused(
        f"metax-tech.com/vmemory: '4294967296' is more than any card has; {GIB}"
    ),
    "metax-sgpu/request/vmemory-1073741824": refused(
        f"metax-tech.com/vmemory: '1073741824' is more than any card has; {GIB}"
    ),
    "metax-sgpu/request/mem-500m": refused(
        f"metax-tech.com/vmemory: '500m' is no whole number; {GIB}"
    ),
    "metax-sgpu/request/mem-2Ki": refused(
        f"metax-tech.com/vmemory: '2Ki' is less than 1 MiB; {GIB}"
    ),
    "metax-sgpu/request/vmemory-1000": sgpu(1_024_000),
    "metax-sgpu/request/vmemory-1k": sgpu(1_024_000),
    "metax-sgpu/request/vmemory-2000": sgpu(2_048_000),
    "metax-sgpu/request/vmemory-64k": sgpu(65_536_000),
    "metax-sgpu/quota/quota-mem-over": QUOTA,
    "metax-sgpu/quota/quota-cores-over": QUOTA,
    "metax-sgpu/quota/quota-bare-count": QUOTA,
    "metax-sgpu/quota/quota-used": QUOTA,
    "metax-sgpu/fit/qos-bogus-on-none": no_quality("bogus"),
    "metax-sgpu/fit/qos-bogus-on-best-effort": no_quality("bogus"),
    "metax-sgpu/fit/qos-bogus-on-fixed-share": no_quality("bogus"),
    "metax-sgpu/fit/qos-empty-on-none": no_quality(""),
    "metax-sgpu/fit/app-empty-on-online": NO_CLASS,
    "metax-sgpu/fit/app-empty-on-offline": NO_CLASS,
    "metax-sgpu/fit/app-empty-on-plain": NO_CLASS,
    "kunlun-xpu/request/count-0": UNTOUCHED,
    "kunlun-xpu/request/count-500m": refused(
        f"kunlunxin.com/xpu: '500m' is no whole number; {COUNT}"
    ),
    "kunlun-xpu/request/count-over-int32": refused(
        f"kunlunxin.com/xpu: '4294967297' is more than 2147483647; {COUNT}"
    ),
    "kunlun-xpu/admission/preset-node": {"message": PLACED},
    "kunlun-vxpu/request/count-0": UNTOUCHED,
    "kunlun-vxpu/request/count-over-int32": refused(
        f"kunlunxin.com/vxpu: '4294967297' is more than 2147483647; {COUNT}"
    ),
    "kunlun-vxpu/admission/preset-node": {"message": PLACED},
    "kunlun-vxpu/request/mem-500m": refused(
        f"kunlunxin.com/vxpu-memory: '500m' is no whole number; {MIB}"
    ),
    "kunlun-vxpu/request/mem-in-requests": written_to_limits(vxpu=1, vxpu_memory=24576),
    "kunlun-vxpu/request/slice-in-requests-only": written_to_limits(vxpu=1, vxpu_memory=49152),
    "kunlun-vxpu/quota/quota": QUOTA,
    "awsneuron/request/count-500m": other_words(
        f"aws.amazon.com/neuron: '500m' is no whole number; {FROM_ONE}"
    ),
    "awsneuron/request/count-4294967297": other_words(
        f"aws.amazon.com/neuron: '4294967297' is more than 2147483647; {FROM_ONE}"
    ),
    "awsneuron/request/cores-3": other_words(
        f"aws.amazon.com/neuroncore: 3 cores fill no devices; {FEW_CORES}"
    ),
    "awsneuron/request/cores-9": other_words(
        f"aws.amazon.com/neuroncore: 9 cores fill no devices; {FEW_CORES}"
    ),
    "awsneuron/admission/no-node": other_words(
        f"aws.amazon.com/neuroncore: 3 cores fill no devices; {FEW_CORES}"
    ),
    "awsneuron/request/count-requests-only": written_to_limits(neuron=1),
    "awsneuron/request/count-requests-only-hami": written_to_limits(neuron=1),
    "awsneuron/decode/four-core-count": devices(1),
    "awsneuron/decode/four-core-count-2": devices(2),
    "awsneuron/decode/one-core-count": devices(1),
    "awsneuron/decode/one-core-count-2": devices(2),
    "awsneuron/decode/no-core-resource-count": devices(1),
    "awsneuron/decode/no-core-resource-count-2": devices(2),
    "awsneuron/decode/zero-count": devices(1),
    "awsneuron/decode/zero-count-2": devices(2),
    "awsneuron/quota/quota-core-used-mask": QUOTA,
}


@pytest.mark.parametrize("name", JUDGED)
def test_admission_and_requests_are_as_recorded_or_differ_as_listed(name: str) -> None:
    case = CASES[name]

    differing = vendor_vectors.differing(
        vendor_vectors.recorded_admission(case),
        vendor_vectors.observed_admission(case, vendors_of(case)),
    )

    assert differing == dict(ADMISSION.get(name, {}))


# --- the choice --------------------------------------------------------------------------


def whole_cards(*indexes: int, score: str | None = None) -> dict[str, Any]:
    """Wings are where the cards are, not where a list sorted by fullness has them."""
    shares = ":".join(f"node-a-kunlun-{index},kunlun,98304,100" for index in indexes)
    found: dict[str, Any] = {
        "annotations": {
            "hami.io/kunlun-allocated": f"{shares}:;",
            "BAIDU_COM_DEVICE_IDX": ",".join(map(str, indexes)),
        }
    }
    return found | ({"scores": {"node-a": score}} if score else {})


def neuron(device: int, mask: int, ids: str, *, cores: bool = False) -> dict[str, Any]:
    """All cores of a device are told apart, and whole devices are named by their index."""
    written = {
        "hami.io/aws-neuron-devices-allocated": f"node-a-AWSNeuron-{device},AWSNeuron,0,{mask}:;",
        "AWS_NEURON_IDS": ids,
        "NEURON_ALLOC_TIME": "<now:ns>",
        "NEURON_ALLOCATED": "false",
        "aws.amazon.com/predicate-node": "node-a",
    }
    kind = {"NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore"} if cores else {}
    return {"annotations": written | kind}


CHOICE: Final[Mapping[str, Mapping[str, Any]]] = {
    # HAMi adds scores in 32 bits.
    "metax-sgpu/fit/app-online-on-offline": {"scores": {"node-a": "-999998.22"}},
    "metax-sgpu/policy/online-node-score-spread": {
        "scores": {"node-a": "200000.78", "node-b": "1000001.78"}
    },
    "kunlun-xpu/fit/used-5-want-2": whole_cards(4, 6),
    "kunlun-xpu/fit/used-5-want-4": whole_cards(0, 1, 2, 3, score="1002.51"),
    "kunlun-xpu/fit/used-67-want-1": whole_cards(4, score="1005.02"),
    "kunlun-xpu/fit/used-36-want-4": whole_cards(0, 1, 4, 5, score="1005.02"),
    "kunlun-xpu/fit/used-04-want-4": whole_cards(2, 3, 6, 7, score="1005.02"),
    "kunlun-xpu/fit/used-012567-want-2": {
        "failed": {"node-a": "1/8 NumaNotFit"},
        "scores": {},
        "annotations": {},
    },
    "awsneuron/request/count-requests-only": neuron(3, 3, "3"),
    "awsneuron/request/count-requests-only-hami": neuron(3, 3, "3"),
    "awsneuron/decode/four-core-count": neuron(1, 15, "1"),
    "awsneuron/fit/single-four-core-used-3-want-core": neuron(0, 4, "2", cores=True),
    # The peer splits four cores over two devices; the node has one, with four.
    "awsneuron/fit/single-four-core-want-4-cores": {
        "failed": {},
        "scores": {"node-a": "0.00"},
    },
}


@pytest.mark.parametrize(
    "name", [name for name in JUDGED if vendor_vectors.has_choice(CASES[name])]
)
def test_the_choice_is_as_recorded_or_differs_as_listed(name: str) -> None:
    case = CASES[name]
    (vendor,) = (one for one in vendors_of(case) if one.spec.id == case["vendor"])

    have = vendor_vectors.observed_choice(case, vendor)

    if have in vendor_vectors.other_choices(case):
        differing = {}
    else:
        differing = vendor_vectors.differing(vendor_vectors.recorded_choice(case), have)
    assert differing == dict(CHOICE.get(name, {}))


# --- NVIDIA: MIG and links ---------------------------------------------------------------

NVIDIA: Final = nvidia.Nvidia(nvidia_settings.NvidiaSettings())

BY_HAND: Final = {
    case["name"]: case
    for case in vendor_vectors.cases("nvidia-fit", "nvidia-policy")
    if any(word in case["name"] for word in ("/mig-", "/mode-mig", "/topo-", "/gpu-topology-aware"))
    and vendor_vectors.has_choice(case)
    and ","
    not in case["pod"]["metadata"].get("annotations", {}).get("hami.io/gpu-scheduler-policy", "")
}

LARGER_PROFILE: Final = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a0","profile":"7g.40gb",'
    '"placement":{"start":0,"size":8}}]'
)

NVIDIA_CHOICE: Final[Mapping[str, Mapping[str, Any]]] = {
    # The instance has as many cores as were asked, not 14.
    "nvidia/fit/mig-cores-50": {
        "annotations": {
            "hami.io/vgpu-devices-to-allocate": "GPU-a0,NVIDIA,40192,100:;",
            "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,40192,100:;",
            "hami.io/vgpu-mig-allocations": LARGER_PROFILE,
        }
    },
    # One segment for each container, and the container's own index.
    "nvidia/fit/mig-side-first": {
        "annotations": {
            "hami.io/vgpu-devices-to-allocate": ";GPU-a0,NVIDIA,4864,14:;",
            "hami.io/vgpu-devices-allocated": ";GPU-a0,NVIDIA,4864,14:;",
            "hami.io/vgpu-mig-allocations": (
                '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a0","profile":"1g.5gb",'
                '"placement":{"start":6,"size":1}}]'
            ),
        }
    },
    # Not only the NUMA node that is walked last may serve.
    "nvidia/policy/topo-numa-last-group-short": {
        "failed": {},
        "scores": {"node-a": "0.00"},
    },
}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_mig_instances_and_linked_cards_are_chosen_as_recorded(name: str) -> None:
    case = BY_HAND[name]

    have = vendor_vectors.observed_choice(case, NVIDIA)

    differing = vendor_vectors.differing(vendor_vectors.recorded_choice(case), have)
    assert differing == dict(NVIDIA_CHOICE.get(name, {}))


def test_the_cases_of_mig_and_links_are_here() -> None:
    assert len(BY_HAND) == N_BY_HAND
    assert NVIDIA_CHOICE.keys() <= BY_HAND.keys()


N_BY_HAND: Final = 43

CODEC: Final = {
    case["name"]: case
    for case in vendor_vectors.cases("codec")
    if case["kind"] in ("mig_decode", "pair_scores_decode")
}


@pytest.mark.parametrize("name", sorted(CODEC))
def test_texts_are_read_as_recorded(name: str) -> None:
    case = CODEC[name]
    if "error" in case["expect"]:
        with pytest.raises(errors.DecodeError):
            read(case)
    else:
        (want,) = case["expect"].values()
        assert read(case) == (want or [])


def read(case: Mapping[str, Any]) -> list[Any]:
    if case["kind"] == "pair_scores_decode":
        scores = topology.decode_pair_scores(case["text"])
        return [{"uuid": card, "score": dict(peers)} for card, peers in scores.items()]
    return [
        {
            "containerIndex": one.container,
            "deviceIndex": one.share,
            "gpuUUID": one.device_id,
            "profile": one.profile,
            "placement": {"start": one.placement.start, "size": one.placement.size},
        }
        for one in mig.decode_allocations(case["text"])
    ]
