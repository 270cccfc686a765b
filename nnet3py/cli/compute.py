"""nnet3-compute: a network's output for utterances."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import DEVICE, IVEC, SIMPLE, with_default
from nnet3py.cli.options import Options, option
from nnet3py.errors import NumericError, UsageError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.runtime.compute import UtteranceComputer


@kaldi_command("nnet3-compute", usage="""
Compute a network's output for features, with batch-norm and dropout in test mode.

Usage: nnet3-compute [options] <nnet-in> <features-rspecifier> <matrix-wspecifier>

e.g.: nnet3-compute final.raw scp:feats.scp ark:nnet_prediction.ark
""", arguments=(3, 3), options=[
    *with_default(SIMPLE, "acoustic-scale", 1.0), *IVEC,
    option("apply-exp", bool, False, "Write exp(output), such as probabilities of a log-softmax"),
    option("use-priors", bool, False, "Subtract the logs of the priors of the model, which must be an acoustic model"),
    *DEVICE,
])
def compute(args: list[str], options: Options) -> int:
    """Compute outputs of utterances; 1 if none succeeded."""
    import time

    import numpy as np

    from nnet3py.cli.compute_setup import set_up
    from nnet3py.io.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter

    _check_ivector_options(options)
    device = set_up(options)
    start = time.perf_counter()
    num_done = num_failed = num_frames = 0
    computer = _utterance_computer(args[0], options, device)
    # The writer comes first, so that an error of a reader's end, too, leaves no output.
    with TableWriter(args[2], FLOAT_MATRIX) as writer, SequentialReader(args[1], FLOAT_MATRIX) as features, \
            _IvectorSource(options) as ivectors:
        for key, feats in features:
            output = _compute_one(computer, ivectors, key, feats, options)
            if output is None:
                num_failed += 1
                continue
            writer.write(key, np.exp(output) if options.apply_exp else output)
            num_done += 1
            num_frames += len(feats)
    elapsed = time.perf_counter() - start
    factor = elapsed * 100 / max(num_frames, 1)
    log.log(f"Time taken {elapsed:.6g}s: real-time factor assuming 100 frames/sec is {factor:.6g}")
    log.log(f"Done {num_done} utterances, failed for {num_failed}")
    computer.compiler.log_time()
    return 0 if num_done else 1


def _utterance_computer(model: str, options: Options, device: str) -> UtteranceComputer:
    from nnet3py.acoustic_model import read_model
    from nnet3py.cli.compute_setup import compiler_options, optimize_options
    from nnet3py.network.collapse import prepare_for_test
    from nnet3py.network.model_file import read_nnet
    from nnet3py.runtime.compute import ComputeOptions, UtteranceComputer

    priors = None
    if options.use_priors:
        acoustic_model = read_model(model)
        nnet, priors = acoustic_model.nnet, acoustic_model.priors
    else:
        nnet = read_nnet(model)
    return UtteranceComputer(prepare_for_test(nnet), ComputeOptions(
        extra_left_context=options.extra_left_context, extra_right_context=options.extra_right_context,
        extra_left_context_initial=options.extra_left_context_initial,
        extra_right_context_final=options.extra_right_context_final,
        frame_subsampling_factor=options.frame_subsampling_factor, frames_per_chunk=options.frames_per_chunk,
        acoustic_scale=options.acoustic_scale, optimize=optimize_options(options),
        compiler=compiler_options(options),
        debug=options["computation.debug"]), priors, device)


def _compute_one(computer: UtteranceComputer, ivectors: _IvectorSource, key: str, feats: np.ndarray,
                 options: Options) -> np.ndarray | None:
    """The output of one utterance, or None, with a warning, where this utterance cannot be computed."""
    if len(feats) == 0:
        log.warning(f"Zero-length utterance: {key}")
        return None
    try:
        with within(f"utterance {key}"):
            ivector, online_ivectors = ivectors.find(key)
            return computer.compute(feats, ivector, online_ivectors, options.online_ivector_period)
    except KeyError as error:
        log.warning(f"No {error.args[0]} available for utterance {key}")
    except NumericError as error:
        log.warning(f"Skipping {error}")
    return None


def _check_ivector_options(options: Options) -> None:
    if options.ivectors and options.online_ivectors:
        raise UsageError("--ivectors and --online-ivectors cannot both be given")
    if options.online_ivectors and options.online_ivector_period <= 0:
        raise UsageError(f"--online-ivectors needs --online-ivector-period, which is {options.online_ivector_period}",
                         "give the number of frames between online i-vectors")


class _IvectorSource:
    """The i-vectors that the options name, looked up by utterance."""

    def __init__(self, options: Options) -> None:
        from nnet3py.io.holders import FLOAT_MATRIX, FLOAT_VECTOR
        from nnet3py.io.tables import RandomAccessMappedReader, RandomAccessReader

        self._constant: Any = None
        self._online: Any = None
        if options.ivectors:
            self._constant = RandomAccessMappedReader(options.ivectors, options.utt2spk, FLOAT_VECTOR)
        if options.online_ivectors:
            self._online = RandomAccessReader(options.online_ivectors, FLOAT_MATRIX)

    def __enter__(self) -> _IvectorSource:
        return self

    def __exit__(self, *exception: Any) -> None:
        for reader in (self._constant, self._online):
            if reader is not None:
                reader.close()

    def find(self, key: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The utterance's constant and online i-vectors, None where not asked for; KeyError says which is missing."""
        found = []
        for reader, what in ((self._constant, "iVector"), (self._online, "online iVector")):
            if reader is not None and key not in reader:
                raise KeyError(what)
            found.append(reader[key] if reader is not None else None)
        return found[0], found[1]
