"""After all others: the chart gives its accounts no right that nothing has needed.

In a file of its own, so that the clusters of all other files are at their end.
"""

import pytest

from support import rights_used

pytestmark = pytest.mark.apiserver


def test_every_rule_of_the_chart_is_used_by_the_suite(request: pytest.FixtureRequest) -> None:
    if why := rights_used.why_not_all(request.session):
        pytest.skip(why)

    assert rights_used.RUN.unused == []
