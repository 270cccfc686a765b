"""nnet3-latgen-faster, the same with threads, and its sister that takes log-likelihoods."""
from __future__ import annotations

from nnet3py.cli.command import kaldi_command
from nnet3py.cli.decode_table import (
    DECODER,
    LATTICES_HELP,
    decode_features,
    decode_table,
    decoder_inputs,
    decoder_options,
)
from nnet3py.cli.option_groups import DEVICE, IVEC, SIMPLE
from nnet3py.cli.options import Options, option


@kaldi_command("nnet3-latgen-faster", usage=f"""
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


@kaldi_command("nnet3-latgen-faster-parallel", usage=f"""
The same as nnet3-latgen-faster: --num-threads is the number of threads that compute the network.
{LATTICES_HELP}
Usage: nnet3-latgen-faster-parallel [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-parallel --num-threads=4 --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp ark:lat.ark
See also: nnet3-latgen-faster
""", arguments=(4, 6), options=[*DECODER, *SIMPLE, *IVEC, *DEVICE])
def latgen_faster_parallel(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    return decode_features(args, options)


@kaldi_command("latgen-faster-mapped", usage=f"""
Decode matrices of log-likelihoods, a column for each pdf, such as nnet3-compute writes: lattices, and the words and
alignments of their best paths.
{LATTICES_HELP}
Usage: latgen-faster-mapped [options] <trans-model-in> <fst-in|fsts-rspecifier> <loglikes-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 latgen-faster-mapped --acoustic-scale=0.1 final.mdl graph/HCLG.fst ark:loglikes.ark ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster, nnet3-compute, make-graph
""", arguments=(4, 6), options=[*DECODER, option("acoustic-scale", float, 0.1,
                                                 "Factor by which log-likelihoods are multiplied")])
def latgen_faster_mapped(args: list[str], options: Options) -> int:
    """Decode; 1 if no utterance succeeded."""
    from nnet3py.io.object_files import read_object
    from nnet3py.io.transition_model import TransitionModel

    model = read_object(args[0], TransitionModel.read)
    inputs = decoder_inputs(args[1], args[2], model, decoder_options(options))
    return decode_table(args[3:], options, inputs, lambda key, matrix: matrix * options.acoustic_scale, 1)
