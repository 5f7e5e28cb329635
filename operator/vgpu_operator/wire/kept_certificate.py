"""The webhook's certificate as a Secret keeps it, and what the certificates say.

``ca.crt`` may hold several authorities, the newest first: callers trust them all, so
that one can follow another without a gap. ``ca.key`` is the newest one's key.
"""

import base64
import binascii
import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

MOST_EARLIER: Final = 3
"""Earlier authorities that are still trusted: a bundle must not grow with every repair."""

_FIELDS: Final = {
    "bundle": "ca.crt",
    "authority_key": "ca.key",
    "certificate": "tls.crt",
    "key": "tls.key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the Secret holds, as PEM; a part that is not there is empty."""

    bundle: bytes = b""
    authority_key: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    resource_version: str = ""

    def __repr__(self) -> str:
        """Show no key."""
        return f"Kept(resource_version={self.resource_version!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From when to when a certificate is valid."""

    since: datetime.datetime
    until: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the certificates of a Secret say.

    Attributes:
        authority: when the newest authority is valid.
        certificate: when the server's certificate is.
        by_newest: whether the newest authority has signed it.
        hosts: names and addresses that it is for.
    """

    authority: Period
    certificate: Period
    by_newest: bool
    hosts: frozenset[str]


def decode_secret(raw: Mapping[str, Any]) -> Kept:
    """Read a Secret; what is missing or no base64 reads as empty."""
    data = raw.get("data")
    found = data if isinstance(data, Mapping) else {}
    metadata = raw.get("metadata")
    version = metadata.get("resourceVersion", "") if isinstance(metadata, Mapping) else ""
    parts = {name: decoded(found.get(key)) for name, key in _FIELDS.items()}
    return Kept(**parts, resource_version=str(version))


def encode_data(kept: Kept) -> dict[str, str]:
    """Return the Secret's ``data``."""
    return {key: encode(getattr(kept, name)) for name, key in _FIELDS.items()}


def encode(pem: bytes) -> str:
    """Return bytes as the API has them in JSON."""
    return base64.b64encode(pem).decode()


def decoded(text: object) -> bytes:
    """Return the bytes of a field of the API; what is no base64 reads as empty."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""


def facts(kept: Kept) -> Facts | None:
    """Return what the certificates say; None where they cannot be used together."""
    try:
        authorities = x509.load_pem_x509_certificates(kept.bundle)
        certificate = x509.load_pem_x509_certificate(kept.certificate)
        fits = _is_key_of(kept.authority_key, authorities[0]) and _is_key_of(kept.key, certificate)
        signers = [one for one in authorities if _has_signed(one, certificate)]
        hosts = _hosts(certificate)
    except (ValueError, TypeError, x509.ExtensionNotFound, exceptions.UnsupportedAlgorithm):
        return None
    if not fits or not signers:
        return None
    return Facts(
        authority=_period(authorities[0]),
        certificate=_period(certificate),
        by_newest=signers[0] is authorities[0],
        hosts=hosts,
    )


def periods(bundle: bytes) -> tuple[Period, ...]:
    """Return how long each certificate of a PEM bundle is valid; none if it is unreadable."""
    try:
        return tuple(_period(one) for one in x509.load_pem_x509_certificates(bundle))
    except ValueError:
        return ()


def still_valid(bundle: bytes, now: datetime.datetime) -> bytes:
    """Return the newest authorities of a bundle that have not ended; none if it is unreadable."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return b""
    kept = [one for one in found if now < one.not_valid_after_utc][:MOST_EARLIER]
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in kept)


def _is_key_of(key_pem: bytes, certificate: x509.Certificate) -> bool:
    key = serialization.load_pem_private_key(key_pem, password=None)
    ours = isinstance(key, ec.EllipticCurvePrivateKey)  # what webhook.issue makes
    return ours and key.public_key() == certificate.public_key()


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, exceptions.InvalidSignature):
        return False
    return True


def _hosts(certificate: x509.Certificate) -> frozenset[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset(names.get_values_for_type(x509.DNSName)) | {
        str(ipaddress.ip_address(str(address))) for address in addresses
    }


def _period(certificate: x509.Certificate) -> Period:
    return Period(since=certificate.not_valid_before_utc, until=certificate.not_valid_after_utc)
