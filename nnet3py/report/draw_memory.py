"""Drawing of a computation's memory over its commands: lifetimes of matrices as bars, with tags and a list of names."""
from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.computation import CommandType
from nnet3py.report.svg import BLUE, GRAY, GREEN, INK, ORANGE, PALE, Drawing, text_width
from nnet3py.report.tables import BYTES, Lifetime, bytes_text, lifetimes
from nnet3py.runtime.binding import plan_memory

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.network.nnet import Nnet

MOST_TAGS = 150         # more tags would hide the bars; the list has their places then
TAG_SIZE = 9.0          # of the texts of tags
_DISTANCES, _DIRECTIONS = (12.0, 20.0, 32.0, 46.0, 64.0, 84.0), 16
_MARGIN = 3.0           # around texts, whose width is an estimate
_LIST_SIZE, _LINE = 12.0, 17.0
_COLUMNS, _COLUMN_GAP, _LEAST_LINES = 3, 20.0, 4

Area = tuple[float, float, float, float]   # left, top, right, bottom
Point = tuple[float, float]


class Callouts:
    """Placement of tags: small boxes with a text, each joined by a line to the bar that it names.

    A tag takes the first place near its bar where neither box nor line covers anything.

    ``frame`` : area that contains all tags; ``taken`` : areas that no tag may cover; ``texts`` : areas of texts, which
    no line may cross either.
    """

    def __init__(self, frame: Area, taken: Sequence[Area], texts: Sequence[Area]) -> None:
        self.frame = frame
        self.texts = np.array(texts, float).reshape(-1, 4) + (-_MARGIN, 0.0, _MARGIN, 0.0)
        self.taken = np.vstack([np.array(taken, float).reshape(-1, 4), self.texts])
        self.lines: list[tuple[Point, Point]] = []

    def place(self, drawing: Drawing, text: str, bar: Area) -> bool:
        """Draw a tag with a text for the bar with the area ``bar``; return False if there is no free place near it."""
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
    """Write a titled list in columns below everything else, from x = 0."""
    room = (width + _COLUMN_GAP) / _COLUMNS - _COLUMN_GAP
    length = int(room / text_width("x", _LIST_SIZE))
    lines = [line for entry in entries for line in textwrap.wrap(
        entry, length, subsequent_indent="\N{NO-BREAK SPACE}" * 4, break_long_words=False, break_on_hyphens=False)]
    if not lines:
        return
    top = drawing.bounds[3] + 34
    drawing.text(0, top, title, _LIST_SIZE + 1, bold=True)
    height = max(-(-len(lines) // _COLUMNS), _LEAST_LINES)
    for number, line in enumerate(lines):
        column, row = divmod(number, height)
        drawing.text(column * (room + _COLUMN_GAP), top + _LINE * (row + 1.2), line, _LIST_SIZE)


def _anchors(bar: Area) -> list[Point]:
    """Return the points of a bar at which the line to its tag may begin: its middle, and points near both ends."""
    left, top, right, bottom = bar
    inset = min(4.0, (right - left) / 2)
    return [(x, (top + bottom) / 2) for x in ((left + right) / 2, left + inset, right - inset)]


def crosses(line: tuple[Point, Point], areas: np.ndarray) -> np.ndarray:
    """Return whether a straight line enters each of ``areas``, float (areas, 4): bool (areas,)."""
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


WIDTH = 680.0
_HEIGHT, _MOST_HEIGHT = 520.0, 900.0       # the second where most bars would have no room for a name otherwise
_KINDS = {"input": GREEN, "output": GREEN, "value": BLUE, "derivative": ORANGE}
_LABEL, _SMALLEST = 13.0, 9.0              # sizes of names
_LINES = 1.06                              # height of a text by its size
_TICKS = 8


def draw_memory(computation: Computation, nnet: Nnet, title: str = "Memory") -> Drawing:
    """Draw a bar for each matrix: commands from left to right, bytes of the runtime's memory block upwards."""
    return _Picture(computation, nnet).draw(title)


class _Picture:
    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation = computation
        last = _last_use_of_givers(computation, nnet)
        self.lives = [replace(life, end=last.get(life.matrix, life.end)) for life in lifetimes(computation, nnet)]
        self.plan = plan_memory(computation)
        self.num_commands = max(len(computation.commands), 1)
        self.size = max(self.plan.size * BYTES, 1)
        middle = float(np.median([life.num_bytes for life in self.lives])) if self.lives else 0.0
        self.height = min(max(_HEIGHT, (_LABEL + 2) * self.size / max(middle, 1.0)), _MOST_HEIGHT)
        self.bars = [self._area(life) for life in self.lives]

    def _x(self, command: float) -> float:
        return WIDTH * command / self.num_commands

    def _y(self, byte: float) -> float:
        return self.height * (1 - byte / self.size)

    def _area(self, life: Lifetime) -> Area:
        bottom = self._y(int(self.plan.offsets[life.matrix]) * BYTES)
        return (self._x(life.begin), bottom - self.height * max(life.num_bytes, 1) / self.size, self._x(life.end),
                bottom)

    def draw(self, title: str) -> Drawing:
        """Draw the picture."""
        drawing = Drawing(title)
        self._axes(drawing)
        for c in self._markers():      # lines lie under the bars, so that none goes through a label
            drawing.line([(self._x(c), 0), (self._x(c), self.height)], GRAY, 1.5, dashed=True)
        self._peak(drawing)
        for life, area in zip(self.lives, self.bars, strict=True):
            _bar(drawing, life, area)
        self._names(drawing)
        left, top, _, _ = drawing.bounds
        drawing.text(left, top - 56, title, 22, bold=True)
        drawing.text(WIDTH, top - 26, f"block of the runtime: {bytes_text(self.size)}", 14, "end")
        colors = {_KINDS[life.kind] for life in self.lives}
        drawing.legend([(color, words) for color, words in ((GREEN, "input or output"), (BLUE, "value"),
                                                            (ORANGE, "derivative")) if color in colors], left, top - 26)
        return drawing

    def _markers(self) -> list[int]:
        """Return the commands at which the backward pass begins."""
        return [c for c, command in enumerate(self.computation.commands)
                if command.type == CommandType.NO_OPERATION_MARKER]

    def _axes(self, drawing: Drawing) -> None:
        step = _step(self.size)
        for byte in range(step, self.size + 1, step):
            drawing.line([(0, self._y(byte)), (WIDTH, self._y(byte))], PALE, 1.0)
        drawing.box(0, 0, WIDTH, self.height, GRAY, "none", radius=0, border=1)
        for command in range(0, self.num_commands, _step(self.num_commands)):
            x = self._x(command)
            drawing.line([(x, self.height), (x, self.height + 6)], GRAY)
            drawing.text(x, self.height + 22, f"c{command}", 14, "middle")
        words = "command (dashed: the backward pass begins)" if self._markers() else "command"
        drawing.text(WIDTH / 2, self.height + 48, words, 14, "middle")
        for byte in range(0, self.size + 1, step):
            y = self._y(byte)
            drawing.line([(-6, y), (0, y)], GRAY)
            drawing.text(-12, y + 5, bytes_text(byte), 14, "end")

    def _names(self, drawing: Drawing) -> None:
        """Write a name in each bar where it fits, else beside it or as a tag; list below the drawing what has none."""
        shown: dict[int, str] = {}
        beside = []
        for life, area in zip(self.lives, self.bars, strict=True):
            size = min((area[3] - area[1]) / _LINES, _LABEL)
            name = next((name for name in _wordings(life) if text_width(name, size) <= area[2] - area[0] - 6), "")
            if name and size >= _SMALLEST:
                drawing.text(area[0] + 4, (area[1] + area[3]) / 2 + 0.33 * size, name, size)
                shown[life.matrix] = name
            else:
                beside.append((life, area))
        for life, area in beside:
            if name := self._name_beside(drawing, life, area):
                shown[life.matrix] = name
        nameless = [(life, area) for life, area in beside if life.matrix not in shown]
        if len(nameless) <= MOST_TAGS:
            texts = [box for _, box in drawing.texts]
            callouts = Callouts((1, 1, WIDTH - 1, self.height - 1), [area for _, area in nameless], texts)
            for life, area in nameless:
                if callouts.place(drawing, f"m{life.matrix}", area):
                    shown[life.matrix] = f"m{life.matrix}"
        draw_list(drawing, "By number (∂: derivative of)", self._listed(shown), WIDTH)

    def _listed(self, shown: Mapping[int, str]) -> list[str]:
        """Return a line of the list for each content of matrices whose bars show only their number, or nothing.

        Matrices whose bars show nothing have their first and last command. ``shown`` : name on each matrix's bar.
        """
        groups: dict[str, list[str]] = {}
        for life in sorted(self.lives, key=lambda life: life.matrix):
            short = f"m{life.matrix}"
            if shown.get(life.matrix, short) == short:
                place = "" if life.matrix in shown else f" (c{life.begin} to c{life.end})"
                groups.setdefault(_wordings(life)[-2].removeprefix(f"{short} "), []).append(short + place)
        return [f"{', '.join(matrices)}: {words}" for words, matrices in groups.items()]

    def _name_beside(self, drawing: Drawing, life: Lifetime, area: Area) -> str:
        """Write the longest name that fits to the right or left of a bar; return it, or "" if none fits."""
        middle = (area[1] + area[3]) / 2
        for name in _wordings(life):
            width = text_width(name, _SMALLEST)
            for left in (area[2] + 3, area[0] - 3 - width):
                room = (left, middle - _SMALLEST / 2 - 1, left + width, middle + _SMALLEST / 2 + 1)
                if left >= 1 and room[2] <= WIDTH - 1 and 0 <= room[1] and room[3] <= self.height and not any(
                        _overlap(room, other) for other in (*self.bars, *(box for _, box in drawing.texts))):
                    drawing.box(left, room[1], width, room[3] - room[1], "none", "#ffffff", radius=0, border=0)
                    drawing.text(left, middle + 0.33 * _SMALLEST, name, _SMALLEST)      # over lines that go there
                    return name
        return ""

    def _peak(self, drawing: Drawing) -> None:
        """Plot the memory in use over the commands, above the bars, and mark the command with the most."""
        used = np.zeros(self.num_commands, np.int64)
        for life in self.lives:
            used[life.begin:life.end] += life.num_bytes
        if not used.any():
            return
        peak = int(used.argmax())
        base, height = -60.0, 90.0
        points = [(0.0, base)]
        for c, value in enumerate(used.tolist()):
            y = base - height * value / max(int(used.max()), 1)
            points += [(self._x(c), y), (self._x(c + 1), y)]
        drawing.line([*points, (WIDTH, base)], BLUE, 2.0)
        drawing.line([(0, base), (WIDTH, base)], GRAY, 1.0)
        for byte in (0, int(used.max())):
            drawing.line([(-6, y := base - height * byte / max(int(used.max()), 1)), (0, y)], GRAY)
            drawing.text(-12, y + 5, bytes_text(byte), 14, "end")
        drawing.text(-12, base - height / 2 + 5, "in use", 14, "end")
        x = self._x(peak + 0.5)
        drawing.line([(x, base - height - 8), (x, 0)], INK, 2.0)
        drawing.line([(x, 0), (x, self.height)], INK, 1.0)
        right = x > WIDTH * 0.55
        words = f"peak {bytes_text(int(used.max()))} after c{peak}"
        drawing.text(x + (-8 if right else 8), -20, words, 15, "end" if right else "start", bold=True)


def _bar(drawing: Drawing, life: Lifetime, area: Area) -> None:
    left, top, right, bottom = area
    tip = f"m{life.matrix}, {life.num_rows} x {life.num_cols}, {bytes_text(life.num_bytes)}, c{life.begin} to " \
          f"c{life.end}: {life.contents}"
    border = 1.0 if bottom - top > 3 else 0.3
    drawing.box(left, top, right - left, bottom - top, _KINDS[life.kind], radius=0, border=border, tip=tip)


def _wordings(life: Lifetime) -> list[str]:
    """Return possible names of a bar, the longest first: ``m3 derivative of tdnn1``, ``m3 ∂tdnn1``, ``m3``."""
    if life.kind == "derivative" or life.contents.startswith("derivative"):
        return [f"m{life.matrix} derivative of {life.nodes}", f"m{life.matrix} ∂{life.nodes}", f"m{life.matrix}"]
    return [f"m{life.matrix} {life.nodes}", f"m{life.matrix}"]


def _overlap(first: Area, second: Area) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def _last_use_of_givers(computation: Computation, nnet: Nnet) -> dict[int, int]:
    """Return, for each matrix whose memory another one takes by a swap, the command after its last use."""
    matrix_of = [sub.matrix for sub in computation.submatrices]
    givers = {matrix_of[command.args[1]] for command in computation.commands if command.type == CommandType.SWAP_MATRIX}
    if not givers:
        return {}
    accesses = Analysis(computation, nnet).matrix_accesses
    last = accesses.last(np.ones(len(accesses.commands), bool))
    return {matrix: int(last[matrix]) + 1 for matrix in givers if last[matrix] >= 0}


def _step(total: int) -> int:
    """Return a round number that divides ``total`` into at most _TICKS parts."""
    step = 1
    while total / step > _TICKS:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2      # 1, 2, 5, 10, …
    return step
