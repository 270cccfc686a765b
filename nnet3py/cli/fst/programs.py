"""Kaldi's programs on FSTs: composition, determinization, minimization, and smaller changes of graphs."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.fst.graph_files import change_graph, each_of_table, names_of_files, read_graph, read_numbers
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.transducers.fst import Fst

DELTA = option("delta", float, 1.0 / 1024.0, "Costs that differ by no more are the same")


def _is_table(name: str) -> bool:
    from nnet3py.io.specifiers import is_rspecifier

    return is_rspecifier(name)


@kaldi_command("fsttablecompose", group="Parts of graphs", help="Compose two FSTs, or tables of them.", usage="""
Compose two FSTs: what the first writes, the second reads. The first may be a table, or the second, or both; then the
result is one.

Usage: fsttablecompose [options] <fst1-rxfilename|fsts1-rspecifier> <fst2-rxfilename|fsts2-rspecifier> \
[<fst-wxfilename|fsts-wspecifier>]
e.g.:
 fsttablecompose L_disambig.fst G.fst LG.fst
See also: fstdeterminizestar, fstcompose
""", arguments=(2, 3), options=[
    option("connect", bool, True, "Leave out states and arcs that are on no path to the end"),
    option("match-side", str, "left", "No effect on the result: which FST's arcs are looked up, left or right",
           choices=("left", "right")),
    option("compose-filter", str, "sequence", "No effect on the paths: how epsilons are put in order",
           choices=("sequence", "alt_sequence", "match")),
])
def fst_table_compose(args: list[str], options: Options) -> int:
    """Compose files or tables."""
    from nnet3py.fst.openfst import compose, from_openfst, write_openfst

    tables = [_is_table(name) for name in args[:2]]
    target = args[2] if len(args) > 2 else "-"
    if not any(tables):
        left, right = read_graph(args[0]), read_graph(args[1])
        _warn_of_order(left, right)
        write_openfst(target or "-", compose(left, right, connect=options.connect))
        return 0
    return _compose_tables(args[0], args[1], target, tables,
                           lambda left, right: from_openfst(compose(left, right, connect=options.connect)))


def _warn_of_order(left: Fst, right: Fst) -> None:
    from nnet3py.fst.operations import is_sorted

    if not is_sorted(left, by_output=True):
        log.warning("The first FST is not olabel sorted.")
    if not is_sorted(right):
        log.warning("The second FST is not ilabel sorted.")


def _compose_tables(left_name: str, right_name: str, target: str, tables: list[bool], make: Any) -> int:
    """Compose with each FST of a table; exit status 1 if there is no result. FSTs without a partner are left out."""
    from contextlib import ExitStack

    from nnet3py.io.random_access import RandomAccessReader
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.fst_text import FST

    done = failed = 0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(target, FST))
        fixed = None if all(tables) else read_graph(left_name if tables[1] else right_name)
        other = stack.enter_context(RandomAccessReader(right_name, FST)) if all(tables) else None
        for key, fst in stack.enter_context(SequentialReader(left_name if tables[0] else right_name, FST)):
            partner = fixed if other is None else other.get(key)
            result = None if partner is None else make(*((fst, partner) if tables[0] else (partner, fst)))
            if result is None or result.start < 0:
                log.warning(f"No second FST for key {key}" if partner is None
                            else f"Empty output for utterance {key} (composition)")
                failed += 1
                continue
            writer.write(key, result)
            done += 1
    log.log(f"Composed {done} FSTs; {failed} had no result")
    return 0 if done else 1


@kaldi_command("fstdeterminizestar", group="Parts of graphs", help="Remove epsilons and determinize an FST.", usage="""
Remove epsilons and determinize. Output labels are kept: a state's paths of the same input must have the same output.
Files, or tables; entries that fail are left out with a warning.

Usage: fstdeterminizestar [options] [<fst-rxfilename|fsts-rspecifier> [<fst-wxfilename|fsts-wspecifier>]]
e.g.:
 fsttablecompose L_disambig.fst G.fst | fstdeterminizestar --use-log=true > LG.fst
See also: fstminimizeencoded
""", arguments=(0, 2), options=[
    option("use-log", bool, False, "Costs of paths of the same labels are added as probabilities; otherwise the least "
           "counts"),
    DELTA,
    option("max-states", int, -1, "Stop when there are that many states; -1: no limit"),
])
def fst_determinize_star(args: list[str], options: Options) -> int:
    """Determinize."""
    from nnet3py.fst.openfst import determinize_star, from_openfst, to_openfst, write_openfst

    def determinized(fst: Fst) -> Any:
        graph = to_openfst(fst)
        if not determinize_star(graph, options.use_log, options.delta, options.max_states):
            log.warning(f"Determinization stopped early: there are {options.max_states} states")
        return graph

    source, target = names_of_files(args)
    if not _is_table(source):
        write_openfst(target, determinized(read_graph(source)))
        return 0
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.fst_text import FST

    with TableWriter(target, FST) as writer, SequentialReader(source, FST) as reader:
        done, _ = each_of_table(reader, writer.write, lambda fst: from_openfst(determinized(fst)))
    return 0 if done else 1


@kaldi_command("fstminimizeencoded", group="Parts of graphs", help="Merge the states of an FST.", usage="""
Merge the states of an FST from which the same can be said, without pushing labels or costs. Costs are rounded to
multiples of --delta.

Usage: fstminimizeencoded [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstminimizeencoded < LG.fst > LGmin.fst
See also: fstdeterminizestar, fstpushspecial
""", arguments=(0, 2), options=[DELTA])
def fst_minimize_encoded(args: list[str], options: Options) -> int:
    """Minimize."""
    from nnet3py.fst.openfst import minimize_encoded, to_openfst, write_openfst

    source, target = names_of_files(args)
    graph = to_openfst(read_graph(source))
    minimize_encoded(graph, options.delta)
    write_openfst(target, graph)
    return 0


@kaldi_command("fstpushspecial", group="Parts of graphs",
               help="Shift the costs of an FST so that all states have the same sum.", usage="""
Shift the costs of an FST so that the probabilities that leave each state have the same sum, which need not be 1.

Usage: fstpushspecial [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstpushspecial < LG.fst > LG_pushed.fst
See also: fstisstochastic
""", arguments=(0, 2), options=[option("delta", float, 1.0 / 1024.0, "How equal the sums have to be")])
def fst_push_special(args: list[str], options: Options) -> int:
    """Push."""
    from nnet3py.fst.operations import push_special

    return change_graph(args, lambda fst: push_special(fst, options.delta) if fst.num_states else fst)


@kaldi_command("fstisstochastic", group="Parts of graphs", help="Print how far costs are from probabilities.", usage="""
Print the largest and the least cost of what leaves a state, where 0 stands for probability 1. The exit status is 0 if
none is farther from 0 than --delta, else 1.

Usage: fstisstochastic [options] [<fst-rxfilename>]
e.g.:
 fstisstochastic LG.fst
See also: fstpushspecial
""", arguments=(0, 1), options=[
    option("delta", float, 0.01, "How far from 0 a cost may be"),
    option("test-in-log", bool, True, "Probabilities are added; otherwise the largest counts"),
])
def fst_is_stochastic(args: list[str], options: Options) -> int:
    """Print costs."""
    import sys

    from nnet3py.fst.operations import sums_of_states

    sums = sums_of_states(read_graph(names_of_files(args)[0]), options.test_in_log)
    high, low = (float(sums.max()), float(sums.min())) if len(sums) else (0.0, 0.0)
    sys.stdout.write(f"{high:g} {low:g}\n")
    return 0 if -options.delta <= low and high <= options.delta else 1


@kaldi_command("fstrmsymbols", group="Parts of graphs", help="Put epsilons in place of some symbols of an FST.",
               usage="""
Put epsilons in place of some input symbols, such as disambiguation symbols; or drop their arcs, or add to their costs.

Usage: fstrmsymbols [options] <symbols-rxfilename> [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstrmsymbols disambig_tid.int < HCLG1.fst > HCLG2.fst
See also: fstrmepslocal
""", arguments=(1, 3), options=[
    option("apply-to-output", bool, False, "Look at output symbols"),
    option("remove-from-output", bool, False, "The same"),
    option("remove-arcs", bool, False, "Drop the arcs of these symbols"),
    option("penalty", float, float("-inf"), "Add this to the costs of the arcs of these symbols, and change no symbol"),
])
def fst_rm_symbols(args: list[str], options: Options) -> int:
    """Remove symbols."""
    import math

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


@kaldi_command("fstrmepslocal", group="Parts of graphs", help="Remove epsilons where an FST does not grow.", usage="""
Remove epsilons where that makes an FST no larger.

Usage: fstrmepslocal [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstrmsymbols disambig_tid.int HCLG.fst | fstrmepslocal > smaller.fst
See also: fstrmsymbols, fstrmepsilon
""", arguments=(0, 2), options=[
    option("use-log", bool, False, "Final costs that come together are added as probabilities"),
    option("stochastic-in-log", bool, True, "Keep the sums of the probabilities that leave each state; otherwise the "
           "largest of them"),
])
def fst_rm_eps_local(args: list[str], options: Options) -> int:
    """Remove epsilons."""
    from nnet3py.fst.operations import without_local_epsilons

    return change_graph(args, lambda fst: without_local_epsilons(fst, options.use_log, options.stochastic_in_log))


@kaldi_command("fstaddselfloops", group="Parts of graphs", help="Add loops of symbols to an FST.", usage="""
Add loops of symbols such as #0, which an FST composed on the right needs, to final states and to states with an
output symbol on an exit. The files list the input and the output symbol of each.

Usage: fstaddselfloops [options] <input-symbols-rxfilename> <output-symbols-rxfilename> \
[<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstaddselfloops wdisambig_phones.int wdisambig_words.int < L_disambig1.fst > L_disambig.fst
See also: fsttablecompose
""", arguments=(2, 4), options=[])
def fst_add_self_loops(args: list[str], options: Options) -> int:
    """Add loops."""
    from nnet3py.fst.operations import with_loops

    inputs, outputs = read_numbers(args[0]), read_numbers(args[1])
    if len(inputs) != len(outputs):
        raise UsageError(f"{args[0]} has {len(inputs)} symbols, but {args[1]} has {len(outputs)}")
    return change_graph(args, lambda fst: with_loops(fst, inputs, outputs), 2)


@kaldi_command("fstcopy", group="Parts of graphs", help="Copy a table of FSTs.", usage="""
Copy a table of FSTs.

Usage: fstcopy [options] <fsts-rspecifier> <fsts-wspecifier>
e.g.:
 fstcopy scp:fst.scp ark:fst.ark
See also: compile-train-graphs
""", arguments=(2, 2), options=[])
def fst_copy(args: list[str], options: Options) -> int:
    """Copy; 1 if there was none."""
    from nnet3py.cli.process.copying import copy_table
    from nnet3py.transducers.fst_text import FST

    count = copy_table(args[0], args[1], FST)
    log.log(f"Copied {count} FSTs.")
    return 0 if count else 1
