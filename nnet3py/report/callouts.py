"""Names in the drawing of memory that do not fit into their bars: tags with a line to the bar, and a list below."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from nnet3py.report.svg import GRAY, INK, Drawing, text_width

MOST_TAGS = 150         # more would hide what they are about; then the list says where the bars are
TAG_SIZE = 9.0          # of their texts
_DISTANCES, _DIRECTIONS = (12.0, 20.0, 32.0, 46.0, 64.0, 84.0), 16
_MARGIN = 3.0           # around texts, whose width is an estimate
_LIST_SIZE, _LINE = 12.0, 17.0
_COLUMNS, _COLUMN_GAP, _LEAST_LINES = 3, 20.0, 4

Area = tuple[float, float, float, float]   # left, top, right, bottom
Point = tuple[float, float]


class Callouts:
    """Tags inside a frame, each at the first place around its bar where it hides nothing.

    Parameters
    ----------
    frame : where tags may stand
    taken : areas that no tag may cover
    texts : those of them that no line may cross
    """

    def __init__(self, frame: Area, taken: Sequence[Area], texts: Sequence[Area]) -> None:
        self.frame = frame
        self.texts = np.array(texts, float).reshape(-1, 4) + (-_MARGIN, 0.0, _MARGIN, 0.0)
        self.taken = np.vstack([np.array(taken, float).reshape(-1, 4), self.texts])
        self.lines: list[tuple[Point, Point]] = []

    def place(self, drawing: Drawing, text: str, bar: Area) -> bool:
        """Draw a tag for ``bar``; False if there is no place for it."""
        width, height = text_width(text, TAG_SIZE) + 4, TAG_SIZE + 3
        for distance in _DISTANCES:
            for anchor in _anchors(bar):
                for number in range(_DIRECTIONS):
                    angle = 2 * math.pi * number / _DIRECTIONS
                    x, y = anchor[0] + distance * math.cos(angle), anchor[1] - distance * math.sin(angle)
                    area = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
                    line = (anchor, (min(max(anchor[0], area[0]), area[2]), min(max(anchor[1], area[1]), area[3])))
                    if self._is_free(area, line):
                        self._draw(drawing, text, area, line)
                        return True
        return False

    def _is_free(self, area: Area, line: tuple[Point, Point]) -> bool:
        left, top, right, bottom = self.frame
        if area[0] < left or area[1] < top or area[2] > right or area[3] > bottom:
            return False
        hidden = (area[0] < self.taken[:, 2]) & (self.taken[:, 0] < area[2]) & (area[1] < self.taken[:, 3]) & (
            self.taken[:, 1] < area[3])
        if hidden.any() or crosses(line, self.texts).any():
            return False
        return not any(crosses(other, np.array([area]))[0] or _cross(line, other) for other in self.lines)

    def _draw(self, drawing: Drawing, text: str, area: Area, line: tuple[Point, Point]) -> None:
        drawing.line(line, INK, 0.7)
        drawing.box(area[0], area[1], area[2] - area[0], area[3] - area[1], GRAY, "#ffffff", radius=2.0, border=0.7)
        drawing.text((area[0] + area[2]) / 2, (area[1] + area[3]) / 2 + 0.35 * TAG_SIZE, text, TAG_SIZE, "middle")
        self.taken = np.vstack([self.taken, area])
        self.texts = np.vstack([self.texts, area])
        self.lines.append(line)


def draw_list(drawing: Drawing, title: str, entries: Iterable[str], width: float) -> None:
    """Below everything, in columns from x = 0."""
    room = (width + _COLUMN_GAP) / _COLUMNS - _COLUMN_GAP
    lines = [line for entry in entries for line in wrapped(entry, room)]
    if not lines:
        return
    top = drawing.bounds[3] + 34
    drawing.text(0, top, title, _LIST_SIZE + 1, bold=True)
    height = max(-(-len(lines) // _COLUMNS), _LEAST_LINES)
    for number, line in enumerate(lines):
        column, row = divmod(number, height)
        drawing.text(column * (room + _COLUMN_GAP), top + _LINE * (row + 1.2), line, _LIST_SIZE)


def wrapped(text: str, room: float) -> list[str]:
    """Lines that fit into ``room``; all but the first are indented."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1].strip() else lines[-1] + word
        if text_width(longer, _LIST_SIZE) > room and lines[-1].strip():
            lines.append("\N{NO-BREAK SPACE}" * 4 + word)
        else:
            lines[-1] = longer
    return lines


def _anchors(bar: Area) -> list[Point]:
    """Return the middle of a bar, and points near its ends."""
    left, top, right, bottom = bar
    inset = min(4.0, (right - left) / 2)
    return [(x, (top + bottom) / 2) for x in ((left + right) / 2, left + inset, right - inset)]


def crosses(line: tuple[Point, Point], areas: np.ndarray) -> np.ndarray:
    """bool (areas,): whether a straight line enters each of ``areas``, float (areas, 4)."""
    (x, y), (dx, dy) = line[0], (line[1][0] - line[0][0], line[1][1] - line[0][1])
    enter, leave = np.zeros(len(areas)), np.ones(len(areas))
    inside = np.ones(len(areas), bool)
    for start, step, low, high in ((x, dx, areas[:, 0], areas[:, 2]), (y, dy, areas[:, 1], areas[:, 3])):
        if step == 0.0:
            inside &= (low < start) & (start < high)
        else:
            first, last = (low - start) / step, (high - start) / step
            enter, leave = np.maximum(enter, np.minimum(first, last)), np.minimum(leave, np.maximum(first, last))
    return inside & (enter < leave)


def _cross(first: tuple[Point, Point], second: tuple[Point, Point]) -> bool:
    """Return whether two straight lines cross."""
    def side(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = first, second
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
