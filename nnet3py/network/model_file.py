"""Reading networks from files, and conversion of arguments that may be a network, an acoustic model or a file.

Kaldi: ``ReadKaldiObject`` for ``Nnet``.
"""
from __future__ import annotations

import os
from typing import Any, TypeAlias, cast

from nnet3py.errors import UsageError
from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader
from nnet3py.network.callable_model import CallableModel
from nnet3py.network.model_place import model_in
from nnet3py.network.nnet import Nnet

AnyModel: TypeAlias = CallableModel          # a network or an acoustic model
AnyModelOrFile: TypeAlias = "CallableModel | str | os.PathLike[str]"


def read_nnet(path: str | os.PathLike[str]) -> Nnet:
    """Read a network from a raw model or an acoustic model, text or binary.

    Parameters
    ----------
    path : any rxfilename: a file, ``-``, ``command |``, ``file:offset``; or a model folder

    Returns
    -------
    The network; ``nnet.path`` is where it was read from.

    Raises
    ------
    FormatError : data that are not a model; the message has file, byte offset, component and expected data
    Nnet3Error : a file that cannot be opened
    """
    return read_object(model_in(path), read_nnet_or_model)


def read_nnet_or_model(reader: TokenReader) -> Nnet:
    """Read a network, or the network from an acoustic model; the header has been consumed already."""
    if reader.peek_token() == "T":
        from nnet3py.hmm.transition_model import TransitionModel

        TransitionModel.read(reader)
    return Nnet.read(reader)


def network_of(model: AnyModel) -> Nnet:
    """Return the network of an acoustic model; a network is returned unchanged.

    Raises UsageError for anything else, such as the path of a file.
    """
    if isinstance(model, Nnet):
        return model
    if isinstance(model, CallableModel):                # an acoustic model, whose stage is a later one
        return cast(Nnet, cast(Any, model).nnet)
    if isinstance(model, str | os.PathLike):
        raise UsageError(f"expected a network, found the path {os.fspath(model)}",
                         f"nnet = nnet3py.read_nnet({os.fspath(model)!r})")
    shape = getattr(model, "shape", None)
    kind = f"{type(model).__name__} {tuple(shape)}" if isinstance(shape, tuple) else type(model).__name__
    raise UsageError(f"expected a network or an acoustic model, found {kind}",
                     "nnet3py.read_nnet('final.raw') reads one" if shape is None else
                     "the network comes first: nnet3py.compute(nnet, feats)")


def network_or_file(model: AnyModelOrFile) -> Nnet:
    """Return a network as :func:`network_of` does, or read it from a file or a model folder.

    Raises UsageError for anything else, and Nnet3Error for a file that :func:`read_nnet` cannot read.
    """
    return read_nnet(model) if isinstance(model, str | os.PathLike) else network_of(model)
