"""YAML that people write, read with limits: one loader for settings, nodes and manifests.

What comes out is what JSON has, as in Kubernetes: mappings whose keys are
texts, lists, texts, numbers, booleans and null. A date is a text. Whatever is
wrong is one sentence with the line and what to do.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml
from yaml import composer, constructor, events, nodes, resolver

from vgpu_operator.model import errors

DEEPEST: Final = 100
"""Levels of lists and mappings: objects of Kubernetes have fewer than 30."""
MOST_BY_ALIASES: Final = 100_000
"""Values that aliases (``*name``) may stand for in one text, in all."""

Path: TypeAlias = tuple[int | str, ...]

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_SHOWN_CHARACTERS: Final = 60
_WHOLE_NUMBER: Final = r"[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
_NUMBER: Final = (
    r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?"
    r"|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


_BOOLEAN: Final = "|".join(
    spelt
    for word in ("yes", "no", "true", "false", "on", "off")
    for spelt in (word, word.capitalize(), word.upper())
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document and where its values stand."""

    value: Any
    _tree: nodes.Node | None

    def line_of(self, path: Path) -> int:
        """Return the line, from 1, of the deepest place of the path that the text has.

        A word where the text has a list is passed over.

        >>> read("a:\\n- b: 1\\n").line_of(("a", 0, "b"))
        2
        """
        node = self._tree
        line = node.start_mark.line if node is not None else 0
        for part in path:
            if isinstance(node, nodes.MappingNode):
                found = [(key, value) for key, value in node.value if key.value == str(part)]
                if not found:
                    break
                key, node = found[-1]
                line = key.start_mark.line
            elif isinstance(node, nodes.SequenceNode) and isinstance(part, int):
                node = node.value[part]
                line = node.start_mark.line
        return int(line) + 1

    def holds(self, path: Path) -> bool:
        """Whether the text has that field of mappings."""
        value = self.value
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True


def read(text: str) -> Document:
    """Read a text that holds one document.

    Raises:
        SettingsError: it is no YAML, too large when its aliases are written
            out, nested too deeply, or holds what JSON has not.
    """
    found = list(_documents(text, single=True))
    return found[0] if found else Document(value=None, _tree=None)


def read_all(text: str) -> Iterator[Any]:
    """Yield the values of every document of a text, which may be JSON too.

    Raises:
        SettingsError: as ``read``.
    """
    if text.lstrip().startswith("{"):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            pass  # YAML's own flow form, several documents, or something to complain of
        else:
            _refuse_deep(whole)
            yield whole
            return
    for document in _documents(text, single=False):
        yield document.value


def _refuse_deep(value: Any) -> None:
    """Refuse JSON that is nested too deeply, level by level."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise errors.SettingsError(_TOO_DEEP)


def _documents(text: str, *, single: bool) -> Iterator[Document]:
    try:
        loader = _Loader(text)
        while single or loader.check_node():
            tree = loader.get_single_node() if single else loader.get_node()
            if tree is not None:
                yield Document(value=loader.construct_document(tree), _tree=tree)
            if single:
                return
    except yaml.MarkedYAMLError as fault:
        raise errors.SettingsError(_sentence(fault)) from fault
    except (yaml.YAMLError, UnicodeEncodeError) as fault:
        words = " ".join(str(fault).split())
        raise errors.SettingsError(f"it is no YAML: {words}; take that out") from fault
    except RecursionError as fault:
        raise errors.SettingsError(_TOO_DEEP) from fault


def _sentence(fault: yaml.MarkedYAMLError) -> str:
    mark = fault.problem_mark or fault.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    if isinstance(fault, _Refused):
        return f"{where}{fault.problem}"
    if "maximum nesting depth" in str(fault.problem):  # libyaml looks ahead
        return f"{where}{_TOO_DEEP}"
    if isinstance(fault, composer.ComposerError) and "single document" in str(fault.context):
        return f"{where}a second document begins here, and one is wanted; leave one of them out"
    context = f"{fault.context}: " if fault.context else ""
    words = " ".join(f"{context}{fault.problem}".split())
    return f"{where}it is no YAML: {words}; correct it there or put the text in quotes"


_TOO_DEEP: Final = (
    f"lists and objects are nested deeper than {DEEPEST} levels; close what is open, or write it "
    "flatter"
)


class _Refused(yaml.MarkedYAMLError):
    """YAML that we do not take; ``problem`` is the whole complaint."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class _SlowParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """PyYAML's own parser, where it was built without libyaml."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)


_Parser: Any = getattr(getattr(yaml, "cyaml", None), "CParser", _SlowParser)


class _Loader(composer.Composer, constructor.SafeConstructor, resolver.BaseResolver, _Parser):  # type: ignore[misc]
    """A loader that counts what it composes, and constructs only what JSON has."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        composer.Composer.__init__(self)
        constructor.SafeConstructor.__init__(self)
        resolver.BaseResolver.__init__(self)
        self._count = 0
        """Values so far, aliases written out."""
        self._by_aliases = 0
        self._depth = 0
        self._deepest = 0
        self._anchored: dict[str, tuple[int, int]] = {}
        """How many values and levels an anchor stands for, once it is complete."""

    def compose_document(self) -> Any:
        self._anchored.clear()
        return super().compose_document()

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, events.AliasEvent):
            self._write_out(event)
            return super().compose_node(parent, index)
        before, outer = self._count, self._deepest
        levels = int(isinstance(event, events.CollectionStartEvent))
        self._count += 1
        self._depth += levels
        self._deepest = self._depth
        self._refuse_deep(event)
        node = super().compose_node(parent, index)
        if event.anchor is not None:
            self._anchored[event.anchor] = (
                self._count - before,
                self._deepest - self._depth + levels,
            )
        if isinstance(node, nodes.MappingNode):
            _refuse_twins(node)
        self._deepest = max(outer, self._deepest)
        self._depth -= levels
        return node

    def _write_out(self, event: Any) -> None:
        """Count what an alias stands for."""
        if event.anchor not in self.anchors:
            return  # the composer says that there is no such anchor
        if event.anchor not in self._anchored:
            raise _Refused(
                f"*{event.anchor} stands within &{event.anchor} itself, which never ends; "
                "write out what is meant",
                event.start_mark,
            )
        count, levels = self._anchored[event.anchor]
        self._count += count
        self._by_aliases += count
        self._deepest = max(self._deepest, self._depth + levels)
        self._refuse_deep(event)
        if self._by_aliases > MOST_BY_ALIASES:
            raise _Refused(
                f"the aliases up to *{event.anchor} stand for more than {MOST_BY_ALIASES} values; "
                "write out what is meant",
                event.start_mark,
            )

    def _refuse_deep(self, event: Any) -> None:
        if self._deepest > DEEPEST:
            raise _Refused(_TOO_DEEP, event.start_mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, nodes.MappingNode):
            raise _Refused("a mapping is wanted here; write names and values", node.start_mark)
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _refuse_twins(node: nodes.MappingNode) -> None:
    """Refuse a name that is no text, or is given twice: YAML would keep the last only."""
    first: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, nodes.ScalarNode):
            raise _Refused(
                "a name is wanted, not a list or mapping; write it in quotes", key.start_mark
            )
        if key.tag == _MERGE:
            continue
        if key.value in first:
            raise _Refused(
                f"{_shown(key.value)} is already given in line {first[key.value]}; "
                "leave one of them out",
                key.start_mark,
            )
        first[key.value] = key.start_mark.line + 1


def _readable(read_scalar: Callable[[Any, Any], Any], what: str) -> Callable[[Any, Any], Any]:
    """Return a constructor that complains of what PyYAML's own trips over."""

    def construct(loader: Any, node: Any) -> Any:
        try:
            return read_scalar(loader, node)
        except (ValueError, LookupError, AttributeError) as fault:
            raise _Refused(
                f"{_shown(str(node.value))!r} cannot be read as {what}; correct it, or put it in "
                "quotes if it is a text",
                node.start_mark,
            ) from fault

    return construct


def _refuse_tag(_: Any, node: Any) -> None:
    tag = _shown(str(node.tag).replace(_TAG, "!!", 1))
    raise _Refused(
        f"{tag} is none of the types that JSON has; leave it out and put the text in quotes",
        node.start_mark,
    )


_Safe: Final = constructor.SafeConstructor

_Loader.yaml_constructors = {
    f"{_TAG}null": _Safe.construct_yaml_null,
    f"{_TAG}bool": _readable(_Safe.construct_yaml_bool, "true or false"),
    f"{_TAG}int": _readable(_Safe.construct_yaml_int, "a whole number"),
    f"{_TAG}float": _readable(_Safe.construct_yaml_float, "a number"),
    f"{_TAG}str": _Safe.construct_yaml_str,
    f"{_TAG}seq": _Safe.construct_yaml_seq,
    f"{_TAG}map": _Safe.construct_yaml_map,
    None: _refuse_tag,
}

_PLAIN: Final = (
    (f"{_TAG}bool", _BOOLEAN, "yYnNtTfFoO"),
    (f"{_TAG}float", _NUMBER, "-+0123456789."),
    (f"{_TAG}int", _WHOLE_NUMBER, "-+0123456789"),
    (_MERGE, r"<<", "<"),
    (f"{_TAG}null", r"~|null|Null|NULL|", "~nN"),
)
"""What a text without quotes may be besides a text, and how it begins.

YAML's dates, times (``1:30``) and ``=`` are texts here, as in Kubernetes.
"""
for _tag, _pattern, _first in _PLAIN:
    _begins = [*_first, ""] if _tag.endswith("null") else list(_first)
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _begins)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
