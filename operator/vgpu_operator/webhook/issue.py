"""Makes certificate authorities and the certificates that they sign."""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME: Final = datetime.timedelta(days=5 * 365)
CERTIFICATE_LIFETIME: Final = datetime.timedelta(days=90)

CLOCK_SKEW: Final = datetime.timedelta(hours=1)
"""How far the API server's clock may be behind ours."""

_PEM: Final = serialization.Encoding.PEM


def authority(
    now: datetime.datetime, *, lifetime: datetime.timedelta = AUTHORITY_LIFETIME
) -> tuple[bytes, bytes]:
    """Make an authority; return PEM of its certificate and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities of one name would be told apart by their keys alone.
    name = _name(f"vgpu-operator CA {x509.random_serial_number() & 0xFFFFFFFF:08x}")
    certificate = (
        _builder(name, name, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(_PEM), key_pem(key)


def certificate(
    authority_pem: bytes,
    authority_key_pem: bytes,
    hosts: Sequence[str],
    now: datetime.datetime,
    *,
    lifetime: datetime.timedelta = CERTIFICATE_LIFETIME,
) -> tuple[bytes, bytes]:
    """Make a server's certificate; return PEM of it and of its key.

    Args:
        authority_pem: the authority, first where there are several.
        authority_key_pem: its key.
        hosts: DNS names and IP addresses that callers use; at least one.
        now: time of day.
        lifetime: how long it is valid from now.
    """
    if not hosts:
        raise ValueError("a certificate needs at least one host name")
    signer = x509.load_pem_x509_certificates(authority_pem)[0]
    signer_key = serialization.load_pem_private_key(authority_key_pem, password=None)
    if not isinstance(signer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is of another kind than those made here")
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(_name("vgpu-operator"), signer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([general_name(host) for host in dict.fromkeys(hosts)]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()),
            critical=False,
        )
        .sign(signer_key, hashes.SHA256())
    )
    return made.public_bytes(_PEM), key_pem(key)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key's PEM, not encrypted."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def general_name(host: str) -> x509.GeneralName:
    """Return a DNS name or an IP address as a certificate names it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def key_usage(*, signs_certificates: bool, signs_data: bool = True) -> x509.KeyUsage:
    """Return what a certificate's key may be used for."""
    return x509.KeyUsage(
        digital_signature=signs_data,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
