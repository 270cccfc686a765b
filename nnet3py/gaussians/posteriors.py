"""Which Gaussians of a mixture frames belong to: likelihoods, selection, posteriors; in single precision, as Kaldi."""
from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple, TypeAlias

import numpy as np

from nnet3py.engine.loop import Loop
from nnet3py.errors import ShapeError
from nnet3py.formats.posteriors import Posterior
from nnet3py.gaussians.diag_gmm import DiagGmm
from nnet3py.gaussians.full_gmm import FullGmm
from nnet3py.gaussians.symmetric import lower_triangle, outer_products

_pruned = Loop("nnet3py.gaussians.posterior_loops", "pruned", "f4[,] f4[] i8[] i4[] f4[] f4[] i8")

Mixture: TypeAlias = "DiagGmm | FullGmm"
_BLOCK = 1000          # frames whose products with themselves are in memory at a time


@singledispatch
def log_likelihoods(gmm: Mixture, features: np.ndarray, constants: np.ndarray | None = None) -> np.ndarray:
    """float32 (frames, gaussians): log-likelihoods of features (frames, dim), weights included.

    ``constants`` are ``gmm.log_constants()``, for callers that ask often, with few frames. ShapeError for features of
    another dimension.
    """
    raise TypeError(f"expected a mixture of Gaussians, found {type(gmm).__name__}")


def _check(gmm: Mixture, features: np.ndarray) -> None:
    if features.shape[1] != gmm.dim:
        raise ShapeError(f"expected features of dimension {gmm.dim}, as the Gaussians have, found {features.shape[1]}")


@log_likelihoods.register
def _(gmm: DiagGmm, features: np.ndarray, constants: np.ndarray | None = None) -> np.ndarray:
    _check(gmm, features)
    features = features.astype(np.float32, copy=False)
    result: np.ndarray = (gmm.log_constants() if constants is None else constants) + features @ gmm.means_inv_vars.T
    result -= np.float32(0.5) * ((features * features) @ gmm.inv_vars.T)
    return result


@log_likelihoods.register
def _(gmm: FullGmm, features: np.ndarray, constants: np.ndarray | None = None) -> np.ndarray:
    _check(gmm, features)
    features = features.astype(np.float32, copy=False)
    rows, cols = lower_triangle(gmm.dim)
    halved = np.where(rows == cols, np.float32(0.5), np.float32(1.0))
    result: np.ndarray = (gmm.log_constants() if constants is None else constants) + features @ gmm.means_inv_covars.T
    for first in range(0, len(features), _BLOCK):
        products = outer_products(features[first:first + _BLOCK]) * halved
        result[first:first + _BLOCK] -= products @ gmm.inv_covars.T
    return result


class Chosen(NamedTuple):
    """Posteriors of the Gaussians that were kept, and float32 (frames,), the log-likelihood of each frame by them."""

    posterior: Posterior
    log_likes: np.ndarray


def pruned_posteriors(log_likes: np.ndarray, most: int, least: float | np.ndarray) -> Chosen:
    """Posteriors of the ``most`` likeliest Gaussians of each frame, without those below ``least``.

    ``log_likes`` float32 (frames, gaussians); ``least`` a number, or float32 (frames,). At least one is kept.
    Kaldi: VectorToPosteriorEntry.
    """
    frames, count = log_likes.shape
    most = min(most, count)
    starts, sums = np.zeros(frames + 1, dtype=np.int64), np.empty(frames, dtype=np.float32)
    ids, weights = np.empty(frames * most, dtype=np.int32), np.empty(frames * most, dtype=np.float32)
    cuts = np.array(np.broadcast_to(np.asarray(least, dtype=np.float32), (frames,)))
    _pruned(np.require(log_likes, np.float32, ["C", "A", "W"]), cuts, starts, ids, weights, sums, most)
    kept = int(starts[-1])
    return Chosen(Posterior(starts, ids[:kept], weights[:kept]), sums)


def _likeliest(log_likes: np.ndarray, most: int) -> np.ndarray:
    """int64 (frames, most): the Gaussians of greatest likelihood, descending; of equal ones the higher number first."""
    count = log_likes.shape[1]
    if most < count:
        candidates = np.sort(np.argpartition(log_likes, count - most, axis=1)[:, count - most:], axis=1)
    else:
        candidates = np.broadcast_to(np.arange(count), log_likes.shape)
    order = np.argsort(np.take_along_axis(log_likes, candidates, axis=1), axis=1, kind="stable")[:, ::-1]
    chosen: np.ndarray = np.take_along_axis(candidates, order, axis=1)
    return chosen


Selection: TypeAlias = "Sequence[np.ndarray]"      # the numbers of each frame's Gaussians


class Selected(NamedTuple):
    """int64 (frames, n), Gaussians by likelihood, and float32 (frames,), the log-likelihood of each frame by them."""

    numbers: np.ndarray
    log_likes: np.ndarray


def select(gmm: Mixture, features: np.ndarray, most: int) -> Selected:
    """The ``most`` likeliest Gaussians of each frame. Kaldi: GaussianSelection."""
    log_likes = log_likelihoods(gmm, features)
    numbers = _likeliest(log_likes, min(most, log_likes.shape[1]))
    return Selected(numbers, log_sum(np.take_along_axis(log_likes, numbers, axis=1)))


def log_sum(values: np.ndarray) -> np.ndarray:
    """float32 (rows,): the logarithm of the sum of each row's exponentials."""
    highest = values.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        summed: np.ndarray = (highest + np.log(np.exp(values - highest).sum(axis=1, keepdims=True)))[:, 0]
    return summed


def of_preselected(gmm: Mixture, features: np.ndarray, selection: Selection) -> list[np.ndarray]:
    """For each frame, float32: the log-likelihoods of the Gaussians that are listed for it.

    A list whose first and last numbers are as far apart as it is long is taken for consecutive numbers where the
    covariances are diagonal, as in Kaldi (DiagGmm::LogLikelihoodsPreselect), with which results are compared.
    """
    log_likes = log_likelihoods(gmm, features)
    table = _as_table(selection, log_likes.shape[1])
    if table is not None:
        return [*np.take_along_axis(log_likes, _read_as(gmm, table), axis=1)]
    result = []
    for row, listed in zip(log_likes, selection, strict=True):
        numbers = np.asarray(listed)
        if not len(numbers) or numbers.min() < 0 or numbers.max() >= len(row):
            raise ShapeError(f"expected numbers of Gaussians from 0 to {len(row) - 1}, found {numbers.tolist()[:10]}",
                             "does the selection belong to another mixture?")
        result.append(row[_read_as(gmm, numbers[None])[0]])
    return result


def _as_table(selection: Selection, num_gaussians: int) -> np.ndarray | None:
    """int (frames, n) of lists that are all of one length, as gmm-gselect makes them; None for others, wrong or not."""
    if not len(selection) or len({len(listed) for listed in selection}) > 1 or not len(selection[0]):
        return None
    table = np.array(selection)
    return table if table.min() >= 0 and table.max() < num_gaussians else None


def _read_as(gmm: Mixture, table: np.ndarray) -> np.ndarray:
    """The Gaussians (frames, n) whose likelihoods Kaldi takes for those that are listed."""
    count = table.shape[1]
    consecutive = table[:, -1] + 1 - table[:, 0] == count
    if not isinstance(gmm, DiagGmm) or not consecutive.any():
        return table
    return np.where(consecutive[:, None], table[:, :1] + np.arange(count), table)


def select_among(gmm: Mixture, features: np.ndarray, selection: Selection, most: int) -> tuple[list[np.ndarray], float]:
    """The ``most`` likeliest of the Gaussians listed for each frame, and the sum of log-likelihoods by them."""
    chosen, total = [], 0.0
    for listed, values in zip(selection, of_preselected(gmm, features, selection), strict=True):
        numbers = np.asarray(listed)
        order = np.lexsort((numbers, values))[::-1][:most]
        chosen.append(numbers[order].astype(np.int32))
        total += float(log_sum(values[None, order])[0])
    return chosen, total


def softmax(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors of log-likelihoods (…, n), float32, and (…,) the logarithms of what they were divided by."""
    highest = values.max(axis=-1, keepdims=True)
    with np.errstate(under="ignore"):
        exponentials = np.exp(values - highest)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / total, (highest + np.log(total))[..., 0]


def dense_of_selection(gmm: Mixture, features: np.ndarray, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """float32 (frames, gaussians), posteriors of the listed Gaussians; and (frames,), log-likelihoods by them."""
    likelihoods = of_preselected(gmm, features, selection)
    dense = np.zeros((len(features), len(gmm.weights)), dtype=np.float32)
    table = _as_table(selection, len(gmm.weights))
    if table is not None:
        posteriors, log_likes = softmax(np.asarray(likelihoods))
        np.put_along_axis(dense, table, posteriors, axis=1)
        return dense, log_likes
    log_likes = np.zeros(len(features), dtype=np.float32)
    for frame, (listed, values) in enumerate(zip(selection, likelihoods, strict=True)):
        dense[frame, np.asarray(listed)], log_likes[frame] = softmax(values)
    return dense, log_likes


def posteriors_of_selection(gmm: Mixture, features: np.ndarray, selection: Selection,
                            least: float) -> tuple[Posterior, float]:
    """Posteriors of the listed Gaussians, those below ``least`` left out; and the sum of log-likelihoods.

    Kaldi: gmm-global-gselect-to-post.
    """
    frames, total = [], 0.0
    for listed, values in zip(selection, of_preselected(gmm, features, selection), strict=True):
        posteriors, log_like = softmax(values)
        total += float(log_like)
        if least != 0.0:
            posteriors = _without_small(posteriors, np.float32(least))
        frames.append([(int(number), float(value)) for number, value in zip(listed, posteriors, strict=True) if value])
    return Posterior.from_lists(frames), total


def _without_small(posteriors: np.ndarray, least: np.float32) -> np.ndarray:
    kept = np.where(posteriors < least, np.float32(0), posteriors)
    total = kept.sum(dtype=np.float32)
    if total == 0:
        kept[posteriors.argmax()] = total = np.float32(1)
    return kept * (np.float32(1) / total)
