"""Whether cards are hidden from containers that ask for none: the pod may say so itself.

The vendor's ``overwriteEnv`` is the default. A pod overrules it for all its
containers, and a container's entry overrules the pod. The words are HAMi's,
newer than v2.10.0 (its pull request 2966).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_operator.wire import fields, keys, shape

_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiding:
    """What a pod says.

    Attributes:
        whole_pod: for every container; None where the pod leaves it to the default.
        by_container: for single containers, by name.
        warnings: a sentence for each text that says nothing.
    """

    whole_pod: bool | None = None
    by_container: Mapping[str, bool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def hides(self, container: str, *, default: bool) -> bool:
        """Whether that container is kept from seeing cards."""
        wanted = self.by_container.get(container, self.whole_pod)
        return default if wanted is None else wanted


def of_pod(pod: Mapping[str, Any]) -> Hiding:
    """Return what the pod's annotations say; what cannot be read counts as not said.

    >>> said = of_pod({"metadata": {"annotations": {"hami.io/overwrite-env": "true"}}})
    >>> said.hides("main", default=False)
    True
    """
    annotations = shape.annotations(pod)
    warnings: list[str] = []
    text = annotations.get(keys.HIDE_CARDS)
    whole_pod = _WORDS.get(text) if isinstance(text, str) else None
    if text is not None and whole_pod is None:
        warnings.append(_ignored(keys.HIDE_CARDS, fields.shown(text), "write true or false"))
    by_container: dict[str, bool] = {}
    text = annotations.get(keys.HIDE_CARDS_BY_CONTAINER)
    for name, value in _entries(text, warnings).items():
        wanted = value if isinstance(value, bool) else _WORDS.get(shape.text(value))
        if wanted is None:
            said = f"{fields.shown(value)} for {fields.shown(name)}"
            warnings.append(_ignored(keys.HIDE_CARDS_BY_CONTAINER, said, "write true or false"))
        else:
            by_container[name] = wanted
    return Hiding(whole_pod=whole_pod, by_container=by_container, warnings=tuple(warnings))


def _entries(text: object, warnings: list[str]) -> Mapping[str, Any]:
    """Return the members of the JSON object, none when it is not one."""
    if text is None:
        return {}
    try:
        found = json.loads(shape.text(text))
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    hint = 'write containers by name, such as {"main": "true"}'
    warnings.append(_ignored(keys.HIDE_CARDS_BY_CONTAINER, fields.shown(text), hint))
    return {}


def _ignored(key: str, said: str, hint: str) -> str:
    return f"annotation {key}: {said} is ignored; {hint}"
