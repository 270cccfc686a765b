"""Computing a network's output over whole utterances, a chunk at a time. Kaldi: ``DecodableNnetSimple``.

Every chunk is shifted to start at t = 0, so that chunks of one size share one compiled computation. Frames before the
first and after the last are copies of those.
"""
from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, field

import numpy as np

from nnet3py.compiler.cache import CompilerOptions, OptimizeOptions
from nnet3py.compiler.context import compute_simple_nnet_context
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.collapse import prepare_for_test
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer_cache import ComputerCache
from nnet3py.runtime.network_io import NetworkIo

logger = logging.getLogger(__name__)

IVECTOR_TOLERANCE = 50   # frames that an utterance may go on after its last online i-vector


@dataclass
class ComputeOptions:
    """How utterances are cut and outputs scaled, as the options of ``nnet3-compute`` say. Lengths in frames."""

    extra_left_context: int = 0
    extra_right_context: int = 0
    extra_left_context_initial: int = -1    # -1: as extra_left_context
    extra_right_context_final: int = -1     # -1: as extra_right_context
    frame_subsampling_factor: int = 1
    frames_per_chunk: int = 50
    acoustic_scale: float = 1.0
    debug: bool = False                     # log every command as it runs
    optimize: OptimizeOptions = field(default_factory=OptimizeOptions)
    compiler: CompilerOptions = field(default_factory=CompilerOptions)

    def check(self) -> None:
        """Raise UsageError for values that make no sense."""
        for name, value, least in (
                ("extra-left-context", self.extra_left_context, 0),
                ("extra-right-context", self.extra_right_context, 0),
                ("frame-subsampling-factor", self.frame_subsampling_factor, 1),
                ("frames-per-chunk", self.frames_per_chunk, 1)):
            if value < least:
                raise UsageError(f"--{name}={value} must be {least} or more")

    def extra_context(self, is_first: bool, is_last: bool) -> tuple[int, int]:
        """Frames of left and right context of a chunk that the network does not need; a chunk may be first and last."""
        initial, final = self.extra_left_context_initial, self.extra_right_context_final
        return (initial if is_first and initial >= 0 else self.extra_left_context,
                final if is_last and final >= 0 else self.extra_right_context)


def rounded_frames_per_chunk(nnet: Nnet, options: ComputeOptions) -> int:
    """``frames_per_chunk``, rounded up to what makes all chunks alike; logs that."""
    factor, modulus = options.frame_subsampling_factor, nnet.modulus()
    unit = math.lcm(factor, modulus)
    wanted = options.frames_per_chunk
    rounded = -(-wanted // unit) * unit
    if rounded != wanted:
        reason = (f"--frame-subsampling-factor={factor}" if modulus == 1 else
                  f"nnet shift-invariance modulus = {modulus} and --frame-subsampling-factor={factor}")
        logger.info(f"Increasing --frames-per-chunk from {wanted} to {rounded} to make it a multiple of {reason}")
    return rounded


class UtteranceComputer:
    """Computes outputs of utterances with one network.

    Parameters
    ----------
    nnet : the network, used as it is: put it in test mode before (:func:`nnet3py.network.collapse.prepare_for_test`)
    options : see :class:`ComputeOptions`
    priors : float32 (output dim,), divided out of the output in the log domain; None or empty for none
    device : "cpu" or "cuda"
    """

    def __init__(self, nnet: Nnet, options: ComputeOptions | None = None, priors: np.ndarray | None = None,
                 device: str = "cpu") -> None:
        self.nnet = nnet
        self.options = options or ComputeOptions()
        self.options.check()
        self.left_context, self.right_context = compute_simple_nnet_context(nnet)
        self._io = NetworkIo(nnet, priors, self.options.acoustic_scale)
        self.compiler = self.options.compiler.compiler(nnet, self.options.optimize)
        self._computers = ComputerCache(nnet, self.compiler, device=device, debug=self.options.debug,
                                        capacity=self.options.compiler.cache_capacity)
        self._frames_per_chunk = rounded_frames_per_chunk(nnet, self.options)

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
        self._io.check_features(feats)
        self._io.check_ivectors(ivector, online_ivectors, online_ivector_period)
        factor = self.options.frame_subsampling_factor
        num_outputs = -(-len(feats) // factor)
        output = np.empty((num_outputs, self._io.output_dim), dtype=np.float32)
        outputs_per_chunk = self._frames_per_chunk // factor
        for begin in range(0, num_outputs, outputs_per_chunk):
            end = min(begin + outputs_per_chunk, num_outputs)
            chunk_ivector = self._chunk_ivector(ivector, online_ivectors, online_ivector_period,
                                                begin * factor, (end - 1) * factor)
            output[begin:end] = self._compute_chunk(feats, chunk_ivector, begin, end, end == num_outputs)
        return self._io.finish(output)

    def _compute_chunk(self, feats: np.ndarray, ivector: np.ndarray | None, begin: int, end: int,
                       is_last: bool) -> np.ndarray:
        """Outputs begin..end-1 (numbered in subsampled frames) of an utterance."""
        factor = self.options.frame_subsampling_factor
        extra_left, extra_right = self.options.extra_context(begin == 0, is_last)
        first = begin * factor - self.left_context - extra_left
        last = (end - 1) * factor + self.right_context + extra_right
        frames = np.arange(first, last + 1)
        computer = self._computers.computer(self._request(frames - begin * factor, np.arange(end - begin) * factor,
                                                          ivector is not None))
        computer.accept_input("input", feats[np.clip(frames, 0, len(feats) - 1)])
        if ivector is not None:
            computer.accept_input("ivector", ivector[None, :])
        computer.run()
        return computer.output("output")

    def _request(self, input_t: np.ndarray, output_t: np.ndarray, with_ivector: bool) -> ComputationRequest:
        inputs = [IoSpecification("input", _indexes_at(input_t))]
        if with_ivector:
            inputs.append(IoSpecification("ivector", _indexes_at(np.zeros(1, dtype=np.int32))))
        return ComputationRequest(inputs, [IoSpecification("output", _indexes_at(output_t))])

    @staticmethod
    def _chunk_ivector(ivector: np.ndarray | None, online_ivectors: np.ndarray | None, period: int, first_t: int,
                       last_t: int) -> np.ndarray | None:
        """The i-vector for output frames first_t..last_t: the constant one, or the online one of their middle."""
        if online_ivectors is None:
            return ivector
        row, last_row = (first_t + (last_t - first_t) // 2) // period, len(online_ivectors) - 1
        if last_row < 0 or (row - last_row) * period > IVECTOR_TOLERANCE:
            raise Nnet3Error(f"Could not get iVector for frame {(first_t + last_t) // 2}: there are {last_row + 1} "
                             f"online i-vectors, one every {period} frames", "check --online-ivector-period")
        return online_ivectors[min(row, last_row)]


def _indexes_at(t: np.ndarray) -> np.ndarray:
    indexes = np.zeros((len(t), 3), dtype=np.int32)
    indexes[:, 1] = t
    return indexes


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
