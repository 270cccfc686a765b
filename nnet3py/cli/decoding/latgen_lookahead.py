"""nnet3-latgen-faster-lookahead: decoding with HCL and G composed on the way."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.decoding.decode_table import DECODER, LATTICES_HELP, decode_features
from nnet3py.cli.nnet.utterances import IVEC, SIMPLE
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.decoding.composed_graphs import LookaheadGraph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.hmm.transition_model import TransitionModel


@kaldi_command("nnet3-latgen-faster-lookahead", group="Decoding",
               help="nnet3-latgen-faster, with HCL and G composed while decoding.", usage=f"""
The same as nnet3-latgen-faster, with a graph in two parts that are composed while decoding: HCL, and the grammar G,
which may be large, or differ each time. HCL is an olabel_lookahead FST, as Kaldi's utils/mkgraph_lookahead.sh
makes HCLr.fst, and G has its labels on the input side, as Gr.fst; or HCL is any FST from transition-ids to words, and G
has words on both sides. The third file lists the transition-ids above the model's that stand for nothing
(disambig_tid.int).
{LATTICES_HELP}
Usage: nnet3-latgen-faster-lookahead [options] <nnet-in> <hcl-fst> <g-fst> <disambig-tids-in> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-lookahead --acoustic-scale=1.0 --frame-subsampling-factor=3 am/final.mdl graph/HCLr.fst \
graph/Gr.fst graph/disambig_tid.int scp:feats.scp ark:lat.ark
See also: nnet3-latgen-faster, make-graph
""", arguments=(6, 8), options=[
    *DECODER,
    option("phrases", str, "", "File of phrases, one per line: only these are recognized, instead of what G allows; "
           "needs --word-symbol-table"),
    option("boost-words", str, "", "File of lines WORD COST: what is taken off the costs of words in G; needs "
           "--word-symbol-table"),
    *SIMPLE, *IVEC, *DEVICE])
def latgen_faster_lookahead(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    if options.phrases and options.boost_words:
        raise UsageError("--phrases and --boost-words cannot both be given: with phrases there is no other grammar")

    def read_graph(model: TransitionModel) -> LookaheadGraph:
        from nnet3py.decoding.composed_graphs import LookaheadGraph

        graph = LookaheadGraph.read(args[1], args[2], _numbers(args[3]), model)
        if options.phrases:
            words = _symbols(options, "--phrases")
            return graph.with_phrases([[words[word] for word in line] for line in _lines(options.phrases)])
        if options.boost_words:
            return graph.with_boosted(_boosts(options.boost_words, _symbols(options, "--boost-words")))
        return graph

    return decode_features([args[0], f"{args[1]} with {args[2]}", *args[4:]], options, read_graph=read_graph)


def _symbols(options: Options, asked_by: str) -> SymbolTable:
    from nnet3py.decoding.symbols import SymbolTable

    if not options.word_symbol_table:
        raise UsageError(f"{asked_by} needs --word-symbol-table=words.txt")
    return SymbolTable.read(options.word_symbol_table)


def _lines(path: str) -> list[list[str]]:
    """The words of each line that is not blank."""
    from nnet3py.decoding.symbols import read_text

    phrases = [line.split() for line in read_text(path).splitlines() if line.strip()]
    if not phrases:
        raise UsageError(f"expected phrases in {path}, found nothing")
    return phrases


def _numbers(path: str) -> list[int]:
    from nnet3py.decoding.symbols import read_text

    text = read_text(path).split()
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in text):
        raise UsageError(f"expected numbers in {path}, found '{' '.join(text)[:40]}'")
    return [int(number) for number in text]


def _boosts(path: str, words: SymbolTable) -> dict[int, float]:
    """How much less each word costs."""
    boosts = {}
    for line in _lines(path):
        try:
            word, cost = line
            boosts[words[word]] = float(cost)
        except ValueError:
            raise UsageError(f"expected lines 'WORD COST' in {path}, found '{' '.join(line)[:40]}'") from None
    if not all(abs(boost) < float("inf") for boost in boosts.values()):
        raise UsageError(f"expected finite costs in {path}")
    return boosts
