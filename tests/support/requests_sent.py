"""Every place in the code that sends a request to the API server."""

import ast
from pathlib import Path
from typing import Final

import vgpu_operator

SOURCE: Final = Path(vgpu_operator.__file__).parent

CALLS: Final = (
    *("request", "get", "create", "patch", "replace", "delete", "pages", "list", "watch"),
    *("text", "server_time"),
)
"""Methods of the client that send something."""


def places(*parts: str) -> set[str]:
    """Return every place in these files and packages that calls a method of the client."""
    found = set()
    for name in parts:
        path = SOURCE / name
        for file in [path] if path.is_file() else sorted(path.glob("*.py")):
            if file.name == "client.py":
                continue
            for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    where = f"{file.relative_to(SOURCE)} {function.name}"
                    found |= {f"{where} {method}" for method in _calls(function)}
    return found


def _calls(function: ast.AST) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CALLS
        and isinstance(holder := node.func.value, ast.Attribute)
        and holder.attr in ("_client", "client", "_kube", "kube")
    }
