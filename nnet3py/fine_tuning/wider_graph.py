"""New words in a graph that is composed while decoding: HCLr.fst and Gr.fst with them, and the table of words.

Words keep their numbers and labels; new ones follow the largest. Files keep their types, and so programs that read the
old folder, such as vosk, read the new one.
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnet3py import log
from nnet3py.decoding.lang_folder import positioned
from nnet3py.decoding.lexicon import Pronunciation
from nnet3py.decoding.lookahead_graph import LookaheadGraph
from nnet3py.decoding.ngram import Ngram, ngram_states
from nnet3py.decoding.search_layout import ARC_OUTPUT
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fine_tuning.graph_phones import GraphPhones
from nnet3py.fine_tuning.graph_words import GraphWords
from nnet3py.fine_tuning.joined_graph import joined_graphs
from nnet3py.fine_tuning.plan import SHARE, FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.wider_hcl import with_words
from nnet3py.fst.operations import arc_sorted
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import FileContent, read_object
from nnet3py.io.streams import open_input, open_output, read_text
from nnet3py.io.tokens import TokenWriter
from nnet3py.lattices.word_alignment import read_word_boundaries
from nnet3py.recognition.model_folder import ModelFolder
from nnet3py.recognition.recognizer import read_decoding_graph
from nnet3py.transducers.fst import INPUT_SYMBOLS, OUTPUT_SYMBOLS, Fst, Stored, tables_with
from nnet3py.transducers.fst_binary import write_binary_fst
from nnet3py.transducers.fst_kinds import COMPACT_KINDS
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.ngram_fst import NgramFst, ngram_of_fst, write_ngram
from nnet3py.transducers.ngram_mixture import mixture

HCL, GRAMMAR = "HCLr.fst", "Gr.fst"


def write_wider_graph(work: WorkFolder, folder: ModelFolder, phones: SymbolTable,
                      new: Mapping[str, Sequence[tuple[str, ...]]], texts: Sequence[Sequence[str]],
                      options: FineTuneOptions) -> None:
    """Write ``graph/`` of a folder with HCLr.fst and Gr.fst.

    Parameters
    ----------
    phones : names and numbers of the model's phones
    new : the pronunciations of new words, without marks of positions
    texts : sentences to learn which words follow which

    Nnet3Error if no sentence can be learned, or if the graph cannot get new words.
    """
    model = read_object(f"{work.model}/final.mdl", TransitionModel.read)
    graph = read_decoding_graph(folder, model)
    assert isinstance(graph, LookaheadGraph)
    words = SymbolTable.read(folder.words)
    labels, numbers = _new_numbers(graph, words, new)
    work.graph.mkdir(parents=True, exist_ok=True)
    if new:
        _write_hcl(work, graph, model, _phones_of(new, phones, labels), numbers)
    used = {word: words[word] for text in texts for word in text if word in words}
    label_of = {name: int(graph.label_of_word[number]) for name, number in used.items()
                if number < len(graph.label_of_word)} | labels
    usable = [text for text in texts if all(label_of.get(word) for word in text)]
    if not usable:
        raise Nnet3Error("no sentence of the new text has only words with a pronunciation", "give --lexicon")
    learned = Ngram.estimate(usable, options.lm_order, labels)
    _write_grammar(work.graph / GRAMMAR, folder.grammar, _NewText(learned, label_of, labels, numbers),
                   SHARE * options.lm_weight)
    if words_file(folder) and new:
        SymbolTable({**words.names, **{number: name for name, number in numbers.items()}}).write(
            str(work.graph / "words.txt"))
    log.log(f"The old graph with {len(new)} more words, {len(words) + len(new)} in all")


def words_file(folder: ModelFolder) -> str:
    """The table of words of a folder, besides the one that Gr.fst may have in it; empty if there is none."""
    if os.path.abspath(folder.words) != os.path.abspath(folder.grammar):
        return folder.words
    beside = os.path.join(os.path.dirname(folder.grammar), "words.txt")
    return beside if os.path.isfile(beside) else ""


def _new_numbers(graph: LookaheadGraph, words: SymbolTable,
                 new: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
    """HCL's labels for new words, and the words' numbers: the same where words stand for themselves."""
    hcl = graph.lookahead
    label = 1 + max(hcl.final_label, int(hcl.arcs[:, ARC_OUTPUT].max()), int(graph.label_of_word.max()))
    number = 1 + max(words.names)
    if graph.grammar.is_ngram:
        label = number = max(label, number)
    return ({name: label + place for place, name in enumerate(sorted(new))},
            {name: number + place for place, name in enumerate(sorted(new))})


def _phones_of(new: Mapping[str, Sequence[tuple[str, ...]]], phones: SymbolTable,
               labels: Mapping[str, int]) -> list[tuple[int, tuple[int, ...]]]:
    """Labels, and the numbers of phones, of all pronunciations."""
    lexicon = positioned([Pronunciation(word, its) for word, every in sorted(new.items()) for its in every], phones)
    return [(labels[entry.word], tuple(phones[phone] for phone in entry.phones)) for entry in lexicon]


def _write_hcl(work: WorkFolder, graph: LookaheadGraph, model: TransitionModel,
               new: list[tuple[int, tuple[int, ...]]], numbers: Mapping[str, int]) -> None:
    boundaries = f"{work.model}/word_boundary.int"
    kinds = read_word_boundaries(read_text(boundaries), boundaries)
    places = GraphWords.of(GraphPhones.of(graph.hcl_of_words(), model), kinds)
    tree = read_object(f"{work.model}/tree", ContextDependency.read)
    wider = with_words(graph.lookahead, places, model, tree, new)
    if wider.label_of_word is not None:
        label_of_word = np.zeros(max(numbers.values()) + 1, dtype=np.int32)
        label_of_word[:len(wider.label_of_word)] = wider.label_of_word
        for number, label in zip(sorted(numbers.values()), sorted({label for label, _ in new}), strict=True):
            label_of_word[number] = label
        wider = dataclasses.replace(wider, label_of_word=label_of_word)
    with open_output(work.graph / HCL) as stream:
        wider.write(TokenWriter(stream, binary=True))


class _NewText(NamedTuple):
    """What was learned of new text.

    Attributes
    ----------
    model : which words follow which
    label_of : HCL's labels of its words
    labels, numbers : of the words among them that are new
    """

    model: Ngram
    label_of: Mapping[str, int]
    labels: Mapping[str, int]
    numbers: Mapping[str, int]


def _write_grammar(target: Path, source: str, text: _NewText, weight: float) -> None:
    """Write a Gr.fst like the old one, and what was learned: mixed in if it is an n-gram, else beside it."""
    with open_input(source) as stream:
        content = FileContent(stream)
        ngram = NgramFst.of_content(content)
        old = None if ngram is not None else read_fst(content.reader())
    new = ngram_states(text.model, text.label_of)
    with open_output(target) as stream:
        writer = TokenWriter(stream, binary=True)
        if ngram is not None:
            mixed = mixture(ngram, new, weight)
            write_ngram(writer, dataclasses.replace(mixed, stored=_with_names(mixed.stored, text)))
            return
        assert old is not None
        stored = _with_names(old.stored, text)
        grammar = _mixed(old, new, {text.labels[name]: number for name, number in text.numbers.items()}, weight)
        kind = stored.kind if stored is not None and stored.kind not in COMPACT_KINDS else "vector"
        if stored is not None:                 # whose properties are those of the old one
            grammar = dataclasses.replace(grammar, stored=stored._replace(kind=""))
        write_binary_fst(writer, grammar, kind)


def _with_names(stored: Stored | None, text: _NewText) -> Stored | None:
    """With the new words in the tables of symbols: labels in that of the input symbols, numbers in the other."""
    if stored is None or not stored.flags:
        return stored
    additions = [names for flag, names in ((INPUT_SYMBOLS, text.labels), (OUTPUT_SYMBOLS, text.numbers))
                 if stored.flags & flag]
    return stored._replace(symbols=tables_with(stored.symbols, additions))


def _mixed(old: Fst, new: NgramFst, new_numbers: Mapping[int, int], weight: float) -> Fst:
    """A grammar from labels to words, with an n-gram model of labels. ``new_numbers``: of new labels."""
    number_of = np.zeros(1 + max([int(old.input_labels.max(initial=0)), *new_numbers]), dtype=np.int32)
    number_of[old.input_labels] = old.output_labels
    for label, number in new_numbers.items():
        number_of[label] = number
    backoff = old.input_labels[(old.output_labels == 0) & (old.input_labels != 0)]
    labels = np.where(old.output_labels == 0, 0, old.input_labels).astype(np.int32)
    try:
        ngram = ngram_of_fst(dataclasses.replace(old, input_labels=labels, output_labels=labels, stored=None))
    except FormatError:                    # another kind of grammar
        return arc_sorted(joined_graphs(old, _to_words(new.to_fst(), number_of, 0), weight))
    return _to_words(mixture(ngram, new, weight).to_fst(), number_of, int(backoff[0]) if len(backoff) else 0)


def _to_words(model: Fst, number_of: np.ndarray, backoff: int) -> Fst:
    """An n-gram model of labels, with words as output labels, and a label where it backs off."""
    inputs = np.where(model.input_labels == 0, backoff, model.input_labels)
    return arc_sorted(dataclasses.replace(model, input_labels=inputs.astype(np.int32),
                                          output_labels=number_of[model.input_labels], stored=None))
