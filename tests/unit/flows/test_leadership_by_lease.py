"""Who leads, from the Lease as it is read again and again."""

from vgpu_operator.flows.leadership import Leadership
from vgpu_operator.wire import lease


def renewed(holder: str = "x-1_ab12", *, at: str = "1", duration_s: float = 15) -> lease.Lease:
    return lease.Lease(holder=holder, renewed=at, duration_s=duration_s)


def test_the_holder_on_this_host_leads() -> None:
    state = Leadership(hostname="x-1")

    state.observe(renewed(), 0)

    assert state.leads(0)
    assert state.holder == "x-1_ab12"


def test_x_1_does_not_follow_the_lease_of_x_10_nor_the_other_way_round() -> None:
    one, ten = Leadership(hostname="x-1"), Leadership(hostname="x-10")
    for state in (one, ten):
        state.observe(renewed("x-10_ab12"), 0)

    assert (one.leads(0), ten.leads(0)) == (False, True)

    for state in (one, ten):
        state.observe(renewed("x-1_ab12", at="2"), 0)

    assert (one.leads(0), ten.leads(0)) == (True, False)


def test_a_holder_without_the_underscore_is_nobody_of_ours() -> None:
    state = Leadership(hostname="x-1")

    state.observe(renewed("x-1"), 0)

    assert not state.leads(0)


def test_a_lease_that_is_no_longer_renewed_ends_by_our_own_clock() -> None:
    state = Leadership(hostname="x-1")
    state.observe(renewed(), 0)

    for seconds in (2, 4, 14):
        state.observe(renewed(), seconds)

    assert state.leads(14.9)
    assert not state.leads(15)


def test_each_renewal_counts_from_when_it_was_seen_whatever_time_it_carries() -> None:
    state = Leadership(hostname="x-1")
    state.observe(renewed(at="1970-01-01T00:00:00Z"), 0)
    state.observe(renewed(at="2099-01-01T00:00:00Z"), 10)

    assert state.leads(24.9)
    assert not state.leads(25)


def test_a_lease_that_passes_on_ends_the_term_at_once() -> None:
    state = Leadership(hostname="x-1")
    state.observe(renewed(), 0)

    state.observe(renewed("y-1_cd34"), 1)

    assert not state.leads(1)
    assert state.holder == "y-1_cd34"


def test_case_164_without_a_lease_nobody_leads() -> None:
    state = Leadership(hostname="x-1")
    assert not state.leads(0)
    state.observe(renewed(), 0)

    state.observe(None, 1)

    assert not state.leads(1)
    assert state.holder == ""


def test_case_164_a_lease_without_holder_or_duration_is_no_crash() -> None:
    state = Leadership(hostname="x-1")
    for raw in (
        {},
        {"spec": None},
        {"spec": {}},
        {"spec": {"holderIdentity": None, "leaseDurationSeconds": None}},
        {"spec": {"holderIdentity": 5, "renewTime": 7, "leaseDurationSeconds": "15"}},
        {"spec": {"leaseDurationSeconds": 0}},
        {"spec": {"holderIdentity": "x-1_ab12", "renewTime": "1"}},
        {"spec": {"holderIdentity": "x-1_ab12", "leaseDurationSeconds": 0}},
        {"spec": {"holderIdentity": "x-1_ab12", "leaseDurationSeconds": "15"}},
    ):
        state.observe(lease.decode_lease(raw), 0)
        assert not state.leads(0)

    whole = {"spec": {"holderIdentity": "x-1_ab12", "leaseDurationSeconds": 15}}
    state.observe(lease.decode_lease(whole), 0)

    assert state.leads(14.9)
    assert not state.leads(15)


def test_an_empty_hostname_leads_nothing() -> None:
    state = Leadership(hostname="")

    state.observe(renewed("_ab12"), 0)

    assert not state.leads(0)


def test_an_answer_that_was_overtaken_by_a_newer_one_says_nothing() -> None:
    def read(holder: str, version: str) -> lease.Lease:
        return lease.Lease(holder=holder, renewed=version, resource_version=version)

    state = Leadership(hostname="x-1")
    state.observe(read("y-1_cd34", "10"), 0)

    state.observe(read("x-1_ab12", "9"), 1)

    assert not state.leads(1)
    assert state.holder == "y-1_cd34"


def test_a_lease_whose_version_alone_has_changed_is_not_renewed() -> None:
    state = Leadership(hostname="x-1")
    for second in (0, 5, 14):
        seen = {
            "metadata": {"resourceVersion": str(second + 1)},
            "spec": {"holderIdentity": "x-1_ab12", "renewTime": "1", "leaseDurationSeconds": 15},
        }
        state.observe(lease.decode_lease(seen), second)

    assert not state.leads(15)


def test_an_answer_that_there_is_no_lease_makes_no_old_renewal_new() -> None:
    state = Leadership(hostname="x-1")
    state.observe(renewed(), 0)
    state.observe(None, 1)
    assert (state.leads(1), state.holder) == (False, "")

    state.observe(renewed(), 28)
    assert not state.leads(28), "that renewal is 28 s old, whatever was read in between"

    state.observe(renewed(at="2"), 30)
    assert state.leads(30)
