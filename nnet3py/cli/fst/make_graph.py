"""From lexica, texts and n-gram models to decoding graphs: prepare-lang, arpa2fst, make-graph, make-phone-loop."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    from nnet3py.decoding.lexicon import Lang
    from nnet3py.transducers.fst import Fst

_MAX_ARPA_WARNINGS = option("max-arpa-warnings", int, 30, "Greatest number of warnings about lines of the file (-1: "
                            "all)")


@kaldi_command("prepare-lang", "Graphs", "Make a lang folder from a lexicon.", """
Make a lang folder from a lexicon: words.txt, phones.txt, L.fst, L_disambig.fst, the topology topo, and in phones/ the
lists of phones for tree building. Kaldi's script utils/prepare_lang.sh can do more, such as silence probabilities for
each word.

With --position-dependent-phones=true each phone has four forms, such as AH_B, AH_I, AH_E and AH_S, at the beginning,
inside and at the end of a word, and as its only phone. They share a root of the tree, and phones/word_boundary.int
lists them, so that the times of words can be found in lattices.

<lexicon> has lines WORD PHONE ... or WORD PROBABILITY PHONE ...

Usage: prepare-lang [options] <lexicon> <lang-dir>
e.g.: prepare-lang --silence-phones=SIL,SPN '--unknown-word=<UNK>' lexicon.txt data/lang
See also: make-graph, compile-train-graphs, text-to-phones
""", arguments=(2, 2), options=[
    option("silence-phones", str, "SIL", "Comma-separated list of phones that are not speech; the first one is the "
           "optional silence before, between and after words"),
    option("silence-prob", float, 0.5, "Probability of the optional silence", least=0, below=1),
    option("unknown-word", str, "", "Word of the lexicon for out-of-vocabulary words, in oov.txt (empty: none)"),
    option("position-dependent-phones", bool, False, "Use word-position-dependent phones"),
    option("chain", bool, True, "Topology of chain models: one state for each phone; false: three, five for silence"),
    option("nonterminals", str, "", "File of nonterminals such as #nonterm:contacts, one on each line, for grammars "
           "that are composed while decoding (empty: none)"),
])
def prepare_lang(args: list[str], options: Options) -> int:
    from nnet3py.decoding.graph import write_lang
    from nnet3py.decoding.lexicon import (
        Silence,
        lexicon_phones,
        make_lang,
        phone_forms,
        read_lexicon,
        with_positions,
        write_phone_lists,
    )
    from nnet3py.decoding.symbols import SymbolTable, read_text
    from nnet3py.hmm.topology import chain_topology, left_to_right_topology
    from nnet3py.io.object_files import write_object
    from nnet3py.io.streams import write_text

    lexicon = read_lexicon(args[0])
    silences = [phone for phone in options.silence_phones.split(",") if phone]
    if not silences:
        raise OptionError("--silence-phones is empty; expected at least one phone, such as SIL")
    others = [name for _, name in sorted(lexicon_phones(lexicon, Silence(silences[0])).names.items())
              if name not in silences and name != "<eps>"]
    if not others:
        raise OptionError(f"{args[0]} has no phones besides --silence-phones={options.silence_phones}")
    positions = options.position_dependent_phones
    forms = [sum((phone_forms(phone, members is silences, positions) for phone in members), [])
             for members in (silences, others)]
    if positions:
        lexicon = with_positions(lexicon)
    nonterminals = read_text(options.nonterminals).split() if options.nonterminals else []
    before = [phone for phone in sum(forms, []) if phone == silences[0] or phone[-2:] in ("_E", "_S")]
    lang = make_lang(lexicon, SymbolTable.of(sum(forms, []), "phone"), Silence(silences[0], options.silence_prob),
                     nonterminals, before if positions else None)
    if options.unknown_word and options.unknown_word not in lang.words:
        raise OptionError(f"--unknown-word={options.unknown_word} is not in {args[0]}")
    write_lang(args[1], lang)
    numbers = [[lang.phones[phone] for phone in phones] for phones in forms]
    topology = chain_topology(sum(numbers, [])) if options.chain else left_to_right_topology(numbers[1], numbers[0])
    write_object(f"{args[1]}/topo", topology.write, binary=False)
    write_phone_lists(args[1], lang.phones, silences, others, positions)
    write_text(f"{args[1]}/lexicon.txt", "".join(
        " ".join([entry.word,
                  *([f"{entry.probability:g}"] if any(other.probability < 1.0 for other in lexicon) else []),
                  *entry.phones]) + "\n" for entry in lexicon))
    if options.unknown_word:
        write_text(f"{args[1]}/oov.txt", f"{options.unknown_word}\n")
        write_text(f"{args[1]}/oov.int", f"{lang.words[options.unknown_word]}\n")
    log.log(f"Wrote {args[1]}, of {len(lexicon)} pronunciations and {len(sum(forms, []))} phones")
    return 0


@kaldi_command("arpa2fst", "Language models", "Convert an ARPA language model to an FST.", """
Convert an n-gram language model in ARPA form to an FST of words (G.fst), with a state for each history. With
--disambig-symbol, back-off arcs have this input label; otherwise they are epsilons, and <s> and </s> are labels of
arcs. Without --read-symbol-table, words are numbered as they appear, and the FST has the symbol table.

Usage: arpa2fst [options] <arpa-rxfilename> [<fst-wxfilename>]
e.g.:
 arpa2fst --disambig-symbol=#0 --read-symbol-table=data/lang/words.txt lm.arpa G.fst
See also: arpa-to-const-arpa, fstisstochastic, make-graph
""", arguments=(1, 2), options=[
    option("bos-symbol", str, "<s>", "Word at the beginning of sentences"),
    option("eos-symbol", str, "</s>", "Word at the end of sentences"),
    option("disambig-symbol", str, "", "Input symbol of back-off arcs, such as #0 (empty: epsilon)"),
    option("read-symbol-table", str, "", "Symbol table, words.txt; n-grams with other words are left out"),
    option("write-symbol-table", str, "", "File to which the symbol table is written"),
    option("keep-symbols", bool, False, "Store the symbol table in the FST"),
    option("ilabel-sort", bool, True, "Sort arcs by input label"),
    _MAX_ARPA_WARNINGS,
])
def arpa_to_fst(args: list[str], options: Options) -> int:
    from nnet3py.cli.fst.graph_files import write_graph
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.arpa_graph import Sentence, arpa_graph
    from nnet3py.fst.text import symbols_text, with_symbols
    from nnet3py.io.streams import open_output

    target = [*args, "-"][1]
    symbols = _read_word_symbols(options)
    bos, eos = (symbols.setdefault(_bytes(word), max(symbols.values(), default=-1) + 1)
                for word in (options.bos_symbol, options.eos_symbol))
    warn = Warner(options.max_arpa_warnings)
    arpa = read_arpa(args[0], WordIds(symbols, grow=not options.read_symbol_table), warn)
    backoff = symbols[_bytes(options.disambig_symbol)] if options.disambig_symbol else 0
    graph = arpa_graph(arpa, Sentence(bos, eos, backoff), warn, options.ilabel_sort)
    if options.write_symbol_table:
        with open_output(options.write_symbol_table) as stream:
            stream.write(symbols_text(symbols))
    keep = options.keep_symbols or not (options.read_symbol_table or options.write_symbol_table)
    write_graph(target, with_symbols(graph, symbols, symbols, target) if keep else graph)
    return 0


def _read_word_symbols(options: Options) -> dict[bytes, int]:
    from nnet3py.fst.text import read_symbols

    if not options.read_symbol_table:
        return {b"<eps>": 0, **({_bytes(options.disambig_symbol): 1} if options.disambig_symbol else {})}
    symbols = read_symbols(options.read_symbol_table)
    if options.disambig_symbol and _bytes(options.disambig_symbol) not in symbols:
        raise UsageError(f"the symbol table {options.read_symbol_table} has no symbol {options.disambig_symbol}",
                         "give the words.txt of a lang folder")
    return symbols


def _bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


@kaldi_command("arpa-to-const-arpa", "Language models", "Convert an ARPA language model to const-ARPA form.", """
Convert an n-gram language model in ARPA form, with integers for words, to const-ARPA form, a file in which n-grams are
looked up without reading it all.

Usage: arpa-to-const-arpa [options] <arpa-rxfilename> <const-arpa-wxfilename>
e.g.:
 arpa-to-const-arpa --bos-symbol=1 --eos-symbol=2 lm.int.arpa G.carpa
See also: arpa2fst, lattice-lmrescore-const-arpa
""", arguments=(2, 2), options=[
    option("bos-symbol", int, -1, "Integer of <s>; must be given"),
    option("eos-symbol", int, -1, "Integer of </s>; must be given"),
    option("unk-symbol", int, -1, "Integer of the unknown word (-1: none)"),
    _MAX_ARPA_WARNINGS,
])
def arpa_to_const_arpa(args: list[str], options: Options) -> int:
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.const_arpa import build_const_arpa

    if options.bos_symbol == -1 or options.eos_symbol == -1:
        raise UsageError("--bos-symbol and --eos-symbol must be given",
                         "they are the numbers of <s> and </s> in words.txt")
    log.log(f"Reading {args[0]}", "BuildConstArpaLm", "const-arpa-lm.cc", 1078)
    arpa = read_arpa(args[0], WordIds(None), Warner(options.max_arpa_warnings))
    build_const_arpa(arpa, options.bos_symbol, options.eos_symbol, options.unk_symbol).write(args[1])
    return 0


# -- decoding graphs ---------------------------------------------------------------------------------------------------


@kaldi_command("make-graph", "Graphs", "Make a decoding graph from a lexicon, a grammar and a model.", """
Make a graph folder: the decoding graph HCLG.fst, from transition-ids to words, with words.txt, phones.txt and phones/,
as Kaldi's utils/mkgraph.sh does.

<lexicon> is a file with lines WORD PHONE ... (or WORD PROBABILITY PHONE ...), or a lang folder of prepare-lang or
Kaldi's utils/prepare_lang.sh. <grammar> is "loop" (any sequence of words, with equal probabilities), text:FILE (lines
UTTERANCE WORD ..., from which an n-gram model of order --order with Witten-Bell smoothing is estimated), an ARPA file,
or an FST such as G.fst. If the lang folder has nonterminals, such as #nonterm:contacts, the grammar may use them like
words, and the graph is a part for make-grammar-fst.

Usage: make-graph [options] <lexicon> <grammar> <tree> <model> <graph-dir>
e.g.:
 make-graph --phones=data/phones.txt --silence-phone=SIL data/lexicon.txt loop exp/tree exp/final.mdl exp/graph
or, for a chain model:
 make-graph --self-loop-scale=1.0 data/lang data/lm.arpa exp/chain/tree exp/chain/final.mdl exp/chain/graph
See also: nnet3-latgen-faster, word-error-rate
""", arguments=(5, 5), options=[
    option("transition-scale", float, 1.0, "Factor of the log-probabilities of transitions between states"),
    option("self-loop-scale", float, 0.1, "Factor of the log-probabilities of staying in a state, and of leaving it; "
           "1.0 for chain models"),
    option("phones", str, "", "phones.txt of the model, for a lexicon that is a file (empty: --silence-phone is 1, the "
           "others follow in alphabetical order)"),
    option("silence-phone", str, "", "Optional silence before, between and after words, for a lexicon file (empty: "
           "none)"),
    option("silence-prob", float, 0.5, "Probability of the optional silence", least=0, below=1),
    option("order", int, 2, "Order of the n-gram model for text:FILE", least=1),
    option("word-penalty", float, 0.0, "Cost added for each word, for the grammar loop"),
    option("as-nonterminal", bool, False, "Make the graph of a nonterminal, between #nonterm_begin and #nonterm_end; "
           "needs a lang folder with nonterminals"),
    option("write-lang", str, "", "Folder to which words.txt, phones.txt, L.fst and L_disambig.fst are written (empty: "
           "none)"),
])
def make_graph(args: list[str], options: Options) -> int:
    from nnet3py.decoding.graph import make_graph, write_graph, write_lang
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    lexicon, grammar, tree_file, model_file, folder = args
    tree = read_object(tree_file, ContextDependency.read)
    model = read_transition_model(model_file)
    lang = _read_lang(lexicon, options)
    sentences = _read_grammar(grammar, lang, options)
    if options.as_nonterminal:
        from nnet3py.decoding.grammar import as_nonterminal

        if lang.nonterminals is None:
            raise UsageError(f"--as-nonterminal=true, but {lexicon} has no nonterminals",
                             "give a folder of prepare-lang --nonterminals=FILE")
        sentences = as_nonterminal(sentences, lang.words)
    graph = make_graph(lang, sentences, tree, model, options.transition_scale, options.self_loop_scale)
    write_graph(folder, graph, lang, model)
    if options.write_lang:
        write_lang(options.write_lang, lang)
    log.log(f"Wrote {folder}/HCLG.fst, of {graph.num_states} states and {graph.num_arcs} arcs")
    return 0


def _read_lang(lexicon: str, options: Options) -> Lang:
    from nnet3py.decoding.graph import read_lang
    from nnet3py.decoding.lexicon import Silence, make_lang, read_lexicon
    from nnet3py.decoding.symbols import SymbolTable

    if os.path.isdir(lexicon):
        given = [name for name in ("phones", "silence-phone", "silence-prob") if options.given(name)]
        if given:
            raise UsageError(f"--{given[0]} is for a lexicon file, but {lexicon} is a lang folder, which has its own "
                             "phones and silence", f"leave out --{given[0]}")
        return read_lang(lexicon)
    phones = SymbolTable.read(options.phones, "phone") if options.phones else None
    probability = options.silence_prob if options.silence_phone else 0.0
    return make_lang(read_lexicon(lexicon), phones, Silence(options.silence_phone, probability))


def _read_grammar(name: str, lang: Lang, options: Options) -> Fst:
    from nnet3py.decoding.grammar import Ngram, ngram_fst, read_grammar, word_loop
    from nnet3py.decoding.graph import read_fst_file
    from nnet3py.decoding.symbols import grammar_words, read_transcripts
    from nnet3py.io.streams import open_input
    from nnet3py.transducers.fst import MAGIC

    if name == "loop":
        return word_loop(lang.words, penalty=options.word_penalty)
    kind, _, text = name.partition(":")
    if kind == "text":
        sentences = read_transcripts(text)
        unknown = {word for words in sentences.values() for word in words if word not in lang.words}
        if unknown:
            log.warning(f"{len(unknown)} words of {text} are not in the lexicon, such as {min(unknown)}")
        return ngram_fst(Ngram.estimate(sentences.values(), options.order, grammar_words(lang.words)), lang.words)
    with open_input(name) as stream:
        is_fst = stream.read(len(MAGIC)) == MAGIC
    return read_fst_file(name) if is_fst else read_grammar(name, lang.words)


@kaldi_command("make-phone-loop", "Graphs", "Make a decoding graph of phones from a model alone.", """
Make a graph folder for phone recognition without words: HCLG.fst from transition-ids to phones, words.txt with the
phones' names, and phones/word_boundary.int. Programs that decode with a graph folder, or with HCLG.fst, recognize
phones with it.

Without --phone-lm any phone may follow any other, with equal probabilities. Without --tree a phone may use the pdfs of
any context, and phones with the same pdfs are one; with --tree it uses those of the neighboring phones. With
--phone-lm, such as the phone_lm.fst of chain training, phones have the probabilities of this language model.

Usage: make-phone-loop [options] <model> <graph-dir>
e.g.:
 make-phone-loop --phones=exp/chain/phones.txt exp/chain/final.mdl exp/chain/graph_phones
 make-phone-loop --phones=lang/phones.txt --tree=exp/chain/tree --phone-lm=exp/chain/phone_lm.fst exp/chain/final.mdl \\
    exp/chain/graph_phones
See also: nnet3-transcribe --graph, nnet3-latgen-faster, make-graph
""", arguments=(2, 2), options=[
    option("phones", str, "", "phones.txt of the model (empty: names are integers); word-position suffixes (_B, _I, "
           "_E, _S) are removed"),
    option("tree", str, "", "Tree of the model (empty: pdfs of any context)"),
    option("phone-lm", str, "", "FST that accepts sequences of the model's phones (empty: any sequence); needs --tree"),
    option("insertion-penalty", float, 0.0, "Cost added for each phone; a negative one gives more and shorter phones"),
    option("self-loop-scale", float, 1.0, "Factor of the log-probabilities of staying in a state, and of leaving it; "
           "1.0 for chain models, 0.1 for others"),
])
def make_phone_loop(args: list[str], options: Options) -> int:
    from nnet3py.decoding.graph import phone_loop
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import write_text
    from nnet3py.transducers.fst_text import read_fst_file, write_fst_file

    model_file, folder = args
    model = read_transition_model(model_file)
    loop = phone_loop(
        model, SymbolTable.read(options.phones, "phone").names if options.phones else None,
        insertion_penalty=options.insertion_penalty, self_loop_scale=options.self_loop_scale,
        tree=read_object(options.tree, ContextDependency.read) if options.tree else None,
        phone_lm=read_fst_file(options.phone_lm) if options.phone_lm else None)
    try:
        os.makedirs(os.path.join(folder, "phones"), exist_ok=True)
    except OSError as error:
        raise Nnet3Error(f"the folder {folder} cannot be made: {error.strerror}") from None
    loop.phones.write(os.path.join(folder, "words.txt"))
    write_text(os.path.join(folder, "phones", "word_boundary.int"),
               "".join(f"{phone} singleton\n" for phone in model.topology.phones))     # each phone is a word
    write_fst_file(os.path.join(folder, "HCLG.fst"), loop.graph)
    log.log(f"Wrote {folder}/HCLG.fst, of {loop.graph.num_states} states and {loop.graph.num_arcs} arcs, with "
            f"{len(loop.phones) - 1} phones")
    return 0
