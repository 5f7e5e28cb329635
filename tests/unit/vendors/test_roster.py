"""Who is asked about a container, and that nobody else would have had anything to say."""

import pytest

from vgpu_operator.model import settings
from vgpu_operator.vendors import registry, roster

CHIPS = {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
EVERYBODY = registry.build(settings.build({"vendors": CHIPS}))
ALL_NAMES = {name for vendor in EVERYBODY for name in vendor.spec.resources}


@pytest.mark.parametrize("vendor", EVERYBODY, ids=lambda vendor: vendor.spec.keyword)
def test_a_vendor_has_nothing_to_say_of_other_vendors_resources(vendor):
    others = dict.fromkeys(ALL_NAMES - set(vendor.spec.resources), "1")

    assert vendor.derive(others, others) is None


def test_the_asked_vendors_come_in_their_order_each_once():
    hygon = next(v for v in EVERYBODY if v.spec.keyword == "DCU")

    asked = EVERYBODY.asked([*hygon.spec.resources, "nvidia.com/gpumem", "nvidia.com/gpu", "cpu"])

    assert [vendor.spec.keyword for vendor in asked] == ["NVIDIA", "DCU"]


def test_nobody_is_asked_about_plain_resources():
    assert EVERYBODY.asked(["cpu", "memory", "example.com/other"]) == []


def test_a_plain_sequence_becomes_a_roster_and_a_roster_stays_itself():
    assert roster.of(EVERYBODY) is EVERYBODY
    assert tuple(roster.of(list(EVERYBODY))) == tuple(EVERYBODY)
