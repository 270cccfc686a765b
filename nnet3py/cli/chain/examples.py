"""Supervisions and examples of chain training, and their normalization.

chain-get-supervision, nnet3-chain-normalize-egs, nnet3-chain-get-egs and nnet3-chain-e2e-get-egs.
"""
from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.chain.options import SupervisionOptions
from nnet3py.cli.egs import EGS_OF_FEATURES, split_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error, NumericError, within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.egs.make import UtteranceSplitter
    from nnet3py.transducers.fst import Fst


NORMALIZATION_SCALE = option("normalization-fst-scale", float, 1.0, "Factor of the costs of the normalization FST; "
                             "below 1 if --lm-scale of chain-get-supervision is not 0")


def read_normalizer(rxfilename: str, scale: float) -> Normalizer:
    """Make a normalizer from the normalization FST in a file; Nnet3Error if the FST cannot be used."""
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.fst_text import read_fst

    fst: Fst = read_object(rxfilename, read_fst)
    with within(rxfilename):
        return Normalizer(fst, scale)


@kaldi_command("chain-get-supervision", "Chain training",
               "Make the supervision of chain training from phones or lattices.", """
Make the supervisions of chain training: for each utterance, an acceptor of the pdf sequences that are allowed in its
output frames. The input is phones with their lengths in frames, or lattices whose labels are phones.

Usage:  chain-get-supervision [options] <tree> <transition-model> <phones-with-lengths-or-lattices-rspecifier> \
<supervision-wspecifier>

e.g.: ali-to-phones --write-lengths=true final.mdl ark:ali.ark ark:- | \\
   chain-get-supervision --frame-subsampling-factor=3 tree 0.trans_mdl ark:- ark:sup.ark
 or:  lattice-align-phones --replace-output-symbols=true final.mdl ark:lat.ark ark:- | \\
   chain-get-supervision --lattice-input=true --frame-subsampling-factor=3 tree 0.trans_mdl ark:- ark:sup.ark
See also: nnet3-chain-get-egs
""", arguments=(4, 4), options=[
    option("lattice-input", bool, False, "The input is lattices, not phones with lengths"),
    *declared(settings_of(SupervisionOptions)),
    option("weight", float, 1.0, "No effect, as in Kaldi: the weight written is 1; see nnet3-chain-copy-egs --weights",
           idle="the weight written is 1, as in Kaldi; nnet3-chain-copy-egs --weights sets other weights"),
])
def get_supervision(args: list[str], options: Options) -> int:
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.chain.options import SupervisionOptions
    from nnet3py.chain.supervision import SupervisionMaker, proto_from_lattice, proto_from_phones
    from nnet3py.egs.chain_example import SUPERVISION
    from nnet3py.formats.holders import INT_PAIR_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    how = fields_from(options, SupervisionOptions())
    tree = read_object(args[0], ContextDependency.read)
    maker = SupervisionMaker(tree, read_object(args[1], TransitionModel.read), options.convert_to_pdfs)
    holder: Any = COMPACT_LATTICES if options.lattice_input else INT_PAIR_VECTOR
    num_done = num_errors = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(args[3], SUPERVISION) as writer, SequentialReader(args[2], holder) as reader:
        for key, value in log.progress(reader, "Making supervisions", share=reader.share_read):
            try:
                with within(f"utterance {key}"):
                    proto = (proto_from_lattice(value, how) if options.lattice_input
                             else proto_from_phones(value[:, 0], value[:, 1], how))
                    supervision = maker.make(proto)
            except SupervisionError as error:
                log.warning(f"Failed creating supervision: {error}", file="chain-get-supervision.cc", line=70)
                num_errors += 1
                continue
            writer.write(key, supervision)
            num_done += 1
    log.log(f"Generated chain supervision information for {num_done} utterances, errors on {num_errors}",
            file="chain-get-supervision.cc", line=200)
    return 0 if num_done > num_errors else 1


@kaldi_command("nnet3-chain-normalize-egs", "Chain training",
               "Add the costs of the normalization FST to chain examples.", """
Add the costs of the normalization FST to chain examples that were made without this FST, and write the examples. Do
this only once: the costs would be added again to examples that have them.

Usage:  nnet3-chain-normalize-egs [options] <normalization-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-normalize-egs normalization.fst ark:train.cegs ark:- | nnet3-chain-shuffle-egs ark:- ark:1.cegs
""", arguments=(3, 3), options=[NORMALIZATION_SCALE])
def normalize_egs(args: list[str], options: Options) -> int:
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.io.tables import SequentialReader, TableWriter

    normalizer = read_normalizer(args[0], options.normalization_fst_scale)
    num_done = num_errors = 0
    with TableWriter(args[2], CHAIN_EXAMPLE) as writer, SequentialReader(args[1], CHAIN_EXAMPLE) as reader:
        for key, example in log.progress(reader, "Normalizing examples", share=reader.share_read):
            if len(example.outputs) != 1:
                raise Nnet3Error(f"Expected example to have exactly one output; '{key}' has {len(example.outputs)}")
            output = example.outputs[0]
            try:
                with within(f"example {key}"):
                    output.supervision = normalizer(output.supervision)
            except SupervisionError as error:
                log.warning(f"Not writing {error}", file="nnet3-chain-normalize-egs.cc", line=80)
                num_errors += 1
                continue
            writer.write(key, example)
            num_done += 1
    log.log(f"Added normalization to {num_done} egs; had errors on {num_errors}",
            file="nnet3-chain-normalize-egs.cc", line=100)
    return 0 if num_done else 1


_OPTIONS = (
    *EGS_OF_FEATURES,
    option("srand", int, 0, "Seed of the random choices"),
)


@kaldi_command("nnet3-chain-get-egs", "Chain training", "Make chain examples from features and supervisions.", """
Make chain examples, pieces of utterances with context, from features and supervisions. Examples that are made without
the normalization FST must go through nnet3-chain-normalize-egs before training.

Usage:  nnet3-chain-get-egs [options] [<normalization-fst>] <features-rspecifier> <chain-supervision-rspecifier> \
<egs-wspecifier>

e.g.: chain-get-supervision --frame-subsampling-factor=3 tree 0.trans_mdl ark:phones.len ark:- | \\
   nnet3-chain-get-egs --num-frames=150,110,90 --frame-subsampling-factor=3 --left-context=25 --right-context=9 \\
   normalization.fst ark:feats.ark ark:- ark:cegs.ark
""", arguments=(3, 4), options=[
    *_OPTIONS, NORMALIZATION_SCALE,
    option("supervision-length-tolerance", int, 1, "Output frames by which features and supervision (and derivative "
           "weights) may differ in length"),
    option("deriv-weights-rspecifier", str, "", "Rspecifier of vectors with the factors by which the derivatives of "
           "each output frame are multiplied"),
    option("transition-model", str, "", "Transition model, for unconstrained examples, which fix the order of phones "
           "but not their times; supervisions must then be made by chain-get-supervision --convert-to-pdfs=false"),
    option("long-key", bool, False, "Write contexts and length in keys, too: utt-first-left-length-right-v1"),
])
def chain_get_egs(args: list[str], options: Options) -> int:
    return _Job(options).run(*([""] * (4 - len(args)) + args))


class _Job:
    """Data of a run of nnet3-chain-get-egs: options, makers of examples, and the number of errors."""

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
        """Make the examples of an utterance; none, with a warning, if its data cannot be used."""
        from nnet3py.chain.acceptor import SupervisionError

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
                    "used for training. If there are many: was the normalization FST made for another tree or phones?",
                    file=f"{log.program()}.cc", line=510)


def _skipped(why: str) -> list[Any]:
    log.warning(why, file=f"{log.program()}.cc", line=400)
    return []


def utterance_splitter(options: Options, seed: int) -> UtteranceSplitter:
    """Make a splitter of utterances from the options of the ``EGGEN`` group; UsageError or Nnet3Error if invalid."""
    from nnet3py.egs.make import UtteranceSplitter

    return UtteranceSplitter(split_options(options), seed)


@kaldi_command("nnet3-chain-e2e-get-egs", "Chain training",
               "Make chain examples of whole utterances from training graphs.", """
Make chain examples of whole utterances from features and training graphs, for training from a flat start. Utterances
must have one of the lengths in --num-frames; up to 4 frames are cut off or added for this.

Usage:  nnet3-chain-e2e-get-egs [options] [<normalization-fst>] <features-rspecifier> <fsts-rspecifier> \
<transition-model> <egs-wspecifier>

e.g.: nnet3-chain-e2e-get-egs --num-frames=120,150,180 --frame-subsampling-factor=3 --left-context=25 \\
   --right-context=9 normalization.fst ark:feats.ark ark:fst.ark 0.trans_mdl ark:cegs.ark
""", arguments=(4, 5), options=_OPTIONS)
def chain_e2e_get_egs(args: list[str], options: Options) -> int:
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
    """Make the example of an utterance; None, with a warning, if its data cannot be used."""
    from nnet3py.chain.acceptor import SupervisionError

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
