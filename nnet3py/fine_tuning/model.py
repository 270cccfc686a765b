"""Stage 2: the parts of a model besides its network, from its folder or recovered from its graph; and ``--check``.

These are tree, phones, lexicon, silence, language model, and phone sequences of the speech that the model was made
for.
"""
from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3py.acoustic_model import read_model
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.grammar import Ngram
from nnet3py.decoding.lexicon import POSITIONS, Pronunciation
from nnet3py.decoding.symbols import EPSILON, MARKS, SymbolTable, grammar_words
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fine_tuning.check import (
    check_data,
    more_text,
    problems_text,
    raise_if_unusable,
    spelling_and_limits,
    texts_of,
    with_model_spelling,
)
from nnet3py.fine_tuning.graph_tree import base_name, recover_tree
from nnet3py.fine_tuning.graph_words import (
    GraphLexicon,
    Sentence,
    draw_sentences,
    draw_texts,
    recover_lexicon,
    spoken,
)
from nnet3py.fine_tuning.lookahead_words import obstacle_to_new_words
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.pronunciations import pronounce
from nnet3py.fine_tuning.requirements import known_files, model_lines, requirements
from nnet3py.fine_tuning.speech_data import read_data
from nnet3py.fine_tuning.words import given_pronunciations, lang_of
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.streams import read_text, write_text
from nnet3py.io.tables import TableWriter
from nnet3py.lattices.word_alignment import read_word_boundaries
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import read_decoding_graph
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.fst_text import read_fst_file

logger = logging.getLogger(__name__)

NUM_SENTENCES = 20_000           # random sentences from the graph, for phone sequences and a missing language model
NUM_LEARNED = 5000               # words of a large graph from which pronouncing is learned


@dataclass
class ModelParts:
    """Parts of a model besides its network; None for a part that can be neither read nor recovered."""

    phones: SymbolTable  # table of phones
    # kind (begin, end, ...) of each phone; None if phones are not position-dependent
    kinds: dict[int, str] | None = None
    tree: ContextDependency | None = None                     # the decision tree
    lexicon: list[tuple[str, tuple[str, ...]]] | None = None  # pairs of a word and its phones, without position marks
    silence: str = ""                                         # name of the phone between words; empty for none
    sentences: list[Sentence] = field(default_factory=list)   # random sentences from the graph
    notes: list[str] = field(default_factory=list)            # what was recovered and what was not, one line each


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``model/``. Raises Nnet3Error for a model that cannot be trained."""
    folder = read_model_folder(options.model)
    files = known_files(folder)
    texts = [*texts_of(work), *more_text(folder, options)]
    parts = read_parts(folder, files, options.srand, {word for text in texts for word in text})
    place = work.model
    place.mkdir(parents=True, exist_ok=True)
    check_trainable(parts, options.model)
    assert parts.tree is not None
    for note in parts.notes:
        logger.info("%s", note)
    shutil.copyfile(folder.model, place / "final.mdl")
    parts.phones.write(str(place / "phones.txt"))
    write_object(str(place / "tree"), parts.tree.write)
    if parts.kinds is not None:
        write_text(str(place / "word_boundary.int"),
                   "".join(f"{phone} {kind}\n" for phone, kind in sorted(parts.kinds.items())))
    if parts.lexicon is not None:
        write_text(str(place / "lexicon.txt"),
                   "".join(f"{word} {' '.join(phones)}\n" for word, phones in parts.lexicon))
    write_text(str(place / "silence.txt"), f"{parts.silence}\n" if parts.silence else "")
    if "lm" in files and not folder.is_lookahead:
        shutil.copyfile(files["lm"], place / os.path.basename(files["lm"]))
    elif parts.sentences and not folder.is_lookahead:
        words = SymbolTable.read(folder.words)
        drawn = [words.text(sentence.words).split() for sentence in parts.sentences]
        write_text(str(place / "text"), "".join(f"{' '.join(text)}\n" for text in drawn))
        Ngram.estimate(drawn, options.lm_order).write(str(place / "lm.arpa"))
    with TableWriter(f"ark:{place}/phones.ark", INT_VECTOR) as writer:
        for number, sentence in enumerate(parts.sentences):
            writer.write(f"drawn-{number:06d}", np.array(sentence.phones, dtype=np.int32))
    write_text(str(place / "notes.txt"), "".join(f"{note}\n" for note in parts.notes))


def check_trainable(parts: ModelParts, name: str) -> None:
    """Raise Nnet3Error if the model ``name`` cannot be trained."""
    if parts.tree is None:
        raise Nnet3Error(f"{name} cannot be trained: {parts.notes[0]}",
                         "put the file 'tree' of the model's training into its folder")


def read_parts(folder: ModelFolder, files: Mapping[str, str], seed: int, wanted: Collection[str] | None,
               with_sentences: bool = True) -> ModelParts:
    """Read the parts of a model from its files (``known_files``) or recover them from its graph.

    ``wanted``: words whose pronunciations are needed, of a lookahead graph, which may have a million words; None for
    all. ``with_sentences``: whether random sentences are drawn from the graph.

    Raises Nnet3Error for damaged files.
    """
    model = read_model(folder.model).transition_model
    graph, grammar = words_graph(folder, model)
    kinds = read_word_boundaries(read_text(folder.word_boundary), folder.word_boundary) if folder.word_boundary else (
        None)
    phones, note = phone_names(files.get("phones", ""), model, kinds)
    parts = ModelParts(phones, kinds, notes=[note] if note else [])
    parts.tree = _tree(files.get("tree", ""), graph, model, parts)
    words = SymbolTable.read(folder.words)
    if "lexicon" in files:
        parts.lexicon = _read_lexicon(files["lexicon"], parts.phones)
    if grammar is None:
        _read_graph(graph, model, words, parts)
        parts.sentences = list(draw_sentences(graph, model, NUM_SENTENCES, seed)) if with_sentences else []
    else:
        texts = draw_texts(grammar, NUM_SENTENCES, seed) if with_sentences else []
        needed = None if wanted is None else _needed(words, wanted, seed)
        recovered = _read_graph(graph, model, words, parts, needed, {word for text in texts for word in text})
        if recovered is not None:
            parts.sentences = list(spoken(texts, recovered, seed))
        problem = obstacle_to_new_words(model, parts.tree) if parts.tree is not None else ""
        if problem:
            parts.notes.append(f"no words can be added to the graph: {problem}")
    if not parts.silence:
        parts.silence = _silence_by_options(folder, parts.phones)
    return parts


def _needed(words: SymbolTable, wanted: Collection[str], seed: int) -> set[int]:
    """Return the numbers of the words whose pronunciations are needed: those of ``wanted`` that the model has.

    If the model lacks some, random words are added, from whose pronunciations those of the missing ones are learned.
    """
    needed = {words[word] for word in wanted if word in words}
    if len(needed) < len(set(wanted)):
        names = sorted(word for word in grammar_words(words) if not word.startswith(MARKS))
        needed.update(words[name] for name in random.Random(seed).sample(names, min(len(names), NUM_LEARNED)))
    return needed


def words_graph(folder: ModelFolder, model: TransitionModel) -> tuple[Fst, Fst | None]:
    """Return the decoding graph of a folder, from transition-ids to words, and the grammar of a lookahead graph.

    For a lookahead graph the first result is HCL, which allows words in any order; for others the second is None.
    """
    if not folder.is_lookahead:
        return read_fst_file(folder.graph), None
    graph = read_decoding_graph(folder, model)
    assert isinstance(graph, LookaheadGraph)
    return graph.hcl_of_words(), graph.grammar_fst


def _tree(path: str, graph: Fst, model: TransitionModel, parts: ModelParts) -> ContextDependency | None:
    if path:
        tree = read_object(path, ContextDependency.read)
        if tree.num_pdfs != model.num_pdfs:
            raise FormatError(f"the tree has {tree.num_pdfs} pdfs, the model {model.num_pdfs}", path=path,
                              hint="a folder's files must be of one model")
        return tree
    try:
        recovered = recover_tree(graph, model, parts.phones.names)
    except Nnet3Error as error:
        parts.notes.append(f"there is no tree, and none can be recovered from the graph: {error.message}")
        return None
    parts.notes.append(f"the tree was recovered from the graph, which has {recovered.num_seen} pairs of phones; other "
                       "pairs are guessed")
    return recovered.tree


def _read_lexicon(path: str, phones: SymbolTable) -> list[tuple[str, tuple[str, ...]]]:
    from nnet3py.decoding.lexicon import read_lexicon

    marked = any(name.endswith(tuple(POSITIONS)) for name in phones.ids)
    return sorted({(entry.word, tuple(base_name(phone) if marked else phone for phone in entry.phones))
                   for entry in read_lexicon(path)})


def _read_graph(graph: Fst, model: TransitionModel, words: SymbolTable, parts: ModelParts,
                needed: Collection[int] | None = None, others: Collection[int] = ()) -> GraphLexicon | None:
    """Recover the lexicon and the silence phone from a graph; None if that is impossible.

    ``needed``: words of the lexicon; None for all. ``others``: further words for the result, not for ``parts.lexicon``.
    """
    if parts.kinds is None:
        if parts.lexicon is None:
            parts.notes.append("there is no lexicon, and without phones/word_boundary.int none can be recovered "
                               "from the graph")
        return None
    try:
        recovered = recover_lexicon(graph, model, parts.kinds, needed, others)
    except Nnet3Error as error:
        parts.notes.append(f"no lexicon can be recovered from the graph: {error.message}")
        return None
    names = parts.phones.names
    if recovered.silence:
        parts.silence = names[recovered.silence]
    if parts.lexicon is None:
        chosen = recovered.pronunciations.keys() if needed is None else recovered.pronunciations.keys() & set(needed)
        parts.lexicon = sorted({(words.text([word]), tuple(base_name(names[phone]) for phone in phones))
                                for word in chosen for phones in recovered.pronunciations[word]})
        which = "" if needed is None else "that are needed, "
        parts.notes.append(f"the lexicon was recovered from the graph: {len(chosen)} words, {which}"
                           f"{len(parts.lexicon)} pronunciations")
    return recovered


def _silence_by_options(folder: ModelFolder, phones: SymbolTable) -> str:
    """Return the name of the first phone in the folder's option ``endpoint.silence-phones``; "" if there is none."""
    listed = str(folder.options.get("endpoint.silence-phones", "")).replace(",", ":").split(":")
    numbers = [int(number) for number in listed if number.isdecimal()]
    return next((phones.names[number] for number in numbers if number in phones.names), "")


# -- names of phones ---------------------------------------------------------------------------------------------------

_MARK_OF_KIND = {kind: mark for mark, kind in POSITIONS.items()}


def phone_names(path: str, model: TransitionModel, kinds: Mapping[int, str] | None) -> tuple[SymbolTable, str]:
    """Return the table of phones, and a note on it or "".

    Phones that the table in ``path`` lacks, or all if there is no table, are named by number: ``p11_B`` is phone 11 at
    the beginning of a word, ``p11_E`` the same phone at the end. All phones are named so if the table belongs to
    another model: if it has a disambiguation symbol for a phone of the model, or a name with another position in the
    word.
    """
    by_number = _by_number(model, kinds)
    if not path:
        return SymbolTable({0: EPSILON, **by_number}, "phone"), ""
    table = SymbolTable.read(path, "phone")
    wrong = [phone for phone in model.topology.phones if phone in table.names and (
        table.names[phone].startswith("#") or _contradicts(table.names[phone], (kinds or {}).get(phone, "")))]
    if wrong:
        kind = "a disambiguation symbol" if table.names[wrong[0]].startswith("#") else "at another place in words"
        return SymbolTable({0: EPSILON, **by_number}, "phone", path), (
            f"phones.txt is another model's: by it, phone {wrong[0]} ({table.names[wrong[0]]}) is {kind}; so phones "
            f"are named by number, such as {by_number[wrong[0]]}")
    unnamed = [phone for phone in model.topology.phones if phone not in table.names]
    note = f"phones.txt does not name {len(unnamed)} phones, which go by number, such as {by_number[unnamed[0]]}" if (
        unnamed) else ""
    return SymbolTable({**table.names, **{phone: by_number[phone] for phone in unnamed}}, "phone", path), note


def _contradicts(name: str, kind: str) -> bool:
    """Return whether the position mark of a name differs from the kind of the phone."""
    return kind in _MARK_OF_KIND and name[-2:] in POSITIONS and POSITIONS[name[-2:]] != kind


def _by_number(model: TransitionModel, kinds: Mapping[int, str] | None) -> dict[int, str]:
    """Return names such as ``p11_B`` for the model's phones.

    Consecutive phones of different kinds are taken for the position-dependent forms of one phone, and get the number
    of the first of them.
    """
    names: dict[int, str] = {}
    first, used = 0, set[str]()
    for phone in sorted(model.topology.phones):
        kind = (kinds or {}).get(phone, "")
        if kind not in _MARK_OF_KIND or not used or kind in used:
            first, used = phone, set()
        if kind in _MARK_OF_KIND:
            used.add(kind)
        names[phone] = f"p{first}{_MARK_OF_KIND.get(kind, '')}"
    return names


# -- --check -----------------------------------------------------------------------------------------------------------


class CheckReport(NamedTuple):
    """Report of ``--check``, and whether the model can be fine-tuned on the data."""

    text: str
    is_good: bool


def check_report(options: FineTuneOptions) -> CheckReport:
    """Check model and data without writing anything. Raises Nnet3Error for a folder or data of unknown form."""
    options.check()
    needed = requirements(options.model)
    lines = model_lines(needed)
    if not needed.can_fine_tune:
        return CheckReport("\n".join(lines) + "\n", False)
    spelling, limits = spelling_and_limits(options)
    data = with_model_spelling(read_data(options.data, options.speaker_column), spelling, options)
    checked = check_data(data, spelling, limits)
    lines += ["", problems_text(checked).rstrip()]
    try:
        raise_if_unusable(checked, options.data, options, spelling, "")
    except Nnet3Error as error:
        return CheckReport("\n".join([*lines, "", f"The data cannot be used for training: {error}"]) + "\n", False)
    try:
        lines += ["", *_try_model(options, {word for utterance in checked.utterances for word in utterance.text})]
    except Nnet3Error as error:
        return CheckReport("\n".join([f"The model cannot be fine-tuned: {error}", *lines[1:]]) + "\n", False)
    return CheckReport("\n".join(lines) + "\n", True)


def _try_model(options: FineTuneOptions, spoken_words: set[str]) -> list[str]:
    """Try to read or recover the model's parts, and to make a lexicon of these words; return notes on the model.

    Raises Nnet3Error as stages 2 and 3 would.
    """
    folder = read_model_folder(options.model)
    parts = read_parts(folder, known_files(folder), options.srand, spoken_words, with_sentences=False)
    check_trainable(parts, options.model)
    if parts.lexicon is not None:
        lexicon = [Pronunciation(word, phones) for word, phones in parts.lexicon if word in spoken_words]
        given = given_pronunciations(options)
        new = pronounce((spoken_words - {entry.word for entry in lexicon}) & given.keys(), parts.lexicon, given, False)
        lexicon += [Pronunciation(word, phones) for word, its in new.items() for phones in its.phones]
        if lexicon:
            lang_of(lexicon, parts.phones, parts.silence)
    return [f"- {note}" for note in parts.notes]
