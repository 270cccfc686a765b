"""build-tree, build-tree-two-level, copy-tree and draw-tree."""
from __future__ import annotations

from typing import Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.cli.trees.options import CONTEXT, check_context
from nnet3py.errors import UsageError
from nnet3py.option_fields import settings_of
from nnet3py.trees.options import BuildOptions


def _inputs(args: list[str]) -> tuple[Any, Any, Any, Any]:
    """Statistics, roots, questions and topology of the first four arguments."""
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines
    from nnet3py.trees.build import read_roots
    from nnet3py.trees.clustering import Questions
    from nnet3py.trees.stats import TreeStats

    stats = read_object(args[0], TreeStats.read)
    roots = read_roots(read_lines(args[1]), args[1])
    return stats, roots, read_object(args[2], Questions.read), read_object(args[3], HmmTopology.read)


@kaldi_command("build-tree", group="Trees and topologies", help="Build a tree from phones in context to pdfs.",
               usage="""
Build a tree from phones in context to pdfs: roots are split by the questions that gain most, then leaves that are alike
are merged.

Usage:  build-tree [options] <tree-stats-in> <roots-file> <questions-file> <topo-file> <tree-out>
e.g.:
 build-tree treeacc roots.txt 1.qst topo tree
See also: acc-tree-stats, compile-questions, gmm-init-model
""", arguments=(5, 5), options=[
    BINARY, *declared(settings_of(BuildOptions)),
])
def build_tree(args: list[str], options: Options) -> None:
    """Build a tree."""
    from nnet3py.io.object_files import write_object
    from nnet3py.trees import build

    check_context(options)
    stats, roots, questions, topology = _inputs(args)
    log.log(f"Number of separate statistics is {len(stats)}")
    tree = build.build_tree(stats, roots, questions, topology, fields_from(options, BuildOptions()))
    build.say_low_counts(stats, tree)
    build.warn_of_phones(stats, roots, topology, options.central_position)
    write_object(args[4], tree.write, options.binary)
    log.log("Wrote tree")


@kaldi_command("build-tree-two-level", group="Trees and topologies",
               help="Build a tree, and the map to a smaller one that it extends.", usage="""
Build a tree, and a map from its leaves to those of a smaller tree that it extends.

Usage:  build-tree-two-level [options] <tree-stats-in> <roots-file> <questions-file> <topo-file> <tree-out>
 <mapping-out>
e.g.:
 build-tree-two-level treeacc roots.txt 1.qst topo tree tree.map
See also: build-tree
""", arguments=(6, 6), options=[
    BINARY, *CONTEXT,
    option("max-leaves-first", int, 1000, "Leaves of the smaller tree"),
    option("max-leaves-second", int, 5000, "Leaves of the larger tree, before merging"),
    option("cluster-leaves", bool, True, "Merge leaves of the larger tree that are alike"),
])
def build_tree_two_level(args: list[str], options: Options) -> None:
    """Build two trees."""
    from nnet3py.io.object_files import write_object
    from nnet3py.trees import build

    check_context(options)
    stats, roots, questions, topology = _inputs(args)
    log.write_text(f"Number of separate statistics is {len(stats)}\n")
    tree, parents = build.build_two_level(
        stats, roots, questions, topology, BuildOptions(
            options.context_width, options.central_position, 0.0, options.max_leaves_first, 0.0, True),
        options.max_leaves_second, options.cluster_leaves)
    write_object(args[4], tree.write, options.binary)
    write_object(args[5], lambda writer: writer.integer_vector(parents), options.binary)
    log.write_text("Wrote tree and mapping\n")


@kaldi_command("copy-tree", group="Trees and topologies", help="Copy a tree.", usage="""
Copy a tree, in text or binary.

Usage:  copy-tree [options] <tree-in> <tree-out>
e.g.: copy-tree --binary=false tree tree.txt
See also: tree-info, draw-tree
""", arguments=(2, 2), options=[BINARY])
def copy_tree(args: list[str], options: Options) -> None:
    """Copy a tree."""
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object, write_object

    write_object(args[1], read_object(args[0], ContextDependency.read).write, options.binary)
    log.log("Copied tree")


@kaldi_command("draw-tree", group="Trees and topologies", help="Draw a tree.", usage="""
Print a tree in the language of GraphViz's dot, or (--svg=true) as a picture.

Usage:  draw-tree [options] <phone-symbols> <tree>
e.g.: draw-tree phones.txt tree | dot -Gsize=8,10.5 -Tps | ps2pdf - tree.pdf
 draw-tree --svg=true phones.txt tree > tree.svg
See also: tree-info, copy-tree
""", arguments=(2, 2), options=[
    option("query", str, "", "Show the path of this event in red: pdf class and phones of the window, such as 0/a/b/c"),
    option("use-tooltips", bool, False, "Show the phones of a question when the pointer is on it, not beside it"),
    option("gen-html", bool, False, "Print a page of HTML with the picture in it"),
    option("svg", bool, False, "Print the picture itself, which needs no GraphViz"),
])
def draw_tree(args: list[str], options: Options) -> None:
    """Print a drawing."""
    from nnet3py.hmm.alignment import read_symbol_table
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines, write_text
    from nnet3py.trees.draw import drawing, html_page, parsed_query, svg_picture

    if options.svg and options.gen_html:
        raise UsageError("--svg and --gen-html exclude each other", "a page has the picture in it")
    names = read_symbol_table("\n".join(read_lines(args[0])), args[0])
    tree = read_object(args[1], ContextDependency.read)
    numbers = {name: number for number, name in names.items()}
    event = parsed_query(options.query, numbers, tree.context_width) if options.query else None
    if options.gen_html:
        text = html_page(svg_picture(tree, names, event), args[1])
    elif options.svg:
        text = svg_picture(tree, names, event)
    else:
        text = drawing(tree, names, event, options.use_tooltips)
    write_text("-", text)
