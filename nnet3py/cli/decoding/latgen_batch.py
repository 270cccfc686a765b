"""nnet3-latgen-faster-batch: decoding, with the network computed for many utterances at a time."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnet3py.cli.decoding.decode_table import DECODER, LATTICES_HELP, decode_table
from nnet3py.cli.nnet.utterance_batches import BATCH, MissingData, warn_of, with_ivectors
from nnet3py.cli.nnet.utterances import IVEC, SIMPLE, IvectorSource, check_ivector_options, compute_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import DEVICE
from nnet3py.cli.process.options import Options, fields_from
from nnet3py.errors import Nnet3Error
from nnet3py.runtime.options import BatchOptions

if TYPE_CHECKING:
    import numpy as np

    from nnet3py.decoding.decoding_graph import DecodingGraph


@kaldi_command("nnet3-latgen-faster-batch", group="Decoding", help="Decode features, many utterances at a time.",
               usage=f"""
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
    """Decode; 1 if no utterance succeeded."""
    from nnet3py.acoustic_model import read_model
    from nnet3py.cli.process.compute_setup import set_up
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
