"""A small writer of SVG drawings: boxes, lines, arrows and text on a white page, in few colors."""
from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, GRAY, PALE = "#22303c", "#8a96a3", "#eef1f4"
BLUE, GREEN, ORANGE, VIOLET = "#2f6db3", "#2e8b57", "#c8641e", "#8b5fbf"
FILL = {BLUE: "#dce9f7", GREEN: "#dcf1e4", ORANGE: "#fbe6d5", GRAY: PALE}     # of a box with such a border

_WIDTH, _BOLD_WIDTH, _MONO_WIDTH = 0.58, 0.63, 0.61    # of a character, in units of the size: on the safe side
_HEAD = 8.0     # length of an arrow's head

Point = tuple[float, float]


def text_width(text: str, size: float, bold: bool = False, mono: bool = False) -> float:
    """How much room a text takes, not less than it really does in common fonts."""
    return len(text) * size * (_MONO_WIDTH if mono else _BOLD_WIDTH if bold else _WIDTH)


def fitted(text: str, room: float, size: float, bold: bool = False, mono: bool = False) -> str:
    """``text``, cut so that it fits into ``room``; empty if not even three characters do."""
    if text_width(text, size, bold, mono) <= room:
        return text
    length = int(room / text_width("x", size, bold, mono)) - 1
    return text[:length] + "…" if length >= 3 else ""


class Drawing:
    """Shapes in a coordinate system with y downwards; the page takes their bounds and a margin.

    ``texts`` keeps the boxes (left, top, right, bottom) of all texts, for checks.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.shapes: list[str] = []
        self.texts: list[tuple[str, tuple[float, float, float, float]]] = []
        self._bounds = [math.inf, math.inf, -math.inf, -math.inf]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of all shapes."""
        left, top, right, bottom = self._bounds
        return (left, top, right, bottom) if left <= right else (0.0, 0.0, 0.0, 0.0)

    def _cover(self, *points: Point) -> None:
        for x, y in points:
            self._bounds = [min(self._bounds[0], x), min(self._bounds[1], y),
                            max(self._bounds[2], x), max(self._bounds[3], y)]

    def box(self, x: float, y: float, width: float, height: float, color: str = BLUE, fill: str | None = None,
            radius: float = 6.0, border: float = 1.5, tip: str = "") -> None:
        """Return a rectangle with its upper left corner at (x, y); ``tip`` shows when the mouse is on it."""
        self._cover((x, y), (x + width, y + height))
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self.shapes.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}" '
            f'fill="{fill or FILL.get(color, "none")}" stroke="{color}" stroke-width="{_n(border)}"'
            + (f">{inner}</rect>" if inner else "/>"))

    def text(self, x: float, y: float, text: str, size: float = 14.0, anchor: str = "start", color: str = INK,
             bold: bool = False, mono: bool = False) -> None:
        """Return a line of text whose baseline is at y; ``anchor`` is start, middle or end."""
        width = text_width(text, size, bold, mono)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        area = (left, y - 0.8 * size, left + width, y + 0.25 * size)
        self._cover(area[:2], area[2:])
        self.texts.append((text, area))
        style = (' font-weight="bold"' if bold else "") + (f' font-family="{MONO}"' if mono else "")
        self.shapes.append(f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" '
                           f'fill="{color}"{style}>{escape(text)}</text>')

    def line(self, points: Sequence[Point], color: str = GRAY, width: float = 1.5, dashed: bool = False,
             arrow: bool = False) -> None:
        """Return a line through ``points``, with an arrow's head at the last one on request."""
        ends = list(points)
        if arrow:
            self._head(ends[-2], ends[-1], color, width)
            ends[-1] = _shortened(ends[-2], ends[-1])
        self._stroke("M " + " L ".join(f"{_n(x)} {_n(y)}" for x, y in ends), color, width, dashed)
        self._cover(*points)

    def curve(self, start: Point, control1: Point, control2: Point, end: Point, color: str = GRAY, width: float = 1.5,
              dashed: bool = False, arrow: bool = False) -> None:
        """Return a cubic Bézier curve, with an arrow's head at its end on request."""
        last = end
        if arrow:
            self._head(control2, end, color, width)
            last = _shortened(control2, end)
        points = (start, control1, control2, last)
        self._stroke("M {} {} C {} {}, {} {}, {} {}".format(*(_n(v) for point in points for v in point)), color, width,
                     dashed)
        for i in range(9):      # the curve, not its control points
            t = i / 8
            weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3
            self._cover((sum(w * p[0] for w, p in zip(weights, points, strict=True)),
                         sum(w * p[1] for w, p in zip(weights, points, strict=True))))

    def _stroke(self, path: str, color: str, width: float, dashed: bool) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.shapes.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{_n(width)}"{dash}/>')

    def _head(self, before: Point, tip: Point, color: str, width: float) -> None:
        dx, dy = tip[0] - before[0], tip[1] - before[1]
        length = math.hypot(dx, dy) or 1.0
        ux, uy = dx / length, dy / length
        half = 0.42 * _HEAD + 0.3 * width
        base = tip[0] - _HEAD * ux, tip[1] - _HEAD * uy
        points = (tip, (base[0] - half * uy, base[1] + half * ux), (base[0] + half * uy, base[1] - half * ux))
        self._cover(*points)
        self.shapes.append('<polygon points="{}" fill="{}"/>'.format(
            " ".join(f"{_n(x)},{_n(y)}" for x, y in points), color))

    def legend(self, entries: Sequence[tuple[str, str]], x: float, y: float, size: float = 14.0) -> None:
        """Little boxes of colors with words beside them, in one row from (x, y)."""
        for color, words in entries:
            self.box(x, y - 0.8 * size, 1.3 * size, size, color, radius=3.0)
            self.text(x + 1.8 * size, y, words, size)
            x += 3.2 * size + text_width(words, size)

    def svg(self, margin: float = 20.0) -> str:
        """Return the file's text."""
        return _page(self.title, self.bounds, self.shapes, margin)


def stacked(title: str, drawings: Sequence[Drawing], gap: float = 60.0, margin: float = 20.0) -> str:
    """One file's text of several drawings, one below the other."""
    shapes, y, right = [], 0.0, 0.0
    for drawing in drawings:
        left, top, far, bottom = drawing.bounds
        shapes += [f'<g transform="translate({_n(-left)} {_n(y - top)})">', *drawing.shapes, "</g>"]
        y += bottom - top + gap
        right = max(right, far - left)
    return _page(title, (0.0, 0.0, right, max(y - gap, 0.0)), shapes, margin)


def _page(title: str, bounds: tuple[float, float, float, float], shapes: Sequence[str], margin: float) -> str:
    left, top, right, bottom = bounds
    width, height = _n(right - left + 2 * margin), _n(bottom - top + 2 * margin)
    corner = f'x="{_n(left - margin)}" y="{_n(top - margin)}"'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="{_n(left - margin)} {_n(top - margin)} {width} {height}" font-family={quoteattr(FONT)}>\n'
            f'<title>{escape(title)}</title>\n<rect {corner} width="{width}" height="{height}" fill="#ffffff"/>\n'
            + "\n".join(shapes) + "\n</svg>\n")


def _shortened(before: Point, tip: Point) -> Point:
    """Return the end of the line under an arrow's head, so that the line does not stick out at its tip."""
    dx, dy = tip[0] - before[0], tip[1] - before[1]
    length = math.hypot(dx, dy) or 1.0
    return tip[0] - 0.7 * _HEAD * dx / length, tip[1] - 0.7 * _HEAD * dy / length


def _n(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
