"""What a ResourceQuota limits, and what of it is said to have no effect."""

from typing import Any

import pytest

from support.resource_quotas import CORES, MEMORY, resource_quota
from vgpu_operator.model import quota, records, settings
from vgpu_operator.vendors import quotas, registry


def read(hard: dict[str, object], configured: Any = None, **fields: Any) -> records.QuotaRecord:
    built = settings.build(configured or {})
    return quotas.quota_record(
        resource_quota(hard, **fields),
        registry.build(built),
        aliases=built.resource_aliases,
    )


def nvidia(**amounts: int) -> dict[str, quota.Allowance]:
    return {"NVIDIA": quota.Allowance(**amounts)}


def test_memory_and_cores_of_a_vendor_are_limited() -> None:
    found = read({MEMORY: 4096, CORES: 150, "pods": 10, "limits.cpu": "8"}, version="7")

    assert found == records.QuotaRecord(
        namespace="team-a",
        name="cards",
        uid="uid-of-cards",
        resource_version="7",
        limits=nvidia(memory_mib=4096, cores=150),
    )


@pytest.mark.parametrize(
    ("text", "mib"),
    [("0", 0), ("4k", 4000), ("2Ki", 2048), ("20Gi", 21474836480), ("1e3", 1000), ("1.5k", 1500)],
)
def test_a_quantity_means_what_kubernetes_says(text: str, mib: int) -> None:
    assert read({MEMORY: text}).limits == nvidia(memory_mib=mib)


def test_a_limit_beyond_every_number_is_one_that_sums_can_bear() -> None:
    assert read({MEMORY: "9E"}).limits == nvidia(memory_mib=2**53)


@pytest.mark.parametrize("amount", ["-9e60", -(10**60), "-9E"])
def test_a_limit_below_every_number_is_one_that_sums_can_bear(amount: object) -> None:
    assert read({MEMORY: amount, CORES: amount}).limits == nvidia(
        memory_mib=-(2**53), cores=-(2**53)
    )


@pytest.mark.parametrize("text", ["500m", "0.5", "many", ""])
def test_what_is_no_whole_number_limits_nothing_and_says_so(text: str) -> None:
    found = read({MEMORY: text, CORES: 100})

    assert found.limits == nvidia(cores=100)
    assert found.ignored == (
        f"{MEMORY}: {text!r} is no whole number, so it limits nothing; write one without a "
        "fraction",
    )


def test_a_renamed_resource_is_limited_under_its_name_and_the_earlier_one() -> None:
    configured = {
        "vendors": {"nvidia": {"resourceMemoryName": "example.com/mem"}},
        "resourceAliases": {"example.com/mem": ["nvidia.com/gpumem"]},
    }

    assert read({"limits.example.com/mem": 5}, configured).limits == nvidia(memory_mib=5)
    both = {"limits.example.com/mem": 5, MEMORY: 3}
    assert read(both, configured).limits == nvidia(memory_mib=3)


def test_scopes_are_named_as_not_looked_at() -> None:
    found = read({MEMORY: 5}, scopes=["BestEffort"])

    assert found.limits == nvidia(memory_mib=5)
    assert found.ignored == ("its scopes are not looked at: it limits every pod of the namespace",)
    assert read({"pods": 5}, scopes=["BestEffort"]).ignored == ()


@pytest.mark.parametrize("raw", [{}, {"spec": None}, {"metadata": 5, "spec": {"hard": []}}])
def test_nonsense_is_a_quota_without_limits(raw: dict[str, Any]) -> None:
    built = settings.build({})

    assert not quotas.quota_record(raw, registry.build(built), aliases={}).limits
