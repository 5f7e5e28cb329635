"""The forms that a list of cards is written in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vgpu_operator.cli import forms
from vgpu_operator.model import device
from vgpu_operator.vendors import enflame_drs, metax_sgpu
from vgpu_operator.wire import gcu_capacity, node_register, sgpu_json

_SHORT_COMMAS: Final = 6

_OF_SOME_VENDORS: Final[Mapping[str, Callable[[Sequence[device.Device]], str]]] = {
    metax_sgpu.REGISTER_KEY: sgpu_json.encode_cards,
    enflame_drs.REGISTER_KEY: gcu_capacity.encode_capacity,
}
"""By key: vendors whose plugin has a form of its own, and no other."""

UNWRITTEN: Final[Mapping[str, frozenset[str]]] = {metax_sgpu.REGISTER_KEY: frozenset({"index"})}
"""By key: members of ``vgpu decode``'s items that follow from a card's place in the text."""


def has_several(key: str) -> bool:
    """Whether the annotation of that key may be written in any ``Form``."""
    return key not in _OF_SOME_VENDORS


def of_text(text: str, key: str) -> forms.Form | None:
    """Return the form of a register text; None where its vendor has only one.

    >>> of_text("a,10,7680,100,T4,0,true:", ""), of_text("[]", "").value
    (<Form.LEGACY_SHORT: 'legacy-short'>, 'json')
    """
    if not has_several(key):
        return None
    if text.lstrip().startswith("["):
        return forms.Form.JSON
    commas = {part.count(",") for part in text.split(":") if part.strip()}
    return forms.Form.LEGACY_SHORT if commas == {_SHORT_COMMAS} else forms.Form.LEGACY


def encode(cards: Sequence[device.Device], *, key: str, form: forms.Form) -> str:
    """Write the cards; ``form`` counts where the vendor has several.

    Raises:
        ValueError: a text holds what parts fields or cards in that form.
    """
    if key in _OF_SOME_VENDORS:
        return _OF_SOME_VENDORS[key](cards)
    if form is forms.Form.JSON:
        return node_register.encode_register(cards, custom_info=True)
    # No card at all is a lone end of one: an empty text says nothing.
    return node_register.encode_register_colon(cards, short=form is forms.Form.LEGACY_SHORT) or ":"
