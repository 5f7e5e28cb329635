"""What the chart's accounts may do, what they did, and what the API server refused them.

Loaded as a plugin: ``pytest_plugins = ["support.rights_used"]``. Rights are read from the
API server's own roles after each ``helm install``, requests from its audit log when a
control plane ends. Over a whole run both are added up: a right that nobody has used is one
that the chart should not give.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from support import chart_cluster
from support.helm import NAMESPACE, ROOT
from vgpu_operator.cli.cluster import audit
from vgpu_operator.kube import client

OPERATOR: Final = chart_cluster.user(chart_cluster.SCHEDULER)
ACCOUNTS: Final = (OPERATOR, chart_cluster.user(chart_cluster.CLEANUP))
"""Whose rules must all be used: the operator's, and those of the hook that cleans up."""

SYSTEM_ROLES: Final[Mapping[str, str]] = {
    "system:kube-scheduler": "what Kubernetes gives every kube-scheduler",
    "system:volume-scheduler": "and one that places pods with volumes",
    "extension-apiserver-authentication-reader": "how kube-scheduler knows who asks it",
}
"""Roles of Kubernetes that the account has for the kube-scheduler beside the operator.

Their rules are not ours to argue, so they need not be used. Nor do they count for the
operator: what it asks for must be covered by its own rules.
"""

FOR_SCHEDULER: Final = ("coordination.k8s.io", "leases")
"""Group and resource of the rule that is there for the kube-scheduler beside the operator."""

DELIBERATE: Final[Mapping[str, str]] = {
    "test_a_right_that_is_taken_away_is_seen_as_a_refused_request": "it takes that right away",
}
"""Tests in which the API server refuses requests on purpose, and why; they say so themselves."""

RESTARTS: Final = (
    "support.replicas",
    "test_an_api_server_that_goes_away_later_costs_readiness_and_nothing_known",
)
"""Where the API server is killed: until a new one has read its roles, it refuses what they
allow. There a refused request counts only where no rule allows it."""

LAST_TEST: Final = "test_every_rule_of_the_chart_is_used_by_the_suite"
"""Runs after all others, wherever it stands."""

_FOLDER: Final = ROOT / "tests" / "apiserver"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Right:
    """One verb on one resource; without a namespace in all, without a name on all."""

    account: str
    group: str
    resource: str
    verb: str
    namespace: str
    name: str

    def covers(self, asked: audit.AuditedRequest) -> bool:
        """Whether it allows that request."""
        resource = "/".join(filter(None, (asked.resource, asked.subresource)))
        return (
            (self.account, self.group, self.resource) == (asked.user, asked.group, resource)
            and self.verb == asked.verb
            and self.namespace in ("", asked.namespace)
            and self.name in ("", asked.name)
        )

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.account.rpartition(':')[2]}: {self.verb} {self.resource}{group}{name}{where}"


@dataclass(slots=True, kw_only=True)
class Seen:
    """The rights that were given, and what was asked for."""

    granted: set[Right] = field(default_factory=set)
    asked: set[audit.AuditedRequest] = field(default_factory=set)

    def add(self, granted: Collection[Right], requests: Iterable[audit.AuditedRequest]) -> None:
        """Count what one control plane has given and seen."""
        self.granted.update(granted)
        allowed = (one for one in requests if one.code != 403 and not _by_system_roles(one))
        self.asked.update(replace(one, user_agent="", uri="", code=0) for one in allowed)

    @property
    def unused(self) -> list[str]:
        """Return the rights that no request has needed."""
        return [
            str(right) for right in sorted(self.granted) if not any(map(right.covers, self.asked))
        ]


def _by_system_roles(one: audit.AuditedRequest) -> bool:
    """Whether kube-scheduler has asked for what Kubernetes lets every one of them ask for."""
    return _is_scheduler(one) and (one.group, one.resource) != FOR_SCHEDULER


def _is_scheduler(one: audit.AuditedRequest) -> bool:
    """Whether the kube-scheduler beside the operator has asked; both have one account."""
    return one.user_agent.startswith("kube-scheduler/")


RUN: Final = Seen()
"""Everything of this run of pytest."""


class Observer:
    """Looks at one control plane, from ``helm install`` to its end."""

    def __init__(self, kube: client.KubeClient, audit_log: Path, *, restarted_in: str = "") -> None:
        """Begin.

        Args:
            kube: may do everything.
            audit_log: the API server's.
            restarted_in: one of ``RESTARTS``; empty where the API server stays.
        """
        assert restarted_in in ("", *RESTARTS)
        self._kube = kube
        self._audit_log = audit_log
        self._restarts = bool(restarted_in)
        self._granted: set[Right] = set()

    async def note_rights(self) -> None:
        """Note what the accounts may do now; called after every change of the release."""
        self._granted |= {right async for right in _granted(self._kube)}

    def requests(self) -> list[audit.AuditedRequest]:
        """Return what the accounts have asked for so far."""
        return [one for one in audit.read_requests(self._audit_log) if one.user in ACCOUNTS]

    def note_use(self) -> None:
        """Count what was used for the whole run."""
        RUN.add(self._granted, self.requests())

    def complaints(self) -> list[str]:
        """Return the refused requests, and those of ours that no rule of ours allows.

        The second needs the rights: where nobody has noted them, only the first are told.
        """
        found = []
        for one in self.requests():
            said = f"{one.user} ({one.user_agent}): {one.verb} {one.uri}"
            # What is no resource, such as /version, Kubernetes shows to everybody.
            covered = not one.resource or any(right.covers(one) for right in self._granted)
            ours = not _is_scheduler(one)
            if one.code == 403:
                if not (covered and self._restarts):
                    found.append(f"{said}: refused")
            elif ours and self._granted and not covered:
                found.append(f"{said}: no rule of the operator's own allows it")
        return found

    def judge(self, refused_in: str = "") -> None:
        """Fail for every complaint.

        Args:
            refused_in: a test that is there to make complaints, one of ``DELIBERATE``.
        """
        found = self.complaints()
        if refused_in:
            assert found, f"{DELIBERATE[refused_in]}, says {refused_in}, but nothing was refused"
        else:
            assert not found, "\n".join(found)


async def _granted(kube: client.KubeClient) -> AsyncIterator[Right]:
    """Yield every right of the accounts that follows from bindings to the chart's own roles."""
    listed = {
        kind: (await kube.list(chart_cluster.PATHS[kind].replace("/namespaces/{}", "")))[0]
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    }
    rules = {
        (kind, one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["rules"] or ()
        for kind in ("Role", "ClusterRole")
        for one in listed[kind]
    }
    for binding in (*listed["RoleBinding"], *listed["ClusterRoleBinding"]):
        role = binding["roleRef"]
        namespace = binding["metadata"].get("namespace", "")
        accounts = {chart_cluster.user(one["name"]) for one in _of_the_chart(binding)}
        if role["name"] in SYSTEM_ROLES:
            continue
        for account in accounts.intersection(ACCOUNTS):
            where = namespace if role["kind"] == "Role" else ""
            for rule in rules[role["kind"], where, role["name"]]:
                for right in _rights(rule, account=account, namespace=namespace):
                    yield right


def _of_the_chart(binding: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the ServiceAccounts of the release among a binding's subjects."""
    for one in binding.get("subjects") or ():
        if one["kind"] == "ServiceAccount" and one["namespace"] == NAMESPACE:
            yield one


def _rights(rule: Mapping[str, Any], *, account: str, namespace: str) -> Iterator[Right]:
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Right(
                        account=account,
                        group=group,
                        resource=resource,
                        verb=verb,
                        namespace=namespace,
                        name=name,
                    )


# Whether the whole suite runs.

_DESELECTED = pytest.StashKey[int]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the one that looks back at the end."""
    items.sort(key=lambda item: item.name == LAST_TEST)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        stash = items[0].config.stash
        stash[_DESELECTED] = stash.get(_DESELECTED, 0) + len(items)


def why_not_all(session: pytest.Session) -> str:
    """Return why this run cannot tell which rights are needed; empty when it can."""
    collected = {item.path for item in session.items}
    missing = sorted(file.name for file in _FOLDER.glob("test_*.py") if file not in collected)
    if missing:
        return (
            f"only a part of the suite runs: {missing[0]} and {len(missing) - 1} more are left out"
        )
    deselected = session.config.stash.get(_DESELECTED, 0)
    if deselected or any("::" in argument for argument in session.config.args):
        return "only a part of the suite runs: some tests of its files are left out"
    if session.testsfailed:
        return "some tests have failed, and what they would have used is not known"
    if not RUN.granted:
        return "no operator has run: there is no local control plane or no Helm here"
    return ""
