"""Comparing resourceVersions.

Since Kubernetes 1.35 the versions of one resource compare as integers
(KEP-5504); where they are no integers, nothing is known and every delivery
counts as newer.
"""


def is_earlier(version: str, other: str) -> bool:
    """Whether ``version`` is known to be an earlier state than ``other``.

    >>> is_earlier("9", "10")
    True
    >>> is_earlier("10", "10"), is_earlier("abc", "10")
    (False, False)
    """
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return False
