"""Rights are compared with requests: what covers what, and what is left over."""

import dataclasses

import pytest

from support import rights_used
from vgpu_operator.cli.cluster import audit

OPERATOR, CLEANUP = rights_used.ACCOUNTS


def right(
    verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = ""
) -> rights_used.Right:
    return rights_used.Right(
        account=OPERATOR, group=group, resource=resource, verb=verb, namespace=namespace, name=name
    )


def request(
    verb: str, resource: str, *, subresource: str = "", **others: str
) -> audit.AuditedRequest:
    known = {"user": OPERATOR, "group": "", "namespace": "ns", "name": "one"}
    return audit.AuditedRequest(
        user_agent="vgpu-operator",
        verb=verb,
        resource=resource,
        subresource=subresource,
        uri="/",
        code=200,
        **(known | others),
    )


READ_SECRET = right("get", "secrets", namespace="ns", name="one")


@pytest.mark.parametrize(
    ("given", "asked", "covered"),
    [
        pytest.param(right("get", "pods"), request("get", "pods"), True, id="the same"),
        pytest.param(right("get", "pods"), request("list", "pods"), False, id="another verb"),
        pytest.param(right("get", "pods"), request("get", "nodes"), False, id="another resource"),
        pytest.param(
            right("create", "pods"),
            request("create", "pods", subresource="binding"),
            False,
            id="a part of the resource",
        ),
        pytest.param(
            right("create", "pods/binding"),
            request("create", "pods", subresource="binding"),
            True,
            id="that part",
        ),
        pytest.param(
            right("get", "leases"),
            request("get", "leases", group="coordination.k8s.io"),
            False,
            id="another group",
        ),
        pytest.param(READ_SECRET, request("get", "secrets"), True, id="the one that is named"),
        pytest.param(READ_SECRET, request("get", "secrets", name="two"), False, id="another name"),
        pytest.param(
            READ_SECRET, request("get", "secrets", namespace="x"), False, id="another namespace"
        ),
        pytest.param(
            right("get", "pods"), request("get", "pods", user=CLEANUP), False, id="another account"
        ),
    ],
)
def test_a_right_covers(
    given: rights_used.Right, asked: audit.AuditedRequest, covered: bool
) -> None:
    assert given.covers(asked) is covered


def test_a_right_that_no_request_needs_is_left_over_in_words() -> None:
    seen = rights_used.Seen()
    seen.add({right("get", "pods"), READ_SECRET}, [request("get", "pods")])

    assert seen.unused == ["vgpu-vgpu-operator-scheduler: get secrets one in ns"]


def test_a_refused_request_uses_no_right() -> None:
    seen = rights_used.Seen()
    seen.add({right("get", "pods")}, [dataclasses.replace(request("get", "pods"), code=403)])

    assert seen.unused == ["vgpu-vgpu-operator-scheduler: get pods"]


def test_what_kube_scheduler_asks_uses_only_the_rule_that_is_there_for_it() -> None:
    lease = {"group": "coordination.k8s.io", "namespace": "ns", "name": "one"}
    asked = [request("list", "nodes"), request("update", "leases", **lease)]
    of_scheduler = [dataclasses.replace(one, user_agent="kube-scheduler/v1.36.0") for one in asked]
    seen = rights_used.Seen()
    seen.add({right("list", "nodes"), right("update", "leases", **lease)}, of_scheduler)

    assert seen.unused == ["vgpu-vgpu-operator-scheduler: list nodes"]


def test_what_one_control_plane_grants_another_may_use() -> None:
    seen = rights_used.Seen()
    seen.add({right("get", "pods")}, [])
    seen.add(set(), [request("get", "pods")])

    assert seen.unused == []
