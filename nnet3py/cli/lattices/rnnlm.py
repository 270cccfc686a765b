"""Programs on RNN language models: word embeddings, log-probabilities of sentences, rescoring of lattices."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.tables import rescore_lattices, rescore_within_beam
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY, COMPUTE, DEVICE, OPTIM, optimize_options, set_up, with_default
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import FormatError, within
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.option_fields import settings_of
from nnet3py.rnnlm.folder import RnnlmOptions

if TYPE_CHECKING:
    from nnet3py.io.streams import InputStream
    from nnet3py.rnnlm.network import RnnlmNetwork

_SENTENCES_AT_ONCE = 256
# Kaldi: RnnlmComputeStateComputationOptions.
_NETWORK = (
    *declared(settings_of(RnnlmOptions)),
    option("debug-computation", bool, False, "Log every command that is run"), *OPTIM, *COMPUTE,
    *with_default(DEVICE, "use-gpu", "no"),
)
_ORDER = option("max-ngram-order", int, 3, "Histories that share their last MAX_NGRAM_ORDER - 1 words are one state, "
                "with the costs of the first that was seen (0: all histories differ)", least=0)


def _network(options: Options, network: str, embedding: str) -> RnnlmNetwork:
    """Read an RNN language model: the network and word embedding of these files, with the ``_NETWORK`` options."""
    from nnet3py.network.model_file import read_nnet
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
    from nnet3py.rnnlm.network import RnnlmNetwork
    from nnet3py.rnnlm.word_embedding import WordEmbedding

    rnnlm_options = fields_from(options, RnnlmOptions())
    rnnlm_options.check()
    device, nnet = set_up(options), read_nnet(network)
    modes = [change for name, change in (("batchnorm-test-mode", set_batchnorm_test_mode),
                                                 ("dropout-test-mode", set_dropout_test_mode))
             if name not in options or options[name]]
    for change in modes:
        change(nnet, True)
    return RnnlmNetwork(nnet, WordEmbedding.read(embedding), rnnlm_options, device,
                        optimize=optimize_options(options), training_mode=len(modes) < 2,
                        debug=options["computation.debug"] or options.debug_computation,
                        cache_dir=options["compiler.cache-dir"] or None)


@kaldi_command("rnnlm-get-word-embedding", "Language models",
               "Compute the word embedding of an RNN language model.", """
Compute the word embedding matrix of an RNN language model: the sparse matrix of word features times the feature
embedding.

Usage: rnnlm-get-word-embedding [options] <word-features-rxfilename> <feature-embedding-rxfilename> \
<word-embedding-wxfilename>
e.g.:
 rnnlm-get-word-embedding word_feats.txt feat_embedding.final.mat word_embedding.mat
See also: rnnlm-sentence-probs, lattice-lmrescore-kaldi-rnnlm
""", arguments=(3, 3), options=[BINARY])
def rnnlm_get_word_embedding(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.object_files import write_object
    from nnet3py.rnnlm.word_embedding import WordEmbedding

    matrix = WordEmbedding.read(args[1], args[0]).matrix()
    write_object(args[2], lambda writer: FLOAT_MATRIX.write(writer, matrix), options.binary)
    return 0


@kaldi_command("rnnlm-sentence-probs", "Language models",
               "Print log-probabilities of sentences by an RNN language model.", """
Print log-probabilities of sentences by an RNN language model. The text has lines KEY WORD-ID WORD-ID ...; the output
has lines KEY LOG-PROB LOG-PROB ..., one for each word, and the last for the end of the sentence.

Usage: rnnlm-sentence-probs [options] <rnnlm> <word-embedding-matrix> <text-rxfilename>
e.g.:
 rnnlm-sentence-probs $(cat rnnlm/special_symbol_opts.txt) rnnlm/final.raw word_embedding.mat text.int > log_probs
See also: rnnlm-get-word-embedding, nbest-to-linear, lattice-lmrescore-kaldi-rnnlm
""", arguments=(3, 3), options=[
    *_NETWORK,
    option("batchnorm-test-mode", bool, True, "Set batch normalization to test mode"),
    option("dropout-test-mode", bool, True, "Set dropout to test mode"),
])
def rnnlm_sentence_probs(args: list[str], options: Options) -> int:
    from nnet3py.io.streams import complete_input
    from nnet3py.rnnlm.network import sentence_log_probs

    network = _network(options, args[0], args[1])
    with complete_input(args[2]) as stream, within(args[2]):
        for block in _sentence_blocks(stream):
            scores = sentence_log_probs(network, [words for _, words in block])
            for (key, _), values in zip(block, scores, strict=True):
                sys.stdout.write(f"{key} {' '.join(f'{value:g}' for value in values)}\n")
    return 0


def _sentence_blocks(stream: InputStream) -> Iterator[list[tuple[str, list[int]]]]:
    """Yield keys and word ids of the lines of a text, in lists of up to ``_SENTENCES_AT_ONCE`` lines."""
    block: list[tuple[str, list[int]]] = []
    for number, line in enumerate(stream, 1):
        key, *words = line.decode("utf-8", "surrogateescape").split() or [""]
        if not all(word.isascii() and word.isdigit() for word in words):
            raise FormatError(f"line {number}: expected integer word ids after the key, found {' '.join(words)[:80]!r}",
                              hint="sym2int.pl -f 2- words.txt turns words into numbers")
        block += [(key, list(map(int, words)))] if key else []
        if len(block) == _SENTENCES_AT_ONCE:
            yield block
            block = []
    if block:
        yield block


@kaldi_command("lattice-lmrescore-kaldi-rnnlm", "Lattices", "Add the costs of an RNN language model.", """
Add --lm-scale times the costs of an RNN language model to the graph costs of lattices. Before, subtract those of the
old language model: lattice-lmrescore --lm-scale=-1.0 (-0.5, with --lm-scale=0.5 here, interpolates the two models).
lattice-lmrescore-kaldi-rnnlm-pruned does both, and is faster.

Usage: lattice-lmrescore-kaldi-rnnlm [options] <word-embedding> <rnnlm> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-lmrescore --lm-scale=-0.5 ark:in.lats 'fstproject --project_output=true data/lang/G.fst|' ark:- | \\
   lattice-lmrescore-kaldi-rnnlm --lm-scale=0.5 --bos-symbol=1 --eos-symbol=2 word_embedding.mat rnnlm/final.raw \\
   ark:- ark:out.lats
See also: lattice-lmrescore-kaldi-rnnlm-pruned, lattice-lmrescore, rnnlm-sentence-probs
""", arguments=(4, 4), options=[
    option("lm-scale", float, 1.0, "Factor of the RNN language model's costs"), _ORDER, *_NETWORK])
def lattice_lmrescore_kaldi_rnnlm(args: list[str], options: Options) -> int:
    from nnet3py.rnnlm.rescoring import rescored_with_rnnlm

    network = _network(options, args[1], args[0])
    return rescore_lattices(args[2:], lambda lattice: rescored_with_rnnlm(lattice, network, options.lm_scale,
                                                                          options.max_ngram_order))


@kaldi_command("lattice-lmrescore-kaldi-rnnlm-pruned", "Lattices",
               "Replace the language model by an RNN, within a beam.", """
Replace language model costs in lattices: subtract --lm-scale times the old model's costs and add --lm-scale times those
of an RNN language model, only on paths within a beam. The lattices should be determinized; the results are not.

Usage: lattice-lmrescore-kaldi-rnnlm-pruned [options] <old-lm> <word-embedding> <rnnlm> <lattice-rspecifier> \
<lattice-wspecifier>
e.g.:
 lattice-lmrescore-kaldi-rnnlm-pruned --bos-symbol=1 --eos-symbol=2 data/lang/G.fst word_embedding.mat \\
   rnnlm/final.raw ark:in.lats ark:out.lats
 lattice-lmrescore-kaldi-rnnlm-pruned --bos-symbol=1 --eos-symbol=2 --use-const-arpa=true data/lang_big/G.carpa \\
   'rnnlm-get-word-embedding rnnlm/word_feats.txt rnnlm/feat_embedding.final.mat - |' rnnlm/final.raw \\
   ark:in.lats ark:out.lats
See also: lattice-lmrescore-kaldi-rnnlm, lattice-lmrescore-pruned, rnnlm-sentence-probs
""", arguments=(5, 5), options=[
    option("lm-scale", float, 0.5, "Factor of both models' costs; the old ones are subtracted"),
    option("acoustic-scale", float, 0.1, "Factor of acoustic costs where paths are compared; results have them "
           "unscaled"),
    _ORDER, option("use-const-arpa", bool, False, "<old-lm> is in const-ARPA form"),
    *declared(settings_of(PrunedCompositionOptions)), *_NETWORK])
def lattice_lmrescore_kaldi_rnnlm_pruned(args: list[str], options: Options) -> int:
    from nnet3py.lattices.pruned_composition import ConstArpaLm, FstLm
    from nnet3py.rnnlm.rescoring import rescored_within_beam

    log.log("Reading old LMs...")
    old: Any = ConstArpaLm.read(args[0]) if options.use_const_arpa else FstLm.read(args[0])
    network = _network(options, args[2], args[1])
    return rescore_within_beam(args[3:], lambda lattice, limits: rescored_within_beam(
        lattice, old, network, options.lm_scale, options.max_ngram_order, limits), options)
