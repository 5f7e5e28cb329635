"""The state page in the chart: in the pod by default, a port with a certificate, or off."""

from typing import Any

import pytest

from support.helm import Helm, one


def arguments(objects: list[dict[str, Any]]) -> list[str]:
    (operator,) = [
        container
        for container in deployment(objects)["containers"]
        if container["name"] == "vgpu-operator"
    ]
    return [argument for argument in operator["args"] if argument.startswith("--state")]


def deployment(objects: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = one(objects, "Deployment", "-scheduler")["spec"]["template"]["spec"]
    return spec


def ports(objects: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return which ports container, Service and NetworkPolicy name."""
    service = one(objects, "Service", "-scheduler")["spec"]["ports"]
    policy = one(objects, "NetworkPolicy")["spec"]["ingress"]
    return {
        "container": [
            port["name"]
            for container in deployment(objects)["containers"]
            for port in container.get("ports", ())
        ],
        "service": [port["targetPort"] for port in service],
        "policy": [port["port"] for rule in policy for port in rule["ports"]],
    }


@pytest.mark.parametrize("address", ["127.0.0.1:9396", "127.0.0.2:1", "localhost:9396", "[::1]:9"])
def test_on_loopback_it_is_no_port_of_anything(helm: Helm, address: str) -> None:
    values = {"state": {"bindAddress": address}, "networkPolicy": {"enabled": True}}

    objects = helm.template(values)

    assert arguments(objects) == [f"--state-bind={address}", "--state-access=open"]
    assert all("state" not in names for names in ports(objects).values())


@pytest.mark.parametrize("address", [":9396", "0.0.0.0:9396", "127.example.org:9396"])
def test_beyond_loopback_it_is_a_port_of_pod_service_and_policy(helm: Helm, address: str) -> None:
    peer = {"namespaceSelector": {}}
    objects = helm.template(
        {
            "state": {"bindAddress": address},
            "networkPolicy": {"enabled": True, "stateFrom": [peer]},
        }
    )

    assert arguments(objects) == [f"--state-bind={address}", "--state-access=open"]
    assert all("state" in names for names in ports(objects).values())
    (rule,) = [
        rule
        for rule in one(objects, "NetworkPolicy")["spec"]["ingress"]
        if rule["ports"][0]["port"] == "state"
    ]
    assert rule["from"] == [peer]


def test_it_can_be_switched_off(helm: Helm) -> None:
    assert arguments(helm.template({"state": {"enabled": False}})) == ["--state-bind="]


def test_a_service_that_is_open_on_the_nodes_does_not_open_the_page_there(helm: Helm) -> None:
    values = {"state": {"bindAddress": ":9396"}, "scheduler": {"service": {"type": "NodePort"}}}
    objects = helm.template(values)

    service = one(objects, "Service", "-scheduler")["spec"]["ports"]

    assert [port["name"] for port in service] == ["http", "monitor"]


def test_no_address_at_all_is_the_usual_one(helm: Helm) -> None:
    arguments_of = arguments(helm.template({"state": {"bindAddress": None}}))

    assert arguments_of == ["--state-bind=127.0.0.1:9396", "--state-access=open"]


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("9396", "bindAddress"),
        ("", "bindAddress"),
        (":0", "bindAddress"),
        ("127.0.0.1:http", "bindAddress"),
        (":9443", "port 9443 is in use in the pod"),
        ("127.0.0.1:9395", "port 9395 is in use in the pod"),
        ("127.0.0.1:8080", "port 8080 is in use in the pod"),
        (":443", "port 443 is the Service's port of the webhook"),
    ],
)
def test_an_address_at_which_nothing_could_listen_is_not_installed(
    helm: Helm, address: str, complaint: str
) -> None:
    assert complaint in helm.refusal({"state": {"bindAddress": address}})


def test_beyond_loopback_without_a_certificate_nothing_is_installed(helm: Helm) -> None:
    said = helm.refusal(
        {
            "state": {"bindAddress": ":9396"},
            "scheduler": {"admissionWebhook": {"enabled": False}},
        }
    )

    assert "the state page shows the webhook's certificate there" in said
