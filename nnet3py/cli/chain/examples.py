"""Supervisions and examples of chain training, and their normalization.

chain-get-supervision, nnet3-chain-normalize-egs, nnet3-chain-get-egs and nnet3-chain-e2e-get-egs.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.chain.options import SupervisionOptions
from nnet3py.cli.egs.options import EGS_OF_FEATURES, split_options
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error, NumericError, within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.transducers.fst import Fst


NORMALIZATION_SCALE = option("normalization-fst-scale", float, 1.0, "Factor of the costs of the normalization FST; "
                             "below 1 if --lm-scale of chain-get-supervision is not 0", least=0)


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
    from nnet3py.chain.supervision import SupervisionMaker, proto_from_lattice, proto_from_phones
    from nnet3py.egs.chain_example import SUPERVISION
    from nnet3py.formats.holders import INT_PAIR_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    how = fields_from(options, SupervisionOptions())
    tree = read_object(args[0], ContextDependency.read)
    maker = SupervisionMaker(tree, read_object(args[1], TransitionModel.read), options.convert_to_pdfs)
    holder: Any = COMPACT_LATTICES if options.lattice_input else INT_PAIR_VECTOR

    def supervision(value: Any) -> Any:
        return maker.make(proto_from_lattice(value, how) if options.lattice_input
                          else proto_from_phones(value[:, 0], value[:, 1], how))

    done, errors = _convert(args[2:], holder, SUPERVISION, "utterance", supervision, "Failed creating supervision:")
    log.log(f"Generated chain supervision information for {done} utterances, errors on {errors}",
            file="chain-get-supervision.cc", line=200)
    return 0 if done > errors else 1


def _convert(args: list[str], source: Any, target: Any, what: str, convert: Callable[[Any], Any],
             failure: str) -> tuple[int, int]:
    """Write ``convert(value)`` for each value of the table ``args[0]``, called ``what``, to the table ``args[1]``.

    Return the number of values that were written, and of those that gave a SupervisionError, which is logged after
    ``failure``.
    """
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.io.tables import SequentialReader, TableWriter

    done = errors = 0
    # The reader is closed first: a damaged archive then leaves no output that looks complete.
    with TableWriter(args[1], target) as writer, SequentialReader(args[0], source) as reader:
        for key, value in log.progress(reader, f"Processing {what}s", share=reader.share_read):
            try:
                with within(f"{what} {key}"):
                    writer.write(key, convert(value))
                done += 1
            except SupervisionError as error:
                log.warning(f"{failure} {error}", file=f"{log.program()}.cc", line=80)
                errors += 1
    return done, errors


@kaldi_command("nnet3-chain-normalize-egs", "Chain training",
               "Add the costs of the normalization FST to chain examples.", """
Add the costs of the normalization FST to chain examples that were made without this FST, and write the examples. Do
this only once: the costs would be added again to examples that have them.

Usage:  nnet3-chain-normalize-egs [options] <normalization-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-normalize-egs normalization.fst ark:train.cegs ark:- | nnet3-chain-shuffle-egs ark:- ark:1.cegs
""", arguments=(3, 3), options=[NORMALIZATION_SCALE])
def normalize_egs(args: list[str], options: Options) -> int:
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE

    normalizer = read_normalizer(args[0], options.normalization_fst_scale)

    def normalized(example: Any) -> Any:
        if len(example.outputs) != 1:
            raise Nnet3Error(f"Expected example to have exactly one output, found {len(example.outputs)}")
        output = example.outputs[0]
        output.supervision = normalizer(output.supervision)
        return example

    done, errors = _convert(args[1:], CHAIN_EXAMPLE, CHAIN_EXAMPLE, "example", normalized, "Not writing")
    log.log(f"Added normalization to {done} egs; had errors on {errors}", file="nnet3-chain-normalize-egs.cc", line=100)
    return 0 if done else 1


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
           "weights) may differ in length", least=0),
    option("deriv-weights-rspecifier", str, "", "Rspecifier of vectors with the factors by which the derivatives of "
           "each output frame are multiplied"),
    option("transition-model", str, "", "Transition model, for unconstrained examples, which fix the order of phones "
           "but not their times; supervisions must then be made by chain-get-supervision --convert-to-pdfs=false"),
    option("long-key", bool, False, "Write contexts and length in keys, too: utt-first-left-length-right-v1"),
])
def chain_get_egs(args: list[str], options: Options) -> int:
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.cli.egs.get import ivectors_fit, make_examples
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE, SUPERVISION
    from nnet3py.egs.make import UtteranceSplitter
    from nnet3py.formats.holders import FLOAT_VECTOR, GENERAL_MATRIX
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object

    normalization, features, supervisions, egs = [""] * (4 - len(args)) + args
    scale, tolerance = options.normalization_fst_scale, options.supervision_length_tolerance
    splitter = UtteranceSplitter(split_options(options), options.srand)
    maker = ChainExampleMaker(
        splitter, read_normalizer(normalization, scale) if normalization else None,
        read_object(options.transition_model, TransitionModel.read) if options.transition_model else None,
        options.compress, options.online_ivector_period, options.long_key, options.srand)

    def examples(utterance: str, matrix: Any, supervision: Any, weights: Any, ivectors: Any) -> list[Any] | None:
        length = supervision.frames_per_sequence
        if weights is not None and abs(len(weights) - length) > tolerance:
            log.warning(f"For utterance {utterance}, mismatch between deriv weights {len(weights)} and supervision "
                        f"{length} exceeds tolerance {tolerance}", file="nnet3-chain-get-egs.cc", line=400)
            return None
        if not (ivectors_fit(maker.cutter, utterance, matrix, ivectors, options)
                and splitter.lengths_match(utterance, matrix.shape[0], length, tolerance)):
            return None
        return list(maker.examples(utterance, matrix, supervision, ivectors, weights)) or None

    make_examples(options, (features, GENERAL_MATRIX), (egs, CHAIN_EXAMPLE),
                  [(supervisions, SUPERVISION, "pdf-level posterior for key"),
                   (options.deriv_weights_rspecifier, FLOAT_VECTOR, "deriv weights for utterance")],
                  examples, (NumericError, SupervisionError))
    _warn_of_normalization(maker)
    splitter.log_report()
    return 0 if splitter.num_chunk_frames else 1


def _warn_of_normalization(maker: ChainExampleMaker) -> None:
    if maker.num_not_normalized:
        every = maker.num_normalized + maker.num_not_normalized
        log.warning(f"{maker.num_not_normalized} of {every} examples were written without normalization, and cannot be "
                    "used for training. If there are many: was the normalization FST made for another tree or phones?",
                    file=f"{log.program()}.cc", line=510)


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
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.chain.make_egs import ChainExampleMaker
    from nnet3py.cli.egs.get import ivectors_fit, make_examples
    from nnet3py.egs.chain_example import CHAIN_EXAMPLE
    from nnet3py.egs.make import UtteranceSplitter
    from nnet3py.formats.holders import GENERAL_MATRIX
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.fst_text import FST

    normalization, features, fsts, model_in, egs = [""] * (5 - len(args)) + args
    maker = ChainExampleMaker(UtteranceSplitter(split_options(options), options.srand),
                              read_normalizer(normalization, 1.0) if normalization else None, None,
                              options.compress, options.online_ivector_period)
    model = read_object(model_in, TransitionModel.read)

    def examples(utterance: str, graph: Any, matrix: Any, ivectors: Any) -> list[Any] | None:
        if not ivectors_fit(maker.cutter, utterance, matrix, ivectors, options):
            return None
        example = maker.end_to_end_example(utterance, matrix, graph, model, ivectors)
        return None if example is None else [(utterance, example)]

    done = make_examples(options, (fsts, FST), (egs, CHAIN_EXAMPLE),
                         [(features, GENERAL_MATRIX, "features for utterance")], examples,
                         (NumericError, SupervisionError))
    _warn_of_normalization(maker)
    log.log(f"Wrote {done} examples.", file="nnet3-chain-e2e-get-egs.cc", line=410)
    return 0
