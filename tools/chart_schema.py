"""A values schema for Helm from pydantic models.

Helm validates what is left after it has merged the user's values into the chart's, and
people take a default away by ``null``: so every value may be null. References are
resolved, because Helm's messages name the path of the value and not of the schema.
"""

from typing import Any, Final

import pydantic
from chart_kinds import IGNORED

DIALECT: Final = "http://json-schema.org/draft-07/schema#"

_NOISE: Final = ("title", "default", "discriminator")


def schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Return the schema of a whole values file."""
    made = model.model_json_schema(by_alias=True)
    resolved = _resolved(made, made.get("$defs", {}))
    return {"$schema": DIALECT, "title": "Values", **resolved}


def _resolved(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, in which every property may be null."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    out = {key: value for key, value in node.items() if key not in (*_NOISE, "$defs")}
    if IGNORED in out:
        return {"description": f"Ignored: {out[IGNORED]}."}
    if "description" in out:
        out["description"] = " ".join(out["description"].split("\n\n")[0].split())
    for word in ("anyOf", "oneOf"):
        if word in out:
            out["anyOf"] = [_resolved(one, definitions) for one in out.pop(word)]
    if "properties" in out:
        out["properties"] = {
            name: nullable(_resolved(one, definitions)) for name, one in out["properties"].items()
        }
    for word in ("items", "additionalProperties"):
        if isinstance(out.get(word), dict):
            one = _resolved(out[word], definitions)
            out[word] = nullable(one) if word == "additionalProperties" else one
    return _simplified(out)


def nullable(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also takes null."""
    if "anyOf" in node:
        if {"type": "null"} in node["anyOf"]:
            return node
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    kind = node.get("type")
    if kind is None:
        return node
    kinds = kind if isinstance(kind, list) else [kind]
    out = {**node, "type": [*kinds, "null"] if "null" not in kinds else kinds}
    if "enum" in out and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    return out


def _simplified(node: dict[str, Any]) -> dict[str, Any]:
    """Return ``type: [a, null]`` for ``anyOf: [{type: a}, {type: null}]``: its fault is shorter."""
    options = node.get("anyOf")
    if options is None or {"type": "null"} not in options:
        return node
    others = [one for one in options if one != {"type": "null"}]
    if len(others) != 1:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return nullable({**others[0], **rest})
