"""copy-transition-model, show-transitions, am-info, hmm-info, tree-info: what stands before the network in a model."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options

if TYPE_CHECKING:
    pass


@kaldi_command("copy-transition-model", group="Models", help="Copy the transition model of a model.", usage="""
Copy the transition model of an acoustic model of any kind, without what follows it.

Usage: copy-transition-model [options] <transition-model or model in> <transition-model-out>
e.g.: copy-transition-model --binary=false 1.mdl 1.txt
See also: show-transitions, nnet3-am-init
""", arguments=(2, 2), options=[BINARY])
def copy_transition_model(args: list[str], options: Options) -> int:
    """Copy a transition model."""
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.object_files import write_object

    write_object(args[1], read_transition_model(args[0]).write, options.binary)
    log.log("Copied transition model.")
    return 0


@kaldi_command("show-transitions", group="Models", help="Print the transitions of a model.", usage="""
Print the transitions of a model: each state's phone and pdf, each transition's probability and target; with
counts of pdfs also these.

Usage:  show-transitions <phones-symbol-table> <transition/model-file> [<occs-file>]
e.g.:
 show-transitions phones.txt 1.mdl 1.occs
See also: copy-transition-model, ali-to-phones
""", arguments=(2, 3))
def show_transitions(args: list[str], options: Options) -> int:
    """Print transitions."""
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


def _print_numbers(rxfilename: str) -> None:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.streams import write_text

    model = read_transition_model(rxfilename)
    write_text("-", f"number of phones {len(model.topology.phones)}\nnumber of pdfs {model.num_pdfs}\n"
                    f"number of transition-ids {model.num_transition_ids}\n"
                    f"number of transition-states {model.num_transition_states}\n")


_NUMBERS_USAGE = """
Print the numbers of phones, pdfs, transition-ids and transition-states of a model of any kind.

Usage:  {name} [options] <model-in>
e.g.:
 {name} 1.mdl
See also: nnet3-am-info, tree-info
"""


@kaldi_command("am-info", group="Models", help="Print what a transition model consists of.",
               usage=_NUMBERS_USAGE.format(name="am-info"), arguments=(1, 1))
def am_info(args: list[str], options: Options) -> None:
    """Print what a transition model consists of."""
    _print_numbers(args[0])


@kaldi_command("hmm-info", group="Models", help="Print what a transition model consists of.",
               usage=_NUMBERS_USAGE.format(name="hmm-info"), arguments=(1, 1))
def hmm_info(args: list[str], options: Options) -> None:
    """Print what a transition model consists of."""
    _print_numbers(args[0])


@kaldi_command("tree-info", group="Trees and topologies", help="Print what a tree is for.", usage="""
Print the number of pdfs of a tree, its context width, and the phone's position in it.

Usage: tree-info <tree-in>
e.g.: tree-info tree
See also: am-info
""", arguments=(1, 1))
def tree_info(args: list[str], options: Options) -> int:
    """Print what a tree is for."""
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import write_text

    tree = read_object(args[0], ContextDependency.read)
    write_text("-", f"num-pdfs {tree.num_pdfs}\ncontext-width {tree.context_width}\n"
                    f"central-position {tree.central_position}\n")
    return 0
