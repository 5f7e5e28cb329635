"""The cluster's own certificate authority, and what it signs.

All keys are ECDSA P-256: made in a millisecond, where RSA takes a tenth of a
second each. Nothing here outlives the cluster's folder.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vgpu_operator.webhook import issue

_VALID_FOR = datetime.timedelta(days=365)
_BACKDATED = datetime.timedelta(hours=1)
"""A little into the past: clocks of containers and hosts differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountKeys:
    """What signs service account tokens, and what checks them, both as PEM."""

    private_pem: bytes
    public_pem: bytes


class CertificateAuthority:
    """Signs the certificates of one cluster, valid for a year from ``now``."""

    def __init__(self, now: datetime.datetime) -> None:
        self._not_before = now - _BACKDATED
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vgpu-operator local cluster")])
        builder = self._builder(name, self._key.public_key(), issuer=name)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = builder.add_extension(constraints, critical=True)
        builder = builder.add_extension(
            issue.key_usage(signs_certificates=True, signs_data=False), critical=True
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate_pem(self) -> bytes:
        """Return what clients check servers with, and servers clients."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, *names: str) -> KeyPair:
        """Sign a server certificate for host names and IP addresses; the first is its name."""
        alternatives = x509.SubjectAlternativeName([issue.general_name(name) for name in names])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Sign a client certificate; Kubernetes reads CN as the user and each O as a group."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key(), issuer=self._certificate.subject)
        constraints = x509.BasicConstraints(ca=False, path_length=None)
        builder = builder.add_extension(constraints, critical=True)
        builder = builder.add_extension(issue.key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
            key_pem=issue.key_pem(key),
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, issuer: x509.Name
    ) -> x509.CertificateBuilder:
        # Python 3.13 and newer verify strictly and refuse a chain without key identifiers.
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._not_before)
            .not_valid_after(self._not_before + _VALID_FOR)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(signer, critical=False)
        )


def new_service_account_keys() -> ServiceAccountKeys:
    """Make the key pair that service account tokens are signed and checked with."""
    key = ec.generate_private_key(ec.SECP256R1())
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return ServiceAccountKeys(private_pem=issue.key_pem(key), public_pem=public_pem)
