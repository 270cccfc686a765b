"""The network: nodes, which say what feeds what, and their components. Kaldi: ``Nnet`` of ``nnet-nnet.h``."""
from __future__ import annotations

import copy
import os
from typing import ClassVar

import numpy as np

from nnet3py.components.updatable import UpdatableComponent, is_updatable
from nnet3py.errors import ShapeError, UsageError
from nnet3py.io.object_files import write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.body import read_body, write_body
from nnet3py.network.config_reader import read_config_into
from nnet3py.network.consistency import check_nnet
from nnet3py.network.sameness import same_networks
from nnet3py.network.shortcuts import Shortcuts


class Nnet(Shortcuts):
    """A network.

    ``structure.py`` has the methods that inspect it, ``shortcuts.py`` short ways to use it, ``surgery*.py`` its edits.

    Attributes
    ----------
    prepared_version : the version after ``prepare_for_test``; -1 if it was not called
    path : the file that it was read from, as given; None if it was made otherwise
    """

    _FROM_FILE: ClassVar[str] = ("nnet3py.read_nnet('final.raw') reads a file, nnet3py.Nnet.from_config(text) config "
                                 "lines")

    def __init__(self) -> None:
        super().__init__()
        self.prepared_version = -1
        self.path: str | None = None

    # -- configs -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_config(cls, text: str, seed: int = 0, path: str | None = None) -> Nnet:
        """A network from config text; arguments and errors as for :meth:`read_config`.

        UsageError for the name of a file.
        """
        if isinstance(text, os.PathLike) or (isinstance(text, str) and text.endswith((".config", ".xconfig"))):
            raise UsageError(f"expected config lines, found the name {os.fspath(text)}",
                             f"nnet3py.Nnet.from_config(open({os.fspath(text)!r}).read())")
        nnet = cls()
        nnet.read_config(text, seed, path)
        return nnet

    def read_config(self, text: str, seed: int = 0, path: str | None = None) -> None:
        """Add the nodes and components of a config, which override those of the same name.

        Parameters
        ----------
        text : the config
        seed : of the random parameters; a component's parameters depend only on this and its name
        path : where the text comes from, for messages

        Raises
        ------
        ConfigError : an invalid config; the network is then unchanged
        """
        read_config_into(self, text, seed, path)
        self.structure_changed()

    def check(self, warn_for_orphans: bool = False) -> None:
        """Raise ConfigError if the nodes do not fit together; warn about what no output needs, if asked to.

        Kaldi: Nnet::Check.
        """
        check_nnet(self, warn_for_orphans)

    # -- parameters --------------------------------------------------------------------------------------------------

    def copy(self) -> Nnet:
        """A deep copy with the same version, so that compiled computations fit it too."""
        return copy.deepcopy(self)

    def as_gradient(self) -> Nnet:
        """A copy with all parameters and statistics zero, marked as a gradient: derivatives are added to it."""
        gradient = self.copy()
        gradient.scale(0.0)
        for component in gradient._updatable():
            component.set_as_gradient()
        return gradient

    def scale(self, factor: float) -> None:
        """Multiply all parameters and statistics by ``factor``, in place; 0 makes exact zeros."""
        for component in self.components:
            component.scale(factor)

    def add(self, alpha: float, other: Nnet) -> None:
        """Add ``alpha`` times the parameters and statistics of a network of the same structure, in place."""
        self.check_alike(other)
        for mine, theirs in zip(self.components, other.components, strict=True):
            mine.add(alpha, theirs)

    def dot_product(self, other: Nnet) -> float:
        """The dot product of all trainable parameters of this network and the other."""
        self.check_alike(other)
        return sum(mine.dot_product(theirs) for mine, theirs in zip(self.components, other.components, strict=True)
                   if is_updatable(mine) and is_updatable(theirs))

    def squares(self) -> np.ndarray:
        """For each component, the sum of squares of its trainable parameters, float64 (components,); 0 without any."""
        return np.array([component.dot_product(component) if is_updatable(component) else 0.0
                         for component in self.components])

    def scale_components(self, factors: np.ndarray) -> None:
        """Multiply parameters and statistics of each component by its factor, in place; 0 makes exact zeros.

        ``factors`` is float (components,).
        """
        for component, factor in zip(self.components, factors, strict=True):
            if factor != 1.0:
                component.scale(float(factor))

    def add_components(self, factors: np.ndarray, other: Nnet) -> None:
        """Add to each component its factor times that of ``other``, in place; nothing for 0.

        ``factors`` is float (components,).
        """
        for component, factor, theirs in zip(self.components, factors, other.components, strict=True):
            if factor != 0.0:
                component.add(float(factor), theirs)

    def num_parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(component.num_parameters() for component in self._updatable())

    def _updatable(self) -> list[UpdatableComponent]:
        return [component for component in self.components if is_updatable(component)]

    def __eq__(self, other: object) -> bool:
        """Whether both have the same nodes, and components of the same names, forms and numbers.

        Numbers are parameters, what is fixed, and batch normalization's statistics. Learning rates and the like, test
        modes and other statistics do not count. :func:`nnet3py.compare` says what differs.
        """
        if not isinstance(other, Nnet):
            return NotImplemented
        return self is other or same_networks(self, other)

    __hash__ = Shortcuts.__hash__        # of the object: networks change

    def check_alike(self, other: Nnet) -> None:
        """Raise ShapeError if the other network has other component types, or parameters of other shapes."""
        mine, theirs = ([(type(c).__name__, {name: p.shape for name, p in c.parameters().items()})
                         for c in nnet.components] for nnet in (self, other))
        if mine != theirs:
            raise ShapeError("the two networks have different components or parameters of different shapes")

    # -- files -------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader: TokenReader) -> Nnet:
        """Read a network, from ``<Nnet3>`` to ``</Nnet3>``.

        Raises
        ------
        FormatError : bytes that are not a network
        ConfigError : config lines in it that cannot be used
        """
        if isinstance(reader, str | os.PathLike):
            raise UsageError("Nnet.read takes an open file", "nnet3py.read_nnet('final.raw') reads one by its name")
        config, components = read_body(reader)
        nnet = cls()
        nnet.component_names, nnet.components = list(components), list(components.values())
        nnet.path = reader.path or None
        nnet.read_config(config, path=nnet.path)
        return nnet

    def write_to(self, writer: TokenWriter) -> None:
        """Write the network, from ``<Nnet3>`` to ``</Nnet3>``."""
        write_body(self, writer)

    def write(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Write the network to a file of its own (``path`` may be any wxfilename)."""
        write_object(path, self.write_to, binary)
