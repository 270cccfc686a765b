"""Telling speakers apart by the vectors of their utterances: score.py and the tests use what stands here."""
from __future__ import annotations

import numpy as np
from scipy.linalg import eigh


def equal_error_rate(scores: np.ndarray, is_target: np.ndarray) -> tuple[float, float]:
    """The rate (0 to 1) at which as many targets are refused as nontargets accepted, and the threshold there.

    ``scores`` float (trials,), ``is_target`` bool (trials,). A trial is accepted whose score reaches the threshold.
    The two rates step where a score lies, equal scores stepping together; where they cross between two steps, both
    are taken as straight lines. ValueError without targets, without nontargets or with NaN.
    """
    scores, is_target = np.asarray(scores, np.float64), np.asarray(is_target, bool)
    num_targets = int(is_target.sum())
    num_nontargets = len(is_target) - num_targets
    if not num_targets or not num_nontargets:
        raise ValueError(f"there are {num_targets} target and {num_nontargets} nontarget trials; both are needed")
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    thresholds, place = np.unique(scores, return_inverse=True)
    misses = np.concatenate(([0], np.cumsum(np.bincount(place[is_target], minlength=len(thresholds)))))
    refused = np.concatenate(([0], np.cumsum(np.bincount(place[~is_target], minlength=len(thresholds)))))
    miss_rate, false_rate = misses / num_targets, 1 - refused / num_nontargets   # from (0, 1) to (1, 0)
    difference = miss_rate - false_rate
    after = int(np.argmax(difference >= 0))
    before = after - 1
    share = -difference[before] / (difference[after] - difference[before])
    rate = miss_rate[before] + share * (miss_rate[after] - miss_rate[before])
    return float(rate), float(thresholds[before])


def class_scatter(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariances within and between classes: float64 (dim, dim) each, of ``vectors`` (n, dim), ``labels`` int (n,)."""
    names, place = np.unique(labels, return_inverse=True)
    counts = np.bincount(place).astype(float)
    means = np.zeros((len(names), vectors.shape[1]))
    np.add.at(means, place, vectors)
    means /= counts[:, None]
    rest = vectors - means[place]
    offsets = means - vectors.mean(0)
    return rest.T @ rest / len(vectors), (offsets * counts[:, None]).T @ offsets / len(vectors)


def lda(vectors: np.ndarray, labels: np.ndarray, dim: int) -> np.ndarray:
    """float64 (dim, input dim): the directions in which classes differ most, scaled to unit covariance within them.

    A tenth of the whole covariance is added to that within classes, as there are few vectors of each.
    """
    within, between = class_scatter(vectors, labels)
    _, directions = eigh(between, within + 0.1 * (within + between))
    return directions[:, ::-1][:, :dim].T


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """The vectors (n, dim), each divided by its length."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-20)


def log_likelihood_ratios(vectors: np.ndarray, within: np.ndarray, between: np.ndarray) -> np.ndarray:
    """float64 (n, n): log p(i, j | one speaker) - log p(i, j | two speakers), of centered ``vectors`` (n, dim).

    The two-covariance model: a speaker's mean is normal with covariance ``between``, an utterance normal around that
    mean with ``within``. The constant term is left out.
    """
    # In coordinates where `within` is the identity and `between` is diagonal the dimensions are independent.
    variances, directions = eigh(between, within)
    variances = np.maximum(variances, 0)
    along = vectors @ directions
    total = 1 + variances
    determinant = total**2 - variances**2
    cross = variances / determinant                       # of x_i x_j
    square = 0.5 * (1 / total - total / determinant)      # of x_i^2 and of x_j^2
    own = (along**2) @ square
    return (along * cross) @ along.T + own[:, None] + own[None, :]
