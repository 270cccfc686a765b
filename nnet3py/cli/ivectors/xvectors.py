"""nnet3-xvector-compute and nnet3-xvector-compute-batched: one vector for each utterance."""
from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.nnet.utterances import SIMPLE, MissingData, UtteranceSource, write_outputs
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import (
    COMPILER,
    COMPUTE,
    DEVICE,
    OPTIM,
    compiler_options,
    optimize_options,
    set_up,
    unprefixed,
    with_default,
)
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.option_fields import settings_of
from nnet3py.runtime.options import BatchedXvectorOptions, XvectorOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.runtime.cutting import Utterance

_DEVICE = with_default(DEVICE, "use-gpu", "no")


@kaldi_command("nnet3-xvector-compute", "Speakers and i-vectors", "Compute one vector for each utterance.", """
Compute a vector for each utterance, such as an x-vector, which tells speakers apart:
the output of a network that pools statistics over all frames. By default the vector is
of the whole utterance; with --chunk-size it is the average of vectors of pieces.

Usage: nnet3-xvector-compute [options] <raw-nnet-in> <features-rspecifier> <vector-wspecifier>

e.g.: nnet3-xvector-compute final.raw scp:feats.scp ark:xvectors.ark
""", arguments=(3, 3), options=[
    *with_default(SIMPLE, "acoustic-scale", 1.0), *unprefixed(COMPILER), *_DEVICE,
    *declared(settings_of(XvectorOptions)),
    option("cached-compiler-in", str, "", "Read compiled computations from this file"),
    option("cached-compiler-out", str, "", "Write compiled computations to this file"),
])
def xvector_compute(args: list[str], options: Options) -> int:
    from nnet3py.cli.nnet.utterances import model_for_test
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.xvectors import XvectorComputer

    device = set_up(options)
    start = time.perf_counter()
    nnet, _ = model_for_test(args[0], use_priors=False)
    computer = XvectorComputer(
        nnet, fields_from(options, XvectorOptions()),
        optimize_options(options), compiler_options(options, prefixed=False), device,
        options["computation.debug"] or options.debug_computation)
    if options.cached_compiler_in:
        computer.compiler.read_cache(options.cached_compiler_in)
    # The writer comes first, so that an error of the reader's end, too, leaves no output.
    with TableWriter(args[2], FLOAT_VECTOR) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features:
        source = _whole_utterances(features, options)
        num_done = write_outputs(writer, computer.compute_all(source))
    _log_time(start, source.num_frames)
    log.log(f"Done {num_done} utterances, failed for {source.num_read - num_done}")
    if options.cached_compiler_out:
        computer.compiler.write_cache(options.cached_compiler_out)
    computer.compiler.log_time()
    return 0 if num_done else 1


def _whole_utterances(features: Any, options: Options) -> UtteranceSource:
    """Return an iterable of utterances; those that are too short have an error as attribute."""
    from nnet3py.runtime.cutting import Utterance

    least_frames = 1 if options.pad_input else options.min_chunk_size

    def utterance(key: str, feats: np.ndarray) -> Utterance:
        if len(feats) < least_frames:
            raise MissingData(f"Minimum chunk size of {least_frames} is greater than the number of rows in utterance: "
                              f"{key}")
        if len(feats) < options.chunk_size:
            log.log(f"Chunk size of {options.chunk_size} is greater than the number of rows in utterance: {key}, "
                    f"using chunk size  of {len(feats)}")
        return Utterance(key, feats)

    return UtteranceSource(features, utterance)


@kaldi_command("nnet3-xvector-compute-batched", "Speakers and i-vectors",
               "Compute vectors for many utterances at a time; faster.", """
Compute a vector for each utterance, such as an x-vector, from pieces of one length that
are averaged, many at a time: faster than nnet3-xvector-compute.

Usage: nnet3-xvector-compute-batched [options] <raw-nnet-in> <features-rspecifier> <vector-wspecifier>

e.g.: nnet3-xvector-compute-batched --chunk-size=300 final.raw scp:feats.scp ark:xvectors.ark
""", arguments=(3, 3), options=[
    *unprefixed((*COMPUTE, *OPTIM, *COMPILER)), *_DEVICE,
    *declared(settings_of(BatchedXvectorOptions)),
])
def xvector_compute_batched(args: list[str], options: Options) -> int:
    from nnet3py.cli.nnet.utterances import model_for_test
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.xvectors import BatchedXvectorComputer

    device = set_up(options)
    start = time.perf_counter()
    nnet, _ = model_for_test(args[0], use_priors=False)
    computer = BatchedXvectorComputer(nnet, fields_from(options, BatchedXvectorOptions(
        optimize=optimize_options(options, prefixed=False), compiler=compiler_options(options, prefixed=False),
        debug=options.debug)), device)
    log.log(f"Left/right context is {computer.left_context}, {computer.right_context}")
    # The writer comes first, so that an error of the reader's end, too, leaves no output.
    with TableWriter(args[2], FLOAT_VECTOR) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features:
        source = _Utterances(features, 0 if options.pad_input else options.chunk_size)
        num_written = write_outputs(writer, computer.compute(source))
    _log_time(start, source.num_frames)
    log.log(f"Read {source.num_read} utterances, wrote {num_written} xvectors.")
    computer.compiler.log_time()
    return 0 if num_written > source.num_read // 2 else 1


class _Utterances:
    """Iterable of keys and features that counts utterances and frames, and warns of empty and short utterances.

    Empty utterances are left out.
    """

    def __init__(self, features: Any, least_frames: int) -> None:
        self._features, self._least_frames = features, least_frames
        self.num_read = self.num_frames = 0

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        for key, feats in self._features:
            if len(feats) == 0:
                log.warning(f"Zero-length utterance: {key}")
                continue
            self.num_read += 1
            self.num_frames += len(feats)
            if len(feats) < self._least_frames:
                log.warning(f"Skipping utterance {key}: it has {len(feats)} frames, fewer than the "
                            f"{self._least_frames} of a chunk")
            yield key, feats


def _log_time(start: float, num_frames: int) -> None:
    elapsed = time.perf_counter() - start
    log.log(f"Time taken {elapsed:.6g}s: real-time factor assuming 100 frames/sec is "
            f"{elapsed * 100 / max(num_frames, 1):.6g}")
