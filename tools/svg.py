"""A small pen for the pictures of the documentation.

A picture brings its own ground and follows the reader's system into the dark,
so that it can be read wherever it is shown. Sizes are in SVG's user units.
"""

import html
from dataclasses import dataclass, field
from typing import Final

_STYLE: Final = """
  .ground { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5 }
  .ours { fill: #e8eafd; stroke: #3f51b5; stroke-width: 2 }
  .zone { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
  .line { fill: none; stroke: #57606a; stroke-width: 1.5 }
  .tip { fill: #57606a }
  .lane { stroke: #d0d7de; stroke-width: 1.5 }
  .one { fill: #3f51b5 } .two { fill: #00897b } .three { fill: #ef6c00 } .free { fill: #d8dee4 }
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px } .strong { font-weight: 600 } .faint { fill: #57606a }
  .on { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #161b22; stroke: #30363d }
    .box { fill: #21262d; stroke: #8b949e }
    .ours { fill: #262c5a; stroke: #8c9eff }
    .zone { stroke: #6e7681 }
    .line { stroke: #8b949e } .tip { fill: #8b949e }
    .lane { stroke: #30363d }
    .one { fill: #7986cb } .two { fill: #26a69a } .three { fill: #fb8c00 } .free { fill: #30363d }
    text { fill: #e6edf3 }
    .faint { fill: #9da7b3 }
    .on { fill: #0d1117 }
  }
"""


@dataclass(slots=True, kw_only=True)
class Picture:
    """A drawing under way; ``text`` gives it as a file.

    Attributes:
        title: what it shows, for those who hear the page.
    """

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the whole SVG document."""
        size = f'width="{self.width}" height="{self.height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self.width} {self.height}" role="img">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{_STYLE}</style>\n"
            f'<rect class="ground" x="1" y="1" width="{self.width - 2}" '
            f'height="{self.height - 2}" rx="8"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"

    def rect(
        self, corner: tuple[float, float], size: tuple[float, float], *, kind: str = "box"
    ) -> None:
        """Draw a rectangle from its upper left corner."""
        (x, y), (width, height) = corner, size
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" '
            f'width="{width:g}" height="{height:g}" rx="5"/>'
        )

    def say(
        self, at: tuple[float, float], words: str, *, kind: str = "", anchor: str = "middle"
    ) -> None:
        """Write one line whose base line goes through a point."""
        self._parts.append(
            f'<text class="{kind}" x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}">'
            f"{html.escape(words)}</text>"
        )

    def box(
        self,
        corner: tuple[float, float],
        size: tuple[float, float],
        lines: tuple[str, ...],
        *,
        kind: str = "box",
    ) -> None:
        """Draw a rectangle with a heading in its middle, and smaller lines below it."""
        self.rect(corner, size, kind=kind)
        x = corner[0] + size[0] / 2
        y = corner[1] + size[1] / 2 - 9 * (len(lines) - 1) + 5
        for number, words in enumerate(lines):
            self.say((x, y + 18 * number), words, kind="strong" if number == 0 else "small faint")

    def arrow(self, *points: tuple[float, float], both: bool = False) -> None:
        """Draw a line through points, with a tip at its end, or at both of them."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="line" d="M{path}"/>')
        self._tip(points[-2], points[-1])
        if both:
            self._tip(points[1], points[0])

    def lane(self, x: float, top: float, bottom: float) -> None:
        """Draw the life line of somebody in a sequence."""
        self._parts.append(
            f'<line class="lane" x1="{x:g}" y1="{top:g}" x2="{x:g}" y2="{bottom:g}"/>'
        )

    def _tip(self, before: tuple[float, float], at: tuple[float, float]) -> None:
        length = ((at[0] - before[0]) ** 2 + (at[1] - before[1]) ** 2) ** 0.5
        ahead = ((at[0] - before[0]) / length, (at[1] - before[1]) / length)
        foot = (at[0] - 9 * ahead[0], at[1] - 9 * ahead[1])
        aside = (-4.5 * ahead[1], 4.5 * ahead[0])
        corners = (
            at,
            (foot[0] + aside[0], foot[1] + aside[1]),
            (foot[0] - aside[0], foot[1] - aside[1]),
        )
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._parts.append(f'<polygon class="tip" points="{points}"/>')
