"""Computing a network's output over whole utterances. Kaldi: ``DecodableNnetSimple``, nnet3-compute.

Kaldi computes chunk after chunk. The output is the same here, but chunks of one shape, of one utterance or of many, run
as one minibatch.
"""
from __future__ import annotations

import os

import numpy as np

from nnet3py.compiler.cache import CompilerOptions
from nnet3py.network.collapse import prepare_for_test
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.batch import MinibatchComputer
from nnet3py.runtime.cutting import MAX_PENDING, ChunkAfterChunk, ComputeOptions, Utterance

__all__ = ["ComputeOptions", "UtteranceComputer", "compute"]


class UtteranceComputer(MinibatchComputer):
    """Computes outputs of utterances with one network; ``compute_all`` takes many, which is faster.

    Parameters
    ----------
    nnet : the network, used as it is: put it in test mode before (:func:`nnet3py.network.collapse.prepare_for_test`)
    options : see :class:`ComputeOptions`
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    device : "cpu" or "cuda"
    max_pending : numbers of features and outputs that may wait before minibatches are run though they are not full
    """

    def __init__(self, nnet: Nnet, options: ComputeOptions | None = None, priors: np.ndarray | None = None,
                 device: str = "cpu", max_pending: int = MAX_PENDING) -> None:
        options = options or ComputeOptions()
        super().__init__(nnet, options, ChunkAfterChunk(nnet, options, device), priors, device, max_pending)

    def compute(self, feats: np.ndarray, ivector: np.ndarray | None = None, online_ivectors: np.ndarray | None = None,
                online_ivector_period: int = 0) -> np.ndarray:
        """Output of one utterance.

        Parameters
        ----------
        feats : float (frames, input dim)
        ivector : float (ivector dim,), the same for the whole utterance
        online_ivectors : float (count, ivector dim), one every ``online_ivector_period`` frames

        Returns
        -------
        float32 (ceil(frames / frame_subsampling_factor), output dim)

        Raises
        ------
        ShapeError : features or i-vectors of another dimension than the network asks for
        NumericError : NaN or infinity in them, or NaN in what the network makes of them
        Nnet3Error : the utterance goes on too long after its last online i-vector
        """
        (_, result), = self.compute_all([Utterance("", feats, ivector, online_ivectors)], online_ivector_period)
        if isinstance(result, np.ndarray):
            return result
        raise result


def compute(nnet: Nnet, feats: np.ndarray, ivector: np.ndarray | None = None, frames_per_chunk: int = 50,
            device: str = "cpu", cache_dir: str | os.PathLike[str] | None = None) -> np.ndarray:
    """Output of a network for one utterance, with batch-norm and dropout in test mode, as ``nnet3-compute`` gives it.

    Parameters
    ----------
    nnet : left as it is; a copy is put in test mode
    feats : float (frames, input dim)
    ivector : float (ivector dim,), or None where the network has no such input
    frames_per_chunk : frames computed at a time
    device : "cpu" or "cuda"
    cache_dir : a folder where compiled computations are kept for other processes; None: the one that the environment
        variable NNET3PY_COMPUTATION_CACHE names, if it is set; "": none

    Returns
    -------
    float32 (frames, output dim)

    Notes
    -----
    For many utterances make one :class:`UtteranceComputer` and keep it: it compiles once.
    """
    options = ComputeOptions(frames_per_chunk=frames_per_chunk, compiler=CompilerOptions(cache_dir=cache_dir))
    computer = UtteranceComputer(prepare_for_test(nnet.copy()), options, device=device)
    return computer.compute(np.asarray(feats), None if ivector is None else np.asarray(ivector))
