"""Decoding of features with the network computed chunk after chunk: nnet3-latgen-faster-looped, and -parallel."""
from __future__ import annotations

from nnet3py.cli.decoding.decode_table import DECODER, LATTICES_HELP, decode_features
from nnet3py.cli.decoding.looped_options import LOOPED, looped_computer
from nnet3py.cli.nnet.utterances import IVEC
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, option

_STREAMS_HELP = """
Outputs of components that later frames need are kept from chunk to chunk, so a recurrence is not interrupted and no
frame is computed twice. Networks with recurrences backwards in time, such as BLSTMs, need nnet3-latgen-faster. Of
--online-ivectors, each chunk takes the row for the frame after its last input, or the last row.
"""


@kaldi_command("nnet3-latgen-faster-looped", "Decoding",
               "Decode features, computed chunk after chunk as for a stream.", f"""
The same as nnet3-latgen-faster, with the network computed chunk after chunk as for a stream of frames (looped).
{_STREAMS_HELP}{LATTICES_HELP}
Usage: nnet3-latgen-faster-looped [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-looped --frames-per-chunk=20 --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp \
ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster, nnet3-latgen-faster-looped-parallel
""", arguments=(4, 6), options=[*DECODER, *LOOPED, *IVEC, *DEVICE])
def latgen_faster_looped(args: list[str], options: Options) -> int:
    return decode_features(args, options, looped_computer)


@kaldi_command("nnet3-latgen-faster-looped-parallel", "Decoding",
               "Decode features, chunk after chunk, with several threads.", f"""
The same as nnet3-latgen-faster-looped, with --num-threads utterances decoded at a time; as many threads compute the
network.
{_STREAMS_HELP}{LATTICES_HELP}
Usage: nnet3-latgen-faster-looped-parallel [options] <nnet-in> <fst-in|fsts-rspecifier> <features-rspecifier> \
<lattice-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 nnet3-latgen-faster-looped-parallel --num-threads=4 --acoustic-scale=0.1 final.mdl graph/HCLG.fst scp:feats.scp \
ark:lat.ark ark,t:words.txt
See also: nnet3-latgen-faster-looped, nnet3-latgen-faster-batch
""", arguments=(4, 6), options=[*DECODER, *LOOPED, *IVEC, *DEVICE, *(
    option(name, int, default, "No effect: utterances are computed one after another")
    for name, default in (("max-batch-size", 16), ("compute-interval", 2000)))])
def latgen_faster_looped_parallel(args: list[str], options: Options) -> int:
    return decode_features(args, options, looped_computer, in_threads=True)
