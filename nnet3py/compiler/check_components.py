"""The checker's rules for the commands of components: propagate and backprop.

Kaldi: the cases kPropagate and kBackprop of ``ComputationChecker::CheckComputationIndexes``.
"""
from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from nnet3py.compiler.check_subject import Subject
from nnet3py.compiler.commands import BACKPROPS, CommandType
from nnet3py.components.base import Component, Properties
from nnet3py.components.registry import PRECOMPUTED_MODULES, PRECOMPUTED_SUFFIX
from nnet3py.errors import ShapeError


class _Component(NamedTuple):
    """The component commands of one type, int64 (commands,) each; 0 where a matrix is not given or not an argument."""

    kind: CommandType
    numbers: np.ndarray
    component: np.ndarray
    precomputed: np.ndarray
    x: np.ndarray
    y: np.ndarray
    dy: np.ndarray
    dx: np.ndarray
    memo: np.ndarray

    @property
    def is_backprop(self) -> bool:
        return self.kind in BACKPROPS

    def at_input(self) -> np.ndarray:
        """A sub-matrix that stands at the component's input: the value's or else the derivative's."""
        return np.where(self.x > 0, self.x, self.dx)

    def at_output(self) -> np.ndarray:
        """A sub-matrix that stands at the component's output."""
        return self.dy if self.is_backprop else self.y


def _commands(subject: Subject) -> Iterator[_Component]:
    for kind in (CommandType.PROPAGATE, *BACKPROPS):
        numbers, args = subject.table.numbers[kind], subject.table.args[kind]
        if len(numbers) and kind == CommandType.PROPAGATE:
            none = np.zeros_like(numbers)
            yield _Component(kind, numbers, args[:, 0], args[:, 1], args[:, 2], args[:, 3], none, none, args[:, 4])
        elif len(numbers):
            yield _Component(kind, numbers, *args[:, :7].T)


def components_have_output(subject: Subject) -> None:
    """A component has an output to set, or an output derivative to start from; and an input, if it reads one."""
    reads_input = _read_input(subject)
    for commands in _commands(subject):
        subject.require(commands.kind, commands.at_output() > 0, "the component has no output")
        if not commands.is_backprop:
            subject.require(commands.kind, (commands.x > 0) | ~reads_input[commands.component],
                            "the component has no input")


def columns_are_the_components(subject: Subject) -> None:
    """Values and derivatives have as many columns as the component's input or output."""
    for commands in _commands(subject):
        for matrices, dims in ((commands.x, subject.input_dim), (commands.dx, subject.input_dim),
                               (commands.y, subject.output_dim), (commands.dy, subject.output_dim)):
            fine = (matrices == 0) | (subject.cols[matrices] == dims[commands.component])
            subject.require(commands.kind, fine, "a matrix has other columns than the component")


def simple_components_keep_rows(subject: Subject) -> None:
    """A simple component has as many rows of output as of input."""
    for commands in _commands(subject):
        x, y = commands.at_input(), commands.at_output()
        fine = (subject.rows[x] == subject.rows[y]) | (x == 0) | ~subject.has(commands.component, Properties.SIMPLE)
        subject.require(commands.kind, fine, "a simple component has other rows of input than of output")


def derivatives_have_the_rows_of_values(subject: Subject) -> None:
    """A derivative has as many rows as what it is the derivative of."""
    for commands in _commands(subject):
        for value, deriv in ((commands.x, commands.dx), (commands.y, commands.dy)):
            fine = (value == 0) | (deriv == 0) | (subject.rows[value] == subject.rows[deriv])
            subject.require(commands.kind, fine, "a value and its derivative have different rows")


def precomputed_indexes_are_the_components(subject: Subject) -> None:
    """Components that precompute something have it, of their own type; others have nothing."""
    wanted = [type(component).__name__ + PRECOMPUTED_SUFFIX if _precomputes(component) else "NoneType"
              for component in subject.nnet.components]
    types = [type(indexes).__name__ for indexes in subject.computation.precomputed_indexes]
    for commands in _commands(subject):
        fine = [wanted[component] == types[entry] for component, entry in
                zip(commands.component.tolist(), commands.precomputed.tolist(), strict=True)]
        subject.require(commands.kind, np.array(fine, bool), "the precomputed indexes are of another component type")


def precomputed_indexes_fit(subject: Subject) -> None:
    """What a component has precomputed refers to existing rows."""
    for commands in _commands(subject):
        at_input, at_output = commands.at_input(), commands.at_output()
        places = np.flatnonzero((commands.precomputed > 0) & (at_input > 0))
        uses = np.stack([column[places] for column in (
            commands.component, commands.precomputed, subject.rows[at_input], subject.cols[at_input],
            subject.rows[at_output], subject.cols[at_output])], axis=1)
        first: dict[tuple[int, ...], int] = {}      # of each way to use precomputed indexes the first place
        for use, i in zip(map(tuple, uses.tolist()), places.tolist(), strict=True):
            first.setdefault(use, i)
        for use, i in first.items():
            component, precomputed = subject.nnet.components[use[0]], subject.computation.precomputed_indexes[use[1]]
            x, y = SimpleNamespace(shape=use[2:4]), SimpleNamespace(shape=use[4:6])
            try:
                component.check_precomputed(precomputed, x, y, commands.is_backprop)
            except ShapeError as error:
                subject.fail(error.message, int(commands.numbers[i]))


def _read_input(subject: Subject) -> np.ndarray:
    """bool (components,): whether they read an input. One that is not simple may have no input rows."""
    return np.array([_precomputes(component) or component.has(Properties.SIMPLE)
                     for component in subject.nnet.components], bool)


def _precomputes(component: Component) -> bool:
    return type(component).__name__ + PRECOMPUTED_SUFFIX in PRECOMPUTED_MODULES


def propagation_in_place_is_allowed(subject: Subject) -> None:
    """The output has no element in common with the input, or is the input, for components that allow that."""
    for commands in _commands(subject):
        if not commands.is_backprop:
            allowed = subject.has(commands.component, Properties.PROPAGATE_IN_PLACE)
            fine = ~subject.overlap(commands.x, commands.y) | allowed & subject.same_place(commands.x, commands.y)
            subject.require(commands.kind, fine, "this component cannot propagate in place")


def backprop_in_place_is_allowed(subject: Subject) -> None:
    """The input derivative is set where nothing else is, or where the output's is, for components that allow that."""
    for commands in _commands(subject):
        if commands.is_backprop:
            dx, dy = commands.dx, commands.dy
            allowed = subject.has(commands.component, Properties.BACKPROP_IN_PLACE)
            fine = ~subject.overlap(dx, dy) | allowed & subject.same_place(dx, dy)
            subject.require(commands.kind, fine, "this component cannot backpropagate in place")
            fine = ~subject.overlap(dx, commands.x) & ~subject.overlap(dx, commands.y)
            subject.require(commands.kind, fine, "the derivative is written over a value that is needed")


def backprop_has_the_values_it_needs(subject: Subject) -> None:
    """Backprop has the values that the component's properties ask for."""
    reads_input = _read_input(subject)
    for commands in _commands(subject):
        if commands.is_backprop:
            needs_input = (subject.has(commands.component, Properties.BACKPROP_NEEDS_INPUT)
                           & reads_input[commands.component])
            needs_output = subject.has(commands.component, Properties.BACKPROP_NEEDS_OUTPUT)
            fine = (~needs_input | (commands.x > 0)) & (~needs_output | (commands.y > 0))
            subject.require(commands.kind, fine, "the component needs a value for its backprop that is not given")


def backprop_has_an_effect(subject: Subject) -> None:
    """Backprop sets an input derivative, or updates the component."""
    for commands in _commands(subject):
        if commands.is_backprop:
            fine = (commands.dx > 0) | subject.has(commands.component, Properties.UPDATABLE)
            subject.require(commands.kind, fine, "Backprop is done but has no effect.")


def contiguous_matrices_have_all_columns(subject: Subject) -> None:
    """Components that see their matrices as one vector have sub-matrices with all columns of a matrix."""
    for commands in _commands(subject):
        for flag, matrices in ((Properties.INPUT_CONTIGUOUS, (commands.x, commands.dx)),
                               (Properties.OUTPUT_CONTIGUOUS, (commands.y, commands.dy))):
            for s in matrices:
                whole = subject.cols[s] == subject.sizes[subject.matrix_of[s], 1]
                subject.require(commands.kind, whole | ~subject.has(commands.component, flag),
                                "the component wants rows that follow each other without gaps")


def memos_are_made_once_and_used_once(subject: Subject) -> None:
    """Each memo is made by one propagate command, and used up by one later backprop command of the same component.

    The two also have the same rows and precomputed indexes, which determine the memo's size.
    """
    everything = list(_commands(subject))
    forward = [commands for commands in everything if not commands.is_backprop]
    waiting: dict[int, tuple[int, ...]] = {}        # memo -> command and what must be the same
    for c, memo, *same in _memos(subject, forward):
        if memo and memo in waiting:
            subject.fail(f"memo {memo} is made twice", c)
        waiting[memo] = (c, *same)
    uses_memo = subject.flags & int(Properties.USES_MEMO) != 0
    for c, memo, *same in sorted(_memos(subject, [access for access in everything if access.is_backprop])):
        if memo != 0 or uses_memo[same[0]]:
            maker = waiting.pop(memo, (c,)) if memo else (c,)
            if maker[0] >= c or list(maker[1:]) != same or not uses_memo[same[0]]:
                subject.fail(f"memo {memo} was not made by this component, not for these rows, or was used before", c)
    waiting.pop(0, None)
    if waiting:
        memo = min(waiting)
        subject.fail(f"memo {memo} is made and never used", waiting[memo][0])


def _memos(subject: Subject, everything: list[_Component]) -> Iterator[tuple[int, ...]]:
    """Command, memo, component, precomputed indexes and output rows, of those with a memo or that should have one."""
    for commands in everything:
        wants = subject.has(commands.component, Properties.USES_MEMO) | (commands.memo > 0)
        columns = (commands.numbers, commands.memo, commands.component, commands.precomputed,
                   subject.rows[commands.at_output()])
        yield from zip(*(column[wants].tolist() for column in columns), strict=True)


COMPONENT_RULES = (
    components_have_output, columns_are_the_components, simple_components_keep_rows,
    derivatives_have_the_rows_of_values, precomputed_indexes_are_the_components, precomputed_indexes_fit,
    propagation_in_place_is_allowed, backprop_has_the_values_it_needs, backprop_has_an_effect,
    backprop_in_place_is_allowed, contiguous_matrices_have_all_columns, memos_are_made_once_and_used_once)
