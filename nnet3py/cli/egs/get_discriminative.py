"""nnet3-discriminative-get-egs: discriminative examples from features, lattices and alignments."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.egs.options import EGS_OF_FEATURES
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from
from nnet3py.discriminative.options import SplittingOptions
from nnet3py.errors import Nnet3Error, within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.discriminative.make_egs import DiscriminativeExampleMaker


@kaldi_command("nnet3-discriminative-get-egs", group="Discriminative training",
               help="Make examples of discriminative training from lattices.", usage="""
Make examples for discriminative training from features, denominator lattices and numerator alignments: pieces of
utterances with context. Lattices are at the level of states, with a transition-id on each arc, as decoding with
--determinize-lattice=false or lattice-determinize-non-compact writes them.

Usage:  nnet3-discriminative-get-egs [options] <model> <features-rspecifier> <denominator-lattice-rspecifier> \
<numerator-alignment-rspecifier> <egs-wspecifier>

e.g.: nnet3-discriminative-get-egs --acoustic-scale=0.1 --left-context=25 --right-context=9 --num-frames=150,120,90 \\
   0.mdl ark:feats.ark 'ark:gunzip -c lat.1.gz |' scp:ali.scp ark:degs.1.ark
""", arguments=(5, 5), options=[*EGS_OF_FEATURES, *declared(settings_of(SplittingOptions()))])
def discriminative_get_egs(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported. 1 if there is no example."""
    from nnet3py.cli.chain.get_egs import utterance_splitter
    from nnet3py.discriminative.make_egs import DiscriminativeExampleMaker
    from nnet3py.egs.discriminative_example import DISCRIMINATIVE_EXAMPLE
    from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX, INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.transducers.lattice import LATTICES

    splitting = fields_from(options, SplittingOptions())
    splitting.check()
    splitter = utterance_splitter(options, seed=0)
    maker = DiscriminativeExampleMaker(splitter, splitting, read_object(args[0], TransitionModel.read),
                                       options.compress, options.online_ivector_period)
    table, num_errors = options.online_ivectors or options.ivectors, 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[4], DISCRIMINATIVE_EXAMPLE))
        lattices = stack.enter_context(RandomAccessReader(args[2], LATTICES))
        alignments = stack.enter_context(RandomAccessReader(args[3], INT_VECTOR))
        ivectors = stack.enter_context(RandomAccessReader(table, FLOAT_MATRIX)) if table else None
        # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
        reader = stack.enter_context(SequentialReader(args[1], GENERAL_MATRIX))
        for utterance, matrix in log.progress(reader, "Making examples", share=reader.share_read):
            examples = _of_utterance(maker, utterance, matrix, lattices, alignments, ivectors, options)
            num_errors += examples is None
            for key, example in examples or ():
                writer.write(key, example)
    if num_errors:
        log.warning(f"{num_errors} utterances had errors and could not be processed.",
                    file="nnet3-discriminative-get-egs.cc", line=370)
    splitter.log_report()
    return 0 if splitter.num_chunk_frames else 1


def _of_utterance(maker: DiscriminativeExampleMaker, utterance: str, matrix: Any, lattices: Any, alignments: Any,
                  ivectors: Any, options: Options) -> list[Any] | None:
    """The examples of an utterance; None, with a warning, if something is wrong with it."""
    lattice, alignment = lattices.get(utterance), alignments.get(utterance)
    ivector = None if ivectors is None else ivectors.get(utterance)
    for value, what in ((lattice, "denominator lattice"), (alignment, "numerator alignment")):
        if value is None:
            return _skipped(f"No {what} for key {utterance}")
    if ivectors is not None and ivector is None:
        return _skipped(f"No iVectors for utterance {utterance}")
    if ivector is not None and not maker.cutter.ivectors_fit(utterance, matrix.shape[0], len(ivector),
                                                             options.length_tolerance):
        return None
    if not maker.cutter.splitter.lengths_match(utterance, matrix.shape[0], len(alignment)):
        return None
    try:
        with within(f"utterance {utterance}"):
            return list(maker.examples(utterance, matrix, lattice, alignment, ivector))
    except Nnet3Error as error:
        return _skipped(f"Failed to convert lattice to supervision: skipping {error}")


def _skipped(why: str) -> list[Any] | None:
    log.warning(why, file="nnet3-discriminative-get-egs.cc", line=300)
    return None
