"""Programs of OpenFst that Kaldi's scripts use, and a few more; the last five need the package kaldifst."""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnet3py.cli.fst.graph_files import (
    CONNECT,
    DELTA,
    change_graph,
    names_of_files,
    read_graph,
    read_numbers,
    write_graph,
)
from nnet3py.cli.process.command import KaldiCommand, kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Option, Options, option
from nnet3py.errors import FormatError, UsageError
from nnet3py.transducers import COMPACT_KINDS, CONST_KINDS

if TYPE_CHECKING:
    from nnet3py.fst.text import TextForm
    from nnet3py.transducers.fst import Fst

_SYMBOLS = (option("isymbols", str, "", "Symbol table of the input labels"),
            option("osymbols", str, "", "Symbol table of the output labels"))
_ACCEPTOR = option("acceptor", bool, False, "A line has one label, both input and output")
_KINDS = ("vector", *CONST_KINDS, *COMPACT_KINDS, "ngram")


def _command(name: str, group: str, help: str, *, more: str = "", options: Sequence[Option] = (),
             arguments: tuple[int, int] = (0, 2), files: str = "[<fst-rxfilename> [<fst-wxfilename>]]", example: str,
             see: str = "fstprint") -> Callable[[Callable[[list[str], Options], int]], KaldiCommand]:
    """Declare a command whose usage text has ``help``, ``more``, one example, and a command to ``see``.

    As in OpenFst, --print-args is false by default.
    """
    about = f"{help}\n{more}".rstrip()
    usage = f"{about}\n\nUsage: {name} [options] {files}\ne.g.:\n {name} {example}\nSee also: {see}\n"
    return kaldi_command(name, group, help, usage, arguments=arguments, options=[*options, QUIET])


# -- text --------------------------------------------------------------------------------------------------------------


def _form(options: Options, fst: Fst | None = None) -> TextForm:
    """Return the text format that the options ask for; ``fst`` gives the symbol tables that no option names."""
    from nnet3py.fst.text import TextForm, read_symbols, symbols_of

    own = symbols_of(fst) if fst is not None and not options.numeric else (None, None)
    inputs, outputs = (read_symbols(name) if name else table for name, table in
                       zip((options.isymbols, options.osymbols), own, strict=True))
    if fst is not None:
        return TextForm(options.acceptor, inputs, outputs)
    return TextForm(options.acceptor, inputs, outputs, options.keep_state_numbering, options.allow_negative_labels)


@_command("fstcompile", "FSTs (OpenFst's programs)", "Make an FST from lines of text.",
          more="A line is STATE NEXT-STATE INPUT OUTPUT [COST] for an arc, STATE [COST] for a final state. The first\n"
               "line begins with the start state.",
          options=(
              *_SYMBOLS, _ACCEPTOR,
              option("arc_type", str, "standard", "No effect: weights are tropical", choices=("standard",)),
              option("fst_type", str, "vector", "Type of FST that is written", choices=_KINDS),
              option("ssymbols", str, "", "Not supported: states are integers"),
              option("keep_isymbols", bool, False, "Store the input symbol table in the FST"),
              option("keep_osymbols", bool, False, "Store the output symbol table in the FST"),
              option("keep_state_numbering", bool, False, "Keep the text's state numbers; false: number states as "
                     "they appear"),
              option("allow_negative_labels", bool, False, "Allow labels below 0")),
          files="[<text-rxfilename> [<fst-wxfilename>]]",
          example="--isymbols=phones.txt --osymbols=words.txt L.txt L.fst", see="fstprint, fstarcsort")
def fst_compile(args: list[str], options: Options) -> int:
    from nnet3py.fst.text import fst_of_text, with_symbols
    from nnet3py.io.streams import complete_input

    if options.ssymbols:
        raise UsageError("--ssymbols is not supported", "give integers for states")
    source, target = names_of_files(args)
    form = _form(options)
    with complete_input(source) as stream:
        data = stream.read()
    fst = fst_of_text(data, form, source)
    kept = with_symbols(fst, form.inputs if options.keep_isymbols else None,
                        (form.inputs if options.acceptor else form.outputs) if options.keep_osymbols else None,
                        options.isymbols)
    write_graph(target, kept, options.fst_type)
    return 0


@_command("fstprint", "FSTs (OpenFst's programs)", "Print an FST as lines of text, those of the start state first.",
          more="Labels are printed as symbols of the tables given, or of those stored in the FST, or as integers.",
          options=(
              *_SYMBOLS, _ACCEPTOR,
              option("ssymbols", str, "", "Not supported: states are integers"),
              option("numeric", bool, False, "Print labels as integers, even if the FST has symbol tables"),
              option("show_weight_one", bool, False, "Print costs of 0"),
              option("precision", int, 9, "Significant digits of costs")),
          files="[<fst-rxfilename> [<text-wxfilename>]]", example="--isymbols=phones.txt --osymbols=words.txt L.fst",
          see="fstcompile, fstinfo")
def fst_print(args: list[str], options: Options) -> int:
    from nnet3py.fst.text import text_of_fst
    from nnet3py.io.streams import open_output

    if options.ssymbols:
        raise UsageError("--ssymbols is not supported", "states are printed as integers")
    source, target = names_of_files(args)
    fst = read_graph(source)
    with open_output(target) as stream:
        for piece in text_of_fst(fst, _form(options, fst), options.show_weight_one, max(1, min(options.precision, 17))):
            stream.write(piece)
    return 0


@_command("fstinfo", "FSTs (OpenFst's programs)", "Print the size, type and properties of an FST.",
          options=(
              option("info_type", str, "auto", "No effect: everything is printed", choices=("auto", "long", "short")),
              option("test_properties", bool, True, "No effect: all properties are computed"),
              option("fst_verify", bool, True, "No effect: FSTs are always checked")),
          arguments=(0, 1), files="[<fst-rxfilename>]", example="G.fst", see="fstprint, fstisstochastic")
def fst_info(args: list[str], options: Options) -> int:
    from nnet3py.fst.text import info_text

    sys.stdout.write(info_text(read_graph(names_of_files(args)[0])))
    return 0


@_command("fstsymbols", "FSTs (OpenFst's programs)", "Set, remove or save the symbol tables stored in an FST.",
          options=(
              *_SYMBOLS,
              option("clear_isymbols", bool, False, "Remove the input symbol table"),
              option("clear_osymbols", bool, False, "Remove the output symbol table"),
              option("save_isymbols", str, "", "File to which the input symbol table is written"),
              option("save_osymbols", str, "", "File to which the output symbol table is written")),
          example="--save_osymbols=words.txt G.fst /dev/null", see="fstcompile, fstprint")
def fst_symbols(args: list[str], options: Options) -> int:
    from nnet3py.fst.text import read_symbols, symbols_of, symbols_text, with_symbols
    from nnet3py.io.streams import open_output

    source, target = names_of_files(args)
    fst = read_graph(source)
    tables = list(symbols_of(fst))
    for side, letter in enumerate("io"):
        name = options[f"save_{letter}symbols"]
        if name:
            table = tables[side]
            if table is None:
                raise FormatError(f"the FST has no {'input' if side == 0 else 'output'} symbol table", path=source)
            with open_output(name) as stream:
                stream.write(symbols_text(table))
        if options[f"clear_{letter}symbols"]:
            tables[side] = None
        elif options[f"{letter}symbols"]:
            tables[side] = read_symbols(options[f"{letter}symbols"])
    write_graph(target, with_symbols(fst, tables[0], tables[1]))
    return 0


# -- forms and labels --------------------------------------------------------------------------------------------------


@_command("fstarcsort", "FSTs (OpenFst's programs)", "Sort each state's arcs by their labels.",
          options=(
              option("sort_type", str, "ilabel", "Sort by input or output labels", choices=("ilabel", "olabel")),),
          example="--sort_type=olabel L.fst L_sorted.fst")
def fst_arc_sort(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import arc_sorted

    return change_graph(args, lambda fst: arc_sorted(fst, by_output=options.sort_type == "olabel"))


@_command("fstconvert", "FSTs (OpenFst's programs)", "Convert an FST to another FST type.",
          more="Files of type const are mapped into memory, not read.",
          options=(
              option("fst_type", str, "vector", "Type of FST that is written", choices=(*_KINDS, "olabel_lookahead")),
              option("save_relabel_opairs", str, "", "With olabel_lookahead, which renumbers output labels: file to "
                     "which lines OLD NEW are written, for fstrelabel --relabel_ipairs")),
          example="--fst_type=const HCLG.fst HCLG_const.fst")
def fst_convert(args: list[str], options: Options) -> int:
    source, target = names_of_files(args)
    if options.fst_type != "olabel_lookahead":
        write_graph(target, read_graph(source), options.fst_type)
        return 0
    import numpy as np

    from nnet3py.decoding.lookahead import write_lookahead
    from nnet3py.io.streams import open_output, write_text
    from nnet3py.io.tokens import TokenWriter

    graph = read_graph(source)
    with open_output(target or "-") as stream:
        labels = write_lookahead(TokenWriter(stream, binary=True), graph)
    if options.save_relabel_opairs:
        # Labels that the FST lacks are mapped to a label that it lacks, too, so that they match no arc.
        count, old = int(np.count_nonzero(labels)), np.flatnonzero(labels)
        others = [number for number in range(1, count + 2) if number >= len(labels) or not labels[number]]
        write_text(options.save_relabel_opairs, "".join(f"{label} {labels[label]}\n" for label in old.tolist())
                   + "".join(f"{number} {count + 2}\n" for number in others))
    return 0


@_command("fstinvert", "FSTs (OpenFst's programs)", "Exchange the input and output labels of an FST.",
          example="L.fst L_inverted.fst")
def fst_invert(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import inverted
    from nnet3py.fst.text import symbols_of, with_symbols

    source, target = names_of_files(args)
    fst = read_graph(source)
    write_graph(target, with_symbols(inverted(fst), *symbols_of(fst)[::-1]))
    return 0


@_command("fstproject", "FSTs (OpenFst's programs)",
          "Project an FST on its input or output labels: the result is an acceptor.",
          options=(
              option("project_output", bool, False, "Same as --project_type=output"),
              option("project_type", str, "input", "Project on input or output labels", choices=("input", "output"))),
          example="--project_type=output G.fst")
def fst_project(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import projected
    from nnet3py.fst.text import symbols_of, with_symbols

    on_output = options.project_output or options.project_type == "output"
    source, target = names_of_files(args)
    fst = read_graph(source)
    table = symbols_of(fst)[on_output]
    write_graph(target, with_symbols(projected(fst, on_output), table, table))
    return 0


@_command("fstrelabel", "FSTs (OpenFst's programs)", "Replace labels of an FST by other ones.",
          more="A file has lines OLD NEW (integers).",
          options=(
              option("relabel_ipairs", str, "", "File of OLD NEW input labels"),
              option("relabel_opairs", str, "", "File of OLD NEW output labels")),
          example="--relabel_ipairs=relabel G.fst Gr.fst")
def fst_relabel(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import relabeled

    pairs = [_read_pairs(name) for name in (options.relabel_ipairs, options.relabel_opairs)]
    return change_graph(args, lambda fst: relabeled(fst, *pairs))


def _read_pairs(name: str) -> dict[int, int]:
    numbers = read_numbers(name) if name else []
    if len(numbers) % 2:
        raise FormatError(f"expected pairs of labels, found {len(numbers)} numbers", path=name)
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


@_command("fstreplace", "FSTs (OpenFst's programs)",
          "Replace each arc of the first FST that has the output label <labelN> by the FST <fstN>.",
          more="The <root-label> has no effect.",
          arguments=(4, 21),
          files="<fst-rxfilename> <root-label> <fst1-rxfilename> <label1> [<fst2-rxfilename> <label2> ...]",
          example="L.fst 9999 unk.fst 10 > L_unk.fst", see="fstrelabel")
def fst_replace(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import replaced

    names, labels = args[0::2], args[1::2]
    target = "-"
    if len(names) > len(labels):
        target = names.pop()
    if not all(label.isdecimal() for label in labels):
        raise UsageError(f"expected a number after each FST, found {' '.join(labels)}")
    root = read_graph(names[0] or "-")
    parts = [(int(label), read_graph(name)) for name, label in zip(names[1:], labels[1:], strict=True)]
    for label, part in parts:
        if any((other.output_labels == label).any() for _, other in parts):
            raise UsageError(f"label {label} is in an FST that replaces arcs",
                             "only arcs of the first FST are replaced")
        root = replaced(root, label, part)
    write_graph(target, root)
    return 0


# -- states and paths --------------------------------------------------------------------------------------------------


@_command("fstconnect", "FSTs (OpenFst's programs)",
          "Remove the states and arcs that are on no path from the start to a final state.",
          example="in.fst out.fst")
def fst_connect(args: list[str], options: Options) -> int:
    from nnet3py.transducers.fst_operations import connected

    return change_graph(args, connected)


@_command("fsttopsort", "FSTs (OpenFst's programs)",
          "Sort the states of an FST topologically: arcs lead to higher numbers.",
          more="FSTs with cycles are copied unchanged.",
          example="in.fst out.fst")
def fst_top_sort(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import in_top_order

    return change_graph(args, in_top_order)


@_command("fstreverse", "FSTs (OpenFst's programs)", "Reverse an FST: the result accepts the reversed sequences.",
          example="in.fst out.fst")
def fst_reverse(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import reversed_fst

    return change_graph(args, reversed_fst)


@_command("fstunion", "FSTs (OpenFst's programs)", "Unite two FSTs: the result accepts the sequences of either.",
          arguments=(2, 3),
          files="<fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]", example="a.fst b.fst either.fst",
          see="fstconcat, fstclosure")
def fst_union(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import union

    write_graph([*args, "-"][2], union(read_graph(args[0]), read_graph(args[1])))
    return 0


@_command("fstconcat", "FSTs (OpenFst's programs)",
          "Concatenate two FSTs: the result accepts sequences of the first and then of the second.",
          arguments=(2, 3),
          files="<fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]", example="a.fst b.fst both.fst",
          see="fstunion, fstclosure")
def fst_concat(args: list[str], options: Options) -> int:
    from nnet3py.transducers.fst_operations import concatenated

    write_graph([*args, "-"][2], concatenated([read_graph(name) for name in args[:2]]))
    return 0


@_command("fstclosure", "FSTs (OpenFst's programs)",
          "Compute the closure of an FST: the result accepts repetitions of its sequences.",
          options=(
              option("closure_plus", bool, False, "Same as --closure_type=plus"),
              option("closure_type", str, "star", "star: zero or more repetitions; plus: one or more",
                     choices=("star", "plus"))), example="a.fst many.fst", see="fstconcat")
def fst_closure(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import closure

    plus = options.closure_plus or options.closure_type == "plus"
    return change_graph(args, lambda fst: closure(fst, plus))


@_command("fstrandgen", "FSTs (OpenFst's programs)", "Draw random paths of an FST, and write an FST of them.",
          options=(
              option("max_length", int, 2147483647, "Greatest number of arcs of a path; longer paths are drawn again"),
              option("npath", int, 1, "Number of paths"),
              option("seed", int, 0, "Seed of the random numbers (0: from the clock)"),
              option("select", str, "uniform", "Choose arcs (or the end) uniformly, or by the "
                     "probabilities of their costs", choices=("uniform", "log_prob"))),
          example="G.fst path.fst")
def fst_rand_gen(args: list[str], options: Options) -> int:
    from nnet3py.fst.operations import random_paths

    return change_graph(args, lambda fst: random_paths(fst, options.npath, options.max_length, options.seed or None,
                                                       by_cost=options.select == "log_prob"))


@_command("fstdraw", "FSTs (OpenFst's programs)", "Print an FST in GraphViz's dot language.",
          options=(
              *_SYMBOLS, _ACCEPTOR,
              option("numeric", bool, False, "Print labels as integers, even if the FST has symbol tables"),
              option("portrait", bool, False, "Portrait, not landscape"),
              option("title", str, "", "Title of the drawing"),
              option("precision", int, 5, "Significant digits of costs"),
              option("show_weight_one", bool, False, "Print costs of 0")),
          files="[<fst-rxfilename> [<text-wxfilename>]]", example="--portrait=true G.fst | dot -Tpdf > G.pdf")
def fst_draw(args: list[str], options: Options) -> int:
    from nnet3py.fst.text import drawing_text
    from nnet3py.io.streams import open_output

    source, target = names_of_files(args)
    fst = read_graph(source)
    with open_output(target) as stream:
        stream.write(drawing_text(fst, _form(options, fst), options.portrait, options.title, options.precision,
                                  options.show_weight_one))
    return 0


# -- programs that need kaldifst ---------------------------------------------------------------------------------------


def _change_openfst(args: list[str], change: Callable[[Any], Any]) -> int:
    """Read an FST, convert it to kaldifst's form, write ``change(fst)``, and return 0.

    ``change`` may change its argument in place and return None.
    """
    from nnet3py.fst.openfst import to_openfst, write_openfst

    source, target = names_of_files(args)
    graph = to_openfst(read_graph(source))
    changed = change(graph)
    write_openfst(target, graph if changed is None else changed)
    return 0


@_command("fstcompose", "FSTs (OpenFst's programs)",
          "Compose two FSTs, the output labels of the first with the input labels of the second.",
          options=(
              CONNECT, option("compose_filter", str, "auto", "No effect on paths: the order of epsilons")),
          arguments=(2, 3), files="<fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]",
          example="L.fst G.fst LG.fst", see="fsttablecompose")
def fst_compose(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import compose, write_openfst

    write_openfst([*args, "-"][2] or "-", compose(read_graph(args[0]), read_graph(args[1]), options.connect))
    return 0


@_command("fstrmepsilon", "FSTs (OpenFst's programs)",
          "Remove the arcs of an FST with epsilon as input and output label.",
          options=(
              CONNECT, option("delta", float, 1e-6, "Costs that differ by at most this are equal", least=0)),
          example="in.fst out.fst", see="fstrmepslocal, fstdeterminizestar")
def fst_rm_epsilon(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import load_kaldifst

    return _change_openfst(args, lambda graph: load_kaldifst().rmepsilon(graph, connect=options.connect,
                                                                         delta=options.delta))


@_command("fstdeterminize", "FSTs (OpenFst's programs)", "Determinize an FST; epsilon is a label like any other.",
          options=(
              DELTA,
              option("det_type", str, "functional", "Treatment of paths with the same input and different output: "
                     "functional: there are none", choices=("functional", "nonfunctional", "disambiguate"))),
          example="in.fst out.fst", see="fstdeterminizestar, fstrmepsilon")
def fst_determinize(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import determinize

    return _change_openfst(args, lambda graph: determinize(graph, options.delta, options.det_type))


@_command("fstminimize", "FSTs (OpenFst's programs)",
          "Minimize a deterministic FST, having pushed costs and output labels towards its start.",
          options=(
              DELTA, option("allow_nondet", bool, False, "Accept an FST that is not deterministic")),
          example="in.fst out.fst", see="fstdeterminize, fstminimizeencoded")
def fst_minimize(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import load_kaldifst

    return _change_openfst(args, lambda graph: load_kaldifst().minimize(graph, delta=options.delta,
                                                                        allow_nondet=options.allow_nondet))


@_command("fstshortestpath", "FSTs (OpenFst's programs)",
          "Find the shortest (cheapest) paths of an FST, and write an FST of them.",
          options=(
              option("nshortest", int, 1, "Number of paths"),),
          example="in.fst | fsttopsort | fstprint", see="fsttopsort, fstrandgen")
def fst_shortest_path(args: list[str], options: Options) -> int:
    from nnet3py.fst.openfst import shortest_path, write_openfst

    source, target = names_of_files(args)
    write_openfst(target, shortest_path(read_graph(source), options.nshortest))
    return 0
