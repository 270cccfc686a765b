"""ivector-mean, -normalize-length, -subtract-global-mean, transform-vec and others: what is done with i-vectors."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.ivectors.inputs import Moments, read_trials, read_vectors
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import FormatError, ShapeError, UsageError

if TYPE_CHECKING:

    import numpy as np


@kaldi_command("ivector-mean", group="Speakers and i-vectors",
               help="Compute the means of speakers' vectors, or of all.", usage="""
Compute the mean of the vectors of each speaker, or of all.

Usage:  ivector-mean [options] <spk2utt-rspecifier> <ivector-rspecifier> <ivector-wspecifier> [<num-utts-wspecifier>]
or:  ivector-mean [options] <ivector-rspecifier> <mean-wxfilename>
e.g.: ivector-mean ark:data/spk2utt ark:ivectors.ark ark:speakers.ark ark,t:num_utts.txt
 ivector-mean --binary=false ark:ivectors.ark mean.vec
See also: ivector-subtract-global-mean
""", arguments=(2, 4), options=[BINARY.but(default=False, help="Write the mean of all in binary mode")])
def ivector_mean(args: list[str], options: Options) -> int:
    """Compute means; 1 if there was nothing."""
    if len(args) == 2:
        return _mean_of_all(args, options)
    from contextlib import ExitStack

    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR, INT32, TOKEN_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

    done = without = num_utterances = missing = 0
    total = np.zeros(0)
    squared = 0.0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], FLOAT_VECTOR))
        counts = stack.enter_context(TableWriter(args[3], INT32)) if len(args) == 4 else None
        vectors = stack.enter_context(RandomAccessReader(args[1], FLOAT_VECTOR))
        for speaker, utterances in stack.enter_context(SequentialReader(args[0], TOKEN_VECTOR)):
            members = [vectors[key] for key in utterances if key in vectors]
            for key in utterances:
                if key not in vectors:
                    log.warning(f"No iVector present in input for utterance {key}")
                    missing += 1
            if not members:
                log.warning(f"Not producing output for speaker {speaker} since no utterances had iVectors")
                without += 1
                continue
            mean = np.add.reduce(members, dtype=np.float32) * np.float32(1.0 / len(members))
            writer.write(speaker, mean)
            if counts is not None:
                counts.write(speaker, len(members))
            num_utterances, done = num_utterances + len(members), done + 1
            total = mean.astype(np.float64) if not len(total) else total + mean
            squared += float(mean.astype(np.float64) @ mean)
    log.log(f"Computed mean of {done} speakers ({without} with no utterances), consisting of {num_utterances} "
            f"utterances ({missing} absent from input).")
    if done:
        log.log(f"Norm of mean of speakers is {np.linalg.norm(total / done):.6g}, root-mean-square speaker-iVector "
                f"length divided by sqrt(dim) is {math.sqrt(squared / (done * len(total))):.6g}")
    return 0 if done else 1


def _mean_of_all(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.matrices import write_vector
    from nnet3py.io.object_files import write_object

    vectors = read_vectors(args[0])
    if not vectors:
        log.warning("No iVectors were read, no mean was made")
        return 1
    mean = np.add.reduce([*vectors.values()], dtype=np.float64) / len(vectors)
    write_object(args[1], lambda writer: write_vector(writer, mean), options.binary)
    log.log(f"Processed {len(vectors)} iVectors, and wrote their mean to {args[1]}")
    return 0


@kaldi_command("ivector-subtract-global-mean", group="Speakers and i-vectors", help="Subtract the mean from vectors.",
               usage="""
Subtract the mean from vectors: their own, or one from a file.

Usage:  ivector-subtract-global-mean [options] [<mean-rxfilename>] <ivector-rspecifier> <ivector-wspecifier>
e.g.: ivector-subtract-global-mean mean.vec scp:ivectors.scp ark:-
See also: ivector-mean
""", arguments=(2, 3), options=[option("subtract-mean", bool, True, "Subtract it; if false, vectors are copied")])
def ivector_subtract_global_mean(args: list[str], options: Options) -> int:
    """Subtract a mean; 1 if there was nothing."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.formats.matrices import read_vector
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import TableWriter

    if len(args) == 3:
        mean = read_object(args[0], lambda reader: read_vector(reader, np.float64)).astype(np.float32)

        def subtracted(key: str, vector: np.ndarray) -> np.ndarray:
            if len(vector) != len(mean):
                raise ShapeError(f"expected a vector of dimension {len(mean)}, as the mean is, found {len(vector)}")
            return vector - mean if options.subtract_mean else vector

        done, _ = convert_table(args[1], args[2], FLOAT_VECTOR, FLOAT_VECTOR, subtracted)
    else:
        vectors = read_vectors(args[0])
        done = len(vectors)
        with TableWriter(args[1], FLOAT_VECTOR) as writer:
            own = np.add.reduce([*vectors.values()], dtype=np.float64) / done if done else np.zeros(0)
            for key, vector in vectors.items():
                writer.write(key, (vector - own).astype(np.float32) if options.subtract_mean else vector)
        if done:
            log.log(f"Read {done} iVectors. Norm of iVector mean was {np.linalg.norm(own):.6g}")
    log.log(f"Wrote {done} mean-subtracted iVectors")
    return 0 if done else 1


@kaldi_command("ivector-normalize-length", group="Speakers and i-vectors", help="Give vectors the usual length.",
               usage="""
Give vectors the length that random ones have, the root of their dimension, or length 1.

Usage:  ivector-normalize-length [options] <ivector-rspecifier> <ivector-wspecifier>
e.g.: ivector-normalize-length ark:ivectors.ark ark:normalized.ark
See also: ivector-subtract-global-mean
""", arguments=(2, 2), options=[
    option("normalize", bool, True, "Change the lengths; if false, vectors are copied and lengths logged"),
    option("scaleup", bool, True, "To the root of the dimension; if false, to 1"),
])
def ivector_normalize_length(args: list[str], options: Options) -> int:
    """Normalize a table; 1 if it was empty."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR

    ratios = Moments()

    def normalized(key: str, vector: np.ndarray) -> np.ndarray:
        norm = float(np.linalg.norm(vector.astype(np.float64)))
        ratio = norm / math.sqrt(len(vector)) if options.scaleup and len(vector) else norm
        if ratio == 0.0:
            log.warning(f"Zero iVector, of {key}")
            return vector
        ratios.add(ratio)
        return vector * np.float32(1.0 / ratio) if options.normalize else vector

    done, _ = convert_table(args[0], args[1], FLOAT_VECTOR, FLOAT_VECTOR, normalized)
    log.log(f"Processed {done} iVectors.")
    log.log(f"Average ratio of iVector to expected length was {ratios.mean:.6g}, standard deviation was "
            f"{ratios.deviation:.6g}")
    return 0 if done else 1


_TRANSFORM_USAGE = """
Multiply vectors by a matrix; if it has one more column, that is an offset.

Usage:  {name} [options] <transform-rxfilename> <vector-rspecifier> <vector-wspecifier>
e.g.: {name} transform.mat ark:vectors.ark ark:transformed.ark
See also: ivector-compute-lda, transform-feats
"""


def _transform(args: list[str], what: str) -> int:
    import numpy as np

    from nnet3py.feat.frames import transform
    from nnet3py.formats.holders import FLOAT_VECTOR, read_matrix_file

    matrix = read_matrix_file(args[0])
    done, _ = convert_table(args[1], args[2], FLOAT_VECTOR, FLOAT_VECTOR,
                            lambda key, vector: np.ascontiguousarray(transform(vector[None], matrix)[0]))
    log.log(f"Applied transform to {done} {what}.")
    return 0 if done else 1


@kaldi_command("transform-vec", group="Speakers and i-vectors", help="Multiply vectors by a matrix.",
               arguments=(3, 3), usage=_TRANSFORM_USAGE.format(name="transform-vec"))
def transform_vec(args: list[str], options: Options) -> int:
    """Transform a table; 1 if it was empty."""
    return _transform(args, "vectors")


@kaldi_command("ivector-transform", group="Speakers and i-vectors", help="Multiply i-vectors by a matrix.",
               arguments=(3, 3), usage=_TRANSFORM_USAGE.format(name="ivector-transform"))
def ivector_transform(args: list[str], options: Options) -> int:
    """Transform a table; 1 if it was empty."""
    return _transform(args, "iVectors")


@kaldi_command("ivector-compute-dot-products", group="Speakers and i-vectors",
               help="Write the products of pairs of vectors.", usage="""
Write the products of pairs of vectors, one per line: first key, second key, product.

Usage:  ivector-compute-dot-products [options] <trials-in> <ivector1-rspecifier> <ivector2-rspecifier> <scores-out>
e.g.: ivector-compute-dot-products trials ark:train.ark ark:test.ark scores
See also: ivector-plda-scoring, compute-eer
""", arguments=(4, 4))
def ivector_compute_dot_products(args: list[str], options: Options) -> int:
    """Write products; 1 if there were none."""
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


@kaldi_command("compute-eer", group="Speakers and i-vectors", help="Print the equal error rate of scores.", usage="""
Print the equal error rate, in per cent, of lines with a score and "target" or "nontarget".

Usage:  compute-eer <scores-in>
e.g.: compute-eer -
See also: ivector-plda-scoring
""", arguments=(1, 1))
def compute_eer(args: list[str], options: Options) -> None:
    """Print a rate."""
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
            raise FormatError(f"line {number} is not a score and 'target' or 'nontarget': {line.strip()[:80]!r}",
                              path=args[0]) from None
    threshold_and_rate = equal_error_rate(np.array(scores["target"]), np.array(scores["nontarget"]))
    log.log(f"Equal error rate is {threshold_and_rate.per_cent:.6g}%, at threshold {threshold_and_rate.threshold:.6g}")
    write_text("-", f"{threshold_and_rate.per_cent:.4g}")


@kaldi_command("ivector-compute-lda", group="Speakers and i-vectors",
               help="Estimate the directions in which speakers differ most.", usage="""
Estimate the transform to the directions in which speakers differ most.

Usage:  ivector-compute-lda [options] <ivector-rspecifier> <utt2spk-rspecifier> <lda-matrix-out>
e.g.: ivector-compute-lda ark:ivectors.ark ark:utt2spk lda.mat
See also: ivector-transform, ivector-compute-plda
""", arguments=(3, 3), options=[
    BINARY,
    option("dim", int, 100, "Rows of the transform"),
    option("total-covariance-factor", float, 0.0, "Weight of the total covariance (the rest: that within speakers) "
           "in the covariance that is made the unit matrix"),
    option("covariance-floor", float, 1.0e-6, "Floor of its eigenvalues, as part of the largest"),
])
def ivector_compute_lda(args: list[str], options: Options) -> int:
    """Estimate a transform; 1 if there were no vectors."""
    import numpy as np

    from nnet3py.formats.holders import TOKEN
    from nnet3py.formats.matrices import write_matrix
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.ivectors.scoring import linear_discriminants

    if not 0.0 <= options.total_covariance_factor <= 1.0:
        raise OptionError(f"--total-covariance-factor must lie between 0 and 1, found "
                          f"{options.total_covariance_factor:g}")
    vectors, speakers, rows, errors = read_vectors(args[0]), [], [], 0
    with RandomAccessReader(args[1], TOKEN) as utt2spk:
        for key, vector in vectors.items():
            if key not in utt2spk:
                log.warning(f"utt2spk has no entry for {key}, skipping it.")
                errors += 1
                continue
            speakers.append(utt2spk[key])
            rows.append(vector)
    log.log(f"Read {len(rows)} utterances, {errors} with errors.")
    if not rows:
        raise UsageError("no utterance has both a vector and a speaker", "do the tables belong together?")
    log.log("Computing within-class covariance.")
    stacked = np.stack(rows)
    log.log(f"2-norm of iVector mean is {np.linalg.norm(stacked.astype(np.float64).mean(axis=0)):.6g}")
    log.log(f"Stats have {len(set(speakers))} speakers, {len(rows)} utterances. ")
    lda = linear_discriminants(stacked, speakers, options.dim, options.total_covariance_factor,
                               options.covariance_floor)
    values: Any = lda.singular_values
    log.log(f"Singular values of between-class covariance after projecting with interpolated [total/within] covariance "
            f"with a weight of {options.total_covariance_factor:g} on the total covariance, are:  [ "
            + "".join(f"{value:.6g} " for value in values) + "]")
    write_object(args[2], lambda writer: write_matrix(writer, lda.transform), options.binary)
    log.log(f"Wrote LDA transform to {args[2]}")
    return 0
