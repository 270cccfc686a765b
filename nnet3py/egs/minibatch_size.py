"""How many examples go into a minibatch: the ``--minibatch-size`` rules. Kaldi: ``ExampleMergingConfig``."""
from __future__ import annotations

import re
from dataclasses import dataclass

from nnet3py.errors import Nnet3Error

_INTEGER = re.compile(r"[0-9]+")
_HINT = "expected sizes or ranges such as 64 or 64:128,32, perhaps by example size: 128=64,32/256=40"


@dataclass(frozen=True)
class MinibatchRule:
    """Minibatch sizes for examples of about ``eg_size`` frames: inclusive ranges (low, high)."""

    eg_size: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def largest(self) -> int:
        """The largest size allowed."""
        return max(high for _, high in self.ranges)

    def size_at_end(self, available: int) -> int:
        """The largest size allowed that ``available`` examples fill, 0 if none."""
        return max((min(high, available) for low, high in self.ranges if low <= available), default=0)


class MinibatchSizes:
    """Parsed ``--minibatch-size``: ``256``, ``1:64``, ``64,32``, ``128=64,32/256=40``; Nnet3Error if malformed."""

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
        """The rule whose example size is closest; the first one if several are."""
        return min(self.rules, key=lambda rule: abs(rule.eg_size - eg_size))

    def size(self, eg_size: int, available: int, ended: bool) -> int:
        """How many of the ``available`` examples of that size to merge now, 0 for none. Kaldi: MinibatchSize."""
        rule = self.rule(eg_size)
        if ended:
            return rule.size_at_end(available)
        return rule.largest if available >= rule.largest else 0
