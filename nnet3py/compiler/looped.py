"""Looped compilation: a computation over the chunks of an endless stream, which keeps what later chunks need.

The first few chunks' requests are compiled as segments of one computation (segments.py); when the last ones are alike,
the optimizer ends it with a jump back (optimize/form_loop.py). Kaldi: nnet-compile-looped.h.
"""
from __future__ import annotations

import copy
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from nnet3py.compiler.cache_key import flags_of, looped_key, structure_of
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.check_loaded import check_loaded_loop
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.disk_cache import disk_cache
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.gc_pause import gc_paused
from nnet3py.compiler.generate import generate_segments
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CompileError, Nnet3Error
from nnet3py.network.descriptor import Descriptor, Part, ReplaceIndex, Round
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import DescriptorNode

logger = logging.getLogger(__name__)

NUM_REQUESTS = (5, 10, 20, 40, 80)      # chunks that are tried, until two of them are alike


def looped_chunk_size(nnet: Nnet, frames_per_chunk: int, frame_subsampling_factor: int = 1) -> int:
    """The least number of frames that is not less than ``frames_per_chunk`` and after which chunks can repeat.

    Kaldi: GetChunkSize.
    """
    if frames_per_chunk < 1 or frame_subsampling_factor < 1:
        raise Nnet3Error(f"a chunk of {frames_per_chunk} frames, of which every {frame_subsampling_factor}th has an "
                         "output, is not a chunk: both numbers must be 1 or more")
    unit = math.lcm(nnet.modulus(), frame_subsampling_factor)
    return -(-frames_per_chunk // unit) * unit


def with_ivector_period(nnet: Nnet, period: int) -> Nnet:
    """A copy whose components read, in place of a row at t = 0, the row at the last multiple of ``period``.

    So an i-vector may change from chunk to chunk. Parameters and components are shared. Raises CompileError for a
    ``ReplaceIndex`` to another time. Kaldi: ModifyNnetIvectorPeriod.
    """

    def changed(part: Any) -> Any:
        if isinstance(part, ReplaceIndex) and part.variable == "t":
            if part.value != 0:
                raise CompileError(f"'{part.text(nnet.node_names)}' always reads the same frame, which a looped "
                                   "computation cannot keep", "only ReplaceIndex(…, t, 0) can be looped")
            return Round(changed(part.child), period)
        fields = {name: tuple(map(changed, value)) if isinstance(value, tuple) else changed(value)
                  for name, value in vars(part).items() if isinstance(value, Part | tuple)}
        return replace(part, **fields) if fields else part

    out = copy.copy(nnet)
    out.nodes, out.components = list(nnet.nodes), list(nnet.components)
    for i, node in enumerate(nnet.nodes):
        if isinstance(node, DescriptorNode) and out.is_component_input(i):
            out.nodes[i] = replace(node, descriptor=Descriptor(tuple(map(changed, node.descriptor.parts))))
    out.structure_changed()
    return out


def looped_requests(nnet: Nnet, chunk_size: int, left_context: int, right_context: int,
                    frame_subsampling_factor: int = 1, num_sequences: int = 1) -> list[ComputationRequest]:
    """The requests for the first three chunks. Kaldi: CreateLoopedComputationRequest.

    Parameters
    ----------
    nnet : a simple network, as :func:`with_ivector_period` made it if it has an input ``ivector``
    chunk_size : frames in a chunk, which has one i-vector; see :func:`looped_chunk_size`
    left_context : frames of input before the first output
    right_context : frames of input after the last output of each chunk
    num_sequences : how many sequences, of the same times, go through it together; each one's rows stand together
    """
    has_ivector = nnet.input_dim("ivector") > 0
    requests = []
    given: set[int] = set()          # the times of i-vectors in earlier requests
    begin = -left_context
    for number in range(3):
        end = (number + 1) * chunk_size + right_context
        frames = np.arange(begin, end)
        inputs = [IoSpecification("input", _product(frames, num_sequences))]
        times = sorted(set((frames - frames % chunk_size).tolist()) - given)
        if has_ivector and times:
            inputs.append(IoSpecification("ivector", _product(np.array(times), num_sequences)))
        given.update(times)
        outputs = np.arange(number * chunk_size, (number + 1) * chunk_size, frame_subsampling_factor)
        requests.append(ComputationRequest(inputs, [IoSpecification("output", _product(outputs, num_sequences))]))
        begin = end
    return requests


def _product(times: np.ndarray, num_sequences: int) -> np.ndarray:
    """int32 (rows, 3): all times of the first sequence, then of the next."""
    indexes = np.zeros((len(times) * num_sequences, 3), np.int32)
    indexes[:, 0] = np.repeat(np.arange(num_sequences), len(times))
    indexes[:, 1] = np.tile(times, num_sequences)
    return indexes


def compile_looped(nnet: Nnet, requests: Sequence[ComputationRequest],
                   options: OptimizeOptions | None = None) -> Computation:
    """A computation that runs for ever, in the form that runs, from the requests for its first chunks.

    Parameters, errors : as for :func:`find_looped`
    """
    computation = fuse(_compile(nnet, requests, options or OptimizeOptions()), nnet, options)
    computation.invalidate_caches()
    return computation


def find_looped(nnet: Nnet, requests: Sequence[ComputationRequest], options: OptimizeOptions | None = None,
                cache_dir: str | os.PathLike[str] | None = None) -> Computation:
    """A computation that runs for ever, in Kaldi's commands: one that is kept on disk, else compiled and kept there.

    Kaldi: CompileLooped.

    Parameters
    ----------
    requests : three or more; all that follow are like the last one, as much later as that is than the one before it
    cache_dir : as for :class:`~nnet3py.compiler.cache.CachingCompiler`

    Raises
    ------
    CompileError : the last two requests differ by more than time, or no two chunks are computed alike
    NotComputableError : an output cannot be computed from what is given up to its chunk
    """
    options = options or OptimizeOptions()
    disk = disk_cache(cache_dir)
    if disk is None:
        return _compile(nnet, requests, options)
    key = looped_key(structure_of(nnet), flags_of(nnet), requests, options)
    computation = disk.load(key, lambda loaded: check_loaded_loop(loaded, nnet, lambda k: _request_number(requests, k)))
    if computation is None:
        computation = _compile(nnet, requests, options)
        disk.store(key, computation)
    return computation


@gc_paused
def _compile(nnet: Nnet, requests: Sequence[ComputationRequest], options: OptimizeOptions) -> Computation:
    start = perf_counter()
    for count in NUM_REQUESTS:
        computation = optimize(generate_segments(nnet, _extrapolated(requests, count)), nnet, options, looped=True)
        check_computation(computation, nnet)
        if computation.commands[-1].type == CommandType.GOTO_LABEL:
            computation.invalidate_caches()
            logger.info("Spent %.3g seconds in looped compilation.", perf_counter() - start)
            return computation
        logger.debug("Looped compilation failed with %d requests", count)
    raise CompileError(f"Looped compilation failed with {NUM_REQUESTS[-1]} requests, which is expected to be enough: "
                       "no two chunks of the network are computed alike",
                       "does the network's input reach back or ahead without end?")


def _extrapolated(requests: Sequence[ComputationRequest], count: int) -> list[ComputationRequest]:
    """``count`` requests, of which the first are given. Kaldi: ExtrapolateComputationRequest."""
    before, last = requests[-2:]
    if _shifted(before, _time_shift(requests)) != last:
        raise CompileError("the last two requests of a looped computation differ by more than their time",
                           "all chunks but the first must have the same size")
    return [_request_number(requests, number) for number in range(count)]


def _request_number(requests: Sequence[ComputationRequest], number: int) -> ComputationRequest:
    """The request for a chunk: one of the given ones, or the last of them moved to a later time."""
    later = number + 1 - len(requests)
    return requests[number] if later <= 0 else _shifted(requests[-1], later * _time_shift(requests))


def _time_shift(requests: Sequence[ComputationRequest]) -> int:
    before, last = requests[-2:]
    return int(last.outputs[0].indexes[0, 1]) - int(before.outputs[0].indexes[0, 1])


def _shifted(request: ComputationRequest, offset: int) -> ComputationRequest:
    """The same request ``offset`` frames later."""
    inputs, outputs = ([IoSpecification(io.name, io.indexes + np.array([0, offset, 0], np.int32), io.has_deriv)
                        for io in ios] for ios in (request.inputs, request.outputs))
    return ComputationRequest(inputs, outputs, request.need_model_derivative, request.store_component_stats)
