"""Statistics of features by event, an HMM state in a context of phones, from which trees are built.

Kaldi: ``BuildTreeStatsType``, ``GaussClusterable``, ``AccumulateTreeStats``.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.matrices import read_matrix, write_matrix
from nnet3py.hmm.alignment import phone_starts
from nnet3py.io.tokens import TokenReader, TokenWriter

if TYPE_CHECKING:
    from nnet3py.hmm.transition_model import TransitionModel

ABSENT = -1                  # stands for the value of a key that an event does not have
_LARGEST_KEY = 100           # phones in a window, at most
_SMALLEST = 12               # bytes of an event with its statistics, at least


@dataclass
class TreeStats:
    """Moments of the features of each event."""

    # int32 (events, width + 1): the pdf class, then the phones of the window, in Kaldi's order of events; ABSENT (-1)
    # for a phone that is left open, such as a neighbor of a context-independent phone
    events: np.ndarray
    moments: np.ndarray  # float64 (events, 1 + 2 dim): frames, sum of the features, sum of their squares
    floors: np.ndarray   # float64 (events,), least variance of each event

    def __len__(self) -> int:
        return len(self.events)

    @property
    def var_floor(self) -> float:
        """The variance floor for sums of these statistics: that of the first event, 0 without events."""
        return float(self.floors[0]) if len(self.floors) else 0.0

    def chosen(self, which: np.ndarray) -> TreeStats:
        """Return the statistics of the events selected by indexes or by a mask."""
        return TreeStats(self.events[which], self.moments[which], self.floors[which])

    @classmethod
    def read(cls, reader: TokenReader) -> TreeStats:
        """Read statistics; FormatError for other contents. Kaldi: ReadBuildTreeStats."""
        reader.expect("BTS")
        count = reader.integer("uint32")
        reader.check_count(count, _SMALLEST, "events")
        events: list[dict[int, int]] = []
        moments: list[np.ndarray] = []
        floors: list[float] = []
        for _ in range(count):
            events.append(_read_event(reader))
            if not reader.boolean():
                raise reader.error("an event has no statistics")
            floor, row = _read_gaussian(reader)
            if moments and len(row) != len(moments[0]):
                raise reader.error(f"expected statistics of dimension {len(moments[0]) // 2}, found {len(row) // 2}")
            moments.append(row)
            floors.append(floor)
        width = 1 + max((key for event in events for key in event), default=-1)
        table = np.full((count, width + 1), ABSENT, dtype=np.int32)
        for row_of_event, event in zip(table, events, strict=True):
            for key, value in event.items():
                row_of_event[key + 1] = value
        return cls(table, _stacked(moments), np.array(floors))

    def write(self, writer: TokenWriter) -> None:
        """Write statistics, text or binary. Kaldi: WriteBuildTreeStats."""
        writer.token("BTS")
        writer.integer(len(self), "uint32")
        for values, row, floor in zip(self.events.tolist(), self.moments, self.floors.tolist(), strict=True):
            pairs = _pairs(values)
            writer.token("EV")
            writer.integer(len(pairs), "uint32")
            for pair in pairs:
                for number in pair:
                    writer.integer(number)
            writer.newline_if_text()
            writer.boolean(True)
            writer.token("GCL")
            writer.float64(float(row[0]))
            writer.float64(floor)
            write_matrix(writer, row[1:].reshape(2, -1))
        writer.newline_if_text()


def _stacked(moments: Sequence[np.ndarray]) -> np.ndarray:
    """Return the moments of events as the rows of a matrix; without events, of dimension 0."""
    return np.array(moments) if len(moments) else np.zeros((0, 1))


def _pairs(values: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Convert a row of ``events`` to Kaldi's form, pairs of key and value, without absent values."""
    return tuple((column - 1, value) for column, value in enumerate(values) if value != ABSENT)


def _read_event(reader: TokenReader) -> dict[int, int]:
    reader.expect("EV")
    count = reader.integer("uint32")
    reader.check_count(count, 4, "keys of an event")
    event: dict[int, int] = {}
    for _ in range(count):
        key, value = reader.integer(), reader.integer()
        if key in event or not -1 <= key < _LARGEST_KEY or value < 0:
            raise reader.error(f"expected keys from -1 to {_LARGEST_KEY - 1}, each once, with values from 0, found "
                               f"{key} with {value}")
        event[key] = value
    return event


def _read_gaussian(reader: TokenReader) -> tuple[float, np.ndarray]:
    reader.expect("GCL")
    count, floor = reader.real(), reader.real()
    sums = read_matrix(reader, np.float64)
    if sums.shape[0] != 2 or not np.isfinite(sums).all() or not math.isfinite(count):
        raise reader.error(f"expected the finite sums of features and of their squares, found a matrix {sums.shape}")
    return floor, np.concatenate(([count], sums.ravel()))


class Accumulator:
    """Accumulator of tree statistics over utterances; its memory grows only with the number of different events.

    ``width`` and ``position`` are the phones in the window, and the position of the phone itself. Neighbors of
    ``ci_phones`` (after mapping by ``phone_map``, int, indexed by phone) do not count. ``var_floor``, the least
    variance, is stored with each event.
    """

    def __init__(self, model: TransitionModel, width: int, position: int, ci_phones: Iterable[int] = (),
                 phone_map: np.ndarray | None = None, var_floor: float = 0.01) -> None:
        self._model, self._width, self._position = model, width, position
        self._ci_phones = np.array(sorted(ci_phones), dtype=np.int64)
        self._phone_map = phone_map
        self._floor = float(np.float32(var_floor))
        self._numbers: dict[bytes, int] = {}
        self._moments: list[np.ndarray] = []

    def add(self, features: np.ndarray, ids: np.ndarray) -> bool:
        """Add an utterance; return False, and add nothing, if its alignment is empty or ends inside a phone.

        Parameters
        ----------
        features : float32 (frames, dim)
        ids : int32 (frames,), transition-ids of the alignment
        """
        if not len(ids):
            return False
        starts, complete = phone_starts(self._model, ids)
        if not complete:
            return False
        events = self._events(ids, starts)
        order = np.lexsort(events.T)
        changes = np.flatnonzero((events[order[1:]] != events[order[:-1]]).any(axis=1)) + 1
        first = np.concatenate(([0], changes))
        rows = np.empty((len(ids), 1 + 2 * features.shape[1]))
        rows[:, 0] = 1.0
        rows[:, 1:1 + features.shape[1]] = features
        rows[:, 1 + features.shape[1]:] = features * features        # rounded to float32 before it is added, as Kaldi's
        for event, total in zip(events[order[first]], np.add.reduceat(rows[order], first), strict=True):
            number = self._numbers.setdefault(event.tobytes(), len(self._moments))
            if number == len(self._moments):
                self._moments.append(total)
            elif len(self._moments[number]) != len(total):
                raise ShapeError(f"expected features of dimension {len(self._moments[0]) // 2}, found "
                                 f"{features.shape[1]}")
            else:
                self._moments[number] += total
        return True

    def _events(self, ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the event of each frame, int32 (frames, width + 1)."""
        phones = self._model.transition_id_to_phone[ids[starts]].astype(np.int64)
        if self._phone_map is not None:
            phones = _mapped(phones, self._phone_map)
        padded = np.concatenate((np.zeros(self._position, dtype=np.int64), phones,
                                 np.zeros(self._width - 1 - self._position, dtype=np.int64)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self._width)
        alone = np.isin(phones, self._ci_phones)
        kept = np.where(alone[:, None] & (np.arange(self._width) != self._position), ABSENT, windows)
        of_frame = np.repeat(kept, np.diff(starts, append=len(ids)), axis=0)
        classes = self._model.transition_id_to_pdf_class[ids]
        return np.column_stack((classes, of_frame)).astype(np.int32)

    def stats(self) -> TreeStats:
        """Return the sum of the statistics of all utterances added so far."""
        events = np.frombuffer(b"".join(self._numbers), dtype=np.int32).reshape(-1, self._width + 1)
        return in_order(TreeStats(events, _stacked(self._moments), np.full(len(events), self._floor)))


def _mapped(phones: np.ndarray, phone_map: np.ndarray) -> np.ndarray:
    if phones.max() >= len(phone_map) or (phone_map[phones] == ABSENT).any():
        missing = next(phone for phone in phones.tolist() if phone >= len(phone_map) or phone_map[phone] == ABSENT)
        raise ShapeError(f"the map of phones lacks phone {missing}")
    return phone_map[phones]


def in_order(stats: TreeStats) -> TreeStats:
    """Return the statistics in Kaldi's order of events."""
    keys = [_pairs(values) for values in stats.events.tolist()]
    return stats.chosen(np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64))


def summed(parts: Iterable[TreeStats]) -> TreeStats:
    """Return the sum of several statistics; an event's floor is that of the first part that has it.

    ShapeError for features of different dimensions. Kaldi: sum-tree-stats.
    """
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    events: list[list[int]] = []
    moments: list[np.ndarray] = []
    floors: list[float] = []
    for part in parts:
        if moments and len(part) and part.moments.shape[1] != len(moments[0]):
            raise ShapeError(f"expected statistics of dimension {len(moments[0]) // 2}, found "
                             f"{part.moments.shape[1] // 2}")
        for values, row, floor in zip(part.events.tolist(), part.moments, part.floors.tolist(), strict=True):
            number = numbers.setdefault(_pairs(values), len(events))
            if number < len(events):
                moments[number] += row
            else:
                events.append(values)
                moments.append(row.copy())
                floors.append(floor)
    width = max((len(values) for values in events), default=1)
    table = np.full((len(events), width), ABSENT, dtype=np.int32)
    for row_of_event, values in zip(table, events, strict=True):
        row_of_event[:len(values)] = values
    return in_order(TreeStats(table, _stacked(moments), np.array(floors)))


def objective(moments: np.ndarray, var_floor: float) -> np.ndarray:
    """Return the log-likelihood of frames under the Gaussian that is estimated from them: float32 (…,).

    It is 0 without frames. Moments are float64 (…, 1 + 2 dim): number of frames, their sum, and the sum of their
    squares; ``var_floor`` is the least variance. Kaldi: GaussClusterable::Objf.
    """
    dim = moments.shape[-1] // 2
    counts = moments[..., 0]
    some = counts > 0
    safe = np.where(some, counts, 1.0)[..., None]
    means = moments[..., 1:1 + dim] / safe
    variances = moments[..., 1 + dim:] / safe - means * means
    floored = np.maximum(variances, var_floor)
    per_frame = -0.5 * (variances / floored).sum(-1) - 0.5 * (np.log(floored).sum(-1) + dim * math.log(2 * math.pi))
    return np.where(some, counts * per_frame, 0.0).astype(np.float32)


def distance(first: np.ndarray, second: np.ndarray, var_floor: float) -> np.ndarray:
    """Return by how much merging two clusters lowers :func:`objective`: float32, at least 0.

    Kaldi: Clusterable::Distance. ``first`` and ``second`` are moments, float64 (…, 1 + 2 dim).
    """
    apart = objective(first, var_floor) + objective(second, var_floor)
    return np.maximum(apart - objective(first + second, var_floor), np.float32(0))


def sum_float32(values: Iterable[np.float32]) -> np.float32:
    """Add numbers one after the other in single precision, as Kaldi adds objectives."""
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
    return total


def check_not_empty(stats: TreeStats) -> None:
    """Raise FormatError if there are no events in the statistics."""
    if not len(stats):
        raise FormatError("the tree statistics are empty", hint="were there alignments for the features?")
