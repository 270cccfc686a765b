"""Decoding of tables: nnet3-latgen-faster and -parallel for features, latgen-faster-mapped for log-likelihoods.

nnet3-latgen-faster-batch: decoding, with the network computed for many utterances at a time.

nnet3-latgen-faster-lookahead: decoding with HCL and G composed during the search.

nnet3-latgen-grammar: decoding with graphs of nonterminals that are combined during the search.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py.cli.decoding.decode_table import (
    DECODER,
    LATTICES_HELP,
    decode_features,
    decode_table,
    decoder_inputs,
)
from nnet3py.cli.nnet.utterances import (
    BATCH,
    IVEC,
    SIMPLE,
    IvectorSource,
    MissingData,
    check_ivector_options,
    compute_options,
    warn_of,
    with_ivectors,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE, set_up
from nnet3py.cli.process.options import Options, fields_from, option
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.runtime.options import BatchOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.composed_graphs import GrammarGraph, LookaheadGraph
    from nnet3py.decoding.decoding_graph import DecodingGraph
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.hmm.transition_model import TransitionModel


_MAPPED = [*DECODER, option("acoustic-scale", float, 0.1, "Factor by which log-likelihoods are multiplied")]


@kaldi_command("nnet3-latgen-faster", "Decoding", "Decode features: lattices, words and alignments.", f"""
Decode features with an acoustic model and a decoding graph, or a graph for each utterance, and write lattices, and the
words and alignments of their best paths. The logs of the model's priors, if it has any, are subtracted.
{LATTICES_HELP}
Usage: nnet3-latgen-faster [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> <lattice-wspecifier> \
[<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster --acoustic-scale=0.1 --word-symbol-table=graph/words.txt final.mdl graph/HCLG.fst \
scp:feats.scp ark:lat.ark ark,t:words.txt
or, with a chain model:
 nnet3-latgen-faster --acoustic-scale=1.0 --frame-subsampling-factor=3 --beam=15 --lattice-beam=8 final.mdl \
graph/HCLG.fst scp:feats.scp ark:lat.ark
See also: make-graph, latgen-faster-mapped, lattice-best-path, word-error-rate
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_faster(args: list[str], options: Options) -> int:
    return decode_features(args, options)


@kaldi_command("nnet3-latgen-faster-parallel", "Decoding", "Decode features with several threads.", f"""
The same as nnet3-latgen-faster, with --num-threads utterances decoded at a time; as many threads compute the network.
{LATTICES_HELP}
Usage: nnet3-latgen-faster-parallel [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-parallel --num-threads=4 --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp ark:lat.ark
See also: nnet3-latgen-faster
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_faster_parallel(args: list[str], options: Options) -> int:
    return decode_features(args, options, in_threads=True)


@kaldi_command("latgen-faster-mapped", "Decoding", "Decode matrices of log-likelihoods of pdfs.", f"""
Decode matrices of log-likelihoods, a column for each pdf, such as nnet3-compute writes, and write lattices, and the
words and alignments of their best paths.
{LATTICES_HELP}
Usage: latgen-faster-mapped [options] <trans-model-in> <fst-in|fsts-rspecifier> <loglikes-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 latgen-faster-mapped --acoustic-scale=0.1 final.mdl graph/HCLG.fst ark:loglikes.ark ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster, nnet3-compute, make-graph
""", arguments=(4, 6), options=_MAPPED)
def latgen_faster_mapped(args: list[str], options: Options) -> int:
    return _decode_log_likes(args, options, 1)


@kaldi_command("latgen-faster-mapped-parallel", "Decoding",
               "latgen-faster-mapped, with several utterances at a time.", f"""
The same as latgen-faster-mapped, with --num-threads utterances decoded at a time.
{LATTICES_HELP}
Usage: latgen-faster-mapped-parallel [options] <trans-model-in> <fst-in|fsts-rspecifier> <loglikes-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 latgen-faster-mapped-parallel --num-threads=8 --acoustic-scale=0.1 final.mdl graph/HCLG.fst ark:loglikes.ark \
ark:lat.ark
See also: latgen-faster-mapped
""", arguments=(4, 6), options=[*_MAPPED, option("num-threads", int, 1, "Utterances decoded at a time"),
                                option("num-threads-total", int, 0, "No effect: it is about Kaldi's memory")])
def latgen_faster_mapped_parallel(args: list[str], options: Options) -> int:
    return _decode_log_likes(args, options, max(options.num_threads, 1))


def _decode_log_likes(args: list[str], options: Options, num_threads: int) -> int:
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    model = read_object(args[0], TransitionModel.read)
    inputs = decoder_inputs(args[1], args[2], model)
    return decode_table(args[3:], options, model, inputs, lambda key, matrix: matrix * options.acoustic_scale,
                        num_threads=num_threads)


@kaldi_command("nnet3-latgen-faster-batch", "Decoding", "Decode features, many utterances at a time.", f"""
The same as nnet3-latgen-faster, with the network computed for chunks of many utterances at a time, and --num-threads
utterances decoded at a time.
{LATTICES_HELP}
Usage: nnet3-latgen-faster-batch [options] <nnet-in> <fst-in> <features-rspecifier> <lattice-wspecifier> \
[<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-batch --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster, nnet3-compute-batch
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *BATCH, *DEVICE])
def latgen_faster_batch(args: list[str], options: Options) -> int:
    from nnet3py.acoustic_model import read_model
    from nnet3py.decoding.decoding_graph import DecodingGraph
    from nnet3py.engine.threads import num_threads
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.runtime.batch import BatchComputer

    check_ivector_options(options)
    device = set_up(options)
    model = read_model(args[0])
    computer = BatchComputer(prepare_for_test(model.nnet), compute_options(options),
                             fields_from(options, BatchOptions()), model.priors, device)
    graph = DecodingGraph.read(args[1], model.transition_model)

    def inputs() -> Iterator[tuple[str, DecodingGraph | None, Any]]:
        with SequentialReader(args[2], FLOAT_MATRIX) as features, IvectorSource(options) as ivectors:
            source = with_ivectors(features, ivectors)
            for key, output in computer.compute(source, options.online_ivector_period):
                if isinstance(output, MissingData):
                    warn_of(key, output)
                    yield key, None, None
                else:
                    yield key, graph, output

    return decode_table(args[3:], options, model.transition_model, inputs(), _checked,
                        options.frame_subsampling_factor, num_threads())


def _checked(key: str, output: np.ndarray | Nnet3Error) -> np.ndarray:
    if isinstance(output, Nnet3Error):
        raise output
    return output


@kaldi_command("nnet3-latgen-faster-lookahead", "Decoding",
               "nnet3-latgen-faster, with HCL and G composed while decoding.", f"""
The same as nnet3-latgen-faster, with a graph in two parts that are composed while decoding: HCL, and the grammar G,
which may be large, or differ each time. HCL is an olabel_lookahead FST and G has the relabeled words on its input side,
as HCLr.fst and Gr.fst of Kaldi's utils/mkgraph_lookahead.sh; or HCL is any FST from transition-ids to words, and G has
words on both sides. The third file, disambig_tid.int, lists the input labels of HCL that are disambiguation symbols.
{LATTICES_HELP}
Usage: nnet3-latgen-faster-lookahead [options] <nnet-in> <hcl-fst> <g-fst> <disambig-tids-in> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-lookahead --acoustic-scale=1.0 --frame-subsampling-factor=3 am/final.mdl graph/HCLr.fst \
graph/Gr.fst graph/disambig_tid.int scp:feats.scp ark:lat.ark
See also: nnet3-latgen-faster, make-graph
""", arguments=(6, 8), options=[
    *DECODER,
    option("phrases", str, "", "File of phrases, one per line, which replace G: only these phrases are recognized; "
           "needs --word-symbol-table"),
    option("boost-words", str, "", "File of lines WORD COST: the cost is subtracted from the word's costs in G; needs "
           "--word-symbol-table"),
    *SIMPLE, *IVEC, *DEVICE])
def latgen_faster_lookahead(args: list[str], options: Options) -> int:
    if options.phrases and options.boost_words:
        raise UsageError("--phrases and --boost-words cannot both be given: phrases replace the grammar whose costs "
                         "--boost-words changes")

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
    """Return the words of each line that is not blank; UsageError if there is none."""
    from nnet3py.decoding.symbols import read_text

    phrases = [line.split() for line in read_text(path).splitlines() if line.strip()]
    if not phrases:
        raise UsageError(f"expected lines of words in {path}, found none")
    return phrases


def _numbers(path: str) -> list[int]:
    from nnet3py.decoding.symbols import read_text

    text = read_text(path).split()
    if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in text):
        raise UsageError(f"expected numbers in {path}, found '{' '.join(text)[:40]}'")
    return [int(number) for number in text]


def _boosts(path: str, words: SymbolTable) -> dict[int, float]:
    """Read lines WORD COST: return the cost that is subtracted, by the word's number."""
    boosts = {}
    for line in _lines(path):
        try:
            word, cost = line
            boosts[words[word]] = float(cost)
        except ValueError:
            raise UsageError(f"expected lines 'WORD COST' in {path}, found '{' '.join(line)[:40]}'") from None
    for number, boost in boosts.items():
        if not abs(boost) < float("inf"):
            raise UsageError(f"expected finite costs in {path}, found {boost} for the word '{words.names[number]}'")
    return boosts


@kaldi_command("nnet3-latgen-grammar", "Decoding",
               "nnet3-latgen-faster, with a grammar put together from parts while decoding.", f"""
The same as nnet3-latgen-faster, with a grammar in parts that make-grammar-fst wrote: an arc that calls a nonterminal
leads into the graph of the nonterminal, whose end leads back. Graphs may call each other, and themselves.
{LATTICES_HELP}
Usage: nnet3-latgen-grammar [options] <nnet-in> <grammar-fst-in> <features-rspecifier> <lattice-wspecifier> \
[<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-grammar --acoustic-scale=1.0 --frame-subsampling-factor=3 final.mdl HCLG.gra scp:feats.scp ark:lat.ark
See also: make-grammar-fst, nnet3-latgen-faster
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_grammar(args: list[str], options: Options) -> int:
    def read_graph(model: TransitionModel) -> GrammarGraph:
        from nnet3py.decoding.composed_graphs import GrammarGraph

        return GrammarGraph.read(args[1], model)

    return decode_features(args, options, read_graph=read_graph)
