"""What looks like a known failure and is none, and what its neighbours are told apart by."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from support import doctor_faults as faults
from support import doctor_objects as objects
from support.doctor_look import NOW, SCENE, found, healthy, look, put
from support.fake_kube import FakeKube
from vgpu_operator.cli import doctor_reader, installed_settings
from vgpu_operator.flows.doctor import catalogue, families
from vgpu_operator.flows.doctor.cluster import Source
from vgpu_operator.kube import errors
from vgpu_operator.model import errors as model_errors
from vgpu_operator.model import settings
from vgpu_operator.wire import workloads


def with_node(name: str = "n4", **options: Any) -> FakeKube:
    kube = healthy()
    put(kube, objects.node(NOW, name, **options))
    return kube


def with_pod(name: str, **options: Any) -> FakeKube:
    kube = healthy()
    put(kube, objects.pod(name, **options))
    return kube


# Plugins


async def test_a_plugin_that_has_just_started_is_given_time() -> None:
    kube = healthy()
    plugin = objects.plugin_pod(NOW, "plugin-n3", "n3")
    for item in plugin.values():
        item["status"]["startTime"] = objects.at(NOW, 60)
    put(kube, plugin)

    assert await found(kube) == {}
    assert set(await found(kube, later_s=61)) == {"plugin-without-devices"}


async def test_a_plugin_of_whole_cards_serves_its_node_too() -> None:
    kube = with_node(cards=8)
    put(kube, objects.plugin_pod(NOW, "nvidia-n4", "n4", owner="nvidia-device-plugin"))

    assert await found(kube) == {}


async def test_a_plugin_on_the_right_runtime_that_finds_no_library_has_another_cause() -> None:
    kube = healthy()
    spec = objects.plugin_spec(runtime_class="nvidia")
    put(kube, objects.plugin_pod(NOW, "plugin-n3", "n3", spec=spec))
    kube.logs[f"/api/v1/namespaces/{objects.SYSTEM}/pods/plugin-n3/log"] = faults.NVML

    told = await found(kube)

    assert "the runtime of RuntimeClass nvidia does not put" in told["plugin-without-nvml"]


async def test_a_plugin_of_network_cards_that_crashes_is_none_of_ours() -> None:
    kube = healthy()
    spec = objects.plugin_spec("kube-sriovdp", runtime_class="absent")
    waiting = {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    put(kube, objects.daemon_set("nvidia-sriov", desired=0, spec=spec, selector={"ib": "on"}))
    put(kube, objects.plugin_pod(NOW, "sriov-n3", "n3", spec=spec, container=waiting))

    assert await found(kube) == {}


async def test_an_event_that_the_pods_state_has_overtaken_is_none() -> None:
    kube = healthy()
    put(kube, faults.runtime_not_configured(SCENE).objects)
    put(kube, objects.plugin_pod(NOW, "plugin-n3", "n3"))

    assert set(await found(kube)) == {"plugin-without-devices"}


async def test_an_event_about_a_pod_that_we_do_not_read_counts_while_it_is_new() -> None:
    kube = healthy()
    about = {"kind": "Pod", "namespace": "gpu-operator", "name": "toolkit"}
    words = 'failed to find runtime handler nvidia from runtime list map[runc:{}]"'
    put(kube, objects.event(NOW, about, "FailedCreatePodSandBox", words))

    assert "handler nvidia" in (await found(kube))["runtime-not-configured"]
    assert await found(kube, later_s=600) == {}


async def test_a_selector_that_fits_leaves_taints_as_the_cause() -> None:
    kube = healthy()
    put(kube, objects.daemon_set("other-plugin", desired=0, selector={"gpu": "on"}))

    told = (await found(kube))["plugin-selects-no-node"]

    assert "2 nodes have the labels, so taints or affinity keep it off" in told


async def test_one_label_that_no_node_has_is_told_without_the_merge_trap() -> None:
    kube = healthy()
    put(kube, objects.daemon_set("other-plugin", desired=0, selector={"gpu": "off"}))

    told = (await found(kube))["plugin-selects-no-node"]

    assert "Helm merges" not in told
    assert "of 3 nodes: gpu=off on 0" in told
    assert "kubectl label node NAME gpu=off)" in told


async def test_a_label_of_node_feature_discovery_is_not_written_by_hand() -> None:
    kube = healthy()
    selector = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    put(kube, objects.daemon_set("discovered", desired=0, selector=selector))

    told = (await found(kube))["plugin-selects-no-node"]

    assert "see that Node Feature Discovery runs" in told
    assert "kubectl label" not in told


@pytest.mark.parametrize(
    ("restarts", "command"),
    [
        (0, "kubectl -n vgpu-system describe pod plugin-n3"),
        (1, "kubectl -n vgpu-system logs plugin-n3 -c device-plugin --previous"),
    ],
)
async def test_only_a_container_that_has_run_before_has_a_log(restarts: int, command: str) -> None:
    kube = healthy()
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    status = {"restartCount": restarts, "state": {"waiting": waiting}}
    put(kube, objects.plugin_pod(NOW, "plugin-n3", "n3", container=status))

    assert (await found(kube))["plugin-not-running"].strip().endswith(command)


async def test_a_daemon_set_that_its_controller_has_not_seen_yet_is_not_judged() -> None:
    kube = healthy()
    new = objects.daemon_set("other-plugin", desired=0, selector={"gpu": "off"})
    for item in new.values():
        item["metadata"]["generation"] = 2
    put(kube, new)

    assert await found(kube) == {}


def test_a_plugins_maker_is_read_from_its_command_before_its_image() -> None:
    def family(name: str, image: str, *words: str) -> str:
        one = workloads.Container(name="main", image=image, words=words)
        known = families.of(workloads.Template(containers=(one,)), name)
        return known.id if known is not None else ""

    assert family("hami-device-plugin", "projecthami/hami", "nvidia-device-plugin") == "nvidia"
    assert family("hami-ascend-device-plugin", "projecthami/ascend", "/plugin") == "ascend"
    assert family("amdgpu-device-plugin-daemonset", "rocm/k8s-device-plugin") == "amd"
    assert family("smarter-device-manager", "smarter/device-manager") == ""
    assert family("plugin", "quay.io/nvidia/k8s:amd64", "/app/hygon-device-plugin") == "hygon"
    assert family("plugin", "quay.io/nvidia/k8s:amd64") == ""  # where it comes from says nothing
    assert family("sandbox-plugin", "hami", "nvidia-device-plugin") == "nvidia"  # a release's name
    assert family("plugin", "nvidia/k8s-rdma-shared-dev-plugin", "nvidia-plugin") == ""


# Nodes


async def test_a_fresh_question_is_waited_for() -> None:
    notes = {
        "hami.io/node-nvidia-register": objects.register("GPU-d0"),
        "hami.io/node-handshake": objects.stamped(NOW, 59),
    }

    assert await found(with_node(cards=0, annotations=notes)) == {}
    assert set(await found(with_node(cards=0, annotations=notes), later_s=1)) == {"plugin-gone"}


async def test_cards_that_have_just_come_may_be_offered_a_moment_later() -> None:
    kube = with_node(annotations={"hami.io/node-nvidia-register": objects.register("GPU-d0")})

    assert await found(kube) == {}  # the register text was written now, by its managed fields
    assert set(await found(kube, later_s=61)) == {"plugin-gone"}


async def test_a_lock_of_a_pod_that_is_served_just_now_is_sound() -> None:
    text = "GPU-b0,NVIDIA,1000,10:;"
    kube = with_pod(
        "now",
        node="n2",
        limits=objects.shares(1000),
        annotations=objects.promise(NOW, "n2", text, phase="allocating", left=text, bound_s=10),
    )
    node = kube.objects["/api/v1/nodes/n2"]
    node["metadata"]["annotations"]["hami.io/mutex.lock"] = f"{objects.at(NOW, 10)},default,now"

    assert await found(kube) == {}


async def test_a_lock_that_keeps_a_node_closed_says_for_whom() -> None:
    text = "GPU-b0,NVIDIA,1000,10:;"
    kube = with_pod(
        "unseen",
        node="n2",
        limits=objects.shares(1000),
        annotations=objects.promise(NOW, "n2", text, phase="allocating", left=text, bound_s=400),
        status={"phase": "Pending"},
    )
    node = kube.objects["/api/v1/nodes/n2"]
    node["metadata"]["annotations"]["hami.io/mutex.lock"] = f"{objects.at(NOW, 400)},default,unseen"

    told = await found(kube)

    assert set(told) == {"lock-stuck", "allocation-stuck"}
    assert "pod default/unseen is bound here and no kubelet has seen it" in told["lock-stuck"]


async def test_a_lock_of_nobody_has_half_a_minute() -> None:
    notes = {"hami.io/mutex.lock": f"{objects.at(NOW, 29)},default,gone"}

    assert await found(with_node(annotations=notes)) == {}
    assert set(await found(with_node(annotations=notes), later_s=2)) == {"lock-stuck"}


async def test_a_lock_of_another_namespace_is_not_judged_where_one_is_read() -> None:
    notes = {"hami.io/mutex.lock": f"{objects.at(NOW, 120)},team-b,lives"}

    assert await found(with_node(annotations=notes), namespace="default") == {}


async def test_a_vendor_without_handshake_is_not_said_to_have_one() -> None:
    card = '{"id":"0","count":1,"devmem":196000,"devcore":100,"type":"AMD","health":true}'
    kube = with_node(annotations={"hami.io/node-amd-register": f"[{card}]"})

    told = (await found(kube, later_s=61))["plugin-gone"]

    assert "allocatable amd.com/gpu (none), and 1 card is listed" in told
    assert "the kubelet offers none of the cards that are listed" in told
    assert "handshake" not in told


# Pods


async def test_a_pod_that_shows_itself_that_no_webhook_saw_it_is_told_with_what() -> None:
    kube = with_pod("amounts", limits={"nvidia.com/gpumem": "1000"})

    told = (await found(kube))["webhook-bypassed"]

    assert told.startswith("Pod default/amounts ")
    assert "the webhook would have set nvidia.com/gpu: 1 for container main" in told


async def test_a_pod_of_a_vendor_that_is_switched_on_is_told() -> None:
    limits = {"huawei.com/Ascend310P": "1"}
    kube = healthy()
    put(kube, objects.node(NOW, "n4", offers={"huawei.com/Ascend310P": "4"}))
    put(kube, objects.pod("npu", limits=limits, scheduler="default-scheduler", node="n4"))

    assert await found(kube) == {}
    on = settings.build({"vendors": {"ascend": {"enabled": True}}})
    assert set(await found(kube, configured=on)) == {"webhook-bypassed"}


async def test_who_opts_out_has_not_gone_past_the_webhook() -> None:
    asks = {"limits": {"nvidia.com/gpu": "1"}, "scheduler": "default-scheduler", "node": "n3"}
    kube = healthy()
    namespace = {"kind": "Namespace", "metadata": {"labels": {"hami.io/webhook": "ignore"}}}
    kube.put("/api/v1/namespaces/left-alone", {**namespace})
    labelled = objects.pod("labelled", **asks)
    for item in labelled.values():
        item["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    put(kube, labelled)
    put(kube, objects.pod("there", namespace="left-alone", **asks))
    put(kube, objects.pod("system", namespace="kube-system", **asks))

    assert await found(kube) == {}


async def test_our_own_scheduler_that_cannot_count_shares_is_told_apart() -> None:
    status = objects.unplaced("0/3 nodes are available: 3 Insufficient nvidia.com/gpucores.")
    kube = with_pod("lost", limits=objects.shares(1000), status=status)

    assert "managedResources" in (await found(kube))["shares-without-scheduler"]


async def test_a_pod_of_whole_cards_that_waits_elsewhere_is_none_of_ours() -> None:
    status = objects.unplaced("0/3 nodes: 3 Insufficient amd.com/gpu.")
    whole = objects.pod(
        "whole", limits={"amd.com/gpu": "8"}, scheduler="default-scheduler", status=status
    )
    for item in whole.values():
        item["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    kube = healthy()
    put(kube, whole)

    assert await found(kube) == {}


async def test_a_pod_whose_plugin_never_says_that_it_is_done_is_not_stuck_once_it_runs() -> None:
    limits = {"cambricon.com/vmlu": "1"}
    started = {"startTime": objects.at(NOW, 500)}
    notes = {**objects.promise(NOW, "n3", ""), "hami.io/bind-phase": "allocating"}
    kube = with_pod("mlu", node="n3", limits=limits, annotations=notes, status=started)

    assert await found(kube) == {}
    unseen = with_pod("mlu", node="n3", limits=limits, annotations=notes)
    path = "/api/v1/namespaces/default/pods/mlu"
    unseen.objects[path]["status"] = {"phase": "Pending"}
    assert set(await found(unseen)) == {"allocation-stuck"}


async def test_a_promise_of_another_node_dangles() -> None:
    notes = objects.promise(NOW, "n1", "GPU-a0,NVIDIA,1000,10:;")
    kube = with_pod("moved", node="n2", limits=objects.shares(1000), annotations=notes)

    told = (await found(kube))["allocation-dangling"]

    assert "bound to n2, promised cards of n1" in told


async def test_a_workload_whose_pods_the_quota_refuses_is_named_by_its_event() -> None:
    kube = healthy()
    words = (
        'Error creating: pods "web-1" is forbidden: exceeded quota: q, requested:'
        " requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: 2"
    )
    about = {"kind": "ReplicaSet", "namespace": "team-a", "name": "web"}
    put(kube, objects.event(NOW, about, "FailedCreate", words))
    other = {"kind": "ReplicaSet", "namespace": "team-a", "name": "cpu"}
    put(kube, objects.event(NOW, other, "FailedCreate", "exceeded quota: q, requested: cpu=1"))

    told = await found(kube)

    assert set(told) == {"quota-blocks"}
    assert told["quota-blocks"].startswith("ReplicaSet team-a/web ")
    assert await found(kube, later_s=600) == {}


# Schedulers, webhook, certificates


async def test_a_scheduler_of_which_nothing_is_seen_is_a_guess_and_a_warning() -> None:
    kube = with_pod("queued", limits=objects.shares(1000), scheduler="somebodys")
    put(kube, objects.pod("old", limits=objects.shares(1000), scheduler="4pd-scheduler"))

    report = catalogue.examine(await look(kube, later_s=59.5))
    assert report.findings == ()
    report = catalogue.examine(await look(kube, later_s=61))

    by_pod = {
        one.place.name: one for one in report.findings if one.signature == "unknown-scheduler"
    }
    assert {name: one.severity.value for name, one in by_pod.items()} == {
        "old": "error",
        "queued": "warning",
    }
    assert by_pod["queued"].cause.startswith("a guess: ")


async def test_two_operators_of_different_names_are_a_warning() -> None:
    kube = healthy()
    put(kube, objects.deployment("second", "team-b", objects.operator_spec()))

    (unknown,) = catalogue.examine(await look(kube)).findings
    assert unknown.severity.value == "error"  # it may schedule as ours does

    lease = objects.lease(NOW, namespace="team-b", holder="second-5c7d-xyz_9a")
    for item in lease.values():
        named = {"name": "team-b-scheduler", "namespace": "team-b"}
        path = "/apis/coordination.k8s.io/v1/namespaces/team-b/leases/team-b-scheduler"
        put(kube, {path: {**item, "metadata": named}})
    (apart,) = catalogue.examine(await look(kube)).findings

    assert apart.signature == "two-schedulers"
    assert apart.severity.value == "warning"
    assert "Deployment team-b/second (vgpu-operator): 1 ready, schedules as team-b-scheduler" in (
        apart.evidence
    )
    assert "where both work on the same nodes" in apart.cause


async def test_hamis_deployment_beside_ours_is_a_second_scheduler() -> None:
    kube = healthy()
    words = ["scheduler", "--http_bind=0.0.0.0:443", "--scheduler-name=hami-scheduler"]
    box = {"name": "vgpu-scheduler-extender", "image": "projecthami/hami", "command": words}
    theirs = {"containers": [box]}
    put(kube, objects.deployment("hami-scheduler", "kube-system", theirs))

    assert "hami-scheduler (HAMi): 1 ready" in (await found(kube))["two-schedulers"]

    put(kube, objects.deployment("hami-scheduler", "kube-system", theirs, ready=0))
    assert await found(kube) == {}


async def test_a_lease_of_somebody_else_keeps_the_operator_a_follower() -> None:
    kube = healthy()
    holder = f"{objects.OPERATOR_POD}0_9a"  # not the same name: it only begins so
    put(kube, objects.lease(NOW, namespace=objects.SYSTEM, holder=holder))

    assert "every replica of the operator stays a follower" in (await found(kube))["two-schedulers"]


async def test_a_scheduler_of_another_name_that_works_is_none_of_ours() -> None:
    kube = with_pod("theirs", limits=objects.shares(1000), scheduler="volcano")
    lease = objects.lease(NOW, namespace="volcano-system", holder="v_1")
    path = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
    (item,) = lease.values()
    kube.put(path, {**item, "metadata": {"name": "volcano", "namespace": "volcano-system"}})

    assert await found(kube, later_s=55) == {}
    kube.remove(path)
    assert await found(kube, later_s=59) == {}  # it may be looked at yet
    assert set(await found(kube, later_s=61)) == {"unknown-scheduler"}


async def test_a_webhook_that_nobody_trusts_is_down() -> None:
    kube = healthy()
    put(kube, {objects.WEBHOOK: {"webhooks": [objects.hook("")]}})

    assert "caBundle is empty" in (await found(kube))["webhook-down"]

    put(kube, {objects.WEBHOOK: {"webhooks": [objects.hook("Z2FyYmxlZA==")]}})
    assert "caBundle cannot be read" in (await found(kube))["webhook-down"]


async def test_an_operator_without_webhook_configuration_is_told() -> None:
    kube = healthy()
    kube.remove(objects.WEBHOOK)

    assert "sends new pods to it" in (await found(kube))["webhook-down"]


async def test_an_authority_with_a_third_of_its_time_left_is_no_fault() -> None:
    kube = healthy()
    bundle = objects.bundle(NOW, lifetime_days=30, left_days=10)
    put(kube, {objects.WEBHOOK: {"webhooks": [objects.hook(bundle)]}})

    assert await found(kube) == {}
    assert set(await found(kube, later_s=86_400 * 6)) >= {"certificate-ends"}


async def test_the_certificate_that_the_operator_shows_is_read_from_its_metrics() -> None:
    kube = healthy()
    path = f"/api/v1/namespaces/{objects.SYSTEM}/pods/{objects.OPERATOR_POD}"
    kube.objects[path]["status"]["podIP"] = "10.0.0.7"
    ends = (NOW + datetime.timedelta(days=3)).timestamp()
    kube.logs[f"{path}%3A9395/proxy/metrics"] = (
        "# TYPE vgpu_webhook_certificate_expiry_timestamp_seconds gauge\n"
        f"vgpu_webhook_certificate_expiry_timestamp_seconds {ends!r}\n"
    )

    told = (await found(kube))["certificate-ends"]

    assert "the certificate that its webhook shows ends at 2026-01-18 10:00 UTC" in told


# Clocks


async def test_a_stamp_of_tomorrow_names_the_clock_that_wrote_it() -> None:
    notes = {"hami.io/node-handshake": objects.stamped(NOW, -28_800)}

    told = (await found(with_node(annotations=notes)))["clock-skew"]

    assert "lies 28800 s ahead: the operator's clock is fast, or it writes local time" in told


@pytest.mark.parametrize(("seconds", "wrong"), [(9, False), (10, True), (-10, True)])
async def test_pods_tell_how_far_the_operators_clock_is_off(seconds: int, wrong: bool) -> None:
    bound = {"type": "PodScheduled", "status": "True"}
    status = {"conditions": [{**bound, "lastTransitionTime": objects.at(NOW, 600 + seconds)}]}
    notes = objects.promise(NOW, "n2", "GPU-b0,NVIDIA,1000,10:;")
    kube = with_pod("p", node="n2", limits=objects.shares(1000), annotations=notes, status=status)

    assert set(await found(kube)) == ({"clock-skew"} if wrong else set())


# Writers


async def test_a_policy_that_refuses_has_nothing_to_wait_for() -> None:
    kube = healthy()
    fault = faults.unknown_writer(SCENE)
    put(kube, {**fault.objects, **faults.policy(("Deny",))}, "mallory")

    report = catalogue.examine(await look(kube))

    assert report.findings == ()
    assert report.notes == ()


async def test_plugins_that_are_installed_and_programs_that_are_named_are_known() -> None:
    kube = healthy()
    put(kube, faults.policy())
    put(kube, objects.daemon_set("ascend-device-plugin", desired=1))
    notes = {"hami.io/node-register-Ascend310P": "[]"}
    put(kube, objects.node(NOW, "n4", annotations=notes), "ascend-device-plugin")
    put(kube, objects.node(NOW, "n5", annotations=notes), "our-tool")

    told = await found(kube)
    assert set(told) == {"unknown-writer"}
    assert told["unknown-writer"].startswith("Program our-tool ")

    cluster = await look(kube, known_writers=("our-tool",))
    (note,) = catalogue.examine(cluster).notes
    assert "that shows neither accounts nor what was overwritten" in note


async def test_an_audit_log_of_two_days_without_unknown_writers_allows_deny(tmp_path) -> None:
    kube = healthy()
    put(kube, faults.policy())
    log = tmp_path / "audit.log"
    times = ("2026-01-13T10:00:00.000000Z", "2026-01-15T10:00:00.000000Z")
    lines = [json.dumps({"kind": "Event", "requestReceivedTimestamp": time}) for time in times]
    log.write_text("\n".join(lines) + "\n" + '{"kind": "Ev')

    (note,) = catalogue.examine(await look(kube, audit_file=log)).notes

    assert "in 2 events of 48.0 hours" in note
    assert note.endswith("it may go to admissionPolicy.action: Deny")


@pytest.mark.parametrize(
    ("text", "words"), [("no log\n", "no event in JSON"), ('{"a": 1}\n', "its kind is not Event")]
)
def test_a_file_that_is_no_audit_log_is_told(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "other.txt"
    file.write_text(text)

    with pytest.raises(model_errors.SettingsError, match=words):
        doctor_reader.read_audit(file)
    with pytest.raises(model_errors.SettingsError, match="No such file"):
        doctor_reader.read_audit(tmp_path / "absent")


# What may not be read


async def test_what_may_not_be_read_is_left_out_and_named() -> None:
    kube = healthy()
    for place in ("/leases", "/events", "/daemonsets"):
        kube.fail_next("GET", place, errors.Denied(f"GET {place}: 403", status=403))

    cluster = await look(kube)
    report = catalogue.examine(cluster)

    assert report.findings == ()
    assert set(cluster.missing) == {Source.LEASES, Source.EVENTS, Source.DAEMON_SETS}
    assert {"two-schedulers", "runtime-not-configured", "plugin-selects-no-node"} <= {
        *report.skipped
    }


async def test_who_may_see_neither_nodes_nor_pods_is_told_no() -> None:
    kube = healthy()
    for place in ("/nodes", "/api/v1/pods"):
        kube.fail_next("GET", place, errors.Denied(f"GET {place}: 403", status=403))

    with pytest.raises(errors.Denied):
        await look(kube)


async def test_logs_that_may_not_be_read_cost_no_finding_but_theirs() -> None:
    kube = healthy()
    put(kube, faults.plugin_without_nvml(SCENE).objects)
    kube.fail_next("GET", "/log", errors.Denied("GET …/log: 403", status=403))

    cluster = await look(kube)

    assert Source.LOGS in cluster.missing
    assert [one.signature for one in catalogue.examine(cluster).findings] == [
        "plugin-without-devices"
    ]


async def test_only_so_many_logs_are_read() -> None:
    kube = healthy()
    for number in range(30):
        put(kube, objects.plugin_pod(NOW, f"plugin-{number}", "n3"))

    await look(kube)

    assert len(kube.sent("GET", "/log")) == doctor_reader.MOST_LOGS


# Settings


async def test_the_installed_operators_settings_count() -> None:
    kube = healthy()
    spec = objects.operator_spec()
    spec["volumes"] = [{"configMap": {"name": "settings"}}, {"configMap": {"name": "devices"}}]
    put(kube, objects.deployment(objects.OPERATOR, objects.SYSTEM, spec))
    place = f"/api/v1/namespaces/{objects.SYSTEM}/configmaps"
    kube.put(f"{place}/settings", {"data": {"settings.yaml": "schedulerName: 4pd-scheduler\n"}})
    names = "nvidia:\n  resourceCountName: example.com/vgpu\n"
    kube.put(f"{place}/devices", {"data": {"device-config.yaml": names}})

    configured = await installed_settings.read(kube)

    assert configured is not None
    assert configured.scheduler_name == "4pd-scheduler"
    assert configured.vendors.nvidia.resource_count_name == "example.com/vgpu"

    kube.put(f"{place}/settings", {"data": {"settings.yaml": "schedulerName: 7\n"}})
    where = f"the ConfigMaps of Deployment {objects.SYSTEM}/{objects.OPERATOR}"
    with pytest.raises(model_errors.SettingsError, match=f"^{where}: "):
        await installed_settings.read(kube)


async def test_settings_that_may_not_be_read_are_the_usual_ones() -> None:
    kube = healthy()
    kube.fail_next("GET", "/deployments", errors.Denied("403", status=403))

    assert await installed_settings.read(kube) is None
    assert await installed_settings.read(FakeKube()) is None


async def test_a_pod_of_todays_scheduler_name_waits_for_nobody_unknown() -> None:
    kube = with_pod("old", limits=objects.shares(1000), scheduler="4pd-scheduler")
    renamed = settings.build({"schedulerName": "4pd-scheduler"})

    told = await found(kube, later_s=90, configured=renamed)

    assert "unknown-scheduler" not in told
