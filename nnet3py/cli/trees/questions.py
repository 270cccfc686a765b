"""cluster-phones and compile-questions: what nodes of a tree may ask for."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.lists import int_list
from nnet3py.cli.process.option_groups import BINARY
from nnet3py.cli.process.options import OptionError, Options, option
from nnet3py.cli.trees.options import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnet3py.trees.clustering import Clusters


@kaldi_command("cluster-phones", group="Trees and topologies", help="Find sets of phones that sound alike.", usage="""
Cluster phones, or sets of phones, by how they sound: into sets of different sizes that serve as questions, or into
classes.

Usage:  cluster-phones [options] <tree-stats-in> <phone-sets-in> <clustered-phones-out>
e.g.:
 cluster-phones 1.tacc phonesets.txt questions.txt
See also: acc-tree-stats, compile-questions
""", arguments=(3, 3), options=[
    *CONTEXT,
    option("pdf-class-list", str, "1", "Colon-separated list of the HMM positions whose statistics count"),
    option("mode", str, "questions", "'questions' or 'k-means'"),
    option("num-classes", int, -1, "For k-means: number of classes"),
])
def cluster_phones(args: list[str], options: Options) -> None:
    """Write sets of phones."""
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
    elif options.mode == "k-means":
        if not 2 <= options.num_classes <= len(sets):
            raise OptionError(f"--num-classes must lie between 2 and the number of sets, {len(sets)}; found "
                              f"{options.num_classes}")
        result, tries, frames = phone_classes(stats, sets, classes, options.central_position, options.num_classes)
        _say_rounds(tries, frames)
    else:
        raise OptionError(f"expected --mode=questions or --mode=k-means, found '{options.mode}'")
    write_text(args[2], "".join(" ".join(map(str, phones)) + "\n" for phones in result))
    log.log(f"Wrote questions to {args[2]}")


def _say_rounds(tries: Sequence[Clusters], frames: float) -> None:
    for attempt in tries:
        for number, (before, gain) in enumerate(attempt.rounds):
            log.log(f"ClusterKMeans: on iteration {number}, objf before = {before:g}, impr = {gain:g}, objf after = "
                    f"{before + gain:g}, normalized by {frames:g} = {(before + gain) / frames:g}")
    log.log(f"ClusterKMeans: objf change from clustering [versus single set] is "
            f"{max(attempt.gain for attempt in tries) / frames:g} over {frames:g} frames.")


@kaldi_command("compile-questions", group="Trees and topologies", help="Turn sets of phones into a tree's questions.",
               usage="""
Turn sets of phones into questions for building a tree: about every position of the window, and the pdf class.

Usage:  compile-questions [options] <topo> <questions-text-file> <questions-out>
e.g.:
 compile-questions questions.txt questions.qst
See also: cluster-phones, build-tree
""", arguments=(3, 3), options=[
    BINARY, *CONTEXT,
    option("num-iters-refine", int, 0, "How often a question is refined at each node that asks it"),
])
def compile_questions(args: list[str], options: Options) -> None:
    """Write questions."""
    from nnet3py.errors import FormatError
    from nnet3py.hmm.topology import HmmTopology
    from nnet3py.io.object_files import read_object, write_object
    from nnet3py.io.streams import read_integer_lines
    from nnet3py.trees.clustering import compiled_questions

    if options.context_width < 1:
        raise OptionError(f"--context-width must be above 0, found {options.context_width}")
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
