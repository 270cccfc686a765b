"""How a model writes words: small or capital letters, without punctuation."""
from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from nnet3py.decoding.grammar import grammar_words
from nnet3py.decoding.symbols import SymbolTable

_PUNCTUATION = ".,;:!?\"()[]{}…«»„“”‚‘’—–-*_/\\|"
MARKS = ("<", "[", "#", "!")  # what begins like this is not a word: <unk>, [noise], #nonterm


class Spelling:
    """How a model writes words.

    Parameters
    ----------
    words : its words
    more : words of a given lexicon

    Attributes
    ----------
    known : the words, without marks such as ``<unk>``
    """

    def __init__(self, words: SymbolTable, more: Iterable[str] = ()) -> None:
        self.known = {word for word in grammar_words(words) if not word.startswith(MARKS)} | set(more)
        letters = Counter(letter for word in self.known for letter in word)
        self._letters, self._scripts = set(letters), set(map(_script, letters))
        self._is_upper = sum(count for letter, count in letters.items() if letter.isupper()) > sum(
            count for letter, count in letters.items() if letter.islower())
        self._of_folded: dict[str, str] = {}
        for word in sorted(self.known):
            self._of_folded.setdefault(word.casefold(), word)

    def written(self, text: Sequence[str]) -> tuple[str, ...]:
        """A text as the model writes it: known words in its letters, no punctuation around words."""
        return tuple(word for token in text for word in self._words(token))

    def _words(self, token: str) -> Sequence[str]:
        for candidate in (token, token.strip(_PUNCTUATION)):
            if candidate in self.known:
                return [candidate]
            if candidate.casefold() in self._of_folded:
                return [self._of_folded[candidate.casefold()]]
        stripped = token.strip(_PUNCTUATION).replace("’", "'")
        if stripped != token and stripped.casefold() in self._of_folded:
            return [self._of_folded[stripped.casefold()]]
        parts = stripped.replace("–", "-").replace("—", "-").split("-")
        if len(parts) > 1 and all(part.casefold() in self._of_folded for part in parts if part):
            return [self._of_folded[part.casefold()] for part in parts if part]
        return [self._in_case(stripped)] if stripped else []

    def _in_case(self, word: str) -> str:
        return word.upper() if self._is_upper else word.lower()

    def is_odd(self, word: str) -> bool:
        """Whether a word has a character that is in no word of the model and is not a letter of its script."""
        return any(letter not in self._letters and _script(letter) not in self._scripts for letter in word)


def _script(letter: str) -> str:
    """The writing system of a letter; for anything else the character itself."""
    return unicodedata.name(letter, letter).split()[0] if letter.isalpha() else letter
