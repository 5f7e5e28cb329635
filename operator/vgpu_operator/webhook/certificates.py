"""Certificates of the TLS listeners: from files that may change, or made here."""

import datetime
import hashlib
import ipaddress
import os
import pathlib
import ssl
import tempfile
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vgpu_operator.kube import clock
from vgpu_operator.model import errors

LIFETIME = datetime.timedelta(days=3650)
"""A made certificate lives in memory only, so it ends with the process."""

CLOCK_SKEW = datetime.timedelta(hours=1)
"""How far the API server's clock may be behind ours."""


class CertificateFiles:
    """A server certificate in two files, read again when they change.

    New connections get the new certificate; open ones keep the old. Files that
    do not fit together (half-way through a rotation) change nothing.
    """

    def __init__(self, cert_path: pathlib.Path, key_path: pathlib.Path) -> None:
        self._cert_path = cert_path
        self._key_path = key_path
        self._digest = b""
        self.context = _server_context()
        self.reload()

    def reload(self) -> bool:
        """Take over the files if they changed; return whether they did.

        Raises:
            SettingsError: a file cannot be read, or the two do not fit
                together; the certificate in use stays.
        """
        try:
            cert_pem = self._cert_path.read_bytes()
            key_pem = self._key_path.read_bytes()
        except OSError as fault:
            raise errors.SettingsError(
                f"the webhook's certificate cannot be read: {fault}; "
                "check the paths and the rights of the files"
            ) from fault
        digest = hashlib.sha256(cert_pem + b"\0" + key_pem).digest()
        if digest == self._digest:
            return False
        _load(_server_context(), cert_pem, key_pem, shown=f"{self._cert_path}, {self._key_path}")
        _load(self.context, cert_pem, key_pem, shown=f"{self._cert_path}, {self._key_path}")
        self._digest = digest
        return True


def context_from_pem(cert_pem: bytes, key_pem: bytes) -> ssl.SSLContext:
    """Return a server's TLS context (1.2 or newer) for a certificate in memory.

    Raises:
        SettingsError: certificate and key do not fit together.
    """
    context = _server_context()
    _load(context, cert_pem, key_pem, shown="the PEM texts given")
    return context


def self_signed(
    hosts: Sequence[str], *, time_source: clock.Clock | None = None
) -> tuple[bytes, bytes, bytes]:
    """Make a certificate authority and a server certificate for ``hosts``.

    The authority's key is forgotten at once, so nothing else can be signed.

    Args:
        hosts: DNS names and IP addresses that callers use; at least one.
        time_source: where "now" comes from; the machine's clock by default.

    Returns:
        PEM of the authority, of the server's certificate, and of its key.
    """
    if not hosts:
        raise ValueError("a certificate needs at least one host name")
    start = (time_source or clock.SystemClock()).now() - CLOCK_SKEW
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("vgpu-operator CA")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), start)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(_subject_key_id(ca_key), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name("vgpu-operator"), ca_name, key.public_key(), start)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(hosts)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_pem = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ca.public_bytes(pem), certificate.public_bytes(pem), key_pem


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes, *, shown: str) -> None:
    """Load a pair into a context; ``ssl`` takes it from a file only."""
    handle, path = tempfile.mkstemp(prefix="vgpu-tls-")  # readable by its owner only
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key_pem + b"\n" + cert_pem)
        context.load_cert_chain(path)
    except (ssl.SSLError, ValueError) as fault:
        raise errors.SettingsError(
            f"the webhook's certificate and key do not fit together ({shown}): {fault}"
        ) from fault
    finally:
        pathlib.Path(path).unlink()


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
    )


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _subject_key_id(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
