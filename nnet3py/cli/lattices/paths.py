"""lattice-best-path, lattice-1best, lattice-to-nbest, lattice-confidence: paths through lattices."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.options import ACOUSTIC_SCALE, LM_SCALE, change_lattices, per, scales_of, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice


@kaldi_command("lattice-best-path", group="Lattices", help="Find the best paths through lattices.", usage="""
Find the best paths through lattices: their words and alignments.

Usage: lattice-best-path [options] <lattice-rspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 lattice-best-path --acoustic-scale=0.1 ark:lat.ark ark,t:words.txt ark:ali.ark
See also: nnet3-latgen-faster, lattice-scale, lattice-1best, word-error-rate
""", arguments=(1, 3), options=[
    ACOUSTIC_SCALE, LM_SCALE, option("word-symbol-table", str, "", "words.txt, for showing words on standard error"),
])
def lattice_best_path(args: list[str], options: Options) -> int:
    """Write best paths; 1 if there was none."""
    from contextlib import ExitStack

    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.errors import within
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.best_path import best_path, path_of
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    table = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    done = failed = frames = 0
    graph_cost = acoustic_cost = 0.0
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(name, INT_VECTOR)) if name else None for name in args[1:]]
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            with within(f"key {key}"):
                best = best_path(scaled(lattice, scales))
                path = path_of(best) if best is not None else None
            if path is None:
                log.warning(f"Best-path failed for key {key}")
                failed += 1
                continue
            log.log(f"For utterance {key}, best cost {path.graph_cost:.6g} + {path.acoustic_cost:.6g} = "
                    f"{path.cost:.6g} over {len(path.ids)} frames.")
            if table is not None:
                log.write_text(f"{key} {''.join(word + ' ' for word in table.text(path.words).split())}\n")
            for writer, values in zip(writers, (path.words, path.ids), strict=False):
                if writer is not None:
                    writer.write(key, values)
            done += 1
            frames += len(path.ids)
            graph_cost += float(path.graph_cost)
            acoustic_cost += float(path.acoustic_cost)
    log.log(f"Overall cost per frame is {per(graph_cost + acoustic_cost, frames):.6g} = {per(graph_cost, frames):.6g} "
            f"[graph] + {per(acoustic_cost, frames):.6g} [acoustic] over {frames} frames.")
    log.log(f"Done {done} lattices, failed for {failed}")
    return status(done)


@kaldi_command("lattice-1best", group="Lattices", help="Turn lattices into their best paths.", usage="""
Turn lattices into their best paths, lattices of one path.

Usage: lattice-1best [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-1best --acoustic-scale=0.1 ark:1.lats ark:1best.lats
See also: lattice-best-path, lattice-to-nbest, nbest-to-ctm
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("word-ins-penalty", float, 0.0, "Added to the cost of each word while the path is found; 0 or more"),
])
def lattice_1best(args: list[str], options: Options) -> int:
    """Write best paths; 1 if there was none."""
    from nnet3py.lattices.best_path import best_path
    from nnet3py.lattices.scaling import scaled, with_word_penalty

    scales = scales_of(options)
    undone = scales.undone()
    penalty = max(options.word_ins_penalty, 0.0)          # as in Kaldi, a negative one is ignored

    def find(key: str, lattice: CompactLattice) -> CompactLattice | None:
        best = best_path(with_word_penalty(scaled(lattice, scales), penalty))
        if best is None:
            log.warning(f"Possibly empty lattice for utterance-id {key}(no output)")
            return None
        return scaled(with_word_penalty(best, -penalty), undone)

    done, failed = change_lattices(args, find)
    log.log(f"Done converting {done} to best path, {failed} had errors.")
    return status(done)


@kaldi_command("lattice-to-nbest", group="Lattices", help="Turn lattices into their N best paths.", usage="""
Turn lattices into their N best paths, lattices of one path each with the keys KEY-1, KEY-2, ...

Usage: lattice-to-nbest [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-to-nbest --acoustic-scale=0.1 --n=10 ark:1.lats ark:nbest.lats
See also: lattice-1best, nbest-to-linear
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE, option("n", int, 1, "How many paths"),
    option("random", bool, False, "Draw paths at random instead"),
    option("srand", int, 0, "Seed of --random"),
])
def lattice_to_nbest(args: list[str], options: Options) -> int:
    """Write paths; 1 if there was no lattice."""
    import numpy as np

    from nnet3py.errors import within
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.best_path import best_paths, random_paths
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import top_sorted, trimmed
    from nnet3py.transducers.lattice import COMPACT_LATTICES, expanded, factored

    scales = scales_of(options)
    undone = scales.undone()
    if options.n < 1:
        raise UsageError(f"Invalid value --n={options.n}", "it must be at least 1")
    random = np.random.default_rng(options.srand)
    done = total = 0
    with TableWriter(args[1], COMPACT_LATTICES) as writer, SequentialReader(args[0], COMPACT_LATTICES) as reader:
        for key, lattice in reader:
            with within(f"key {key}"):
                lattice = scaled(lattice, scales)
                paths = (random_paths(trimmed(top_sorted(lattice)), options.n, random) if options.random
                         else best_paths(lattice, options.n))
            if not paths:
                log.warning(f"Possibly empty lattice for utterance-id {key}(no N-best entries)")
                continue
            for number, path in enumerate(paths, 1):
                writer.write(f"{key}-{number}", scaled(factored(expanded(path)), undone))
            done, total = done + 1, total + len(paths)
    log.log(f"Done applying N-best algorithm to {done} lattices with n = {options.n}, average actual #paths is "
            f"{total / (done + 1e-20):.6g}")
    return status(done)


@kaldi_command("lattice-confidence", group="Lattices", help="Print how much worse the second best word sequence is.",
               usage="""
Print how much more the second best word sequence of each lattice costs than the best; 1e10 if there is only one.

Usage: lattice-confidence [options] <lattice-rspecifier> <confidence-wspecifier>
e.g.:
 lattice-confidence --acoustic-scale=0.1 ark:1.lats ark,t:-
See also: lattice-mbr-decode, lattice-to-ctm-conf
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("read-compact-lattice", bool, True, "Lattices are determinized already; false: they are not"),
])
def lattice_confidence(args: list[str], options: Options) -> int:
    """Write confidences; 1 if there was no lattice."""
    from math import exp
    from math import log as logarithm

    from nnet3py.errors import within
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.best_path import LARGEST, confidence, determinized_for_confidence
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    scales = scales_of(options)
    holder: Any = COMPACT_LATTICES if options.read_compact_lattice else LATTICES
    done = single = empty = 0
    sum_of_exps = 0.0
    with TableWriter(args[1], FLOAT) as writer, SequentialReader(args[0], holder) as reader:
        for key, lattice in reader:
            with within(f"key {key}"):
                lattice = scaled(lattice, scales)
                confidence_ = confidence(lattice if options.read_compact_lattice
                                         else determinized_for_confidence(lattice))
            if confidence_ is None:
                log.warning(f"Lattice for utterance {key} is equivalent to the empty lattice.")
                empty += 1
                continue
            writer.write(key, confidence_)
            single += confidence_ == LARGEST
            done += 1
            sum_of_exps += exp(-confidence_)
    log.log(f"Done {done} lattices, of which {single} contained only one sentence. {empty} were equivalent to the "
            "empty lattice.")
    if done:
        average = -logarithm(sum_of_exps / done) if sum_of_exps else float("inf")
        log.log(f"Average confidence (averaged in negative-log space) is {average:.6g}")
    return status(done)
