"""The messages of the admission protocol."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_operator.model import errors
from vgpu_operator.wire import admission

REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "p1",
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": "admin"},
        "object": {"metadata": {"name": "p1"}},
        "oldObject": None,
        "dryRun": True,
    },
}


def test_a_review_is_read() -> None:
    assert admission.decode_review(orjson.dumps(REVIEW)) == admission.AdmissionRequest(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        group="",
        kind="Pod",
        operation="CREATE",
        namespace="team-a",
        object={"metadata": {"name": "p1"}},
        dry_run=True,
    )


def test_a_deletion_has_no_object() -> None:
    asked = REVIEW["request"] | {"operation": "DELETE", "object": None}

    read = admission.decode_review(orjson.dumps(REVIEW | {"request": asked}))

    assert (read.operation, read.object) == ("DELETE", {})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty; send an AdmissionReview"),
        (b"not json", "the body is not JSON"),
        (b"[]", "the body must be a JSON object, not list"),
        (b"{}", "the body must be an AdmissionReview of admission.k8s.io/v1"),
        (
            orjson.dumps(REVIEW | {"apiVersion": "admission.k8s.io/v1beta1"}),
            "the body must be an AdmissionReview of admission.k8s.io/v1",
        ),
        (orjson.dumps(REVIEW | {"request": None}), "request is missing or no object"),
        (
            orjson.dumps(REVIEW | {"request": REVIEW["request"] | {"uid": 7}}),
            "request.uid is missing or no text",
        ),
        (
            orjson.dumps(REVIEW | {"request": REVIEW["request"] | {"kind": "Pod"}}),
            "request.kind is missing or no object",
        ),
        (
            orjson.dumps(REVIEW | {"request": REVIEW["request"] | {"object": []}}),
            "request.object is no object",
        ),
    ],
)
def test_a_body_that_is_no_review_is_told_why(body: bytes, message: str) -> None:
    with pytest.raises(errors.DecodeError) as caught:
        admission.decode_review(body)

    assert str(caught.value).startswith(f"/webhook: {message}")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_body_is_a_review_or_a_decode_error(body: bytes) -> None:
    with pytest.raises(errors.DecodeError):
        admission.decode_review(body)


def test_a_change_is_answered_as_a_patch_in_base64() -> None:
    operation = {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}

    body = admission.encode_response("u1", allowed=True, patch=[operation], warnings=["careful"])

    answer = orjson.loads(body)
    patch = answer["response"].pop("patch")
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "u1",
            "allowed": True,
            "patchType": "JSONPatch",
            "warnings": ["careful"],
        },
    }
    assert orjson.loads(base64.b64decode(patch)) == [operation]


def test_an_untouched_object_has_no_patch_at_all() -> None:
    body = admission.encode_response("u1", allowed=True, patch=[])

    assert orjson.loads(body)["response"] == {"uid": "u1", "allowed": True}


def test_a_refusal_carries_code_and_message() -> None:
    body = admission.encode_response("u1", allowed=False, message="because", code=403)

    assert orjson.loads(body)["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"code": 403, "message": "because"},
    }
