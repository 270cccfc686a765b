"""The drawing of a computation's memory: each matrix a bar, from the command that allocates it to its end."""
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.analyze import Analysis
from nnet3py.compiler.commands import CommandType
from nnet3py.report.lifetimes import BYTES, Lifetime, lifetimes, memory_in_use
from nnet3py.report.svg import BLUE, GREEN, GREY, INK, ORANGE, Drawing, fitted
from nnet3py.report.tables import bytes_text
from nnet3py.runtime.memory_plan import plan_memory

if TYPE_CHECKING:
    from nnet3py.compiler.computation import Computation
    from nnet3py.network.nnet import Nnet

WIDTH, HEIGHT = 1100.0, 520.0
_KINDS = {"input": GREEN, "output": GREEN, "value": BLUE, "derivative": ORANGE}
_LABEL = 13.0
_TICKS = 8


def draw_memory(computation: Computation, nnet: Nnet, title: str = "Memory") -> Drawing:
    """Across: the commands. Upwards: the place of each matrix in the block of memory that the runtime lays out."""
    return _Picture(computation, nnet).draw(title)


class _Picture:
    def __init__(self, computation: Computation, nnet: Nnet) -> None:
        self.computation = computation
        last = _last_use_of_givers(computation, nnet)
        self.lives = [replace(life, end=last.get(life.matrix, life.end)) for life in lifetimes(computation, nnet)]
        self.plan = plan_memory(computation)
        self.num_commands = max(len(computation.commands), 1)
        self.size = max(self.plan.size * BYTES, 1)

    def _x(self, command: float) -> float:
        return WIDTH * command / self.num_commands

    def _y(self, byte: float) -> float:
        return HEIGHT * (1 - byte / self.size)

    def draw(self, title: str) -> Drawing:
        """The drawing."""
        drawing = Drawing(title)
        self._axes(drawing)
        for c in self._markers():      # lines lie under the bars, so that none goes through a label
            drawing.line([(self._x(c), 0), (self._x(c), HEIGHT)], GREY, 1.5, dashed=True)
        self._peak(drawing)
        for life in self.lives:
            self._bar(drawing, life)
        left, top, _, _ = drawing.bounds
        drawing.text(left, top - 56, title, 22, bold=True)
        colors = {_KINDS[life.kind] for life in self.lives}
        drawing.legend([(color, words) for color, words in ((GREEN, "input or output"), (BLUE, "value"),
                                                            (ORANGE, "derivative")) if color in colors], left, top - 26)
        return drawing

    def _markers(self) -> list[int]:
        """The commands at which the backward pass begins."""
        return [c for c, command in enumerate(self.computation.commands)
                if command.type == CommandType.NO_OPERATION_MARKER]

    def _axes(self, drawing: Drawing) -> None:
        drawing.box(0, 0, WIDTH, HEIGHT, GREY, "#ffffff", radius=0, border=1)
        for command in range(0, self.num_commands, _step(self.num_commands)):
            x = self._x(command)
            drawing.line([(x, HEIGHT), (x, HEIGHT + 6)], GREY)
            drawing.text(x, HEIGHT + 22, f"c{command}", 14, "middle")
        words = "command (dashed: the backward pass begins)" if self._markers() else "command"
        drawing.text(WIDTH / 2, HEIGHT + 48, words, 14, "middle")
        step = _step(self.size)
        for byte in range(0, self.size + 1, step):
            y = self._y(byte)
            drawing.line([(-6, y), (0, y)], GREY)
            drawing.text(-12, y + 5, bytes_text(byte), 14, "end")

    def _bar(self, drawing: Drawing, life: Lifetime) -> None:
        left, right = self._x(life.begin), self._x(life.end)
        bottom = self._y(int(self.plan.offsets[life.matrix]) * BYTES)
        height = HEIGHT * max(life.num_bytes, 1) / self.size
        tip = f"m{life.matrix}, {life.num_rows} x {life.num_cols}, {bytes_text(life.num_bytes)}, c{life.begin} to " \
              f"c{life.end}: {life.contents}"
        border = 1.0 if height > 3 else 0.3
        drawing.box(left, bottom - height, right - left, height, _KINDS[life.kind], radius=0, border=border, tip=tip)
        if height >= _LABEL + 2:
            what = "derivative of " if life.kind == "derivative" or life.contents.startswith("derivative") else ""
            room = right - left - 6
            for text in (f"m{life.matrix} {what}{life.nodes}", f"m{life.matrix} {life.nodes}", f"m{life.matrix}"):
                label = fitted(text, room, _LABEL)
                if label and not label.endswith("…"):
                    break
            if label:
                drawing.text(left + 4, bottom - height / 2 + 0.35 * _LABEL, label, _LABEL)

    def _peak(self, drawing: Drawing) -> None:
        """A line at the command with the most memory in use, and above the bars how the use rises and falls."""
        used = memory_in_use(self.computation)
        if not len(used):
            return
        peak = int(used.argmax())
        base, height = -60.0, 90.0
        points = [(0.0, base)]
        for c, value in enumerate(used.tolist()):
            y = base - height * value / max(int(used.max()), 1)
            points += [(self._x(c), y), (self._x(c + 1), y)]
        drawing.line([*points, (WIDTH, base)], BLUE, 2.0)
        drawing.line([(0, base), (WIDTH, base)], GREY, 1.0)
        drawing.text(-12, base - height / 2 + 5, "in use", 14, "end")
        x = self._x(peak + 0.5)
        drawing.line([(x, base - height - 8), (x, 0)], INK, 2.0)
        drawing.line([(x, 0), (x, HEIGHT)], INK, 1.0)
        right = x > WIDTH * 0.6
        words = f"peak {bytes_text(int(used.max()))} after c{peak}; block of the runtime: {bytes_text(self.size)}"
        drawing.text(x + (-8 if right else 8), -20, words, 15, "end" if right else "start", bold=True)


def _last_use_of_givers(computation: Computation, nnet: Nnet) -> dict[int, int]:
    """The command after the last use of each matrix that is swapped away: the plan gives its place away then."""
    matrix_of = [sub.matrix for sub in computation.submatrices]
    givers = {matrix_of[command.args[1]] for command in computation.commands if command.type == CommandType.SWAP_MATRIX}
    if not givers:
        return {}
    accesses = Analysis(computation, nnet).matrix_accesses
    last = accesses.last(np.ones(len(accesses.commands), bool))
    return {matrix: int(last[matrix]) + 1 for matrix in givers if last[matrix] >= 0}


def _step(total: int) -> int:
    """A round number that divides ``total`` into at most _TICKS parts."""
    step = 1
    while total / step > _TICKS:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2      # 1, 2, 5, 10, …
    return step
