"""Posteriors: for each frame a list of (id, weight). Kaldi: ``Posterior``, ``PosteriorHolder``."""
from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from nnet3py.formats.pair_rows import pair_rows_bytes, read_pair_rows, text_pairs
from nnet3py.io.tokens import TokenReader, TokenWriter

Frame = list[tuple[int, float]]

_MAX_FRAMES = 10_000_000        # Kaldi's limit
_FRAME_HEADER = struct.Struct("<bi")
_FRAME_DTYPE = np.dtype([("size", "i1"), ("count", "<i4")])
_LINE = re.compile(rb"[^\n]*")
_FRAME_TEXT = re.compile(rb"\s*\[(?:\s+[+-]?[0-9]{1,10}"
                         rb"\s+[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)*\s+")


class Posterior(Sequence[Frame]):
    """The posteriors of an utterance; as a sequence, its frames are lists of (id, weight).

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
        """Make one of lists of (id, weight)."""
        pairs = [pair for frame in frames for pair in frame]
        starts = np.cumsum([0, *(len(frame) for frame in frames)])
        return cls(starts, np.array([i for i, _ in pairs], dtype=np.int32),
                   np.array([w for _, w in pairs], dtype=np.float32))

    def part(self, first: int, end: int) -> Posterior:
        """Frames ``first`` to ``end`` - 1."""
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
    """One entry of weight 1 for each frame: ``ids`` int32 (frames,). Kaldi: AlignmentToPosterior."""
    return Posterior(np.arange(len(ids) + 1), ids, np.ones(len(ids), dtype=np.float32))


def read_posterior(reader: TokenReader) -> Posterior:
    """Read posteriors; in text they end with the line. FormatError for anything else."""
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
    line = reader.take_while(_LINE)
    if not reader.at_end():
        reader.raw(1)
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
