"""Paths through lattices: best paths, n-best lists and their conversions, confidences, oracle errors.

lattice-best-path, lattice-1best, lattice-to-nbest, lattice-confidence, lattice-oracle, nbest-to-linear,
linear-to-nbest, nbest-to-lattice, nbest-to-ctm and nbest-to-prons.
"""
from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from math import exp
from math import log as logarithm
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.tables import (
    ACOUSTIC_SCALE,
    LM_SCALE,
    WORD_SYMBOL_TABLE,
    change_lattices,
    per,
    scales_of,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, convert_to_lines, convert_to_tables
from nnet3py.cli.process.options import Options, int_list, option
from nnet3py.errors import Nnet3Error, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.transducers.compact_lattice import CompactLattice


@kaldi_command("lattice-best-path", "Lattices", "Find the best paths through lattices: words and alignments.", """
Find the best path through each lattice, and write its words and its alignment.

Usage: lattice-best-path [options] <lattice-rspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
e.g.:
 lattice-best-path --acoustic-scale=0.1 ark:lat.ark ark,t:words.txt ark:ali.ark
See also: nnet3-latgen-faster, lattice-scale, lattice-1best, word-error-rate
""", arguments=(1, 3), options=[ACOUSTIC_SCALE, LM_SCALE, WORD_SYMBOL_TABLE])
def lattice_best_path(args: list[str], options: Options) -> int:
    from nnet3py.decoding.symbols import SymbolTable
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.lattices.best_path import best_path, path_of
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    table = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    frames = 0
    graph_cost = acoustic_cost = 0.0

    def find(key: str, lattice: CompactLattice) -> tuple[np.ndarray, np.ndarray] | None:
        nonlocal frames, graph_cost, acoustic_cost
        best = best_path(scaled(lattice, scales))
        path = path_of(best) if best is not None else None
        if path is None:
            log.warning(f"Best-path failed for key {key}")
            return None
        log.log(f"For utterance {key}, best cost {path.graph_cost:.6g} + {path.acoustic_cost:.6g} = "
                f"{path.cost:.6g} over {len(path.ids)} frames.")
        if table is not None:
            log.write_text(f"{key} {''.join(word + ' ' for word in table.text(path.words).split())}\n")
        frames += len(path.ids)
        graph_cost += float(path.graph_cost)
        acoustic_cost += float(path.acoustic_cost)
        return path.words, path.ids

    counts = convert_to_tables(args[0], COMPACT_LATTICES, args[1:], [INT_VECTOR, INT_VECTOR], find)
    log.log(f"Overall cost per frame is {per(graph_cost + acoustic_cost, frames):.6g} = {per(graph_cost, frames):.6g} "
            f"[graph] + {per(acoustic_cost, frames):.6g} [acoustic] over {frames} frames.")
    return counts.report("Done {done} lattices, failed for {errors}")


@kaldi_command("lattice-1best", "Lattices", "Reduce lattices to their best paths.", """
Reduce lattices to their best paths. The output has lattices of one path each.

Usage: lattice-1best [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-1best --acoustic-scale=0.1 ark:1.lats ark:1best.lats
See also: lattice-best-path, lattice-to-nbest, nbest-to-ctm
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("word-ins-penalty", float, 0.0, "Cost added for each word while the best path is found (negative: 0, "
           "as in Kaldi)"),
])
def lattice_1best(args: list[str], options: Options) -> int:
    from nnet3py.lattices.best_path import best_path
    from nnet3py.lattices.scaling import scaled, with_word_penalty

    scales = scales_of(options)
    undone = scales.undone()
    penalty = max(options.word_ins_penalty, 0.0)

    def find(key: str, lattice: CompactLattice) -> CompactLattice | None:
        best = best_path(with_word_penalty(scaled(lattice, scales), penalty))
        if best is None:
            log.warning(f"Possibly empty lattice for utterance-id {key}(no output)")
            return None
        return scaled(with_word_penalty(best, -penalty), undone)

    return change_lattices(args, find).report("Done converting {done} to best path, {errors} had errors.")


@kaldi_command("lattice-to-nbest", "Lattices", "Find the N best paths of lattices.", """
Find the N best paths of each lattice. The output has lattices of one path each, with the keys KEY-1, KEY-2, ...

Usage: lattice-to-nbest [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-to-nbest --acoustic-scale=0.1 --n=10 ark:1.lats ark:nbest.lats
See also: lattice-1best, nbest-to-linear
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE, option("n", int, 1, "Greatest number of paths for each lattice", least=1),
    option("random", bool, False, "Draw paths at random, by their probabilities"),
    option("srand", int, 0, "Seed of --random"),
])
def lattice_to_nbest(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.best_path import best_paths, random_paths
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import top_sorted, trimmed
    from nnet3py.random_sequence import unsigned
    from nnet3py.transducers.lattice import COMPACT_LATTICES, expanded, factored

    scales = scales_of(options)
    undone = scales.undone()
    random = np.random.default_rng(unsigned(options.srand))
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
    return 0 if done else 1


@kaldi_command("lattice-confidence", "Lattices", "Write the cost difference of the two best word sequences.", """
Write the confidence of each lattice's best word sequence: the cost of the second best word sequence minus that of the
best; 1e10 where there is only one word sequence.

Usage: lattice-confidence [options] <lattice-rspecifier> <confidence-wspecifier>
e.g.:
 lattice-confidence --acoustic-scale=0.1 ark:1.lats ark,t:-
See also: lattice-mbr-decode, lattice-to-ctm-conf
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, LM_SCALE,
    option("read-compact-lattice", bool, True, "The input is determinized; false: determinize it first"),
])
def lattice_confidence(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT
    from nnet3py.lattices.best_path import LARGEST, confidence, determinized_for_confidence
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    scales = scales_of(options)
    single, sum_of_exps = 0, 0.0

    def measure(key: str, lattice: Any) -> float | None:
        nonlocal single, sum_of_exps
        lattice = scaled(lattice, scales)
        value = confidence(lattice if options.read_compact_lattice else determinized_for_confidence(lattice))
        if value is None:
            log.warning(f"Lattice for utterance {key} is equivalent to the empty lattice.")
            return None
        single += value == LARGEST
        sum_of_exps += exp(-value)
        return value

    holder: Any = COMPACT_LATTICES if options.read_compact_lattice else LATTICES
    done, empty = convert_table(args[0], args[1], holder, FLOAT, measure)
    log.log(f"Done {done} lattices, of which {single} contained only one sentence. {empty} were equivalent to the "
            "empty lattice.")
    if done:
        average = -logarithm(sum_of_exps / done) if sum_of_exps else float("inf")
        log.log(f"Average confidence (averaged in negative-log space) is {average:.6g}")
    return 0 if done else 1


@kaldi_command("lattice-oracle", "Lattices", "Find the paths with the fewest errors against transcripts.", """
Find the path of each lattice whose words have the fewest errors against a reference transcript (oracle errors). Write
these words, optionally the number of errors of each utterance, and log the word error rate.

Usage: lattice-oracle [options] <lattice-rspecifier> <reference-rspecifier> <words-wspecifier> [<edits-wspecifier>]
e.g.:
 lattice-oracle --word-symbol-table=words.txt ark:1.lats "ark:sym2int.pl -f 2- words.txt text|" ark,t:oracle.txt
See also: lattice-best-path, compute-wer, lattice-depth
""", arguments=(3, 4), options=[
    WORD_SYMBOL_TABLE,
    option("wildcard-symbols", str, "", "Colon-separated list of words (integers) that are no errors anywhere"),
    option("wildcard-symbols-list", str, "", "File with such words, one on each line; deprecated"),
    option("write-lattices", str, "", "Wspecifier of lattices with the oracle paths"),
])
def lattice_oracle(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.decoding.symbols import SymbolTable, read_text
    from nnet3py.formats.holders import INT32, INT_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.lattices.states import LatticeError
    from nnet3py.lattices.word_errors import oracle
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    text = options.wildcard_symbols
    if options.wildcard_symbols_list:
        text = ":".join(read_text(options.wildcard_symbols_list).split())
    wildcards = np.array(int_list(text, "wildcard-symbols"), dtype=np.int32)
    table = SymbolTable.read(options.word_symbol_table) if options.word_symbol_table else None
    done = missing = words = 0
    counts = np.zeros(3, dtype=np.int64)
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[2], INT_VECTOR))
        edits = stack.enter_context(TableWriter(args[3], INT32)) if args[3:] and args[3] else None
        paths = (stack.enter_context(TableWriter(options.write_lattices, COMPACT_LATTICES))
                 if options.write_lattices else None)
        references = stack.enter_context(RandomAccessReader(args[1], INT_VECTOR))
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            log.write_text(f"Lattice {key} read.\n")
            if key not in references:
                log.warning(f"No reference present for utterance {key}")
                missing += 1
                continue
            reference = references[key]
            try:
                with within(f"key {key}"):
                    best = oracle(lattice, reference, wildcards)
            except LatticeError as error:
                log.warning(f"Best-path failed: {error}")
                continue
            length = int(np.count_nonzero((reference != 0) & ~np.isin(reference, wildcards)))
            log.log(f"%WER {per(100.0 * best.errors, length):.6g} [ {best.errors} / {length}, {best.insertions} "
                    f"insertions, {best.deletions} deletions, {best.substitutions} sub ]")
            log.log(f"For utterance {key}, best cost {best.errors}")
            if table is not None:
                _log_words(table, key, "oracle", best.words)
                _log_words(table, key, "reference", reference)
            writer.write(key, best.words)
            if edits is not None:
                edits.write(key, best.errors)
            if paths is not None:
                paths.write(key, best.path)
            done, words = done + 1, words + length
            counts += best.insertions, best.deletions, best.substitutions
    log.log(f"Overall %WER {per(100.0 * counts.sum(), words):.6g} [ {counts.sum()} / {words}, {counts[0]} insertions, "
            f"{counts[1]} deletions, {counts[2]} substitutions ]")
    log.log(f"Scored {done} lattices, {missing} not present in ref.")
    return 0


def _log_words(table: SymbolTable, key: str, kind: str, words: np.ndarray) -> None:
    log.write_text(f"{key} ({kind}) {''.join(table.text([word]) + ' ' for word in words)}\n")


# -- lattices of one path ----------------------------------------------------------------------------------------------


@kaldi_command("nbest-to-linear", "Lattices", "Write alignments, words and costs of lattices of one path.", """
Write the alignments, words, graph costs and acoustic costs of lattices of one path each (n-best lists).

Usage: nbest-to-linear [options] <nbest-rspecifier> <alignments-wspecifier> [<words-wspecifier> \
[<lm-cost-wspecifier> [<ac-cost-wspecifier>]]]
e.g.:
 lattice-to-nbest --n=10 ark:1.lats ark:- | nbest-to-linear ark:- ark:1.ali ark,t:1.words ark,t:1.lm ark,t:1.ac
See also: lattice-1best, linear-to-nbest, nbest-to-ctm
""", arguments=(2, 5))
def nbest_to_linear(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT, INT_VECTOR
    from nnet3py.lattices.best_path import path_of
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    def split(key: str, lattice: CompactLattice) -> tuple[np.ndarray, np.ndarray, float, float] | None:
        path = path_of(lattice)
        if path is None:
            log.warning(f"FST for key {key} is not a linear FST")
            return None
        return path.ids, path.words, float(path.graph_cost), float(path.acoustic_cost)

    return convert_to_tables(args[0], COMPACT_LATTICES, args[1:], [INT_VECTOR, INT_VECTOR, FLOAT, FLOAT], split).report(
        "Done {done} n-best entries, {errors} had errors.")


@kaldi_command("linear-to-nbest", "Lattices", "Make lattices of one path from alignments, words and costs.", """
Make lattices of one path each from alignments, words, graph costs and acoustic costs, the inverse of nbest-to-linear.
Where an rspecifier of costs is "", costs are 0.

Usage: linear-to-nbest [options] <alignments-rspecifier> <words-rspecifier> <lm-cost-rspecifier> <ac-cost-rspecifier> \
<nbest-wspecifier>
e.g.:
 linear-to-nbest ark:1.ali "ark:sym2int.pl -f 2- words.txt text|" "" "" ark:1.nbest
See also: lattice-1best, nbest-to-linear, lattice-align-words
""", arguments=(5, 5))
def linear_to_nbest(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT, INT_VECTOR
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.best_path import linear_lattice
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    with ExitStack() as stack:
        words = stack.enter_context(RandomAccessReader(args[1], INT_VECTOR))
        costs = [stack.enter_context(RandomAccessReader(name, FLOAT)) if name else None for name in args[2:4]]

        def joined(key: str, ids: np.ndarray) -> CompactLattice:
            for table, name in ((words, args[1]), *zip(costs, args[2:4], strict=True)):
                if table is not None and key not in table:
                    raise Nnet3Error(f"No entry for utterance {key} in {name}",
                                     "every table must have the keys of the table of alignments")
            graph, acoustic = (table[key] if table is not None else 0.0 for table in costs)
            return linear_lattice(ids, words[key], graph, acoustic)

        return convert_table(args[0], args[4], INT_VECTOR, COMPACT_LATTICES, joined, inputs=stack).report(
            "Done {done} n-best entries.")


@kaldi_command("nbest-to-lattice", "Lattices", "Unite n-best paths into lattices.", """
Unite lattices of one path each, with the keys UTTERANCE-1, UTTERANCE-2, ..., into one lattice for each utterance, the
inverse of lattice-to-nbest. The entries of an utterance must follow each other.

Usage: nbest-to-lattice [options] <nbest-rspecifier> <lattices-wspecifier>
e.g.:
 nbest-to-lattice ark:1.nbest ark:1.lats
See also: lattice-to-nbest, linear-to-nbest, lattice-union
""", arguments=(2, 2))
def nbest_to_lattice(args: list[str], options: Options) -> int:
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.composition import union
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    def utterance(entry: tuple[str, Any]) -> str:
        name, hyphen, _ = entry[0].rpartition("-")
        if not name:
            raise Nnet3Error(f"'{entry[0]}' is not the key of an n-best entry, UTTERANCE-NUMBER",
                             "lattice-to-nbest makes such keys")
        return name

    paths = done = 0
    with TableWriter(args[1], COMPACT_LATTICES) as writer, SequentialReader(args[0], COMPACT_LATTICES) as reader:
        for name, entries in groupby(reader, utterance):
            lattices = [lattice for _, lattice in entries]
            writer.write(name, union(lattices))
            paths, done = paths + len(lattices), done + 1
    log.log(f"Done joining n-best into lattices for {done} utterances, with on average {per(paths, done):g} N-best "
            "paths per utterance.")
    return 0 if done else 1


@kaldi_command("nbest-to-ctm", "Lattices", "Write the times of the words of best paths as a CTM.", """
Write the times of the words of best paths as a CTM: lines UTTERANCE 1 BEGIN DURATION WORD, in seconds. The lattices
must have one path each, and arcs that agree with words: make them with lattice-1best, then lattice-align-words or
lattice-align-words-lexicon.

Usage: nbest-to-ctm [options] <aligned-linear-lattice-rspecifier> <ctm-wxfilename>
e.g.:
 lattice-1best --acoustic-scale=0.08333 ark:1.lats ark:- | \\
   lattice-align-words data/lang/phones/word_boundary.int exp/dir/final.mdl ark:- ark:- | nbest-to-ctm ark:- 1.ctm
See also: lattice-to-ctm-conf, lattice-align-words, nbest-to-linear
""", arguments=(2, 2), options=[
    option("print-silence", bool, False, "Print arcs without a word, too"),
    option("frame-shift", float, 0.01, "Seconds between the lattices' frames: 0.03 with --frame-subsampling-factor=3"),
    option("precision", int, -1, "Digits after the decimal point (-1: 2, or more for a short --frame-shift)"),
])
def nbest_to_ctm(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.lattices.best_path import word_times
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    shift, digits = options.frame_shift, options.precision
    if digits < 0:
        digits = 2 if shift >= 0.01 else 3 if shift >= 0.001 else 4

    def seconds(frames: int) -> str:
        return f"{float(np.float32(shift) * np.float32(frames)):.{digits}f}"           # rounded as Kaldi's floats are

    def lines(key: str, lattice: CompactLattice) -> list[str] | None:
        times = word_times(lattice)
        if times is None:
            log.warning(f"Format conversion failed for key {key}")
            return None
        return [f"{key} 1 {seconds(begin)} {seconds(length)} {word}\n"
                for word, begin, length in times if word or options.print_silence]

    return convert_to_lines(args[0], args[1], COMPACT_LATTICES, lines).report(
        "Converted {done} linear lattices to ctm format; {errors} had errors.")


@kaldi_command("nbest-to-prons", "Lattices", "Write the words of best paths with their phones.", """
Write the words of best paths with their pronunciations: lines UTTERANCE BEGIN LENGTH WORD PHONE ..., with times in
frames, words and phones as integers. The lattices must have one path each, and arcs that agree with words, as for
nbest-to-ctm.

Usage: nbest-to-prons [options] <transition-model> <aligned-linear-lattice-rspecifier> <output-wxfilename>
e.g.:
 lattice-1best --acoustic-scale=0.08333 ark:1.lats ark:- | \\
   lattice-align-words data/lang/phones/word_boundary.int exp/dir/final.mdl ark:- ark:- | \\
   nbest-to-prons exp/dir/final.mdl ark:- 1.prons
See also: nbest-to-ctm, lattice-align-words
""", arguments=(3, 3))
def nbest_to_prons(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.best_path import phones_of_words, word_times
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    model = read_transition_model(args[0])

    def lines(key: str, lattice: CompactLattice) -> Iterator[str] | None:
        times, prons = word_times(lattice), phones_of_words(lattice, model)
        if times is None or prons is None:
            log.warning(f"Format conversion failed for key {key}")
            return None
        return (" ".join(map(str, (key, begin, length, word, *phones))) + "\n"
                for (word, begin, length), phones in zip(times, prons, strict=True))

    return convert_to_lines(args[1], args[2], COMPACT_LATTICES, lines).report(
        "Printed prons for {done} linear lattices; {errors} had errors.")
