"""Who is asked about a container, and that nobody else would have had anything to say."""

import pytest

from support import vendor_vectors
from vgpu_operator.model import settings
from vgpu_operator.vendors import records, registry, roster

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


def test_a_pod_matters_for_its_cards_its_promise_or_an_earlier_name():
    def pod(*, limits=None, annotations=None):
        container = {"name": "c", "resources": {"limits": limits or {}}}
        return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}

    def matters(raw, **aliases):
        return records.may_matter(raw, EVERYBODY, aliases=aliases)

    assert matters(pod(limits={"nvidia.com/gpumem": "1"}))
    assert matters(pod(annotations={"hami.io/vgpu-devices-allocated": ""}))
    assert matters(pod(annotations={"4pd.io/vgpu-ids-new": "x"}))
    assert matters(pod(limits={"old.example/gpu": "1"}), **{"nvidia.com/gpu": ("old.example/gpu",)})
    assert not matters(pod(limits={"cpu": "1", "example.com/fpga": "1"}, annotations={"a": "b"}))
    assert not matters({"metadata": {}, "spec": None})


@pytest.mark.parametrize("vendor", EVERYBODY, ids=lambda vendor: vendor.spec.keyword)
def test_whatever_a_pod_asks_or_holds_of_a_vendor_makes_it_matter(vendor):
    for name in vendor.spec.resources:
        container = {"name": "c", "resources": {"limits": {name: "1"}}}
        assert records.may_matter({"spec": {"initContainers": [container]}}, EVERYBODY, aliases={})
    for key in vendor.spec.pod_keys:
        assert records.may_matter({"metadata": {"annotations": {key: "x"}}}, EVERYBODY, aliases={})


def test_what_is_read_of_a_node_is_the_same_as_if_every_vendor_was_asked():
    everybody_asked = Everybody(EVERYBODY)
    nodes = [node for case in recorded_nodes() for node in case]

    assert len(nodes) > 1_000
    for raw in nodes:
        assert records.node_record(raw, EVERYBODY) == records.node_record(raw, everybody_asked)


class Everybody(roster.Roster):
    """A roster that looks nothing up."""

    def on_node(self, names):
        return self


def recorded_nodes():
    files = sorted(path.stem for path in vendor_vectors.VECTORS.glob("*.jsonl"))
    for case in vendor_vectors.cases(*files):
        yield case.get("nodes") or ()
