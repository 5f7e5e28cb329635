"""Certificates: made here, or followed in files."""

import asyncio
import datetime
import ipaddress
import pathlib
import ssl
from collections.abc import Iterator

import pytest
from cryptography import x509

from vgpu_operator.model import errors, settings
from vgpu_operator.webhook import certificates, routes, server

NOON = datetime.datetime(2026, 1, 15, 12, 0, tzinfo=datetime.UTC)


class FixedClock:
    def now(self) -> datetime.datetime:
        return NOON


def test_a_made_certificate_names_its_hosts_and_is_signed_by_its_authority() -> None:
    ca_pem, cert_pem, _ = certificates.self_signed(
        ["webhook.vgpu.svc", "127.0.0.1"], time_source=FixedClock()
    )

    ca = x509.load_pem_x509_certificate(ca_pem)
    certificate = x509.load_pem_x509_certificate(cert_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["webhook.vgpu.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    certificate.verify_directly_issued_by(ca)
    assert certificate.not_valid_before_utc < NOON < certificate.not_valid_after_utc


def test_a_certificate_for_nobody_is_not_made() -> None:
    with pytest.raises(ValueError, match="at least one host"):
        certificates.self_signed([])


def test_the_listener_speaks_tls_1_2_or_newer() -> None:
    _, cert_pem, key_pem = certificates.self_signed(["localhost"])

    context = certificates.context_from_pem(cert_pem, key_pem)

    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_key_of_another_certificate_is_refused() -> None:
    _, cert_pem, _ = certificates.self_signed(["localhost"])
    _, _, other_key_pem = certificates.self_signed(["localhost"])

    with pytest.raises(errors.SettingsError, match="do not fit together"):
        certificates.context_from_pem(cert_pem, other_key_pem)


def write_pair(folder: pathlib.Path, cert_pem: bytes, key_pem: bytes) -> None:
    (folder / "tls.crt").write_bytes(cert_pem)
    (folder / "tls.key").write_bytes(key_pem)


def files_in(folder: pathlib.Path) -> certificates.CertificateFiles:
    return certificates.CertificateFiles(folder / "tls.crt", folder / "tls.key")


def test_missing_files_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match=r"cannot be read: .*tls\.crt"):
        files_in(tmp_path)


async def served_by(port: int, ca_pem: bytes) -> bool:
    """Whether a client that trusts only ``ca_pem`` accepts the listener."""
    trust = ssl.create_default_context(cadata=ca_pem.decode())
    try:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trust, server_hostname="localhost"
        )
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_a_changed_certificate_is_taken_over_without_a_restart(
    tmp_path: pathlib.Path,
) -> None:
    old_ca, *old = certificates.self_signed(["localhost"])
    new_ca, *new = certificates.self_signed(["localhost"])
    write_pair(tmp_path, old[0], old[1])
    ends: list[datetime.datetime] = []
    files = certificates.CertificateFiles(
        tmp_path / "tls.crt", tmp_path / "tls.key", told=ends.append
    )
    state = routes.WebhookState(settings=settings.Settings(), vendors=())
    running = await server.start(state, "127.0.0.1", 0, files)
    try:
        assert not files.reload()
        assert await served_by(running.port, old_ca)

        write_pair(tmp_path, new[0], old[1])
        with pytest.raises(errors.SettingsError, match="do not fit together"):
            files.reload()
        assert await served_by(running.port, old_ca)

        write_pair(tmp_path, new[0], new[1])
        assert files.reload()
        assert await served_by(running.port, new_ca)
        assert not await served_by(running.port, old_ca)
        shown = [x509.load_pem_x509_certificate(one[0]) for one in (old, new)]
        assert ends == [one.not_valid_after_utc for one in shown]
    finally:
        await running.stop()


async def test_following_goes_on_after_a_bad_pair() -> None:
    class Files:
        """Bad once, then good."""

        def __init__(self) -> None:
            self.answers: Iterator[Exception | bool] = iter(
                [errors.SettingsError("half-way"), True]
            )
            self.good = asyncio.Event()
            self.loop = asyncio.get_running_loop()

        def reload(self) -> bool:
            answer = next(self.answers, False)
            if isinstance(answer, Exception):
                raise answer
            if answer:
                self.loop.call_soon_threadsafe(self.good.set)
            return answer

    files = Files()
    task = asyncio.create_task(server.keep_current(files, interval_s=0))  # type: ignore[arg-type]

    await asyncio.wait_for(files.good.wait(), timeout=10)

    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
