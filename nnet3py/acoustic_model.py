"""Acoustic models: a transition model, a network and priors in one file. Kaldi: ``AmNnetSimple``."""
from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnet3py.advice import ACOUSTIC_MODEL, NETWORK, Advising
from nnet3py.components.base import Component
from nnet3py.errors import FormatError, Nnet3Error, ShapeError, UsageError
from nnet3py.formats.matrices import read_vector, write_vector
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.model_place import model_in
from nnet3py.network.nnet import Nnet

_NOT_SIMPLE = ("the network of an acoustic model must have an input 'input', an output 'output', and if it has other "
               "inputs, 'ivector' among them")


@dataclass(eq=False)
class AcousticModel(CallableModel, Advising):
    """Network with transition model and priors, in one file. Kaldi: ``TransitionModel`` and ``AmNnetSimple``.

    Attributes
    ----------
    transition_model : TransitionModel
        Map from transition-ids to pdfs.
    nnet : Nnet
        Network with nodes ``input``, ``output`` and perhaps ``ivector``.
    priors : float32 (pdfs,), prior probabilities of pdfs; (0,) for none
    """

    _WHAT: ClassVar[str] = "an acoustic model"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = ACOUSTIC_MODEL
    _FROM_FILE: ClassVar[str] = "nnet3py.read_model('final.mdl') reads a file"

    transition_model: TransitionModel
    nnet: Nnet
    priors: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    def __repr__(self) -> str:
        priors = f"priors of {len(self.priors)} pdfs" if len(self.priors) else "no priors"
        return f"<AcousticModel: {self.transition_model!r}, {self.nnet!r}, {priors}>"

    def __eq__(self, other: object) -> bool:
        """Return whether transition models, networks (as by ``nnet == other``) and priors are equal."""
        if not isinstance(other, AcousticModel):
            return NotImplemented
        return self is other or (self.transition_model == other.transition_model and self.nnet == other.nnet
                                 and np.array_equal(self.priors, other.priors))

    __hash__ = object.__hash__          # by identity, since models are mutable

    def __getitem__(self, name: str) -> Component:
        """Return a component of the network: ``nnet[name]``."""
        return self.nnet[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a component or a node of the network has this name."""
        return name in self.nnet

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the network's components."""
        return iter(self.nnet)

    def __len__(self) -> int:
        """Return the number of components of the network."""
        return len(self.nnet)

    def _advice(self, name: str) -> str | None:
        """Return the hint for a missing attribute: ``model.nnet`` has it, or the hint that a network would give."""
        if name in self._ELSEWHERE or name.startswith("_") or "nnet" not in self.__dict__:
            return self._ELSEWHERE.get(name)
        if hasattr(self.nnet, name):
            return f"its network has, model.nnet.{name}"
        return f"with nnet = model.nnet: {NETWORK[name]}" if name in NETWORK else super()._advice(name)

    def copy(self) -> AcousticModel:
        """Return a deep copy."""
        return copy.deepcopy(self)

    def contexts(self) -> tuple[int, int]:
        """Return the frames of left and right context that the network needs. Raises Nnet3Error if it is not simple."""
        from nnet3py.compiler.build_graph import compute_simple_nnet_context

        check_is_simple(self.nnet)
        return compute_simple_nnet_context(self.nnet)

    def with_network(self, nnet: Nnet) -> AcousticModel:
        """Return an acoustic model of another network, with the transition model and priors of this one.

        Raises
        ------
        ShapeError : an output whose dimension is not the number of pdfs
        Nnet3Error : a network that is not simple
        """
        check_is_simple(nnet)
        dim, num_pdfs = nnet.output_dim("output"), self.transition_model.num_pdfs
        if dim not in (num_pdfs, self.nnet.output_dim("output")):
            raise ShapeError(f"the output of the network has dimension {dim}, but the transition model has {num_pdfs} "
                             "pdfs", "a network belongs to the model whose tree it was trained for")
        return AcousticModel(self.transition_model, nnet, self.priors)

    @classmethod
    def read(cls, reader: TokenReader) -> AcousticModel:
        """Read transition model, network, left and right context (which are ignored) and priors, after the header."""
        if isinstance(reader, str | os.PathLike):
            raise UsageError("AcousticModel.read takes an open file",
                             "nnet3py.read_model('final.mdl') reads one by its name")
        return cls.read_after(TransitionModel.read(reader), reader)

    @classmethod
    def read_after(cls, transition_model: TransitionModel, reader: TokenReader) -> AcousticModel:
        """Read network and priors, which follow the transition model in the file."""
        nnet = Nnet.read(reader)
        for token in ("<LeftContext>", "<RightContext>"):
            reader.expect(token)
            reader.integer()
        priors = reader.tagged("<Priors>", read_vector)
        check_is_simple(nnet, reader)
        return cls(transition_model, nnet, priors)

    def write_to(self, writer: TokenWriter) -> None:
        """Write transition model, network, left and right context (computed from the network) and priors."""
        left, right = self.contexts()
        self.transition_model.write(writer)
        self.nnet.write_to(writer)
        writer.tagged("<LeftContext>", TokenWriter.integer, left)
        writer.tagged("<RightContext>", TokenWriter.integer, right)
        writer.tagged("<Priors>", write_vector, self.priors)

    def write(self, path: str | os.PathLike[str], binary: bool = True) -> None:
        """Write the model to ``path``, which may be any wxfilename."""
        write_object(path, self.write_to, binary)


def check_is_simple(nnet: Nnet, reader: TokenReader | None = None) -> None:
    """Raise Nnet3Error, or FormatError if there is a ``reader``, for a network that is not simple (``is_simple``)."""
    if nnet.is_simple():
        return
    if reader is not None:
        raise reader.error(_NOT_SIMPLE)
    raise Nnet3Error(_NOT_SIMPLE, "write it as a raw network instead")


def read_model(path: str | os.PathLike[str]) -> AcousticModel:
    """Read an acoustic model (``.mdl``), text or binary, from a file or a model folder.

    Parameters
    ----------
    path : any rxfilename: a file, ``-``, ``command |``, ``file:offset``; or a model folder

    Returns
    -------
    The model, with ``.nnet``, ``.transition_model``, ``.priors``; ``model(feats)`` computes the network.

    Raises
    ------
    FormatError : bytes that are not an acoustic model; a raw network is refused with a hint
    Nnet3Error : a file that cannot be opened
    """
    return read_object(model_in(path), _read_model)


def acoustic_model(model: AcousticModel | str | os.PathLike[str]) -> AcousticModel:
    """Return ``model`` if it is an acoustic model, else read it from a file or a folder, as :func:`read_model`."""
    return model if isinstance(model, AcousticModel) else read_model(model)


def read_network_or_model(path: str | os.PathLike[str]) -> Nnet | AcousticModel:
    """Read a raw network or an acoustic model from a file or a model folder; raises errors as :func:`read_model`."""
    return read_object(model_in(path), lambda reader: Nnet.read(reader) if reader.peek_token() == "N"
                       else AcousticModel.read(reader))


def _read_model(reader: TokenReader) -> AcousticModel:
    if reader.peek_token() == "N":
        raise FormatError("expected an acoustic model that begins with <TransitionModel>, found a raw network",
                          path=reader.path, offset=reader.offset,
                          hint="nnet3-am-init makes an acoustic model of a transition model and a raw network")
    return AcousticModel.read(reader)
