from pathlib import Path
from typing import Any

import pytest

from vgpu_operator.cli.cluster.scheduler_config import scheduler_configuration


def test_extender_is_asked_about_the_managed_resources() -> None:
    made: Any = scheduler_configuration(
        scheduler_name="vgpu-scheduler",
        extender_url="http://127.0.0.1:9398/",
        managed_resources=["nvidia.com/gpu", "nvidia.com/gpumem"],
    )

    assert made["extenders"] == [
        {
            "urlPrefix": "http://127.0.0.1:9398",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "bindVerb": "bind",
            "enableHTTPS": False,
            "httpTimeout": "10m",
            "nodeCacheCapable": True,
            "ignorable": False,
            "managedResources": [
                {"name": "nvidia.com/gpu", "ignoredByScheduler": True},
                {"name": "nvidia.com/gpumem", "ignoredByScheduler": True},
            ],
        }
    ]


def test_every_node_is_scored() -> None:
    made = scheduler_configuration(scheduler_name="vgpu-scheduler")

    assert made["percentageOfNodesToScore"] == 100
    assert made["profiles"] == [{"schedulerName": "vgpu-scheduler"}]


def test_scheduler_without_extender_has_none() -> None:
    assert scheduler_configuration(scheduler_name="plain")["extenders"] == []


def test_own_rate_limit_is_out_of_the_way_unless_asked_for() -> None:
    fast: Any = scheduler_configuration(scheduler_name="s")
    slow: Any = scheduler_configuration(scheduler_name="s", client_qps=50)

    assert fast["clientConnection"] == {"qps": 1000, "burst": 1000}
    assert slow["clientConnection"] == {"qps": 50, "burst": 50}


def test_kubeconfig_is_named_where_given() -> None:
    made: Any = scheduler_configuration(scheduler_name="s", kubeconfig=Path("/k/config"))

    assert made["clientConnection"]["kubeconfig"] == "/k/config"


@pytest.mark.parametrize(
    ("lease_duration_s", "expected"),
    [
        pytest.param(15, ("15.000s", "10.000s", "2.000s"), id="as Kubernetes has it"),
        pytest.param(3, ("3.000s", "2.000s", "0.400s"), id="shorter, in proportion"),
    ],
)
def test_lease_times_keep_their_proportions(
    lease_duration_s: float, expected: tuple[str, str, str]
) -> None:
    made: Any = scheduler_configuration(
        scheduler_name="s",
        leader_elect=True,
        lease_namespace="vgpu",
        lease_name="vgpu-scheduler",
        lease_duration_s=lease_duration_s,
    )

    election = made["leaderElection"]
    assert election["leaderElect"] is True
    assert (election["resourceNamespace"], election["resourceName"]) == ("vgpu", "vgpu-scheduler")
    assert (election["leaseDuration"], election["renewDeadline"], election["retryPeriod"]) == (
        expected
    )
