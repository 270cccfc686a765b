"""nnet3-chain-get-egs and nnet3-chain-e2e-get-egs: chain examples from features, and supervisions or graphs."""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.chain.normalization import NORMALIZATION_SCALE, read_normalizer
from nnet3py.cli.egs.options import EGS_OF_FEATURES, split_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, within

if TYPE_CHECKING:
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.egs.make import UtteranceSplitter

_OPTIONS = (
    *EGS_OF_FEATURES,
    option("srand", int, 0, "Seed of the random choices"),
)


@kaldi_command("nnet3-chain-get-egs", group="Chain training",
               help="Make chain examples from features and supervisions.", usage="""
Make chain examples from features and supervisions: pieces of utterances with context. Without the normalization FST the
examples need nnet3-chain-normalize-egs before they are used.

Usage:  nnet3-chain-get-egs [options] [<normalization-fst>] <features-rspecifier> <chain-supervision-rspecifier> \
<egs-wspecifier>

e.g.: chain-get-supervision --frame-subsampling-factor=3 tree 0.trans_mdl ark:phones.len ark:- | \\
   nnet3-chain-get-egs --num-frames=150,110,90 --frame-subsampling-factor=3 --left-context=25 --right-context=9 \\
   normalization.fst ark:feats.ark ark:- ark:cegs.ark
""", arguments=(3, 4), options=[
    *_OPTIONS, NORMALIZATION_SCALE,
    option("supervision-length-tolerance", int, 1, "Output frames by which features and supervision (and derivative "
           "weights) may differ in length"),
    option("deriv-weights-rspecifier", str, "", "Rspecifier of vectors with what the derivatives of each output frame "
           "are multiplied with"),
    option("transition-model", str, "", "Makes unconstrained examples: they fix the order of phones, not their times. "
           "Supervisions are then of chain-get-supervision --convert-to-pdfs=false"),
    option("long-key", bool, False, "Keys tell contexts and length, too: utt-first-left-length-right-v1"),
])
def chain_get_egs(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported."""
    return _Job(options).run(*([""] * (4 - len(args)) + args))


class _Job:
    """One run of nnet3-chain-get-egs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._splitter = utterance_splitter(options, options.srand)
        self._maker: ChainExampleMaker
        self._num_errors = 0

    def run(self, normalization: str, features: str, supervisions: str, egs: str) -> int:
        """Make the examples of all utterances; return the exit status."""
        from nnet3py.egs.chain_example import CHAIN_EXAMPLE, SUPERVISION
        from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, GENERAL_MATRIX
        from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter

        options = self._options
        self._maker = self._make_maker(normalization)
        with ExitStack() as stack:
            writer = stack.enter_context(TableWriter(egs, CHAIN_EXAMPLE))
            targets = stack.enter_context(RandomAccessReader(supervisions, SUPERVISION))
            table = options.online_ivectors or options.ivectors
            ivectors = stack.enter_context(RandomAccessReader(table, FLOAT_MATRIX)) if table else None
            weights = (stack.enter_context(RandomAccessReader(options.deriv_weights_rspecifier, FLOAT_VECTOR))
                       if options.deriv_weights_rspecifier else None)
            # Opened last, so closed first: a damaged archive then leaves no output that looks complete.
            reader = stack.enter_context(SequentialReader(features, GENERAL_MATRIX))
            for utterance, matrix in log.progress(reader, "Making examples", share=reader.share_read):
                examples = self._of_utterance(utterance, matrix, targets, ivectors, weights)
                self._num_errors += not examples
                for key, example in examples:
                    writer.write(key, example)
        if self._num_errors:
            log.warning(f"{self._num_errors} utterances had errors and could not be processed.",
                        file="nnet3-chain-get-egs.cc", line=500)
        _warn_of_normalization(self._maker)
        self._splitter.log_report()
        return 0 if self._splitter.num_chunk_frames else 1

    def _make_maker(self, normalization: str) -> ChainExampleMaker:
        from nnet3py.chain.make_egs import ChainExampleMaker
        from nnet3py.hmm.transition_model import TransitionModel
        from nnet3py.io.object_files import read_object

        options = self._options
        scale = options.normalization_fst_scale
        if not scale >= 0.0:
            raise Nnet3Error(f"Invalid scale on normalization FST; must be >= 0.0: {scale}")
        return ChainExampleMaker(
            self._splitter, read_normalizer(normalization, scale) if normalization else None,
            read_object(options.transition_model, TransitionModel.read) if options.transition_model else None,
            options.compress, options.online_ivector_period, options.long_key, options.srand)

    def _of_utterance(self, utterance: str, matrix: Any, targets: Any, ivectors: Any, weights: Any) -> list[Any]:
        """The examples of an utterance; none, with a warning, if it cannot be used."""
        from nnet3py.chain.acceptor import SupervisionError
        from nnet3py.errors import NumericError

        supervision = targets.get(utterance)
        if supervision is None:
            return _skipped(f"No pdf-level posterior for key {utterance}")
        given = []
        for table, what in ((ivectors, "iVectors"), (weights, "deriv weights")):
            given.append(None if table is None else table.get(utterance))
            if table is not None and given[-1] is None:
                return _skipped(f"No {what} for utterance {utterance}")
        ivector, weight = given
        if ivector is not None and not self._maker.cutter.ivectors_fit(utterance, matrix.shape[0], len(ivector),
                                                                       self._options.length_tolerance):
            return []
        tolerance, length = self._options.supervision_length_tolerance, supervision.frames_per_sequence
        if weight is not None and abs(len(weight) - length) > tolerance:
            return _skipped(f"For utterance {utterance}, mismatch between deriv weights {len(weight)} and supervision "
                            f"{length} exceeds tolerance {tolerance}")
        if not self._splitter.lengths_match(utterance, matrix.shape[0], length, tolerance):
            return []
        try:
            with within(f"utterance {utterance}"):
                return list(self._maker.examples(utterance, matrix, supervision, ivector, weight))
        except (NumericError, SupervisionError) as error:
            return _skipped(f"Skipping {error}")


def _warn_of_normalization(maker: ChainExampleMaker) -> None:
    if maker.num_not_normalized:
        every = maker.num_normalized + maker.num_not_normalized
        log.warning(f"{maker.num_not_normalized} of {every} examples were written without normalization, and cannot be "
                    "trained on. If they are many: is the normalization FST of the same tree and phones?",
                    file=f"{log.program()}.cc", line=510)


def _skipped(why: str) -> list[Any]:
    log.warning(why, file=f"{log.program()}.cc", line=400)
    return []


def utterance_splitter(options: Options, seed: int) -> UtteranceSplitter:
    """Cuts utterances as the ``EGGEN`` group says; UsageError or Nnet3Error for values that make no sense."""
    from nnet3py.egs.make import UtteranceSplitter

    return UtteranceSplitter(split_options(options), seed)


@kaldi_command("nnet3-chain-e2e-get-egs", group="Chain training",
               help="Make chain examples of whole utterances from training graphs.", usage="""
Make chain examples of whole utterances from their training graphs, for training from a flat start. Utterances may only
have the lengths in --num-frames; those up to 4 frames away from one are cut or extended.

Usage:  nnet3-chain-e2e-get-egs [options] [<normalization-fst>] <features-rspecifier> <fsts-rspecifier> \
<transition-model> <egs-wspecifier>

e.g.: nnet3-chain-e2e-get-egs --num-frames=120,150,180 --frame-subsampling-factor=3 --left-context=25 \\
   --right-context=9 normalization.fst ark:feats.ark ark:fst.ark 0.trans_mdl ark:cegs.ark
""", arguments=(4, 5), options=_OPTIONS)
def chain_e2e_get_egs(args: list[str], options: Options) -> int:
    """Make examples; utterances that cannot be used are counted and reported. The exit status is 0, as Kaldi's."""
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.formats.holders import FLOAT_MATRIX, GENERAL_MATRIX
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.transducers.fst_text import FST

    normalization, features, fsts, model_in, egs = [""] * (5 - len(args)) + args
    maker = ChainExampleMaker(utterance_splitter(options, options.srand),
                              read_normalizer(normalization, 1.0) if normalization else None, None,
                              options.compress, options.online_ivector_period)
    model = read_object(model_in, TransitionModel.read)
    table = options.online_ivectors or options.ivectors
    num_done = num_errors = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(egs, CHAIN_EXAMPLE))
        matrices = stack.enter_context(RandomAccessReader(features, GENERAL_MATRIX))
        ivectors = stack.enter_context(RandomAccessReader(table, FLOAT_MATRIX)) if table else None
        reader = stack.enter_context(SequentialReader(fsts, FST))
        for utterance, graph in log.progress(reader, "Making examples", share=reader.share_read):
            example = _whole_utterance(maker, utterance, graph, model, matrices, ivectors, options.length_tolerance)
            if example is None:
                num_errors += 1
                continue
            writer.write(utterance, example)
            num_done += 1
    if num_errors:
        log.warning(f"{num_errors} utterances had errors and could not be processed.",
                    file="nnet3-chain-e2e-get-egs.cc", line=400)
    _warn_of_normalization(maker)
    log.log(f"Wrote {num_done} examples.", file="nnet3-chain-e2e-get-egs.cc", line=410)
    return 0


def _whole_utterance(maker: ChainExampleMaker, utterance: str, graph: Any, model: Any, matrices: Any, ivectors: Any,
                     length_tolerance: int) -> Any:
    """The example of an utterance; None, with a warning, if it cannot be used."""
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.errors import NumericError

    matrix = matrices.get(utterance)
    if matrix is None:
        _skipped(f"No features for utterance {utterance}")
        return None
    ivector = None if ivectors is None else ivectors.get(utterance)
    if ivectors is not None:
        if ivector is None:
            _skipped(f"No iVectors for utterance {utterance}")
            return None
        if not maker.cutter.ivectors_fit(utterance, matrix.shape[0], len(ivector), length_tolerance):
            return None
    try:
        with within(f"utterance {utterance}"):
            return maker.end_to_end_example(utterance, matrix, graph, model, ivector)
    except (NumericError, SupervisionError) as error:
        _skipped(f"Skipping {error}")
        return None
