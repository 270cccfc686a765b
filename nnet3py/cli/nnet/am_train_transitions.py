"""nnet3-am-train-transitions: transition probabilities and priors of an acoustic model, from alignments."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import ShapeError, within
from nnet3py.option_fields import settings_of
from nnet3py.training.options import TransitionOptions


@kaldi_command("nnet3-am-train-transitions", group="Models",
               help="Train the transition probabilities of an acoustic model, and its priors.", usage="""
Estimate the transition probabilities of an acoustic model from alignments, and set its priors to the shares that its
pdfs have in them.

Usage:  nnet3-am-train-transitions [options] <nnet-in> <alignments-rspecifier> <nnet-out>

e.g.:
 nnet3-am-train-transitions 1.mdl "ark:gunzip -c ali.*.gz |" 2.mdl
""", arguments=(3, 3), options=[
    BINARY,
    option("set-priors", bool, True, "Set the priors, too"),
    option("prior-floor", float, 5.0e-06, "Least prior of a pdf"),
    *declared(settings_of(TransitionOptions)),
])
def am_train_transitions(args: list[str], options: Options) -> int:
    """Train transitions and set priors."""
    import numpy as np

    from nnet3py.acoustic_model import read_model
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader
    from nnet3py.training.transitions import count_transitions, priors_of_counts, train_transitions

    model = read_model(args[0])
    transitions = model.transition_model
    counts = np.zeros(transitions.num_transition_ids + 1)
    num_done = 0
    with SequentialReader(args[1], INT_VECTOR) as alignments:
        for key, alignment in alignments:
            with within(f"utterance {key}"):
                count_transitions(transitions, alignment, counts)
            num_done += 1
    log.log(f"Accumulated transition stats from {num_done} utterances.")
    improvement = train_transitions(transitions, counts, fields_from(options, TransitionOptions()))
    log.log(f"Transition model update: average {improvement.average():.6g} log-like improvement per frame over "
            f"{improvement.num_frames:.6g} frames.")
    if options.set_priors:
        log.log("Setting priors of pdfs in the model.")
        output_dim = model.nnet.output_dim("output")
        if transitions.num_pdfs != output_dim:
            raise ShapeError(f"the transition model has {transitions.num_pdfs} pdfs, the network {output_dim} outputs",
                             "was the network made for another tree?")
        model.priors = priors_of_counts(transitions, counts, options.prior_floor)
    model.write(args[2], binary=options.binary)
    log.log(f"Trained transitions of neural network model and wrote it to {args[2]}")
    return 0
