"""Raw events and lists into the books, and what is done about them."""

import asyncio
from typing import Any

import pytest

from support.desk import NODE_PATH, Shell
from support.operator_books import LOCK, lock_of, used_mib
from support.resource_quotas import MEMORY, resource_quota
from support.waiting import settled
from vgpu_operator.flows import books, effects, pod_events, register
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.kube import errors, steps

HANDSHAKE = "hami.io/node-handshake"


def bound(shell: Shell, name: str) -> str:
    """Have somebody else bind a pod to node-a, unseen by the watch."""
    path = shell.put_pod(name)
    whole = shell.kube.objects[path]
    notes = {
        "hami.io/vgpu-node": "node-a",
        "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,1000,0:;",
        "hami.io/bind-phase": "success",
    }
    shell.kube.put(
        path,
        {
            **whole,
            "metadata": {**whole["metadata"], "annotations": notes},
            "spec": {**whole["spec"], "nodeName": "node-a"},
        },
    )
    return path


async def test_a_node_without_handshake_is_stamped_on_its_event() -> None:
    shell = Shell()
    shell.kube.put(
        NODE_PATH,
        {
            "metadata": {"annotations": {"hami.io/node-nvidia-register": "[]"}},
            "status": {"allocatable": {"nvidia.com/gpu": "10"}},
        },
    )

    shell.show(NODE_PATH)
    await settled()

    assert shell.notes(NODE_PATH)[HANDSHAKE] == "Requesting_2026-01-15 10:00:00"


async def test_case_116_a_sync_makes_the_ledger_complete() -> None:
    shell = Shell()
    shell.books.synced = False
    shell.put_node()
    bound(shell, "p1")

    await shell.intake.sync()

    assert shell.books.synced
    assert used_mib(shell.books) == {"GPU-a0": 1000}


async def test_a_sync_that_fails_changes_nothing_and_says_so() -> None:
    shell = Shell()
    shell.books.synced = False
    shell.kube.fail_next("GET", "/api/v1/pods", errors.ServerFault("500", status=500))

    with pytest.raises(errors.ServerFault):
        await shell.intake.sync()

    assert not shell.books.synced


async def test_case_100_an_audit_finds_what_no_watch_delivered_and_counts_it() -> None:
    shell = Shell()
    shell.put_node()
    bound(shell, "p1")
    shell.put_pod("p2")
    for _ in range(2):
        shell.intake.quick_tick()
    await shell.intake.audit()
    assert used_mib(shell.books) == {"GPU-a0": 1000}
    shell.kube.remove("/api/v1/namespaces/team-a/pods/p1")

    await shell.intake.audit()
    await shell.intake.audit()

    assert used_mib(shell.books) == {"GPU-a0": 0}
    assert shell.audits == [1, 1, 0]


async def test_an_audit_that_fails_changes_nothing() -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p1")
    shell.kube.fail_next("GET", "/api/v1/pods", errors.Unreachable("no answer"))

    await shell.intake.audit()

    assert len(shell.books.ledger.records()) == 1
    assert shell.audits == []


async def test_a_node_in_a_relist_costs_its_node_our_trust() -> None:
    shell = Shell()
    shell.put_node()
    shell.books.trusted_nodes.add("node-a")

    shell.intake.node_event("MODIFIED", shell.kube.objects[NODE_PATH])
    assert "node-a" in shell.books.trusted_nodes
    shell.intake.node_event(None, shell.kube.objects[NODE_PATH])

    assert "node-a" not in shell.books.trusted_nodes


async def test_case_31_a_late_deletion_of_an_earlier_node_leaves_the_present_one() -> None:
    shell = Shell()
    shell.put_node()
    earlier = {"metadata": {"name": "node-a", "uid": "earlier", "resourceVersion": "1"}}

    shell.intake.node_event("DELETED", earlier)
    assert set(shell.books.nodes) == {"node-a"}
    shell.intake.node_event("DELETED", shell.kube.objects[NODE_PATH])

    assert shell.books.nodes == {}


async def test_case_81_the_lock_of_a_deleted_pod_is_removed_by_the_quick_tick() -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p1"))

    shell.intake.quick_tick()
    await settled()

    assert LOCK not in shell.notes(NODE_PATH)


async def test_the_lock_of_a_pod_that_only_our_watch_has_missed_stays() -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p1"))
    path = "/api/v1/namespaces/team-a/pods/p1"
    shell.kube.put(path, {"metadata": {"uid": "u"}, "spec": {"containers": []}})

    shell.intake.quick_tick()
    await settled()

    assert shell.notes(NODE_PATH)[LOCK] == lock_of("p1")


async def test_a_follower_leaves_every_lock_alone() -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p1"))
    shell.books.leader = False
    shell.kube.requests.clear()

    shell.intake.quick_tick()
    await settled()

    assert shell.kube.requests == []


async def test_freed_cards_wake_a_refused_pod_by_one_write() -> None:
    shell = Shell(wake={"delayS": 0})
    shell.put_node()
    path = bound(shell, "p1")
    shell.show(path)
    big = shell.put_pod("p2", mem=24000)
    record = shell.intake.pod_record(shell.kube.objects[big])
    flow_filter.filter_nodes(shell.books, record, ["node-a"], shell.clock.now())
    raw = shell.kube.objects[path]
    shell.kube.remove(path)

    shell.intake.pod_event("DELETED", raw)
    await shell.kube.until(lambda: "vgpu-operator.io/wake" in shell.notes(NODE_PATH))

    assert len(shell.kube.sent("PATCH", NODE_PATH)) == 1


async def test_waiting_for_freed_cards_ends_when_some_are_or_when_the_time_is_over() -> None:
    shell = Shell()

    assert not await shell.intake.freed(limit_s=0)


async def test_case_31_a_node_that_went_away_unseen_is_forgotten_by_the_audit_after_a_relist() -> (
    None
):
    shell = Shell()
    shell.put_node()
    shell.put_node("node-b")
    shell.kube.remove("/api/v1/nodes/node-b")
    await shell.intake.audit()
    assert set(shell.books.nodes) == {"node-a", "node-b"}, "no relist, no list of nodes"

    shell.intake.node_event(None, shell.kube.objects[NODE_PATH])
    await shell.intake.audit()

    assert set(shell.books.nodes) == {"node-a"}


async def test_an_orphaned_lock_is_looked_at_by_one_read_at_a_time() -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p1"))
    shell.kube.requests.clear()

    for _ in range(5):
        shell.intake.quick_tick()
    await settled()

    assert len(shell.kube.sent("GET", "/pods/p1")) == 1


async def test_refusals_wait_for_the_watch_only_a_small_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kube-scheduler asks for one pod after the other: all pods behind would wait too."""
    shell = Shell()
    loop = asyncio.get_running_loop()
    begun = loop.time()

    for _ in range(200):
        await shell.intake.freed(limit_s=0.05)

    assert loop.time() - begun < 2


async def test_what_a_list_shows_before_the_watch_is_no_difference() -> None:
    shell = Shell()
    shell.put_node()
    shell.put_pod("p2")
    for _ in range(2):
        shell.intake.quick_tick()
    bound(shell, "p1")

    await shell.intake.audit()

    assert used_mib(shell.books) == {"GPU-a0": 1000}
    assert shell.audits == [0]


@pytest.mark.parametrize("version", ["same", "newer"])
async def test_a_list_decodes_only_what_has_another_version(version: str) -> None:
    shell = Shell()
    shell.put_node()
    path = bound(shell, "p1")
    shell.show(path)
    raw = shell.kube.objects[path]
    raw["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = "GPU-a0,NVIDIA,700,0:;"
    if version == "newer":
        raw["metadata"]["resourceVersion"] = "1000"

    await shell.intake.audit()

    assert used_mib(shell.books) == {"GPU-a0": 1000 if version == "same" else 700}


async def test_a_pod_that_never_concerns_us_is_decoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell()
    shell.kube.put("/api/v1/namespaces/team-a/pods/web", {"spec": {"containers": []}})
    await shell.intake.audit()
    decoded: list[object] = []
    monkeypatch.setattr(shell.intake, "pod_record", decoded.append)

    for _ in range(2):
        await shell.intake.audit()

    assert decoded == []


async def test_a_list_is_taken_in_by_steps_that_let_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "STEP_S", 0)
    shell = Shell()
    for number in range(50):
        path = f"/api/v1/namespaces/team-a/pods/web-{number}"
        shell.kube.put(path, {"spec": {"containers": []}})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await shell.intake.sync()
    other.cancel()

    assert turns >= 50


async def test_one_slow_write_keeps_no_other_object_waiting_and_each_its_order() -> None:
    shell = Shell()
    begun: list[tuple[str, str]] = []
    held_up = asyncio.Event()

    async def request(verb: str, path: str, **more: Any) -> Any:
        (value,) = more["body"]["metadata"]["annotations"].values()
        begun.append((path.rsplit("/", 1)[1], value))
        if path.endswith("node-a"):
            await held_up.wait()
        return {"metadata": {"resourceVersion": "1"}}

    shell.kube.request = request  # type: ignore[method-assign]
    writes = tuple(
        effects.PatchNode(node=node, annotations={"note": value})
        for value in ("1", "2")
        for node in ("node-a", "node-b")
    )

    shell.intake.react(effects.Reaction(effects=writes))
    await settled()
    assert begun == [("node-a", "1"), ("node-b", "1"), ("node-b", "2")]
    held_up.set()
    await settled()

    assert begun[3:] == [("node-a", "2")]


async def test_what_a_bind_learns_by_a_read_wakes_those_who_wait_for_it() -> None:
    shell = Shell()
    shell.put_node(lock=lock_of("p1"))
    told: list[object] = []
    shell.waits.notify = lambda nodes, pods=(): told.append((set(nodes), set(pods)))  # type: ignore[method-assign]
    path = bound(shell, "p1")
    told.clear()

    pod = shell.intake.pod_record(shell.kube.objects[path])
    await shell.performer.run(pod_events.take_in(shell.books, pod))

    assert told == [({"node-a"}, {"uid-of-p1"})]


async def test_a_lock_that_one_of_two_plugins_removed_is_put_back_on_the_pods_event() -> None:
    shell = Shell()
    shell.put_node()
    shell.show(NODE_PATH)
    path = shell.put_pod("p1")
    whole = shell.kube.objects[path]
    asks = ({"nvidia.com/gpu": "1"}, {"hygon.com/dcunum": "1"})
    notes = {
        "hami.io/vgpu-node": "node-a",
        "hami.io/vgpu-devices-allocated": "GPU-a0,NVIDIA,1000,0:;;",
        "hami.io/dcu-devices-allocated": ";DCU-a0,DCU,1000,0:;",
        "hami.io/vgpu-devices-to-allocate": ";;",
        "hami.io/dcu-devices-to-allocate": ";DCU-a0,DCU,1000,0:;",
        "hami.io/bind-phase": "success",
    }
    containers = [
        {"name": str(number), "resources": {"limits": limits}} for number, limits in enumerate(asks)
    ]
    shell.kube.put(
        path,
        {
            **whole,
            "metadata": {**whole["metadata"], "annotations": notes},
            "spec": {**whole["spec"], "nodeName": "node-a", "containers": containers},
        },
    )

    shell.show(path)
    await settled()

    assert shell.notes(NODE_PATH)[LOCK] == "2026-01-15T10:00:00Z,team-a,p1"


async def test_a_node_whose_handshake_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell()
    for name in ("node-a", "node-b", "node-c"):
        shell.put_node(name)
    stepped = []
    right = register.step_handshakes

    def step(held: books.Books, nodes: tuple[str, ...], now: Any) -> effects.Reaction:
        stepped.extend(nodes)
        if nodes == ("node-b",):
            raise RuntimeError("a fault")
        return right(held, nodes, now)

    monkeypatch.setattr(register, "step_handshakes", step)
    shell.intake.tick()
    await settled()

    assert stepped == ["node-a", "node-b", "node-c"]


async def test_a_quota_that_went_before_kopf_listed_is_found_gone_by_the_first_audit() -> None:
    shell = Shell()
    path = "/api/v1/namespaces/team-a/resourcequotas/cards"
    shell.kube.put(path, resource_quota({MEMORY: 1}))
    await shell.intake.sync()
    assert shell.books.quotas["team-a"]

    shell.kube.remove(path)
    await shell.intake.audit_what_kopf_lists()

    assert not shell.books.quotas.get("team-a")
