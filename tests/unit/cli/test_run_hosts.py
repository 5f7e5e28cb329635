"""Names of the webhook's certificate: read back from it as they were asked."""

import datetime

import pytest

from vgpu_operator.cli import run
from vgpu_operator.flows import keep_certificate
from vgpu_operator.model import errors
from vgpu_operator.webhook import issue
from vgpu_operator.wire import kept_certificate

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize("text", ["2001:DB8::1", "0:0:0:0:0:0:0:1", "10.0.0.1", "vgpu.ns.svc"])
def test_a_certificate_of_an_address_in_any_form_is_made_once(text: str) -> None:
    hosts = run.parse_hosts([text])
    authority, authority_key = issue.authority(NOW)
    certificate, key = issue.certificate(authority, authority_key, hosts, NOW)
    facts = kept_certificate.facts(
        kept_certificate.Kept(
            bundle=authority, authority_key=authority_key, certificate=certificate, key=key
        )
    )

    step = keep_certificate.due(facts, hosts=hosts, now=NOW, trusted=True)

    assert step is keep_certificate.Step.NOTHING


@pytest.mark.parametrize("text", ["bücher.example", "fe80::1%eth0", ""])
def test_a_host_that_no_certificate_can_name_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"^--webhook-host .* cannot stand in a cert"):
        run.parse_hosts([text])
