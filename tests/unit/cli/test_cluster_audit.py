import json
from pathlib import Path

from vgpu_operator.cli.cluster import audit

BINDING = {
    "auditID": "a-1",
    "stage": "ResponseComplete",
    "verb": "create",
    "requestURI": "/api/v1/namespaces/team/pods/train-0/binding",
    "user": {"username": "system:kube-scheduler", "groups": ["system:masters"]},
    "userAgent": "kube-scheduler/v1.36.3",
    "objectRef": {
        "resource": "pods",
        "namespace": "team",
        "name": "train-0",
        "subresource": "binding",
    },
    "responseStatus": {"metadata": {}, "code": 201},
}
WATCH_BEGINS = {
    "auditID": "a-2",
    "stage": "ResponseStarted",
    "verb": "watch",
    "requestURI": "/api/v1/nodes?watch=true",
    "user": {"username": "vgpu-operator"},
    "userAgent": "python",
    "objectRef": {"resource": "nodes"},
    "responseStatus": {"code": 200},
}
WATCH_ENDS = WATCH_BEGINS | {"stage": "ResponseComplete"}


def write(path: Path, *events: object) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_request_is_read_with_user_object_and_answer(tmp_path: Path) -> None:
    log = write(tmp_path / "audit.jsonl", BINDING)

    assert list(audit.read_requests(log)) == [
        audit.AuditedRequest(
            user="system:kube-scheduler",
            user_agent="kube-scheduler/v1.36.3",
            verb="create",
            group="",
            resource="pods",
            subresource="binding",
            namespace="team",
            name="train-0",
            uri="/api/v1/namespaces/team/pods/train-0/binding",
            code=201,
        )
    ]


def test_watch_counts_once_though_it_is_noted_twice(tmp_path: Path) -> None:
    log = write(tmp_path / "audit.jsonl", WATCH_BEGINS, BINDING, WATCH_ENDS)

    assert [request.verb for request in audit.read_requests(log)] == ["watch", "create"]


def test_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    log = write(tmp_path / "audit.jsonl", BINDING)
    with log.open("a") as more:
        more.write(json.dumps(WATCH_BEGINS)[:40])

    assert [request.verb for request in audit.read_requests(log)] == ["create"]


def test_request_that_is_no_resource_and_got_no_answer_is_read(tmp_path: Path) -> None:
    event = {"auditID": "a-3", "verb": "get", "requestURI": "/readyz", "user": {}}

    (request,) = audit.read_requests(write(tmp_path / "audit.jsonl", event))

    assert (request.resource, request.code, request.uri) == ("", 0, "/readyz")


def test_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert list(audit.read_requests(tmp_path / "audit.jsonl")) == []
