"""lattice-copy, lattice-prune, lattice-limit-depth, lattice-depth, lattice-project …: parts of lattices."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.options import (
    ACOUSTIC_SCALE,
    INV_ACOUSTIC_SCALE,
    LM_SCALE,
    WRITE_COMPACT,
    change_lattices,
    log_done,
    per,
    scales_of,
    status,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice


@kaldi_command("lattice-copy", group="Lattices", help="Copy lattices, or some of them.", usage="""
Copy lattices, between text and binary, between the two kinds, or only some of them.

Usage: lattice-copy [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-copy --write-compact=false ark:1.lats ark,t:text.lats
 lattice-copy --include=include.list ark:1.lats ark:part.lats
See also: lattice-scale, lattice-to-fst
""", arguments=(2, 2), options=[
    WRITE_COMPACT,
    option("include", str, "", "Copy only utterances that are the first word of a line in this file"),
    option("exclude", str, "", "Copy only utterances that are not the first word of a line in this file"),
    option("ignore-missing", bool, False, "Exit with 0 even if no utterance was copied because of such a list"),
])
def lattice_copy(args: list[str], options: Options) -> int:
    """Copy lattices; 1 if none was."""
    if options.include and options.exclude:
        raise UsageError("should not have both --exclude and --include option!", "give one of them")
    if not (options.include or options.exclude):
        done, _ = change_lattices(args, lambda key, lattice: lattice, options.write_compact)
        log.log(f"Done copying {done} lattices.")
        return status(done)
    # As in Kaldi, a list of utterances to leave out is a list of those to take if plain lattices are written.
    done, total, complete = _copy_listed(args, options.include or options.exclude,
                                         bool(options.include) or not options.write_compact, options.write_compact)
    if complete:
        return 0
    log.log(f"{' ' if options.write_compact else ''}Wrote {done} out of {total} utterances.",
            function="CopySubsetLattices")
    return 0 if options.ignore_missing else status(done)


def _copy_listed(args: list[str], list_name: str, include: bool, compact: bool) -> tuple[int, int, bool]:
    """Copy utterances that are on a list, or not; returns how many, of how many, and whether it stopped early.

    With the option ``s`` of the rspecifier nothing is read after the last one on the list.
    """
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    wanted = _first_words(list_name)
    last = max(wanted, default="")
    holder: Any = COMPACT_LATTICES if compact else LATTICES
    done = total = 0
    with TableWriter(args[1], holder) as writer, SequentialReader(args[0], holder) as reader:
        for key, load in reader.lazy():
            total += 1
            if (key in wanted) == include:
                writer.write(key, load())
                done += 1
            if include and reader.specifier.sorted and key == last:
                return done, total, True
    return done, total, False


def _first_words(rxfilename: str) -> set[str]:
    """The first word of each line of a file."""
    from nnet3py.errors import FormatError
    from nnet3py.io.streams import failed_command, open_input

    words = set()
    with open_input(rxfilename) as stream:
        for number, line in enumerate(stream.without_mark().read().split(b"\n"), 1):
            if line.strip():
                words.add(line.split()[0].decode("utf-8", "surrogateescape"))
            elif line:
                raise FormatError(f"line {number} of a list of utterances is blank", path=rxfilename)
    if stream.status:
        raise failed_command(stream.path, stream.status)
    return words


@kaldi_command("lattice-prune", group="Lattices", help="Remove what is far worse than the best path.", usage="""
Remove what is not on any path within a beam of the best one.

Usage: lattice-prune [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-prune --acoustic-scale=0.1 --beam=4.0 ark:1.lats ark:pruned.lats
See also: lattice-limit-depth, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, option("beam", float, 10.0, "How much worse than the best one a path may be"),
])
def lattice_prune(args: list[str], options: Options) -> int:
    """Prune lattices; 1 if there was none."""
    from nnet3py.lattices.pruning import pruned
    from nnet3py.lattices.scaling import scaled

    scales = scales_of(options)
    undone = scales.undone()
    if not options.beam > 0.0:
        raise UsageError(f"Invalid value --beam={options.beam}", "it must be more than 0")
    sizes = [0, 0, 0, 0]

    def prune(key: str, lattice: CompactLattice) -> CompactLattice | None:
        result = scaled(pruned(scaled(lattice, scales), options.beam), undone)
        counts = (lattice.num_states, result.num_states, lattice.num_arcs, result.num_arcs)
        log.log(f"For utterance {key}, pruned #states from {counts[0]} to {counts[1]} and #arcs from {counts[2]} to "
                f"{counts[3]}")
        sizes[:] = (size + added for size, added in zip(sizes, counts, strict=True))
        return result

    done, _ = change_lattices(args, prune)
    means = [per(size, done) for size in sizes]
    log.log(f"Overall, pruned from on average {means[0]:.6g} to {means[1]:.6g} states, and from {means[2]:.6g} to "
            f"{means[3]:.6g} arcs, over {done} utterances.")
    return log_done(done)


@kaldi_command("lattice-limit-depth", group="Lattices", help="Remove arcs where a frame has too many.", usage="""
Remove arcs so that no frame has more than a number of them; those on the best paths stay.

Usage: lattice-limit-depth [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-limit-depth --max-arcs-per-frame=200 --acoustic-scale=0.1 ark:1.lats ark:limited.lats
See also: lattice-prune, lattice-depth-per-frame
""", arguments=(2, 2), options=[
    option("max-arcs-per-frame", int, 1000, "The most arcs that a frame may have"), ACOUSTIC_SCALE,
])
def lattice_limit_depth(args: list[str], options: Options) -> int:
    """Limit depths; 1 if there was no lattice."""
    from nnet3py.lattices.pruning import depth, limited_depth
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import LatticeError

    scales = scales_of(options)
    undone = scales.undone()
    if options.max_arcs_per_frame < 1:
        raise UsageError(f"Invalid value --max-arcs-per-frame={options.max_arcs_per_frame}", "it must be at least 1")
    before = after = frames = 0.0

    def limit(key: str, lattice: CompactLattice) -> CompactLattice | None:
        nonlocal before, after, frames
        try:
            result = scaled(limited_depth(scaled(lattice, scales), options.max_arcs_per_frame), undone)
            (old, length), (new, _) = depth(lattice), depth(result)
        except LatticeError as error:
            log.warning(f"For utterance {key}: {error}")
            return None
        before, after, frames = before + old * length, after + new * length, frames + length
        return result

    done, errors = change_lattices(args, limit)
    log.log(f"Done {done} lattices, errors on {errors}, limited depth from {per(before, frames):.6g} to "
            f"{per(after, frames):.6g} on average over {frames:.6g} frames.")
    return status(done)


@kaldi_command("lattice-depth", group="Lattices", help="Print how many arcs a frame has on average.", usage="""
Print the depths of lattices: how many arcs a frame has on average.

Usage: lattice-depth <lattice-rspecifier> [<depth-wspecifier>]
e.g.:
 lattice-depth ark:1.lats ark,t:depths.txt
See also: lattice-depth-per-frame, lattice-prune
""", arguments=(1, 2), options=[])
def lattice_depth(args: list[str], options: Options) -> int:
    """Print depths; 1 if there was no lattice."""
    from contextlib import ExitStack

    from nnet3py.errors import within
    from nnet3py.formats.holders import FLOAT
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.pruning import depth
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    done = frames = 0
    total = 0.0
    with ExitStack() as stack:
        writer = stack.enter_context(TableWriter(args[1], FLOAT)) if args[1:] and args[1] else None
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            with within(f"key {key}"):
                mean_depth, length = depth(lattice)
            if writer is not None:
                writer.write(key, mean_depth)
            done, frames, total = done + 1, frames + length, total + mean_depth * length
    log_done(done)
    log.log(f"Overall density is {per(total, frames):.6g} over {frames} frames.")
    return status(done)


@kaldi_command("lattice-depth-per-frame", group="Lattices", help="Count the arcs that cross each frame.", usage="""
Count the arcs that cross each frame of lattices. With a third argument, copy the lattices there.

Usage: lattice-depth-per-frame <lattice-rspecifier> <depth-wspecifier> [<lattice-wspecifier>]
e.g.:
 lattice-depth-per-frame "ark:gunzip -c lat.*.gz|" ark,t:-
See also: lattice-depth
""", arguments=(2, 3), options=[])
def lattice_depth_per_frame(args: list[str], options: Options) -> int:
    """Count arcs; 1 if there was no lattice."""
    from contextlib import ExitStack

    from nnet3py.errors import within
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.lattices.pruning import depth_per_frame
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    done = 0
    with ExitStack() as stack:
        depths = stack.enter_context(TableWriter(args[1], INT_VECTOR))
        copies = stack.enter_context(TableWriter(args[2], COMPACT_LATTICES)) if args[2:] and args[2] else None
        for key, lattice in stack.enter_context(SequentialReader(args[0], COMPACT_LATTICES)):
            with within(f"key {key}"):
                depths.write(key, depth_per_frame(lattice))
            if copies is not None:
                copies.write(key, lattice)
            done += 1
    return log_done(done)


@kaldi_command("lattice-project", group="Lattices", help="Keep the words, or the transition-ids.", usage="""
Keep one side of lattices, on both sides: words, or transition-ids.

Usage: lattice-project [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-project ark:1.lats ark:words.lats
 lattice-project --project-output=false ark:1.lats ark:transitions.lats
See also: lattice-compose, lattice-rmali
""", arguments=(2, 2), options=[
    option("project-output", bool, True, "Keep words; false: transition-ids"),
])
def lattice_project(args: list[str], options: Options) -> int:
    """Project lattices; 1 if there was none."""
    from nnet3py.lattices.scaling import on_transitions, on_words

    project: Any = on_words if options.project_output else on_transitions
    done, _ = change_lattices(args, lambda key, lattice: project(lattice), compact=options.project_output,
                              compact_output=False)
    log.log(f"Done projecting {done} lattices.")
    return status(done)


@kaldi_command("lattice-to-fst", group="Lattices", help="Turn lattices into FSTs of words.", usage="""
Turn lattices into FSTs of their words, with a single cost. By default all costs become 0.

Usage: lattice-to-fst [options] <lattice-rspecifier> <fst-wspecifier>
e.g.:
 lattice-to-fst --acoustic-scale=0.1 --lm-scale=1.0 ark:1.lats ark:1.fsts
See also: lattice-project, lattice-copy
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE.but(default=0.0), LM_SCALE.but(default=0.0),
    option("rm-eps", bool, True, "Remove arcs without a word"),
])
def lattice_to_fst(args: list[str], options: Options) -> int:
    """Make FSTs; 1 if there was no lattice."""
    from nnet3py.cli.process.copying import convert_table
    from nnet3py.lattices.scaling import scaled, word_fst
    from nnet3py.transducers.fst_text import FST
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    done, _ = convert_table(args[0], args[1], COMPACT_LATTICES, FST,
                            lambda key, lattice: word_fst(scaled(lattice, scales), options.rm_eps))
    log.log(f"Done converting {done} lattices to word-level FSTs")
    return status(done)
