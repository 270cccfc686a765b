"""OpenFst's programs that need its algorithms, which the package kaldifst has."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnet3py.cli.fst.graph_files import names_of_files, read_graph
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, option


def _change_openfst(args: list[str], change: Callable[[Any], Any]) -> int:
    """Read an FST, have kaldifst change it in place or make another, and write it."""
    from nnet3py.fst.openfst import to_openfst, write_openfst

    source, target = names_of_files(args)
    graph = to_openfst(read_graph(source))
    changed = change(graph)
    write_openfst(target, graph if changed is None else changed)
    return 0


@kaldi_command("fstcompose", group="FSTs (OpenFst's programs)", help="Compose two FSTs.", usage="""
Compose two FSTs: what the first writes, the second reads.

Usage: fstcompose [options] <fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]
e.g.:
 fstcompose L.fst G.fst LG.fst
See also: fsttablecompose
""", arguments=(2, 3), options=[
    option("connect", bool, True, "Leave out what no path to the end passes"),
    option("compose_filter", str, "auto", "No effect on the paths: how epsilons are put in order"),
    QUIET,
])
def fst_compose(args: list[str], options: Options) -> int:
    """Compose."""
    from nnet3py.fst.openfst import compose, write_openfst

    write_openfst([*args, "-"][2] or "-", compose(read_graph(args[0]), read_graph(args[1]), options.connect))
    return 0


@kaldi_command("fstrmepsilon", group="FSTs (OpenFst's programs)", help="Remove the arcs without labels of an FST.",
               usage="""
Remove the arcs without labels.

Usage: fstrmepsilon [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstrmepsilon in.fst out.fst
See also: fstrmepslocal, fstdeterminizestar
""", arguments=(0, 2), options=[
    option("connect", bool, True, "Leave out what no path to the end passes"),
    option("delta", float, 1e-6, "Costs that differ by no more are the same"),
    QUIET,
])
def fst_rm_epsilon(args: list[str], options: Options) -> int:
    """Remove epsilons."""
    from nnet3py.fst.openfst import load_kaldifst

    return _change_openfst(args, lambda graph: load_kaldifst().rmepsilon(graph, connect=options.connect,
                                                                         delta=options.delta))


@kaldi_command("fstdeterminize", group="FSTs (OpenFst's programs)", help="Determinize an FST.", usage="""
Determinize an FST; epsilons are labels like others.

Usage: fstdeterminize [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstdeterminize in.fst out.fst
See also: fstdeterminizestar, fstrmepsilon
""", arguments=(0, 2), options=[
    option("delta", float, 1.0 / 1024.0, "Costs that differ by no more are the same"),
    option("det_type", str, "functional", "How paths of the same input and different output are treated: functional: "
           "there are none", choices=("functional", "nonfunctional", "disambiguate")),
    QUIET,
])
def fst_determinize(args: list[str], options: Options) -> int:
    """Determinize."""
    from nnet3py.fst.openfst import determinize

    return _change_openfst(args, lambda graph: determinize(graph, options.delta, options.det_type))


@kaldi_command("fstminimize", group="FSTs (OpenFst's programs)", help="Merge the states of a deterministic FST.",
               usage="""
Merge the states of a deterministic FST, after costs and output labels were pushed towards the start.

Usage: fstminimize [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstminimize in.fst out.fst
See also: fstdeterminize, fstminimizeencoded
""", arguments=(0, 2), options=[
    option("delta", float, 1.0 / 1024.0, "Costs that differ by no more are the same"),
    option("allow_nondet", bool, False, "The FST need not be deterministic"),
    QUIET,
])
def fst_minimize(args: list[str], options: Options) -> int:
    """Minimize."""
    from nnet3py.fst.openfst import load_kaldifst

    return _change_openfst(args, lambda graph: load_kaldifst().minimize(graph, delta=options.delta,
                                                                        allow_nondet=options.allow_nondet))


@kaldi_command("fstshortestpath", group="FSTs (OpenFst's programs)", help="Find the cheapest paths of an FST.",
               usage="""
Find the cheapest paths of an FST.

Usage: fstshortestpath [options] [<fst-rxfilename> [<fst-wxfilename>]]
e.g.:
 fstshortestpath in.fst | fsttopsort | fstprint
See also: fsttopsort, fstrandgen
""", arguments=(0, 2), options=[option("nshortest", int, 1, "Number of paths"), QUIET])
def fst_shortest_path(args: list[str], options: Options) -> int:
    """Find paths."""
    from nnet3py.fst.openfst import shortest_path, write_openfst

    source, target = names_of_files(args)
    write_openfst(target, shortest_path(read_graph(source), options.nshortest))
    return 0
