"""The webhook's certificate: what is due when, and that callers always trust what is shown."""

import datetime
from dataclasses import replace

import pytest

from vgpu_operator.flows import keep_certificate as flow
from vgpu_operator.webhook import issue
from vgpu_operator.wire import kept_certificate
from vgpu_operator.wire.kept_certificate import Kept

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
HOSTS = ("vgpu.ns.svc",)


class Cluster:
    """A Secret and a webhook in memory; every effect is performed with real keys."""

    def __init__(self) -> None:
        self.kept = Kept()
        self.trust: bytes | None = b""
        self.now = NOW
        self.done: list[type] = []

    def round(self, *, leads: bool = True, hosts: tuple[str, ...] = HOSTS) -> Kept:
        rounds = flow.keep(hosts=hosts, now=self.now, leads=leads)
        self.done = []
        try:
            effect = next(rounds)
            while True:
                effect = rounds.send(self.perform(effect, hosts))
        except StopIteration as end:
            shown: Kept = end.value
            return shown

    def perform(self, effect: flow.Effect, hosts: tuple[str, ...]) -> object:
        self.done.append(type(effect))
        match effect:
            case flow.ReadSecret():
                return self.kept
            case flow.ReadTrust():
                return frozenset([b"one", b"two"] if self.trust is None else [self.trust])
            case flow.WriteSecret(kept=kept):
                assert kept.resource_version == self.kept.resource_version
                self.kept = replace(kept, resource_version=f"{kept.resource_version}+")
                return self.kept.resource_version
            case flow.WriteTrust(bundle=bundle):
                self.trust = bundle
                return None
            case flow.MakeAuthority():
                return issue.authority(self.now)
            case flow.MakeCertificate(bundle=bundle, authority_key=key):
                return issue.certificate(bundle, key, hosts, self.now)

    def facts(self) -> kept_certificate.Facts:
        found = kept_certificate.facts(self.kept)
        assert found is not None
        return found

    @property
    def writes(self) -> list[type]:
        return [kind for kind in self.done if kind in (flow.WriteSecret, flow.WriteTrust)]


def settled() -> Cluster:
    cluster = Cluster()
    cluster.round()
    cluster.round()
    assert cluster.writes == []
    return cluster


def test_the_first_leader_makes_everything_and_tells_the_api_servers() -> None:
    cluster = Cluster()

    shown = cluster.round()

    assert cluster.facts().hosts == {"vgpu.ns.svc"}
    assert cluster.facts().by_newest
    assert cluster.trust == shown.bundle == cluster.kept.bundle
    assert shown.certificate == cluster.kept.certificate


def test_a_replica_that_does_not_lead_reads_and_writes_nothing() -> None:
    cluster = Cluster()

    shown = cluster.round(leads=False)

    assert shown == Kept()
    assert cluster.done == [flow.ReadSecret]


def test_a_replica_shows_what_the_leader_keeps() -> None:
    cluster = settled()

    assert cluster.round(leads=False).certificate == cluster.kept.certificate


def test_nothing_is_due_while_a_third_of_the_lifetime_is_left() -> None:
    cluster = settled()

    cluster.now = NOW + 59 * DAY

    cluster.round()
    assert cluster.writes == []


def test_a_certificate_is_renewed_when_less_than_a_third_is_left() -> None:
    cluster = settled()
    before = cluster.kept
    cluster.now = NOW + 61 * DAY

    cluster.round()

    assert cluster.writes == [flow.WriteSecret], "the authority stays, so trust does"
    assert cluster.kept.bundle == before.bundle
    assert cluster.kept.certificate != before.certificate
    assert cluster.facts().certificate.until == cluster.now.replace(microsecond=0) + 90 * DAY


def test_an_authority_is_followed_by_the_next_while_callers_trust_both() -> None:
    cluster = settled()
    old = cluster.kept
    cluster.now = NOW + 5 * 365 * DAY * 0.67
    assert cluster.trust is not None
    cluster.kept = replace(cluster.kept, **certificate_of(cluster))

    cluster.round()

    assert cluster.kept.bundle.endswith(old.bundle)
    assert cluster.kept.bundle != old.bundle
    assert cluster.trust == cluster.kept.bundle, "both are trusted"
    assert not cluster.facts().by_newest, "before the new one has signed anything"

    cluster.round()

    assert cluster.facts().by_newest
    assert cluster.writes == [flow.WriteSecret]
    cluster.round()
    assert cluster.writes == []


def certificate_of(cluster: Cluster) -> dict[str, bytes]:
    certificate, key = issue.certificate(
        cluster.kept.bundle, cluster.kept.authority_key, HOSTS, cluster.now
    )
    return {"certificate": certificate, "key": key}


def test_the_new_authority_signs_nothing_until_callers_trust_it() -> None:
    cluster = settled()
    authority, key = issue.authority(NOW)
    cluster.kept = replace(cluster.kept, bundle=authority + cluster.kept.bundle, authority_key=key)

    cluster.round()  # trust was that of one authority only

    assert not cluster.facts().by_newest
    assert cluster.writes == [flow.WriteTrust]
    cluster.round()
    assert cluster.facts().by_newest


@pytest.mark.parametrize(
    "trust",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"other", id="another"),
        pytest.param(None, id="two"),
    ],
)
def test_case_179_a_wrong_ca_bundle_is_found_and_put_right(trust: bytes | None) -> None:
    cluster = settled()
    cluster.trust = trust

    cluster.round()

    assert cluster.writes == [flow.WriteTrust]
    assert cluster.trust == cluster.kept.bundle


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param({"certificate": b""}, id="no certificate"),
        pytest.param({"key": b"text"}, id="a key that is none"),
        pytest.param({"bundle": b""}, id="no authority"),
        pytest.param({"authority_key": b""}, id="no key of the authority"),
        pytest.param({"key": issue.authority(NOW)[1]}, id="the key of another"),
        pytest.param({"bundle": issue.authority(NOW)[0]}, id="an authority that has not signed"),
    ],
)
def test_what_does_not_fit_together_is_made_again(damage: dict[str, bytes]) -> None:
    cluster = settled()
    cluster.kept = replace(cluster.kept, **damage)

    cluster.round()

    assert cluster.facts().by_newest
    assert cluster.trust == cluster.kept.bundle


def test_a_damaged_key_takes_no_trust_from_what_other_replicas_still_show() -> None:
    cluster = settled()
    before = cluster.kept.bundle
    cluster.kept = replace(cluster.kept, key=b"text")

    cluster.round()

    assert cluster.trust is not None
    assert cluster.trust.endswith(before)
    assert cluster.trust != before


def test_repairs_without_end_make_no_bundle_without_end() -> None:
    cluster = settled()

    for _ in range(8):
        cluster.kept = replace(cluster.kept, key=b"text")
        cluster.round()

    assert cluster.kept.bundle.count(b"BEGIN") == 1 + kept_certificate.MOST_EARLIER


def test_an_effect_shows_no_key() -> None:
    effect = flow.MakeCertificate(bundle=b"", authority_key=b"secret")

    assert "secret" not in repr(effect)


def test_another_name_makes_another_certificate_of_the_same_authority() -> None:
    cluster = settled()
    before = cluster.kept.bundle

    cluster.round(hosts=(*HOSTS, "10.0.0.1"))

    assert cluster.facts().hosts == {"vgpu.ns.svc", "10.0.0.1"}
    assert cluster.kept.bundle == before


def test_an_expired_certificate_and_authority_are_replaced() -> None:
    cluster = settled()
    cluster.now = NOW + 6 * 365 * DAY

    cluster.round()

    assert cluster.facts().authority.until > cluster.now
    assert cluster.facts().certificate.until > cluster.now


def test_no_key_is_shown_by_what_is_kept() -> None:
    kept = settled().kept

    assert "PRIVATE" not in repr(kept)
    assert kept_certificate.decode_secret(
        {"data": kept_certificate.encode_data(kept), "metadata": {"resourceVersion": "7"}}
    ) == replace(kept, resource_version="7")


def test_a_secret_that_nobody_has_filled_reads_as_empty() -> None:
    assert kept_certificate.decode_secret({"metadata": {"resourceVersion": "3"}}) == Kept(
        resource_version="3"
    )
    assert kept_certificate.decode_secret({"data": {"tls.crt": "%%%", "tls.key": 7}}) == Kept()
