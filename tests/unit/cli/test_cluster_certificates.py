import datetime
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from vgpu_operator.cli.cluster import certificates

NOW = datetime.datetime(2026, 5, 4, 12, 0, tzinfo=datetime.UTC)


@pytest.fixture
def authority() -> certificates.CertificateAuthority:
    return certificates.CertificateAuthority(NOW)


def verifier(
    authority: certificates.CertificateAuthority, at: datetime.datetime
) -> verification.PolicyBuilder:
    trusted = x509.load_pem_x509_certificate(authority.certificate_pem)
    return verification.PolicyBuilder().store(verification.Store([trusted])).time(at)


def test_server_certificate_is_good_for_its_names_and_addresses(
    authority: certificates.CertificateAuthority,
) -> None:
    pair = authority.issue_server("127.0.0.1", "localhost")
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    policy = verifier(authority, NOW)

    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    assert policy.build_server_verifier(address).verify(certificate, [])
    assert policy.build_server_verifier(x509.DNSName("localhost")).verify(certificate, [])
    with pytest.raises(verification.VerificationError):
        policy.build_server_verifier(x509.DNSName("example.com")).verify(certificate, [])


def test_certificate_of_another_authority_is_not_trusted(
    authority: certificates.CertificateAuthority,
) -> None:
    stranger = certificates.CertificateAuthority(NOW).issue_server("localhost")
    certificate = x509.load_pem_x509_certificate(stranger.certificate_pem)

    with pytest.raises(verification.VerificationError):
        verifier(authority, NOW).build_server_verifier(x509.DNSName("localhost")).verify(
            certificate, []
        )


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(NOW - datetime.timedelta(minutes=59), id="a client whose clock is behind"),
        pytest.param(NOW + datetime.timedelta(days=364), id="almost a year later"),
    ],
)
def test_certificates_are_valid_for(
    authority: certificates.CertificateAuthority, at: datetime.datetime
) -> None:
    pair = authority.issue_server("localhost")
    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)

    server = verifier(authority, at).build_server_verifier(x509.DNSName("localhost"))

    assert server.verify(certificate, [])


def test_client_certificate_names_user_and_groups(
    authority: certificates.CertificateAuthority,
) -> None:
    pair = authority.issue_client("alice", ["system:masters", "team-a"])

    subject = x509.load_pem_x509_certificate(pair.certificate_pem).subject

    assert [item.value for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [item.value for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
        "system:masters",
        "team-a",
    ]


def test_each_key_belongs_to_its_certificate(
    authority: certificates.CertificateAuthority,
) -> None:
    pair = authority.issue_client("alice")

    certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
    key = serialization.load_pem_private_key(pair.key_pem, password=None)

    assert key.public_key() == certificate.public_key()


def test_service_account_keys_are_a_pair() -> None:
    keys = certificates.new_service_account_keys()

    private = serialization.load_pem_private_key(keys.private_pem, password=None)
    public = serialization.load_pem_public_key(keys.public_pem)

    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == public
