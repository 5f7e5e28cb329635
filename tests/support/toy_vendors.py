"""Small vendors that exist nowhere, for rules that the common ones do not have."""

from collections.abc import Sequence

from hypothesis import strategies as st

from vgpu_operator.model import allocation, device, fitting, policy
from vgpu_operator.vendors import base, walk


def spec(keyword: str) -> base.VendorSpec:
    """Return names made of the keyword."""
    word = keyword.lower()
    return base.VendorSpec(
        keyword=keyword,
        id=word,
        register_key=f"{word}.example/register",
        handshake_key=None,
        to_allocate_key=f"{word}.example/to-allocate",
        allocated_key=f"{word}.example/allocated",
        lock=None,
        count_resource=f"{word}.example/card",
    )


class ByHand(base.Common):
    """The common rules, asked node by node: everywhere, or where the number of cards is odd."""

    def __init__(self, keyword: str, *, everywhere: bool = True) -> None:
        self.spec = spec(keyword)
        self.vectorised = not everywhere
        self.asked = 0

    def needs_choosing(
        self, devices: Sequence[device.Device], policies: Sequence[policy.CardPolicy]
    ) -> bool:
        """Say so of an odd number of cards."""
        return len(devices) % 2 == 1

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Apply the common rules and count the questions."""
        self.asked += 1
        return walk.first_fitting(node, ask)


COMMON_BY_HAND = st.fixed_dictionaries(
    {},
    optional={
        keyword: st.builds(ByHand, st.just(keyword), everywhere=st.booleans())
        for keyword in ("NVIDIA", "MLU")
    },
)
"""Some vendors by hand, the others at once."""


class Masks(base.Common):
    """Cards of a few cores that are handed out bit by bit; the lowest free bit first."""

    vectorised = False
    mask_cores = True

    def __init__(self, keyword: str) -> None:
        self.spec = spec(keyword)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the asked number of bits from the first card that has them."""
        for index, card in enumerate(node.cards):
            free = card.device.cores_percent & ~card.used_cores
            bits = [1 << bit for bit in range(free.bit_length()) if free & (1 << bit)]
            if len(bits) >= ask.wish.cores_percent:
                mask = sum(bits[: ask.wish.cores_percent])
                return (fitting.Pick(card=index, memory_mib=0, cores=mask),)
        return fitting.Refused(counts={"NoBits": len(node.cards)})


class Slices(base.Common):
    """A share takes as many of the card's slots as it asks cores, and rounds its memory up."""

    vectorised = False

    def __init__(self, keyword: str) -> None:
        self.spec = spec(keyword)

    def choose(self, node: fitting.NodeState, ask: fitting.Ask) -> fitting.Answer:
        """Take the first card with enough slots."""
        slots = ask.wish.cores_percent
        for index, card in enumerate(node.cards):
            if card.device.slots - card.used_slots >= slots:
                memory_mib = card.device.memory_mib * slots // card.device.slots
                return (fitting.Pick(card=index, memory_mib=memory_mib, cores=slots, slots=slots),)
        return fitting.Refused(counts={"ModeNotFit": 1}, of=7)

    def slots_of(self, share: allocation.DeviceShare, card: device.Device | None) -> int:
        """Return the cores: one slot each."""
        return share.cores_percent
