"""Programs that compare speakers: PLDA, scores of trials, equal error rates, clusters of utterances.

ivector-compute-plda, ivector-copy-plda, ivector-adapt-plda, ivector-plda-scoring, ivector-plda-scoring-dense,
ivector-compute-dot-products, compute-eer, agglomerative-cluster.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.ivectors.vectors import Moments, read_vectors
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, ShapeError, within

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.ivectors.scoring import Plda


def read_trials(rxfilename: str) -> Iterator[tuple[str, str]]:
    """Yield the two keys of each line of a file of trials."""
    from nnet3py.io.streams import read_lines

    for number, line in enumerate(read_lines(rxfilename), 1):
        words = line.split()
        if len(words) != 2:
            raise FormatError(f"line {number} of the trials: expected two keys, found {line.strip()[:80]!r}",
                              path=rxfilename)
        yield words[0], words[1]


def _read_plda(rxfilename: str) -> Plda:
    from nnet3py.io.object_files import read_object
    from nnet3py.ivectors.scoring import Plda

    return read_object(rxfilename, Plda.read)


def _vector_text(values: np.ndarray) -> str:
    return " [ " + "".join(f"{value:.6g} " for value in values) + "]"


@kaldi_command("ivector-compute-plda", "Speakers and i-vectors", "Train a PLDA model for comparing speakers.", """
Train a PLDA model, for comparing speakers, on i-vectors or other vectors.

Usage:  ivector-compute-plda [options] <spk2utt-rspecifier> <ivector-rspecifier> <plda-out>
e.g.: ivector-compute-plda ark:spk2utt ark,s,cs:ivectors.ark plda
See also: ivector-plda-scoring, ivector-adapt-plda
""", arguments=(3, 3), options=[BINARY, option("num-em-iters", int, 10, "Iterations", least=1)])
def ivector_compute_plda(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import TOKEN_VECTOR
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import SequentialReader
    from nnet3py.ivectors.scoring import PldaTraining

    vectors, speakers, without, missing = read_vectors(args[1]), [], 0, 0
    with SequentialReader(args[0], TOKEN_VECTOR) as spk2utt:
        for speaker, utterances in spk2utt:
            members = [vectors[key] for key in utterances if key in vectors]
            missing += len(utterances) - len(members)
            if not members:
                log.warning(f"Not using speaker {speaker}, who has no vectors")
                without += 1
                continue
            speakers.append(np.stack(members))
    log.log(f"Accumulated stats from {len(speakers)} speakers ({without} with no utterances), consisting of "
            f"{sum(map(len, speakers))} utterances ({missing} absent from input).")
    training = PldaTraining(speakers)
    for iteration in range(options.num_em_iters):
        log.log(f"Plda estimation iteration {iteration} of {options.num_em_iters}")
        training.iterate()
        log.log(f"Trace of within-class variance is {np.trace(training.within):.6g}")
        log.log(f"Trace of between-class variance is {np.trace(training.between):.6g}")
    plda = training.model()
    log.log(f"Norm of mean of iVector distribution is {np.linalg.norm(plda.mean):.6g}")
    log.log(f"Diagonal of between-class variance in normalized space is {_vector_text(plda.psi)}")
    write_object(args[2], plda.write, options.binary)
    return 0


@kaldi_command("ivector-copy-plda", "Speakers and i-vectors", "Copy a PLDA model; optionally smooth it.", """
Copy a PLDA model, in text or binary, and optionally smooth it.

Usage:  ivector-copy-plda [options] <plda-in> <plda-out>
e.g.: ivector-copy-plda --smoothing=0.1 plda plda.smooth0.1
See also: ivector-compute-plda
""", arguments=(2, 2), options=[
    BINARY,
    option("smoothing", float, 0.0, "Part of the variance between speakers that is added within speakers",
           least=0, most=1),
])
def ivector_copy_plda(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import write_object

    plda = _read_plda(args[0])
    if options.smoothing != 0.0:
        log.log(f"Smoothing within-class covariance by {options.smoothing:g}, Psi is initially: "
                f"{_vector_text(plda.psi)}")
        plda = plda.smoothed(options.smoothing)
        log.log(f"New value of Psi is {_vector_text(plda.psi)}")
    write_object(args[1], plda.write, options.binary)


@kaldi_command("ivector-adapt-plda", "Speakers and i-vectors", "Adapt a PLDA model to other data.", """
Adapt a PLDA model to other data without speakers.

Usage:  ivector-adapt-plda [options] <plda-in> <ivectors-rspecifier> <plda-out>
e.g.: ivector-adapt-plda plda ark:ivectors.ark plda.adapted
See also: ivector-compute-plda
""", arguments=(3, 3), options=[
    BINARY,
    option("mean-diff-scale", float, 1.0, "Weight of the difference of the means in the total covariance"),
    option("within-covar-scale", float, 0.3, "Part of the additional variance that is added within speakers"),
    option("between-covar-scale", float, 0.7, "Part of the additional variance that is added between speakers"),
])
def ivector_adapt_plda(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.io.object_files import write_object

    plda, vectors = _read_plda(args[0]), read_vectors(args[1])
    if not vectors:
        log.warning("No iVectors were read, no model was written")
        return 1
    stacked = np.stack([*vectors.values()])
    if stacked.shape[1] != plda.dim:
        raise ShapeError(f"the vectors in {args[1]} have dimension {stacked.shape[1]}, expected {plda.dim}, as the "
                         "PLDA model has")
    adapted, values = plda.adapted(stacked, options.mean_diff_scale, options.within_covar_scale,
                                   options.between_covar_scale)
    log.log(f"Eigenvalues of adaptation-data total-covariance in space where training-data total-covariance is unit, "
            f"is: {_vector_text(values)}")
    log.log(f"Old diagonal of between-class covar was: {_vector_text(plda.psi)}, new diagonal is "
            f"{_vector_text(adapted.psi)}")
    write_object(args[2], adapted.write, options.binary)
    return 0


_LENGTH_OPTIONS = (
    option("normalize-length", bool, True, "Scale vectors to the length that the model expects"),
    option("simple-length-normalization", bool, False, "Scale all vectors to the same length"),
)


@kaldi_command("ivector-plda-scoring", "Speakers and i-vectors", "Score trials of speakers by a PLDA model.", """
Write the log-likelihood ratio of one speaker over two speakers, a line for each trial.

Usage:  ivector-plda-scoring [options] <plda> <train-ivector-rspecifier> <test-ivector-rspecifier> <trials-rxfilename>
 <scores-wxfilename>
e.g.: ivector-plda-scoring --num-utts=ark:exp/train/num_utts.ark plda ark:exp/train/spk_ivectors.ark
 ark:exp/test/ivectors.ark trials scores
See also: ivector-compute-plda, compute-eer
""", arguments=(5, 5), options=[
    *_LENGTH_OPTIONS,
    option("num-utts", str, "", "Numbers of vectors that training vectors are means of (rspecifier)"),
])
def ivector_plda_scoring(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.io.streams import open_output

    plda = _read_plda(args[0])
    log.log("Reading train iVectors")
    counts, errors = _counts(options.num_utts), 0
    train = read_vectors(args[1])
    if counts is not None:
        for key in [key for key in train if key not in counts]:
            log.warning(f"Number of utterances not given for speaker {key}")
            del train[key]
            errors += 1
    log.log(f"Read {len(train)} training iVectors, errors on {errors}")
    of_train = np.array([1 if counts is None else counts[key] for key in train], dtype=np.float64)
    enrolled = _transformed(plda, train, of_train, options, "training")
    log.log("Reading test iVectors")
    tested = read_vectors(args[2])
    log.log(f"Read {len(tested)} test iVectors.")
    test_rows = _transformed(plda, tested, np.ones(len(tested)), options, "test")
    numbers = dict(zip(train, of_train.tolist(), strict=True))
    scores, errors = Moments(), 0
    with open_output(args[4]) as stream:
        for enroll, other in read_trials(args[3]):
            if enroll not in enrolled or other not in test_rows:
                log.warning(f"Key {enroll if enroll not in enrolled else other} of a trial has no vector")
                errors += 1
                continue
            score = float(plda.log_ratios(enrolled[enroll], numbers[enroll], test_rows[other][None])[0])
            scores.add(score)
            stream.write(f"{enroll} {other} {np.float32(score):.7g}\n".encode())
    log.log(f"Mean score was {scores.mean:.6g}, standard deviation was {scores.deviation:.6g}")
    log.log(f"Processed {scores.count} trials, {errors} had errors.")
    return 0 if scores.count else 1


def _counts(rspecifier: str) -> dict[str, int] | None:
    from nnet3py.formats.holders import INT32
    from nnet3py.io.tables import SequentialReader

    if not rspecifier:
        return None
    with SequentialReader(rspecifier, INT32) as table:
        counts = dict(table)
    bad = next((key for key, count in counts.items() if count < 1), None)
    if bad is not None:
        raise OptionError(f"--num-utts: expected 1 vector or more for {bad}, found {counts[bad]}")
    return counts


def _transformed(plda: Plda, vectors: dict[str, np.ndarray], counts: np.ndarray, options: Options,
                 what: str) -> dict[str, np.ndarray]:
    import numpy as np

    if not vectors:
        return {}
    rows, factors = plda.transformed(np.stack([*vectors.values()]), counts, options.normalize_length,
                                     options.simple_length_normalization)
    log.log(f"Average renormalization scale on {what} iVectors was {factors.mean():.6g}")
    return dict(zip(vectors, rows, strict=True))


@kaldi_command("ivector-plda-scoring-dense", "Speakers and i-vectors",
               "Score all pairs of a recording's vectors by a PLDA model.", """
Write, for each recording, a matrix of log-likelihood ratios of one speaker over two for each pair of vectors: for
clustering them.

Usage:  ivector-plda-scoring-dense [options] <plda> <reco2utt> <ivectors-rspecifier> <scores-wspecifier>
e.g.: ivector-plda-scoring-dense plda ark:reco2utt scp:ivectors.scp ark,t:scores.txt
See also: ivector-plda-scoring
""", arguments=(4, 4), options=[
    *_LENGTH_OPTIONS,
    option("target-energy", float, 0.5, "Part of the variance of a recording's vectors that is kept", above=0, most=1),
])
def ivector_plda_scoring_dense(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.ivectors.scoring import dense_ratios

    plda = _read_plda(args[0])
    with RandomAccessReader(args[2], FLOAT_VECTOR) as vectors:
        def scored(key: str, utterances: list[str]) -> np.ndarray | None:
            missing = [name for name in utterances if name not in vectors]
            if missing or not utterances:
                log.warning(f"No iVector present in input for utterance {missing[0]}" if missing else
                            f"Recording {key} has no utterances")
                return None
            with within(f"recording {key}"):
                return dense_ratios(plda, np.stack([vectors[name] for name in utterances]), options.target_energy)

        return convert_table(args[1], args[3], TOKEN_VECTOR, FLOAT_MATRIX, scored, inputs=vectors).report(
            "Processed {done} recordings, {errors} had errors.")


@kaldi_command("ivector-compute-dot-products", "Speakers and i-vectors",
               "Write the dot products of pairs of vectors.", """
Write the dot products of pairs of vectors, one per line: first key, second key, product.

Usage:  ivector-compute-dot-products [options] <trials-in> <ivector1-rspecifier> <ivector2-rspecifier> <scores-out>
e.g.: ivector-compute-dot-products trials ark:train.ark ark:test.ark scores
See also: ivector-plda-scoring, compute-eer
""", arguments=(4, 4))
def ivector_compute_dot_products(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.io.streams import open_output

    first, second = read_vectors(args[1]), read_vectors(args[2])
    products, errors = Moments(), 0
    with open_output(args[3]) as stream:
        for enroll, other in read_trials(args[0]):
            if enroll not in first or other not in second:
                log.warning(f"No vector for the trial {enroll} {other}")
                errors += 1
                continue
            product = float(np.dot(first[enroll], second[other]))
            products.add(product)
            stream.write(f"{enroll} {other} {product:.6g}\n".encode())
    log.log(f"Processed {products.count} trials {errors} had errors.")
    log.log(f"Mean dot-product was {products.mean:.6g}, standard deviation was {products.deviation:.6g}")
    return 0 if products.count else 1


@kaldi_command("compute-eer", "Speakers and i-vectors", "Print the equal error rate of scores.", """
Print the equal error rate, in per cent, of lines with a score and "target" or "nontarget".

Usage:  compute-eer <scores-in>
e.g.: compute-eer -
See also: ivector-plda-scoring
""", arguments=(1, 1))
def compute_eer(args: list[str], options: Options) -> None:
    import numpy as np

    from nnet3py.io.streams import read_lines, write_text
    from nnet3py.ivectors.scoring import equal_error_rate

    scores: dict[str, list[float]] = {"target": [], "nontarget": []}
    for number, line in enumerate(read_lines(args[0]), 1):
        words = line.split()
        try:
            score = float(words[0])
            if math.isnan(score):
                raise ValueError(line)
            scores[words[1]].append(score)
        except (IndexError, ValueError, KeyError):
            raise FormatError(f"line {number}: expected a score and 'target' or 'nontarget', found "
                              f"{line.strip()[:80]!r}", path=args[0]) from None
    rate = equal_error_rate(np.array(scores["target"]), np.array(scores["nontarget"]))
    log.log(f"Equal error rate is {rate.per_cent:.6g}%, at threshold {rate.threshold:.6g}")
    write_text("-", f"{rate.per_cent:.4g}")


@kaldi_command("agglomerative-cluster", "Speakers and i-vectors", "Cluster a recording's utterances by speakers.", """
Cluster the utterances of each recording by speakers, by a matrix of scores or costs of all pairs of utterances. The
most similar clusters, by the average over all pairs of their utterances, are joined first. The output has a line for
each utterance with the number of its cluster, from 1.

Usage:  agglomerative-cluster [options] <scores-rspecifier> <reco2utt-rspecifier> <labels-wspecifier>
e.g.: agglomerative-cluster --threshold=0.5 ark:scores.ark ark:reco2utt ark,t:labels.txt
See also: ivector-plda-scoring-dense, diarize
""", arguments=(3, 3), options=[
    option("threshold", float, 0.0, "Join clusters whose score is at least this, or whose cost is at most this"),
    option("reco2num-spk-rspecifier", str, "", "Number of clusters of each recording, instead of --threshold"),
    option("read-costs", bool, False, "Read costs, which are small for one speaker, instead of scores"),
    option("max-spk-fraction", float, 1.0, "Largest part of a recording's utterances that a cluster may have, if the "
           "number of clusters is given", above=0, most=1),
    option("first-pass-max-utterances", int, 32767, "Recordings with more utterances are clustered in parts first",
           least=1),
])
def agglomerative_cluster(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, INT32, TOKEN_VECTOR
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.ivectors.scoring import agglomerate_in_parts

    sign = 1.0 if options.read_costs else -1.0
    done = failed = 0
    with ExitStack() as stack:
        utterances = stack.enter_context(RandomAccessReader(args[1], TOKEN_VECTOR))
        numbers = stack.enter_context(RandomAccessReader(options.reco2num_spk_rspecifier, INT32)) \
            if options.reco2num_spk_rspecifier else None
        writer = stack.enter_context(TableWriter(args[2], INT32))
        for key, scores in stack.enter_context(SequentialReader(args[0], FLOAT_MATRIX)):
            if key not in utterances or (numbers is not None and key not in numbers):
                log.warning(f"There is no list of utterances, or no number of speakers, of {key}")
                failed += 1
                continue
            names = utterances[key]
            if scores.shape != (len(names), len(names)):
                raise ShapeError(f"recording {key}: expected scores of all pairs of {len(names)} utterances, found a "
                                 f"matrix of {scores.shape[0]} x {scores.shape[1]}")
            count, limit, largest = 1, sign * options.threshold, math.inf
            if numbers is not None:
                count, limit = int(numbers[key]), math.inf
                largest = math.ceil(options.max_spk_fraction * len(names))
                if count < 1:
                    raise ShapeError(f"recording {key}: expected 1 speaker or more, found {count}")
            with within(f"recording {key}"):
                labels = agglomerate_in_parts(sign * scores, limit, count, largest, options.first_pass_max_utterances)
            for name, label in zip(names, labels.tolist(), strict=True):
                writer.write(name, label + 1)
            log.log(f"Recording {key}: {len(names)} utterances, {int(np.max(labels, initial=-1)) + 1} clusters")
            done += 1
    log.log(f"Clustered {done} recordings, {failed} had errors.")
    return 0 if done else 1
