"""lattice-determinize and its relatives, lattice-push, lattice-minimize: lattices made deterministic, and smaller."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.lattices.options import ACOUSTIC_SCALE, WRITE_COMPACT, change_lattices, per, scales_of, status
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.errors import UsageError
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst

_BEAM = option("beam", float, 10.0, "How much worse than the best one a path may be, after scaling")
_DELTA = option("delta", float, 1.0 / 1024, "States that differ by no more than this are the same")
_MAX_MEM = option("max-mem", int, 50000000, "Bytes that may be used, as Kaldi counts them; then the beam gets narrower")
_MAX_LOOP = option("max-loop", int, 0, "No effect: lattices with cycles are refused")
_MINIMIZE = option("minimize", bool, False, "Push and minimize after determinization")


class _Depths:
    """Averages of depths before and after, for the log."""

    def __init__(self) -> None:
        self.before = self.after = 0.0
        self.frames = self.done = self.narrower = 0

    def add(self, lattice: Fst, result: CompactLattice, complete: bool) -> None:
        """Count a lattice."""
        from nnet3py.lattices.pruning import depth

        after, frames = depth(result)
        self.before, self.after = self.before + lattice.num_states, self.after + after * frames
        self.frames, self.done = self.frames + frames, self.done + 1
        self.narrower += not complete or result.start < 0

    def tell(self, or_empty: str = "") -> int:
        """Write the log lines; the exit status."""
        log.log(f"Average input-lattice depth (measured at at state level) is {per(self.before, self.frames):.6g}, "
                f"output depth is {per(self.after, self.frames):.6g}, over {self.frames} frames  (average num-frames = "
                f"{per(self.frames, self.done):.6g}).")
        log.log(f"Done {self.done} lattices, determinization finished earlier than specified by the beam{or_empty} on "
                f"{self.narrower} of these.")
        return status(self.done)


def _check_beam(options: Options) -> None:
    if not options.beam > 0.0:
        raise UsageError(f"Invalid value --beam={options.beam}", "it must be more than 0")


def _minimized(lattice: CompactLattice) -> CompactLattice:
    from nnet3py.lattices.pruning import minimized, with_strings_pushed, with_weights_pushed

    return minimized(with_weights_pushed(with_strings_pushed(lattice)))


@kaldi_command("lattice-determinize-pruned", group="Lattices", help="Keep the best path of each text, within a beam.",
               usage="""
Determinize lattices on words, for paths within a beam of the best: each word sequence keeps its best path.

Usage: lattice-determinize-pruned [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-pruned --acoustic-scale=0.1 --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize-phone-pruned, lattice-prune
""", arguments=(2, 2), options=[
    WRITE_COMPACT, ACOUSTIC_SCALE, _BEAM, _MINIMIZE, _DELTA, _MAX_MEM, _MAX_LOOP,
    option("max-states", int, -1, "The most states (-1: any number)"),
    option("max-arcs", int, -1, "The most arcs (-1: any number)"),
    option("retry-cutoff", float, 0.5, "If less than this part of the beam was reached, prune and try again"),
])
def lattice_determinize_pruned(args: list[str], options: Options) -> int:
    """Determinize lattices; 1 if there was none."""
    from nnet3py.lattices.determinize import determinize_pruned
    from nnet3py.lattices.determinize_options import DeterminizeOptions
    from nnet3py.lattices.scaling import AcousticScores, scaled
    from nnet3py.lattices.states import newly_sorted, top_sorted, trimmed
    from nnet3py.transducers.lattice import expanded

    _check_beam(options)
    scales = scales_of(options)
    undone = scales.undone()
    limits = DeterminizeOptions(options.delta, options.max_mem, options.max_states, options.max_arcs,
                                options.retry_cutoff)
    depths = _Depths()

    def determinize(key: str, lattice: Fst) -> CompactLattice | Fst | None:
        scores = None if options.write_compact else AcousticScores(lattice)
        compact = determinize_pruned(newly_sorted(scaled(lattice, scales)), options.beam, limits)
        result = trimmed(compact.lattice)
        if options.minimize:
            result = _minimized(result)
        result = top_sorted(result)
        if not compact.complete or result.start < 0:
            log.warning(f"For key {key}, determinization did not succeed(partial output will be pruned tighter than "
                        "the specified beam.)")
        depths.add(lattice, result, compact.complete)
        return scaled(result, undone) if scores is None else scores.restored(expanded(result))

    change_lattices(args, determinize, False, options.write_compact)
    return depths.tell(" (or output was empty)")


@kaldi_command("lattice-determinize-phone-pruned", group="Lattices", help="Determinize lattices as decoders do.",
               usage="""
Determinize lattices on words and phones and then on words, for paths within a beam of the best, as decoders do.

Usage: lattice-determinize-phone-pruned [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-phone-pruned --acoustic-scale=0.1 --beam=6.0 final.mdl ark:raw.lats ark:det.lats
See also: lattice-determinize-pruned, nnet3-latgen-faster
""", arguments=(3, 3), options=[
    WRITE_COMPACT, ACOUSTIC_SCALE, _BEAM, *declared(settings_of(PhoneDeterminizeOptions)),
])
def lattice_determinize_phone_pruned(args: list[str], options: Options) -> int:
    """Determinize lattices; 1 if there was none."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.determinize import determinize_phone_pruned
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import expanded

    _check_beam(options)
    scales = scales_of(options)
    undone = scales.undone()
    how = fields_from(options, PhoneDeterminizeOptions())
    model = read_object(args[0], TransitionModel.read)
    depths = _Depths()

    def determinize(key: str, lattice: Fst) -> CompactLattice | Fst | None:
        compact = determinize_phone_pruned(model, scaled(lattice, scales), options.beam, how)
        if not compact.complete:
            log.warning(f"For key {key}, determinization did not succeed(partial output will be pruned tighter than "
                        "the specified beam.)")
        depths.add(lattice, compact.lattice, compact.complete)
        result = scaled(compact.lattice, undone)
        return result if options.write_compact else expanded(result)

    change_lattices(args[1:], determinize, False, options.write_compact)
    return depths.tell()


_WHOLE = [
    ACOUSTIC_SCALE, _BEAM, option("prune", bool, False, "Prune with the beam after determinization"),
    option("beam-ratio", float, 0.9, "How much narrower the beam gets each time that determinization fails"),
    option("num-loops", int, 20, "How often determinization may fail"),
    _MAX_MEM, _MAX_LOOP.but(default=500000), _DELTA, _MINIMIZE,
]


@kaldi_command("lattice-determinize", group="Lattices", help="Keep the best path of each text.", usage="""
Determinize lattices on words: each word sequence keeps its best path. lattice-determinize-pruned is quicker where only
paths within a beam are wanted.

Usage: lattice-determinize [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize --acoustic-scale=0.1 --prune=true --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize-pruned, lattice-determinize-non-compact
""", arguments=(2, 2), options=_WHOLE)
def lattice_determinize(args: list[str], options: Options) -> int:
    """Determinize lattices; 1 if none could be."""
    return _determinize_whole(args, options, compact=True)


@kaldi_command("lattice-determinize-non-compact", group="Lattices",
               help="Determinize; write a transition-id on each arc.", usage="""
Determinize lattices on words, and write them with a transition-id on each arc, and its own acoustic cost.

Usage: lattice-determinize-non-compact [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-non-compact --acoustic-scale=0.1 --prune=true --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize, lattice-determinize-pruned
""", arguments=(2, 2), options=_WHOLE)
def lattice_determinize_non_compact(args: list[str], options: Options) -> int:
    """Determinize lattices; 1 if none could be."""
    return _determinize_whole(args, options, compact=False)


def _determinize_whole(args: list[str], options: Options, compact: bool) -> int:
    """Determinize lattices without a beam, or with narrower and narrower ones for those that are too large."""
    from nnet3py.lattices.scaling import AcousticScores, scaled
    from nnet3py.transducers.lattice import expanded

    _check_beam(options)
    scales = scales_of(options)
    undone = scales.undone()

    def determinize(key: str, lattice: Fst) -> CompactLattice | Fst | None:
        scores = None if compact else AcousticScores(lattice)
        result = _smaller_until_it_fits(key, scaled(lattice, scales), options)
        if result is None or result.start < 0:
            log.warning(f"Lattice for utterance {key} could not be determinized")
            return None
        if options.minimize:
            result = _minimized(result)
        return scaled(result, undone) if scores is None else scores.restored(expanded(result))

    done, failed = change_lattices(args, determinize, False, compact)
    log.log(f"Done {done} lattices, failed for {failed}")
    return status(done)


def _smaller_until_it_fits(key: str, lattice: Fst, options: Options) -> CompactLattice | None:
    """The determinized lattice, or what of it is within a beam that gets narrower until memory suffices."""
    from math import inf

    from nnet3py.lattices.determinize import determinize_pruned
    from nnet3py.lattices.determinize_options import DeterminizeOptions
    from nnet3py.lattices.pruning import pruned
    from nnet3py.lattices.states import trimmed

    limits = DeterminizeOptions(options.delta, options.max_mem)
    beam, narrowed = options.beam, lattice
    for _ in range(options.num_loops + 1):
        compact = determinize_pruned(narrowed, inf, limits)
        if compact.complete:
            result = trimmed(compact.lattice)
            return pruned(result, beam) if options.prune else result
        beam *= options.beam_ratio
        log.warning(f"Failed to determinize the lattice of {key} within the memory allowed; reducing the beam to "
                    f"{beam:.6g} and trying again.")
        narrowed = pruned(lattice, beam)
    return None


@kaldi_command("lattice-push", group="Lattices", help="Move costs and alignments to the start.", usage="""
Move transition-ids and costs of lattices as near to their starts as they can be.

Usage: lattice-push [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-push ark:1.lats ark:2.lats
See also: lattice-minimize, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    option("push-strings", bool, True, "Move transition-ids"), option("push-weights", bool, True, "Move costs"),
])
def lattice_push(args: list[str], options: Options) -> int:
    """Push lattices; 1 if none could be."""
    done, errors = change_lattices(args, lambda key, lattice: _not_empty(key, _pushed(lattice, options)))
    log.log(f"Pushed {done} lattices, errors on {errors}")
    return status(done)


def _pushed(lattice: CompactLattice, options: Options) -> CompactLattice:
    """The lattice with its strings and costs pushed, as the options say."""
    from nnet3py.lattices.pruning import with_strings_pushed, with_weights_pushed

    if options.push_strings:
        lattice = with_strings_pushed(lattice)
    return with_weights_pushed(lattice) if options.push_weights else lattice


def _not_empty(key: str, lattice: CompactLattice) -> CompactLattice | None:
    """The lattice; None, and a warning, if it is empty."""
    if lattice.start >= 0:
        return lattice
    log.warning(f"The lattice of {key} is empty")
    return None


@kaldi_command("lattice-minimize", group="Lattices", help="Merge states that are alike.", usage="""
Merge states of lattices from which the same words lead on with the same transition-ids and about the same costs.

Usage: lattice-minimize [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-minimize ark:1.lats ark:2.lats
See also: lattice-push, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    option("push-strings", bool, True, "Push transition-ids before"),
    option("push-weights", bool, True, "Push costs before"), _DELTA,
])
def lattice_minimize(args: list[str], options: Options) -> int:
    """Minimize lattices; 1 if none could be."""
    from nnet3py.lattices.pruning import minimized

    done, errors = change_lattices(args, lambda key, lattice: _not_empty(
        key, minimized(_pushed(lattice, options), options.delta)))
    log.log(f"Minimized {done} lattices, errors on {errors}")
    return status(done)
