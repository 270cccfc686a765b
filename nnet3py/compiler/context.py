"""How many input frames before and after an output frame a network needs. Kaldi: ``ComputeSimpleNnetContext``."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler.graph import graph_builder
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error
from nnet3py.network.nnet import Nnet

FIRST_WINDOW = 40    # frames of input that are tried first; doubled while no output can be computed from them
LARGEST_WINDOW = 800
LARGEST_MODULUS = 1000    # shifts that are tried


def is_simple_nnet(nnet: Nnet) -> bool:
    """Whether the network has an ``input``, an ``output`` and no other input but ``ivector``. Kaldi: IsSimpleNnet."""
    return nnet.is_simple()


def compute_simple_nnet_context(nnet: Nnet) -> tuple[int, int]:
    """The left and right context in frames. Optional inputs (IfDefined and the like) do not count.

    Raises
    ------
    Nnet3Error : the network is not simple, computes nothing from fewer than 800 frames, or has a modulus above 1000
    """
    if not is_simple_nnet(nnet):
        raise Nnet3Error("the context of a network is defined only if it has an 'input', an 'output' and no other "
                         "input but 'ivector'")
    modulus = nnet.modulus()
    if modulus > LARGEST_MODULUS:
        raise Nnet3Error(f"the network repeats itself only every {modulus} frames; its context is measured up to "
                         f"{LARGEST_MODULUS}", "are the periods of its Round() and Switch() right?")
    window = FIRST_WINDOW
    while window < LARGEST_WINDOW:
        context_of_shift = [_context_at(nnet, shift, modulus, window) for shift in range(modulus + 1)]
        contexts = [context for context in context_of_shift if context is not None]
        if len(contexts) == len(context_of_shift):
            if contexts[0] != contexts[-1]:
                raise Nnet3Error(f"the network's context is {contexts[0]} at t=0 but {contexts[-1]} at t={modulus}, "
                                 "one period later")
            return max(left for left, _ in contexts), max(right for _, right in contexts)
        window *= 2
    raise Nnet3Error(f"the network computes no output from {window // 2} frames of input",
                     "its context is too long, or an output needs an input other than 'input' and 'ivector'")


def _context_at(nnet: Nnet, shift: int, modulus: int, window: int) -> tuple[int, int] | None:
    """Left and right context with inputs and outputs from t = shift on; None if no output is computable."""
    frames = _times(shift, shift + window)
    inputs = [IoSpecification("input", frames)]
    if nnet.input_dim("ivector") > 0:
        inputs.append(IoSpecification("ivector", _times(shift - modulus, shift + window)))
    builder = graph_builder(nnet, ComputationRequest(inputs, [IoSpecification("output", frames)]))
    builder.compute()
    computable = builder.computable_outputs()[0]      # rows are sorted by t
    if not computable.any():
        return None
    left = int(computable.argmax())
    rest = computable[left:]
    length = len(rest) if rest.all() else int(rest.argmin())
    return left, window - (left + length)


def _times(begin: int, end: int) -> np.ndarray:
    indexes = np.zeros((end - begin, 3), np.int32)
    indexes[:, 1] = np.arange(begin, end)
    return indexes
