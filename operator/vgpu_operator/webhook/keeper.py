"""Performs the rounds of ``flows.keep_certificate`` and shows the certificate that is kept.

Every replica reads the Secret and loads what it finds; new connections get it, open ones
keep theirs. The leader also renews it and tells the API servers whom to trust.
"""

import asyncio
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from vgpu_operator.flows import keep_certificate as flow
from vgpu_operator.kube import client as kube_client
from vgpu_operator.kube import clock, errors, paths, perform
from vgpu_operator.model import errors as model_errors
from vgpu_operator.webhook import certificates, issue
from vgpu_operator.wire import kept_certificate

INTERVAL_S: Final = 10.0
"""Between two rounds: a replica shows a new certificate so long after the leader has made it."""

EAGER_S: Final = 1.0
"""The same while there is no certificate yet, or when a round has failed."""

_log = structlog.get_logger(__name__)


class Keeper:
    """Keeps one certificate.

    Args:
        kube: where Secret and webhook are.
        time: where "now" comes from.
        secret: namespace and name of the Secret, which must exist.
        configuration: name of the MutatingWebhookConfiguration.
        hosts: names that callers use.
        leads: whether this replica may write.
        told: told until when the certificate that is shown is valid.
        lifetimes: of an authority and of a certificate.
    """

    def __init__(
        self,
        kube: kube_client.KubeClient,
        time: clock.Clock,
        *,
        secret: tuple[str, str],
        configuration: str,
        hosts: Sequence[str],
        leads: Callable[[], bool],
        told: certificates.Told = certificates.tell_nobody,
        lifetimes: tuple[datetime.timedelta, datetime.timedelta] = (
            issue.AUTHORITY_LIFETIME,
            issue.CERTIFICATE_LIFETIME,
        ),
    ) -> None:
        self._client = kube
        self._clock = time
        self._secret = secret
        self._configuration = configuration
        self._hosts = tuple(hosts)
        self._leads = leads
        self._told = told
        self._lifetimes = lifetimes
        self._shown = b""
        self._webhooks: kube_client.Json = {}
        self._complaint = ""
        self._untold = ""
        self.context = certificates.server_context()

    @property
    def not_ready_because(self) -> str:
        """Why no caller can be answered yet; empty when there is a certificate."""
        if self._shown:
            return ""
        return self._complaint or "the webhook has no certificate yet; the leader makes one"

    async def run(self) -> None:
        """Do rounds until cancelled."""
        while True:
            done = await self.round()
            await asyncio.sleep(INTERVAL_S if done and self._shown else EAGER_S)

    async def round(self) -> bool:
        """Do one round; return whether it came to its end. A fault is logged once."""
        try:
            kept = await perform.drive(
                flow.keep(hosts=self._hosts, now=self._clock.now(), leads=self._leads()),
                self._perform,
            )
            if kept.certificate:
                self._show(kept)
        except errors.Conflict:
            return False  # somebody else was faster: read again
        except (errors.ApiError, model_errors.SettingsError) as fault:
            self._complain(f"the webhook's certificate cannot be kept: {fault}")
            return False
        self._complain(self._untold)
        return True

    async def _perform(self, effect: flow.Effect) -> Any:
        match effect:
            case flow.ReadSecret():
                return await self._read_secret()
            case flow.WriteSecret(kept=kept):
                return await self._write_secret(kept)
            case flow.ReadTrust():
                return await self._read_trust()
            case flow.WriteTrust(bundle=bundle):
                return await self._write_trust(bundle)
            case flow.MakeAuthority():
                return issue.authority(self._clock.now(), lifetime=self._lifetimes[0])
            case flow.MakeCertificate(bundle=bundle, authority_key=key):
                return issue.certificate(
                    bundle, key, self._hosts, self._clock.now(), lifetime=self._lifetimes[1]
                )

    async def _read_secret(self) -> kept_certificate.Kept:
        kept = kept_certificate.decode_secret(await self._client.get(paths.secret(*self._secret)))
        if flow.can_be_shown(kept, self._clock.now()):
            self._show(kept)  # a fault of what follows must not keep it from callers
        return kept

    async def _write_secret(self, kept: kept_certificate.Kept) -> str:
        self._require_leading()
        body = {
            "metadata": {"resourceVersion": kept.resource_version},
            "data": kept_certificate.encode_data(kept),
        }
        answer = await self._client.patch(paths.secret(*self._secret), body)
        _log.info("webhook certificate renewed", secret="/".join(self._secret))
        return str(answer["metadata"]["resourceVersion"])

    async def _read_trust(self) -> frozenset[bytes]:
        self._untold = ""
        try:
            self._webhooks = await self._client.get(paths.mutating_webhook(self._configuration))
        except errors.NotFound as fault:
            self._untold = f"no API server can be told the webhook's authority: {fault}"
            return frozenset()
        return frozenset(
            kept_certificate.decoded(hook.get("clientConfig", {}).get("caBundle", ""))
            for hook in self._webhooks.get("webhooks") or ()
        )

    async def _write_trust(self, bundle: bytes) -> None:
        self._require_leading()
        text = kept_certificate.encode(bundle)
        hooks = [
            {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": text}}
            for hook in self._webhooks.get("webhooks") or ()
        ]
        version = self._webhooks["metadata"]["resourceVersion"]
        await self._client.patch(
            paths.mutating_webhook(self._configuration),
            {"metadata": {"resourceVersion": version}, "webhooks": hooks},
        )
        _log.info("webhook's caBundle set to our authority", webhook=self._configuration)

    def _require_leading(self) -> None:
        if not self._leads():
            raise errors.Conflict("this replica no longer leads, so it writes nothing")

    def _show(self, kept: kept_certificate.Kept) -> None:
        if kept.certificate == self._shown:
            return
        shown = f"Secret {'/'.join(self._secret)}"
        # Tried elsewhere first: a pair that does not fit would spoil the one in use.
        for context in (certificates.server_context(), self.context):
            certificates.load(context, kept.certificate, kept.key, shown=shown)
        self._shown = kept.certificate
        certificates.tell(self._told, kept.certificate)
        _log.info("webhook certificate loaded", secret="/".join(self._secret))

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            _log.warning(complaint)
        self._complaint = complaint
