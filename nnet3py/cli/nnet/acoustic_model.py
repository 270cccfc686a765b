"""Acoustic models made from networks, their priors, their transition models, and trees.

nnet3-am-init, nnet3-am-adjust-priors, copy-transition-model, show-transitions, am-info, hmm-info and tree-info.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import BINARY, Options, option
from nnet3py.errors import NumericError, ShapeError

if TYPE_CHECKING:
    import numpy as np


@kaldi_command("nnet3-am-init", "Models", "Make an acoustic model from a network and a transition model.", """
Make an acoustic model from a network and a transition model, which is read, or made from a tree and a topology. The
model has no priors yet; nnet3-am-adjust-priors sets them.

Usage:  nnet3-am-init [options] <tree-in> <topology-in> <input-raw-nnet> <output-am-nnet>
  or:   nnet3-am-init [options] <trans-model-in> <input-raw-nnet> <output-am-nnet>

e.g.:
 nnet3-am-init tree topo 0.raw 0.mdl
 nnet3-am-init final.mdl 0.raw 0.mdl
""", arguments=(3, 4), options=[BINARY])
def am_init(args: list[str], options: Options) -> int:
    from nnet3py.acoustic_model import AcousticModel, check_is_simple
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.network.model_file import read_nnet

    *transitions, raw, target = args
    if len(transitions) == 1:
        transition_model = read_object(transitions[0], TransitionModel.read)
    else:
        from nnet3py.hmm.topology import HmmTopology
        from nnet3py.hmm.tree import ContextDependency, initial_transition_model

        tree = read_object(transitions[0], ContextDependency.read)
        transition_model = initial_transition_model(tree, read_object(transitions[1], HmmTopology.read))
    nnet = read_nnet(raw)
    check_is_simple(nnet)
    AcousticModel(transition_model, nnet).write(target, binary=options.binary)
    log.log(f"Initialized am-nnet (neural net acoustic model) and wrote to {target}")
    return 0


@kaldi_command("nnet3-am-adjust-priors", "Models", "Set the priors of an acoustic model.", """
Set the priors of an acoustic model to its average output, computed from a vector with the sum of its posteriors over
many frames, one element per pdf; write the model.

Usage:  nnet3-am-adjust-priors [options] <nnet-in> <summed-posterior-vector-in> <nnet-out>

e.g.:
 nnet3-am-adjust-priors final.mdl counts.vec final.mdl
""", arguments=(3, 3), options=[
    BINARY,
    option("prior-floor", float, 1e-15, "No effect, as in Kaldi",
           idle="priors are not floored, as in Kaldi"),
])
def am_adjust_priors(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.acoustic_model import read_model
    from nnet3py.formats.matrices import read_vector
    from nnet3py.io.object_files import read_object

    source, posteriors, target = args
    model = read_model(source)
    counts = read_object(posteriors, read_vector)
    output_dim = model.nnet.output_dim("output")
    if counts.size != output_dim:
        raise ShapeError(f"{posteriors} has {counts.size} elements, but the network's output has {output_dim}",
                         "sum the posteriors that this network computes")
    total = float(counts.sum(dtype=np.float64))
    if not 0.0 < total < float("inf"):
        raise NumericError(f"the posteriors in {posteriors} sum to {total:g}; expected a positive number")
    priors = (counts / np.float32(total)).astype(np.float32)
    _log_change(model.priors, priors)
    model.priors = priors
    model.write(target, binary=options.binary)
    log.log(f"Modified priors of neural network model and wrote it to {target}")
    return 0


def _log_change(old: np.ndarray, new: np.ndarray) -> None:
    """Log how much the priors changed."""
    import numpy as np

    if old.size != new.size:
        log.log("Model did not previously have priors attached.")
        return
    p, q = (values.astype(np.float64) / values.sum(dtype=np.float64) for values in (old, new))
    largest = int(np.argmax(np.abs(p - q)))
    log.log(f"Adjusting priors: largest absolute difference was for pdf {largest}, {p[largest]:.6g} -> "
            f"{q[largest]:.6g}")
    positive = p > 0.0
    with np.errstate(divide="ignore"):
        divergence = float(np.sum(p[positive] * np.log(p[positive] / q[positive])))
    log.log(f"Adjusting priors: K-L divergence from old to new is {divergence:.6g}")


@kaldi_command("copy-transition-model", "Models", "Copy the transition model of a model.", """
Copy a transition model, or the one that the file of an acoustic model of any kind begins with.

Usage: copy-transition-model [options] <transition-model or model in> <transition-model-out>
e.g.: copy-transition-model --binary=false 1.mdl 1.txt
See also: show-transitions, nnet3-am-init
""", arguments=(2, 2), options=[BINARY])
def copy_transition_model(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.object_files import write_object

    write_object(args[1], read_transition_model(args[0]).write, options.binary)
    log.log("Copied transition model.")
    return 0


@kaldi_command("show-transitions", "Models", "Print the transitions of a model.", """
Print the transitions of a model: phone and pdf of each state, probability and target state of each transition. With a
vector of counts, one element per pdf, the counts are printed as well.

Usage:  show-transitions <phones-symbol-table> <transition/model-file> [<occs-file>]
e.g.:
 show-transitions phones.txt 1.mdl 1.occs
See also: copy-transition-model, ali-to-phones
""", arguments=(2, 3))
def show_transitions(args: list[str], options: Options) -> int:
    from nnet3py.formats.matrices import read_vector
    from nnet3py.hmm.alignment import describe_transitions, read_symbol_table
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_text, write_text

    names = read_symbol_table(read_text(args[0]), args[0])
    model = read_transition_model(args[1])
    counts = read_object(args[2], read_vector) if len(args) == 3 else None
    write_text("-", describe_transitions(model, names, counts))
    return 0


_SIZES_USAGE = """
Print the numbers of phones, pdfs, transition-ids and transition-states of the transition model that a model file of any
kind begins with.

Usage:  {name} [options] <model-in>
e.g.:
 {name} 1.mdl
See also: nnet3-am-info, tree-info
"""


@kaldi_command("am-info", "Models",
               "Print the sizes of a transition model.", _SIZES_USAGE.format(name="am-info"), arguments=(1, 1))
@kaldi_command("hmm-info", "Models",
               "Print the sizes of a transition model.", _SIZES_USAGE.format(name="hmm-info"), arguments=(1, 1))
def hmm_info(args: list[str], options: Options) -> None:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.streams import write_text

    model = read_transition_model(args[0])
    write_text("-", f"number of phones {len(model.topology.phones)}\nnumber of pdfs {model.num_pdfs}\n"
                    f"number of transition-ids {model.num_transition_ids}\n"
                    f"number of transition-states {model.num_transition_states}\n")


@kaldi_command("tree-info", "Trees and topologies", "Print the sizes of a tree.", """
Print the number of pdfs of a tree, the number of phones in its context window, and the position of the central phone.

Usage: tree-info <tree-in>
e.g.: tree-info tree
See also: am-info
""", arguments=(1, 1))
def tree_info(args: list[str], options: Options) -> int:
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import write_text

    tree = read_object(args[0], ContextDependency.read)
    write_text("-", f"num-pdfs {tree.num_pdfs}\ncontext-width {tree.context_width}\n"
                    f"central-position {tree.central_position}\n")
    return 0
