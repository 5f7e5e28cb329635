"""What stands between a request and the API server's store: webhooks and policies."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from vgpu_operator.wire import kept_certificate, shape

NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""Label that the API server puts on every namespace."""

_LIST: Final = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook of a MutatingWebhookConfiguration.

    Attributes:
        configuration: name of the object that it stands in.
        service: namespace and name of the Service in front of it; None where it is
            called at a URL.
        bundle: PEM of the authorities that callers trust.
        left_out: namespaces that it is not asked about, by name.
    """

    configuration: str
    name: str
    fails_closed: bool
    service: tuple[str, str] | None = None
    bundle: bytes = b""
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A ValidatingAdmissionPolicy with what its bindings do.

    Attributes:
        actions: of all its bindings (``Deny``, ``Warn``, ``Audit``).
        writers: users that it leaves alone.
    """

    name: str
    actions: frozenset[str]
    writers: frozenset[str] = frozenset()


def webhooks(raw: Mapping[str, Any]) -> Iterator[Webhook]:
    """Yield the webhooks of a MutatingWebhookConfiguration."""
    configuration = shape.text(shape.mapping(raw.get("metadata")).get("name"))
    for one in shape.mappings(raw.get("webhooks")):
        client = shape.mapping(one.get("clientConfig"))
        service = shape.mapping(client.get("service"))
        place = shape.text(service.get("namespace")), shape.text(service.get("name"))
        yield Webhook(
            configuration=configuration,
            name=shape.text(one.get("name")),
            fails_closed=one.get("failurePolicy") != "Ignore",
            service=place if service else None,
            bundle=kept_certificate.decoded(client.get("caBundle")),
            left_out=frozenset(_left_out(shape.mapping(one.get("namespaceSelector")))),
        )


def policy(raw: Mapping[str, Any], *, actions: frozenset[str]) -> Policy | None:
    """Read one that keeps the protocol's annotations; None for everybody else's.

    The chart's policy is known by its variable ``protocolKeys``; whom it leaves alone
    stands as a JSON list in the expression of its condition.
    """
    spec = shape.mapping(raw.get("spec"))
    if not any(one.get("name") == "protocolKeys" for one in shape.mappings(spec.get("variables"))):
        return None
    writers: set[str] = set()
    for condition in shape.mappings(spec.get("matchConditions")):
        for text in _LIST.findall(shape.text(condition.get("expression"))):
            writers |= set(_words(text))
    name = shape.text(shape.mapping(raw.get("metadata")).get("name"))
    return Policy(name=name, actions=actions, writers=frozenset(writers))


def binding_actions(raw: Mapping[str, Any]) -> tuple[str, frozenset[str]]:
    """Return the policy that a ValidatingAdmissionPolicyBinding is of, and what it does."""
    spec = shape.mapping(raw.get("spec"))
    actions = spec.get("validationActions")
    found = frozenset(map(shape.text, actions)) if isinstance(actions, list) else frozenset()
    return shape.text(spec.get("policyName")), found


def _words(text: str) -> Iterator[str]:
    """Yield the texts of a JSON list; nothing where it is another one of CEL's."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    yield from (word for word in found if isinstance(word, str))


def _left_out(selector: Mapping[str, Any]) -> Iterator[str]:
    for one in shape.mappings(selector.get("matchExpressions")):
        if one.get("key") == NAMESPACE_NAME_LABEL and one.get("operator") == "NotIn":
            values = one.get("values")
            yield from map(shape.text, values if isinstance(values, list) else ())
