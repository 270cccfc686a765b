"""Making graphs: HCLG, training graphs, and graphs of phones without lexicon. Kaldi: ``utils/mkgraph.sh``."""
from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3py.decoding.lexicon import GraphBuilder, Lang, Silence, cost
from nnet3py.decoding.options import TrainingGraphOptions
from nnet3py.decoding.symbols import BACKOFF, NONTERMINAL, SymbolTable
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.fst.openfst import compose, determinize_star, from_openfst, minimize_encoded, to_openfst
from nnet3py.fst.operations import push_special, with_loops, without_local_epsilons, without_symbols
from nnet3py.graphs.context import check_left_biphones, expand_context, expand_grammar_context
from nnet3py.graphs.grammar_fst import of_part
from nnet3py.graphs.hmms import add_self_loops, expand_hmms, hmm_transducer
from nnet3py.hmm.topology import NO_PDF
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.streams import write_text
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

SELF_LOOP_SCALE, CHAIN_SELF_LOOP_SCALE = 0.1, 1.0      # as in Kaldi's recipes
_POSITION = re.compile(r"(.+)_[BIES]")                 # a phone's name with its position in the word


def make_graph(lang: Lang, grammar: Fst, tree: ContextDependency, model: TransitionModel,
               transition_scale: float = 1.0, self_loop_scale: float = SELF_LOOP_SCALE) -> Fst:
    """Make the decoding graph HCLG, from transition-ids to words, with self-loops.

    Raises Nnet3Error if kaldifst is missing, no sentence of the grammar is possible with the lexicon, the grammar
    cannot be determinized, or tree and model have other phones than the lexicon.

    Parameters
    ----------
    lang : Lang, the lexicon
    grammar : Fst, G; input labels are words and ``#0``, output labels words
    tree, model : decision tree and transition model of the acoustic model
    transition_scale : factor of the costs of transitions that are not self-loops
    self_loop_scale : factor of the costs of self-loops, and of not taking them; 1.0 for chain models
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
        raise Nnet3Error("the decoding graph is empty", "use lexicon, grammar and model with the same phones and words")
    graph = add_self_loops(graph, model, self_loop_scale)
    return graph if names is None else of_part(graph, names)


def _lexicon_and_grammar(lang: Lang, grammar: Fst) -> Fst:
    """Return L composed with G, with costs pushed so that the probabilities leaving each state have the same sum."""
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
    """Return the composition of two FSTs, determinized and without epsilons."""
    graph = compose(left, right)
    if graph.num_states:
        determinize_star(graph, use_log=True)
    return from_openfst(graph)


def _minimized(fst: Fst) -> Fst:
    graph = to_openfst(fst)
    minimize_encoded(graph)
    return from_openfst(graph)


def word_line(words: np.ndarray) -> Fst:
    """Return an acceptor of one sequence of words, int32 (words,)."""
    states = np.arange(len(words) + 1)
    final = np.where(states == len(words), np.float32(0.0), NO_WEIGHT)
    return Fst.from_arcs(0, final, states[:-1], words, words, np.zeros(len(words)), states[1:])


def make_training_graph(lexicon: Fst, words: Fst, tree: ContextDependency, model: TransitionModel,
                        disambig: Collection[int] = (), options: TrainingGraphOptions | None = None) -> Fst:
    """Make the training graph of one utterance, with self-loops. Kaldi: ``compile-train-graphs``.

    Raises Nnet3Error if the lexicon has no phones for the words, or other phones than the model.

    Parameters
    ----------
    lexicon : Fst, L, or L_disambig with its ``disambig`` phones
    words : Fst, the transcript: one sequence of words (:func:`word_line`), or alternatives with costs
    """
    options = options or TrainingGraphOptions()
    graph = from_openfst(compose(lexicon, words))
    if graph.num_states == 0:
        raise Nnet3Error("the lexicon has no phones for the words of the transcript",
                         "make the lexicon FST and the transcripts with the same words.txt")
    windows_graph, windows = expand_context(graph, tree.context_width, tree.central_position, disambig,
                                            keep_outputs=True)
    hmms, labels = hmm_transducer(windows, tree, model, options.transition_scale)
    composed = without_symbols(_composed(hmms, windows_graph), labels)
    minimized = _minimized(without_local_epsilons(composed) if options.rm_eps and disambig else composed)
    return add_self_loops(minimized, model, options.self_loop_scale, reorder=options.reorder)


def with_transition_costs(graph: Fst, model: TransitionModel, transition_scale: float = 1.0,
                          self_loop_scale: float = 1.0) -> Fst:
    """Return a graph of transition-ids with the scaled costs of transitions added. Kaldi: AddTransitionProbs."""
    ids = graph.input_labels
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) <= model.num_transition_ids:
        raise FormatError(f"the graph has labels {ids.min()} to {ids.max()}, but the model's transition-ids are 1 to "
                          f"{model.num_transition_ids}", hint="use the model that the graph was made with")
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
    """Write a lang folder in the form that :func:`read_lang` reads."""
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


# -- graphs of phones --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhoneLoop:
    """A graph from transition-ids to phones, and the symbol table of its output labels."""

    graph: Fst
    phones: SymbolTable


def phone_loop(model: TransitionModel, names: Mapping[int, str] | None = None, *, insertion_penalty: float = 0.0,
               self_loop_scale: float = 1.0, tree: ContextDependency | None = None,
               phone_lm: Fst | None = None) -> PhoneLoop:
    """Return a graph of all sequences of a model's phones, equally probable or weighted by a phone language model.

    Without a tree, each HMM state of a phone may have any pdf that the model has for it in some context, the same pdf
    for as long as the state lasts. With a tree, pdfs are those of the phones beside it. Phones whose HMMs have the same
    pdfs are treated as the first of them. Raises UsageError for ``phone_lm`` without a tree, or with a penalty;
    Nnet3Error for a tree or an acceptor of another model.

    Parameters
    ----------
    names : names of the phones, by number; None, or phones without a name: their numbers. The marks of positions in
        words (``_B``, ``_I``, ``_E``, ``_S``) are left out, since there are no words
    insertion_penalty : cost of each phone, in addition to that of the loop; not with ``phone_lm``
    self_loop_scale : factor of the costs of taking and of not taking self-loops
    tree : decision tree of the model
    phone_lm : Fst, an acceptor of phones, such as the phone_lm.fst of chain training; needs the tree
    """
    phones = _phones_with_distinct_pdfs(model)
    if phone_lm is not None and (tree is None or insertion_penalty):
        raise UsageError("a phone language model needs the tree, and has costs of its own", "give the model's tree, "
                         "and no insertion penalty")
    if tree is None:
        graph = _loop_of_any_context(model, phones, insertion_penalty)
    else:
        acceptor = _loop_of_phones(phones, insertion_penalty) if phone_lm is None else phone_lm
        windows_graph, windows = expand_context(acceptor, tree.context_width, tree.central_position)
        graph = _with_phone_outputs(expand_hmms(windows_graph, windows, tree, model), model)
    table, numbers = _table_without_positions(model.topology.phones, names or {})
    graph = dataclasses.replace(graph, output_labels=numbers[graph.output_labels])
    return PhoneLoop(add_self_loops(graph, model, self_loop_scale), table)


def _phones_with_distinct_pdfs(model: TransitionModel) -> list[int]:
    """Return the phones without those that have the HMM and the pdfs of an earlier one."""
    pdfs: dict[int, list[tuple[int, ...]]] = {}
    for phone, *rest in model.tuples.tolist():
        pdfs.setdefault(phone, []).append(tuple(rest))
    first: dict[tuple[int, tuple[tuple[int, ...], ...]], int] = {}
    for phone, states in sorted(pdfs.items()):
        first.setdefault((model.topology.entry_of_phone[phone], tuple(sorted(states))), phone)
    return sorted(first.values())


def _loop_of_phones(phones: list[int], insertion_penalty: float) -> Fst:
    graph = GraphBuilder()
    graph.final(0)
    for phone in phones:
        graph.arc(0, phone, phone, cost(1.0 / len(phones)) + insertion_penalty, 0)
    return graph.fst()


def _loop_of_any_context(model: TransitionModel, phones: list[int], insertion_penalty: float) -> Fst:
    graph = GraphBuilder()
    graph.final(0)
    of_state: dict[tuple[int, int], list[int]] = {}
    for number, (phone, hmm_state) in enumerate(model.tuples[:, :2].tolist(), 1):
        of_state.setdefault((phone, hmm_state), []).append(number)
    for phone in phones:
        _add_phone(graph, model, phone, of_state, cost(1.0 / len(phones)) + insertion_penalty)
    return graph.fst()


def _add_phone(graph: GraphBuilder, model: TransitionModel, phone: int, of_state: Mapping[tuple[int, int], list[int]],
               weight: float) -> None:
    """Add the HMM of a phone as a loop at state 0. ``of_state`` has the transition-states of (phone, HMM state)."""
    hmm = model.topology.entries[model.topology.entry_of_phone[phone]]
    places = [graph.state() for _ in hmm[:-1]] + [0]
    graph.arc(0, 0, phone, weight, places[0])
    for number, state in enumerate(hmm[:-1]):
        if state.forward_pdf_class == NO_PDF:
            for target, probability in state.transitions:
                graph.arc(places[number], 0, 0, cost(probability), places[target])
            continue
        for transition_state in of_state.get((phone, number), []):
            first = int(model.first_transition_id[transition_state])
            leaving = float(model.non_self_loop_log_probs[transition_state])
            for index, (target, _) in enumerate(state.transitions):
                if target != number:
                    graph.arc(places[number], first + index, 0, leaving - float(model.log_probs[first + index]) + 0.0,
                              places[target])


def _with_phone_outputs(graph: Fst, model: TransitionModel) -> Fst:
    """Add outputs to an acceptor of transition-ids: the phone, on the arc that leaves its HMM."""
    labels = graph.input_labels
    outputs = np.where(model.is_final[labels], model.transition_id_to_phone[labels], 0)
    return dataclasses.replace(graph, output_labels=outputs.astype(np.int32))


def _table_without_positions(phones: list[int], names: Mapping[int, str]) -> tuple[SymbolTable, np.ndarray]:
    """Return a symbol table of the phones without word positions, and each phone's number there, int32 (phones + 1,).

    Phones whose names differ only in the word position get the same name.
    """
    stems = Counter(match[1] for name in names.values() if (match := _POSITION.fullmatch(name)))
    stem_of = {}
    for phone in phones:
        name = names.get(phone, str(phone))
        match = _POSITION.fullmatch(name)
        stem_of[phone] = match[1] if match and stems[match[1]] > 1 else name
    table = SymbolTable.of(dict.fromkeys(stem_of.values()), "phone")
    numbers = np.zeros(max(phones) + 1, dtype=np.int32)
    for phone, name in stem_of.items():
        numbers[phone] = table[name]
    return table, numbers
