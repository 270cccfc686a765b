"""nnet3-latgen-faster, the same with threads, and the same for given log-likelihoods."""
from __future__ import annotations

from nnet3py.cli.decoding.decode_table import (
    DECODER,
    LATTICES_HELP,
    decode_features,
    decode_table,
    decoder_inputs,
)
from nnet3py.cli.nnet.utterances import IVEC, SIMPLE
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, option

_MAPPED = [*DECODER, option("acoustic-scale", float, 0.1, "Factor by which log-likelihoods are multiplied")]


@kaldi_command("nnet3-latgen-faster", group="Decoding", help="Decode features: lattices, words and alignments.",
               usage=f"""
Decode features with an acoustic model and a decoding graph: lattices, and the words and alignments of their best paths.
The logs of the model's priors, if it has any, are subtracted.
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
    """Decode; 1 if no utterance succeeded."""
    return decode_features(args, options)


@kaldi_command("nnet3-latgen-faster-parallel", group="Decoding", help="Decode features with several threads.",
               usage=f"""
The same as nnet3-latgen-faster, with --num-threads utterances decoded at a time; as many threads compute the network.
{LATTICES_HELP}
Usage: nnet3-latgen-faster-parallel [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-parallel --num-threads=4 --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp ark:lat.ark
See also: nnet3-latgen-faster
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_faster_parallel(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    return decode_features(args, options, in_threads=True)


@kaldi_command("latgen-faster-mapped", group="Decoding", help="Decode matrices of log-likelihoods of pdfs.", usage=f"""
Decode matrices of log-likelihoods, a column for each pdf, such as nnet3-compute writes: lattices, and the words and
alignments of their best paths.
{LATTICES_HELP}
Usage: latgen-faster-mapped [options] <trans-model-in> <fst-in|fsts-rspecifier> <loglikes-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 latgen-faster-mapped --acoustic-scale=0.1 final.mdl graph/HCLG.fst ark:loglikes.ark ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster, nnet3-compute, make-graph
""", arguments=(4, 6), options=_MAPPED)
def latgen_faster_mapped(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    return _decode_log_likes(args, options, 1)


@kaldi_command("latgen-faster-mapped-parallel", group="Decoding",
               help="latgen-faster-mapped, with several utterances at a time.", usage=f"""
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
    """Decode; 1 if no utterance succeeded."""
    return _decode_log_likes(args, options, max(options.num_threads, 1))


def _decode_log_likes(args: list[str], options: Options, num_threads: int) -> int:
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    model = read_object(args[0], TransitionModel.read)
    inputs = decoder_inputs(args[1], args[2], model)
    return decode_table(args[3:], options, model, inputs, lambda key, matrix: matrix * options.acoustic_scale,
                        num_threads=num_threads)
