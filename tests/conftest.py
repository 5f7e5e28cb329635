"""Plugins for all tests."""

pytest_plugins = ["support.control_plane"]
