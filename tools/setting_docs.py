"""Tables of settings, from the pydantic models and their docstrings."""

import ast
import enum
import functools
import sys
import typing
from collections.abc import Iterator, Mapping

import doc_tables
import pydantic
import pydantic_core

from vgpu_operator.model import settings


def configuration() -> str:
    """Every setting: path in the file, type, default, meaning."""
    return table(settings.Settings, "")


def table(section: type[pydantic.BaseModel], prefix: str) -> str:
    """Return the table of a section's settings."""
    rows = setting_rows(section, prefix)
    return doc_tables.table(("Path", "Type", "Default", "Meaning"), rows)


def setting_rows(
    section: type[pydantic.BaseModel], prefix: str
) -> Iterator[tuple[str, str, str, str]]:
    """Yield a section's settings: path, type, default, meaning."""
    docs = class_docs(section)
    for name, field in section.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if _is_section(field.annotation):
            yield from setting_rows(field.annotation, f"{path}.")
            continue
        limits = ", ".join(_limit(rule) for rule in field.metadata if _limit(rule))
        words = _type_words(field.annotation) + (f", {limits}" if limits else "")
        yield doc_tables.code(path), words, _default(field.default), docs[name]
        member = _member(field.annotation)
        if _is_section(member):
            yield from setting_rows(member, f"{path}[].")


@functools.cache
def class_docs(section: type[pydantic.BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of a section's fields, those of its parents included."""
    docs: dict[str, str] = {}
    for parent in reversed(section.__mro__):
        if issubclass(parent, pydantic.BaseModel) and parent is not pydantic.BaseModel:
            docs |= _own_docs(parent)
    return docs


def _own_docs(section: type[pydantic.BaseModel]) -> Mapping[str, str]:
    for node in doc_tables.module_tree(sys.modules[section.__module__].__file__).body:
        if isinstance(node, ast.ClassDef) and node.name == section.__name__:
            return dict(doc_tables.attribute_docs(node.body))
    raise ValueError(f"{section.__name__} is no class of its module")


def _is_section(kind: object) -> typing.TypeGuard[type[pydantic.BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _member(kind: object) -> object:
    """Return what a list holds; None for other kinds."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None


def _type_words(kind: object) -> str:
    if isinstance(kind, enum.EnumType):
        members: Mapping[str, enum.Enum] = kind.__members__
        return ", ".join(doc_tables.code(str(word.value)) for word in members.values())
    member = _member(kind)
    if member is not None:
        return "list of sections" if _is_section(member) else "list of texts"
    if typing.get_origin(kind) is not None:
        return "mapping of text to list of texts"
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return plain[typing.cast("type", kind)]


def _limit(rule: object) -> str:
    """Return what a pydantic bound says; a length says it of the characters."""
    words = {"ge": "at least", "gt": "more than", "le": "at most"}
    for name, word in words.items():
        if hasattr(rule, name):
            return f"{word} {getattr(rule, name)}"
    if hasattr(rule, "min_length"):
        return f"at least {rule.min_length} character"
    if hasattr(rule, "max_length"):
        return f"at most {rule.max_length} characters"
    return ""


def _default(value: object) -> str:
    if value is pydantic_core.PydanticUndefined:
        return "must be given"
    if value in ("", {}, ()):
        return "empty"
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(map(doc_tables.code, value))
    if isinstance(value, tuple):
        return "those of HAMi's chart"
    if isinstance(value, bool):
        return doc_tables.code(str(value).lower())
    if isinstance(value, float) and value.is_integer():
        return doc_tables.code(str(int(value)))
    return doc_tables.code(str(value))
