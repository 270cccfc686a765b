"""Computation requests from a text, from ranges of times, or as in training with a network."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.compiler.graph import graph_builder
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import FormatError, UsageError

if TYPE_CHECKING:
    from nnet3py.network.nnet import Nnet

MAX_ROWS = 2_000_000      # of one input or output; more is a typing error
MAX_TIME = 1_000_000_000  # so that offsets can be added

_FLAGS = ("need_model_derivative", "store_component_stats")
_HINT = "lines are 'input NAME has_deriv=0 n,t,x n,t,x …', the same with 'output', and need_model_derivative=0"
_RANGE = re.compile(r"([^:,\s]+):([+-]?\d{1,10})(?::([+-]?\d{1,10})(?::(\d{1,10}))?)?")


def parse_request(text: str, path: str = "") -> ComputationRequest:
    """Parse a request from a text with a line for each input, output and flag.

    Raises FormatError, with the line's number, for any other line or numbers that are not indexes, and Nnet3Error if
    the lines make no request.
    """
    ios: dict[str, list[IoSpecification]] = {"input": [], "output": []}
    flags = dict.fromkeys(_FLAGS, False)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number} of the request"
        if words[0] in ios:
            ios[words[0]].append(_io_line(words, where, path))
        else:
            name, _, value = "".join(words).partition("=")
            if name not in flags or value not in ("0", "1"):
                raise FormatError(f"{where} is not understood: {line[:80]!r}", path, hint=_HINT)
            flags[name] = value == "1"
    return ComputationRequest(ios["input"], ios["output"], **flags)


def _io_line(words: list[str], where: str, path: str) -> IoSpecification:
    if len(words) < 3 or words[2] not in ("has_deriv=0", "has_deriv=1"):
        raise FormatError(f"{where} lacks its node or has_deriv=0 or has_deriv=1", path, hint=_HINT)
    rows = []
    for word in words[3:]:
        if not re.fullmatch(r"[+-]?\d{1,10},[+-]?\d{1,10}(,[+-]?\d{1,10})?", word):
            raise FormatError(f"{where} has {word[:40]!r} where n,t,x is expected", path, hint=_HINT)
        numbers = [int(part) for part in word.split(",")]
        rows.append(numbers + [0] * (3 - len(numbers)))
    return IoSpecification(words[1], np.array(rows, np.int64).reshape(-1, 3), words[2].endswith("1"))


def range_request(inputs: str, outputs: str, num_sequences: int, train: bool = False, input_derivs: Sequence[str] = (),
                  store_stats: bool = False) -> ComputationRequest:
    """Make a request of ranges of times, the same in every sequence.

    Raises UsageError for a range that is not understood or much too long, or an input derivative of something that is
    not an input.

    Parameters
    ----------
    inputs, outputs : ``NAME:T``, ``NAME:FIRST:LAST`` or ``NAME:FIRST:LAST:STEP`` (both ends included), with commas
    train : whether the request is for training: with derivatives of all outputs as inputs, and of the model as results
    input_derivs : the inputs whose derivatives are requested
    """
    given, wanted = _ranges(inputs, "input"), _ranges(outputs, "output")
    return _request(given, wanted, num_sequences, train, input_derivs, store_stats)


def _ranges(text: str, kind: str) -> dict[str, np.ndarray]:
    ranges: dict[str, np.ndarray] = {}
    for word in text.split(","):
        match = _RANGE.fullmatch(word.strip())
        if match is None:
            raise UsageError(f"--{kind}: {word.strip()[:60]!r} is not a range of times",
                             f"the form is --{kind}=NAME:FIRST:LAST or --{kind}=NAME:FIRST:LAST:STEP, several with "
                             "commas; both ends are included")
        first = int(match[2])
        last, step = int(match[3] or first), int(match[4] or 1)
        if step < 1 or last < first or max(abs(first), abs(last)) > MAX_TIME or match[1] in ranges:
            raise UsageError(f"--{kind}: {word.strip()[:60]!r} holds no times, or times out of range, or a name twice",
                             "FIRST may not be after LAST, STEP is 1 or more, and a name stands once")
        _check_rows(match[1], (last - first) // step + 1)
        ranges[match[1]] = np.arange(first, last + 1, step)
    return ranges


def _check_rows(name: str, count: int) -> None:
    if count > MAX_ROWS:
        raise UsageError(f"the request asks for {count} rows of '{name}'; {MAX_ROWS} are the most",
                         "ask for fewer frames or sequences")


def _request(inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray], num_sequences: int, train: bool,
             input_derivs: Sequence[str], store_stats: bool) -> ComputationRequest:
    for name in input_derivs:
        if name not in inputs:
            raise UsageError(f"a derivative of '{name}' is wanted, which is not an input of the request",
                             f"its inputs are {', '.join(inputs)}")
    for name, times in (*inputs.items(), *outputs.items()):
        _check_rows(name, len(times) * num_sequences)
    has_backward = train or bool(input_derivs)
    return ComputationRequest(
        [IoSpecification(name, _rows(num_sequences, times), name in input_derivs) for name, times in inputs.items()],
        [IoSpecification(name, _rows(num_sequences, times), has_backward) for name, times in outputs.items()],
        train, store_stats)


def _rows(num_sequences: int, times: np.ndarray) -> np.ndarray:
    """Return indexes (n, t, x), all times of sequence 0, then of sequence 1, …: int64 (rows, 3)."""
    rows = np.zeros((num_sequences * len(times), 3), np.int64)
    rows[:, 0] = np.repeat(np.arange(num_sequences), len(times))
    rows[:, 1] = np.tile(times, num_sequences)
    return rows


def natural_request(nnet: Nnet, frames: int, num_sequences: int = 1, frame_subsampling_factor: int = 1,
                    train: bool = False, outputs: Sequence[str] = ("output",), input_derivs: Sequence[str] = (),
                    store_stats: bool = False, extra_left_context: int = 0,
                    extra_right_context: int = 0) -> ComputationRequest:
    """Make the request of chunks of ``frames`` frames, with the context that the network needs, as in training.

    An input ``ivector`` has the times at which the network reads it, in most networks only t = 0.

    Raises
    ------
    UsageError : too many rows
    Nnet3Error : the network has other inputs than ``input`` and ``ivector``
    """
    left, right = compute_simple_nnet_context(nnet)
    first, end = -(left + extra_left_context), frames + right + extra_right_context
    _check_rows("input", end - first)
    wanted = np.arange(0, frames, frame_subsampling_factor)
    inputs = {"input": np.arange(first, end)}
    if nnet.input_dim("ivector") > 0:
        inputs["ivector"] = _times_used(nnet, "ivector", inputs["input"], wanted, outputs)
    return _request(inputs, dict.fromkeys(outputs, wanted), num_sequences, train, input_derivs, store_stats)


def _times_used(nnet: Nnet, name: str, times: np.ndarray, wanted: np.ndarray, outputs: Sequence[str]) -> np.ndarray:
    """Return the times at which the outputs read the input ``name``: int64 (times,).

    ``times``, ``wanted`` : times of the input ``input``, and of the outputs.
    """
    margin = np.arange(times[0] - nnet.modulus(), times[-1] + nnet.modulus() + 1)
    request = ComputationRequest([IoSpecification("input", _rows(1, times)), IoSpecification(name, _rows(1, margin))],
                                 [IoSpecification(output, _rows(1, wanted)) for output in outputs])
    builder = graph_builder(nnet, request)
    builder.compute()
    graph = builder.prune()
    used = graph.dependencies[graph.nodes()[graph.dependencies] == nnet.node_index(name)]
    values = np.unique(graph.indexes[used, 1]) if len(used) else np.zeros(1, np.int64)
    return values.astype(np.int64)
