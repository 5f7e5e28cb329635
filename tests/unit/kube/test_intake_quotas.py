"""ResourceQuotas that lists and the watch show."""

import structlog

from support.desk import NODE_PATH, Shell
from support.resource_quotas import MEMORY, resource_quota
from vgpu_operator.flows import filter as flow_filter
from vgpu_operator.model import quota

PATH = "/api/v1/namespaces/team-a/resourcequotas/cards"


def most_mib(shell: Shell) -> int | None:
    """Return what the namespace may hold; None is no limit."""
    limits = shell.books.ledger.quota_standing("team-a").limits
    return limits.get("NVIDIA", quota.UNLIMITED).memory_mib


def put(shell: Shell, mib: int) -> None:
    """Have a quota of so many MiB, without any watch that shows it."""
    shell.kube.put(PATH, resource_quota({MEMORY: mib}))


async def test_a_sync_and_the_watch_show_what_a_namespace_may_hold() -> None:
    shell = Shell()
    put(shell, 1000)

    await shell.intake.sync()
    assert most_mib(shell) == 1000

    put(shell, 2000)
    shell.show(PATH)
    assert most_mib(shell) == 2000

    shell.show(PATH, "DELETED")
    assert most_mib(shell) is None


async def test_case_140_a_deletion_that_no_watch_showed_is_found_by_the_audit() -> None:
    shell = Shell()
    put(shell, 1000)
    await shell.intake.sync()
    shell.kube.remove(PATH)

    await shell.intake.audit()

    assert most_mib(shell) is None


async def test_a_raised_quota_wakes_the_refused_pod_by_one_write() -> None:
    shell = Shell(wake={"delayS": 0})
    shell.put_node()
    put(shell, 500)
    shell.show(PATH)
    record = shell.intake.pod_record(shell.kube.objects[shell.put_pod("p1")])
    flow_filter.filter_nodes(shell.books, record, ["node-a"], shell.clock.now())

    put(shell, 1000)
    shell.show(PATH)
    await shell.kube.until(lambda: "vgpu-operator.io/wake" in shell.notes(NODE_PATH))

    assert len(shell.kube.sent("PATCH", NODE_PATH)) == 1


async def test_case_141_an_entry_without_effect_is_logged_once() -> None:
    shell = Shell()
    shell.kube.put(PATH, resource_quota({"requests.nvidia.com/gpumem": 1}))

    with structlog.testing.capture_logs() as logs:
        await shell.intake.sync()
        await shell.intake.audit()

    (line,) = [line for line in logs if line["event"] == "ResourceQuota entry without effect"]
    assert (line["namespace"], line["name"]) == ("team-a", "cards")
    assert "limits.nvidia.com/gpumem" in line["why"]
