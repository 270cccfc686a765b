"""Files of raw networks, in text and binary, and the network in the file of an acoustic model.

Kaldi: ``ReadKaldiObject`` for ``Nnet``.
"""
from __future__ import annotations

import os

from nnet3py.io.object_files import read_object
from nnet3py.io.tokens import TokenReader
from nnet3py.network.model_place import model_in
from nnet3py.network.nnet import Nnet


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
    FormatError : bytes that are not a model; it names the file, the byte, the component and what was expected
    Nnet3Error : a file that cannot be opened
    """
    return read_object(model_in(path), read_nnet_or_model)


def read_nnet_or_model(reader: TokenReader) -> Nnet:
    """Read a network, or the network from an acoustic model; the header has been consumed already."""
    if reader.peek_token() == "T":
        from nnet3py.hmm.transition_model import TransitionModel

        TransitionModel.read(reader)
    return Nnet.read(reader)
