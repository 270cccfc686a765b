"""nnet3-latgen-grammar: decoding with graphs that are put together on the way."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.cli.decoding.decode_table import DECODER, LATTICES_HELP, decode_features
from nnet3py.cli.nnet.utterances import IVEC, SIMPLE
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options

if TYPE_CHECKING:
    from nnet3py.decoding.composed_graphs import GrammarGraph
    from nnet3py.hmm.transition_model import TransitionModel


@kaldi_command("nnet3-latgen-grammar", group="Decoding",
               help="nnet3-latgen-faster, with a grammar put together from parts while decoding.", usage=f"""
The same as nnet3-latgen-faster, with a grammar in parts that make-grammar-fst wrote: an arc that calls a nonterminal
leads into its graph, and back after it. Graphs may call each other, and themselves.
{LATTICES_HELP}
Usage: nnet3-latgen-grammar [options] <nnet-in> <grammar-fst-in> <features-rspecifier> <lattice-wspecifier> \
[<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-grammar --acoustic-scale=1.0 --frame-subsampling-factor=3 final.mdl HCLG.gra scp:feats.scp ark:lat.ark
See also: make-grammar-fst, nnet3-latgen-faster
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_grammar(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    def read_graph(model: TransitionModel) -> GrammarGraph:
        from nnet3py.decoding.composed_graphs import GrammarGraph

        return GrammarGraph.read(args[1], model)

    return decode_features(args, options, read_graph=read_graph)
