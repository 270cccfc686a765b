"""Lists of indexes (n, t, x) as int32 arrays (rows, 3): sorting, lookup, and their text in Kaldi's logs.

n is the sequence in the minibatch, t the time, x an extra index that few networks use. The order is t, then x, then n.
Kaldi: ``Index``, ``Cindex`` (nnet-common.h).
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nnet3py.errors import Nnet3Error

NO_TIME = -2147483648   # t of padding rows, which stand for no frame; nothing may be added to it

PRINTED_LENGTH = 200    # characters; of longer texts the first and last half are printed

_LOW_BITS = 31          # bits of a key for x and n; t has the 32 bits above
_X_BIAS = 1 << 31       # added to x, gives a number of 32 bits that is not negative


def as_indexes(indexes: object, what: str = "indexes") -> np.ndarray:
    """Return ``indexes`` as a contiguous int32 array (rows, 3). Raises Nnet3Error for other shapes or numbers."""
    array = np.asarray(indexes)
    if array.size == 0 and array.ndim <= 2:
        return np.zeros((0, 3), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise Nnet3Error(f"{what}: expected integers of shape (rows, 3) with columns n, t, x, found shape "
                         f"{array.shape} of {array.dtype}")
    if array.dtype != np.int32:
        limits = np.iinfo(np.int32)
        if array.min() < limits.min or array.max() > limits.max:
            raise Nnet3Error(f"{what}: a value does not fit into 32 bits")
    return np.ascontiguousarray(array, dtype=np.int32)


class KeySpace:
    """Mapping between indexes and int64 keys, whose order is that of the indexes (t, then x, then n).

    Keys of padding rows are less than all others.

    Parameters
    ----------
    min_n, max_n : smallest and largest n; a key has 31 bits for n and x together, so they limit the range of x
    """

    def __init__(self, min_n: int, max_n: int) -> None:
        self.min_n = min_n
        self._n_bits = max(int(max_n) - int(min_n), 0).bit_length()
        self._x_bits = _LOW_BITS - self._n_bits
        if self._x_bits < 1:
            raise Nnet3Error(f"the sequence numbers n of indexes, {min_n} to {max_n}, are too far apart; expected a "
                             f"difference below {1 << (_LOW_BITS - 1)}")
        self._x_bias = 1 << (self._x_bits - 1)

    @classmethod
    def of(cls, arrays: Iterable[np.ndarray]) -> KeySpace:
        """Return a key space for the n of these index arrays, int32 (rows, 3)."""
        columns = [a[:, 0] for a in arrays if len(a)]
        if not columns:
            return cls(0, 0)
        return cls(min(int(c.min()) for c in columns), max(int(c.max()) for c in columns))

    def keys(self, indexes: np.ndarray) -> np.ndarray:
        """Return int64 keys (...) of int32 indexes (..., 3)."""
        x = indexes[..., 2].astype(np.int64)
        if x.size and not (-self._x_bias <= x.min() and x.max() < self._x_bias):
            raise Nnet3Error(f"expected an x from {-self._x_bias} to {self._x_bias - 1} in indexes, found {x.min()} to "
                             f"{x.max()}, which is too large")
        n = indexes[..., 0].astype(np.int64)
        n -= self.min_n
        keys = indexes[..., 1].astype(np.int64)
        keys <<= _LOW_BITS
        x += self._x_bias
        x <<= self._n_bits
        keys += x
        keys += n
        return keys

    @staticmethod
    def shifted(keys: np.ndarray, t: int) -> np.ndarray:
        """Return the keys of indexes shifted by ``t`` frames, ``keys`` itself for 0. Padding rows are not allowed."""
        return keys + (t << _LOW_BITS) if t else keys

    def indexes(self, keys: np.ndarray) -> np.ndarray:
        """Return int32 indexes (..., 3) of int64 keys (...)."""
        out = np.empty((*keys.shape, 3), dtype=np.int32)
        out[..., 0] = (keys & ((1 << self._n_bits) - 1)) + self.min_n
        out[..., 1] = keys >> _LOW_BITS
        out[..., 2] = ((keys & ((1 << _LOW_BITS) - 1)) >> self._n_bits) - self._x_bias
        return out


def sequence_indexes(num_sequences: int, times: np.ndarray) -> np.ndarray:
    """Return the indexes (n, t, 0) for all ``times`` t of sequence 0, then of 1, …: int32 (sequences * times, 3)."""
    indexes = np.zeros((num_sequences, len(times), 3), dtype=np.int32)
    indexes[:, :, 0] = np.arange(num_sequences)[:, None]
    indexes[:, :, 1] = times
    return indexes.reshape(-1, 3)


def keys(indexes: np.ndarray, space: KeySpace | None = None) -> np.ndarray:
    """Return int64 keys (rows,) of int32 indexes (rows, 3); keys can be compared only with those of the same space.

    ``space`` is the key space; None for one that is made for these indexes.
    """
    return (space or KeySpace.of([indexes])).keys(indexes)


def sequence_keys(indexes: np.ndarray) -> np.ndarray:
    """Return a key for the (n, x) of each index: int64 (rows,) for int32 (rows, 3); keys are in order of n, then x."""
    return (indexes[:, 0].astype(np.int64) << 32) + (indexes[:, 2].astype(np.int64) + _X_BIAS)


def sequences_of(keys: np.ndarray) -> np.ndarray:
    """Return the columns n and x, int32 (rows, 2), for keys of :func:`sequence_keys`."""
    return np.stack([keys >> 32, (keys & 0xFFFFFFFF) - _X_BIAS], axis=1).astype(np.int32)


def sort_order(indexes: np.ndarray) -> np.ndarray:
    """Return the permutation (rows,) that sorts int32 indexes (rows, 3) by t, then x, then n. Stable."""
    return np.argsort(keys(indexes), kind="stable")


def lookup(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the row in ``table`` (in any order) of each index of ``wanted``, int64 (rows,); -1 for missing ones."""
    if not len(table) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    space = KeySpace.of([table, wanted])
    table_keys = space.keys(table)
    order = np.argsort(table_keys, kind="stable")
    return find_keys(table_keys[order], order, space.keys(wanted))


def find_keys(sorted_keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return, for each wanted key, the value ``values[i]`` with ``sorted_keys[i]`` equal to the key; -1 if missing."""
    if not len(sorted_keys):
        return np.full(wanted.shape, -1, dtype=np.int64)
    if wanted.size == sorted_keys.size and (wanted.reshape(-1) == sorted_keys).all():
        return values.reshape(wanted.shape)
    at = np.searchsorted(sorted_keys, wanted)
    at[at == len(sorted_keys)] = 0
    return np.where(sorted_keys[at] == wanted, values[at], -1)


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of a 1-D array in ascending order; the array itself if it has this form already.

    Unlike ``numpy.unique`` it does not import numpy.ma, which is slow.
    """
    if (values[1:] > values[:-1]).all():
        return values
    ordered = np.sort(values)
    return ordered[_is_new(ordered)]


def numbers_by_appearance(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Number the distinct values of an int64 array (rows,) by first appearance.

    Returns the number of each row's value, (rows,), and the count of distinct values.
    """
    size = len(values)
    lowest, highest = (int(values.min()), int(values.max())) if size else (0, -1)
    if highest - lowest > 4 * size:
        values, lowest = np.searchsorted(distinct(values), values), 0
        highest = size
    places = values - lowest
    first = np.full(highest - lowest + 1, size)
    first[places[::-1]] = np.arange(size - 1, -1, -1)      # of rows with equal values the first is written last
    firsts = np.sort(first[first < size])
    number = np.empty(len(first), dtype=np.int64)
    number[places[firsts]] = np.arange(len(firsts))
    return number[places], len(firsts)


def _is_new(ordered: np.ndarray) -> np.ndarray:
    is_new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return is_new


def _are_rising(indexes: np.ndarray) -> bool:
    """Return whether indexes are strictly ascending in the order n, then t, then x."""
    columns = np.ascontiguousarray(indexes.T)       # several times as fast to compare
    (n, t, x), (next_n, next_t, next_x) = columns[:, :-1], columns[:, 1:]
    above = (next_t > t) | ((next_t == t) & (next_x > x))
    return bool(((next_n > n) | ((next_n == n) & above)).all())


def first_duplicate(indexes: np.ndarray) -> int:
    """Return the number of a row of int32 indexes (rows, 3) that is equal to an earlier row; -1 if all differ."""
    if _are_rising(indexes):        # by sequence, as in merged examples
        return -1
    k = keys(indexes)
    if np.all(k[1:] > k[:-1]):
        return -1
    order = np.argsort(k, kind="stable")
    repeats = np.flatnonzero(np.diff(k[order]) == 0)
    return int(order[repeats[0] + 1]) if len(repeats) else -1


# -- printing --------------------------------------------------------------------------------------------------------


def shorten(text: str) -> str:
    """Shorten a text of more than 200 characters to its first 100, `` ... `` and its last 100."""
    half = PRINTED_LENGTH // 2
    return text if len(text) <= PRINTED_LENGTH else f"{text[:half]} ... {text[-half:]}"


def format_cindex(name: str, index: Sequence[int]) -> str:
    """Format a cindex as ``name(n,t)``, or as ``name(n,t,x)`` for x other than 0. Kaldi: PrintCindex."""
    n, t, x = (int(v) for v in index)
    return f"{name}({n},{t},{x})" if x else f"{name}({n},{t})"


def format_indexes(indexes: np.ndarray) -> str:
    """Format a list of indexes as Kaldi does: ``[(0,-1:1), (1,5)]``, shortened if long."""
    if not len(indexes):
        return "[ ]"
    n, t, x = (indexes[:, column].astype(np.int64) for column in range(3))
    joined = (np.diff(n) == 0) & (np.diff(x) == 0) & (np.diff(t) == 1)
    starts = np.concatenate(([0], np.flatnonzero(~joined) + 1))
    ends = np.append(starts[1:], len(indexes)) - 1
    chosen = np.arange(len(starts))
    if len(starts) > PRINTED_LENGTH:   # only groups at the ends remain after shortening
        chosen = np.concatenate((chosen[:PRINTED_LENGTH // 2], chosen[-PRINTED_LENGTH // 2:]))
    groups = [f"({n[i]},{t[i]}{f':{t[j]}' if j > i else ''}{f',{x[i]}' if x[i] else ''})"
              for i, j in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True)]
    return shorten(f"[{', '.join(groups)}]")


def format_cindexes(nodes: np.ndarray, indexes: np.ndarray, node_names: Sequence[str]) -> str:
    """Format a list of cindexes as Kaldi does: a node's name, then the list of its indexes, for each run of a node.

    Parameters
    ----------
    nodes : int (rows,), node numbers
    indexes : int32 (rows, 3)
    """
    if not len(nodes):
        return "[ ]"
    bounds = [0, *(np.flatnonzero(np.diff(nodes)) + 1).tolist(), len(nodes)]
    return "".join(node_names[int(nodes[begin])] + format_indexes(indexes[begin:end])
                   for begin, end in zip(bounds[:-1], bounds[1:], strict=True))


def format_integers(values: np.ndarray) -> str:
    """Format a list of integers as Kaldi does: ``[0:3, -1, -1]``, ``[-1x10, 1:20]``."""
    if not len(values):
        return "[ ]"
    values = np.asarray(values, dtype=np.int64)
    step = np.diff(values)
    # Maximal stretches of steps that are all 0 or all 1; other steps separate runs.
    bounds = [0, *(np.flatnonzero(np.diff(step)) + 1).tolist(), len(step)] if len(step) else [0, 0]
    items: list[str] = []
    at = 0                             # the next value to print
    for begin, end in zip(bounds[:-1], bounds[1:], strict=True):
        begin = max(begin, at)         # the step to value `at` belongs to the run before
        if begin >= end:
            continue
        if step[begin] not in (0, 1):
            items.extend(str(v) for v in values[begin:end].tolist())
            at = end
        else:
            items.extend(_run_items(int(values[begin]), int(step[begin]), end - begin + 1))
            at = end + 1
    items.extend(str(v) for v in values[at:].tolist())
    return f"[{', '.join(items)}]"


def _run_items(first: int, step: int, length: int) -> list[str]:
    if length == 2:
        return [str(first), str(first + step)]
    return [f"{first}x{length}" if step == 0 else f"{first}:{first + length - 1}"]
