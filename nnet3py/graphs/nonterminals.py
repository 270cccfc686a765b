"""Labels of grammars in parts: which FST is entered or left, after which phone. Light.

phones.txt has, from ``nonterm_phones_offset`` on, #nonterm_bos, #nonterm_begin, #nonterm_end, #nonterm_reenter, and
then the user-defined nonterminals, such as #nonterm:contacts. Kaldi: ``grammar-context-fst.h``, doc/grammar.
"""
from __future__ import annotations

from dataclasses import dataclass

from nnet3py.errors import UsageError

FIRST_LABEL = 10_000_000          # input labels of graphs from here on are pairs of a nonterminal and a phone
_ROUND = 1000                     # pairs are coded with a multiple of it, for human readers


@dataclass(frozen=True)
class Nonterminals:
    """Numbers of the nonterminals among the phones.

    Attributes
    ----------
    offset : the number of #nonterm_bos, which stands for the phone before the first one of an utterance
    """

    offset: int

    def __post_init__(self) -> None:
        if self.offset < 1:
            raise UsageError(f"--nonterm-phones-offset={self.offset}: expected the number of #nonterm_bos in "
                             "phones.txt")

    @property
    def bos(self) -> int:
        """#nonterm_bos."""
        return self.offset

    @property
    def begin(self) -> int:
        """#nonterm_begin: how an FST for a nonterminal begins."""
        return self.offset + 1

    @property
    def end(self) -> int:
        """#nonterm_end: how it ends."""
        return self.offset + 2

    @property
    def reenter(self) -> int:
        """#nonterm_reenter: where an FST continues after a nonterminal."""
        return self.offset + 3

    @property
    def first_of_user(self) -> int:
        """The first user-defined nonterminal."""
        return self.offset + 4

    @property
    def multiple(self) -> int:
        """The factor of nonterminals in labels."""
        return _ROUND * (self.offset // _ROUND + 1)

    def label(self, nonterminal: int, phone: int) -> int:
        """The label of a nonterminal after a phone."""
        return FIRST_LABEL + nonterminal * self.multiple + phone

    def pair(self, label: int) -> tuple[int, int]:
        """The nonterminal and the phone of a label."""
        return divmod(label - FIRST_LABEL, self.multiple)
