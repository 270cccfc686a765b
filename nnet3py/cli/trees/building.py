"""Tree building: acc-tree-stats, sum-tree-stats, cluster-phones, compile-questions, build-tree, draw-tree.

Topologies, trees and models before training: make-topology, make-mono-tree, gmm-init-mono, -biphone, -model.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, declared, fields_from, int_list, option
from nnet3py.errors import FormatError, UsageError, within
from nnet3py.option_fields import settings_of
from nnet3py.trees import BuildOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnet3py.gaussians.mixtures import DiagGmm
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.trees.clustering import Clusters


_BUILD = declared(settings_of(BuildOptions))
_CONTEXT = tuple(each for each in _BUILD if each.name in ("context-width", "central-position"))


def _check_context(options: Options) -> None:
    """Raise OptionError if --central-position lies outside the window of --context-width phones."""
    if options.central_position >= options.context_width:
        raise OptionError(f"--central-position={options.central_position} lies outside a window of "
                          f"--context-width={options.context_width} phones")


# -- statistics --------------------------------------------------------------------------------------------------------


@kaldi_command("acc-tree-stats", "Trees and topologies", "Accumulate statistics for tree building.", """
Accumulate statistics for tree building from features and alignments: counts, sums of features and of their squares, for
each HMM state in each context of phones.

Usage:  acc-tree-stats [options] <model> <features-rspecifier> <alignments-rspecifier> <tree-accs-out>
e.g.:
 acc-tree-stats final.mdl scp:train.scp ark:1.ali 1.tacc
See also: sum-tree-stats, build-tree
""", arguments=(4, 4), options=[
    BINARY, *_CONTEXT,
    option("var-floor", float, 0.01, "Variance floor for tree clustering", below=math.inf),
    option("ci-phones", str, "", "Colon-separated list of context-independent phones (integers, after mapping)"),
    option("phone-map", str, "", "File with lines <old-phone> <new-phone>, integers"),
])
def acc_tree_stats(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.cli.alignments.alignments import read_phone_map
    from nnet3py.formats.general import check_finite
    from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.object_files import write_object
    from nnet3py.io.tables import RandomAccessReader, SequentialReader
    from nnet3py.trees.stats import ABSENT, Accumulator

    _check_context(options)
    ci_phones = int_list(options.ci_phones, "ci-phones")
    if 0 in ci_phones or len(set(ci_phones)) < len(ci_phones):
        raise OptionError(f"--ci-phones={options.ci_phones}: expected numbers of phones, 1 or more, each of them once")
    phone_map = None
    if options.phone_map:
        mapped = read_phone_map(options.phone_map) or {}
        phone_map = np.full(max(mapped, default=0) + 1, ABSENT, dtype=np.int64)
        phone_map[[*mapped]] = [*mapped.values()]
    model = read_transition_model(args[0])
    accumulator = Accumulator(model, options.context_width, options.central_position, ci_phones, phone_map,
                              options.var_floor)
    done = missing = failed = 0
    with SequentialReader(args[1], FLOAT_MATRIX) as features, RandomAccessReader(args[2], INT_VECTOR) as alignments:
        for key, matrix in features:
            if key not in alignments:
                missing += 1
                continue
            ids = alignments[key]
            if len(ids) != len(matrix):
                log.warning(f"Alignments has wrong size {len(ids)} vs. {len(matrix)}, utterance {key}")
                failed += 1
                continue
            with within(f"utterance {key}"):
                check_finite(matrix, "features")
                if not accumulator.add(matrix, ids):
                    log.warning(f"AccumulateTreeStats: alignment appears to be bad, not using it: utterance {key}")
            done += 1
    stats = accumulator.stats()
    write_object(args[3], stats.write, options.binary)
    log.log(f"Accumulated stats for {done} files, {missing} failed due to no alignment, {failed} failed for other "
            f"reasons.")
    log.log(f"Number of separate stats (context-dependent states) is {len(stats)}")
    return 0 if done else 1


@kaldi_command("sum-tree-stats", "Trees and topologies", "Sum statistics for tree building.", """
Sum statistics for tree building that were accumulated on parts of the data.

Usage:  sum-tree-stats [options] <tree-accs-out> <tree-accs-in1> <tree-accs-in2> ...
e.g.:
 sum-tree-stats treeacc 1.treeacc 2.treeacc 3.treeacc
See also: acc-tree-stats, build-tree
""", arguments=(2, None), options=[BINARY])
def sum_tree_stats(args: list[str], options: Options) -> int:
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.trees.stats import TreeStats, summed

    stats = summed(read_object(name, TreeStats.read) for name in args[1:])
    write_object(args[0], stats.write, options.binary)
    log.log(f"Wrote summed accs ( {len(stats)} individual stats)")
    return 0 if len(stats) else 1


# -- questions ---------------------------------------------------------------------------------------------------------


@kaldi_command("cluster-phones", "Trees and topologies", "Cluster phones by their acoustic statistics.", """
Cluster phones, or sets of phones, by their acoustic statistics. The output has lines of phones (integers): sets of
different sizes, which serve as questions for tree building, or the classes of a k-means clustering.

Usage:  cluster-phones [options] <tree-stats-in> <phone-sets-in> <clustered-phones-out>
e.g.:
 cluster-phones 1.tacc phonesets.txt questions.txt
See also: acc-tree-stats, compile-questions
""", arguments=(3, 3), options=[
    *_CONTEXT,
    option("pdf-class-list", str, "1", "Colon-separated list of pdf classes (HMM positions) whose statistics are used"),
    option("mode", str, "questions", "'questions' or 'k-means'", ("questions", "k-means")),
    option("num-classes", int, -1, "Number of classes, for --mode=k-means"),
])
def cluster_phones(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_integer_lines, write_text
    from nnet3py.trees.clustering import phone_classes, question_sets
    from nnet3py.trees.initial_models import phone_sets
    from nnet3py.trees.stats import TreeStats

    stats = read_object(args[0], TreeStats.read)
    sets = phone_sets(read_integer_lines(args[1], keep_empty=True), args[1])
    classes = int_list(options.pdf_class_list, "pdf-class-list")
    result: Sequence[tuple[int, ...]] = []
    if options.mode == "questions":
        if options.num_classes != -1:
            raise OptionError("--num-classes is for --mode=k-means only")
        result = question_sets(stats, sets, classes, options.central_position)
    else:
        if not 2 <= options.num_classes <= len(sets):
            raise OptionError(f"--num-classes must lie between 2 and the number of sets, {len(sets)}; found "
                              f"{options.num_classes}")
        result, tries, frames = phone_classes(stats, sets, classes, options.central_position, options.num_classes)
        _log_k_means(tries, frames)
    write_text(args[2], "".join(" ".join(map(str, phones)) + "\n" for phones in result))
    log.log(f"Wrote questions to {args[2]}")


def _log_k_means(tries: Sequence[Clusters], frames: float) -> None:
    for attempt in tries:
        for number, (before, gain) in enumerate(attempt.rounds):
            log.log(f"ClusterKMeans: on iteration {number}, objf before = {before:g}, impr = {gain:g}, objf after = "
                    f"{before + gain:g}, normalized by {frames:g} = {(before + gain) / frames:g}")
    log.log(f"ClusterKMeans: objf change from clustering [versus single set] is "
            f"{max(attempt.gain for attempt in tries) / frames:g} over {frames:g} frames.")


@kaldi_command("compile-questions", "Trees and topologies", "Turn sets of phones into questions for tree building.", """
Turn sets of phones into questions for tree building: about each position of the window of phones, and about the pdf
class. The text file has a set of phones (integers) in each line.

Usage:  compile-questions [options] <topo> <questions-text-file> <questions-out>
e.g.:
 compile-questions topo questions.txt questions.qst
See also: cluster-phones, build-tree
""", arguments=(3, 3), options=[
    BINARY, *_CONTEXT,
    option("num-iters-refine", int, 0, "Iterations of refining a question at each node that asks it"),
])
def compile_questions(args: list[str], options: Options) -> None:
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.streams import read_integer_lines
    from nnet3py.trees.clustering import compiled_questions

    topology = read_object(args[0], HmmTopology.read)
    sets = read_integer_lines(args[1], keep_empty=True)
    for number, phones in enumerate(sets, 1):
        if len(set(phones)) < len(phones):
            raise FormatError(f"line {number} names a phone twice: {' '.join(map(str, phones))[:80]}", path=args[1])
    seen = {phone for phones in sets for phone in phones}
    if seen != set(topology.phones):
        message = (f"Phones seen in questions differ from those in topology: {len(seen - set(topology.phones))} are "
                   f"not in the topology, {len(set(topology.phones) - seen)} not in the questions")
        if len(seen) > len(topology.phones):
            raise FormatError(message, path=args[1])
        log.warning(message)
    num_classes = max(topology.num_pdf_classes(phone) for phone in topology.phones)
    log.log(f"Max # pdf classes is {num_classes}")
    for position in range(options.context_width):
        log.log(f"Setting questions for phonetic-context position {position}")
    log.log(f"Setting questions for hmm-position [hmm-position ranges from 0 to {num_classes - 1}]")
    questions = compiled_questions(sets, options.context_width, num_classes, options.num_iters_refine)
    write_object(args[2], questions.write, options.binary)
    log.log(f"Wrote questions to {args[2]}")


# -- trees -------------------------------------------------------------------------------------------------------------


def _read_inputs(args: list[str]) -> tuple[Any, Any, Any, Any]:
    """Read the statistics, roots, questions and topology that the first four arguments name."""
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines
    from nnet3py.trees.build import read_roots
    from nnet3py.trees.clustering import Questions
    from nnet3py.trees.stats import TreeStats

    stats = read_object(args[0], TreeStats.read)
    roots = read_roots(read_lines(args[1]), args[1])
    return stats, roots, read_object(args[2], Questions.read), read_object(args[3], HmmTopology.read)


@kaldi_command("build-tree", "Trees and topologies", "Build a decision tree.", """
Build a decision tree, which maps phones in context to pdfs: split the roots of the roots file by the questions that
gain most likelihood, then merge similar leaves.

Usage:  build-tree [options] <tree-stats-in> <roots-file> <questions-file> <topo-file> <tree-out>
e.g.:
 build-tree treeacc roots.txt 1.qst topo tree
See also: acc-tree-stats, compile-questions, gmm-init-model
""", arguments=(5, 5), options=[BINARY, *_BUILD])
def build_tree(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import write_object
    from nnet3py.trees import build

    _check_context(options)
    stats, roots, questions, topology = _read_inputs(args)
    log.log(f"Number of separate statistics is {len(stats)}")
    tree = build.build_tree(stats, roots, questions, topology, fields_from(options, BuildOptions()))
    build.say_low_counts(stats, tree)
    build.warn_of_phones(stats, roots, topology, options.central_position)
    write_object(args[4], tree.write, options.binary)
    log.log("Wrote tree")


@kaldi_command("build-tree-two-level", "Trees and topologies",
               "Build a decision tree, and the map to a smaller one.", """
Build a small decision tree and a larger one that splits its leaves further; write the larger tree, and the map from its
leaves to those of the smaller tree, a vector of integers.

Usage:  build-tree-two-level [options] <tree-stats-in> <roots-file> <questions-file> <topo-file> <tree-out> \
<mapping-out>
e.g.:
 build-tree-two-level treeacc roots.txt 1.qst topo tree tree.map
See also: build-tree
""", arguments=(6, 6), options=[
    BINARY, *_CONTEXT,
    option("max-leaves-first", int, 1000, "Greatest number of leaves of the smaller tree"),
    option("max-leaves-second", int, 5000, "Greatest number of leaves of the larger tree, before merging"),
    option("cluster-leaves", bool, True, "Merge similar leaves of the larger tree"),
])
def build_tree_two_level(args: list[str], options: Options) -> None:
    from nnet3py.io.object_files import write_object
    from nnet3py.trees import build

    _check_context(options)
    stats, roots, questions, topology = _read_inputs(args)
    log.write_text(f"Number of separate statistics is {len(stats)}\n")
    tree, parents = build.build_two_level(
        stats, roots, questions, topology, BuildOptions(
            options.context_width, options.central_position, 0.0, options.max_leaves_first, 0.0, True),
        options.max_leaves_second, options.cluster_leaves)
    write_object(args[4], tree.write, options.binary)
    write_object(args[5], lambda writer: writer.integer_vector(parents), options.binary)
    log.write_text("Wrote tree and mapping\n")


@kaldi_command("copy-tree", "Trees and topologies", "Copy a decision tree.", """
Copy a decision tree, between text and binary.

Usage:  copy-tree [options] <tree-in> <tree-out>
e.g.: copy-tree --binary=false tree tree.txt
See also: tree-info, draw-tree
""", arguments=(2, 2), options=[BINARY])
def copy_tree(args: list[str], options: Options) -> None:
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object, write_object

    write_object(args[1], read_object(args[0], ContextDependency.read).write, options.binary)
    log.log("Copied tree")


@kaldi_command("draw-tree", "Trees and topologies", "Draw a decision tree.", """
Print a decision tree in GraphViz's dot language, or as a picture in SVG or HTML.

Usage:  draw-tree [options] <phone-symbols> <tree>
e.g.: draw-tree phones.txt tree | dot -Gsize=8,10.5 -Tps | ps2pdf - tree.pdf
 draw-tree --svg=true phones.txt tree > tree.svg
See also: tree-info, copy-tree
""", arguments=(2, 2), options=[
    option("query", str, "", "Draw the path of this event in red: pdf class and phones of the window, such as 0/a/b/c"),
    option("use-tooltips", bool, False, "Show the phones of a question as a tooltip, not beside it"),
    option("gen-html", bool, False, "Print an HTML page with the picture"),
    option("svg", bool, False, "Print the picture as SVG, without GraphViz"),
])
def draw_tree(args: list[str], options: Options) -> None:
    from nnet3py.hmm.alignment import read_symbol_table
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines, write_text
    from nnet3py.trees.draw import drawing, html_page, parsed_query, svg_picture

    if options.svg and options.gen_html:
        raise UsageError("--svg and --gen-html cannot both be given", "the HTML page has the picture")
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


_MOST_DIMENSIONS = 9999
_SHARED_PHONES = option("shared-phones", str, "", "File whose lines are sets of phones (integers) that share their "
                        "pdfs")


@kaldi_command("make-topology", "Trees and topologies", "Make an HMM topology from lists of phones.", """
Write the HMM topology of phones, which are given as two colon-separated lists of integers; that of silence phones may
be empty. For chain models all phones have the same topology; for others silence has its own. Kaldi has scripts named
gen_topo for this.

Usage: make-topology [options] <nonsilence-phones> <silence-phones> <topology-out>
e.g.: make-topology 2:3:4:5 1 topo
 make-topology --chain=false --num-nonsil-states=3 --num-sil-states=5 2:3:4:5 1 topo
See also: make-mono-tree
""", arguments=(3, 3), options=[
    option("chain", bool, True, "One state for each phone, with two pdfs"),
    option("num-nonsil-states", int, 3, "States of a phone that is not silence, with --chain=false", least=1),
    option("num-sil-states", int, 5, "States of a silence phone, with --chain=false", least=1),
    BINARY.but(default=False),
])
def make_topology(args: list[str], options: Options) -> int:
    from nnet3py.hmm.topology import chain_topology, left_to_right_topology
    from nnet3py.io.object_files import write_object

    nonsilence, silence = (_phones(text) for text in args[:2])
    if options.chain:
        topology = chain_topology(sorted([*nonsilence, *silence]))
    else:
        topology = left_to_right_topology(nonsilence, silence, options.num_nonsil_states, options.num_sil_states)
    write_object(args[2], topology.write, options.binary)
    return 0


def _phones(text: str) -> list[int]:
    words = text.replace(":", " ").split()
    wrong = [word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)]
    if wrong:
        raise UsageError(f"expected a colon-separated list of phones (integers), found '{wrong[0]}'")
    return [int(word) for word in words]


@kaldi_command("make-mono-tree", "Trees and topologies", "Make a monophone tree, and a transition model.", """
Make a context-independent (monophone) tree, and a transition model with the topology's probabilities. gmm-init-mono
makes the same tree, and a GMM.

Usage:  make-mono-tree [options] <topology-in> <tree-out> <transition-model-out>
e.g.:
 make-mono-tree topo tree final.mdl
See also: phones-to-ali, nnet3-am-init, tree-info
""", arguments=(3, 3), options=[BINARY, _SHARED_PHONES])
def make_mono_tree(args: list[str], options: Options) -> int:
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import initial_transition_model, monophone_tree
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.streams import read_integer_lines

    topology = read_object(args[0], HmmTopology.read)
    shared = read_integer_lines(options.shared_phones) if options.shared_phones else None
    tree = monophone_tree(topology, shared)
    model = initial_transition_model(tree, topology)
    write_object(args[1], tree.write, options.binary)
    write_object(args[2], model.write, options.binary)
    log.log(f"Made a tree with {tree.num_pdfs} pdfs for {len(topology.phones)} phones.")
    return 0


# -- Gaussian mixture models -------------------------------------------------------------------------------------------


@kaldi_command("gmm-init-model", "Trees and topologies", "Make a GMM from a tree and its statistics.", """
Make a GMM with one Gaussian for each pdf of a tree, from the tree's statistics; or, with an old tree and an old model,
with the mixtures of the old pdfs that share most statistics with each pdf.

Usage:  gmm-init-model [options] <tree-in> <tree-stats-in> <topo-file> <model-out> [<old-tree> <old-model>]
e.g.:
 gmm-init-model tree treeacc topo 1.mdl
or, with the pdfs of an old model:
 gmm-init-model tree treeacc topo 1.mdl prev/tree prev/30.mdl
See also: build-tree, gmm-init-mono
""", arguments=(4, 6), options=[
    BINARY,
    option("write-occs", str, "", "Wxfilename of the occupation counts: frames of each pdf"),
    option("var-floor", float, 0.01, "Variance floor", below=math.inf),
])
def gmm_init_model(args: list[str], options: Options) -> int:
    from nnet3py.formats.matrices import write_vector
    from nnet3py.gaussians.mixtures import GmmModel
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import ContextDependency
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.trees.initial_models import OldModel, model_of_stats
    from nnet3py.trees.stats import TreeStats

    if len(args) == 5:
        raise OptionError("an old tree needs an old model, too", "give 4 or 6 arguments")
    tree = read_object(args[0], ContextDependency.read)
    stats = read_object(args[1], TreeStats.read)
    log.log(f"Number of separate statistics is {len(stats)}")
    topology = read_object(args[2], HmmTopology.read)
    old = None
    if len(args) == 6:
        old = OldModel(read_object(args[4], ContextDependency.read), read_object(args[5], GmmModel.read))
    model, counts = model_of_stats(tree, stats, topology, options.var_floor, old)
    write_object(args[3], model.write, options.binary)
    if options.write_occs:
        write_object(options.write_occs, lambda writer: write_vector(writer, counts), options.binary)
    log.log("Wrote model.")
    return 0


def _dimension(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_DIMENSIONS):
        raise OptionError(f"expected a dimension from 1 to {_MOST_DIMENSIONS}, found '{text}'")
    return int(text)


def _read_phone_sets(rxfilename: str, topology: HmmTopology) -> list[tuple[int, ...]]:
    """Read sets of phones that share pdfs; without a file each phone of the topology is a set."""
    from nnet3py.io.streams import read_integer_lines
    from nnet3py.trees.initial_models import phone_sets

    if not rxfilename:
        return [(phone,) for phone in topology.phones]
    return phone_sets(read_integer_lines(rxfilename, keep_empty=True), rxfilename)


def _write_model(args: list[str], tree: Any, topology: HmmTopology, gaussian: DiagGmm, options: Options,
           perturb_factor: float = 0.0) -> None:
    from nnet3py.io.object_files import write_object
    from nnet3py.trees.initial_models import same_for_all

    model = same_for_all(tree, topology, gaussian, perturb_factor)
    write_object(args[2], model.write, options.binary)
    write_object(args[3], tree.write, options.binary)


def _default_gaussian(dim: int) -> DiagGmm:
    import numpy as np

    from nnet3py.gaussians.mixtures import DiagGmm

    return DiagGmm.single(np.ones(dim), np.ones(dim))      # mean and variance 1, as in Kaldi


@kaldi_command("gmm-init-mono", "Trees and topologies", "Make a monophone tree, and a GMM.", """
Make a context-independent (monophone) tree, and a GMM in which all pdfs have the same Gaussian, with the mean and
variance of the features of --train-feats.

Usage:  gmm-init-mono [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-mono topo 39 mono.mdl mono.tree
See also: make-mono-tree, gmm-init-model, gmm-init-biphone
""", arguments=(4, 4), options=[
    BINARY,
    option("train-feats", str, "", "Rspecifier of the features (empty: mean and variance are 1)"),
    _SHARED_PHONES,
    option("perturb-factor", float, 0.0, "Perturb the means at random, by Gaussian noise with this many standard "
           "deviations"),
])
def gmm_init_mono(args: list[str], options: Options) -> None:
    from nnet3py.feat.cmvn import accumulate_stats, empty_stats
    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.hmm.tree import monophone_tree
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import SequentialReader
    from nnet3py.trees.initial_models import global_gaussian

    dim = _dimension(args[1])
    topology = read_object(args[0], HmmTopology.read)
    gaussian = _default_gaussian(dim)
    if options.train_feats:
        stats = empty_stats(dim)
        with SequentialReader(options.train_feats, FLOAT_MATRIX) as features:
            for key, matrix in features:
                with within(f"utterance {key}"):
                    accumulate_stats(matrix, stats)
        gaussian = global_gaussian(stats)
    tree = monophone_tree(topology, _read_phone_sets(options.shared_phones, topology))
    _write_model(args, tree, topology, gaussian, options, options.perturb_factor)


@kaldi_command("gmm-init-biphone", "Trees and topologies", "Make the full biphone tree, and a GMM.", """
Make the full left-biphone tree, with pdfs for each pair of left phone and phone, and a GMM in which all pdfs have the
same Gaussian (mean and variance 1).

Usage:  gmm-init-biphone [options] <topology-in> <dim> <model-out> <tree-out>
e.g.:
 gmm-init-biphone topo 39 bi.mdl bi.tree
See also: gmm-init-mono, build-tree
""", arguments=(4, 4), options=[
    BINARY, _SHARED_PHONES,
    option("ci-phones", str, "", "Colon-separated list of context-independent phones (integers)"),
    option("phone-counts", str, "", "File with lines <left-phone> <phone> <count> and <phone> <count>; rare biphones "
           "share pdfs"),
    option("min-biphone-count", int, 100, "With --phone-counts: least count of a biphone with pdfs of its own"),
    option("min-monophone-count", int, 20, "With --phone-counts: least count of a phone whose rare biphones have pdfs "
           "apart from other phones'"),
])
def gmm_init_biphone(args: list[str], options: Options) -> None:
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import read_lines
    from nnet3py.trees.initial_models import BiphoneCounts, biphone_tree

    dim = _dimension(args[1])
    topology = read_object(args[0], HmmTopology.read)
    counts = None
    if options.phone_counts:
        counts = BiphoneCounts.parse(read_lines(options.phone_counts), max(topology.phones), options.min_biphone_count,
                                     options.min_monophone_count, options.phone_counts)
        log.log("Loaded mono/bi phone counts.")
    tree = biphone_tree(topology, _read_phone_sets(options.shared_phones, topology),
                        int_list(options.ci_phones, "ci-phones"), counts)
    _write_model(args, tree, topology, _default_gaussian(dim), options)
