"""Keeps the webhook's certificate in a Secret, and its authority in the webhook.

One round of the flow reads, and does at most one step of renewal; rounds come every few
seconds. Only the leader writes. An authority is followed by the next in two steps, so
that at any moment callers trust whatever certificate a replica still shows: first both
authorities are written where callers read them, then a certificate of the newer one is
made.
"""

import datetime
import enum
from collections.abc import Collection, Generator, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from vgpu_operator.wire import kept_certificate

SPENT: Final = 2 / 3
"""Part of a lifetime after which the next one is made: a third is left for trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSecret:
    """Read the Secret. Answer: what it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSecret:
    """Write the Secret if it has still that version. Answer: the new version."""

    kept: kept_certificate.Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrust:
    """Read whom API servers trust. Answer: a set of PEM; empty = there is nobody to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTrust:
    """Have API servers trust these authorities, as long as nothing else has changed."""

    bundle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeAuthority:
    """Make an authority. Answer: PEM of its certificate and of its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeCertificate:
    """Have the newest authority sign a certificate. Answer: its PEM, and its key's."""

    bundle: bytes
    authority_key: bytes = field(repr=False)


Effect = ReadSecret | WriteSecret | ReadTrust | WriteTrust | MakeAuthority | MakeCertificate


class Step(enum.Enum):
    """What is due."""

    NOTHING = enum.auto()
    EVERYTHING = enum.auto()
    AUTHORITY = enum.auto()
    CERTIFICATE = enum.auto()


def due(
    facts: kept_certificate.Facts | None,
    *,
    hosts: Collection[str],
    now: datetime.datetime,
    trusted: bool,
) -> Step:
    """Return the next step.

    Args:
        facts: what the Secret's certificates say; None = they are of no use.
        hosts: names that callers use.
        now: time of day.
        trusted: whether API servers know every authority of the Secret.
    """
    if facts is None or now >= facts.authority.until or now < facts.authority.since:
        return Step.EVERYTHING
    wrong = not set(hosts) <= facts.hosts or not _is_valid(facts.certificate, now)
    followed = not facts.by_newest and trusted
    if wrong or followed or _is_spent(facts.certificate, now):
        return Step.CERTIFICATE
    if facts.by_newest and _is_spent(facts.authority, now):
        return Step.AUTHORITY
    return Step.NOTHING


def can_be_shown(kept: kept_certificate.Kept, now: datetime.datetime) -> bool:
    """Whether this can be shown before anybody has looked whom API servers trust."""
    facts = kept_certificate.facts(kept)
    return facts is not None and _is_valid(facts.certificate, now)


def keep(
    *, hosts: Collection[str], now: datetime.datetime, leads: bool
) -> Generator[Effect, Any, kept_certificate.Kept]:
    """Do one round and return what is kept now: the certificate to be shown."""
    kept: kept_certificate.Kept = yield ReadSecret()
    if not leads:
        return kept
    trust: Set[bytes] = yield ReadTrust()
    trusted = trust <= {kept.bundle}
    step = due(kept_certificate.facts(kept), hosts=hosts, now=now, trusted=trusted)
    if step is not Step.NOTHING:
        kept = yield from _renewed(kept, step, now)
        version: str = yield WriteSecret(kept=kept)
        kept = replace(kept, resource_version=version)
    if not trust <= {kept.bundle}:
        yield WriteTrust(bundle=kept.bundle)
    return kept


def _renewed(
    kept: kept_certificate.Kept, step: Step, now: datetime.datetime
) -> Generator[Effect, Any, kept_certificate.Kept]:
    if step in (Step.EVERYTHING, Step.AUTHORITY):
        authority, authority_key = yield MakeAuthority()
        # Even where everything is made anew: other replicas still show what those have signed.
        earlier = kept_certificate.still_valid(kept.bundle, now)
        kept = replace(kept, bundle=authority + earlier, authority_key=authority_key)
    if step in (Step.EVERYTHING, Step.CERTIFICATE):
        certificate, key = yield MakeCertificate(
            bundle=kept.bundle, authority_key=kept.authority_key
        )
        kept = replace(kept, certificate=certificate, key=key)
    return kept


def _is_valid(period: kept_certificate.Period, now: datetime.datetime) -> bool:
    return period.since <= now < period.until


def _is_spent(period: kept_certificate.Period, now: datetime.datetime) -> bool:
    return now >= period.since + (period.until - period.since) * SPENT
