"""nbest-to-linear, linear-to-nbest, nbest-to-lattice, nbest-to-ctm, nbest-to-prons: lattices of one path each."""
from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from nnet3py import log
from nnet3py.cli.lattices.options import per, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, UsageError


@kaldi_command("nbest-to-linear", group="Lattices", help="Split lattices of one path into their parts.", usage="""
Split lattices of one path each into alignments, words, graph costs and acoustic costs.

Usage: nbest-to-linear [options] <nbest-rspecifier> <alignments-wspecifier> [<words-wspecifier> \
[<lm-cost-wspecifier> [<ac-cost-wspecifier>]]]
e.g.:
 lattice-to-nbest --n=10 ark:1.lats ark:- | nbest-to-linear ark:- ark:1.ali ark,t:1.words ark,t:1.lm ark,t:1.ac
See also: lattice-1best, linear-to-nbest, nbest-to-ctm
""", arguments=(2, 5), options=[])
def nbest_to_linear(args: list[str], options: Options) -> int:
    """Write the parts; 1 if there was no path."""
    from nnet3py.formats.holders import FLOAT, INT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.best_path import path_of
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    done = errors = 0
    holders: list[Any] = [INT_VECTOR, INT_VECTOR, FLOAT, FLOAT]
    with ExitStack() as stack:
        writers = [stack.enter_context(TableWriter(name, holder)) if name else None
                   for name, holder in zip(args[1:], holders, strict=False)]
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            path = path_of(lattice)
            if path is None:
                log.warning(f"FST for key {key} is not a linear FST")
                errors += 1
                continue
            values = (path.ids, path.words, float(path.graph_cost), float(path.acoustic_cost))
            for writer, value in zip(writers, values, strict=False):
                if writer is not None:
                    writer.write(key, value)
            done += 1
    log.log(f"Done {done} n-best entries, {errors} had errors.")
    return status(done)


@kaldi_command("linear-to-nbest", group="Lattices", help="Make lattices of one path from alignments and words.",
               usage="""
Make lattices of one path each from alignments, words, graph costs and acoustic costs; the reverse of nbest-to-linear.
An rspecifier of costs may be empty: then costs are 0.

Usage: linear-to-nbest [options] <alignments-rspecifier> <words-rspecifier> <lm-cost-rspecifier> <ac-cost-rspecifier> \
<nbest-wspecifier>
e.g.:
 linear-to-nbest ark:1.ali "ark:sym2int.pl -f 2- words.txt text|" "" "" ark:1.nbest
See also: lattice-1best, nbest-to-linear, lattice-align-words
""", arguments=(5, 5), options=[])
def linear_to_nbest(args: list[str], options: Options) -> int:
    """Write lattices; 1 if there was none."""
    from nnet3py.formats.holders import FLOAT, INT_VECTOR
    from nnet3py.io.tables import RandomAccessReader, SequentialReader, TableWriter
    from nnet3py.lattices.best_path import linear_lattice
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    done = 0
    with TableWriter(args[4], COMPACT_LATTICES) as writer, ExitStack() as stack:
        words = stack.enter_context(RandomAccessReader(args[1], INT_VECTOR))
        costs = [stack.enter_context(RandomAccessReader(name, FLOAT)) if name else None for name in args[2:4]]
        for key, ids in stack.enter_context(SequentialReader(args[0], INT_VECTOR)):
            for table, name in ((words, args[1]), *zip(costs, args[2:4], strict=True)):
                if table is not None and key not in table:
                    raise Nnet3Error(f"No entry for utterance {key} in {name}",
                                     "all tables must have what the table of alignments has")
            graph, acoustic = (table[key] if table is not None else 0.0 for table in costs)
            writer.write(key, linear_lattice(ids, words[key], graph, acoustic))
            done += 1
    log.log(f"Done {done} n-best entries.")
    return status(done)


@kaldi_command("nbest-to-lattice", group="Lattices", help="Unite best paths to lattices.", usage="""
Unite lattices of one path each, whose keys are UTTERANCE-1, UTTERANCE-2, ..., to a lattice for each utterance; the
reverse of lattice-to-nbest. Those of an utterance must follow each other.

Usage: nbest-to-lattice [options] <nbest-rspecifier> <lattices-wspecifier>
e.g.:
 nbest-to-lattice ark:1.nbest ark:1.lats
See also: lattice-to-nbest, linear-to-nbest, lattice-union
""", arguments=(2, 2), options=[])
def nbest_to_lattice(args: list[str], options: Options) -> int:
    """Write lattices; 1 if there was no path."""
    from itertools import groupby

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
    return status(done)


@kaldi_command("nbest-to-ctm", group="Lattices", help="Print when each word of best paths was said.", usage="""
Print when each word of the best paths begins and how long it is, as a CTM: lines UTTERANCE 1 BEGIN DURATION WORD.
The lattices must have one path each, and arcs that agree with words: make them with lattice-1best, then
lattice-align-words or lattice-align-words-lexicon.

Usage: nbest-to-ctm [options] <aligned-linear-lattice-rspecifier> <ctm-wxfilename>
e.g.:
 lattice-1best --acoustic-scale=0.08333 ark:1.lats ark:- | \\
   lattice-align-words data/lang/phones/word_boundary.int exp/dir/final.mdl ark:- ark:- | nbest-to-ctm ark:- 1.ctm
See also: lattice-to-ctm-conf, lattice-align-words, nbest-to-linear
""", arguments=(2, 2), options=[
    option("print-silence", bool, False, "Print arcs without a word as well"),
    option("frame-shift", float, 0.01, "Seconds per frame; with --frame-subsampling-factor=3 three times that"),
    option("precision", int, -1, "Digits after the point (-1: 2, or more for a short --frame-shift)"),
])
def nbest_to_ctm(args: list[str], options: Options) -> int:
    """Write a CTM; 1 if there was no path."""
    from nnet3py.io.specifiers import is_wspecifier
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import SequentialReader
    from nnet3py.lattices.best_path import word_times
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    if is_wspecifier(args[1]):
        raise UsageError(f"expected a file for the CTM, found a table: {args[1]!r}", "give a file, or -")
    shift = options.frame_shift
    precision = options.precision
    if precision < 0:
        precision = 2 if shift >= 0.01 else 3 if shift >= 0.001 else 4
    done = errors = 0
    with open_output(args[1]) as stream, SequentialReader(args[0], COMPACT_LATTICES) as reader:
        for key, lattice in reader:
            times = word_times(lattice)
            if times is None:
                log.warning(f"Format conversion failed for key {key}")
                errors += 1
                continue
            for word, begin, length in times:
                if word or options.print_silence:
                    stream.write(f"{key} 1 {_seconds(shift, begin):.{precision}f} "
                                 f"{_seconds(shift, length):.{precision}f} {word}\n"
                                 .encode("utf-8", "surrogateescape"))
            done += 1
    log.log(f"Converted {done} linear lattices to ctm format; {errors} had errors.")
    return status(done)


def _seconds(shift: float, frames: int) -> float:
    """A number of frames in seconds, rounded as Kaldi's floats are."""
    import numpy as np

    return float(np.float32(shift) * np.float32(frames))


@kaldi_command("nbest-to-prons", group="Lattices", help="Print the words of best paths with their phones.", usage="""
Print the words of best paths with their phones: lines UTTERANCE BEGIN LENGTH WORD PHONE ..., in frames and numbers.
The lattices must have one path each, and arcs that agree with words, as for nbest-to-ctm.

Usage: nbest-to-prons [options] <transition-model> <aligned-linear-lattice-rspecifier> <output-wxfilename>
e.g.:
 lattice-1best --acoustic-scale=0.08333 ark:1.lats ark:- | \\
   lattice-align-words data/lang/phones/word_boundary.int exp/dir/final.mdl ark:- ark:- | \\
   nbest-to-prons exp/dir/final.mdl ark:- 1.prons
See also: nbest-to-ctm, lattice-align-words
""", arguments=(3, 3), options=[])
def nbest_to_prons(args: list[str], options: Options) -> int:
    """Write words with phones; 1 if there was no path."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.streams import open_output
    from nnet3py.io.tables import SequentialReader
    from nnet3py.lattices.best_path import phones_of_words, word_times
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    model = read_object(args[0], TransitionModel.read)
    done = errors = 0
    with open_output(args[2]) as stream, SequentialReader(args[1], COMPACT_LATTICES) as reader:
        for key, lattice in reader:
            times, prons = word_times(lattice), phones_of_words(lattice, model)
            if times is None or prons is None:
                log.warning(f"Format conversion failed for key {key}")
                errors += 1
                continue
            for (word, begin, length), phones in zip(times, prons, strict=True):
                fields = (key, begin, length, word, *phones)
                stream.write((" ".join(map(str, fields)) + "\n").encode("utf-8", "surrogateescape"))
            done += 1
    log.log(f"Printed prons for {done} linear lattices; {errors} had errors.")
    return status(done)
