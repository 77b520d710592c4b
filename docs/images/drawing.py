"""A small SVG writer for the figures: boxes, lines and wrapped text on a light panel."""

from __future__ import annotations

from html import escape

WIDTH = 760
MARGIN = 14
CHARACTER = 6.9
"""Mean width of a character at 12 pixels, to wrap text."""

INK, MUTED, LINE, PANEL, WHITE = "#1f2933", "#5b6670", "#b8c0c8", "#f6f7f9", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE, RED = "#1f5fa8", "#a85b00", "#2b7a3d", "#7a3fa0", "#a8322a"
PALE_BLUE, PALE_ORANGE, PALE_GREEN, PALE_GRAY = "#dbe8f7", "#fbe6cc", "#dcf0e0", "#e6e9ec"


def shorten(text: str, width: float) -> str:
    """Return the part of a line that fits a width in pixels."""
    fits = int(width / CHARACTER)
    return text if len(text) <= fits else text[: fits - 1].rstrip(" .,") + "…"


def wrap(text: str, width: float, lines: int) -> list[str]:
    """Break a text into at most so many lines that fit a width in pixels."""
    found = [""]
    for word in text.split():
        if len(found[-1]) + len(word) + 1 > width / CHARACTER and found[-1]:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    if len(found) > lines:
        found[lines - 1] = shorten(f"{found[lines - 1]} {found[lines]} more", width)
    return [shorten(line, width) for line in found[:lines]]


class Drawing:
    """An SVG file in the making; the panel makes it readable on light and dark pages."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def box(  # noqa: D102 - as in SVG
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = WHITE,
        line: str = LINE,
    ) -> None:
        self._parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4" '
            f'fill="{fill}" stroke="{line}"/>'
        )

    def line(  # noqa: D102 - as in SVG
        self, x: float, y: float, to_x: float, to_y: float, color: str = LINE, width: float = 1
    ) -> None:
        self._parts.append(
            f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{to_x:.0f}" y2="{to_y:.0f}" stroke="{color}" '
            f'stroke-width="{width:.1f}"/>'
        )

    def circle(self, x: float, y: float, radius: float, fill: str) -> None:  # noqa: D102 - as in SVG
        self._parts.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius:.1f}" fill="{fill}" stroke="{WHITE}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        color: str = INK,
        *,
        bold: bool = False,
        anchor: str = "start",
        size: int = 12,
    ) -> None:
        """Write one line; y is its baseline."""
        weight = ' font-weight="600"' if bold else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        points = "" if size == 12 else f' font-size="{size}"'
        self._parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}"{weight}{place}{points}>'
            f"{escape(text)}</text>"
        )

    def badge(self, x: float, y: float, number: int, fill: str) -> None:
        """Draw a number in a circle around a point."""
        self.circle(x, y, 8, fill)
        self.text(x, y + 4, str(number), WHITE, bold=True, anchor="middle", size=11)

    def svg(self, height: float) -> str:
        """Return the file."""
        size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
        fonts = 'font-size="12" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {fonts}>',
            f"<title>{escape(self._title)}</title>",
            f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="{PANEL}"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"
