"""Programs that change single lattices: lattice-copy, -scale, -add-penalty, -rmali, -prune, -limit-depth, -project.

Also lattice-depth, -depth-per-frame, -to-fst, -add-trans-probs and -boost-ali.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.tables import (
    ACOUSTIC_SCALE,
    DONE,
    INV_ACOUSTIC_SCALE,
    LM_SCALE,
    WRITE_COMPACT,
    change_lattices,
    per,
    scales_of,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import convert_table, convert_to_tables, first_words
from nnet3py.cli.process.options import Options, int_list, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst


@kaldi_command("lattice-copy", "Lattices", "Copy lattices, or some of them.", """
Copy lattices: all of a table, or those of some utterances; between text and binary; between compact lattices and
lattices with a transition-id on each arc.

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
    if options.include and options.exclude:
        raise UsageError("should not have both --exclude and --include option!", "give one of them")
    if not (options.include or options.exclude):
        return change_lattices(args, lambda key, lattice: lattice, options.write_compact).report(
            "Done copying {done} lattices.")
    # As in Kaldi, --exclude acts as --include if non-compact lattices are written.
    done, total, complete = _copy_listed(args, options.include or options.exclude,
                                         bool(options.include) or not options.write_compact, options.write_compact)
    if complete:
        return 0
    log.log(f"{' ' if options.write_compact else ''}Wrote {done} out of {total} utterances.",
            function="CopySubsetLattices")
    return 0 if done or options.ignore_missing else 1


def _copy_listed(args: list[str], list_name: str, include: bool, compact: bool) -> tuple[int, int, bool]:
    """Copy the lattices on a list or, if ``include`` is False, the others.

    Returns the numbers of lattices copied and read, and whether reading stopped at the last key of the list, as it does
    for a sorted archive (option ``s`` of the rspecifier).
    """
    from nnet3py.io.tables import SequentialReader, TableWriter
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES

    wanted = first_words(list_name)
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


# -- costs -------------------------------------------------------------------------------------------------------------


@kaldi_command("lattice-scale", "Lattices", "Multiply the costs of lattices.", """
Multiply the graph and acoustic costs of lattices by factors.

Usage: lattice-scale [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-scale --acoustic-scale=10.0 ark:lat.ark ark:scaled.ark
See also: nnet3-latgen-faster, lattice-best-path
""", arguments=(2, 2), options=[
    WRITE_COMPACT, ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, LM_SCALE,
    option("acoustic2lm-scale", float, 0.0, "Factor of the acoustic costs that are added to the graph costs"),
    option("lm2acoustic-scale", float, 0.0, "Factor of the graph costs that are added to the acoustic costs"),
])
def lattice_scale(args: list[str], options: Options) -> int:
    from nnet3py.lattices.scaling import Scales, inverse_scale, scaled

    scales = Scales(options.lm_scale, inverse_scale(options.acoustic_scale, options.inv_acoustic_scale),
                    options.acoustic2lm_scale, options.lm2acoustic_scale)
    return change_lattices(args, lambda key, lattice: scaled(lattice, scales), options.write_compact).report(DONE)


@kaldi_command("lattice-add-penalty", "Lattices", "Add a word insertion penalty to lattices.", """
Add a word insertion penalty to lattices: a graph cost for each word.

Usage: lattice-add-penalty [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-add-penalty --word-ins-penalty=1.0 ark:- ark:-
See also: lattice-scale, lattice-best-path
""", arguments=(2, 2), options=[option("word-ins-penalty", float, 0.0, "Graph cost added for each word")])
def lattice_add_penalty(args: list[str], options: Options) -> int:
    from nnet3py.lattices.scaling import with_word_penalty

    return change_lattices(args, lambda key, lattice: with_word_penalty(lattice, options.word_ins_penalty)).report(
        "Done adding word insertion penalty to {done} lattices.")


@kaldi_command("lattice-add-trans-probs", "Lattices", "Add the costs of HMM transitions to lattices.", """
Add the costs of HMM transitions to the graph costs of lattices. Lattices from decoding with an HCLG, or from alignment,
have them already.

Usage: lattice-add-trans-probs [options] <transition-model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-add-trans-probs --transition-scale=1.0 --self-loop-scale=0.1 final.mdl ark:lat.ark ark:full.ark
See also: lattice-scale, lattice-boost-ali
""", arguments=(3, 3), options=[
    option("transition-scale", float, 1.0, "Factor of the log-probabilities of transitions between states"),
    option("self-loop-scale", float, 1.0, "Factor of the log-probabilities of staying in a state, and of leaving it"),
])
def lattice_add_trans_probs(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.scaling import with_transition_probs

    model = read_transition_model(args[0])
    return change_lattices(args[1:], lambda key, lattice: with_transition_probs(
        lattice, model, options.transition_scale, options.self_loop_scale)).report(DONE)


@kaldi_command("lattice-boost-ali", "Lattices",
               "Boost lattices for discriminative training, by their errors against alignments.", """
Lower the graph costs of lattices by --b times the frame-level phone errors of their paths against alignments, for
discriminative training by boosted MMI.

Usage: lattice-boost-ali [options] <transition-model> <lattice-rspecifier> <alignments-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-boost-ali --b=0.05 --silence-phones=1:2:3 final.mdl ark:lat.ark ark:ali.ark ark:boosted.ark
See also: lattice-add-trans-probs, lattice-scale
""", arguments=(4, 4), options=[
    option("b", float, 0.05, "Boosting factor: cost subtracted for each frame with a wrong phone"),
    option("max-silence", float, 0.0, "Error, in frames, of a frame with a silence phone that the alignment lacks",
           least=0, most=1),
    option("silence-phones", str, "", "Colon-separated list of silence phones (integers)"),
])
def lattice_boost_ali(args: list[str], options: Options) -> int:
    import numpy as np

    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.scaling import boosted
    from nnet3py.lattices.states import LatticeError
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES, factored

    model = read_transition_model(args[0])
    silence = np.array(int_list(options.silence_phones, "silence-phones"), dtype=np.int32)
    missing = wrong = 0
    with RandomAccessReader(args[2], INT_VECTOR) as alignments:
        def boost(key: str, lattice: Fst) -> CompactLattice | None:
            nonlocal missing, wrong
            if key not in alignments:
                log.warning(f"No alignment for utterance {key}")
                missing += 1
                return None
            try:
                return factored(boosted(lattice, model, alignments[key], options.b, silence, options.max_silence))
            except LatticeError as error:
                log.warning(f"For utterance {key}: {error}")
                wrong += 1
                return None

        return convert_table(args[1], args[3], LATTICES, COMPACT_LATTICES, boost, inputs=alignments).report(
            f"Done {{done}} lattices, missing alignments for {missing}, other errors on {wrong}")


# -- labels ------------------------------------------------------------------------------------------------------------


@kaldi_command("lattice-rmali", "Lattices", "Remove the transition-ids from lattices.", """
Remove the transition-ids from lattices; words and costs stay.

Usage: lattice-rmali [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-rmali ark:lat.ark ark:words.ark
See also: lattice-project, lattice-to-fst
""", arguments=(2, 2))
def lattice_rmali(args: list[str], options: Options) -> int:
    from nnet3py.lattices.scaling import without_alignments

    return change_lattices(args, lambda key, lattice: without_alignments(lattice)).report(
        "Done removing alignments from {done} lattices.")


@kaldi_command("lattice-project", "Lattices", "Project lattices on words or transition-ids.", """
Project lattices on their words or their transition-ids: the same labels as input and output.

Usage: lattice-project [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-project ark:1.lats ark:words.lats
 lattice-project --project-output=false ark:1.lats ark:transitions.lats
See also: lattice-compose, lattice-rmali
""", arguments=(2, 2), options=[
    option("project-output", bool, True, "Project on the words; false: on the transition-ids"),
])
def lattice_project(args: list[str], options: Options) -> int:
    from nnet3py.lattices.scaling import on_transitions, on_words

    project: Any = on_words if options.project_output else on_transitions
    return change_lattices(args, lambda key, lattice: project(lattice), compact=options.project_output,
                           compact_output=False).report("Done projecting {done} lattices.")


@kaldi_command("lattice-to-fst", "Lattices", "Turn lattices into FSTs of words.", """
Turn lattices into FSTs of their words; an arc's cost is the sum of its scaled graph and acoustic costs. Both scales are
0 by default.

Usage: lattice-to-fst [options] <lattice-rspecifier> <fst-wspecifier>
e.g.:
 lattice-to-fst --acoustic-scale=0.1 --lm-scale=1.0 ark:1.lats ark:1.fsts
See also: lattice-project, lattice-copy
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE.but(default=0.0), LM_SCALE.but(default=0.0), option("rm-eps", bool, True, "Remove epsilon arcs"),
])
def lattice_to_fst(args: list[str], options: Options) -> int:
    from nnet3py.lattices.scaling import scaled, word_fst
    from nnet3py.transducers.fst_text import FST
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    scales = scales_of(options)
    return convert_table(args[0], args[1], COMPACT_LATTICES, FST,
                         lambda key, lattice: word_fst(scaled(lattice, scales), options.rm_eps)).report(
        "Done converting {done} lattices to word-level FSTs")


# -- sizes -------------------------------------------------------------------------------------------------------------


@kaldi_command("lattice-prune", "Lattices", "Prune lattices with a beam.", """
Prune lattices: remove states and arcs that are on no path whose cost is within --beam of the best path's.

Usage: lattice-prune [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-prune --acoustic-scale=0.1 --beam=4.0 ark:1.lats ark:pruned.lats
See also: lattice-limit-depth, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE,
    option("beam", float, 10.0, "Pruning beam: greatest difference of a path's cost, after scaling, from the best "
           "one's", above=0),
])
def lattice_prune(args: list[str], options: Options) -> int:
    from nnet3py.lattices.pruning import pruned
    from nnet3py.lattices.scaling import scaled

    scales = scales_of(options)
    undone = scales.undone()
    sizes = [0, 0, 0, 0]

    def prune(key: str, lattice: CompactLattice) -> CompactLattice | None:
        result = scaled(pruned(scaled(lattice, scales), options.beam), undone)
        counts = (lattice.num_states, result.num_states, lattice.num_arcs, result.num_arcs)
        log.log(f"For utterance {key}, pruned #states from {counts[0]} to {counts[1]} and #arcs from {counts[2]} to "
                f"{counts[3]}")
        sizes[:] = (size + added for size, added in zip(sizes, counts, strict=True))
        return result

    counts = change_lattices(args, prune)
    means = [per(size, counts.done) for size in sizes]
    counts.report(f"Overall, pruned from on average {means[0]:.6g} to {means[1]:.6g} states, and from {means[2]:.6g} "
                  f"to {means[3]:.6g} arcs, over {{done}} utterances.")
    return counts.report(DONE)


@kaldi_command("lattice-limit-depth", "Lattices", "Limit the number of arcs that cross a frame.", """
Limit the depth of lattices: remove arcs, those of the worst paths first, until no frame is crossed by more than
--max-arcs-per-frame.

Usage: lattice-limit-depth [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-limit-depth --max-arcs-per-frame=200 --acoustic-scale=0.1 ark:1.lats ark:limited.lats
See also: lattice-prune, lattice-depth-per-frame
""", arguments=(2, 2), options=[
    option("max-arcs-per-frame", int, 1000, "Greatest number of arcs that cross a frame", least=1),
    ACOUSTIC_SCALE,
])
def lattice_limit_depth(args: list[str], options: Options) -> int:
    from nnet3py.lattices.pruning import depth, limited_depth
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import LatticeError

    scales = scales_of(options)
    undone = scales.undone()
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

    return change_lattices(args, limit).report(
        f"Done {{done}} lattices, errors on {{errors}}, limited depth from {per(before, frames):.6g} to "
        f"{per(after, frames):.6g} on average over {frames:.6g} frames.")


@kaldi_command("lattice-depth", "Lattices", "Compute the average number of arcs per frame.", """
Compute the depth of each lattice, the average number of arcs that cross a frame. Log their average, and optionally
write them to a table.

Usage: lattice-depth <lattice-rspecifier> [<depth-wspecifier>]
e.g.:
 lattice-depth ark:1.lats ark,t:depths.txt
See also: lattice-depth-per-frame, lattice-prune
""", arguments=(1, 2))
def lattice_depth(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import FLOAT
    from nnet3py.lattices.pruning import depth
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    frames, total = 0, 0.0

    def measure(key: str, lattice: CompactLattice) -> tuple[float]:
        nonlocal frames, total
        mean_depth, length = depth(lattice)
        frames, total = frames + length, total + mean_depth * length
        return (mean_depth,)

    counts = convert_to_tables(args[0], COMPACT_LATTICES, args[1:], [FLOAT], measure)
    counts.report(DONE)
    return counts.report(f"Overall density is {per(total, frames):.6g} over {frames} frames.")


@kaldi_command("lattice-depth-per-frame", "Lattices", "Count the arcs that cross each frame.", """
Count the arcs of lattices that cross each frame, and write a vector of integers for each lattice. With a third
argument, copy the lattices there.

Usage: lattice-depth-per-frame <lattice-rspecifier> <depth-wspecifier> [<lattice-wspecifier>]
e.g.:
 lattice-depth-per-frame "ark:gunzip -c lat.*.gz|" ark,t:-
See also: lattice-depth
""", arguments=(2, 3))
def lattice_depth_per_frame(args: list[str], options: Options) -> int:
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.lattices.pruning import depth_per_frame
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    return convert_to_tables(args[0], COMPACT_LATTICES, args[1:], [INT_VECTOR, COMPACT_LATTICES],
                             lambda key, lattice: (depth_per_frame(lattice), lattice)).report(DONE)
