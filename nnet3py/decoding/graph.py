"""Decoding graphs: HCLG, from transition-ids to words. Kaldi: ``utils/mkgraph.sh``."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from nnet3py.decoding.decoder_options import TrainingGraphOptions
from nnet3py.decoding.lexicon import BACKOFF, NONTERMINAL, Lang, Silence
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.fst.openfst import compose, determinize_star, from_openfst, minimize_encoded, to_openfst
from nnet3py.fst.operations import push_special, with_loops, without_local_epsilons, without_symbols
from nnet3py.graphs.context import check_left_biphones, expand_context, expand_grammar_context
from nnet3py.graphs.grammar_fst import of_part
from nnet3py.graphs.hmms import add_self_loops, hmm_transducer
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.streams import write_text
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

SELF_LOOP_SCALE, CHAIN_SELF_LOOP_SCALE = 0.1, 1.0      # what Kaldi's recipes take


def make_graph(lang: Lang, grammar: Fst, tree: ContextDependency, model: TransitionModel,
               transition_scale: float = 1.0, self_loop_scale: float = SELF_LOOP_SCALE) -> Fst:
    """The decoding graph of a lexicon, a grammar and a model: transition-ids to words, with self-loops.

    Parameters
    ----------
    lang : the lexicon
    grammar : G; input labels are words and ``#0``, output labels words
    tree, model : of the acoustic model
    transition_scale : factor of the costs of transitions that are not self-loops
    self_loop_scale : factor of the costs of self-loops, and of not taking them; 1.0 for chain models

    Raises
    ------
    Nnet3Error : kaldifst is missing; no sentence of the grammar is possible with the lexicon; a grammar that cannot
        be determinized; tree and model have other phones than the lexicon
    """
    names, phones_graph = lang.nonterminals, _lexicon_and_grammar(lang, grammar)
    if names is None:
        windows_graph, windows = expand_context(phones_graph, tree.context_width, tree.central_position,
                                                lang.phones.disambiguation, keep_outputs=True)
    else:
        check_left_biphones(tree.context_width, tree.central_position)
        windows_graph, windows = expand_grammar_context(phones_graph, names, lang.phones.disambiguation)
    hmms, disambig = hmm_transducer(windows, tree, model, transition_scale, names)
    graph = _minimized(without_local_epsilons(without_symbols(_composed(hmms, windows_graph), disambig)))
    if graph.start < 0:
        raise Nnet3Error("the decoding graph is empty", "do lexicon, grammar and model belong together?")
    graph = add_self_loops(graph, model, self_loop_scale)
    return graph if names is None else of_part(graph, names)


def _lexicon_and_grammar(lang: Lang, grammar: Fst) -> Fst:
    """LG, pushed so that all states have the same sum of probabilities."""
    lexicon = lang.lexicon
    has_backoff = BACKOFF in lang.words and BACKOFF in lang.phones
    if has_backoff and not (lexicon.input_labels == lang.phones[BACKOFF]).any():     # prepare_lang.sh adds loops itself
        lexicon = with_loops(lexicon, [lang.phones[BACKOFF]], [lang.words[BACKOFF]])
    graph = _composed(lexicon, grammar)
    if graph.num_states == 0:
        raise Nnet3Error("the lexicon has no phones for any sentence of the grammar",
                         "make both with one words.txt; a grammar needs a final state")
    return push_special(_minimized(graph))


def _composed(left: Fst, right: Fst) -> Fst:
    """The composition, without epsilons and deterministic."""
    graph = compose(left, right)
    if graph.num_states:
        determinize_star(graph, use_log=True)
    return from_openfst(graph)


def _minimized(fst: Fst) -> Fst:
    graph = to_openfst(fst)
    minimize_encoded(graph)
    return from_openfst(graph)


def word_line(words: np.ndarray) -> Fst:
    """The acceptor of one sequence of words, int32 (words,)."""
    states = np.arange(len(words) + 1)
    final = np.where(states == len(words), np.float32(0.0), NO_WEIGHT)
    return Fst.from_arcs(0, final, states[:-1], words, words, np.zeros(len(words)), states[1:])


def make_training_graph(lexicon: Fst, words: Fst, tree: ContextDependency, model: TransitionModel,
                        disambig: Collection[int] = (), options: TrainingGraphOptions | None = None) -> Fst:
    """The training graph of one utterance with known words, with self-loops.

    Parameters
    ----------
    lexicon : L, or L_disambig with its ``disambig`` phones
    words : what may have been said: one sequence of words (:func:`word_line`), or several, with costs

    Raises Nnet3Error if the lexicon has no phones for the words, or other phones than the model. Kaldi:
    ``compile-train-graphs``.
    """
    options = options or TrainingGraphOptions()
    graph = from_openfst(compose(lexicon, words))
    if graph.num_states == 0:
        raise Nnet3Error("the lexicon has no phones for these words")
    windows_graph, windows = expand_context(graph, tree.context_width, tree.central_position, disambig,
                                            keep_outputs=True)
    hmms, labels = hmm_transducer(windows, tree, model, options.transition_scale)
    composed = without_symbols(_composed(hmms, windows_graph), labels)
    minimized = _minimized(without_local_epsilons(composed) if options.rm_eps and disambig else composed)
    return add_self_loops(minimized, model, options.self_loop_scale, reorder=options.reorder)


def with_transition_costs(graph: Fst, model: TransitionModel, transition_scale: float = 1.0,
                          self_loop_scale: float = 1.0) -> Fst:
    """The graph with the costs of the transitions on its arcs. Labels are transition-ids. Kaldi: AddTransitionProbs."""
    ids = graph.input_labels
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) <= model.num_transition_ids:
        raise FormatError(f"the graph has labels {ids.min()} to {ids.max()}, but the model's transition-ids are 1 to "
                          f"{model.num_transition_ids}", hint="graph and model must belong together")
    leaving = model.non_self_loop_log_probs[model.transition_id_to_state]
    costs = -np.where(model.is_self_loop, self_loop_scale * model.log_probs,
                      transition_scale * (model.log_probs - leaving) + self_loop_scale * leaving)
    costs[0] = 0.0
    return dataclasses.replace(graph, weights=(graph.weights + costs[ids]).astype(np.float32), stored=None)


# -- folders -----------------------------------------------------------------------------------------------------------


def read_lang(folder: str | os.PathLike[str]) -> Lang:
    """Read a lang folder, such as Kaldi's ``utils/prepare_lang.sh`` makes. Raises Nnet3Error for missing files."""
    place = Path(folder)
    files = [place / name for name in ("words.txt", "phones.txt", "L_disambig.fst", "L.fst")]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise FormatError(f"expected a lang folder, but there is no {', '.join(missing)}", path=str(folder),
                          hint="give a folder made by Kaldi's utils/prepare_lang.sh, or a lexicon")
    words, phones = SymbolTable.read(str(files[0]), "word"), SymbolTable.read(str(files[1]), "phone")
    return Lang(words, phones, read_fst_file(files[2]), read_fst_file(files[3]), Silence())


def write_lang(folder: str | os.PathLike[str], lang: Lang) -> None:
    """Write a lang folder that :func:`read_lang` reads."""
    place = Path(folder)
    _write_tables(place, lang)
    write_fst_file(place / "L_disambig.fst", lang.lexicon)
    write_fst_file(place / "L.fst", lang.plain_lexicon)


def write_graph(folder: str | os.PathLike[str], graph: Fst, lang: Lang, model: TransitionModel) -> None:
    """Write a graph folder: ``HCLG.fst``, ``words.txt``, ``phones.txt``, ``num_pdfs`` and ``phones/``."""
    place = Path(folder)
    _write_tables(place, lang)
    write_text(str(place / "num_pdfs"), f"{model.num_pdfs}\n")
    write_fst_file(place / "HCLG.fst", graph)


def _write_tables(place: Path, lang: Lang) -> None:
    try:
        (place / "phones").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Nnet3Error(f"the folder {place} cannot be made: {error.strerror}") from None
    lang.words.write(str(place / "words.txt"))
    lang.phones.write(str(place / "phones.txt"))
    disambig = lang.phones.disambiguation
    if lang.nonterminals is not None:
        write_text(str(place / "phones" / "nonterm_phones_offset.int"), f"{lang.nonterminals.offset}\n")
        names = [name for name in lang.phones.ids if name.startswith(NONTERMINAL)]
        write_text(str(place / "phones" / "nonterminals.txt"), "".join(f"{name}\n" for name in names))
        write_text(str(place / "phones" / "nonterminals.int"), "".join(f"{lang.phones[name]}\n" for name in names))
    write_text(str(place / "phones" / "disambig.int"), "".join(f"{number}\n" for number in disambig))
    write_text(str(place / "phones" / "disambig.txt"), "".join(f"{lang.phones.names[n]}\n" for n in disambig))
    if lang.silence.phone:
        write_text(str(place / "phones" / "silence.csl"), f"{lang.phones[lang.silence.phone]}\n")
