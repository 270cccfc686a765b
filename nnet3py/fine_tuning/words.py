"""Stage 3: new words, in the lexicon, the language model and the graph.

In a lookahead graph, new words are added to HCLr.fst and Gr.fst, and to the table of words. Old words keep their
numbers and labels; new ones follow the largest. Files keep their types, so that programs that read the old folder, such
as vosk, read the new one. For a static graph, a new one is compiled, and stage 8 puts it beside the old one: a language
model estimated from sentences of the old graph is only similar to the old language model.
"""
from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnet3py import log
from nnet3py.decoding.composed_graphs import LookaheadGraph
from nnet3py.decoding.grammar import Ngram, mixture, ngram_fst, ngram_states, read_ngram
from nnet3py.decoding.graph import CHAIN_SELF_LOOP_SCALE, make_graph, write_graph, write_lang
from nnet3py.decoding.layout import ARC_OUTPUT
from nnet3py.decoding.lexicon import Pronunciation, Silence, make_lang, positioned, read_lexicon
from nnet3py.decoding.symbols import SymbolTable, grammar_words, read_transcripts
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fine_tuning.check import more_text, texts_of
from nnet3py.fine_tuning.graph_words import GraphPhones, GraphWords
from nnet3py.fine_tuning.lookahead_words import obstacle_to_new_words, with_words
from nnet3py.fine_tuning.plan import SHARE, FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.pronunciations import Pronunciations, pronounce
from nnet3py.fst.operations import arc_sorted
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import FileContent, read_object
from nnet3py.io.streams import open_input, open_output, read_text, write_text
from nnet3py.io.tokens import TokenWriter
from nnet3py.lattices.word_alignment import read_word_boundaries
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder
from nnet3py.recognition.recognizer import read_decoding_graph
from nnet3py.transducers import COMPACT_KINDS
from nnet3py.transducers.fst import INPUT_SYMBOLS, NO_WEIGHT, OUTPUT_SYMBOLS, Fst, Stored, tables_with
from nnet3py.transducers.fst_binary import write_binary_fst
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.ngram_fst import NgramFst, ngram_of_fst, write_ngram
from nnet3py.transducers.ngram_mixture import mixture as ngram_fst_mixture

if TYPE_CHECKING:
    from nnet3py.decoding.lexicon import Lang

SILENCE_PROB = 0.5               # Kaldi's prepare_lang.sh
_ARPA = ("lm.arpa", "lm.arpa.gz", "G.arpa")
_UNPRONOUNCED = "none"


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write ``lang/``, and ``graph/`` for new words or new text. Raises Nnet3Error for a wrong ``--lexicon``."""
    for path in (work.lang, work.graph):
        shutil.rmtree(path, ignore_errors=True)
    work.lang.mkdir(parents=True)
    folder = read_model_folder(options.model)
    texts = [text for part in ("train", "held_out") for text in read_transcripts(f"{work.data(part)}/text").values()]
    more = more_text(folder, options)
    if not (work.model / "lexicon.txt").is_file():
        shutil.copyfile(folder.words, work.lang / "words.txt")
        shutil.copyfile(work.model / "phones.txt", work.lang / "phones.txt")
        write_text(str(work.lang / "new_words.txt"), "")
        return
    lexicon = [(entry.word, entry.phones) for entry in read_lexicon(f"{work.model}/lexicon.txt", False)]
    vocabulary = {*grammar_words(SymbolTable.read(folder.words)), *(word for word, _ in lexicon)}
    can_grow = (work.model / "tree").is_file() and (_can_add_lookahead_words(work) if folder.is_lookahead else
                                                    _arpa(work) is not None)
    unknown = {word for text in (*texts, *more) for word in text} - vocabulary
    new = _new_words(unknown if can_grow else (), lexicon, options, work)
    if folder.is_lookahead:                # with perhaps a million words: only those of the data are used
        used = {word for text in texts_of(work) for word in text}
        lexicon = [(word, phones) for word, phones in lexicon if word in used]
    every = {*lexicon, *((word, phones) for word, its in new.items() for phones in its.phones)}
    lang = _write_lang(work, [Pronunciation(word, phones) for word, phones in sorted(every)])
    if can_grow and (new or more):
        learned = [*read_transcripts(f"{work.data('train')}/text").values(), *more]
        if folder.is_lookahead:
            write_lookahead_graph(work, folder, lang.phones, {word: its.phones for word, its in new.items()}, learned,
                              options)
        else:
            _write_graph(work, folder, lang, learned, options)


def _can_add_lookahead_words(work: WorkFolder) -> bool:
    """Return whether words can be added to a lookahead graph; the model's notes have the reason if not."""
    return (work.model / "word_boundary.int").is_file() and not obstacle_to_new_words(
        read_object(f"{work.model}/final.mdl", TransitionModel.read),
        read_object(f"{work.model}/tree", ContextDependency.read))


def _new_words(words: Iterable[str], lexicon: Sequence[tuple[str, tuple[str, ...]]], options: FineTuneOptions,
               work: WorkFolder) -> dict[str, Pronunciations]:
    """Return the pronunciations of new words, and write them to ``lang/new_words.txt``."""
    words = sorted(words)
    given = given_pronunciations(options)
    leave_out = options.unknown_words == "leave-out"
    new = pronounce([word for word in words if word in given] if leave_out else words, lexicon, given,
                    options.unknown_words == "spell", options.srand)
    lines = [f"{word} {new[word].source} {' '.join(phones)}\n" for word in new for phones in new[word].phones]
    without = [word for word in words if word not in new]
    write_text(str(work.lang / "new_words.txt"), "".join(sorted(lines)) + "".join(
        f"{word} {_UNPRONOUNCED}\n" for word in without))
    if new:
        log.log(f"{len(new)} new words; check their pronunciations in {work.lang}/new_words.txt")
    if without:
        log.warning(f"{len(without)} words have no pronunciation, such as {without[0]}: utterances with them are set "
                    "aside; give --lexicon, or --unknown-words=spell")
    return new


def given_pronunciations(options: FineTuneOptions) -> dict[str, list[tuple[str, ...]]]:
    """Return the words of ``--lexicon`` with their phones."""
    given: dict[str, list[tuple[str, ...]]] = {}
    for entry in read_lexicon(options.lexicon) if options.lexicon else []:
        given.setdefault(entry.word, []).append(entry.phones)
    return given


def lang_of(lexicon: list[Pronunciation], phones: SymbolTable, silence: str) -> Lang:
    """Make the transducers of a lexicon without position marks. Raises FormatError for an unknown phone."""
    return make_lang(positioned(lexicon, phones), phones, Silence(silence, SILENCE_PROB if silence else 0.0))


def _write_lang(work: WorkFolder, lexicon: list[Pronunciation]) -> Lang:
    phones = SymbolTable.read(f"{work.model}/phones.txt", "phone")
    lang = lang_of(lexicon, phones, (work.model / "silence.txt").read_text(encoding="utf-8").strip())
    write_lang(work.lang, lang)
    write_text(f"{work.lang}/lexicon.txt", "".join(f"{entry.word} {' '.join(entry.phones)}\n"
                                                   for entry in positioned(lexicon, phones)))
    _copy_boundaries(work, work.lang)
    return lang


def _write_graph(work: WorkFolder, folder: ModelFolder, lang: Lang, texts: Sequence[Sequence[str]],
                 options: FineTuneOptions) -> None:
    """Write the interpolated language model and its graph. Raises Nnet3Error if no sentence can be used."""
    words = grammar_words(lang.words)
    vocabulary = set(words)
    arpa = _arpa(work)
    assert arpa is not None
    old = read_ngram(arpa, words)
    usable = [text for text in texts if vocabulary.issuperset(text)]
    if not usable:
        raise Nnet3Error("every sentence of the new text has a word without a pronunciation", "give --lexicon")
    new = Ngram.estimate(usable, min(options.lm_order, old.order), words)
    weight = options.lm_weight
    model = mixture([(old, 1.0 - weight), (new, weight)])
    model.write(f"{work.lang}/lm.arpa")
    tree = read_object(f"{work.model}/tree", ContextDependency.read)
    transitions = read_object(f"{work.model}/final.mdl", TransitionModel.read)
    graph = make_graph(lang, ngram_fst(model, lang.words), tree, transitions, self_loop_scale=CHAIN_SELF_LOOP_SCALE)
    write_graph(work.graph, graph, lang, transitions)
    _copy_boundaries(work, work.graph)
    if folder.align_lexicon:
        _write_align_lexicon(work, lang)
    log.log(f"A new graph of {graph.num_states} states and {graph.num_arcs} arcs, with {len(words)} words")


def _arpa(work: WorkFolder) -> str | None:
    path = next((work.model / name for name in _ARPA if (work.model / name).is_file()), None)
    return None if path is None else f"gunzip -c {quote(str(path))} |" if path.suffix == ".gz" else str(path)


def _copy_boundaries(work: WorkFolder, target: Path) -> None:
    source = work.model / "word_boundary.int"
    if source.is_file():
        (target / "phones").mkdir(exist_ok=True)
        shutil.copyfile(source, target / "phones" / "word_boundary.int")


def _write_align_lexicon(work: WorkFolder, lang: Lang) -> None:
    """Write align_lexicon.int, for word alignment without position-dependent phones; word 0 is silence."""
    lines = [f"0 0 {lang.phones[lang.silence.phone]}\n"] if lang.silence.phone else []
    for entry in read_lexicon(f"{work.lang}/lexicon.txt", False):
        word = lang.words[entry.word]
        lines.append(f"{word} {word} {' '.join(str(lang.phones[phone]) for phone in entry.phones)}\n")
    write_text(f"{work.graph}/phones/align_lexicon.int", "".join(lines))


# -- lookahead graphs --------------------------------------------------------------------------------------------------

HCL, GRAMMAR = "HCLr.fst", "Gr.fst"


def write_lookahead_graph(work: WorkFolder, folder: ModelFolder, phones: SymbolTable,
                      new: Mapping[str, Sequence[tuple[str, ...]]], texts: Sequence[Sequence[str]],
                      options: FineTuneOptions) -> None:
    """Write ``graph/`` of a folder with HCLr.fst and Gr.fst.

    ``phones``: table of the model's phones. ``new``: pronunciations of new words, without position marks. ``texts``:
    sentences for the language model.

    Raises Nnet3Error if no sentence can be used, or if words cannot be added to the graph.
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
        raise Nnet3Error("every sentence of the new text has a word without a pronunciation", "give --lexicon")
    learned = Ngram.estimate(usable, options.lm_order, labels)
    _write_grammar(work.graph / GRAMMAR, folder.grammar, _NewText(learned, label_of, labels, numbers),
                   SHARE * options.lm_weight)
    if words_file(folder) and new:
        SymbolTable({**words.names, **{number: name for name, number in numbers.items()}}).write(
            str(work.graph / "words.txt"))
    log.log(f"The old graph with {len(new)} more words, {len(words) + len(new)} in all")


def words_file(folder: ModelFolder) -> str:
    """Return the path of a folder's words.txt; "" if its words are only in a symbol table inside Gr.fst."""
    if os.path.abspath(folder.words) != os.path.abspath(folder.grammar):
        return folder.words
    beside = os.path.join(os.path.dirname(folder.grammar), "words.txt")
    return beside if os.path.isfile(beside) else ""


def _new_numbers(graph: LookaheadGraph, words: SymbolTable,
                 new: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Choose the labels of new words in HCL, and their numbers in words.txt, after the largest old ones.

    Both are equal if the grammar is an n-gram FST, in which labels are numbers of words.
    """
    hcl = graph.lookahead
    label = 1 + max(hcl.final_label, int(hcl.arcs[:, ARC_OUTPUT].max()), int(graph.label_of_word.max()))
    number = 1 + max(words.names)
    if graph.grammar.is_ngram:
        label = number = max(label, number)
    return ({name: label + place for place, name in enumerate(sorted(new))},
            {name: number + place for place, name in enumerate(sorted(new))})


def _phones_of(new: Mapping[str, Sequence[tuple[str, ...]]], phones: SymbolTable,
               labels: Mapping[str, int]) -> list[tuple[int, tuple[int, ...]]]:
    """Return each pronunciation as the label of its word and the numbers of its position-dependent phones."""
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
    """Language model of the new text."""

    model: Ngram                 # n-gram model
    label_of: Mapping[str, int]  # label in HCL of each word of the model
    # labels, numbers: label in HCL, and number in words.txt, of each new word
    labels: Mapping[str, int]
    numbers: Mapping[str, int]


def _write_grammar(target: Path, source: str, text: _NewText, weight: float) -> None:
    """Write Gr.fst with the new text added, which gets the weight ``weight``.

    If the old grammar is an n-gram model, both models are interpolated; otherwise the result is their union.
    """
    with open_input(source) as stream:
        content = FileContent(stream)
        ngram = NgramFst.of_content(content)
        old = None if ngram is not None else read_fst(content.reader())
    new = ngram_states(text.model, text.label_of)
    with open_output(target) as stream:
        writer = TokenWriter(stream, binary=True)
        if ngram is not None:
            mixed = ngram_fst_mixture(ngram, new, weight)
            write_ngram(writer, dataclasses.replace(mixed, stored=_with_names(mixed.stored, text)))
            return
        assert old is not None
        stored = _with_names(old.stored, text)
        new_numbers = {text.labels[name]: number for name, number in text.numbers.items()}
        grammar = _interpolated_grammar(old, new, new_numbers, weight)
        kind = stored.kind if stored is not None and stored.kind not in COMPACT_KINDS else "vector"
        if stored is not None:                 # its properties are those of the old grammar
            grammar = dataclasses.replace(grammar, stored=stored._replace(kind=""))
        write_binary_fst(writer, grammar, kind)


def _with_names(stored: Stored | None, text: _NewText) -> Stored | None:
    """Add the new words to the symbol tables stored in an FST: their labels to the input, numbers to the output table.
    """
    if stored is None or not stored.flags:
        return stored
    additions = [names for flag, names in ((INPUT_SYMBOLS, text.labels), (OUTPUT_SYMBOLS, text.numbers))
                 if stored.flags & flag]
    return stored._replace(symbols=tables_with(stored.symbols, additions))


def _interpolated_grammar(old: Fst, new: NgramFst, new_numbers: Mapping[int, int], weight: float) -> Fst:
    """Interpolate a grammar, whose input labels are HCL's and whose output labels are words, with an n-gram model.

    A grammar that is not an n-gram model is united with the new model instead.

    ``new``: n-gram model of HCL's labels, which gets the weight ``weight``. ``new_numbers``: label of each new word ->
    its number.
    """
    number_of = np.zeros(1 + max([int(old.input_labels.max(initial=0)), *new_numbers]), dtype=np.int32)
    number_of[old.input_labels] = old.output_labels
    for label, number in new_numbers.items():
        number_of[label] = number
    backoff = old.input_labels[(old.output_labels == 0) & (old.input_labels != 0)]
    labels = np.where(old.output_labels == 0, 0, old.input_labels).astype(np.int32)
    try:
        ngram = ngram_of_fst(dataclasses.replace(old, input_labels=labels, output_labels=labels, stored=None))
    except FormatError:                    # another kind of grammar
        return arc_sorted(union_of_graphs(old, _to_words(new.to_fst(), number_of, 0), weight))
    return _to_words(ngram_fst_mixture(ngram, new, weight).to_fst(), number_of, int(backoff[0]) if len(backoff) else 0)


def _to_words(model: Fst, number_of: np.ndarray, backoff: int) -> Fst:
    """Convert an n-gram model of labels to an FST from labels to words.

    ``number_of``: number of the word for each label. ``backoff``: input label for arcs without a label, which are
    backoff arcs.
    """
    inputs = np.where(model.input_labels == 0, backoff, model.input_labels)
    return arc_sorted(dataclasses.replace(model, input_labels=inputs.astype(np.int32),
                                          output_labels=number_of[model.input_labels], stored=None))


# -- union of the old and the new graph --------------------------------------------------------------------------------


def union_of_graphs(old: Fst, new: Fst, weight: float) -> Fst:
    """Make the union of two graphs: old sentences have their probability times 1 - ``weight``, new ones ``weight``.

    Labels of both graphs must belong to one model and one table of words; ``weight`` is from 0 to 1.
    """
    first_old, first_new = 1, 1 + old.num_states
    graphs = ((old, first_old, 1.0 - weight), (new, first_new, weight))
    num_states = 1 + old.num_states + new.num_states
    finals = np.concatenate(([NO_WEIGHT], old.final_weights, new.final_weights))
    entered = [(first + graph.start, -math.log(part)) for graph, first, part in graphs if part > 0.0]
    sources = np.concatenate((np.zeros(len(entered)), old.sources + first_old, new.sources + first_new))
    nothing = np.zeros(len(entered), dtype=np.int32)
    inputs, outputs = (np.concatenate((nothing, getattr(old, name), getattr(new, name)))
                       for name in ("input_labels", "output_labels"))
    costs = np.concatenate(([cost for _, cost in entered], old.weights, new.weights))
    targets = np.concatenate(([state for state, _ in entered], old.next_states + first_old,
                              new.next_states + first_new))
    assert len(finals) == num_states
    return Fst.from_arcs(0, finals, sources, inputs, outputs, costs, targets)


def renumbered_words(graph: Fst, words: SymbolTable, others: SymbolTable) -> Fst:
    """Renumber output labels from the table ``words`` to the table ``others``.

    Raises FormatError for a word that ``others`` lacks.
    """
    used = np.unique(graph.output_labels)
    numbers = np.zeros(int(used.max(initial=0)) + 1, dtype=np.int32)
    for number in used[used > 0].tolist():
        name = words.names.get(number)
        if name is None or name not in others:
            raise FormatError(f"the old graph has the word {name or number}, which the new table of words lacks",
                              path=others.path)
        numbers[number] = others[name]
    return Fst(graph.start, graph.final_weights, graph.arc_starts, graph.input_labels, numbers[graph.output_labels],
               graph.weights, graph.next_states, graph.arc_type)
