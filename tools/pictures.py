"""The pictures of the documentation: ``docs/images/*.svg``, drawn by ``make docs``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import svg

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "images"

_Step = tuple[int, int, str]
"""From which lane to which, and what is said; to itself: what is done there."""


def texts() -> dict[Path, str]:
    """Return every picture's file with its text."""
    return {FOLDER / f"{name}.svg": draw().text() for name, draw in PICTURES.items()}


def overview() -> svg.Picture:
    """Where the parts run, and which of them is the operator."""
    picture = svg.Picture(
        width=860,
        height=360,
        title="A pod goes through the API server to a second kube-scheduler, which asks the "
        "operator; HAMi's device plugin on the node serves it.",
    )
    picture.rect((230, 30), (280, 300), kind="zone")
    picture.say((370, 22), "scheduler pod, two or more replicas", kind="small faint")
    picture.rect((620, 30), (220, 300), kind="zone")
    picture.say((730, 22), "every GPU node", kind="small faint")
    picture.box((20, 40), (150, 56), ("kubectl apply", "gpumem: 4000"))
    picture.box((20, 150), (150, 70), ("kube-apiserver", "nodes, pods, leases"))
    picture.box((250, 60), (240, 60), ("kube-scheduler", "stock image, second scheduler"))
    picture.box(
        (250, 190),
        (240, 120),
        ("vgpu-operator", "webhook", "filter, prioritize, bind", "ledger: who holds what"),
        kind="ours",
    )
    picture.box((640, 60), (180, 60), ("kubelet", "starts the containers"))
    picture.box((640, 190), (180, 60), ("device plugin", "HAMi's: cards, limits"))
    picture.box((640, 270), (180, 46), ("GPU, NPU, DCU …",))
    picture.arrow((95, 96), (95, 150))
    picture.arrow((370, 120), (370, 190), both=True)
    picture.say((378, 160), "loopback", kind="small faint", anchor="start")
    picture.arrow((250, 90), (200, 90), (200, 170), (170, 170), both=True)
    picture.arrow((170, 200), (250, 230), both=True)
    picture.say((210, 268), "watch, bind", kind="small faint")
    picture.arrow((640, 220), (490, 250), both=True)
    picture.say((565, 208), "annotations", kind="small faint")
    picture.say((565, 276), "through the API server", kind="small faint")
    picture.arrow((730, 120), (730, 190))
    picture.say((738, 160), "Allocate", kind="small faint", anchor="start")
    picture.arrow((730, 250), (730, 270))
    return picture


_LANES: Final = ("device plugin", "kube-apiserver", "vgpu-operator", "kube-scheduler")

_PROTOCOL: Final[Sequence[tuple[str, Sequence[_Step]]]] = (
    ("Register", ((0, 1, "Node: register = the cards"), (1, 2, "watch"))),
    ("Handshake", ((2, 1, "Node: handshake = now"),)),
    (
        "Filter",
        ((1, 3, "new pod"), (3, 2, "which nodes fit?"), (2, 3, "nodes, reasons, scores")),
    ),
    (
        "Bind",
        (
            (3, 2, "bind to this node"),
            (2, 2, "choose cards, charge the ledger"),
            (2, 1, "Node: mutex.lock"),
            (2, 1, "Binding with devices-to-allocate"),
        ),
    ),
    (
        "Allocate",
        (
            (1, 0, "pod on this node"),
            (0, 1, "Pod: bind-phase = success"),
            (0, 1, "Node: lock removed"),
        ),
    ),
)


def protocol() -> svg.Picture:
    """Who writes what, from the cards' registration to the pod that runs."""
    rows = sum(len(steps) for _, steps in _PROTOCOL)
    height = 90 + rows * 34 + len(_PROTOCOL) * 16
    picture = svg.Picture(
        width=860,
        height=height,
        title="The protocol: register, handshake, filter, bind, allocate",
    )
    lanes = (190, 390, 590, 780)
    for x, name in zip(lanes, _LANES, strict=True):
        ours = name == "vgpu-operator"
        picture.lane(x, 62, height - 16)
        picture.box((x - 70, 20), (140, 42), (name,), kind="ours" if ours else "box")
    y = 92
    for name, steps in _PROTOCOL:
        picture.say((16, y + 4), name, kind="strong", anchor="start")
        for start, end, words in steps:
            if start == end:
                picture.rect((lanes[start] - 105, y - 16), (210, 26), kind="ours")
                picture.say((lanes[start], y + 2), words, kind="small")
            else:
                picture.say(((lanes[start] + lanes[end]) / 2, y - 5), words, kind="small")
                picture.arrow((lanes[start], y), (lanes[end], y))
            y += 34
        y += 16
    return picture


def card() -> svg.Picture:
    """What the ledger charges on one card for three pods."""
    picture = svg.Picture(
        width=860,
        height=250,
        title="One card of 24576 MiB, 100 percent of cores and 10 shares, held by three pods",
    )
    picture.say((20, 36), "One card: 24576 MiB, 10 shares", kind="strong", anchor="start")
    pods = (("one", 8000, 30), ("two", 4000, 30), ("three", 2000, 0))
    for row, (name, full) in enumerate((("memory", 24576), ("cores", 100), ("shares", 10))):
        y = 60 + row * 44
        picture.say((20, y + 20), name, anchor="start")
        x = 110.0
        for kind, memory, cores in pods:
            amount = {"memory": memory, "cores": cores, "shares": 1}[name]
            width = 560 * amount / full
            if amount:
                picture.rect((x, y), (width, 30), kind=kind)
                shown = str(amount) if name == "memory" else f"{amount} %"
                if width > 40 and name != "shares":
                    picture.say((x + width / 2, y + 20), shown, kind="small on")
            x += width
        picture.rect((x, y), (670 - x, 30), kind="free")
        left = {"memory": "10576 MiB free", "cores": "40 % free", "shares": "7 free"}[name]
        picture.say((686, y + 20), left, kind="small faint", anchor="start")
    legend = ("train: 8000 MiB, 30 %", "serve: 4000 MiB, 30 %", "notebook: 2000 MiB, no limit")
    for place, (words, (kind, _, _)) in enumerate(zip(legend, pods, strict=True)):
        x = 110 + place * 200
        picture.rect((x, 206), (16, 16), kind=kind)
        picture.say((x + 24, 219), words, kind="small", anchor="start")
    return picture


def leadership() -> svg.Picture:
    """How two replicas agree who writes."""
    picture = svg.Picture(
        width=860,
        height=280,
        title="The replica whose kube-scheduler holds the Lease leads and writes; the other "
        "follows, keeps a warm ledger and writes nothing",
    )
    picture.box((340, 24), (180, 56), ("Lease", "holder: pod-a_…"))
    picture.box((300, 200), (260, 56), ("kube-apiserver", "nodes, pods"))
    for x, name, words, kind in (
        (40, "pod-a leads", "binds, locks, handshakes", "ours"),
        (600, "pod-b follows", "warm ledger, webhook", "box"),
    ):
        picture.box((x, 24), (220, 56), ("kube-scheduler", "of " + name.split()[0]))
        picture.box((x, 120), (220, 60), (name, words), kind=kind)
    picture.arrow((260, 52), (340, 52))
    picture.say((300, 44), "renews", kind="small faint")
    picture.arrow((600, 52), (520, 52))
    picture.say((560, 44), "waits", kind="small faint")
    picture.arrow((150, 80), (150, 120), both=True)
    picture.arrow((340, 70), (260, 132))
    picture.arrow((520, 70), (600, 132))
    picture.say((430, 110), "both operators read the holder", kind="small faint")
    picture.arrow((150, 180), (150, 228), (300, 228), both=True)
    picture.say((225, 220), "reads, writes", kind="small faint")
    picture.arrow((560, 228), (710, 228), (710, 180))
    picture.say((635, 220), "reads only", kind="small faint")
    return picture


PICTURES: Final[Mapping[str, Callable[[], svg.Picture]]] = {
    "card": card,
    "leadership": leadership,
    "overview": overview,
    "protocol": protocol,
}
"""Every picture by the name of its file."""
