"""Files of a model folder that fine-tuning needs, and which of its steps are possible. Imports nothing heavy."""
from __future__ import annotations

import os
from dataclasses import dataclass, field

from nnet3py.acoustic_model import read_model
from nnet3py.errors import Nnet3Error
from nnet3py.recognition.model_folder import ModelFolder, look_at_folder

# Folders and names of files that recognition does not need.
PLACES = ("", "am", "graph", "lang", "graph/phones")
NAMES = {"tree": ("tree",), "phones": ("phones.txt",), "lexicon": ("lexicon.txt", "lexiconp.txt"),
         "lm": ("lm.arpa", "lm.arpa.gz", "G.arpa")}


@dataclass
class Requirements:
    """Result of examining a model folder: which steps of fine-tuning are possible with it."""

    # has_lexicon, has_tree, has_lm: whether the folder has these files
    has_lexicon: bool = False
    has_tree: bool = False
    has_lm: bool = False
    can_fine_tune: bool = True                      # whether the network can be trained
    can_add_words: bool = False                     # whether a graph with new words can be made
    notes: list[str] = field(default_factory=list)  # restrictions and substitutes, one line each
    # paths by ``model``, ``tree``, ``lexicon``, ``lm``, ``phones``, ``words``, ``graph``; only existing files
    files: dict[str, str] = field(default_factory=dict)


def known_files(folder: ModelFolder) -> dict[str, str]:
    """Return paths of files that recognition does not need, by kind: tree, phones, lexicon, lm."""
    return {kind: os.path.join(folder.path, place, name) for kind, names in NAMES.items() for name in reversed(names)
            for place in reversed(PLACES) if os.path.isfile(os.path.join(folder.path, place, name))}


def requirements(path: str | os.PathLike[str]) -> Requirements:
    """Find out what fine-tuning can do with a model folder. Raises Nnet3Error if ``path`` is not a model folder."""
    folder = look_at_folder(path)
    needed = Requirements(files={**known_files(folder), **{
        kind: file for kind, file in (("model", folder.model), ("words", folder.words), ("graph", folder.graph))
        if file}})
    needed.has_tree, needed.has_lexicon, needed.has_lm = (kind in needed.files for kind in ("tree", "lexicon", "lm"))
    if folder.missing:
        _refuse(needed, f"it cannot be used for recognition: {'; '.join(folder.missing)}")
        return needed
    _look_at_network(needed, folder)
    _look_at_words(needed, folder)
    return needed


def _refuse(needed: Requirements, why: str) -> None:
    needed.can_fine_tune = needed.can_add_words = False
    needed.notes.append(why)


def _look_at_network(needed: Requirements, folder: ModelFolder) -> None:
    try:
        model = read_model(folder.model)
    except Nnet3Error as error:
        _refuse(needed, str(error))
        return
    if len(model.priors):
        _refuse(needed, "the network has priors: it is not a chain model, and only these can be trained here")


def _look_at_words(needed: Requirements, folder: ModelFolder) -> None:
    notes = needed.notes
    needed.can_add_words = needed.can_fine_tune and (
        bool(folder.word_boundary) or needed.has_lexicon and not folder.is_lookahead)
    if not needed.has_tree:
        notes.append("there is no tree: it is recovered from the graph; the pdfs of pairs of phones that the graph "
                     "lacks are guessed")
    if not needed.has_lexicon:
        notes.append("there is no lexicon.txt: pronunciations are taken from the graph" if folder.word_boundary else
                     "there is neither lexicon.txt nor phones/word_boundary.int: no words can be added, and utterances "
                     "are aligned with the graph alone")
    if not needed.has_lm and needed.can_add_words and not folder.is_lookahead:
        notes.append("there is no lm.arpa: if words are added, sentences drawn from the graph stand for the old "
                     "language model")
    if folder.new_grammar and needed.can_add_words:
        notes.append("the model for rescoring (rescore/) does not get new words")
    if folder.rnnlm and needed.can_add_words:
        notes.append("the RNN language model (rnnlm/) cannot get new words: a folder with new words is made without it")


def model_lines(needed: Requirements) -> list[str]:
    """Format the requirements, one line each."""
    can = ["The model can be fine-tuned" if needed.can_fine_tune else "The model cannot be fine-tuned"]
    if needed.can_fine_tune:
        can[0] += "; words can be added" if needed.can_add_words else "; words cannot be added"
    return [*can, *(f"- {note}" for note in needed.notes)]
