"""Programs that train and convert Gaussian mixtures of all features (gmm-global-*, fgmm-global-*)."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.ivectors.gmm_posteriors import mixture_class
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, option
from nnet3py.errors import ShapeError, within
from nnet3py.gaussians.options import DiagOptions, FullOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.gaussians.estimation import GmmStats

_UPDATE_FLAGS = option("update-flags", str, "mvw", "Parameters to estimate: means (m), variances (v), weights (w)")
_DIAG_OPTIONS, _FULL_OPTIONS = declared(settings_of(DiagOptions)), declared(settings_of(FullOptions))
_COVARIANCE_FLOORS = ("variance-floor", "max-condition")
_ALL_STAY = "all Gaussians stay"
_FLOOR_OPTIONS = tuple(each if each.name in _COVARIANCE_FLOORS else
                       each.but(help=f"No effect: {_ALL_STAY}", idle=lambda value, options: _ALL_STAY)
                       for each in _FULL_OPTIONS)
_ACC_OPTIONS = (BINARY, _UPDATE_FLAGS,
                option("gselect", str, "", "Gaussians of each frame (rspecifier), instead of all"),
                option("weights", str, "", "Weights of frames (rspecifier), vectors"))


def _convert(args: list[str], options: Options, read: Any, convert: Callable[[Any], Any], what: str) -> None:
    """Read a mixture, convert it, and write the result; ``what`` names it in the log line."""
    from nnet3py.io.object_files import read_object, write_object

    write_object(args[1], convert(read_object(args[0], read)).write, options.binary)
    log.log(f"Written {what} to {args[1]}")


@kaldi_command("gmm-global-init-from-feats", "Speakers and i-vectors", "Train a mixture of Gaussians on features.", """
Train a mixture of Gaussians with diagonal covariance on features, starting from frames chosen at random.

Usage:  gmm-global-init-from-feats [options] <feature-rspecifier> <model-out>
e.g.: gmm-global-init-from-feats --num-gauss=512 scp:train.scp 0.dubm
See also: gmm-global-acc-stats, gmm-global-est
""", arguments=(2, 2), options=[
    BINARY, *_DIAG_OPTIONS,
    option("num-gauss", int, 100, "Final number of Gaussians", least=1),
    option("num-gauss-init", int, 0, "Initial number of Gaussians; 0 for the final one"),
    option("num-iters", int, 50, "Number of iterations", least=1),
    option("num-frames", int, 200000, "Most frames to keep in memory, chosen at random", least=1),
    option("srand", int, 0, "Seed of the random choices"),
    option("num-threads", int, 4, "No effect: results do not depend on it"),
])
def gmm_global_init_from_feats(args: list[str], options: Options) -> None:
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.gaussians.estimation import FrameSample, begin_mixture, train_mixture
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import SequentialReader
    from nnet3py.random_sequence import CRandom

    random = CRandom(options.srand)
    sample = FrameSample(options.num_frames, random)
    log.log(f"Reading features (will keep {options.num_frames} frames.)")
    with SequentialReader(args[0], FLOAT_MATRIX) as features:
        for key, matrix in features:
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
                sample.add(matrix)
    frames = sample.frames()
    if sample.num_seen < options.num_frames:
        log.warning(f"Number of frames {sample.num_seen} was less than the target number {options.num_frames}, using "
                    f"all frames.")
    else:
        log.log(f"Kept {sample.num_kept} out of {sample.num_seen} input frames = "
                f"{100.0 * sample.num_kept / sample.num_seen:.6g}%.")
    first = options.num_gauss_init if 0 < options.num_gauss_init <= options.num_gauss else options.num_gauss
    log.log(f"Initializing GMM means from random frames to {first} Gaussians.")
    gmm = begin_mixture(frames, first, random)
    bounds = fields_from(options, DiagOptions())
    for done in train_mixture(frames, gmm, options.num_gauss, options.num_iters, bounds, random):
        log.log(f"Likelihood per frame on iteration {done.number} was {done.log_like:.6g} over {len(frames)} frames.")
        log.log(f"Objective-function change on iteration {done.number} was {done.improvement:.6g} over {len(frames)} "
                f"frames.")
        if done.split_to:
            log.log(f"Splitting to {done.split_to} Gaussians.")
        gmm = done.gmm
    write_object(args[1], gmm.write, options.binary)
    log.log(f"Wrote model to {args[1]}")


_ACC_USAGE = """
Accumulate statistics for estimating a mixture of Gaussians with {kind} covariance.

Usage:  {name} [options] <model-in> <feature-rspecifier> <stats-out>
e.g.: {name} 1.{ending} scp:train.scp 1.acc
See also: {prefix}-global-sum-accs, {prefix}-global-est
"""


@kaldi_command("gmm-global-acc-stats", "Speakers and i-vectors",
               "Accumulate statistics of Gaussians with diagonal covariance.",
               arguments=(3, 3), options=_ACC_OPTIONS, usage=_ACC_USAGE.format(
    kind="diagonal", name="gmm-global-acc-stats", ending="dubm", prefix="gmm"))
@kaldi_command("fgmm-global-acc-stats", "Speakers and i-vectors",
               "Accumulate statistics of Gaussians with full covariance.",
               arguments=(3, 3), options=_ACC_OPTIONS, usage=_ACC_USAGE.format(
    kind="full", name="fgmm-global-acc-stats", ending="ubm", prefix="fgmm"))
def gmm_global_acc_stats(args: list[str], options: Options) -> int:
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR_VECTOR
    from nnet3py.gaussians.estimation import GmmStats, parse_flags
    from nnet3py.gaussians.mixtures import FullGmm
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    gmm: Any = read_object(args[0], mixture_class().read)
    stats = GmmStats.zeros(len(gmm.weights), gmm.dim, parse_flags(options.update_flags),
                            isinstance(gmm, FullGmm))
    done = errors = 0
    log_like = total_weight = 0.0
    with ExitStack() as stack:
        selections = stack.enter_context(RandomAccessReader(options.gselect, INT_VECTOR_VECTOR)) if options.gselect \
            else None
        all_weights = stack.enter_context(RandomAccessReader(options.weights, FLOAT_VECTOR)) if options.weights \
            else None
        for key, matrix in stack.enter_context(SequentialReader(args[1], FLOAT_MATRIX)):
            weights = _entry_of_utterance(all_weights, key, len(matrix), "weights")
            selection = _entry_of_utterance(selections, key, len(matrix), "gselect information")
            if weights is False or selection is False:
                errors += 1
                continue
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
                log_like += _add_utterance(stats, gmm, matrix, selection, weights)
            total_weight += len(matrix) if weights is None else float(weights.sum())
            done += 1
    log.log(f"Done {done} files; {errors} with errors.")
    log.log(f"Overall likelihood per frame = {log_like / total_weight if total_weight else 0.0:.6g} over "
            f"{total_weight:.6g} (weighted) frames.")
    write_object(args[2], stats.write, options.binary)
    log.log(f"Written accs to {args[2]}")
    return 0 if done else 1


def _entry_of_utterance(table: Any, key: str, num_frames: int, what: str) -> Any:
    """Return the table's entry, of one value per frame; None if there is no table.

    Returns False, after a warning, if the entry is missing or has another number of frames.
    """
    if table is None:
        return None
    if key not in table:
        log.warning(f"No {what} for utterance {key}")
        return False
    value = table[key]
    if len(value) != num_frames:
        log.warning(f"{what} for utterance {key} has wrong size {len(value)} vs. {num_frames}")
        return False
    return value


def _add_utterance(stats: GmmStats, gmm: Any, matrix: np.ndarray, selection: Any, weights: np.ndarray | None) -> float:
    from nnet3py.gaussians.estimation import add_frames
    from nnet3py.gaussians.mixtures import dense_posteriors

    if selection is None:
        return add_frames(stats, gmm, matrix, weights)
    posteriors, log_likes = dense_posteriors(gmm, matrix, selection)
    if weights is not None:
        of_frames = weights.astype("float32")
        posteriors, log_likes = posteriors * of_frames[:, None], log_likes * of_frames
    stats.add(matrix, posteriors)
    return float(log_likes.sum(dtype="float64"))


_SUM_USAGE = """
Add statistics of mixtures of Gaussians, accumulated on parts of the data.

Usage:  {name} [options] <stats-out> <stats-in1> <stats-in2> ...
e.g.: {name} 1.acc 1.1.acc 1.2.acc
See also: {acc}
"""


@kaldi_command("gmm-global-sum-accs", "Speakers and i-vectors",
               "Add statistics of Gaussians with diagonal covariance.", arguments=(2, None), options=[BINARY],
               usage=_SUM_USAGE.format(name="gmm-global-sum-accs", acc="gmm-global-acc-stats"))
@kaldi_command("fgmm-global-sum-accs", "Speakers and i-vectors",
               "Add statistics of Gaussians with full covariance.", arguments=(2, None), options=[BINARY],
               usage=_SUM_USAGE.format(name="fgmm-global-sum-accs", acc="fgmm-global-acc-stats"))
def gmm_global_sum_accs(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.estimation import GmmStats
    from nnet3py.io.object_files import read_object, write_object

    total = read_object(args[1], GmmStats.read)
    for name in args[2:]:
        with within(name):
            total.add_stats(read_object(name, GmmStats.read))
    write_object(args[0], total.write, options.binary)
    log.log(f"Written stats to {args[0]}")


@kaldi_command("gmm-global-est", "Speakers and i-vectors", "Estimate Gaussians with diagonal covariance.", """
Estimate a mixture of Gaussians with diagonal covariance from statistics.

Usage:  gmm-global-est [options] <model-in> <stats-in> <model-out>
e.g.: gmm-global-est --min-gaussian-weight=1.0e-4 1.dubm 1.acc 2.dubm
See also: gmm-global-acc-stats
""", arguments=(3, 3), options=[
    BINARY, _UPDATE_FLAGS, *_DIAG_OPTIONS,
    option("mix-up", int, 0, "Number of Gaussians to reach by splitting"),
    option("perturb-factor", float, 0.01, "Distance of the halves of a split Gaussian, in standard deviations"),
])
def gmm_global_est(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.estimation import GmmStats, estimate_diag, parse_flags, split
    from nnet3py.gaussians.mixtures import DiagGmm
    from nnet3py.io.object_files import read_object
    from nnet3py.random_sequence import CRandom

    gmm = read_object(args[0], DiagGmm.read)
    estimated = estimate_diag(read_object(args[1], GmmStats.read), gmm, fields_from(options, DiagOptions()),
                          parse_flags(options.update_flags))
    assert isinstance(estimated.gmm, DiagGmm)
    made = estimated.gmm
    if options.mix_up > len(made.weights):
        made = split(made, options.mix_up, options.perturb_factor, CRandom())
    _write_estimated(args[2], options, made, estimated.improvement, estimated.frames)


@kaldi_command("fgmm-global-est", "Speakers and i-vectors", "Estimate Gaussians with full covariance.", """
Estimate a mixture of Gaussians with full covariance from statistics.

Usage:  fgmm-global-est [options] <model-in> <stats-in> <model-out>
e.g.: fgmm-global-est 1.ubm 1.acc 2.ubm
See also: fgmm-global-acc-stats
""", arguments=(3, 3), options=[BINARY, _UPDATE_FLAGS, *_FULL_OPTIONS])
def fgmm_global_est(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.estimation import GmmStats, estimate_full, parse_flags
    from nnet3py.gaussians.mixtures import FullGmm
    from nnet3py.io.object_files import read_object

    estimated = estimate_full(read_object(args[1], GmmStats.read), read_object(args[0], FullGmm.read),
                              fields_from(options, FullOptions()), parse_flags(options.update_flags))
    _write_estimated(args[2], options, estimated.gmm, estimated.improvement, estimated.frames)


@kaldi_command("fgmm-global-init-from-accs", "Speakers and i-vectors",
               "Make Gaussians with full covariance from statistics alone.", """
Make a mixture of Gaussians with full covariance from statistics alone, without an earlier model.

Usage:  fgmm-global-init-from-accs [options] <stats-in> <number-of-components> <model-out>
e.g.: fgmm-global-init-from-accs 1.acc 2048 1.ubm
See also: fgmm-global-acc-stats, fgmm-global-est
""", arguments=(3, 3), options=[BINARY, *_FLOOR_OPTIONS])
def fgmm_global_init_from_accs(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.estimation import GmmStats, begin_full
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.random_sequence import CRandom

    if not args[1].isdecimal():
        raise OptionError(f"expected a number of Gaussians, found '{args[1]}'")
    stats = read_object(args[0], GmmStats.read)
    if len(stats.occupancy) != int(args[1]):
        raise ShapeError(f"expected statistics of {args[1]} Gaussians, found {len(stats.occupancy)}",
                         "give the number of Gaussians in the statistics")
    with within(args[0]):
        gmm = begin_full(stats, FullOptions(variance_floor=options.variance_floor, max_condition=options.max_condition),
                         CRandom())
    write_object(args[2], gmm.write, options.binary)
    log.log(f"Written model to {args[2]}")


def _write_estimated(wxfilename: str, options: Options, gmm: Any, improvement: float, frames: float) -> None:
    from nnet3py.io.object_files import write_object

    if not frames > 0:
        raise ShapeError("expected statistics of one frame or more, found none")
    log.log(f"Overall objective function improvement is {improvement / frames:.6g} per frame over {frames:.6g} frames.")
    write_object(wxfilename, gmm.write, options.binary)
    log.log(f"Written model to {wxfilename}")


@kaldi_command("gmm-global-copy", "Speakers and i-vectors", "Copy a mixture of Gaussians with diagonal covariance.", """
Copy a mixture of Gaussians with diagonal covariance, in text or binary.

Usage:  gmm-global-copy [options] <model-in> <model-out>
e.g.: gmm-global-copy --binary=false 1.dubm - | less
See also: gmm-global-to-fgmm
""", arguments=(2, 2), options=[BINARY])
@kaldi_command("fgmm-global-copy", "Speakers and i-vectors", "Copy a mixture of Gaussians with full covariance.", """
Copy a mixture of Gaussians with full covariance, in text or binary.

Usage:  fgmm-global-copy [options] <model-in> <model-out>
e.g.: fgmm-global-copy --binary=false 1.ubm - | less
See also: fgmm-global-to-gmm
""", arguments=(2, 2), options=[BINARY])
def gmm_global_copy(args: list[str], options: Options) -> None:
    _convert(args, options, mixture_class().read, lambda gmm: gmm, "model")


@kaldi_command("gmm-global-to-fgmm", "Speakers and i-vectors", "Turn diagonal covariances into full ones.", """
Turn a mixture of Gaussians with diagonal covariance into one with full covariance.

Usage:  gmm-global-to-fgmm [options] <diagonal-gmm> <full-gmm>
e.g.: gmm-global-to-fgmm 1.dubm 0.ubm
See also: fgmm-global-to-gmm
""", arguments=(2, 2), options=[BINARY])
def gmm_global_to_fgmm(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.mixtures import DiagGmm, FullGmm

    _convert(args, options, DiagGmm.read, FullGmm.of_diagonal, "full GMM")


@kaldi_command("fgmm-global-to-gmm", "Speakers and i-vectors", "Turn full covariances into diagonal ones.", """
Turn a mixture of Gaussians with full covariance into one with the variances only.

Usage:  fgmm-global-to-gmm [options] <full-gmm> <diagonal-gmm>
e.g.: fgmm-global-to-gmm 0.ubm 0.dubm
See also: gmm-global-to-fgmm
""", arguments=(2, 2), options=[BINARY])
def fgmm_global_to_gmm(args: list[str], options: Options) -> None:
    from nnet3py.gaussians.mixtures import FullGmm

    _convert(args, options, FullGmm.read, FullGmm.to_diagonal, "diagonal GMM")
