"""ivector-compute-plda, -copy-plda, -adapt-plda, -plda-scoring and -plda-scoring-dense."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.ivectors.inputs import Moments, read_trials, read_vectors
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.ivectors.scoring import Plda


def _read(rxfilename: str) -> Plda:
    from nnet3py.io.object_files import read_object
    from nnet3py.ivectors.scoring import Plda

    return read_object(rxfilename, Plda.read)


def _listed(values: np.ndarray) -> str:
    return " [ " + "".join(f"{value:.6g} " for value in values) + "]"


@kaldi_command("ivector-compute-plda", group="Speakers and i-vectors",
               help="Train a PLDA model for comparing speakers.", usage="""
Train a PLDA model, for comparing speakers, on i-vectors or other vectors.

Usage:  ivector-compute-plda [options] <spk2utt-rspecifier> <ivector-rspecifier> <plda-out>
e.g.: ivector-compute-plda ark:spk2utt ark,s,cs:ivectors.ark plda
See also: ivector-plda-scoring, ivector-adapt-plda
""", arguments=(3, 3), options=[BINARY, option("num-em-iters", int, 10, "Iterations")])
def ivector_compute_plda(args: list[str], options: Options) -> int:
    """Train a model; 1 if there were no vectors."""
    import numpy as np

    from nnet3py.formats.holders import TOKEN_VECTOR
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import SequentialReader
    from nnet3py.ivectors.scoring import PldaTraining

    if options.num_em_iters < 1:
        raise OptionError(f"--num-em-iters must be above 0, found {options.num_em_iters}")
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
    log.log(f"Diagonal of between-class variance in normalized space is {_listed(plda.psi)}")
    write_object(args[2], plda.write, options.binary)
    return 0


@kaldi_command("ivector-copy-plda", group="Speakers and i-vectors", help="Copy a PLDA model; optionally smooth it.",
               usage="""
Copy a PLDA model, in text or binary, and optionally smooth it.

Usage:  ivector-copy-plda [options] <plda-in> <plda-out>
e.g.: ivector-copy-plda --smoothing=0.1 plda plda.smooth0.1
See also: ivector-compute-plda
""", arguments=(2, 2), options=[
    BINARY,
    option("smoothing", float, 0.0, "Part of the variance between speakers that is added to that within"),
])
def ivector_copy_plda(args: list[str], options: Options) -> None:
    """Copy a model."""
    from nnet3py.io.object_files import write_object

    plda = _read(args[0])
    if options.smoothing != 0.0:
        log.log(f"Smoothing within-class covariance by {options.smoothing:g}, Psi is initially: {_listed(plda.psi)}")
        plda = plda.smoothed(options.smoothing)
        log.log(f"New value of Psi is {_listed(plda.psi)}")
    write_object(args[1], plda.write, options.binary)


@kaldi_command("ivector-adapt-plda", group="Speakers and i-vectors", help="Adapt a PLDA model to other data.", usage="""
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
    """Adapt a model; 1 if there were no vectors."""
    import numpy as np

    from nnet3py.errors import ShapeError
    from nnet3py.io.object_files import write_object

    plda, vectors = _read(args[0]), read_vectors(args[1])
    if not vectors:
        log.warning("No iVectors were read, no model was made")
        return 1
    stacked = np.stack([*vectors.values()])
    if stacked.shape[1] != plda.dim:
        raise ShapeError(f"expected vectors of dimension {plda.dim}, found {stacked.shape[1]}")
    adapted, values = plda.adapted(stacked, options.mean_diff_scale, options.within_covar_scale,
                                   options.between_covar_scale)
    log.log(f"Eigenvalues of adaptation-data total-covariance in space where training-data total-covariance is unit, "
            f"is: {_listed(values)}")
    log.log(f"Old diagonal of between-class covar was: {_listed(plda.psi)}, new diagonal is {_listed(adapted.psi)}")
    write_object(args[2], adapted.write, options.binary)
    return 0


_LENGTH_OPTIONS = (
    option("normalize-length", bool, True, "Give vectors the length that the model expects"),
    option("simple-length-normalization", bool, False, "Give all vectors the same length"),
)


@kaldi_command("ivector-plda-scoring", group="Speakers and i-vectors", help="Score trials of speakers by a PLDA model.",
               usage="""
Write how much likelier it is that vectors are of one speaker than of two, a line for each trial.

Usage:  ivector-plda-scoring [options] <plda> <train-ivector-rspecifier> <test-ivector-rspecifier> <trials-rxfilename>
 <scores-wxfilename>
e.g.: ivector-plda-scoring --num-utts=ark:exp/train/num_utts.ark plda ark:exp/train/spk_ivectors.ark
 ark:exp/test/ivectors.ark trials scores
See also: ivector-compute-plda, compute-eer
""", arguments=(5, 5), options=[
    *_LENGTH_OPTIONS,
    option("num-utts", str, "", "How many vectors each training vector is the mean of (rspecifier)"),
])
def ivector_plda_scoring(args: list[str], options: Options) -> int:
    """Write scores; 1 if there were none."""
    import numpy as np

    from nnet3py.io.streams import open_output

    plda = _read(args[0])
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
        raise OptionError(f"--num-utts has {counts[bad]} vectors for {bad}; expected 1 at least")
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


@kaldi_command("ivector-plda-scoring-dense", group="Speakers and i-vectors",
               help="Score all pairs of a recording's vectors by a PLDA model.", usage="""
Write, for each recording, a matrix of how likely each pair of its vectors is of one speaker: for clustering them.

Usage:  ivector-plda-scoring-dense [options] <plda> <reco2utt> <ivectors-rspecifier> <scores-wspecifier>
e.g.: ivector-plda-scoring-dense plda ark:reco2utt scp:ivectors.scp ark,t:scores.txt
See also: ivector-plda-scoring
""", arguments=(4, 4), options=[
    *_LENGTH_OPTIONS,
    option("target-energy", float, 0.5, "Part of the variance of a recording's vectors that is kept"),
])
def ivector_plda_scoring_dense(args: list[str], options: Options) -> int:
    """Write matrices; 1 if there were none."""
    import numpy as np

    from nnet3py.cli.process.copying import convert_table
    from nnet3py.errors import within
    from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.ivectors.scoring import dense_ratios

    if not 0.0 < options.target_energy <= 1.0:
        raise OptionError(f"--target-energy must lie between 0 and 1, found {options.target_energy:g}")
    plda = _read(args[0])
    with RandomAccessReader(args[2], FLOAT_VECTOR) as vectors:
        def scored(key: str, utterances: list[str]) -> np.ndarray | None:
            missing = [name for name in utterances if name not in vectors]
            if missing or not utterances:
                log.warning(f"No iVector present in input for utterance {missing[0] if missing else '(none)'}")
                return None
            with within(f"recording {key}"):
                return dense_ratios(plda, np.stack([vectors[name] for name in utterances]), options.target_energy)

        done, errors = convert_table(args[1], args[3], TOKEN_VECTOR, FLOAT_MATRIX, scored)
    log.log(f"Processed {done} recordings, {errors} had errors.")
    return 0 if done else 1
