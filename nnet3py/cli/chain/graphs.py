"""Graphs of chain training: chain-est-phone-lm, chain-make-den-fst and chain-make-num-fst-e2e."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.chain.options import PhoneLmOptions
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import within
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.transducers.fst import Fst


@kaldi_command("chain-est-phone-lm", "Chain training", "Estimate the phone language model of chain training.", """
Estimate the phone language model of chain training, n-grams without smoothing in a graph with few arcs, from the phone
sequences of the training data, integer vectors such as ali-to-phones writes.

Usage: chain-est-phone-lm [options] <phone-seqs-rspecifier> <phone-lm-fst-out>
e.g.: ali-to-phones final.mdl ark:ali.ark ark:- | chain-est-phone-lm --num-extra-lm-states=2000 ark:- phone_lm.fst
See also: chain-make-den-fst
""", arguments=(2, 2), options=[
    option("binary", bool, True, "No effect: the graph is written in binary", idle="the graph is written in binary"),
    *declared(settings_of(PhoneLmOptions)),
])
def est_phone_lm(args: list[str], options: Options) -> int:
    from nnet3py.chain.phone_lm import PhoneLmEstimator
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader
    from nnet3py.transducers.fst_text import write_fst_file

    estimator = PhoneLmEstimator(fields_from(options, PhoneLmOptions()))
    with SequentialReader(args[0], INT_VECTOR) as reader:
        for key, phones in reader:
            with within(f"utterance {key}"):
                estimator.add(phones)
    with within(args[0]):
        phone_lm = estimator.estimate()
    write_fst_file(args[1], phone_lm)
    return 0


@kaldi_command("chain-make-den-fst", "Chain training", "Make the denominator and normalization graphs.", """
Make the denominator graph of chain training, for training programs, and the normalization graph, for programs that make
examples, from a phone language model.

Usage: chain-make-den-fst [options] <tree> <transition-model> <phone-lm-fst> <denominator-fst-out> \
<normalization-fst-out>
e.g.: chain-make-den-fst tree 0.trans_mdl phone_lm.fst den.fst normalization.fst
See also: chain-est-phone-lm
""", arguments=(5, 5))
def make_den_fst(args: list[str], options: Options) -> int:
    from nnet3py.chain.den_fst import make_den_fst
    from nnet3py.chain.normalization import normalization_fst
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.transducers.fst_text import read_fst, write_fst_file

    tree = read_object(args[0], ContextDependency.read)
    model = read_transition_model(args[1])
    den_fst = make_den_fst(tree, model, read_object(args[2], read_fst))
    normalization = normalization_fst(den_fst)
    write_fst_file(args[3], den_fst)
    write_fst_file(args[4], normalization)
    log.log(f"Write denominator FST to {args[3]} and normalization FST to {args[4]}")
    return 0


@kaldi_command("chain-make-num-fst-e2e", "Chain training",
               "Make the numerator graphs of end-to-end chain training.", """
Turn training graphs into the numerator graphs of end-to-end chain training, for trainers that take such graphs: labels
become pdf-ids plus 1, epsilons are removed, and the costs of the normalization graph are added. A graph none of whose
paths the normalization graph accepts becomes empty.

Usage: chain-make-num-fst-e2e [options] <trans-model> <normalization-fst> <fst-rspecifier> <fst-wspecifier>
e.g.: chain-make-num-fst-e2e 0.trans_mdl normalization.fst ark:fst.ark ark:num.ark
See also: nnet3-chain-e2e-get-egs, chain-make-den-fst
""", arguments=(4, 4))
def make_num_fst_e2e(args: list[str], options: Options) -> int:
    from nnet3py.chain.acceptor import SupervisionError
    from nnet3py.chain.normalization import Normalizer
    from nnet3py.chain.supervision import pdf_graph
    from nnet3py.egs.chain_example import Supervision
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.fst_text import FST, read_fst

    model = read_transition_model(args[0])
    with within(args[1]):
        normalize = Normalizer(read_object(args[1], read_fst))
    num_done = num_empty = 0
    with SequentialReader(args[2], FST) as reader, TableWriter(args[3], FST) as writer:
        for key, graph in reader:
            try:
                with within(f"utterance {key}"):
                    supervision = Supervision(label_dim=model.num_pdfs, e2e_fsts=[pdf_graph(graph, model)])
                    writer.write(key, normalize(supervision).e2e_fsts[0])
                num_done += 1
            except SupervisionError as error:
                log.warning(f"{error}; an empty numerator graph is written")
                writer.write(key, _empty_graph())
                num_empty += 1
    log.log(f"Made {num_done} numerator graphs; {num_empty} more are empty")
    return 0 if num_done else 1


def _empty_graph() -> Fst:
    import numpy as np

    from nnet3py.transducers.fst import NO_STATE, Fst

    return Fst.from_arcs(NO_STATE, np.zeros(0, dtype=np.float32), [], [], [], [], [])
