"""make-grammar-fst: graphs of a grammar in one file, to be put together while decoding."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.fst.graph_files import read_graph, write_graph
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError


@kaldi_command("make-grammar-fst", group="Graphs", help="Put the graphs of a grammar's nonterminals into one file.",
               usage="""
Put a graph and the graphs of the nonterminals that it calls, such as #nonterm:contacts, into one file, from which
nnet3-latgen-grammar decodes. So a part, such as a list of names, can be exchanged without making the others again.
<symbolN> is the number of a nonterminal in phones.txt. With two files, prepare a single graph to become such a part;
make-graph and Kaldi's utils/mkgraph.sh do that by themselves.

Usage: make-grammar-fst [options] <top-level-fst> <symbol1> <fst1> [<symbol2> <fst2> ...] <fst-out>
 or:   make-grammar-fst [options] <fst-in> <fst-out>
e.g.:
 make-grammar-fst --nonterm-phones-offset=317 HCLG.fst 321 HCLG1.fst HCLG.gra
See also: nnet3-latgen-grammar, make-graph
""", arguments=(2, 100_000), options=[
    option("nonterm-phones-offset", int, -1, "The number of #nonterm_bos in phones.txt"),
    option("write-as-grammar", bool, True, "Write parts, to be put together while decoding; false: put them together, "
           "and write one graph"),
])
def make_grammar_fst(args: list[str], options: Options) -> int:
    """Make the file."""
    from nnet3py.graphs.grammar_fst import GrammarFst, Nonterminals, can_be_empty, of_part

    if len(args) % 2:
        raise UsageError("expected a nonterminal's number before each graph but the top one",
                         "make-grammar-fst TOP.fst NUMBER PART.fst … OUT")
    names = Nonterminals(options.nonterm_phones_offset)
    if len(args) == 2:
        write_graph(args[1], of_part(read_graph(args[0]), names))
        return 0
    numbers = [_number(word) for word in args[1:-1:2]]
    if len(set(numbers)) < len(numbers):
        raise UsageError("a nonterminal has two graphs", "give each number once")
    grammar = GrammarFst.of(names, read_graph(args[0]),
                         dict(zip(numbers, map(read_graph, args[2:-1:2]), strict=True)))
    for number in numbers:
        if can_be_empty(grammar.parts[number], names):
            log.warning(f"Nonterminal {number} can stand for nothing at all; where it can be said again and again, "
                        "decoding fails. An n-gram model of text also allows an empty sentence.")
    if options.write_as_grammar:
        grammar.write(args[-1])
        log.log(f"Wrote {args[-1]}, of {1 + len(numbers)} graphs")
    else:
        from nnet3py.decoding.composed_graphs import grammar_as_fst

        write_graph(args[-1], grammar_as_fst(grammar), "const")
    return 0


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise UsageError(f"expected the number of a nonterminal, found '{word}'", "it is in phones.txt")
    return int(word)
