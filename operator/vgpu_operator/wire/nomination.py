"""The annotation that goes with a nomination: cards that are held while pods leave."""

import datetime
from dataclasses import dataclass
from typing import Final

import orjson

from vgpu_operator.wire import clock_text, shape

MOST_VICTIMS: Final = 100
"""UIDs that are written: further ones say nothing that the pods' own ends do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """What one process has decided for a pod, so that the next one can go on with it.

    Attributes:
        node: whose cards are held.
        until: when that ends at the latest.
        victims: UIDs of the pods that leave; names would tell one namespace of another.
    """

    node: str
    until: datetime.datetime
    victims: tuple[str, ...] = ()


def encode_nomination(nomination: Nomination) -> str:
    """Return the annotation's text: a JSON object.

    >>> import datetime as dt
    >>> until = dt.datetime(2026, 1, 15, 10, tzinfo=dt.UTC)
    >>> encode_nomination(Nomination(node="a", until=until, victims=("u-1",)))
    '{"node":"a","until":"2026-01-15T10:00:00Z","victims":["u-1"]}'
    """
    written = {
        "node": nomination.node,
        "until": clock_text.encode_rfc3339(nomination.until),
        "victims": list(nomination.victims[:MOST_VICTIMS]),
    }
    return orjson.dumps(written).decode()


def decode_nomination(text: str) -> Nomination | None:
    """Return what the annotation says; None where it is not one of ours.

    >>> decode_nomination('{"node":"a","until":"2026-01-15T10:00:00Z","victims":["u-1"]}')
    ... # doctest: +ELLIPSIS
    Nomination(node='a', until=datetime.datetime(2026, 1, 15, 10, 0, ...), victims=('u-1',))
    >>> decode_nomination("a") is None, decode_nomination('{"node":"a"}') is None
    (True, True)
    """
    try:
        written = shape.mapping(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None
    node, victims = shape.text(written.get("node")), written.get("victims")
    until = clock_text.decode_time(shape.text(written.get("until")))
    if not node or until is None:
        return None
    listed = victims if isinstance(victims, list) else []
    return Nomination(
        node=node,
        until=until,
        victims=tuple(uid for uid in listed if isinstance(uid, str))[:MOST_VICTIMS],
    )
