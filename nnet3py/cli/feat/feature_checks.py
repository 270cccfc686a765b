"""compare-feats: how similar two sets of features are."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import ShapeError

if TYPE_CHECKING:
    import numpy as np


@kaldi_command("compare-feats", group="Sound and features", help="Tell how similar two sets of features are.", usage="""
Tell how similar two sets of features are: for each dimension, twice the sum of the products of both over the sum of the
squares of each, which is 1 for equal ones, and the mean of these. The exit status is 0 if that mean is high enough.

Usage: compare-feats [options] <in-rspecifier1> <in-rspecifier2>
e.g.: compare-feats --threshold=0.98 ark:feats1.ark ark:feats2.ark
See also: copy-feats, paste-feats
""", arguments=(2, 2), options=[
    option("threshold", float, 0.99, "Least mean similarity of sets that are called similar"),
])
def compare_feats(args: list[str], options: Options) -> int:
    """Compare two tables; 1 if they differ or have nothing in common."""
    import numpy as np

    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import RandomAccessReader, SequentialReader

    sums: np.ndarray | None = None           # float64 (3, dim): squares of both, products
    done = errors = 0
    with RandomAccessReader(args[1], FLOAT_MATRIX) as others, SequentialReader(args[0], FLOAT_MATRIX) as features:
        for key, matrix in features:
            other = others.get(key)
            if other is None:
                log.warning(f"Second table has no features for utterance {key}")
                errors += 1
                continue
            if matrix.shape != other.shape:
                if matrix.shape[1] != other.shape[1]:
                    raise ShapeError(f"the features of {key} have {matrix.shape[1]} columns in the first table, and "
                                     f"{other.shape[1]} in the second")
                log.warning(f"Number of frames for utterance {key} differs: {len(matrix)} vs. {len(other)}")
                errors += 1
                continue
            with np.errstate(all="ignore"):
                here = np.stack([np.einsum("td,td->d", a, b, dtype=np.float64)
                                 for a, b in ((matrix, matrix), (other, other), (matrix, other))])
            if sums is not None and here.shape != sums.shape:
                raise ShapeError(f"the features of {key} have {here.shape[1]} columns, and those before it "
                                 f"{sums.shape[1]}")
            sums = here if sums is None else sums + here
            done += 1
    if sums is None:
        log.log(f"Processed {done} feature files, {errors} had errors.")
        return 1
    return 0 if _report(sums, done, errors, options.threshold) else 1


def _report(sums: np.ndarray, done: int, errors: int, threshold: float) -> bool:
    """Log the similarities; whether the sets are similar."""
    import numpy as np

    ones, others, products = sums
    total = ones + others
    with np.errstate(all="ignore"):
        similarity = np.where(total == 0.0, 1.0, 2.0 * products / total)         # both are 0, and so alike
    log.log(f"self-product of 1st features for each column dimension: {_shown(ones)}")
    log.log(f"self-product of 2nd features for each column dimension: {_shown(others)}")
    log.log(f"cross-product for each column dimension: {_shown(products)}")
    log.log(f"Similarity metric for each dimension {_shown(similarity)} (1.0 means identical, the smaller the more "
            "different)")
    overall = float(similarity.mean())
    log.log(f"Overall similarity for the two feats is:{overall:g} (1.0 means identical, the smaller the more "
            "different)")
    log.log(f"Processed {done} feature files, {errors} had errors.")
    similar = overall >= threshold
    log.log(f"Features are considered {'similar' if similar else 'dissimilar'} since {overall:g} "
            f"{'>=' if similar else '<'} {threshold:g}")
    return similar


def _shown(vector: np.ndarray) -> str:
    """A vector as text of Kaldi, which ends its line."""
    return f" [ {''.join(f'{value:g} ' for value in vector)}]\n"
