"""Programs that extract i-vectors: of utterances or speakers, at regular frames, and as an online recognizer would.

ivector-extract, ivector-extract-online, ivector-extract-online2, ivector-randomize.
"""
from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.ivectors.extractor import NUM_THREADS, read_extractor, with_posteriors
from nnet3py.cli.ivectors.options import ONLINE_OPTIONS, online_models
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.formats.posteriors import Posterior
    from nnet3py.ivectors.extractor import UtteranceStats
    from nnet3py.ivectors.online import EstimationStats


class _Averages:
    """Averages over utterances for the log, weighted by their numbers of frames."""

    def __init__(self) -> None:
        self.frames = self.change = self.length = self.last_length = 0.0

    def add(self, frames: float, change: float, ivectors: np.ndarray) -> None:
        """Add an utterance: its frames, the objective's improvement per frame, and its i-vectors, float (rows, dim)."""
        import numpy as np

        lengths = np.linalg.norm(ivectors, axis=1)
        self.frames += frames
        self.change += frames * change
        self.length += frames * float(lengths.mean())
        self.last_length += frames * float(lengths[-1])

    def log(self, ivector_dim: int) -> None:
        """Log the averages."""
        frames = self.frames or 1.0
        log.log(f"Average objective-function improvement was {self.change / frames:.6g} per frame, over "
                f"{self.frames:.6g} frames (weighted).")
        log.log(f"Average iVector length was {self.length / frames:.6g} and at utterance-end was "
                f"{self.last_length / frames:.6g}, over {self.frames:.6g} frames (weighted);  expected length is "
                f"{math.sqrt(ivector_dim):.6g}")


@kaldi_command("ivector-extract", "Speakers and i-vectors", "Extract an i-vector of each utterance or speaker.", """
Extract an i-vector of each utterance, or (with --spk2utt) of each speaker.

Usage:  ivector-extract [options] <model-in> <feature-rspecifier> <posteriors-rspecifier> <ivector-wspecifier>
e.g.: ivector-extract final.ie scp:feats.scp ark:post.ark ark,t:ivectors.1.ark
See also: ivector-extract-online2, ivector-mean
""", arguments=(4, 4), options=[
    option("compute-objf-change", bool, True, "Log the gain of i-vectors in log-likelihood"),
    option("spk2utt", str, "", "Lists of each speaker's utterances (rspecifier), for an i-vector of each speaker"),
    option("acoustic-weight", float, 1.0, "Weight of the posteriors", above=-math.inf, below=math.inf),
    option("max-count", float, 0.0, "Frames (weighted) from which on more count no more; 0 for never"),
    NUM_THREADS,
])
def ivector_extract(args: list[str], options: Options) -> int:
    if options.spk2utt and options.num_threads != 1:
        raise UsageError("--spk2utt and --num-threads cannot be given together", "leave out --num-threads")
    extractor = read_extractor(args[0])
    return (_extract_of_speakers if options.spk2utt else _extract_of_utterances)(extractor, args, options)


def _times(posterior: Posterior, factor: float) -> Posterior:
    import numpy as np

    return type(posterior)(posterior.row_starts, posterior.ids, posterior.weights * np.float32(factor))


def _ivector(extractor: Any, stats: UtteranceStats, with_gain: bool) -> tuple[np.ndarray, float]:
    """Return an i-vector, float64 (dim,), without the prior's offset, and its gain in log-likelihood (0 if not wanted).
    """
    from nnet3py.ivectors.extractor import ivector_auxf

    terms = extractor.terms(stats)
    mean = extractor.distribution(stats, terms).mean
    gain = sum(ivector_auxf(extractor, stats, mean, terms=terms)) - sum(
        ivector_auxf(extractor, stats, extractor.prior_mean(), terms=terms)) if with_gain else 0.0
    mean[0] -= extractor.offset
    return mean, gain


def _extract_of_utterances(extractor: Any, args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.read_ahead import map_ahead
    from nnet3py.io.tables import TableWriter
    from nnet3py.ivectors.extractor import UtteranceStats

    counts = {"errors": 0}

    def extracted(utterance: tuple[str, np.ndarray, Posterior]) -> Any:
        key, matrix, posterior = utterance
        total = options.acoustic_weight * float(posterior.weights.sum(dtype=np.float64))
        limited = options.max_count / total if 0 < options.max_count < total else 1.0
        with within(f"utterance {key}"):
            stats = UtteranceStats.of(extractor.num_gaussians, matrix,
                                      _times(posterior, options.acoustic_weight * limited))
            mean, gain = _ivector(extractor, stats, options.compute_objf_change)
        return key, mean.astype(np.float32), total * limited, gain

    done, frames, gained = 0, 0.0, 0.0
    with TableWriter(args[3], FLOAT_VECTOR) as writer:
        utterances = with_posteriors(args[1], args[2], counts)
        for key, ivector, weight, change in map_ahead(extracted, utterances, options.num_threads):
            writer.write(key, ivector)
            done, frames, gained = done + 1, frames + weight, gained + change
    log.log(f"Done {done} files, {counts['errors']} with errors.  Total (weighted) frames {frames:.6g}")
    if options.compute_objf_change:
        log.log(f"Overall average objective-function change from estimating ivector was "
                f"{gained / (frames or 1.0):.6g} per frame  over {frames:.6g} (weighted) frames.")
    return 0 if done else 1


def _extract_of_speakers(extractor: Any, args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, POSTERIOR, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.ivectors.extractor import UtteranceStats

    done = errors = num_utterances = utterance_errors = 0
    frames = gained = norms = 0.0
    with (TableWriter(args[3], FLOAT_VECTOR) as writer, RandomAccessReader(args[1], FLOAT_MATRIX) as features,
          RandomAccessReader(args[2], POSTERIOR) as posteriors,
          SequentialReader(options.spk2utt, TOKEN_VECTOR) as speakers):
        for speaker, utterances in speakers:
            total: UtteranceStats | None = None
            for key in utterances:
                if key not in features or key not in posteriors or len(features[key]) != len(posteriors[key]):
                    log.warning(f"Utterance {key} has no features or no posteriors, or they have different lengths")
                    utterance_errors += 1
                    continue
                with within(f"utterance {key}"):
                    stats = UtteranceStats.of(extractor.num_gaussians, features[key],
                                              _times(posteriors[key], options.acoustic_weight))
                num_utterances += 1
                if total is None:
                    total = stats
                else:
                    total.add(stats)
            count = 0.0 if total is None else float(total.gamma.sum())
            if total is None or count == 0:
                log.warning(f"No stats accumulated for speaker {speaker}")
                errors += 1
                continue
            if 0 < options.max_count < count:
                factor = options.max_count / count
                log.log(f"Scaling stats for speaker {speaker} by scale {factor:.6g} due to "
                        f"--max-count={options.max_count:g}")
                total, count = total.scaled(factor), options.max_count
            mean, gain = _ivector(extractor, total, options.compute_objf_change)
            if options.compute_objf_change:
                log.log(f"Auxf change for speaker {speaker} was {gain / count:.6g} per frame, over {count:.6g} frames "
                        f"(weighted).")
                gained += gain
            norm = float(np.linalg.norm(mean))
            log.log(f"Ivector norm for speaker {speaker} was {norm:.6g}")
            writer.write(speaker, mean.astype(np.float32))
            done, frames, norms = done + 1, frames + count, norms + count * norm
    log.log(f"Done {done} speakers; {errors} with errors.  {num_utterances} utterances were processed, "
            f"{utterance_errors} with errors.")
    log.log(f"Average iVector norm (weighted by frames) was {norms / (frames or 1.0):.6g} over {frames:.6g} frames "
            f"(weighted)")
    if options.compute_objf_change:
        log.log(f"Overall weighted-average objective function improvement was {gained / (frames or 1.0):.6g} over "
                f"{frames:.6g} frames (weighted)")
    return 0 if done else 1


@kaldi_command("ivector-extract-online", "Speakers and i-vectors",
               "Extract i-vectors at regular frames, with given posteriors.", """
Extract an i-vector every so many frames, each from the frames up to there, with given posteriors.

Usage:  ivector-extract-online [options] <model-in> <feature-rspecifier> <posteriors-rspecifier> <ivector-wspecifier>
e.g.: ivector-extract-online --ivector-period=10 final.ie scp:feats.scp ark:post.ark ark:ivectors.ark
See also: ivector-extract-online2
""", arguments=(4, 4), options=[
    option("num-cg-iters", int, 15, "Steps of conjugate gradients for each i-vector", least=1),
    option("ivector-period", int, 10, "Frames from one i-vector to the next", least=1),
    option("max-count", float, 0.0, "Frames (weighted) from which on more count no more; 0 for never", least=0),
    option("num-threads", int, 8, "No effect: results do not depend on it"),
])
def ivector_extract_online(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import TableWriter
    from nnet3py.ivectors.online import ivectors_of_posteriors

    extractor, averages, counts, done = read_extractor(args[0]), _Averages(), {"errors": 0}, 0
    with TableWriter(args[3], FLOAT_MATRIX) as writer:
        for key, matrix, posterior in with_posteriors(args[1], args[2], counts):
            changes: list[float] = []

            def note(stats: EstimationStats, ivector: np.ndarray, changes: list[float] = changes) -> None:
                changes.append(stats.objective_change(ivector))

            with within(f"utterance {key}"):
                ivectors = ivectors_of_posteriors(extractor, matrix, posterior, options.ivector_period,
                                                  options.num_cg_iters, options.max_count, note)
            averages.add(float(posterior.weights.sum(dtype=np.float64)), changes[0], ivectors)
            writer.write(key, ivectors)
            done += 1
    log.log(f"Estimated iVectors for {done} files, {counts['errors']} with errors.")
    averages.log(extractor.ivector_dim)
    return 0 if done else 1


@kaldi_command("ivector-extract-online2", "Speakers and i-vectors",
               "Extract i-vectors at regular frames, as an online recognizer would.", """
Extract i-vectors as an online recognizer would: every so many frames, from the frames up to there and from statistics
of the speaker's earlier utterances.

Usage:  ivector-extract-online2 [options] <spk2utt-rspecifier> <feature-rspecifier> <ivector-wspecifier>
e.g.: ivector-extract-online2 --config=conf/ivector_extractor.conf ark:data/train/spk2utt scp:data/train/feats.scp
 ark,scp:ivectors.ark,ivectors.scp
See also: ivector-extract-online, copy-feats
""", arguments=(3, 3), options=[
    *ONLINE_OPTIONS,
    option("num-threads", int, 8, "No effect: results do not depend on it"),
    option("repeat", bool, False, "Write a row for each frame"),
    option("length-tolerance", int, 0, "Frames by which weights and features may differ", least=0),
    option("frame-weights-rspecifier", str, "", "Weights of frames, vectors"),
])
def ivector_extract_online2(args: list[str], options: Options) -> int:
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.ivectors.online import AdaptationState, OnlineIvectors

    models = online_models(options)
    models.use_most_recent = False           # this program writes i-vectors at regular frames
    averages, done, errors = _Averages(), 0, 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], FLOAT_MATRIX))
        features = stack.enter_context(RandomAccessReader(args[1], FLOAT_MATRIX))
        table = options.frame_weights_rspecifier
        all_weights = stack.enter_context(RandomAccessReader(table, FLOAT_VECTOR)) if table else None
        for _, utterances in stack.enter_context(SequentialReader(args[0], TOKEN_VECTOR)):
            state = AdaptationState.fresh(models)
            for key in utterances:
                if key not in features:
                    log.warning(f"Did not find features for utterance {key}")
                    errors += 1
                    continue
                matrix = features[key]
                weights = _frame_weights(all_weights, key, len(matrix), options.length_tolerance)
                if weights is False:
                    errors += 1
                    continue
                if not len(matrix):
                    log.warning(f"Utterance {key} has no frames")
                    errors += 1
                    continue
                with within(f"utterance {key}"):
                    check_finite(matrix, "features")
                    feature = OnlineIvectors(models, matrix, state, weights)
                    ivectors = _rows(feature, 1 if options.repeat else models.period)
                    state = feature.state()
                averages.add(len(matrix), feature.objective_change(), ivectors)
                writer.write(key, ivectors)
                done += 1
    log.log(f"Estimated iVectors for {done} files, {errors} with errors.")
    averages.log(models.extractor.ivector_dim)
    return 0 if done else 1


def _frame_weights(table: Any, key: str, num_frames: int, tolerance: int) -> Any:
    """Return an utterance's weights, float32 (frames,), padded with 0; None if there is no table.

    Returns False, after a warning, if the table has no weights of the utterance, or a wrong number.
    """
    import numpy as np

    if table is None:
        return None
    if key not in table:
        log.warning(f"Did not find weights for utterance {key}")
        return False
    weights = table[key]
    if abs(len(weights) - num_frames) > tolerance:
        log.warning(f"Utterance {key} has {len(weights)} weights for {num_frames} frames")
        return False
    fitted = np.zeros(num_frames, dtype=np.float32)
    fitted[:len(weights)] = weights[:num_frames]
    return fitted


def _rows(feature: Any, step: int) -> np.ndarray:
    import numpy as np

    return np.stack([feature.at(frame) for frame in range(0, feature.num_frames, step)])


@kaldi_command("ivector-randomize", "Speakers and i-vectors", "Replace i-vectors at random by later ones.", """
Copy matrices of i-vectors, with rows replaced at random by later ones, so that networks do not rely on their order.

Usage:  ivector-randomize [options] <ivector-rspecifier> <ivector-wspecifier>
e.g.: ivector-randomize ark:- ark:-
See also: ivector-extract-online2
""", arguments=(2, 2), options=[
    option("srand", int, 0, "No effect, as in Kaldi"),
    option("randomize-prob", float, 0.5, "Probability that a row is replaced", least=0, most=1),
])
def ivector_randomize(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.random_sequence import CRandom

    random = CRandom()

    def randomized(key: str, matrix: np.ndarray) -> np.ndarray:
        chosen = [random.integer(row, len(matrix) - 1) if random.happens(options.randomize_prob) else row
                  for row in range(len(matrix))]
        return matrix[chosen]

    counts = convert_table(args[0], args[1], FLOAT_MATRIX, FLOAT_MATRIX, randomized)
    return counts.report(f"Randomized {2 * counts.done} iVectors.")         # Kaldi counts each twice
