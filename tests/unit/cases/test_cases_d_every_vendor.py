"""Case 72: binpack and spread mean the same for every vendor.

Eight back ends of the 25 are not here. Five hand out whole cards only (Enflame
GCU, MetaX GPU, Kunlun XPU, Vastai, Biren): a card in use cannot be taken again,
so binpack and spread have nothing to choose between. Kunlun vXPU, AWS Neuron
and Ascend 910C take what their links prefer, whatever the policy.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from support import case_cluster
from support.case_cluster import CaseCluster


def _colons(kind: str) -> str:
    return "".join(f"card-{n},10,32768,100,{kind},0,true:" for n in range(2))


def _listed(kind: str, **fields: Any) -> str:
    usual = {"count": 4, "devmem": 32768, "devcore": 100, "type": kind, "health": True}
    return json.dumps([{"id": f"card-{n}", "index": n} | usual | fields for n in range(2)])


def _iluvatar(chip: str) -> tuple[dict[str, str], dict[str, int], dict[str, int]]:
    return (
        {f"hami.io/node-{chip}-register": _colons(chip)},
        {f"iluvatar.ai/{chip}-vgpu": 20},
        {
            f"iluvatar.ai/{chip}-vgpu": 1,
            f"iluvatar.ai/{chip}.vMem": 16,
            f"iluvatar.ai/{chip}.vCore": 20,
        },
    )


def _ascend(chip: str) -> tuple[dict[str, str], dict[str, int], dict[str, int]]:
    """A share of 1 MiB takes the chip's smallest template."""
    return (
        {f"hami.io/node-register-{chip}": _listed(chip, devcore=20)},
        {f"huawei.com/{chip}": 8},
        {f"huawei.com/{chip}": 1, f"huawei.com/{chip}-memory": 1},
    )


METAX: Final = json.dumps(
    [
        {
            "uuid": f"card-{n}",
            "model": "C500",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "availableDevCount": 16,
            "availableCompute": 100,
            "availableVRam": 65536,
            "healthy": True,
        }
        for n in range(2)
    ]
)
DRS: Final = json.dumps(
    {
        "devices": [{"index": str(n), "minor": str(n), "capacity": 6} for n in range(2)],
        "profiles": {"1g.6gb": "0", "6g.40gb": "2"},
    }
)

VENDORS: Final = {
    "NVIDIA": (
        {"hami.io/node-nvidia-register": _listed("NVIDIA-NVIDIA A10")},
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000},
    ),
    "Cambricon MLU": (
        {},
        {
            "cambricon.com/vmlu": 200,
            "cambricon.com/mlu.smlu.vcore": 200,
            "cambricon.com/mlu.smlu.vmemory": 192,
        },
        {
            "cambricon.com/vmlu": 1,
            "cambricon.com/mlu.smlu.vmemory": 20,
            "cambricon.com/mlu.smlu.vcore": 10,
        },
    ),
    "Hygon DCU": (
        {"hami.io/node-dcu-register": _colons("DCU-K100_AI")},
        {"hygon.com/dcunum": 20},
        {"hygon.com/dcunum": 1, "hygon.com/dcumem": 2000, "hygon.com/dcucores": 10},
    ),
    "Enflame DRS": (
        {"enflame.com/gcu-drs-capacity": DRS},
        {"enflame.com/drs-gcu": 12},
        {"enflame.com/drs-gcu": 1},
    ),
    "Moore Threads": (
        {},
        {
            "mthreads.com/vgpu": 200,
            "mthreads.com/sgpu-core": 32,
            "mthreads.com/sgpu-memory": 192,
        },
        {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32, "mthreads.com/sgpu-core": 4},
    ),
    "MetaX sGPU": (
        {"metax-tech.com/node-gpu-devices": METAX},
        {"metax-tech.com/sgpu": 32},
        {"metax-tech.com/sgpu": 1, "metax-tech.com/vmemory": 16, "metax-tech.com/vcore": 20},
    ),
    "AMD": (
        {"hami.io/node-amd-register": _listed("AMD Instinct MI300X VF", devcore=304)},
        {"amd.com/gpu": 8},
        {"amd.com/gpu": 1, "amd.com/gpumem": 1000, "amd.com/gpucores": 10},
    ),
    **{
        f"Ascend {chip}": _ascend(f"Ascend{chip}")
        for chip in ("910A", "910B2", "910B3", "910B4", "910B4-1", "310P")
    },
    **{f"Iluvatar {c}": _iluvatar(c) for c in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")},
}


EVERY_CHIP: Final = {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}


@pytest.mark.parametrize("vendor", VENDORS)
def test_case_72_spread_takes_the_idle_card_and_binpack_the_used_one(vendor: str) -> None:
    notes, counts, limits = VENDORS[vendor]
    amounts = {name: str(count) for name, count in counts.items()}
    node = case_cluster.node(notes=notes, allocatable=amounts, capacity=amounts)
    found = {}
    for policy in ("spread", "binpack"):
        one = CaseCluster(node, vendors=EVERY_CHIP)
        used = _card(one, "p1", limits)
        taken = _card(one, "p2", limits, {"hami.io/gpu-scheduler-policy": policy})
        found[policy] = "the used one" if taken == used else "the idle one"

    assert found == {"spread": "the idle one", "binpack": "the used one"}


def _card(
    one: CaseCluster,
    name: str,
    limits: Mapping[str, int],
    notes: Mapping[str, str] | None = None,
) -> str:
    """Return the card that a pod of one container gets."""
    amounts = {resource: str(amount) for resource, amount in limits.items()}
    placed = one.place(case_cluster.pod(name, case_cluster.limited(amounts), notes=notes))
    assert placed.granted is not None, {name: str(why) for name, why in placed.rejections.items()}
    ((shares,),) = placed.granted.shares.values()
    (share,) = shares
    return share.device_id
