"""The lists of phones in a lang folder, from which trees are built. Kaldi: ``utils/prepare_lang.sh``."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nnet3py.decoding.lexicon import Pronunciation
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.io.streams import write_text

POSITIONS = {"_B": "begin", "_E": "end", "_I": "internal", "_S": "singleton"}    # in a word


def phone_forms(phone: str, silence: bool, positions: bool) -> list[str]:
    """A phone's names by position in a word (for silence the one between words first), or its only name."""
    return [*([phone] if silence or not positions else []), *(phone + suffix for suffix in POSITIONS if positions)]


def with_positions(lexicon: Iterable[Pronunciation]) -> list[Pronunciation]:
    """A lexicon whose phone names include their position in the word."""
    def named(phones: tuple[str, ...]) -> tuple[str, ...]:
        if len(phones) == 1:
            return (f"{phones[0]}_S",)
        return f"{phones[0]}_B", *(f"{phone}_I" for phone in phones[1:-1]), f"{phones[-1]}_E"

    return [dataclasses.replace(entry, phones=named(entry.phones)) for entry in lexicon]


def positioned(lexicon: list[Pronunciation], phones: SymbolTable) -> list[Pronunciation]:
    """The lexicon as the phones of a table are named: with their position in the word if the table's have one."""
    has_positions = any(f"{entry.phones[0]}{position}" in phones for entry in lexicon for position in POSITIONS)
    return with_positions(lexicon) if has_positions else lexicon


def write_phone_lists(folder: str | os.PathLike[str], phones: SymbolTable, silences: Sequence[str],
                      others: Sequence[str], positions: bool = False) -> None:
    """Write ``phones/`` of a lang folder, as names (``.txt``), numbers (``.int``) and numbers with colons (``.csl``).

    ``silence``, ``optional_silence`` (its first phone), ``context_indep`` (the silence phones) and ``nonsilence`` are
    lists of phones; ``sets`` has all forms of a phone, which share a tree's root, on a line, ``roots`` the same with
    how roots are split, and ``extra_questions`` silence and speech as questions. ``silences`` and ``others`` are names
    without positions; with ``positions`` phones have a form for each position in a word, for which there are questions,
    too, and which ``word_boundary`` lists. The folder is made if necessary.
    """
    place = Path(folder) / "phones"
    place.mkdir(parents=True, exist_ok=True)
    sets = [phone_forms(phone, True, positions) for phone in silences], [
        phone_forms(phone, False, positions) for phone in others]
    silence_forms, other_forms = (sum(forms, []) for forms in sets)
    for name, members in (("silence", silence_forms), ("nonsilence", other_forms), ("optional_silence", silences[:1]),
                          ("context_indep", silence_forms)):
        numbers = [str(phones[phone]) for phone in members]
        write_text(str(place / f"{name}.txt"), "".join(f"{phone}\n" for phone in members))
        write_text(str(place / f"{name}.int"), "".join(f"{number}\n" for number in numbers))
        write_text(str(place / f"{name}.csl"), ":".join(numbers) + "\n")
    questions = [silence_forms, other_forms]
    if positions:
        questions += [[phone + suffix for phone in others] for suffix in POSITIONS]
        questions += [[phone + suffix for phone in silences] for suffix in ("", *POSITIONS)]
    for suffix, named in ((".txt", str), (".int", lambda phone: str(phones[phone]))):
        every = [" ".join(map(named, forms)) for forms in sum(sets, [])]
        write_text(str(place / f"sets{suffix}"), "".join(f"{forms}\n" for forms in every))
        write_text(str(place / f"roots{suffix}"), "".join(f"shared split {forms}\n" for forms in every))
        write_text(str(place / f"extra_questions{suffix}"), "".join(
            " ".join(map(named, members)) + "\n" for members in questions))
        if positions:
            write_text(str(place / f"word_boundary{suffix}"), "".join(
                f"{named(phone)} {'nonword' if phone in silences else POSITIONS[phone[-2:]]}\n"
                for phone in (*silence_forms, *other_forms)))
