"""From steps to a command list, before any optimisation. Kaldi: ``Compiler`` (nnet-compile.h)."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nnet3py.compiler.computation import CommandType, Computation, MatrixDebugInfo, command
from nnet3py.compiler.graph import build_graph
from nnet3py.compiler.locations import (
    Column,
    Locations,
    compact,
    contiguous_ranges,
    only_matrix,
    split_locations,
    split_locations_backward,
)
from nnet3py.compiler.node_rules import NodeRule, node_rules
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.sources import SourceFinder, step_sources
from nnet3py.compiler.steps import Step, compute_steps
from nnet3py.components.base import Component, Properties
from nnet3py.errors import CompileError
from nnet3py.network.descriptor import Part
from nnet3py.network.nnet import Nnet
from nnet3py.network.nodes import ComponentNode, DimRangeNode


def generate_computation(nnet: Nnet, request: ComputationRequest, share: bool = True) -> Computation:
    """The unoptimised command list for ``request``; with ``share`` false every sequence is worked out for itself.

    Raises
    ------
    NotComputableError : an output row cannot be computed from the inputs
    CompileError, DescriptorError : the network cannot be compiled for this request
    """
    rules = node_rules(nnet)
    graph = build_graph(nnet, request, share)
    steps = compute_steps(nnet, request, graph, rules)
    return _Generator(nnet, request, rules, steps, SourceFinder(steps, graph.sequences.space)).generate()


@dataclass
class _StepInfo:
    """What belongs to a step: sub-matrices (0: none), and for descriptors those of its parts and their sources."""

    deriv_needed: bool = False
    value: int = 0
    deriv: int = 0
    precomputed: int = 0
    parts: list[Part] = field(default_factory=list)
    part_values: list[int] = field(default_factory=list)
    part_derivs: list[int] = field(default_factory=list)
    sources: list[Locations] = field(default_factory=list)


class _Generator:
    def __init__(self, nnet: Nnet, request: ComputationRequest, rules: list[NodeRule], steps: list[Step],
                 finder: SourceFinder) -> None:
        self.nnet, self.request, self.steps, self.finder = nnet, request, steps, finder
        self.rules = rules
        self.computation = Computation(need_model_derivative=request.need_model_derivative)
        self.infos = [_StepInfo() for _ in steps]
        names = nnet.node_names
        self._input_deriv = {names.index(io.name): io.has_deriv for io in request.inputs}
        self._output_deriv = {names.index(io.name): io.has_deriv for io in request.outputs}

    def generate(self) -> Computation:
        self._find_sources()
        for number in range(len(self.steps)):
            self.infos[number].deriv_needed = self._is_deriv_needed(number)
        self._make_matrices()
        self._precompute_indexes()
        self._allocate()
        for number in range(len(self.steps)):
            self._forward(number)
        self._add(CommandType.NO_OPERATION_MARKER)
        for number in reversed(range(len(self.steps))):
            if self.infos[number].deriv_needed:
                self._backward(number)
        self._deallocate()
        self._add_debug_info()
        return self.computation

    def _add(self, kind: CommandType, *args: int, alpha: float = 1.0) -> None:
        self.computation.commands.append(command(kind, *args, alpha=alpha))

    def _component(self, node: int) -> tuple[int, Component]:
        found = self.nnet.nodes[node]
        assert isinstance(found, ComponentNode)
        return found.component_index, self.nnet.components[found.component_index]

    # -- what each step needs --------------------------------------------------------------------------------------

    def _find_sources(self) -> None:
        for number, (step, info) in enumerate(zip(self.steps, self.infos, strict=True)):
            if self.nnet.is_descriptor(step.node) and len(step.indexes):
                info.parts = list(self.nnet.descriptor_of(step.node).descriptor.parts)
                info.sources = step_sources(self.finder, self.rules, number)

    def _is_deriv_needed(self, number: int) -> bool:
        step, nnet = self.steps[number], self.nnet
        if not len(step.indexes):
            return False
        if step.node in self._input_deriv:
            return self._input_deriv[step.node]
        if nnet.is_dim_range(step.node):
            return self.infos[step.source].deriv_needed
        if nnet.is_component(step.node):
            component = self._component(step.node)[1]
            trained = (self.request.need_model_derivative and component.has(Properties.UPDATABLE)
                       and component.learning_rate != 0.0)    # type: ignore[attr-defined]
            return trained or self.infos[number - 1].deriv_needed
        if step.node in self._output_deriv:
            # A derivative that is not given is zero, so nothing flows back from such an output.
            return self._output_deriv[step.node]
        return any(self.infos[source].deriv_needed for matrices, _ in self.infos[number].sources
                   for source in np.flatnonzero(np.bincount(matrices[matrices >= 0])).tolist())

    def _make_matrices(self) -> None:
        computation = self.computation
        for step, info in zip(self.steps, self.infos, strict=True):
            if not len(step.indexes):
                continue
            node = self.nnet.nodes[step.node]
            if isinstance(node, DimRangeNode):
                source = self.infos[step.source]
                info.value = computation.new_submatrix(source.value, 0, -1, node.dim_offset, node.dim)
                if info.deriv_needed:
                    info.deriv = computation.new_submatrix(source.deriv, 0, -1, node.dim_offset, node.dim)
                continue
            size = len(step.indexes), self.nnet.node_dim(step.node), self._is_contiguous(step.node)
            info.value = computation.new_matrix(*size)
            if info.deriv_needed:
                info.deriv = computation.new_matrix(*size)
            self._make_parts(info)

    def _is_contiguous(self, node: int) -> bool:
        if self.nnet.is_component_input(node):
            return self._component(node + 1)[1].has(Properties.INPUT_CONTIGUOUS)
        return self.nnet.is_component(node) and self._component(node)[1].has(Properties.OUTPUT_CONTIGUOUS)

    def _make_parts(self, info: _StepInfo) -> None:
        if len(info.parts) <= 1:
            info.part_values, info.part_derivs = [info.value], [info.deriv]
            return
        column = 0
        for part in info.parts:
            dim = part.dim(self.nnet)
            info.part_values.append(self.computation.new_submatrix(info.value, 0, -1, column, dim))
            info.part_derivs.append(
                self.computation.new_submatrix(info.deriv, 0, -1, column, dim) if info.deriv else 0)
            column += dim

    def _precompute_indexes(self) -> None:
        for number, (step, info) in enumerate(zip(self.steps, self.infos, strict=True)):
            if self.nnet.is_component(step.node):
                component = self._component(step.node)[1]
                precomputed = None if component.has(Properties.SIMPLE) else component.precompute_indexes(
                    self.steps[number - 1].indexes, step.indexes, self.request.needs_derivatives())
                if precomputed is not None:
                    info.precomputed = len(self.computation.precomputed_indexes)
                    self.computation.precomputed_indexes.append(precomputed)
                    self.computation.precomputed_rows.append((self.steps[number - 1].indexes, step.indexes))

    def _add_debug_info(self) -> None:
        computation = self.computation
        found: list[MatrixDebugInfo | None] = [computation.debug_info[0], *(None for _ in computation.matrices[1:])]
        for step, info in zip(self.steps, self.infos, strict=True):
            for s, is_deriv in ((info.value, False), (info.deriv, True)):
                matrix = computation.submatrices[s].matrix
                if computation.is_whole(s) and found[matrix] is None:
                    nodes = np.full(len(step.indexes), step.node, np.int32)
                    found[matrix] = MatrixDebugInfo(nodes, step.indexes, is_deriv)
        computation.debug_info = [info for info in found if info is not None]

    # -- sizing ----------------------------------------------------------------------------------------------------

    def _allocate(self) -> None:
        computation = self.computation
        given = {computation.submatrices[info.value].matrix if step.node in self._input_deriv
                 else computation.submatrices[info.deriv].matrix
                 for step, info in zip(self.steps, self.infos, strict=True)
                 if step.node in self._input_deriv or step.node in self._output_deriv}
        self._whole = computation.whole_submatrices()
        for m in range(1, len(computation.matrices)):
            if m not in given:
                self._add(CommandType.ALLOC_MATRIX, self._whole[m])
                self._add(CommandType.SET_CONST, self._whole[m], alpha=0.0)

    def _deallocate(self) -> None:
        computation = self.computation
        wanted = {computation.submatrices[info.value].matrix if step.node in self._output_deriv
                  else computation.submatrices[info.deriv].matrix
                  for step, info in zip(self.steps, self.infos, strict=True)
                  if step.node in self._input_deriv or step.node in self._output_deriv}
        for m in range(1, len(computation.matrices)):
            if m not in wanted:
                self._add(CommandType.DEALLOC_MATRIX, self._whole[m])

    # -- forward ---------------------------------------------------------------------------------------------------

    def _is_input_step(self, number: int) -> bool:
        return number < len(self.steps) and self.steps[number].node in self._input_deriv

    def _forward(self, number: int) -> None:
        step, info = self.steps[number], self.infos[number]
        if self._is_input_step(number):
            self._add(CommandType.ACCEPT_INPUT, info.value, step.node)
            if not self._is_input_step(number + 1):
                self._add(CommandType.NO_OPERATION_PERMANENT)
        elif self.nnet.is_component(step.node):
            index, component = self._component(step.node)
            memo = number if info.deriv and component.has(Properties.USES_MEMO) else 0
            store = self.request.store_component_stats and component.has(Properties.STORES_STATS)
            self._add(CommandType.PROPAGATE, index, info.precomputed, self.infos[number - 1].value, info.value, memo,
                      int(store))
        elif self.nnet.is_descriptor(step.node):
            for k in range(len(info.sources)):
                self._forward_part(info, k)
            if step.node in self._output_deriv:
                self._add(CommandType.PROVIDE_OUTPUT, info.value, step.node)

    def _forward_part(self, info: _StepInfo, k: int) -> None:
        part, value = info.parts[k], info.part_values[k]
        constant = part.constant()
        if constant != 0.0:
            self._add(CommandType.SET_CONST, value, alpha=constant)
        for scale, locations in self._by_scale(part, info.sources[k]):
            for matrices, rows in split_locations(*locations):
                self._add_rows(value, matrices, rows, scale)

    def _by_scale(self, part: Part, locations: Locations) -> list[tuple[float, Locations]]:
        """The locations in groups whose sources share a factor, by increasing factor."""
        scales = part.scales()
        distinct = sorted(set(scales.values()))
        if len(distinct) <= 1:
            return [(distinct[0] if distinct else 1.0, locations)]
        steps, rows = locations
        scale_of_step = np.array([scales.get(step.node, np.nan) for step in self.steps])
        return [(scale, compact(np.where((steps >= 0) & (scale_of_step[steps] == scale), steps, -1), rows))
                for scale in distinct]

    def _add_rows(self, value: int, steps: np.ndarray, rows: np.ndarray, scale: float) -> None:
        only = only_matrix(steps)
        if only < 0:
            submatrices = np.array([info.value for info in self.infos])
            self._add(CommandType.ADD_ROWS_MULTI, value, self._new_pairs(steps, rows, submatrices), alpha=scale)
            return
        source = self.infos[only].value
        rows = np.where(steps >= 0, rows, -1)
        if _is_identity(rows, self.computation.submatrices[source].num_rows):
            self._add(CommandType.MATRIX_ADD, value, source, alpha=scale)
        else:
            self._add(CommandType.ADD_ROWS, value, source, self._new_indexes(rows), alpha=scale)

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
        if self._is_input_step(number):
            self._add(CommandType.PROVIDE_OUTPUT, info.deriv, step.node)
            if not self._is_input_step(number + 1):
                self._add(CommandType.NO_OPERATION_PERMANENT)
        elif self.nnet.is_component(step.node):
            self._backward_component(number)
        elif self.nnet.is_descriptor(step.node):
            if step.node in self._output_deriv:
                self._add(CommandType.ACCEPT_INPUT, info.deriv, step.node)
            for k in range(len(info.sources)):
                self._backward_part(info, k)

    def _backward_component(self, number: int) -> None:
        info, inputs = self.infos[number], self.infos[number - 1]
        index, component = self._component(self.steps[number].node)
        x = inputs.value if component.has(Properties.BACKPROP_NEEDS_INPUT) else 0
        y = info.value if component.has(Properties.BACKPROP_NEEDS_OUTPUT) else 0
        memo = number if component.has(Properties.USES_MEMO) else 0
        self._add(CommandType.BACKPROP, index, info.precomputed, x, y, info.deriv, inputs.deriv, memo)

    def _backward_part(self, info: _StepInfo, k: int) -> None:
        derivs = np.array([other.deriv for other in self.infos])
        for scale, (steps, rows) in self._by_scale(info.parts[k], info.sources[k]):
            steps = np.where((steps >= 0) & (derivs[steps] > 0), steps, -1)
            for column in split_locations_backward(*compact(steps, rows)):
                self._add_rows_backward(info.part_derivs[k], column, derivs, scale)

    def _add_rows_backward(self, deriv: int, column: Column, derivs: np.ndarray, scale: float) -> None:
        steps, rows = column
        only = only_matrix(steps)
        if only < 0:
            self._add(CommandType.ADD_TO_ROWS_MULTI, deriv, self._new_pairs(steps, rows, derivs), alpha=scale)
            return
        target = int(derivs[only])
        num_rows = self.computation.submatrices[target].num_rows
        rows = np.where(steps >= 0, rows, -1)
        if _is_identity(rows, num_rows):
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
            raise CompileError("rows of a derivative that are added to one row do not follow each other")
        self.computation.indexes_ranges.append(ranges)
        self._add(CommandType.ADD_ROW_RANGES, target, deriv, len(self.computation.indexes_ranges) - 1, alpha=scale)


def _is_identity(rows: np.ndarray, num_rows: int) -> bool:
    return len(rows) == num_rows and bool((rows == np.arange(num_rows)).all())



