"""Posteriors, for each frame a list of (id, weight): reading, writing, weighting, sums. Kaldi: ``posterior.h``."""
from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.formats.simple_values import pair_rows_bytes, read_pair_rows, text_pairs
from nnet3py.io.holder import line_of
from nnet3py.io.tokens import TokenReader, TokenWriter

Frame = list[tuple[int, float]]

_MAX_FRAMES = 10_000_000        # Kaldi's limit
_FRAME_HEADER = struct.Struct("<bi")
_FRAME_DTYPE = np.dtype([("size", "i1"), ("count", "<i4")])
_FRAME_TEXT = re.compile(rb"\s*\[(?:\s+[+-]?[0-9]{1,10}"
                         rb"\s+[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)*\s+")


class Posterior(Sequence[Frame]):
    """The posteriors of an utterance. As a sequence, its elements are frames, lists of (id, weight).

    Attributes
    ----------
    row_starts : int64 (frames + 1,), where each frame's entries begin
    ids : int32 (entries,), pdf-ids or transition-ids
    weights : float32 (entries,)
    """

    def __init__(self, row_starts: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> None:
        self.row_starts = np.asarray(row_starts, dtype=np.int64)
        self.ids = np.asarray(ids, dtype=np.int32)
        self.weights = np.asarray(weights, dtype=np.float32)

    @classmethod
    def from_lists(cls, frames: Sequence[Sequence[tuple[int, float]]]) -> Posterior:
        """Make a posterior from a list of (id, weight) for each frame."""
        pairs = [pair for frame in frames for pair in frame]
        starts = np.cumsum([0, *(len(frame) for frame in frames)])
        return cls(starts, np.array([i for i, _ in pairs], dtype=np.int32),
                   np.array([w for _, w in pairs], dtype=np.float32))

    def part(self, first: int, end: int) -> Posterior:
        """Return frames ``first`` to ``end`` - 1."""
        starts = self.row_starts[first:end + 1]
        entries = slice(starts[0], starts[-1])
        return Posterior(starts - starts[0], self.ids[entries], self.weights[entries])

    def __len__(self) -> int:
        return len(self.row_starts) - 1

    @overload
    def __getitem__(self, frame: int) -> Frame: ...

    @overload
    def __getitem__(self, frame: slice) -> list[Frame]: ...

    def __getitem__(self, frame: int | slice) -> Frame | list[Frame]:
        if isinstance(frame, slice):
            return [self[i] for i in range(*frame.indices(len(self)))]
        number = range(len(self))[frame]
        start, end = self.row_starts[number:number + 2]
        return list(zip(self.ids[start:end].tolist(), self.weights[start:end].tolist(), strict=True))

    def __iter__(self) -> Iterator[Frame]:
        return (self[frame] for frame in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Posterior) and all(map(np.array_equal, self._arrays(), other._arrays()))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Posterior({len(self)} frames, {len(self.ids)} entries)"

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.row_starts, self.ids, self.weights


def posterior_of_alignment(ids: np.ndarray) -> Posterior:
    """Return a posterior with one entry of weight 1 per frame; ``ids`` int32 (frames,). Kaldi: AlignmentToPosterior."""
    return Posterior(np.arange(len(ids) + 1), ids, np.ones(len(ids), dtype=np.float32))


def read_posterior(reader: TokenReader) -> Posterior:
    """Read posteriors, in text up to the end of the line. FormatError for other contents."""
    if not reader.binary:
        return _read_text(reader)
    num_frames = reader.integer()
    if not 0 <= num_frames <= _MAX_FRAMES:
        raise reader.error(f"expected at most {_MAX_FRAMES} frames of posteriors, found {num_frames}")

    def count_of(header: tuple[int, int]) -> int:
        if header[0] != 4:
            raise reader.error(f"expected a 4-byte number of entries, found size byte {header[0]}")
        return header[1]

    return Posterior(*read_pair_rows(reader, num_frames, _FRAME_HEADER, count_of))


def _read_text(reader: TokenReader) -> Posterior:
    line = line_of(reader)
    *frames, rest = line.split(b"]")
    for number, frame in enumerate(frames):
        if not _FRAME_TEXT.fullmatch(frame) or (number and frame[:1] not in b" \t\r"):
            raise _text_error(reader, frame + b"]")
    if rest.strip():
        raise _text_error(reader, rest)
    counts = [len(frame.split()) // 2 for frame in frames]
    text = line.replace(b"[", b" ").replace(b"]", b" ")
    numbers = np.fromstring(text, dtype=np.float64, sep=" ") if text.strip() else np.empty(0)
    ids = numbers[0::2]
    with np.errstate(over="ignore"):
        weights = numbers[1::2].astype(np.float32)
    if len(ids) and (np.abs(ids).max() > 0x7fffffff or not np.isfinite(weights).all()):
        raise reader.error("expected 32-bit ids and float weights in posteriors, found a larger number")
    return Posterior(np.cumsum([0, *counts]), ids.astype(np.int32), weights)


def _text_error(reader: TokenReader, text: bytes) -> Exception:
    shown = text.strip()[:40].decode("ascii", "backslashreplace")
    hint = "are these alignments? then convert them with ali-to-post" if text.strip()[:1].isdigit() else None
    return reader.error(f"expected '[ id weight ... ]' for each frame of posteriors, found '{shown}'", hint=hint)


def write_posterior(writer: TokenWriter, posterior: Posterior | Sequence[Sequence[tuple[int, float]]]) -> None:
    """Write posteriors, a :class:`Posterior` or lists of (id, weight)."""
    value = posterior if isinstance(posterior, Posterior) else Posterior.from_lists(posterior)
    if writer.binary:
        headers = np.empty(len(value), dtype=_FRAME_DTYPE)
        headers["size"], headers["count"] = 4, np.diff(value.row_starts)
        writer.integer(len(value))
        writer.raw(pair_rows_bytes(headers, value.row_starts, value.ids, value.weights))
        return
    starts = value.row_starts.tolist()
    frames = (b"[ " + text_pairs(value.ids[start:end], value.weights[start:end]) + b"] "
              for start, end in zip(starts[:-1], starts[1:], strict=True))
    writer.raw(b"".join(frames) + b"\n")


def _frames(posterior: Posterior) -> np.ndarray:
    """Return the frame of each entry, int64 (entries,)."""
    return np.repeat(np.arange(len(posterior)), np.diff(posterior.row_starts))


def _kept(posterior: Posterior, keep: np.ndarray, ids: np.ndarray, weights: np.ndarray) -> Posterior:
    """Return a posterior of the entries for which ``keep`` (bool) is True, with the given ids and weights."""
    starts = np.concatenate(([0], np.cumsum(keep)))[posterior.row_starts]
    return Posterior(starts, ids[keep], weights[keep])


def weighted_entries(posterior: Posterior, marked: np.ndarray, weight: float) -> Posterior:
    """Multiply the weights of some entries by ``weight``; if that is 0, leave them out. Kaldi: WeightSilencePost.

    ``marked`` is bool (entries,), True for these entries.
    """
    weights = np.where(marked, posterior.weights * np.float32(weight), posterior.weights)
    return _kept(posterior, ~marked | (weight != 0.0), posterior.ids, weights)


def weighted_frames(posterior: Posterior, marked: np.ndarray, weight: float) -> Posterior:
    """Multiply all weights of a frame by (m * ``weight`` + u) / (m + u): m, u are sums over marked and other entries.

    ``marked`` is bool (entries,). Nnet3Error for negative posteriors. Kaldi: WeightSilencePostDistributed.
    """
    frames, values = _frames(posterior), posterior.weights.astype(np.float64)
    if (values < 0).any():
        raise Nnet3Error("expected posteriors of 0 or more, found a negative one", "check the program that wrote them")
    silence = np.bincount(frames, np.where(marked, values, 0.0), minlength=len(posterior))
    total = np.bincount(frames, values, minlength=len(posterior))
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(total > 0, (silence * weight + (total - silence)) / total, 1.0).astype(np.float32)
    return scaled_frames(posterior, factors)


def scaled_frames(posterior: Posterior, factors: np.ndarray) -> Posterior:
    """Multiply the weights of each frame by its factor, float32 (frames,); frames of factor 0 become empty."""
    of_entries = factors[_frames(posterior)]
    return _kept(posterior, of_entries != 0.0, posterior.ids, posterior.weights * of_entries)


def frame_sums(posterior: Posterior) -> np.ndarray:
    """Return the sum of each frame's weights, float32 (frames,). Kaldi: PosteriorToWeights."""
    return np.bincount(_frames(posterior), posterior.weights, minlength=len(posterior)).astype(np.float32)


def summed_by_id(posterior: Posterior, ids: np.ndarray) -> Posterior:
    """Replace ids by ``ids``, int (entries,), and sum the weights of equal ids in a frame; sums of 0 are left out.

    Ids ascend within a frame.
    """
    keys = np.column_stack((_frames(posterior), ids)).reshape(-1, 2)
    pairs, places = np.unique(keys, axis=0, return_inverse=True)
    sums = np.bincount(places.ravel(), posterior.weights, minlength=len(pairs)).astype(np.float32)
    keep = sums != 0.0
    starts = np.searchsorted(pairs[keep, 0], np.arange(len(posterior) + 1))
    return Posterior(starts, pairs[keep, 1], sums[keep])


def of_log_probs(log_probs: np.ndarray, least: float, uniform: Callable[[], float] | None) -> Posterior:
    """Convert log-probabilities, float32 (frames, ids), to posteriors; ids are columns, counted from 0.

    Values p below ``least`` are left out. If ``uniform`` draws random numbers from 0 to 1, they become ``least`` with
    probability p / ``least`` instead, so that their mean is kept.
    """
    with np.errstate(over="ignore", under="ignore"):
        posteriors = np.exp(log_probs)
    if not np.isfinite(posteriors).all():
        raise Nnet3Error("expected log-probabilities, found values whose exponential is not finite")
    keep = posteriors >= np.float32(least)
    if uniform is not None and least > 0:
        small = ~keep
        drawn = np.array([uniform() for _ in range(int(np.count_nonzero(small)))])
        raised = np.zeros_like(keep)
        raised[small] = posteriors[small] / least >= drawn
        posteriors = np.where(raised, np.float32(least), posteriors)
        keep |= raised
    frames, ids = np.nonzero(keep)
    return Posterior(np.searchsorted(frames, np.arange(len(log_probs) + 1)), ids, posteriors[keep])
