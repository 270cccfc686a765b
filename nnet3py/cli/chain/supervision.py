"""chain-get-supervision and nnet3-chain-normalize-egs: what the outputs of chain examples should be."""
from __future__ import annotations

from typing import Any

from nnet3py import log
from nnet3py.chain.options import SupervisionOptions
from nnet3py.cli.chain.normalization import NORMALIZATION_SCALE, read_normalizer
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import Nnet3Error, within
from nnet3py.option_fields import settings_of


@kaldi_command("chain-get-supervision", group="Chain training",
               help="Make the supervision of chain training from phones or lattices.", usage="""
Make the supervision of chain training: for each utterance, which pdfs it may have in which output frames.
It comes from phones with their lengths in frames, or from lattices whose labels are phones.

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
           idle="the weight written is 1, as in Kaldi; nnet3-chain-copy-egs --weights sets others"),
])
def get_supervision(args: list[str], options: Options) -> int:
    """Make supervisions; utterances that cannot be used are counted and reported."""
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


@kaldi_command("nnet3-chain-normalize-egs", group="Chain training",
               help="Add the costs of the normalization FST to chain examples.", usage="""
Add the costs of the normalization FST to chain examples that were made without it. This must be done only once:
examples that have them already would get them twice.

Usage:  nnet3-chain-normalize-egs [options] <normalization-fst> <egs-rspecifier> <egs-wspecifier>

e.g.: nnet3-chain-normalize-egs normalization.fst ark:train.cegs ark:- | nnet3-chain-shuffle-egs ark:- ark:1.cegs
""", arguments=(3, 3), options=[NORMALIZATION_SCALE])
def normalize_egs(args: list[str], options: Options) -> int:
    """Normalize examples; those for which it is impossible are left out and counted."""
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
