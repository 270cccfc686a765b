"""Changing a network from Python: a block of edits, and the checks at its end.

The edits themselves, from which ``Nnet`` is derived, are in ``surgery_components.py`` and ``surgery_nodes.py``. An edit
that would leave a network that Kaldi cannot use is refused, and the network is then unchanged. Several edits that are
valid only together are made inside ``with nnet.edit():``.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nnet3py.config_line import is_valid_name
from nnet3py.errors import ConfigError, DescriptorError, within
from nnet3py.network.consistency import check_nnet
from nnet3py.network.loops import find_loop
from nnet3py.network.nodes import DescriptorNode
from nnet3py.network.structure import NetworkStructure


class EditState:
    """The state of an open edit: its depth, the arrays that it has overwritten, a cycle that existed before."""

    def __init__(self) -> None:
        self.depth = 0
        self.overwritten: list[tuple[np.ndarray, np.ndarray]] = []
        self.old_loop: list[str] = []
        self.old_faults: set[str] = set()

    def __deepcopy__(self, memo: dict[int, object]) -> EditState:
        return EditState()      # a copy of the network is not being edited


class Edits(NetworkStructure):
    """A network that can be edited in blocks; the edits themselves are in derived classes."""

    def __init__(self) -> None:
        super().__init__()
        self._edit_state = EditState()

    @contextmanager
    def edit(self) -> Iterator[Edits]:
        """A block of edits: either all are made or none.

        Names and references are checked at each step, dimensions and cycles at the end. If anything is raised in the
        block, the network is restored, including parameters that ``set_parameters`` has set.

        >>> with nnet.edit():                       # none of the three is valid without the others
        ...     nnet.replace_component("affine1", "type=AffineComponent input-dim=120 output-dim=64")
        ...     nnet.replace_component("relu1", "type=RectifiedLinearComponent dim=64")
        ...     nnet.replace_component("affine2", "type=AffineComponent input-dim=64 output-dim=10")
        """
        state = self._edit_state
        if state.depth == 0:
            state.old_loop, state.old_faults = find_loop(self), {name for name, _ in _faults(self)}
        nodes, fields = list(self.nodes), [dict(vars(node)) for node in self.nodes]
        components, names, version = list(self.components), list(self.component_names), self.version
        num_overwritten = len(state.overwritten)
        state.depth += 1
        try:
            yield self
            if state.depth == 1:
                _check(self)
                self.structure_changed()
        except BaseException:
            self.nodes, self.components, self.component_names, self.version = nodes, components, names, version
            for node, values in zip(nodes, fields, strict=True):
                vars(node).update(values)
            while len(state.overwritten) > num_overwritten:
                array, values_before = state.overwritten.pop()
                array[...] = values_before
            raise
        finally:
            state.depth -= 1
            if state.depth == 0:
                state.overwritten.clear()


def _check(nnet: Edits) -> None:
    """Raise ConfigError for faults that make the network unusable, except those that it had before."""
    check_nnet(nnet)
    for name, error in _faults(nnet):
        if name not in nnet._edit_state.old_faults:
            with within(f"node {name}"):
                raise error
    loop = find_loop(nnet)
    if loop and loop != nnet._edit_state.old_loop:
        raise ConfigError(f"the nodes {', '.join(loop)} would depend on each other within one time step",
                          "a recurrence goes one way in time, as in IfDefined(Offset(node, -1))")


def _faults(nnet: NetworkStructure) -> Iterator[tuple[str, DescriptorError]]:
    """The nodes whose descriptors the compiler could not use, each with the reason."""
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode):
            try:
                node.descriptor.dim(nnet)
                for part in node.descriptor.parts:
                    part.scales()
                    part.constant()
            except DescriptorError as error:
                yield nnet.nodes[i + nnet.is_component_input(i)].name, error


def check_name(name: str, kind: str) -> None:
    """Raise ConfigError for an invalid name of a ``kind``: a node or a component."""
    if not isinstance(name, str) or not is_valid_name(name):
        raise ConfigError(f"{name!r} cannot name a {kind}", "a letter or '_', then letters, digits, '_', '-' and '.'")


def listed(names: list[str]) -> str:
    """Names for a message, without repetitions."""
    return ", ".join(dict.fromkeys(names))
