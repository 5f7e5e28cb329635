"""Tables of the chart's values for the documentation."""

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import chart_files
import chart_schema
import chart_values
import doc_tables

_PLAIN = {
    "array": "list",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "object": "mapping",
    "string": "text",
}


def values() -> str:
    """Every value that means something: path, kind, default, meaning."""
    rows = (
        (doc_tables.code(path), _kind(path), _default(field.default), meaning)
        for path, field, meaning in chart_files.all_fields()
        if not chart_files.why_ignored(field)
    )
    return doc_tables.table(("Path", "Type", "Default", "Meaning"), rows)


def ignored_values() -> str:
    """Every value of HAMi's chart that means nothing here, and why."""
    rows = (
        (doc_tables.code(path), chart_files.why_ignored(field))
        for path, field, _ in chart_files.all_fields()
        if chart_files.why_ignored(field)
    )
    return doc_tables.table(("Path", "Why"), rows)


@functools.cache
def _schema() -> Mapping[str, Any]:
    return chart_schema.schema(chart_values.Chart)


def _kind(path: str) -> str:
    node: Any = _schema()
    for part in path.split("."):
        node = node["properties"][part]
    return " or ".join(dict.fromkeys(_words(node)))


def _words(node: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in node:
        yield ", ".join(doc_tables.code(str(word)) for word in node["enum"] if word is not None)
        return
    for option in node.get("anyOf", ()):
        yield from _words(option)
    kinds = node.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind != "null":
            yield _PLAIN[kind]


def _default(value: object) -> str:
    plain = chart_files.plain(value)
    if plain in ("", {}, [], None):
        return "empty"
    return doc_tables.code(plain if isinstance(plain, str) else json.dumps(plain))
