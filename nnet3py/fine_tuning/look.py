"""What ``--check`` says of model and data, before anything is done."""
from __future__ import annotations

from typing import NamedTuple

from nnet3py.decoding.lexicon import Pronunciation
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.check import check_data, measures, problems_text, refuse, written_as
from nnet3py.fine_tuning.model import check_parts, parts_of
from nnet3py.fine_tuning.plan import FineTuneOptions, Requirements
from nnet3py.fine_tuning.pronunciations import pronounce
from nnet3py.fine_tuning.requirements import known_files, requirements
from nnet3py.fine_tuning.speech_data import read_data
from nnet3py.fine_tuning.words import given_pronunciations, lang_of
from nnet3py.recognition.model_folder import read_model_folder


class Looked(NamedTuple):
    """What is said, and whether the model can learn from the data."""

    text: str
    is_good: bool


def look(options: FineTuneOptions) -> Looked:
    """Look at model and data; nothing is written. Nnet3Error if either is not what it should be."""
    needed = requirements(options.model)
    lines = model_lines(needed)
    if not needed.can_fine_tune:
        return Looked("\n".join(lines) + "\n", False)
    spelling, limits = measures(options)
    data = written_as(read_data(options.data, options.speaker_column), spelling, options)
    checked = check_data(data, spelling, limits)
    lines += ["", problems_text(checked).rstrip()]
    try:
        refuse(checked, options.data, options, spelling, "")
    except Nnet3Error as error:
        return Looked("\n".join([*lines, "", f"The data cannot be learned from: {error}"]) + "\n", False)
    try:
        lines += ["", *_try_model(options, {word for utterance in checked.utterances for word in utterance.text})]
    except Nnet3Error as error:
        return Looked("\n".join([f"The model cannot be fine-tuned: {error}", *lines[1:]]) + "\n", False)
    return Looked("\n".join(lines) + "\n", True)


def _try_model(options: FineTuneOptions, words: set[str]) -> list[str]:
    """What is found in the model for these words. Nnet3Error for what would end the stages 'model' and 'words'."""
    folder = read_model_folder(options.model)
    parts = parts_of(folder, known_files(folder), options.srand, words, with_sentences=False)
    check_parts(parts, options.model)
    if parts.lexicon is not None:
        lexicon = [Pronunciation(word, phones) for word, phones in parts.lexicon if word in words]
        given = given_pronunciations(options)
        new = pronounce((words - {entry.word for entry in lexicon}) & given.keys(), parts.lexicon, given, False)
        lexicon += [Pronunciation(word, phones) for word, its in new.items() for phones in its.phones]
        if lexicon:
            lang_of(lexicon, parts.phones, parts.silence)
    return [f"- {note}" for note in parts.notes]


def model_lines(needed: Requirements) -> list[str]:
    """What can be done with a model folder, one per line."""
    can = ["The model can be fine-tuned" if needed.can_fine_tune else "The model cannot be fine-tuned"]
    if needed.can_fine_tune:
        can[0] += "; words can be added" if needed.can_add_words else "; words cannot be added"
    return [*can, *(f"- {note}" for note in needed.notes)]
