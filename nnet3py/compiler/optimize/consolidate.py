"""Passes that gather commands: one model update for each component, inputs at the beginning and outputs at the end."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixDebugInfo, SubMatrix, command
from nnet3py.compiler.tables import command_table, sort_commands, substitute_commands
from nnet3py.components.base import Component, Properties
from nnet3py.network.nnet import Nnet

# Arguments of the backward command that the update reads, and the property that asks for them.
_OPERANDS = ((2, Properties.BACKPROP_NEEDS_INPUT), (3, Properties.BACKPROP_NEEDS_OUTPUT), (4, None))


def consolidate_model_update(computation: Computation, nnet: Nnet) -> Computation:
    """Let each component that has several backward commands update its parameters once, at the end.

    The operands of the update are stacked in new matrices; the commands themselves no longer update. Natural gradient
    sees all rows at once. Kaldi: ConsolidateModelUpdate.
    """
    if not computation.need_model_derivative:
        return computation
    table = command_table(computation)
    numbers = table.numbers[CommandType.BACKPROP]
    components = table.rows[numbers, 0]
    work = _Consolidation(computation)
    for component_index in np.flatnonzero(np.bincount(components) > 1).tolist():
        component = nnet.components[component_index]
        if (component.has(Properties.UPDATABLE) and component.has(Properties.SIMPLE)
                and not component.has(Properties.USES_MEMO)):
            work.add(component_index, component, numbers[components == component_index].tolist())
    return work.finish()


class _Consolidation:
    def __init__(self, computation: Computation) -> None:
        self.old = computation
        self.computation = computation.copy()
        self.first: list[Command] = []
        self.new: dict[int, list[Command]] = {}       # the commands in place of each command
        self.last: list[Command] = []
        self.freeing: list[Command] = []

    def add(self, component_index: int, component: Component, uses: list[int]) -> None:
        """Replace the updates of a component in the commands ``uses`` by one update at the end."""
        stacked = [0, 0, 0]
        for k, (place, flag) in enumerate(_OPERANDS):
            if flag is None or component.has(flag):
                stacked[k] = self._stack([self.old.commands[c].args[place] for c in uses], uses)
        for c in uses:
            _, alpha, args = self.old.commands[c]
            self.new[c].append(Command(CommandType.BACKPROP_NO_MODEL_UPDATE, alpha, args))
        self.last.append(command(CommandType.BACKPROP, component_index, 0, *stacked, 0, 0))

    def _stack(self, operands: list[int], uses: list[int]) -> int:
        """Add a matrix of all operands, one below the other, each copied just before its command in ``uses``.

        Returns its sub-matrix.
        """
        out = self.computation
        subs = [out.submatrices[s] for s in operands]
        contiguous = any(out.matrices[sub.matrix].contiguous and out.is_whole(s)
                         for s, sub in zip(operands, subs, strict=True))
        whole = out.new_matrix(sum(sub.num_rows for sub in subs), subs[0].num_cols, contiguous)
        self._add_debug_info(operands)
        self.first += [command(CommandType.ALLOC_MATRIX, whole), command(CommandType.SET_CONST, whole, alpha=0.0)]
        self.freeing.append(command(CommandType.DEALLOC_MATRIX, whole))
        matrix, row = out.submatrices[whole].matrix, 0
        for s, sub, c in zip(operands, subs, uses, strict=True):
            self.new.setdefault(c, []).append(command(CommandType.MATRIX_COPY, len(out.submatrices), s))
            out.submatrices.append(SubMatrix(matrix, row, sub.num_rows, 0, sub.num_cols))
            row += sub.num_rows
        return whole

    def _add_debug_info(self, operands: list[int]) -> None:
        subs = [self.computation.submatrices[s] for s in operands]
        infos = [self.computation.debug_info[sub.matrix] for sub in subs]
        windows = [slice(sub.row_offset, sub.row_offset + sub.num_rows) for sub in subs]
        self.computation.debug_info.append(MatrixDebugInfo(
            np.concatenate([info.nodes[window] for info, window in zip(infos, windows, strict=True)]),
            np.concatenate([info.indexes[window] for info, window in zip(infos, windows, strict=True)]),
            infos[0].is_deriv))

    def finish(self) -> Computation:
        """Return the computation with the added updates; the original one if no update was added."""
        if not self.last:
            return self.old
        commands = self.old.commands
        self.new[0] = [*self.first, *self.new.get(0, commands[:1])]
        self.new[len(commands)] = [*self.last, *self.freeing]
        return substitute_commands(self.computation, self.new)


# -- consolidate-io ----------------------------------------------------------------------------------------------------


# Places between two markers; the marker at the beginning is before all of them.
_MARKER, _ACCEPT, _OTHER, _PROVIDE = range(4)


def consolidate_io(computation: Computation) -> Computation:
    """Move, between two markers, commands that accept input to the front and commands that provide output to the end.

    Always run: the runtime relies on it. Kaldi: ConsolidateIoOperations.
    """
    types = command_table(computation).types
    is_marker = types == CommandType.NO_OPERATION_MARKER
    place = np.full(len(types), _OTHER)
    place[is_marker] = _MARKER
    place[types == CommandType.ACCEPT_INPUT] = _ACCEPT
    place[types == CommandType.PROVIDE_OUTPUT] = _PROVIDE
    return sort_commands(computation, np.cumsum(is_marker) * (_PROVIDE + 1) + place)
