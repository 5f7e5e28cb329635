"""Plugins and settings for all tests."""

import os

import hypothesis
import pytest

pytest_plugins = [
    "support.control_plane",
    "support.helm",
    "support.kubectl",
    "support.prometheus",
    "support.rights_used",
]

# No deadline: machines that run tests are shared. In CI the same examples every
# time, so that a change is judged by what it changed; elsewhere new ones.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


CLUSTER_FOLDERS = ("apiserver", "image")
"""Tests that start a cluster, or a clean root: one after another, whoever else is at work."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one worker runs: all that need a control plane, and each other file."""
    for item in items:
        folder = item.path.parent.name
        group = "cluster" if folder in CLUSTER_FOLDERS else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
