"""nnet3py/decoding/symbols.py: texts of people as a model writes them."""
from __future__ import annotations

import pytest

from nnet3py.decoding.symbols import Spelling, SymbolTable

WORDS = ("<eps>", "<unk>", "it's", "twenty", "one", "McCoy", "well-known", "#0")


@pytest.fixture(scope="module")
def spelling() -> Spelling:
    return Spelling(SymbolTable(dict(enumerate(WORDS))), ["timer"])


@pytest.mark.parametrize(("text", "words"), [
    ("Twenty one", "twenty one"), ("twenty-one!", "twenty one"), ("“IT’S” mccoy", "it's McCoy"),
    ("well-known - one", "well-known one"), ("(Timer)", "timer"), ("New-York", "new-york"), ("... —", "")])
def test_texts(spelling: Spelling, text: str, words: str) -> None:
    assert " ".join(spelling.written(text.split())) == words


def test_words_and_letters(spelling: Spelling) -> None:
    assert spelling.known == {"it's", "twenty", "one", "McCoy", "well-known", "timer"}
    assert spelling.is_odd("äpfel1") and spelling.is_odd("один") and not spelling.is_odd("äpfel")
    assert Spelling(SymbolTable({1: "ONE", 2: "TWO"})).written(["three"]) == ("THREE",)
