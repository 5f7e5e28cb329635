"""The admission policy guards what the protocol's programs write, and not what people choose by."""

from typing import Any

import yaml

from support.helm import CHART, NAMESPACE, Helm, one
from vgpu_operator.flows import admit
from vgpu_operator.model import settings
from vgpu_operator.vendors import registry

KEYS: dict[str, list[str]] = yaml.safe_load((CHART / "files" / "protocol-keys.yaml").read_text())
SPECS = [vendor.spec for vendor in registry.build(settings.with_every_vendor(settings.Settings()))]


def writers(objects: list[dict[str, Any]]) -> str:
    policy = one(objects, "ValidatingAdmissionPolicy")["spec"]
    text: str = policy["matchConditions"][0]["expression"]
    return text


def test_every_annotation_that_the_webhook_takes_off_new_pods_is_guarded() -> None:
    taken_off = {*admit.PROTOCOL_ANNOTATIONS, *(key for spec in SPECS for key in spec.pod_keys)}

    assert taken_off <= set(KEYS["pods"])


def test_every_register_handshake_and_lock_is_guarded() -> None:
    on_nodes = {
        key for spec in SPECS for key in (spec.register_key, spec.handshake_key, spec.lock_key)
    }

    assert on_nodes - {None} <= set(KEYS["nodes"])
    assert {"hami.io/mutex.lock", "4pd.io/mutex.lock", "vgpu-operator.io/wake"} <= set(
        KEYS["nodes"]
    )


def test_annotations_by_which_people_choose_are_free() -> None:
    chosen_by = {key for spec in SPECS for key in spec.selection_keys if key} | {
        *("hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"),
        *("hami.io/device-scoring-weights", "hami.io/device-cordon", "hami.io/webhook"),
        *("nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gputype"),
    }

    assert chosen_by & {*KEYS["pods"], *KEYS["nodes"]} == set()


def test_the_charts_own_programs_and_those_that_are_named_may_write(helm: Helm) -> None:
    account = f"system:serviceaccount:{NAMESPACE}:vgpu-vgpu-operator-"
    nodes = {"nodes": [{"prefix": "sim-", "count": 1}]}
    everybody = writers(
        helm.template(
            {
                "agent": {"enabled": True, "simulate": nodes},
                "admissionPolicy": {"protocolWriters": ["friend"]},
            }
        )
    )
    fewer = writers(helm.template({"devicePlugin": {"enabled": False}}))

    for name in ("scheduler", "device-plugin", "agent", "cleanup"):
        assert f'"{account}{name}"' in everybody
    assert '"friend"' in everybody
    assert "device-plugin" not in fewer
    assert "agent" not in fewer


def test_a_warning_stops_nobody_and_a_refusal_is_not_got_round_by_a_fault(helm: Helm) -> None:
    def chosen(action: str) -> tuple[list[str], str]:
        objects = helm.template({"admissionPolicy": {"action": action}})
        binding = one(objects, "ValidatingAdmissionPolicyBinding")["spec"]
        policy = one(objects, "ValidatingAdmissionPolicy")["spec"]
        assert binding["policyName"].endswith("-protocol")
        return binding["validationActions"], policy["failurePolicy"]

    assert chosen("Warn") == (["Warn", "Audit"], "Ignore")
    assert chosen("Deny") == (["Deny", "Audit"], "Fail")


def test_clusters_that_do_not_know_such_policies_get_none(helm: Helm) -> None:
    kinds = {item["kind"] for item in helm.template(kubernetes="v1.29.0")}

    assert not {kind for kind in kinds if kind.startswith("ValidatingAdmissionPolicy")}
