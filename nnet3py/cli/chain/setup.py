"""What the commands of chain training share: the options of the objective, and examples by language."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nnet3py.errors import within

if TYPE_CHECKING:
    from nnet3py.egs.chain_example import NnetChainExample

DEFAULT_LANGUAGE = "default"


def examples(reader: Iterable[tuple[str, NnetChainExample]],
             by_language: bool) -> Iterator[tuple[str, NnetChainExample]]:
    """Keys and chain examples; ``by_language``: the outputs ``output`` are renamed to those of the key's language.

    A thread reads ahead.
    """
    from nnet3py.egs.example import examples_ahead
    from nnet3py.egs.sequence_egs import language_of, rename_outputs

    for key, eg in examples_ahead(reader):
        if by_language:
            with within(f"example {key}"):
                rename_outputs(eg, language_of(key) or DEFAULT_LANGUAGE)
        yield key, eg
