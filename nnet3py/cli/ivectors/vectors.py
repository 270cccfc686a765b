"""Programs that average, normalize and transform i-vectors and other vectors.

ivector-mean, ivector-subtract-global-mean, ivector-normalize-length, transform-vec, ivector-transform,
ivector-compute-lda.
"""
from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, write_value
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import ShapeError, UsageError

if TYPE_CHECKING:
    import numpy as np


def read_vectors(rspecifier: str) -> dict[str, np.ndarray]:
    """Read all vectors of a table. Raises ShapeError if their dimensions differ."""
    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.io.tables import SequentialReader

    vectors: dict[str, np.ndarray] = {}
    with SequentialReader(rspecifier, FLOAT_VECTOR) as table:
        for key, vector in table:
            first = next(iter(vectors.values()), vector)
            if len(vector) != len(first):
                raise ShapeError(f"the vector of {key} has dimension {len(vector)}, but those before it have "
                                 f"{len(first)}")
            vectors[key] = vector
    return vectors


class Moments:
    """Mean and standard deviation of numbers that are added one by one."""

    def __init__(self) -> None:
        self.count, self._sum, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        self.count, self._sum, self._squares = self.count + 1, self._sum + value, self._squares + value * value

    @property
    def mean(self) -> float:
        """Mean of the numbers."""
        return self._sum / (self.count or 1)

    @property
    def deviation(self) -> float:
        """Standard deviation of the numbers."""
        return math.sqrt(max(0.0, self._squares / (self.count or 1) - self.mean ** 2))


@kaldi_command("ivector-mean", "Speakers and i-vectors", "Compute the mean of vectors, of each speaker or of all.", """
Compute the mean of vectors, of each speaker or of all.

Usage:  ivector-mean [options] <spk2utt-rspecifier> <ivector-rspecifier> <ivector-wspecifier> [<num-utts-wspecifier>]
or:  ivector-mean [options] <ivector-rspecifier> <mean-wxfilename>
e.g.: ivector-mean ark:data/spk2utt ark:ivectors.ark ark:speakers.ark ark,t:num_utts.txt
 ivector-mean --binary=false ark:ivectors.ark mean.vec
See also: ivector-subtract-global-mean
""", arguments=(2, 4), options=[BINARY.but(default=False, help="Write the mean of all in binary mode")])
def ivector_mean(args: list[str], options: Options) -> int:
    if len(args) == 2:
        return _mean_of_all(args, options)

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

    from nnet3py.formats.holders import FLOAT_VECTOR

    vectors = read_vectors(args[0])
    if not vectors:
        log.warning("No iVectors were read, no mean was written")
        return 1
    mean = np.add.reduce([*vectors.values()], dtype=np.float64) / len(vectors)
    write_value(args[1], FLOAT_VECTOR, mean, options.binary)
    log.log(f"Processed {len(vectors)} iVectors, and wrote their mean to {args[1]}")
    return 0


@kaldi_command("ivector-subtract-global-mean", "Speakers and i-vectors", "Subtract the mean from vectors.", """
Subtract from vectors their own mean, or a mean from a file.

Usage:  ivector-subtract-global-mean [options] [<mean-rxfilename>] <ivector-rspecifier> <ivector-wspecifier>
e.g.: ivector-subtract-global-mean mean.vec scp:ivectors.scp ark:-
See also: ivector-mean
""", arguments=(2, 3), options=[option("subtract-mean", bool, True, "Subtract the mean; false: copy vectors")])
def ivector_subtract_global_mean(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_VECTOR
    from nnet3py.formats.matrices import read_vector
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import TableWriter

    if len(args) == 3:
        mean = read_object(args[0], lambda reader: read_vector(reader, np.float64)).astype(np.float32)

        def subtracted(key: str, vector: np.ndarray) -> np.ndarray:
            if len(vector) != len(mean):
                raise ShapeError(f"the vector of {key} has dimension {len(vector)}, but the mean has {len(mean)}")
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


@kaldi_command("ivector-normalize-length", "Speakers and i-vectors", "Scale vectors to the same length.", """
Scale vectors to the expected length of random ones, the square root of the dimension, or to length 1.

Usage:  ivector-normalize-length [options] <ivector-rspecifier> <ivector-wspecifier>
e.g.: ivector-normalize-length ark:ivectors.ark ark:normalized.ark
See also: ivector-subtract-global-mean
""", arguments=(2, 2), options=[
    option("normalize", bool, True, "Scale the vectors; false: copy them, and log their lengths"),
    option("scaleup", bool, True, "Scale to the square root of the dimension; false: to 1"),
])
def ivector_normalize_length(args: list[str], options: Options) -> int:
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

    counts = convert_table(args[0], args[1], FLOAT_VECTOR, FLOAT_VECTOR, normalized)
    counts.report("Processed {done} iVectors.")
    return counts.report(f"Average ratio of iVector to expected length was {ratios.mean:.6g}, standard deviation was "
                         f"{ratios.deviation:.6g}")


_TRANSFORM_USAGE = """
Multiply vectors by a matrix; if it has one column more than the vectors have elements, the last column is an offset.

Usage:  {name} [options] <transform-rxfilename> <vector-rspecifier> <vector-wspecifier>
e.g.: {name} transform.mat ark:vectors.ark ark:transformed.ark
See also: ivector-compute-lda, transform-feats
"""


@kaldi_command("transform-vec", "Speakers and i-vectors", "Multiply vectors by a matrix.",
               arguments=(3, 3), usage=_TRANSFORM_USAGE.format(name="transform-vec"))
@kaldi_command("ivector-transform", "Speakers and i-vectors", "Multiply i-vectors by a matrix.",
               arguments=(3, 3), usage=_TRANSFORM_USAGE.format(name="ivector-transform"))
def transform_vec(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.feat.frames import transform
    from nnet3py.formats.holders import FLOAT_VECTOR, read_matrix_file

    matrix = read_matrix_file(args[0])
    what = "iVectors" if log.program() == "ivector-transform" else "vectors"
    return convert_table(args[1], args[2], FLOAT_VECTOR, FLOAT_VECTOR, lambda key, vector: np.ascontiguousarray(
        transform(vector[None], matrix)[0])).report(f"Applied transform to {{done}} {what}.")


@kaldi_command("ivector-compute-lda", "Speakers and i-vectors",
               "Estimate the directions in which speakers differ most.", """
Estimate the transform to the directions in which speakers differ most.

Usage:  ivector-compute-lda [options] <ivector-rspecifier> <utt2spk-rspecifier> <lda-matrix-out>
e.g.: ivector-compute-lda ark:ivectors.ark ark:utt2spk lda.mat
See also: ivector-transform, ivector-compute-plda
""", arguments=(3, 3), options=[
    BINARY,
    option("dim", int, 100, "Rows of the transform", least=1),
    option("total-covariance-factor", float, 0.0, "Weight of the total covariance in the covariance that becomes the "
           "unit matrix; the rest is the weight of the covariance within speakers", least=0, most=1),
    option("covariance-floor", float, 1.0e-6, "Floor of this covariance's eigenvalues, as a part of the largest"),
])
def ivector_compute_lda(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX, TOKEN
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.ivectors.scoring import linear_discriminants

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
        raise UsageError("no utterance has both a vector and a speaker", "do both tables have the same keys?")
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
    write_value(args[2], FLOAT_MATRIX, lda.transform, options.binary)
    log.log(f"Wrote LDA transform to {args[2]}")
    return 0
