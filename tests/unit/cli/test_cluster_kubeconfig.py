import base64
from typing import Any

import pytest
import yaml

from vgpu_operator.cli.cluster import certificates, kubeconfig
from vgpu_operator.cli.cluster.errors import ClusterError


def encoded() -> bytes:
    return kubeconfig.encode_kubeconfig(
        server_url="https://127.0.0.1:6443",
        ca_pem=b"authority",
        user="alice",
        credentials=certificates.KeyPair(certificate_pem=b"certificate", key_pem=b"key"),
    )


def test_kubeconfig_holds_its_certificates_itself() -> None:
    content: Any = yaml.safe_load(encoded())

    cluster = content["clusters"][0]["cluster"]
    user = content["users"][0]["user"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"authority"
    assert base64.b64decode(user["client-certificate-data"]) == b"certificate"
    assert base64.b64decode(user["client-key-data"]) == b"key"


def test_target_of_a_written_kubeconfig_is_its_server() -> None:
    target = kubeconfig.decode_target(encoded(), context=None, origin="here")

    assert target.server_url == "https://127.0.0.1:6443"


TWO_CONTEXTS = b"""
current-context: first
contexts:
- {name: first, context: {cluster: a, user: u}}
- {name: second, context: {cluster: b, user: u}}
clusters:
- {name: a, cluster: {server: "https://a"}}
- {name: b, cluster: {server: "https://b"}}
"""


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param(None, kubeconfig.Target("first", "https://a"), id="the current one"),
        pytest.param("second", kubeconfig.Target("second", "https://b"), id="the one asked for"),
    ],
)
def test_target_is_found_by_context(context: str | None, expected: kubeconfig.Target) -> None:
    assert kubeconfig.decode_target(TWO_CONTEXTS, context=context, origin="here") == expected


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        pytest.param(
            TWO_CONTEXTS,
            "third",
            "here has no context 'third' (it has: first, second); choose one with --context",
            id="an unknown context",
        ),
        pytest.param(
            b"contexts: []", None, "here names no current context", id="no current context"
        ),
        pytest.param(b"[1, 2]", None, "here cannot be read as a kubeconfig", id="a list"),
        pytest.param(b"", None, "here cannot be read as a kubeconfig", id="an empty file"),
        pytest.param(b"{", None, "here cannot be read as a kubeconfig", id="no YAML"),
        pytest.param(
            b"{current-context: a, contexts: [{name: a, context: {cluster: gone}}]}",
            None,
            "here cannot be read as a kubeconfig",
            id="a cluster that is missing",
        ),
    ],
)
def test_unusable_kubeconfig_is_told_in_one_line(
    text: bytes, context: str | None, message: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        kubeconfig.decode_target(text, context=context, origin="here")

    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
