"""Merging examples of equal structure into minibatches. Kaldi: ``ExampleMerger``, ``ExampleMergingConfig``."""
from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, ShapeError, within
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import GeneralMatrix, SparseMatrix, compressed, to_dense
from nnet3py.log import kaldi_place

logger = logging.getLogger(__name__)


_INTEGER = re.compile(r"[0-9]+")
_HINT = "expected sizes or ranges such as 64 or 64:128,32, perhaps by example size: 128=64,32/256=40"


@dataclass(frozen=True)
class MinibatchRule:
    """Allowed minibatch sizes for examples of about ``eg_size`` frames, as ranges (low, high), both inclusive."""

    eg_size: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def largest(self) -> int:
        """The largest allowed minibatch size."""
        return max(high for _, high in self.ranges)

    def size_at_end(self, available: int) -> int:
        """Return the largest allowed minibatch size for which ``available`` examples suffice; 0 if there is none."""
        return max((min(high, available) for low, high in self.ranges if low <= available), default=0)


class MinibatchSizes:
    """Minibatch sizes as in ``--minibatch-size``: ``256``, ``1:64``, ``64,32``, ``128=64,32/256=40``.

    Raises Nnet3Error for a malformed text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = text.split("/")
        if len(parts) == 1 and "=" not in text:
            self.rules = [MinibatchRule(0, self._ranges(text))]
            return
        self.rules = []
        for part in parts:
            size, equals, ranges = part.partition("=")
            if not equals:
                raise Nnet3Error(f"Could not parse option --minibatch-size={text}", _HINT)
            self.rules.append(MinibatchRule(self._integer(size), self._ranges(ranges)))
        if len({rule.eg_size for rule in self.rules}) != len(self.rules):
            raise Nnet3Error(f"Invalid --minibatch-size={text} (repeated example-sizes)", _HINT)

    def _integer(self, text: str) -> int:
        if not _INTEGER.fullmatch(text) or int(text) == 0:
            raise Nnet3Error(f"Could not parse option --minibatch-size={self.text}", _HINT)
        return int(text)

    def _ranges(self, text: str) -> tuple[tuple[int, int], ...]:
        ranges = []
        for part in text.split(","):
            low, colon, high = part.partition(":")
            first = self._integer(low)
            last = self._integer(high) if colon else first
            if last < first:
                raise Nnet3Error(f"Could not parse option --minibatch-size={self.text}", _HINT)
            ranges.append((first, last))
        return tuple(ranges)

    def rule(self, eg_size: int) -> MinibatchRule:
        """Return the rule whose ``eg_size`` is closest to the given one; the first of equally close rules."""
        return min(self.rules, key=lambda rule: abs(rule.eg_size - eg_size))

    def size(self, eg_size: int, available: int, ended: bool) -> int:
        """Return how many of ``available`` examples of size ``eg_size`` to merge now; 0: wait for more.

        ``ended`` : whether there will be no more examples. Kaldi: MinibatchSize.
        """
        rule = self.rule(eg_size)
        if ended:
            return rule.size_at_end(available)
        return rule.largest if available >= rule.largest else 0


_FORMAT = ("Merged specific eg types as follows [format: <eg-size1>={<mb-size1>-><num-minibatches1>,<mbsize2>->"
           "<num-minibatches2>.../d=<num-discarded>},<egs-size2>={...},... (note,egs-size == number of input frames "
           "including context).")


class Mergeable(Protocol):
    """An example that can be merged with others of the same structure."""

    def structure(self) -> tuple[Any, ...]:
        """Return a value, such as names, indexes and dimensions, that is the same for examples that can be merged."""

    def size(self) -> int:
        """Return the size of the example for :class:`MinibatchSizes`: number of input frames with context."""


def merge_examples(examples: Sequence[NnetExample], compress: bool = False) -> NnetExample:
    """Merge examples into a new one, in which n is the number of the example. Kaldi: MergeExamples.

    Inputs and outputs are in the order of their names; their rows are those of one example after the other. Sparse
    features stay sparse; others become one dense matrix, compressed again if ``compress``. ShapeError if numbers of
    columns differ.
    """
    names = sorted({io.name for example in examples for io in example.io})
    merged = []
    for name in names:
        parts = [(j, io) for j, example in enumerate(examples) for io in example.io if io.name == name]
        if len({io.features.shape[1] for _, io in parts if io.features.shape[0]}) > 1:
            raise ShapeError("Merging examples with inconsistent feature dims: "
                             + " vs. ".join(str(d) for d in sorted({io.features.shape[1] for _, io in parts}))
                             + f" (io '{name}')")
        features = append_rows([io.features for _, io in parts])
        indexes = joined_indexes(examples, [io for _, io in parts], [j for j, _ in parts])
        merged.append(NnetIo(name, indexes, compressed(features) if compress else features))
    return NnetExample(merged)


def joined_indexes(examples: Sequence[NnetExample], parts: Sequence[NnetIo], places: Sequence[int]) -> np.ndarray:
    """Return the indexes, int32 (rows, 3), of one input or output of a merged example.

    ``parts`` are that input or output of the examples with the numbers ``places`` in ``examples``.
    """
    stride = 1 + int(examples[0].io[0].indexes[:, 0].max(initial=0))
    lengths = [len(io.indexes) for io in parts]
    indexes = np.concatenate([io.indexes for io in parts])
    indexes[:, 0] += np.repeat(np.array([j * stride for j in places], dtype=np.int32), lengths)
    return indexes


def append_rows(parts: Sequence[GeneralMatrix]) -> GeneralMatrix:
    """Return the rows of all ``parts``: sparse if all are sparse, else float32 (rows, cols)."""
    if all(isinstance(part, SparseMatrix) for part in parts):
        return SparseMatrix.concatenate(parts)  # type: ignore[arg-type]
    filled = [part for part in parts if part.shape[0]]
    result = np.empty((sum(part.shape[0] for part in filled), filled[0].shape[1] if filled else 0), dtype=np.float32)
    row = 0
    for part in filled:
        target = result[row:row + part.shape[0]]
        if isinstance(part, CompressedMatrix):
            part.decode_into(target)
        else:
            target[...] = to_dense(part)
        row += part.shape[0]
    return result


@dataclass
class _Statistics:
    """Counts of merged examples of one structure; ``full`` is the size of the largest minibatch."""

    eg_size: int
    full: int = 0
    minibatches: Counter[int] = field(default_factory=Counter)     # size -> how many, in order of first use
    num_discarded: int = 0


class ExampleMerger:
    """Merger of examples, which are collected by structure and merged into minibatches as the rules allow.

    Parameters
    ----------
    sizes : rules for the sizes of minibatches
    compress : whether the features of minibatches are compressed
    merge : function that merges examples, like :func:`merge_examples`
    key_ending : function that returns a suffix for the key of a minibatch
    """

    def __init__(self, sizes: MinibatchSizes, compress: bool = False,
                 merge: Callable[[Sequence[Any], bool], Any] = merge_examples,
                 key_ending: Callable[[Any], str] = lambda example: "") -> None:
        self._sizes, self._compress, self._merge, self._key_ending = sizes, compress, merge, key_ending
        self._waiting: dict[tuple, list[Mergeable]] = {}
        self._statistics: dict[tuple, _Statistics] = {}
        self.num_minibatches = 0

    def merge(self, examples: Iterable[Mergeable]) -> Iterator[tuple[str, Any]]:
        """Yield (key, minibatch) for all of ``examples``."""
        for example in examples:
            structure = example.structure()
            statistics = self._statistics.get(structure)
            if statistics is None:
                size = example.size()
                statistics = self._statistics[structure] = _Statistics(size, self._sizes.rule(size).largest)
            group = self._waiting.setdefault(structure, [])
            group.append(example)
            if len(group) == statistics.full:
                yield self._write(statistics, self._waiting.pop(structure))
        # Kaldi goes through a hash table here, which happens to have the latest entry first.
        for structure, group in reversed(self._waiting.items()):
            yield from self._finish(self._statistics[structure], group)
        self._waiting.clear()

    def _finish(self, statistics: _Statistics, group: list[Mergeable]) -> Iterator[tuple[str, Any]]:
        start = 0
        while True:
            count = self._sizes.size(statistics.eg_size, len(group) - start, ended=True)
            if not count:
                break
            yield self._write(statistics, group[start:start + count])
            start += count
        statistics.num_discarded += len(group) - start

    def _write(self, statistics: _Statistics, group: list[Mergeable]) -> tuple[str, Any]:
        statistics.minibatches[len(group)] += 1
        key = f"merged-{self.num_minibatches}-{len(group)}"
        self.num_minibatches += 1
        with within(f"minibatch {key}"):
            merged = self._merge(group, self._compress)
        return key + self._key_ending(merged), merged

    # -- reporting ------------------------------------------------------------------------------------------------

    def specific_report(self) -> list[str]:
        """Return the two lines that Kaldi logs about minibatches and discarded examples, by size of the examples."""
        by_size: dict[int, _Statistics] = {}
        for statistics in self._statistics.values():
            total = by_size.setdefault(statistics.eg_size, _Statistics(statistics.eg_size))
            total.minibatches.update(statistics.minibatches)
            total.num_discarded += statistics.num_discarded
        # Kaldi lists the size that was used first at the end, since its hash table happens to be ordered like this.
        parts = [f"{size}={{{','.join(f'{n}->{count}' for n, count in reversed(statistics.minibatches.items()))}"
                 f",d={statistics.num_discarded}}}" for size, statistics in sorted(by_size.items())]
        return [_FORMAT, ",".join(parts)]

    def aggregate_report(self) -> str:
        """Return the line that Kaldi logs about all examples and minibatches."""
        every = self._statistics.values()
        used = [(statistics.eg_size, size, count) for statistics in every for size,
                count in statistics.minibatches.items()]
        merged = sum(size * count for _, size, count in used)
        discarded = sum(statistics.num_discarded for statistics in every)
        frames = sum(eg_size * size * count for eg_size, size, count in used)
        frames += sum(statistics.eg_size * statistics.num_discarded for statistics in every)
        total, nan = merged + discarded, float("nan")
        return (f"Processed {total} egs of avg. size {frames / (total or nan):.4g} into {self.num_minibatches} "
                f"minibatches, discarding {100 * discarded / (total or nan):.4g}% of egs.  Avg minibatch size was "
                f"{merged / (self.num_minibatches or nan):.4g}, #distinct types of egs/minibatches was "
                f"{len(self._statistics)}/{len(used)}")

    def log_report(self) -> None:
        """Log both reports with the source file and line of Kaldi's own log messages."""
        for line, number in zip(self.specific_report(), (1160, 1190), strict=True):
            logger.info("%s", line, extra=kaldi_place("PrintSpecificStats", "nnet-example-utils.cc", number))
        logger.info("%s", self.aggregate_report(),
                    extra=kaldi_place("PrintAggregateStats", "nnet-example-utils.cc", 1156))
