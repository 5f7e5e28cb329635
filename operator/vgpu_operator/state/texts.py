"""JSON as the state API writes it."""

import json
from typing import Any

import orjson


def encode(value: Any) -> bytes:
    """Return a value as JSON; also a name that UTF-8 cannot carry, or a number beyond 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
