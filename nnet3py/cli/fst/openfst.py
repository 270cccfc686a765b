"""OpenFst's programs that make, print and change single FSTs, as far as Kaldi's scripts use them, and a few more."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nnet3py.cli.fst.graph_files import change_graph, names_of_files, read_graph, write_graph
from nnet3py.cli.process.command import KaldiCommand, kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Option, Options, option
from nnet3py.errors import FormatError, UsageError
from nnet3py.transducers.fst_kinds import COMPACT_KINDS, CONST_KINDS

if TYPE_CHECKING:
    from nnet3py.fst.text import TextForm
    from nnet3py.transducers.fst import Fst

_SYMBOLS = (option("isymbols", str, "", "File of input symbols and their numbers"),
            option("osymbols", str, "", "File of output symbols and their numbers"))
_ACCEPTOR = option("acceptor", bool, False, "A line has one label, which is input and output")
_KINDS = ("vector", *CONST_KINDS, *COMPACT_KINDS, "ngram")


def _command(name: str, about: str, options: Sequence[Option], arguments: tuple[int, int] = (0, 2),
             files: str = "[<fst-rxfilename> [<fst-wxfilename>]]", example: str = "", see: str = "fstprint",
             *, group: str, help: str) -> Callable[[Callable[[list[str], Options], int]], KaldiCommand]:
    usage = f"{about}\n\nUsage: {name} [options] {files}\ne.g.:\n {name} {example}\nSee also: {see}\n"
    return kaldi_command(name, group=group, help=help, usage=usage, arguments=arguments, options=[*options, QUIET])


# -- text --------------------------------------------------------------------------------------------------------------


def _form(options: Options, fst: Fst | None = None) -> TextForm:
    """What lines look like; an FST's own symbols are used where no file is named."""
    from nnet3py.fst.text import TextForm, read_symbols, symbols_of

    own = symbols_of(fst) if fst is not None and not options.numeric else (None, None)
    inputs, outputs = (read_symbols(name) if name else table for name, table in
                       zip((options.isymbols, options.osymbols), own, strict=True))
    if fst is not None:
        return TextForm(options.acceptor, inputs, outputs)
    return TextForm(options.acceptor, inputs, outputs, options.keep_state_numbering, options.allow_negative_labels)


@_command("fstcompile", "Make an FST from lines of text: STATE NEXT-STATE INPUT OUTPUT [COST] for an arc, STATE [COST] "
          "for a final\nstate. The first line begins with the start state.", (
              *_SYMBOLS, _ACCEPTOR,
              option("arc_type", str, "standard", "No effect: there is one kind of weights", choices=("standard",)),
              option("fst_type", str, "vector", "Form of the file", choices=_KINDS),
              option("ssymbols", str, "", "Not supported: states are numbers"),
              option("keep_isymbols", bool, False, "Keep the input symbols in the FST"),
              option("keep_osymbols", bool, False, "Keep the output symbols in the FST"),
              option("keep_state_numbering", bool, False, "States keep their numbers; otherwise, as they appear"),
              option("allow_negative_labels", bool, False, "Labels may be below 0")),
          files="[<text-rxfilename> [<fst-wxfilename>]]",
          example="--isymbols=phones.txt --osymbols=words.txt L.txt L.fst", see="fstprint, fstarcsort",
          group="FSTs (OpenFst's programs)", help="Make an FST from lines of text.")
def fst_compile(args: list[str], options: Options) -> int:
    """Compile."""
    from nnet3py.fst.text import fst_of_text, with_symbols
    from nnet3py.io.streams import failed_command, open_input

    if options.ssymbols:
        raise UsageError("--ssymbols is not supported", "number the states")
    source, target = names_of_files(args)
    form = _form(options)
    with open_input(source) as stream:
        data = stream.read()
    if stream.status:
        raise failed_command(stream.path, stream.status)
    fst = fst_of_text(data, form, source)
    kept = with_symbols(fst, form.inputs if options.keep_isymbols else None,
                        (form.inputs if options.acceptor else form.outputs) if options.keep_osymbols else None,
                        options.isymbols)
    write_graph(target, kept, options.fst_type)
    return 0


@_command("fstprint", "Print an FST as lines of text, those of the start state first. Symbols come from files, or from "
          "the FST itself.", (
              *_SYMBOLS, _ACCEPTOR,
              option("ssymbols", str, "", "Not supported: states are numbers"),
              option("numeric", bool, False, "Print numbers, though the FST has symbols"),
              option("show_weight_one", bool, False, "Print costs of 0, too"),
              option("precision", int, 9, "Digits of costs")),
          files="[<fst-rxfilename> [<text-wxfilename>]]", example="--isymbols=phones.txt --osymbols=words.txt L.fst",
          see="fstcompile, fstinfo", group="FSTs (OpenFst's programs)", help="Print an FST as lines of text.")
def fst_print(args: list[str], options: Options) -> int:
    """Print."""
    from nnet3py.fst.text import text_of_fst
    from nnet3py.io.streams import open_output

    if options.ssymbols:
        raise UsageError("--ssymbols is not supported", "states are printed as numbers")
    source, target = names_of_files(args)
    fst = read_graph(source)
    with open_output(target) as stream:
        for piece in text_of_fst(fst, _form(options, fst), options.show_weight_one, max(1, min(options.precision, 17))):
            stream.write(piece)
    return 0


@_command("fstinfo", "Print what an FST consists of.", (
              option("info_type", str, "auto", "No effect: all is printed", choices=("auto", "long", "short")),
              option("test_properties", bool, True, "No effect: all properties are found out"),
              option("fst_verify", bool, True, "No effect: FSTs are always checked")),
          arguments=(0, 1), files="[<fst-rxfilename>]", example="G.fst", see="fstprint, fstisstochastic",
          group="FSTs (OpenFst's programs)", help="Print what an FST consists of.")
def fst_info(args: list[str], options: Options) -> int:
    """Print facts."""
    import sys

    from nnet3py.fst.text import info_text

    sys.stdout.write(info_text(read_graph(names_of_files(args)[0])))
    return 0


@_command("fstsymbols", "Set, take out or save the tables of symbols that an FST has.", (
              *_SYMBOLS,
              option("clear_isymbols", bool, False, "Take the input symbols out"),
              option("clear_osymbols", bool, False, "Take the output symbols out"),
              option("save_isymbols", str, "", "Write the input symbols to this file"),
              option("save_osymbols", str, "", "Write the output symbols to this file")),
          example="--save_osymbols=words.txt G.fst /dev/null", see="fstcompile, fstprint",
          group="FSTs (OpenFst's programs)", help="Set, take out or save the symbols of an FST.")
def fst_symbols(args: list[str], options: Options) -> int:
    """Change the tables."""
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
                raise FormatError(f"there are no {'input' if side == 0 else 'output'} symbols in an FST", path=source)
            with open_output(name) as stream:
                stream.write(symbols_text(table))
        if options[f"clear_{letter}symbols"]:
            tables[side] = None
        elif options[f"{letter}symbols"]:
            tables[side] = read_symbols(options[f"{letter}symbols"])
    write_graph(target, with_symbols(fst, tables[0], tables[1]))
    return 0


# -- forms and labels --------------------------------------------------------------------------------------------------


@_command("fstarcsort", "Sort each state's arcs by their labels.", (
              option("sort_type", str, "ilabel", "By input or output labels", choices=("ilabel", "olabel")),),
          example="--sort_type=olabel L.fst L_sorted.fst", group="FSTs (OpenFst's programs)",
          help="Sort the arcs of an FST.")
def fst_arc_sort(args: list[str], options: Options) -> int:
    """Sort."""
    from nnet3py.fst.operations import arc_sorted

    return change_graph(args, lambda fst: arc_sorted(fst, by_output=options.sort_type == "olabel"))


@_command("fstconvert", "Copy an FST into another form of file. Programs map a const one into memory as it is.", (
              option("fst_type", str, "vector", "Form of the file", choices=(*_KINDS, "olabel_lookahead")),
              option("save_relabel_opairs", str, "", "File for the new numbers of output labels that olabel_lookahead "
                     "gives them, lines OLD NEW, for fstrelabel --relabel_ipairs")),
          example="--fst_type=const HCLG.fst HCLG_const.fst", group="FSTs (OpenFst's programs)",
          help="Copy an FST into another form of file.")
def fst_convert(args: list[str], options: Options) -> int:
    """Convert."""
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
        # A label that does not occur gets one that does not, either, so that nothing it meets takes it for another.
        count, old = int(np.count_nonzero(labels)), np.flatnonzero(labels)
        others = [number for number in range(1, count + 2) if number >= len(labels) or not labels[number]]
        write_text(options.save_relabel_opairs, "".join(f"{label} {labels[label]}\n" for label in old.tolist())
                   + "".join(f"{number} {count + 2}\n" for number in others))
    return 0


@_command("fstinvert", "Exchange input and output.", (), example="L.fst L_inverted.fst",
          group="FSTs (OpenFst's programs)", help="Exchange the input and the output of an FST.")
def fst_invert(args: list[str], options: Options) -> int:
    """Invert."""
    from nnet3py.fst.operations import inverted
    from nnet3py.fst.text import symbols_of, with_symbols

    source, target = names_of_files(args)
    fst = read_graph(source)
    write_graph(target, with_symbols(inverted(fst), *symbols_of(fst)[::-1]))
    return 0


@_command("fstproject", "Make the acceptor of the input or output side.", (
              option("project_output", bool, False, "Of the output side"),
              option("project_type", str, "input", "Of which side", choices=("input", "output"))),
          example="--project_type=output G.fst", group="FSTs (OpenFst's programs)",
          help="Make the acceptor of one side of an FST.")
def fst_project(args: list[str], options: Options) -> int:
    """Project."""
    from nnet3py.fst.operations import projected
    from nnet3py.fst.text import symbols_of, with_symbols

    on_output = options.project_output or options.project_type == "output"
    source, target = names_of_files(args)
    fst = read_graph(source)
    table = symbols_of(fst)[on_output]
    write_graph(target, with_symbols(projected(fst, on_output), table, table))
    return 0


@_command("fstrelabel", "Replace labels by others. A file has a line OLD NEW for each that changes.", (
              option("relabel_ipairs", str, "", "File of pairs of input labels"),
              option("relabel_opairs", str, "", "File of pairs of output labels")),
          example="--relabel_ipairs=relabel G.fst Gr.fst", group="FSTs (OpenFst's programs)",
          help="Replace labels of an FST by others.")
def fst_relabel(args: list[str], options: Options) -> int:
    """Relabel."""
    from nnet3py.fst.operations import relabeled

    pairs = [_pairs(name) for name in (options.relabel_ipairs, options.relabel_opairs)]
    return change_graph(args, lambda fst: relabeled(fst, *pairs))


def _pairs(name: str) -> dict[int, int]:
    from nnet3py.cli.fst.graph_files import read_numbers

    numbers = read_numbers(name) if name else []
    if len(numbers) % 2:
        raise FormatError(f"expected pairs of labels, found {len(numbers)} numbers", path=name)
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


@_command("fstreplace", "Replace each arc with a certain output label by an FST. The first label is that of the root, "
          "and has no meaning here.", (), arguments=(4, 21),
          files="<fst-rxfilename> <root-label> <fst1-rxfilename> <label1> [<fst2-rxfilename> <label2> ...]",
          example="L.fst 9999 unk.fst 10 > L_unk.fst", see="fstrelabel", group="FSTs (OpenFst's programs)",
          help="Replace arcs of an FST by FSTs.")
def fst_replace(args: list[str], options: Options) -> int:
    """Replace arcs."""
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
            raise UsageError(f"label {label} stands in an FST that replaces, too",
                             "only arcs of the first FST are replaced")
        root = replaced(root, label, part)
    write_graph(target, root)
    return 0


# -- states and paths --------------------------------------------------------------------------------------------------


@_command("fstconnect", "Leave out the states and arcs that no path from the start to an end passes.", (),
          example="in.fst out.fst", group="FSTs (OpenFst's programs)",
          help="Leave out states and arcs that are on no path of an FST.")
def fst_connect(args: list[str], options: Options) -> int:
    """Leave out what is not needed."""
    from nnet3py.transducers.fst_operations import connected

    return change_graph(args, connected)


@_command("fsttopsort", "Number states so that arcs lead to higher numbers; an FST with a cycle stays as it is.", (),
          example="in.fst out.fst", group="FSTs (OpenFst's programs)",
          help="Number the states of an FST in the order of its arcs.")
def fst_top_sort(args: list[str], options: Options) -> int:
    """Sort states."""
    from nnet3py.fst.operations import in_top_order

    return change_graph(args, in_top_order)


@_command("fstreverse", "Make the FST that accepts everything backwards.", (), example="in.fst out.fst",
          group="FSTs (OpenFst's programs)", help="Turn an FST backwards.")
def fst_reverse(args: list[str], options: Options) -> int:
    """Reverse."""
    from nnet3py.fst.operations import reversed_fst

    return change_graph(args, reversed_fst)


@_command("fstunion", "Make the FST of what either of two accepts.", (), arguments=(2, 3),
          files="<fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]", example="a.fst b.fst either.fst",
          see="fstconcat, fstclosure", group="FSTs (OpenFst's programs)", help="Unite two FSTs.")
def fst_union(args: list[str], options: Options) -> int:
    """Unite."""
    from nnet3py.fst.operations import union

    write_graph([*args, "-"][2], union(read_graph(args[0]), read_graph(args[1])))
    return 0


@_command("fstconcat", "Make the FST of what one accepts, followed by what another accepts.", (), arguments=(2, 3),
          files="<fst1-rxfilename> <fst2-rxfilename> [<fst-wxfilename>]", example="a.fst b.fst both.fst",
          see="fstunion, fstclosure", group="FSTs (OpenFst's programs)", help="Put one FST after another.")
def fst_concat(args: list[str], options: Options) -> int:
    """Concatenate."""
    from nnet3py.transducers.fst_operations import concatenated

    write_graph([*args, "-"][2], concatenated([read_graph(name) for name in args[:2]]))
    return 0


@_command("fstclosure", "Make the FST of what is accepted any number of times in a row.", (
              option("closure_plus", bool, False, "At least once"),
              option("closure_type", str, "star", "star: also not at all; plus: at least once",
                     choices=("star", "plus"))), example="a.fst many.fst", see="fstconcat",
          group="FSTs (OpenFst's programs)", help="Let an FST be passed any number of times.")
def fst_closure(args: list[str], options: Options) -> int:
    """Close."""
    from nnet3py.fst.operations import closure

    plus = options.closure_plus or options.closure_type == "plus"
    return change_graph(args, lambda fst: closure(fst, plus))


@_command("fstrandgen", "Draw random paths of an FST, uniformly among the arcs (and the end) at each state.", (
              option("max_length", int, 2147483647, "Most arcs of a path; longer ones are drawn again"),
              option("npath", int, 1, "Number of paths"),
              option("seed", int, 0, "Of the random numbers; 0: from the clock"),
              option("select", str, "uniform", "Uniformly, or by the costs", choices=("uniform", "log_prob"))),
          example="G.fst path.fst", group="FSTs (OpenFst's programs)", help="Draw random paths of an FST.")
def fst_rand_gen(args: list[str], options: Options) -> int:
    """Draw paths."""
    from nnet3py.fst.operations import random_paths

    return change_graph(args, lambda fst: random_paths(fst, options.npath, options.max_length, options.seed or None,
                                                       by_cost=options.select == "log_prob"))


@_command("fstdraw", "Print an FST as a drawing for GraphViz.", (
              *_SYMBOLS, _ACCEPTOR,
              option("numeric", bool, False, "Print numbers, though the FST has symbols"),
              option("portrait", bool, False, "Upright"),
              option("title", str, "", "Title of the drawing"),
              option("precision", int, 5, "Digits of costs"),
              option("show_weight_one", bool, False, "Print costs of 0, too")),
          files="[<fst-rxfilename> [<text-wxfilename>]]", example="--portrait=true G.fst | dot -Tpdf > G.pdf",
          group="FSTs (OpenFst's programs)", help="Print an FST as a drawing for GraphViz.")
def fst_draw(args: list[str], options: Options) -> int:
    """Draw."""
    from nnet3py.fst.text import drawing_text
    from nnet3py.io.streams import open_output

    source, target = names_of_files(args)
    fst = read_graph(source)
    with open_output(target) as stream:
        stream.write(drawing_text(fst, _form(options, fst), options.portrait, options.title, options.precision,
                                  options.show_weight_one))
    return 0
