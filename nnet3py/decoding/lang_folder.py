"""The lists of phones in a lang folder, from which trees are built. Kaldi: ``utils/prepare_lang.sh``."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nnet3py.decoding.symbols import SymbolTable
from nnet3py.io.streams import write_text


def write_phone_lists(folder: str | os.PathLike[str], phones: SymbolTable, silences: Sequence[str],
                      others: Sequence[str]) -> None:
    """Write ``phones/`` of a lang folder, as names (``.txt``), numbers (``.int``) and numbers with colons (``.csl``).

    ``silence``, ``optional_silence`` (its first phone), ``context_indep`` (the silence phones) and ``nonsilence`` are
    lists of phones; ``sets`` has the phones that share a tree's root on a line, here one each, ``roots`` the same with
    how roots are split, and ``extra_questions`` silence and speech as questions. The folder is made if need be.
    """
    place = Path(folder) / "phones"
    place.mkdir(parents=True, exist_ok=True)
    for name, members in (("silence", silences), ("nonsilence", others), ("optional_silence", silences[:1]),
                          ("context_indep", silences)):
        numbers = [str(phones[phone]) for phone in members]
        write_text(str(place / f"{name}.txt"), "".join(f"{phone}\n" for phone in members))
        write_text(str(place / f"{name}.int"), "".join(f"{number}\n" for number in numbers))
        write_text(str(place / f"{name}.csl"), ":".join(numbers) + "\n")
    for suffix, named in ((".txt", str), (".int", lambda phone: str(phones[phone]))):
        every = [named(phone) for phone in (*silences, *others)]
        write_text(str(place / f"sets{suffix}"), "".join(f"{phone}\n" for phone in every))
        write_text(str(place / f"roots{suffix}"), "".join(f"shared split {phone}\n" for phone in every))
        write_text(str(place / f"extra_questions{suffix}"), "".join(
            " ".join(map(named, members)) + "\n" for members in (silences, others)))
