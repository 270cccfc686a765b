"""nnet3-compute, nnet3-compute-batch: a network's output for utterances."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.nnet.utterance_batches import BATCH, with_ivectors, write_outputs
from nnet3py.cli.nnet.utterances import (
    IVEC,
    SIMPLE,
    IvectorSource,
    check_ivector_options,
    compute_options,
    model_for_test,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, with_default
from nnet3py.cli.process.options import Options, fields_from, option
from nnet3py.runtime.options import BatchOptions

_OPTIONS = [
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC,
    option("apply-exp", bool, False, "Write exp(output), such as probabilities of a log-softmax"),
    option("use-priors", bool, False, "Subtract the logs of the priors of the model, which must be an acoustic model"),
]


@kaldi_command("nnet3-compute", group="Computing outputs", help="Compute a network's output for features.", usage="""
Compute a network's output for features, with batch-norm and dropout in test mode.

Usage: nnet3-compute [options] <nnet-in> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-compute final.raw scp:feats.scp ark:nnet_prediction.ark
""", arguments=(3, 3), options=[*_OPTIONS, *DEVICE])
def compute(args: list[str], options: Options) -> int:
    """Compute outputs of utterances; 1 if none succeeded."""
    import time

    from nnet3py.cli.process.compute_setup import set_up
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.compute import UtteranceComputer

    check_ivector_options(options)
    device = set_up(options)
    start = time.perf_counter()
    nnet, priors = model_for_test(args[0], options.use_priors)
    computer = UtteranceComputer(nnet, compute_options(options), priors, device)
    # The writer comes first, so that even an error when a reader closes leaves no output.
    with TableWriter(args[2], FLOAT_MATRIX) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        source = with_ivectors(features, ivectors)
        outputs = computer.compute_all(source, options.online_ivector_period)
        num_done = write_outputs(writer, outputs, options.apply_exp)
    elapsed = time.perf_counter() - start
    factor = elapsed * 100 / max(source.num_frames, 1)
    log.log(f"Time taken {elapsed:.6g}s: real-time factor assuming 100 frames/sec is {factor:.6g}")
    log.log(f"Done {num_done} utterances, failed for {source.num_read - num_done}")
    computer.compiler.log_time()
    return 0 if num_done else 1


@kaldi_command("nnet3-compute-batch", group="Computing outputs",
               help="Compute a network's output for many utterances at a time; faster.", usage="""
Compute a network's output for features, with batch-norm and dropout in test mode, for chunks of many utterances at a
time. Recurrent networks see chunks of one length, which overlap at an utterance's end. nnet3-compute is as fast, and
cuts utterances as Kaldi's does.

Usage: nnet3-compute-batch [options] <nnet-in> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-compute-batch final.raw scp:feats.scp ark:nnet_prediction.ark
""", arguments=(3, 3), options=[*_OPTIONS, *BATCH, *DEVICE])
def compute_batch(args: list[str], options: Options) -> int:
    """Compute outputs of utterances; 1 if none succeeded."""
    import time

    from nnet3py.cli.process.compute_setup import set_up
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.runtime.batch import BatchComputer

    check_ivector_options(options)
    device = set_up(options)
    start = time.perf_counter()
    nnet, priors = model_for_test(args[0], options.use_priors)
    computer = BatchComputer(nnet, compute_options(options), fields_from(options, BatchOptions()), priors, device)
    # The writer comes first, so that even an error when a reader closes leaves no output.
    with TableWriter(args[2], FLOAT_MATRIX) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features, \
            IvectorSource(options) as ivectors:
        source = with_ivectors(features, ivectors)
        outputs = computer.compute(source, options.online_ivector_period)
        num_done = write_outputs(writer, outputs, options.apply_exp)
    log.log(f"Time taken {time.perf_counter() - start:.6g}s")
    log.log(f"Done {num_done} utterances, failed for {source.num_read - num_done}")
    computer.compiler.log_time()
    return 0 if num_done else 1
