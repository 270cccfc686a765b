"""Kaldi's programs on FSTs: composition, determinization, parts of decoding graphs, graphs of grammars."""
from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.fst.graph_files import (
    CONNECT,
    DELTA,
    NONTERMINALS,
    change_graph,
    names_of_files,
    read_graph,
    read_numbers,
    write_graph,
    write_numbers,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, copy_table
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.specifiers import is_rspecifier

if TYPE_CHECKING:
    from nnet3py.graphs.context import Window
    from nnet3py.transducers.fst import Fst


@kaldi_command("fsttablecompose", "Parts of graphs", "Compose two FSTs, or tables of them.", """
Compose two FSTs, the output labels of the first with the input labels of the second. Where the first, the second or
both are tables, the output is a table; entries without a partner, and empty results, are left out.

Usage: fsttablecompose [options] <fst1-rxfilename|fsts1-rspecifier> <fst2-rxfilename|fsts2-rspecifier> \
[<fst-wxfilename|fsts-wspecifier>]
e.g.:
 fsttablecompose L_disambig.fst G.fst LG.fst
See also: fstdeterminizestar, fstcompose
""", arguments=(2, 3), options=[
    CONNECT,
    option("match-side", str, "left", "No effect on the result: the FST whose arcs are looked up",
           choices=("left", "right")),
    option("compose-filter", str, "sequence", "No effect on paths: the order of epsilons",
           choices=("sequence", "alt_sequence", "match")),
])
def fst_table_compose(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import compose, from_openfst, write_openfst
    from nnet3py.fst.operations import is_sorted
    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.transducers.fst_text import FST

    left_name, right_name, target = [*args, "-"][:3]
    left_is_table, right_is_table = is_rspecifier(left_name), is_rspecifier(right_name)
    if not left_is_table and not right_is_table:
        left, right = read_graph(left_name), read_graph(right_name)
        if not is_sorted(left, by_output=True):
            log.warning("The first FST is not olabel sorted.")
        if not is_sorted(right):
            log.warning("The second FST is not ilabel sorted.")
        write_openfst(target or "-", compose(left, right, connect=options.connect))
        return 0
    with ExitStack() as stack:
        others: Any = None
        if left_is_table and right_is_table:
            others = stack.enter_context(RandomAccessReader(right_name, FST))
        else:
            partner = read_graph(right_name if left_is_table else left_name)

        def composed(key: str, fst: Fst) -> Fst | None:
            other = partner if others is None else others.get(key)
            if other is None:
                log.warning(f"No second FST for key {key}")
                return None
            left, right = (fst, other) if left_is_table else (other, fst)
            result = from_openfst(compose(left, right, options.connect))
            if result.start < 0:
                log.warning(f"Empty output for utterance {key} (composition)")
                return None
            return result

        source = left_name if left_is_table else right_name
        return convert_table(source, target, FST, FST, composed, inputs=stack).report(
            "Composed {done} FSTs; {errors} had no result")


@kaldi_command("fstdeterminizestar", "Parts of graphs", "Remove epsilons and determinize an FST.", """
Remove epsilons and determinize an FST, or each of a table. Output labels become strings, which are functional: paths
with the same input must have the same output. Entries of a table that cannot be determinized are left out with a
warning.

Usage: fstdeterminizestar [options] [<fst-rxfilename|fsts-rspecifier> [<fst-wxfilename|fsts-wspecifier>]]
e.g.:
 fsttablecompose L_disambig.fst G.fst | fstdeterminizestar --use-log=true > LG.fst
See also: fstminimizeencoded
""", arguments=(0, 2), options=[
    option("use-log", bool, False, "Sum paths of the same labels in the log semiring; false: keep the best one "
           "(tropical semiring)"),
    option("delta", float, 1.0 / 1024.0, "Costs that differ by at most this are equal", least=0),
    option("max-states", int, -1, "Stop after this number of states (-1: no limit)"),
])
def fst_determinize_star(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import determinize_star, from_openfst, to_openfst, write_openfst

    def determinized(fst: Fst) -> Any:
        graph = to_openfst(fst)
        if not determinize_star(graph, options.use_log, options.delta, options.max_states):
            log.warning(f"Determinization stopped early: the FST has reached --max-states={options.max_states}")
        return graph

    def determinized_or_none(key: str, fst: Fst) -> Fst | None:
        try:
            return from_openfst(determinized(fst))
        except Nnet3Error as error:
            log.warning(f"key {key}: {error}")
            return None

    source, target = names_of_files(args)
    if not is_rspecifier(source):
        write_openfst(target, determinized(read_graph(source)))
        return 0
    from nnet3py.transducers.fst_text import FST

    return 0 if convert_table(source, target, FST, FST, determinized_or_none)[0] else 1


@kaldi_command("fstminimizeencoded", "Parts of graphs", "Minimize an FST without pushing labels or costs.", """
Minimize an FST in which labels and cost of an arc are encoded as one label: equivalent states are merged, and nothing
is pushed. Costs are rounded to multiples of --delta.

Usage: fstminimizeencoded [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstminimizeencoded < LG.fst > LGmin.fst
See also: fstdeterminizestar, fstpushspecial
""", arguments=(0, 2), options=[DELTA])
def fst_minimize_encoded(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import minimize_encoded, to_openfst, write_openfst

    source, target = names_of_files(args)
    graph = to_openfst(read_graph(source))
    minimize_encoded(graph, options.delta)
    write_openfst(target, graph)
    return 0


@kaldi_command("fstpushspecial", "Parts of graphs",
               "Push costs so that all states have the same sum of probabilities.", """
Push the costs of an FST so that the probabilities of leaving a state (by arcs, or as final state) have the same sum for
all states, which need not be 1.

Usage: fstpushspecial [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstpushspecial < LG.fst > LG_pushed.fst
See also: fstisstochastic
""", arguments=(0, 2), options=[option("delta", float, 1.0 / 1024.0, "Greatest difference of these sums, as costs")])
def fst_push_special(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import push_special

    return change_graph(args, lambda fst: push_special(fst, options.delta) if fst.num_states else fst)


@kaldi_command("fstisstochastic", "Parts of graphs", "Test whether the probabilities of an FST's states sum to 1.", """
Print the largest and the least of the states' total costs, minus the log of the sum of the probabilities of leaving a
state; 0 for a stochastic FST. The exit status is 0 if both are within --delta of 0, else 1.

Usage: fstisstochastic [options] [<fst-rxfilename>]
e.g.:
 fstisstochastic LG.fst
See also: fstpushspecial
""", arguments=(0, 1), options=[
    option("delta", float, 0.01, "Greatest distance from 0"),
    option("test-in-log", bool, True, "Sum probabilities (log semiring); false: take the largest"),
])
def fst_is_stochastic(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import sums_of_states

    sums = sums_of_states(read_graph(names_of_files(args)[0]), options.test_in_log)
    high, low = (float(sums.max()), float(sums.min())) if len(sums) else (0.0, 0.0)
    sys.stdout.write(f"{high:g} {low:g}\n")
    return 0 if -options.delta <= low and high <= options.delta else 1


@kaldi_command("fstrmsymbols", "Parts of graphs", "Replace some symbols of an FST by epsilon.", """
Replace some input symbols, such as disambiguation symbols, by epsilon; or remove the arcs with them, or add a penalty
to the costs of these arcs. The symbols are integers in a text file.

Usage: fstrmsymbols [options] <symbols-rxfilename> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstrmsymbols disambig_tid.int < HCLG1.fst > HCLG2.fst
See also: fstrmepslocal
""", arguments=(1, 3), options=[
    option("apply-to-output", bool, False, "Do that with output symbols"),
    option("remove-from-output", bool, False, "Same as --apply-to-output"),
    option("remove-arcs", bool, False, "Remove the arcs with these symbols"),
    option("penalty", float, float("-inf"), "Cost added to arcs with these symbols, which stay (-inf: none)"),
])
def fst_rm_symbols(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import with_penalty, without_arcs_of, without_symbols

    symbols = read_numbers(args[0])
    on_output = options.apply_to_output or options.remove_from_output
    has_penalty = options.penalty != -math.inf
    if options.remove_arcs and has_penalty:
        raise UsageError("--remove-arcs and --penalty cannot both be given")

    def change(fst: Fst) -> Fst:
        if options.remove_arcs:
            return without_arcs_of(fst, symbols, on_output)
        return with_penalty(fst, symbols, options.penalty, on_output) if has_penalty else without_symbols(
            fst, symbols, on_output)

    return change_graph(args, change, 1)


@kaldi_command("fstrmepslocal", "Parts of graphs", "Remove epsilons where an FST does not grow.", """
Remove epsilon arcs where that does not enlarge an FST.

Usage: fstrmepslocal [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstrmsymbols disambig_tid.int HCLG.fst | fstrmepslocal > smaller.fst
See also: fstrmsymbols, fstrmepsilon
""", arguments=(0, 2), options=[
    option("use-log", bool, False, "Sum final costs that meet in a state in the log semiring"),
    option("stochastic-in-log", bool, True, "Preserve the sums of probabilities of leaving a state; false: the largest "
           "of them"),
])
def fst_rm_eps_local(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import without_local_epsilons

    return change_graph(args, lambda fst: without_local_epsilons(fst, options.use_log, options.stochastic_in_log))


@kaldi_command("fstaddselfloops", "Parts of graphs", "Add self-loops with disambiguation symbols to an FST.", """
Add self-loops with symbols such as #0 to final states and to states that an arc with an output symbol leaves, so that
the symbols of an FST composed on the right pass. The two files list the input and the output symbol (integers) of each
loop.

Usage: fstaddselfloops [options] <input-symbols-rxfilename> <output-symbols-rxfilename> \
[<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstaddselfloops wdisambig_phones.int wdisambig_words.int < L_disambig1.fst > L_disambig.fst
See also: fsttablecompose
""", arguments=(2, 4))
def fst_add_self_loops(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import with_loops

    inputs, outputs = read_numbers(args[0]), read_numbers(args[1])
    if len(inputs) != len(outputs):
        raise UsageError(f"{args[0]} has {len(inputs)} symbols, but {args[1]} has {len(outputs)}",
                         "each self-loop has an input symbol and an output symbol, so both files need equally many")
    return change_graph(args, lambda fst: with_loops(fst, inputs, outputs), 2)


@kaldi_command("fstcopy", "Parts of graphs", "Copy a table of FSTs.", """
Copy a table of FSTs.

Usage: fstcopy [options] <fsts-rspecifier> <fsts-wspecifier>
e.g.:
 fstcopy scp:fst.scp ark:fst.ark
See also: compile-train-graphs
""", arguments=(2, 2))
def fst_copy(args: list[str], options: Options) -> int:
    from nnet3py.transducers.fst_text import FST

    return copy_table(args[0], args[1], FST).report("Copied {done} FSTs.")


# -- parts of decoding graphs ------------------------------------------------------------------------------------------


@kaldi_command("fstcomposecontext", "Parts of graphs", "Compose the context transducer with an FST of phones.", """
Compose the context transducer with an FST of phones (CLG = C o LG): input labels become numbers of windows of phones.
<ilabels> gets the phones of each window; a disambiguation symbol is a window of its own.

Usage: fstcomposecontext [options] <ilabels-wxfilename> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstcomposecontext --context-size=2 --central-position=1 --read-disambig-syms=phones/disambig.int ilabels LG.fst CLG.fst
See also: make-h-transducer, tree-info
""", arguments=(1, 3), options=[
    option("binary", bool, True, "Write <ilabels-wxfilename> in binary mode"),
    option("read-disambig-syms", str, "", "File of the input's disambiguation symbols (integers)"),
    option("write-disambig-syms", str, "", "File to which the disambiguation symbols of the output are written"),
    option("context-size", int, 3, "Number of phones in a window"),
    option("central-position", int, 1, "Position of the phone itself in the window, from 0"),
    NONTERMINALS,
])
def fst_compose_context(args: list[str], options: Options) -> int:
    from nnet3py.graphs.context import expand_context, write_windows

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
        write_numbers(options.write_disambig_syms, (
            number for number, window in enumerate(windows, 1) if len(window) == 1 and window[0] <= 0))
    write_graph(target, fst)
    return 0


@kaldi_command("make-h-transducer", "Parts of graphs", "Make the H transducer: the HMMs of phones in context.", """
Make the H transducer, from transition-ids to windows of phones, as fstcomposecontext numbers them in <ilabels>: the HMM
of each window, without self-loops.

Usage: make-h-transducer [options] <ilabels-rxfilename> <tree> <model> [<fst-wxfilename>]
e.g.:
 make-h-transducer --disambig-syms-out=disambig_tid.int ilabels 1.tree 1.mdl > Ha.fst
See also: fstcomposecontext, add-self-loops
""", arguments=(3, 4), options=[
    option("disambig-syms-out", str, "", "File to which the input labels of disambiguation symbols are written"),
    option("transition-scale", float, 1.0, "Factor of the log-probabilities of transitions between states"),
    NONTERMINALS,
])
def make_h_transducer(args: list[str], options: Options) -> int:
    from nnet3py.graphs.context import read_windows
    from nnet3py.graphs.grammar_fst import Nonterminals
    from nnet3py.graphs.hmms import hmm_transducer
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object

    windows: list[Window] = read_windows(args[0])
    tree, model = read_object(args[1], ContextDependency.read), read_transition_model(args[2])
    nonterminals = Nonterminals(options.nonterm_phones_offset) if options.nonterm_phones_offset > 0 else None
    fst, disambig = hmm_transducer(windows, tree, model, options.transition_scale, nonterminals)
    if options.disambig_syms_out:
        write_numbers(options.disambig_syms_out, disambig)
    write_graph([*args, "-"][3], fst)
    return 0


@kaldi_command("add-self-loops", "Parts of graphs", "Add the self-loops of HMM states to a graph.", """
Add the self-loops of HMM states to an FST of transition-ids (HCLG from HCLGa).

Usage: add-self-loops [options] <model> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 add-self-loops --self-loop-scale=0.1 final.mdl < HCLGa.fst > HCLG.fst
or, for a chain model:
 add-self-loops --self-loop-scale=1.0 final.mdl < HCLGa.fst > HCLG.fst
See also: make-h-transducer
""", arguments=(1, 3), options=[
    option("self-loop-scale", float, 1.0, "Factor of the log-probabilities of staying in a state, and of leaving it"),
    option("disambig-syms", str, "", "File of disambiguation symbols (integers) on the input side"),
    option("reorder", bool, True, "Put self-loops after the transition that leaves their state"),
])
def add_self_loops(args: list[str], options: Options) -> int:
    from nnet3py.graphs.hmms import add_self_loops as with_self_loops
    from nnet3py.hmm.transition_model import read_transition_model

    model = read_transition_model(args[0])
    disambig = read_numbers(options.disambig_syms) if options.disambig_syms else []
    return change_graph(args, lambda fst: with_self_loops(fst, model, options.self_loop_scale, disambig=disambig,
                                                          reorder=options.reorder), 1)


@kaldi_command("make-grammar-fst", "Graphs", "Combine a graph with the graphs of its nonterminals in one file.", """
Combine a top-level graph with the graphs of its nonterminals, such as #nonterm:contacts, in one file, from which
nnet3-latgen-grammar decodes; so a part, such as a list of names, is exchanged without making the others again.
<symbolN> is the number of a nonterminal in phones.txt. With two arguments, prepare a graph to become such a part;
make-graph and Kaldi's utils/mkgraph.sh do that by themselves.

Usage: make-grammar-fst [options] <top-level-fst> <symbol1> <fst1> [<symbol2> <fst2> ...] <fst-out>
 or:   make-grammar-fst [options] <fst-in> <fst-out>
e.g.:
 make-grammar-fst --nonterm-phones-offset=317 HCLG.fst 321 HCLG1.fst HCLG.gra
See also: nnet3-latgen-grammar, make-graph
""", arguments=(2, 100_000), options=[
    option("nonterm-phones-offset", int, -1, "Number of #nonterm_bos in phones.txt; must be given"),
    option("write-as-grammar", bool, True, "Write the graphs as they are, to be combined while decoding; false: expand "
           "them into one FST"),
])
def make_grammar_fst(args: list[str], options: Options) -> int:
    from nnet3py.graphs.grammar_fst import GrammarFst, Nonterminals, can_be_empty, of_part

    if len(args) % 2:
        raise UsageError("expected a nonterminal's number before each graph except the top-level one",
                         "make-grammar-fst TOP.fst NUMBER PART.fst … OUT")
    names = Nonterminals(options.nonterm_phones_offset)
    if len(args) == 2:
        write_graph(args[1], of_part(read_graph(args[0]), names))
        return 0
    numbers = [_number(word) for word in args[1:-1:2]]
    if len(set(numbers)) < len(numbers):
        twice = next(number for place, number in enumerate(numbers) if number in numbers[:place])
        raise UsageError(f"the nonterminal {twice} has two graphs", "give each number once")
    grammar = GrammarFst.of(names, read_graph(args[0]),
                            dict(zip(numbers, map(read_graph, args[2:-1:2]), strict=True)))
    for number in numbers:
        if can_be_empty(grammar.parts[number], names):
            log.warning(f"Nonterminal {number} accepts the empty sequence; decoding fails if it is in a loop of the "
                        "grammar. N-gram models that are estimated from text accept the empty sentence.")
    if options.write_as_grammar:
        grammar.write(args[-1])
        log.log(f"Wrote {args[-1]}, of {1 + len(numbers)} graphs")
    else:
        from nnet3py.decoding.composed_graphs import grammar_as_fst

        write_graph(args[-1], grammar_as_fst(grammar), "const")
    return 0


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise UsageError(f"expected the number of a nonterminal, found '{word}'", "phones.txt has the numbers")
    return int(word)
