"""Members of what ``vgpu encode`` is given: of the right type, or a fault that says where."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vgpu_operator.model import errors
from vgpu_operator.wire import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object with its place; what is absent or null is 0, false or empty.

    Attributes:
        where: its path in the JSON (``items[0]``).
    """

    members: Mapping[str, Any]
    where: str

    def text(self, name: str) -> str:
        """Return a text.

        Raises:
            DecodeError: another type.
        """
        value = self.members.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value or ""

    def integer(self, name: str) -> int:
        """Return an integer.

        Raises:
            DecodeError: another type.
        """
        value = self.members.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise self._wrong(name, "an integer", value)
        return value or 0

    def boolean(self, name: str) -> bool:
        """Return a boolean.

        Raises:
            DecodeError: another type.
        """
        value = self.members.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return bool(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return an object.

        Raises:
            DecodeError: another type.
        """
        value = self.members.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return value or {}

    def elements(self, name: str) -> "tuple[Item, ...]":
        """Return the objects of a list.

        Raises:
            DecodeError: no list, or something else in it.
        """
        return of_list(self.members.get(name), where=f"{self.where}.{name}")

    def _wrong(self, name: str, wanted: str, value: object) -> errors.DecodeError:
        where = f"{self.where}.{name}"
        return errors.DecodeError(f"{wanted} is wanted, got {fields.shown(value)}", key=where)


def of_list(value: object, *, where: str) -> tuple[Item, ...]:
    """Return the objects of a list; none where it is null.

    >>> of_list([{"card": "GPU-a0"}], where="items")[0].text("card")
    'GPU-a0'
    >>> of_list([7], where="items")
    Traceback (most recent call last):
    vgpu_operator.model.errors.DecodeError: items[0]: an object is wanted, got 7

    Raises:
        DecodeError: no list, or something else than objects in it.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise errors.DecodeError(f"a list is wanted, got {fields.shown(value)}", key=where)
    found = []
    for place, element in enumerate(value):
        if not isinstance(element, dict):
            raise errors.DecodeError(
                f"an object is wanted, got {fields.shown(element)}", key=f"{where}[{place}]"
            )
        found.append(Item(members=element, where=f"{where}[{place}]"))
    return tuple(found)
