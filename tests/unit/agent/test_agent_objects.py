import datetime

import pytest

from vgpu_operator.agent import objects


def version(number, uid="u1"):
    return {"metadata": {"uid": uid, "resourceVersion": number}}


@pytest.mark.parametrize(
    ("raw", "known", "newer"),
    [
        pytest.param(version("9"), None, True, id="nothing known"),
        pytest.param(version("10"), version("9"), True, id="a later version"),
        pytest.param(version("9"), version("10"), False, id="a late event"),
        pytest.param(version("9"), version("9"), False, id="the same again"),
        pytest.param(version("9", "u2"), version("10"), True, id="another pod of that name"),
    ],
)
def test_versions_are_compared_as_numbers(raw, known, newer):
    assert objects.is_newer(raw, known) is newer


def test_a_heartbeat_keeps_the_time_since_when_the_node_is_ready():
    since = "2026-01-15T09:00:00Z"
    node = {
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}
    }
    now = datetime.datetime(2026, 1, 15, 10, tzinfo=datetime.UTC)

    (ready,) = objects.heartbeat_patch(node, now)["status"]["conditions"]

    assert ready["lastTransitionTime"] == since
    assert ready["lastHeartbeatTime"] == "2026-01-15T10:00:00Z"
