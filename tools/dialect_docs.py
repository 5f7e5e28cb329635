"""The table of the forerunner's keys, from ``wire/dialects.py``."""

from collections.abc import Iterator

import doc_tables

from vgpu_operator.wire import dialects


def dialect_keys() -> str:
    """What the keys of each dialect correspond to."""
    return doc_tables.table(("Today", dialects.FORERUNNER.name, "Where"), _rows())


def _rows() -> Iterator[tuple[str, str, str]]:
    today, older = dialects.HAMI, dialects.FORERUNNER
    for left, right in (
        (today.assigned_node, older.assigned_node),
        (today.assigned_time, older.assigned_time),
        (today.bind_time, older.bind_time),
        (today.bind_phase, older.bind_phase),
    ):
        yield doc_tables.code(left), doc_tables.code(right), "Pod annotation"
    for words, key in (
        ("each vendor's to-allocate key", older.to_allocate),
        ("each vendor's allocated key", older.allocated),
    ):
        yield words, doc_tables.code(key or ""), "Pod annotation, one for all vendors"
    yield "each vendor's lock", doc_tables.code(older.lock_key or ""), "Node annotation"
    for keyword, every in older.node_keys.items():
        registers = dict.fromkeys(places.register for places in every)
        handshakes = dict.fromkeys(places.handshake for places in every)
        for words, names in (("register key", registers), ("handshake", handshakes)):
            yield (
                f"{keyword}'s {words}",
                ", ".join(map(doc_tables.code, names)),
                "Node annotation",
            )
