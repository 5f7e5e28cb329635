"""The page on namespace quotas says what the code does."""

import re
from pathlib import Path

import yaml

from vgpu_operator.model import quota, settings
from vgpu_operator.vendors import quotas, registry

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "quotas.md").read_text(encoding="utf-8")


def test_the_example_limits_what_the_page_says() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

    found = quotas.quota_record(
        yaml.safe_load(text), registry.build(settings.Settings()), aliases={}
    )

    assert found.namespace == "team-a"
    assert found.limits == {"NVIDIA": quota.Allowance(memory_mib=40000, cores=200)}
    assert found.ignored == ()


def test_the_units_are_those_of_the_vendors() -> None:
    vendors = {vendor.spec.keyword: vendor for vendor in registry.build(settings.Settings())}

    assert "units of\n  256 MiB of `cambricon.com/mlu.smlu.vmemory`" in PAGE
    assert vendors["MLU"].quota_memory("2") == 512
    assert vendors["NVIDIA"].quota_memory("20Gi") == 21474836480
    assert vendors["Metax-SGPU"].quota_memory("20Gi") == vendors["Metax-SGPU"].quota_memory("20")
