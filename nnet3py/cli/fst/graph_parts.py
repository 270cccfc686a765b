"""The parts of a decoding graph: phones in context, their HMMs, self-loops."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py.cli.fst.graph_files import change_graph, names_of_files, read_graph, read_numbers, write_graph
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.graphs.context import Window

NONTERMINALS = option("nonterm-phones-offset", int, -1, "The number of #nonterm_bos in phones.txt, for parts of "
                      "grammars that are put together while decoding (-1: there are none)")


@kaldi_command("fstcomposecontext", usage="""
Replace the phones on the input side of a graph by windows of phones, which get numbers; write the window of each number
to a file. Disambiguation symbols stay, as windows of their own.

Usage: fstcomposecontext [options] <ilabels-wxfilename> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstcomposecontext --context-size=2 --central-position=1 --read-disambig-syms=phones/disambig.int ilabels LG.fst CLG.fst
See also: make-h-transducer, tree-info
""", arguments=(1, 3), options=[
    option("binary", bool, True, "Write <ilabels-wxfilename> in binary"),
    option("read-disambig-syms", str, "", "File of the numbers of disambiguation symbols"),
    option("write-disambig-syms", str, "", "Write the numbers of their windows to this file"),
    option("context-size", int, 3, "Phones in a window"),
    option("central-position", int, 1, "Place of the phone itself in it, from 0"),
    NONTERMINALS,
])
def fst_compose_context(args: list[str], options: Options) -> int:
    """Expand a graph."""
    from nnet3py.graphs.context import expand_context, write_windows
    from nnet3py.io.streams import write_text

    source, target = names_of_files(args, 1)
    disambig = read_numbers(options.read_disambig_syms) if options.read_disambig_syms else []
    if options.nonterm_phones_offset > 0:
        from nnet3py.graphs.context import check_left_biphones, expand_grammar_context
        from nnet3py.graphs.grammar_fst import Nonterminals

        check_left_biphones(options.context_size, options.central_position)
        fst, windows = expand_grammar_context(read_graph(source), Nonterminals(options.nonterm_phones_offset), disambig)
    else:
        fst, windows = expand_context(read_graph(source), options.context_size, options.central_position, disambig,
                                      keep_outputs=True)
    write_windows(args[0], windows, options.binary)
    if options.write_disambig_syms:
        numbers = [number for number, window in enumerate(windows, 1) if len(window) == 1 and window[0] <= 0]
        write_text(options.write_disambig_syms, "".join(f"{number}\n" for number in numbers))
    write_graph(target, fst)
    return 0


@kaldi_command("make-h-transducer", usage="""
Make the transducer from transition-ids to windows of phones: an HMM without self-loops for each window.

Usage: make-h-transducer [options] <ilabels-rxfilename> <tree> <model> [<fst-wxfilename>]
e.g.:
 make-h-transducer --disambig-syms-out=disambig_tid.int ilabels 1.tree 1.mdl > Ha.fst
See also: fstcomposecontext, add-self-loops
""", arguments=(3, 4), options=[
    option("disambig-syms-out", str, "", "Write the input labels of disambiguation symbols to this file"),
    option("transition-scale", float, 1.0, "Factor of the costs of transitions that are not self-loops"),
    NONTERMINALS,
])
def make_h_transducer(args: list[str], options: Options) -> int:
    """Make the transducer."""
    from nnet3py.graphs.context import read_windows
    from nnet3py.graphs.grammar_fst import Nonterminals
    from nnet3py.graphs.hmms import hmm_transducer
    from nnet3py.io.streams import write_text

    windows: list[Window] = read_windows(args[0])
    tree, model = _tree_and_model(args[1], args[2])
    nonterminals = Nonterminals(options.nonterm_phones_offset) if options.nonterm_phones_offset > 0 else None
    fst, disambig = hmm_transducer(windows, tree, model, options.transition_scale, nonterminals)
    if options.disambig_syms_out:
        write_text(options.disambig_syms_out, "".join(f"{number}\n" for number in disambig))
    write_graph(args[3] if len(args) > 3 else "-", fst)
    return 0


def _tree_and_model(tree: str, model: str) -> tuple[Any, Any]:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    return read_transition_model(tree, ContextDependency.read), read_object(model)


@kaldi_command("add-self-loops", usage="""
Give each state of a graph of transition-ids the self-loop of its HMM state.

Usage: add-self-loops [options] <model> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 add-self-loops --self-loop-scale=0.1 final.mdl < HCLGa.fst > HCLG.fst
or, for a chain model:
 add-self-loops --self-loop-scale=1.0 final.mdl < HCLGa.fst > HCLG.fst
See also: make-h-transducer
""", arguments=(1, 3), options=[
    option("self-loop-scale", float, 1.0, "Factor of the costs of taking and of not taking self-loops"),
    option("disambig-syms", str, "", "File of the numbers of disambiguation symbols that may be on the input side"),
    option("reorder", bool, True, "Self-loops come after the transition that leaves their state"),
])
def add_self_loops(args: list[str], options: Options) -> int:
    """Add self-loops."""
    from nnet3py.graphs.hmms import add_self_loops as with_self_loops
    from nnet3py.hmm.transition_model import read_transition_model

    model = read_transition_model(args[0])
    disambig = read_numbers(options.disambig_syms) if options.disambig_syms else []
    return change_graph(args, lambda fst: with_self_loops(fst, model, options.self_loop_scale, disambig=disambig,
                                                          reorder=options.reorder), 1)
