"""The object that tells the API server which pods to send."""

import pytest

from vgpu_operator.webhook import configuration


def test_case_125_new_pods_are_sent_and_nothing_breaks_while_no_replica_answers() -> None:
    service = configuration.service(namespace="vgpu", name="vgpu-operator")

    built = configuration.webhook_configuration(service=service, ca_bundle="Q0E=")

    assert built == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "vgpu-operator"},
        "webhooks": [
            {
                "name": "pods.vgpu-operator.io",
                "clientConfig": {
                    "service": {
                        "namespace": "vgpu",
                        "name": "vgpu-operator",
                        "path": "/webhook",
                        "port": 443,
                    },
                    "caBundle": "Q0E=",
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "objectSelector": {
                    "matchExpressions": [
                        {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
                    ]
                },
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]},
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["kube-system", "vgpu"],
                        },
                    ]
                },
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "reinvocationPolicy": "Never",
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }
        ],
    }


def test_outside_a_cluster_the_server_is_named_by_url() -> None:
    built = configuration.webhook_configuration(
        url="https://127.0.0.1:9443/webhook", ca_bundle="Q0E=", failure_policy="Fail", timeout_s=3
    )

    (webhook,) = built["webhooks"]
    assert webhook["clientConfig"] == {
        "url": "https://127.0.0.1:9443/webhook",
        "caBundle": "Q0E=",
    }
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Fail", 3)
    assert webhook["namespaceSelector"]["matchExpressions"][1]["values"] == ["kube-system"]


def test_url_and_service_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        configuration.webhook_configuration(ca_bundle="Q0E=")
