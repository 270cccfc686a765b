"""make-graph: a decoding graph from lexicon, grammar and model."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.decoding.lexicon import Lang
    from nnet3py.transducers.fst import Fst


@kaldi_command("make-graph", usage="""
Make the decoding graph HCLG.fst, from transition-ids to words, and words.txt, phones.txt and phones/ beside it: what
Kaldi's utils/mkgraph.sh does.

<lexicon> is a file with lines WORD PHONE ... (or WORD PROBABILITY PHONE ...), or a lang folder of Kaldi's
utils/prepare_lang.sh. <grammar> is the word loop (any sequence of words, all equally probable), text:FILE (lines
UTTERANCE WORD ..., from which an n-gram model of order --order is estimated, with Witten-Bell smoothing), an ARPA file,
or an FST like G.fst. With a lang folder that has nonterminals, such as #nonterm:contacts, these may stand among the
words, and the graph becomes a part of a grammar: see make-grammar-fst.

Usage: make-graph [options] <lexicon> <grammar> <tree> <model> <graph-dir>
e.g.:
 make-graph --phones=data/phones.txt --silence-phone=SIL data/lexicon.txt loop exp/tree exp/final.mdl exp/graph
or, for a chain model:
 make-graph --self-loop-scale=1.0 data/lang data/lm.arpa exp/chain/tree exp/chain/final.mdl exp/chain/graph
See also: nnet3-latgen-faster, word-error-rate
""", arguments=(5, 5), options=[
    option("transition-scale", float, 1.0, "Factor of the costs of transitions that are not self-loops"),
    option("self-loop-scale", float, 0.1, "Factor of the costs of self-loops; 1.0 for chain models"),
    option("phones", str, "", "phones.txt of the model, for a lexicon that is a file (empty: --silence-phone is 1, the "
           "others follow in alphabetical order)"),
    option("silence-phone", str, "", "Phone that may stand before, between and after words, for a lexicon file"),
    option("silence-prob", float, 0.5, "How probable that phone is there"),
    option("order", int, 2, "Order of an n-gram that is estimated from text"),
    option("word-penalty", float, 0.0, "Cost added for each word of the grammar 'loop'"),
    option("as-nonterminal", bool, False, "The graph is for a nonterminal: #nonterm_begin comes before what the "
           "grammar allows, #nonterm_end after it. <lexicon> is then a lang folder with nonterminals"),
    option("write-lang", str, "", "Write words.txt, phones.txt, L.fst and L_disambig.fst to this folder, too"),
])
def make_graph(args: list[str], options: Options) -> int:
    """Make a graph."""
    from nnet3py.decoding.graph import make_graph, write_graph, write_lang
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    lexicon, grammar, tree_file, model_file, folder = args
    tree = read_object(tree_file, ContextDependency.read)
    model = read_transition_model(model_file)
    lang = _lang(lexicon, options)
    sentences = _grammar(grammar, lang, options)
    if options.as_nonterminal:
        from nnet3py.decoding.grammar import as_nonterminal

        if lang.nonterminals is None:
            raise UsageError(f"--as-nonterminal=true, but {lexicon} has no nonterminals",
                             "give a folder of prepare-lang --nonterminals=FILE")
        sentences = as_nonterminal(sentences, lang.words)
    graph = make_graph(lang, sentences, tree, model, options.transition_scale,
                       options.self_loop_scale)
    write_graph(folder, graph, lang, model)
    if options.write_lang:
        write_lang(options.write_lang, lang)
    log.log(f"Wrote {folder}/HCLG.fst, of {graph.num_states} states and {graph.num_arcs} arcs")
    return 0


def _lang(lexicon: str, options: Options) -> Lang:
    import os

    from nnet3py.decoding.graph import read_lang
    from nnet3py.decoding.lexicon import Silence, make_lang, read_lexicon
    from nnet3py.decoding.symbols import SymbolTable

    if os.path.isdir(lexicon):
        given = [name for name in ("phones", "silence-phone", "silence-prob") if options.given(name)]
        if given:
            raise UsageError(f"--{given[0]} is for a lexicon file, but {lexicon} is a lang folder, which has its own")
        return read_lang(lexicon)
    phones = SymbolTable.read(options.phones, "phone") if options.phones else None
    probability = options.silence_prob if options.silence_phone else 0.0
    return make_lang(read_lexicon(lexicon), phones, Silence(options.silence_phone, probability))


def _grammar(name: str, lang: Lang, options: Options) -> Fst:
    from nnet3py.decoding.grammar import grammar_words, read_transcripts, word_loop
    from nnet3py.decoding.graph import read_fst_file
    from nnet3py.decoding.ngram import Ngram, ngram_fst, read_grammar
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
