"""Names of resources in the settings: as Kubernetes takes them, one meaning each."""

from typing import Any

import pytest

from vgpu_operator.model import errors, settings


def refused(values: dict[str, Any]) -> str:
    with pytest.raises(errors.SettingsError) as caught:
        settings.build(values)
    return str(caught.value)


def count_name(name: str) -> dict[str, Any]:
    return {"vendors": {"nvidia": {"resourceCountName": name}}}


@pytest.mark.parametrize(
    "name",
    [
        "example.com/gpu",
        "a/b",
        "x-1.io/A_b.c-D",
        "x/" + "n" * 63,
        ".".join(["d" * 60] * 4) + "/gpu",
    ],
)
def test_a_qualified_name_is_taken(name: str) -> None:
    assert settings.build(count_name(name)).vendors.nvidia.resource_count_name == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "'' is no name of an extended resource: write DOMAIN/NAME"),
        ("cpu", "'cpu' is no name of an extended resource"),
        ("a b", "'a b' is no name of an extended resource"),
        ("hugepages-2Mi", "'hugepages-2Mi' is no name of an extended resource"),
        ("/gpu", "'/gpu' has no DNS domain before its slash"),
        ("Example.com/gpu", "'Example.com/gpu' has no DNS domain"),
        ("a..b/gpu", "'a..b/gpu' has no DNS domain"),
        ("é.io/gpu", "'é.io/gpu' has no DNS domain"),
        ("a" * 300 + "/gpu", "'" + "a" * 60 + "'… has no DNS domain"),
        ("x.io/", "'x.io/' has no name behind its slash"),
        ("a/b/c", "'a/b/c' has no name behind its slash"),
        ("x.io/-gpu", "'x.io/-gpu' has no name behind its slash"),
        ("x.io/gpu\n", r"'x.io/gpu\n' has no name behind its slash"),
        ("x.io/" + "n" * 64, "has no name behind its slash of 1 to 63"),
        ("kubernetes.io/gpu", "'kubernetes.io/gpu' is a name that Kubernetes keeps"),
        ("node.kubernetes.io/gpu", "is a name that Kubernetes keeps for itself"),
        ("requests.nvidia.com/gpu", "is a name that Kubernetes keeps for itself"),
    ],
)
def test_what_is_no_qualified_name_is_refused_with_its_path(name: str, words: str) -> None:
    sentence = refused(count_name(name))

    assert sentence.startswith("the configuration is wrong at vendors.nvidia.resourceCountName: ")
    assert words in sentence


def test_an_empty_name_switches_off_what_may_be_absent() -> None:
    sections = {
        "nvidia": {"resourceMemoryName": "", "resourcePriorityName": ""},
        "kunlun": {"resourceCountName": "", "resourceVCountName": ""},
        "awsneuron": {"resourceCountName": ""},
        "enflame": {"resourceNameDRSGCU": "", "resourceNameVGCU": ""},
    }

    assert settings.build({"vendors": sections}).vendors.kunlun.resource_count_name == ""


@pytest.mark.parametrize(
    ("vendors", "words"),
    [
        (
            {"cambricon": {"resourceCountName": "nvidia.com/gpu"}},
            "vendors.cambricon.resourceCountName: nvidia.com/gpu is "
            "vendors.nvidia.resourceCountName already",
        ),
        (
            {"nvidia": {"resourceCountName": "nvidia.com/gpumem"}},
            "vendors.nvidia.resourceMemoryName: nvidia.com/gpumem is "
            "vendors.nvidia.resourceCountName already",
        ),
        (
            {"amd": {"resourceCoreName": "enflame.com/drs-gcu"}},
            "vendors.amd.resourceCoreName: enflame.com/drs-gcu is "
            "vendors.enflame.resourceNameDRSGCU already",
        ),
        (
            {
                "iluvatar": {"enabled": True},
                "biren": {"resourceCountName": "iluvatar.ai/MR-V50.vMem"},
            },
            "vendors.iluvatar.chips.1.resourceMemoryName: iluvatar.ai/MR-V50.vMem is "
            "vendors.biren.resourceCountName already",
        ),
        (
            {
                "iluvatar": {
                    "enabled": True,
                    "chips": [
                        {"commonWord": word, "resourceCountName": "x.io/gpu"} for word in ("A", "B")
                    ],
                }
            },
            "vendors.iluvatar.chips.1.resourceCountName: x.io/gpu is "
            "vendors.iluvatar.chips.0.resourceCountName already",
        ),
    ],
)
def test_no_name_means_two_things(vendors: dict[str, Any], words: str) -> None:
    assert words in refused({"vendors": vendors})


def test_names_of_what_is_switched_off_are_free() -> None:
    same = {"biren": {"resourceCountName": "iluvatar.ai/MR-V50.vMem"}}

    assert settings.build({"vendors": same})


def test_the_earlier_name_of_enflames_slices_may_be_todays() -> None:
    both = {"resourceNameDRSGCU": "x.io/drs", "resourceNameVGCU": "x.io/drs"}

    assert settings.build({"vendors": {"enflame": both}})


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ({"nvidia.com/gpu": ["old"]}, "resourceAliases.nvidia.com/gpu.0: 'old' is no name of"),
        ({"nvidia.com/gpus": ["x.io/old"]}, "resourceAliases.nvidia.com/gpus: no vendor has a"),
        ({"nvidia.com/gpu": ["amd.com/gpu"]}, "amd.com/gpu is the name of a resource today"),
        (
            {"nvidia.com/gpu": ["x.io/old"], "nvidia.com/gpumem": ["x.io/old"]},
            "resourceAliases.nvidia.com/gpumem: x.io/old is in resourceAliases.nvidia.com/gpu",
        ),
    ],
)
def test_an_alias_means_one_thing_too(aliases: dict[str, Any], words: str) -> None:
    assert words in refused({"resourceAliases": aliases})


def test_an_alias_of_what_is_switched_off_waits_for_it() -> None:
    assert settings.build({"resourceAliases": {"huawei.com/Ascend310P": ["huawei.com/npu"]}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lock": {"expiryS": float("inf")}}, "lock.expiryS: Input should be a finite number"),
        ({"claims": {"lifetimeS": float("nan")}}, "claims.lifetimeS: Input should be a finite"),
        (
            {"wake": {"delayS": 1e300}},
            "wake.delayS: Input should be less than or equal to 316224000",
        ),
    ],
)
def test_times_are_finite_and_less_than_ten_years(values: dict[str, Any], words: str) -> None:
    assert words in refused(values)
