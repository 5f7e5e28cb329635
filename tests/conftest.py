"""Plugins and settings for all tests."""

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = [
    "support.control_plane",
    "support.helm",
    "support.kubectl",
    "support.prometheus",
    "support.real_node",
    "support.node_chain",  # After the one that it imports.
    "support.rights_used",
]

# No deadline: machines that run tests are shared. In CI the same examples every
# time, so that a change is judged by what it changed; elsewhere new ones.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """Let a command that a test runs in this process set up its log for itself alone."""
    yield
    structlog.reset_defaults()


CLUSTER_FOLDERS = ("tests/apiserver/", "tests/image/", "tests/real_node/")
"""Tests that start a cluster, or a clean root: one after another, whoever else is at work."""


class OneAtTheCluster(LoadScopeScheduling):
    """One worker runs all that needs a control plane; every other file is any worker's."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTER_FOLDERS):
            return "cluster"
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneAtTheCluster:
    """Say how tests are shared out; xdist's own groups want an older pytest."""
    return OneAtTheCluster(config, log)
