"""Replicas share one certificate: who writes, who waits, and what is said of faults."""

import asyncio
import dataclasses
import datetime
import ssl
from datetime import timedelta
from typing import Any

import structlog

from vgpu_operator.kube import clock, errors
from vgpu_operator.webhook import certificates, issue, keeper
from vgpu_operator.wire import kept_certificate

KEPT_AT = "/api/v1/namespaces/ns/secrets/tls"
HOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hook"


class Api:
    """Objects by path; a patch is held to the version that it names."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            KEPT_AT: {"metadata": {"resourceVersion": "1"}},
            HOOK: {
                "metadata": {"resourceVersion": "1"},
                "webhooks": [{"name": "a", "clientConfig": {"url": "https://x"}}],
            },
        }
        self.patched: list[str] = []
        self.unreadable = ""
        self.before_patch: Any = lambda: None

    async def get(self, path: str) -> dict[str, Any]:
        if path == self.unreadable:
            raise errors.Denied(f"GET {path}: 403 forbidden", status=403)
        if path not in self.objects:
            raise errors.NotFound(f"GET {path}: 404 not found", status=404)
        return self.objects[path]

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before_patch()
        known = self.objects[path]["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != known:
            raise errors.Conflict(f"PATCH {path}: 409", status=409)
        self.patched.append(path)
        version = str(int(known) + 1)
        self.objects[path] = {
            **self.objects[path],
            **body,
            "metadata": {"resourceVersion": version},
        }
        return self.objects[path]


def replica(
    api: Api, *, leads: bool, told: certificates.Told = certificates.tell_nobody
) -> keeper.Keeper:
    return keeper.Keeper(
        api,  # type: ignore[arg-type]
        clock.SystemClock(),  # what is shown is checked by TLS, which knows no other
        secret=("ns", "tls"),
        configuration="hook",
        hosts=["vgpu.ns.svc"],
        leads=lambda: leads,
        told=told,
    )


async def test_one_leader_makes_it_and_every_replica_shows_it() -> None:
    api = Api()
    leader, follower = replica(api, leads=True), replica(api, leads=False)

    assert await follower.round()
    assert follower.not_ready_because == "the webhook has no certificate yet; the leader makes one"
    assert await leader.round()
    assert await follower.round()

    assert leader.not_ready_because == follower.not_ready_because == ""
    kept = kept_certificate.decode_secret(api.objects[KEPT_AT])
    (hook,) = api.objects[HOOK]["webhooks"]
    assert kept_certificate.decoded(hook["clientConfig"]["caBundle"]) == kept.bundle
    assert hook["clientConfig"]["url"] == "https://x"
    for each in (leader, follower):
        assert await shown(each.context, kept.bundle) == kept.certificate


async def shown(context: ssl.SSLContext, bundle: bytes) -> bytes:
    """Return the certificate that a caller who trusts the bundle is shown."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cadata=bundle.decode())
    async with server:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting, server_hostname="vgpu.ns.svc"
        )
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
    return ssl.DER_cert_to_PEM_cert(der).encode()


async def test_a_replica_whose_term_ends_meanwhile_writes_nothing() -> None:
    api = Api()
    answers = iter([True, False, False])
    follower = replica(api, leads=False)
    follower._leads = lambda: next(answers)

    assert not await follower.round()

    assert api.patched == []


async def test_of_two_that_believe_they_lead_one_writes_and_the_other_takes_it_over() -> None:
    api = Api()
    first, second = replica(api, leads=True), replica(api, leads=True)

    def somebody_was_faster() -> None:
        api.before_patch = lambda: None
        api.objects[KEPT_AT]["metadata"] = {"resourceVersion": "9"}

    api.before_patch = somebody_was_faster
    assert not await first.round(), "it reads again"
    assert await first.round()
    assert await second.round()
    assert api.patched == [KEPT_AT, HOOK]


async def test_a_secret_that_is_missing_is_said_once_and_keeps_the_replica_unready() -> None:
    api = Api()
    del api.objects[KEPT_AT]
    alone = replica(api, leads=True)

    with structlog.testing.capture_logs() as logs:
        assert not await alone.round()
        assert not await alone.round()

    assert len([entry for entry in logs if "cannot be kept" in entry["event"]]) == 1
    assert KEPT_AT in alone.not_ready_because


async def test_a_leader_without_a_webhook_to_tell_says_so_once_and_is_ready() -> None:
    api = Api()
    del api.objects[HOOK]
    alone = replica(api, leads=True)

    with structlog.testing.capture_logs() as logs:
        assert await alone.round()
        assert await alone.round()

    assert len([entry for entry in logs if "no API server can be told" in entry["event"]]) == 1
    assert alone.not_ready_because == ""
    assert api.patched == [KEPT_AT]


async def test_a_leader_that_cannot_read_the_webhook_shows_what_is_kept() -> None:
    api = Api()
    await replica(api, leads=True).round()
    kept = kept_certificate.decode_secret(api.objects[KEPT_AT])
    api.unreadable = HOOK
    next_leader = replica(api, leads=True)

    assert not await next_leader.round()

    assert next_leader.not_ready_because == ""
    assert await shown(next_leader.context, kept.bundle) == kept.certificate


async def test_a_configuration_without_webhooks_is_left_alone() -> None:
    api = Api()
    api.objects[HOOK]["webhooks"] = []
    leader = replica(api, leads=True)

    for _ in range(3):
        assert await leader.round()

    assert api.patched == [KEPT_AT]


async def test_a_fault_later_leaves_the_replica_ready_with_what_it_has() -> None:
    api = Api()
    leader = replica(api, leads=True)
    await leader.round()
    del api.objects[KEPT_AT]

    assert not await leader.round()
    assert leader.not_ready_because == ""


async def test_a_pair_that_does_not_fit_is_not_shown() -> None:
    api = Api()
    leader, follower = replica(api, leads=True), replica(api, leads=False)
    await leader.round()
    await follower.round()
    good = api.objects[KEPT_AT]["data"]
    api.objects[KEPT_AT]["data"] = {**good, "tls.crt": good["ca.crt"]}

    assert not await follower.round()

    kept = kept_certificate.decoded(good["tls.crt"])
    assert await shown(follower.context, kept_certificate.decoded(good["ca.crt"])) == kept


async def test_it_is_told_until_when_the_shown_certificate_is_valid_and_again_after_a_renewal() -> (
    None
):
    api = Api()
    ends: list[datetime.datetime] = []
    leader = replica(api, leads=True, told=ends.append)
    begun = clock.SystemClock().now()

    await leader.round()
    await leader.round()
    (first,) = ends
    assert timedelta(days=89) < first - begun < timedelta(days=91)

    spent = kept_certificate.decode_secret(api.objects[KEPT_AT])
    pem, key = issue.certificate(
        spent.bundle, spent.authority_key, ["vgpu.ns.svc"], begun, lifetime=timedelta(minutes=10)
    )
    renewed = kept_certificate.encode_data(dataclasses.replace(spent, certificate=pem, key=key))
    api.objects[KEPT_AT]["data"] = renewed
    await leader.round()

    # What is kept is shown at once, and followed in the same round.
    assert len(ends) == 3
    assert ends[1] < begun + timedelta(minutes=11)
    assert ends[2] > begun + timedelta(days=89)
