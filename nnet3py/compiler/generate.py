"""Generation of a command list from steps, before any optimization. Kaldi: ``Compiler`` (nnet-compile.h)."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nnet3py.compiler.build_graph import build_graph, build_segmented_graph
from nnet3py.compiler.computation import (
    NUM_ARGS,
    Command,
    CommandType,
    Computation,
    MatrixDebugInfo,
    MatrixInfo,
    SubMatrix,
    gc_paused,
)
from nnet3py.compiler.locations import (
    Column,
    Locations,
    PartSources,
    compact,
    contiguous_ranges,
    find_sources,
    only_matrix,
    split_locations,
    split_locations_backward,
    split_repeated,
)
from nnet3py.compiler.node_rules import NodeRules, node_rules
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.steps import Step, compute_segmented_steps, compute_steps
from nnet3py.components.base import Component, Properties
from nnet3py.errors import CompileError
from nnet3py.network.descriptor import Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode, DescriptorNode, DimRangeNode


@gc_paused
def generate_computation(nnet: Nnet, request: ComputationRequest, share: bool = True) -> Computation:
    """Return the unoptimized computation for a request.

    Parameters
    ----------
    share : whether sequences of one shape are compiled as one; false is slower, with the same result

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    CompileError, DescriptorError : the network cannot be compiled for this request
    """
    rules = node_rules(nnet)
    graph = build_graph(nnet, request, share)
    steps = compute_steps(nnet, request, graph, rules)
    sources = find_sources(steps, rules, graph.sequences.space)
    return _Generator(nnet, rules, request, steps, sources, [len(steps)]).generate()


def generate_segments(nnet: Nnet, requests: Sequence[ComputationRequest], share: bool = True) -> Computation:
    """Return the unoptimized computation for several requests, one after the other, with a marker after each.

    Every request has inputs and outputs at the same nodes. Raises as ``generate_computation``, and CompileError for
    derivatives, which such a computation cannot give.
    """
    rules = node_rules(nnet)
    graph = build_segmented_graph(nnet, requests, rules, share)
    steps, ends = compute_segmented_steps(nnet, requests, graph, rules)
    sources = find_sources(steps, rules, graph.sequences.space, ends)
    return _Generator(nnet, rules, requests[0], steps, sources, ends).generate()


class _PartInfo:
    """Facts about a part of a descriptor that commands need: constant, scale of each source node, dimension."""

    def __init__(self, part: Part, nnet: Nnet) -> None:
        self.constant = part.constant()
        self.scale_of = part.scales()                     # the factor of each source node
        self.scales = sorted(set(self.scale_of.values()))
        self.dim = part.dim(nnet)


class _NodeInfo:
    """Facts about a node that commands need: its component and flags, its dimension, the parts of its descriptor."""

    def __init__(self, nnet: Nnet, node: int) -> None:
        node_object = nnet.nodes[node]
        self.component_index, self.component, self.flags = -1, None, 0
        self.is_dim_range = isinstance(node_object, DimRangeNode)
        self.dim_offset = node_object.dim_offset if isinstance(node_object, DimRangeNode) else 0
        self.parts: list[_PartInfo] = []
        self._user: Component | None = None               # for a component's input: the component
        if isinstance(node_object, ComponentNode):
            self.component_index = node_object.component_index
            self.component = nnet.components[node_object.component_index]
            self.dim = self.component.output_dim
        elif isinstance(node_object, DescriptorNode):
            self.parts = [_PartInfo(part, nnet) for part in node_object.descriptor.parts]
            self.dim = sum(part.dim for part in self.parts)
            self._user = nnet.component_of(node + 1) if nnet.is_component_input(node) else None
        else:
            self.dim = nnet.node_dim(node)
        self.update()

    def update(self) -> None:
        """Read the properties of the node's component again, which may change while the network's structure stays."""
        self.is_contiguous = False
        if self.component is not None:
            self.flags = int(self.component.properties)
            self.is_contiguous = bool(self.flags & _OUTPUT_CONTIGUOUS)
        elif self._user is not None:
            self.is_contiguous = bool(int(self._user.properties) & _INPUT_CONTIGUOUS)


def _node_infos(nnet: Nnet, rules: NodeRules, nodes: set[int]) -> dict[int, _NodeInfo]:
    infos: dict[int, _NodeInfo] = rules.node_info_cache
    for node in sorted(nodes):
        if node in infos:
            infos[node].update()
        else:
            infos[node] = _NodeInfo(nnet, node)
    return infos


_new = tuple.__new__       # makes named tuples twice as fast as their types do
_NO_ARGS = (-1,) * NUM_ARGS
_NO_MORE = _NO_ARGS[1:]    # after the first argument

# Plain integers: flags of enumerations are slow.
_OUTPUT_CONTIGUOUS, _INPUT_CONTIGUOUS = int(Properties.OUTPUT_CONTIGUOUS), int(Properties.INPUT_CONTIGUOUS)
_SIMPLE, _USES_MEMO, _STORES_STATS = int(Properties.SIMPLE), int(Properties.USES_MEMO), int(Properties.STORES_STATS)
_UPDATABLE = int(Properties.UPDATABLE)
_NEEDS_INPUT, _NEEDS_OUTPUT = int(Properties.BACKPROP_NEEDS_INPUT), int(Properties.BACKPROP_NEEDS_OUTPUT)


@dataclass(slots=True)
class _StepInfo:
    """The sub-matrices of a step and of the parts of its descriptor (0: none), and the sources of the step's rows."""

    node: _NodeInfo
    sources: list[PartSources]
    deriv_needed: bool = False
    value: int = 0
    deriv: int = 0
    precomputed: int = 0
    part_values: Sequence[int] = ()
    part_derivs: Sequence[int] = ()


class _Generator:
    def __init__(self, nnet: Nnet, rules: NodeRules, request: ComputationRequest, steps: list[Step],
                 sources: list[list[PartSources]], ends: list[int]) -> None:
        self.nnet, self.request, self.steps, self.ends = nnet, request, steps, ends
        self.computation = Computation(need_model_derivative=request.need_model_derivative)
        nodes = _node_infos(nnet, rules, {step.node for step in steps})
        self.infos = [_StepInfo(nodes[step.node], step_sources) for step,
                      step_sources in zip(steps, sources, strict=True)]
        self._whole: list[int] = []          # for each matrix the sub-matrix that covers it
        names = nnet.node_names
        self._has_derivs = request.need_model_derivative or any(
            io.has_deriv for io in (*request.inputs, *request.outputs))
        self._input_deriv = {names.index(io.name): io.has_deriv for io in request.inputs}
        self._output_deriv = {names.index(io.name): io.has_deriv for io in request.outputs}
        self._io_steps = [(step, info) for step, info in zip(steps, self.infos, strict=True)
                          if step.is_given or step.node in self._output_deriv]

    def generate(self) -> Computation:
        """Return the whole computation: matrices, precomputed indexes, forward and backward commands."""
        if self._has_derivs:
            for number, info in enumerate(self.infos):
                info.deriv_needed = self._is_deriv_needed(number)
        self._make_matrices()
        self._precompute_indexes()
        self._allocate()
        for begin, end in zip((0, *self.ends), self.ends, strict=False):
            for number in range(begin, end):
                self._forward(number)
            self._add(CommandType.NO_OPERATION_MARKER)
        if self._has_derivs:
            for number in reversed(range(len(self.steps))):
                if self.infos[number].deriv_needed:
                    self._backward(number)
        self._deallocate()
        self._add_debug_info()
        return self.computation

    def _add(self, kind: CommandType, *args: int, alpha: float = 1.0) -> None:
        self.computation.commands.append(_new(Command, (kind, alpha, args + _NO_ARGS[len(args):])))

    # -- derivatives and matrices ----------------------------------------------------------------------------------

    def _is_deriv_needed(self, number: int) -> bool:
        step, info = self.steps[number], self.infos[number]
        if not len(step.indexes):
            return False
        if step.is_given:
            return self._input_deriv[step.node]
        if step.source >= 0:
            return self.infos[step.source].deriv_needed
        component = info.node.component
        if component is not None:
            trained = (self.request.need_model_derivative and info.node.flags & _UPDATABLE
                       and component.learning_rate != 0.0)    # type: ignore[attr-defined]
            return bool(trained) or self.infos[number - 1].deriv_needed
        if step.node in self._output_deriv:
            # A derivative that is not given is zero, so nothing flows back from such an output.
            return self._output_deriv[step.node]
        return any(self.infos[source].deriv_needed for part in info.sources for source in part.steps())

    def _make_matrices(self) -> None:
        whole = self._whole
        for step, info in zip(self.steps, self.infos, strict=True):
            num_rows, node = len(step.indexes), info.node
            if not num_rows:
                continue
            if node.is_dim_range:
                source = self.infos[step.source]
                info.value = self._window(source.value, node.dim_offset, node.dim)
                if info.deriv_needed:
                    info.deriv = self._window(source.deriv, node.dim_offset, node.dim)
                continue
            info.value = self._matrix(num_rows, node)
            whole.append(info.value)
            if info.deriv_needed:
                info.deriv = self._matrix(num_rows, node)
                whole.append(info.deriv)
            if len(node.parts) == 1:
                info.part_values, info.part_derivs = (info.value,), (info.deriv,)
            elif node.parts:
                self._make_parts(info)
        self._values = np.array([info.value for info in self.infos])
        self._derivs = np.array([info.deriv for info in self.infos])

    def _matrix(self, num_rows: int, node: _NodeInfo) -> int:
        """Add a matrix for rows of a node; returns the sub-matrix that covers it."""
        matrices, submatrices = self.computation.matrices, self.computation.submatrices
        submatrices.append(_new(SubMatrix, (len(matrices), 0, num_rows, 0, node.dim)))
        matrices.append(_new(MatrixInfo, (num_rows, node.dim, node.is_contiguous)))
        return len(submatrices) - 1

    def _window(self, base: int, col_offset: int, num_cols: int) -> int:
        """Add a window of columns of a sub-matrix."""
        submatrices = self.computation.submatrices
        matrix, row_offset, num_rows, first_col, _ = submatrices[base]
        submatrices.append(_new(SubMatrix, (matrix, row_offset, num_rows, first_col + col_offset, num_cols)))
        return len(submatrices) - 1

    def _make_parts(self, info: _StepInfo) -> None:
        values, derivs, column = [], [], 0
        for part in info.node.parts:
            values.append(self._window(info.value, column, part.dim))
            derivs.append(self._window(info.deriv, column, part.dim) if info.deriv else 0)
            column += part.dim
        info.part_values, info.part_derivs = values, derivs

    def _precompute_indexes(self) -> None:
        computation = self.computation
        for number, (step, info) in enumerate(zip(self.steps, self.infos, strict=True)):
            component = info.node.component
            if component is None or step.is_given or info.node.flags & _SIMPLE:
                continue
            inputs = self.steps[number - 1].indexes
            precomputed = component.precompute_indexes(inputs, step.indexes, self.request.needs_derivatives())
            if precomputed is not None:
                info.precomputed = len(computation.precomputed_indexes)
                computation.precomputed_indexes.append(precomputed)
                computation.precomputed_rows.append((inputs, step.indexes))

    def _add_debug_info(self) -> None:
        debug_info = self.computation.debug_info
        arrays: dict[tuple[int, int], np.ndarray] = {}     # many steps of a recurrence have the same node and size
        for step, info in zip(self.steps, self.infos, strict=True):
            node, indexes = step.node, step.indexes
            key = node, len(indexes)
            if info.node.is_dim_range or not key[1]:
                continue
            nodes = arrays.get(key)
            if nodes is None:
                nodes = arrays[key] = np.empty(key[1], np.int32)
                nodes.fill(node)
            # Matrices were made in this order.
            debug_info.append(_new(MatrixDebugInfo, (nodes, indexes, False)))
            if info.deriv:
                debug_info.append(_new(MatrixDebugInfo, (nodes, indexes, True)))

    # -- sizing ----------------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        given = self._io_submatrices(of_inputs="value", of_outputs="deriv")
        alloc, set_const = CommandType.ALLOC_MATRIX, CommandType.SET_CONST
        for s in self._whole:
            if s not in given:
                args = s, *_NO_MORE
                self.computation.commands += (_new(Command, (alloc, 1.0, args)), _new(Command, (set_const, 0.0, args)))

    def _deallocate(self) -> None:
        wanted = self._io_submatrices(of_inputs="deriv", of_outputs="value")
        dealloc = CommandType.DEALLOC_MATRIX
        self.computation.commands += [_new(Command, (dealloc, 1.0, (s, *_NO_MORE)))
                                      for s in self._whole if s not in wanted]

    def _io_submatrices(self, of_inputs: str, of_outputs: str) -> set[int]:
        """Return the sub-matrices of inputs and outputs; the arguments name attributes of :class:`_StepInfo`."""
        return {getattr(info, of_inputs if step.is_given else of_outputs)
                for step, info in self._io_steps}

    # -- forward ---------------------------------------------------------------------------------------------------

    def _is_input_step(self, number: int) -> bool:
        return number < len(self.steps) and self.steps[number].is_given

    def _forward(self, number: int) -> None:
        step, info = self.steps[number], self.infos[number]
        node = info.node
        if step.is_given:
            self._add(CommandType.ACCEPT_INPUT, info.value, step.node)
            if not self._is_input_step(number + 1):
                self._add(CommandType.NO_OPERATION_PERMANENT)
        elif node.component is not None:
            memo = number if info.deriv and node.flags & _USES_MEMO else 0
            store = self.request.store_component_stats and node.flags & _STORES_STATS
            self._add(CommandType.PROPAGATE, node.component_index, info.precomputed, self.infos[number - 1].value,
                      info.value, memo, int(bool(store)))
        else:
            # An empty step has no sources.
            for part, value, sources in zip(node.parts, info.part_values, info.sources, strict=False):
                self._forward_part(part, value, sources)
            if step.node in self._output_deriv:
                self._add(CommandType.PROVIDE_OUTPUT, info.value, step.node)

    def _forward_part(self, part: _PartInfo, value: int, sources: PartSources) -> None:
        if part.constant != 0.0:
            self._add(CommandType.SET_CONST, value, alpha=part.constant)
        if sources.only >= 0:
            scale = part.scale_of[self.steps[sources.only].node]
            source = self.infos[sources.only].value
            if sources.is_all:
                self._add(CommandType.MATRIX_ADD, value, source, alpha=scale)
            else:
                self._add(CommandType.ADD_ROWS, value, source, self._new_indexes(sources.locations[1][0]), alpha=scale)
            return
        for scale, locations in self._by_scale(part, sources.locations):
            for steps, rows in split_locations(*locations):
                only = only_matrix(steps)
                if only >= 0:
                    self._add_rows(value, only, np.where(steps >= 0, rows, -1), scale)
                else:
                    pairs = self._new_pairs(steps, rows, self._values)
                    self._add(CommandType.ADD_ROWS_MULTI, value, pairs, alpha=scale)

    def _add_rows(self, value: int, source: int, rows: np.ndarray, scale: float) -> None:
        """Add a command that adds ``scale`` times rows of the step ``source`` to the sub-matrix ``value``."""
        s = self.infos[source].value
        if _is_identity(rows, len(self.steps[source].indexes)):
            self._add(CommandType.MATRIX_ADD, value, s, alpha=scale)
        else:
            self._add(CommandType.ADD_ROWS, value, s, self._new_indexes(rows), alpha=scale)

    def _by_scale(self, part: _PartInfo, locations: Locations) -> list[tuple[float, Locations]]:
        """Return the locations in groups whose sources share a factor, by increasing factor."""
        if len(part.scales) <= 1:
            return [(part.scales[0] if part.scales else 1.0, locations)]
        steps, rows = locations
        from_one_step = len(steps) and bool((steps == steps[:, :1]).all())
        if from_one_step and (steps[:, 0] >= 0).all():      # each term
            scale_of = [part.scale_of[self.steps[step].node] for step in steps[:, 0].tolist()]
            chosen = [[k for k, part_scale in enumerate(scale_of) if part_scale == scale] for scale in part.scales]
            return [(scale, (steps[terms], rows[terms])) for scale, terms in zip(part.scales, chosen, strict=True)]
        scale_of_step = np.array([part.scale_of.get(step.node, np.nan) for step in self.steps])
        return [(scale, compact(np.where((steps >= 0) & (scale_of_step[steps] == scale), steps, -1), rows))
                for scale in part.scales]

    def _new_indexes(self, rows: np.ndarray) -> int:
        self.computation.indexes.append(rows.astype(np.int32))
        return len(self.computation.indexes) - 1

    def _new_pairs(self, steps: np.ndarray, rows: np.ndarray, submatrices: np.ndarray) -> int:
        missing = steps < 0
        pairs = np.stack((submatrices[steps], rows), axis=1).astype(np.int32)
        pairs[missing] = -1
        self.computation.indexes_multi.append(pairs)
        return len(self.computation.indexes_multi) - 1

    # -- backward --------------------------------------------------------------------------------------------------

    def _backward(self, number: int) -> None:
        step, info = self.steps[number], self.infos[number]
        node = info.node
        if step.is_given:
            self._add(CommandType.PROVIDE_OUTPUT, info.deriv, step.node)
            if not self._is_input_step(number + 1):
                self._add(CommandType.NO_OPERATION_PERMANENT)
        elif node.component is not None:
            inputs, flags = self.infos[number - 1], node.flags
            self._add(CommandType.BACKPROP, node.component_index, info.precomputed,
                      inputs.value if flags & _NEEDS_INPUT else 0,
                      info.value if flags & _NEEDS_OUTPUT else 0,
                      info.deriv, inputs.deriv, number if flags & _USES_MEMO else 0)
        else:
            if step.node in self._output_deriv:
                self._add(CommandType.ACCEPT_INPUT, info.deriv, step.node)
            for part, deriv, sources in zip(node.parts, info.part_derivs, info.sources, strict=False):
                self._backward_part(part, deriv, sources)

    def _backward_part(self, part: _PartInfo, deriv: int, sources: PartSources) -> None:
        if sources.only >= 0 and sources.is_ascending:      # a fast way to the same result as below
            if self.infos[sources.only].deriv:
                scale = part.scale_of[self.steps[sources.only].node]
                self._add_rows_backward(deriv, sources.only, None if sources.is_all else sources.locations[1][0], scale)
            return
        for scale, (steps, rows) in self._by_scale(part, sources.locations):
            steps = np.where((steps >= 0) & (self._derivs[steps] > 0), steps, -1)
            columns = split_locations_backward(*compact(steps, rows))
            for column_steps, column_rows in chain.from_iterable(map(self._rows_apart, columns)):
                only = only_matrix(column_steps)
                if only >= 0:
                    self._add_rows_backward(deriv, only, np.where(column_steps >= 0, column_rows, -1), scale)
                else:
                    pairs = self._new_pairs(column_steps, column_rows, self._derivs)
                    self._add(CommandType.ADD_TO_ROWS_MULTI, deriv, pairs, alpha=scale)

    def _rows_apart(self, column: Column) -> list[Column]:
        """Split a column so that no row is changed twice through two steps whose windows of one matrix overlap."""
        steps, rows = column
        used = np.unique(steps[steps >= 0])
        if len(used) < 2:
            return [column]
        windows = np.array([self.computation.submatrices[s] for s in self._derivs[used].tolist()])
        order = np.lexsort((windows[:, 3], windows[:, 0]))
        matrix, _, _, first_col, num_cols = windows[order].T
        if not ((matrix[1:] == matrix[:-1]) & (first_col[1:] < (first_col + num_cols)[:-1])).any():
            return [column]
        place = np.searchsorted(used, steps)
        place[steps < 0] = 0
        return split_repeated(column, windows[place, 0], windows[place, 1] + rows)

    def _add_rows_backward(self, deriv: int, source: int, rows: np.ndarray | None, scale: float) -> None:
        """Add a command that adds ``deriv`` to rows (None: all) of the derivative of the step ``source``."""
        target, num_rows = self.infos[source].deriv, len(self.steps[source].indexes)
        if rows is None or _is_identity(rows, num_rows):
            self._add(CommandType.MATRIX_ADD, target, deriv, alpha=scale)
            return
        present = np.flatnonzero(rows >= 0)
        if num_rows >= len(rows) and np.bincount(rows[present]).max() == 1:
            reverse = np.full(num_rows, -1)
            reverse[rows[present]] = present
            self._add(CommandType.ADD_ROWS, target, deriv, self._new_indexes(reverse), alpha=scale)
            return
        ranges = contiguous_ranges(rows, num_rows)
        if ranges is None:
            raise CompileError("rows of a derivative that are added to one row are not consecutive",
                               "this is a fault of the compiler: please report it")
        self.computation.indexes_ranges.append(ranges)
        self._add(CommandType.ADD_ROW_RANGES, target, deriv, len(self.computation.indexes_ranges) - 1, alpha=scale)


def _is_identity(rows: np.ndarray, num_rows: int) -> bool:
    return len(rows) == num_rows and bool((rows == np.arange(num_rows)).all())
