"""arpa2fst and arpa-to-const-arpa: n-gram models in the forms that graphs and rescoring use."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

_WARNINGS = option("max-arpa-warnings", int, 30, "The largest number of warnings about single lines to show; -1: all")


@kaldi_command("arpa2fst", group="Language models", help="Make a grammar from an ARPA file.", usage="""
Turn an ARPA file into a grammar: an FST of words, with a state for each history. With --disambig-symbol its back-off
arcs have that symbol on the input side; otherwise they are epsilons, and sentences begin and end with arcs of their
own. Without --read-symbol-table words get numbers as they come, and are kept in the FST.

Usage: arpa2fst [options] <arpa-rxfilename> [<fst-wxfilename>]
e.g.:
 arpa2fst --disambig-symbol=#0 --read-symbol-table=data/lang/words.txt lm.arpa G.fst
See also: arpa-to-const-arpa, fstisstochastic, make-graph
""", arguments=(1, 2), options=[
    option("bos-symbol", str, "<s>", "Word that begins sentences"),
    option("eos-symbol", str, "</s>", "Word that ends sentences"),
    option("disambig-symbol", str, "", "Symbol of back-off arcs, such as #0; empty: epsilon"),
    option("read-symbol-table", str, "", "File of words and their numbers; n-grams of other words are left out"),
    option("write-symbol-table", str, "", "Write words and their numbers to this file"),
    option("keep-symbols", bool, False, "Keep words and their numbers in the FST"),
    option("ilabel-sort", bool, True, "Sort arcs by input label"),
    _WARNINGS,
])
def arpa_to_fst(args: list[str], options: Options) -> int:
    """Make a grammar."""
    from nnet3py.cli.fst.graph_files import write_graph
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.arpa_graph import Sentence, arpa_graph
    from nnet3py.fst.text import symbols_text, with_symbols
    from nnet3py.io.streams import open_output

    target = args[1] if len(args) > 1 else "-"
    symbols = _words_of_arpa(options)
    bos, eos = (symbols.setdefault(_bytes(word), _next_number(symbols)) for word in
                (options.bos_symbol, options.eos_symbol))
    warn = Warner(options.max_arpa_warnings)
    arpa = read_arpa(args[0], WordIds(symbols, grow=not options.read_symbol_table), warn)
    backoff = symbols[_bytes(options.disambig_symbol)] if options.disambig_symbol else 0
    graph = arpa_graph(arpa, Sentence(bos, eos, backoff), warn, options.ilabel_sort)
    if options.write_symbol_table:
        with open_output(options.write_symbol_table) as stream:
            stream.write(symbols_text(symbols))
    keep = options.keep_symbols or not (options.read_symbol_table or options.write_symbol_table)
    write_graph(target, with_symbols(graph, symbols, symbols, target) if keep else graph)
    return 0


def _words_of_arpa(options: Options) -> dict[bytes, int]:
    from nnet3py.fst.text import read_symbols

    if not options.read_symbol_table:
        return {b"<eps>": 0, **({_bytes(options.disambig_symbol): 1} if options.disambig_symbol else {})}
    symbols = read_symbols(options.read_symbol_table)
    if options.disambig_symbol and _bytes(options.disambig_symbol) not in symbols:
        raise UsageError(f"the symbol table {options.read_symbol_table} has no symbol {options.disambig_symbol}",
                         "give the words.txt of a lang folder")
    return symbols


def _bytes(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


def _next_number(symbols: dict[bytes, int]) -> int:
    return max(symbols.values(), default=-1) + 1


@kaldi_command("arpa-to-const-arpa", group="Language models",
               help="Turn an ARPA file into a language model that is looked up as it is.", usage="""
Turn an ARPA file whose words are numbers into a const-ARPA file, in which n-grams are looked up directly, without
building a model first.

Usage: arpa-to-const-arpa [options] <arpa-rxfilename> <const-arpa-wxfilename>
e.g.:
 arpa-to-const-arpa --bos-symbol=1 --eos-symbol=2 lm.int.arpa G.carpa
See also: arpa2fst, lattice-lmrescore-const-arpa
""", arguments=(2, 2), options=[
    option("bos-symbol", int, -1, "Number of the word that begins sentences"),
    option("eos-symbol", int, -1, "Number of the word that ends sentences"),
    option("unk-symbol", int, -1, "Number of the word that stands for unknown ones; -1: none"),
    _WARNINGS,
])
def arpa_to_const_arpa(args: list[str], options: Options) -> int:
    """Convert a file."""
    from nnet3py.fst.arpa import Warner, WordIds, read_arpa
    from nnet3py.fst.const_arpa import build_const_arpa

    if options.bos_symbol == -1 or options.eos_symbol == -1:
        raise UsageError("--bos-symbol and --eos-symbol must be given",
                         "they are the numbers of <s> and </s> in words.txt")
    log.log(f"Reading {args[0]}", "BuildConstArpaLm", "const-arpa-lm.cc", 1078)
    arpa = read_arpa(args[0], WordIds(None), Warner(options.max_arpa_warnings))
    build_const_arpa(arpa, options.bos_symbol, options.eos_symbol, options.unk_symbol).write(args[1])
    return 0
