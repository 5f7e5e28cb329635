"""Certificates of the TLS listeners: from files that may change, or made here."""

import contextlib
import datetime
import hashlib
import os
import pathlib
import ssl
import tempfile
from collections.abc import Callable, Sequence

from cryptography import x509

from vgpu_operator.kube import clock
from vgpu_operator.model import errors
from vgpu_operator.webhook import issue

Told = Callable[[datetime.datetime], None]
"""Told until when a certificate is valid, as soon as it is shown."""

LIFETIME = datetime.timedelta(days=3650)
"""A made certificate lives in memory only, so it ends with the process."""


def tell_nobody(_until: datetime.datetime) -> None:
    """Tell nobody."""


class CertificateFiles:
    """A server certificate in two files, read again when they change.

    New connections get the new certificate; open ones keep the old. Files that
    do not fit together (half-way through a rotation) change nothing.
    """

    def __init__(
        self, cert_path: pathlib.Path, key_path: pathlib.Path, *, told: Told = tell_nobody
    ) -> None:
        self._cert_path = cert_path
        self._key_path = key_path
        self._told = told
        self._digest = b""
        self.context = server_context()
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
        load(server_context(), cert_pem, key_pem, shown=f"{self._cert_path}, {self._key_path}")
        load(self.context, cert_pem, key_pem, shown=f"{self._cert_path}, {self._key_path}")
        self._digest = digest
        tell(self._told, cert_pem)
        return True


def context_from_pem(cert_pem: bytes, key_pem: bytes) -> ssl.SSLContext:
    """Return a server's TLS context (1.2 or newer) for a certificate in memory.

    Raises:
        SettingsError: certificate and key do not fit together.
    """
    context = server_context()
    load(context, cert_pem, key_pem, shown="the PEM texts given")
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
    now = (time_source or clock.SystemClock()).now()
    authority, authority_key = issue.authority(now, lifetime=LIFETIME)
    certificate, key = issue.certificate(authority, authority_key, hosts, now, lifetime=LIFETIME)
    return authority, certificate, key


def tell(told: Told, cert_pem: bytes) -> None:
    """Tell the end of the first certificate of a chain: the server's own."""
    # TLS may take one that this library does not: it is shown, its end is not known.
    with contextlib.suppress(ValueError):
        told(x509.load_pem_x509_certificates(cert_pem)[0].not_valid_after_utc)


def server_context() -> ssl.SSLContext:
    """Return a server's TLS context (1.2 or newer) without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes, *, shown: str) -> None:
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
