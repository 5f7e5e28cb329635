"""Plugins and settings for all tests."""

import os

import hypothesis

pytest_plugins = ["support.control_plane", "support.helm"]

# No deadline: machines that run tests are shared. In CI the same examples every
# time, so that a change is judged by what it changed; elsewhere new ones.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")
