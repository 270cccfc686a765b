"""lattice-determinize, -determinize-pruned, -determinize-phone-pruned, -determinize-non-compact, -push, -minimize."""
from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.lattices.tables import (
    ACOUSTIC_SCALE,
    WRITE_COMPACT,
    change_lattices,
    not_empty,
    per,
    scales_of,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst

_BEAM = option("beam", float, 10.0, "Pruning beam: greatest difference of a path's cost, after scaling, from the best "
               "one's", above=0)
_DELTA = option("delta", float, 1.0 / 1024, "Subsets of states, and states, whose costs differ by at most this are "
                "equal", least=0)
_MAX_MEM = option("max-mem", int, 50000000, "Bytes, as Kaldi counts them, after which determinization stops; what is "
                  "left out lies outside a narrower beam")
_MAX_LOOP = option("max-loop", int, 0, "No effect: lattices with cycles are refused")
_MINIMIZE = option("minimize", bool, False, "Push and minimize after determinization")


class _Depths:
    """Average depths of lattices before and after determinization, for the log."""

    def __init__(self) -> None:
        self.before = self.after = 0.0
        self.frames = self.done = self.narrower = 0

    def add(self, lattice: Fst, result: CompactLattice, complete: bool) -> None:
        """Add a lattice and its determinized form; ``complete``: whether the result has all paths within the beam."""
        from nnet3py.lattices.pruning import depth

        after, frames = depth(result)
        self.before, self.after = self.before + lattice.num_states, self.after + after * frames
        self.frames, self.done = self.frames + frames, self.done + 1
        self.narrower += not complete or result.start < 0

    def log(self, or_empty: str = "") -> int:
        """Write the log lines; return the exit status."""
        log.log(f"Average input-lattice depth (measured at at state level) is {per(self.before, self.frames):.6g}, "
                f"output depth is {per(self.after, self.frames):.6g}, over {self.frames} frames  (average num-frames = "
                f"{per(self.frames, self.done):.6g}).")
        log.log(f"Done {self.done} lattices, determinization finished earlier than specified by the beam{or_empty} on "
                f"{self.narrower} of these.")
        return 0 if self.done else 1


def _minimized(lattice: CompactLattice) -> CompactLattice:
    from nnet3py.lattices.pruning import minimized, with_strings_pushed, with_weights_pushed

    return minimized(with_weights_pushed(with_strings_pushed(lattice)))


@kaldi_command("lattice-determinize-pruned", "Lattices", "Determinize lattices on words, within a beam.", """
Determinize lattices on words, keeping paths within --beam of the best path: each word sequence keeps its best path,
whose transition-ids become strings on the arcs. The input has a transition-id on each arc, as from
nnet3-latgen-faster --determinize-lattice=false.

Usage: lattice-determinize-pruned [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-pruned --acoustic-scale=0.1 --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize-phone-pruned, lattice-prune
""", arguments=(2, 2), options=[
    WRITE_COMPACT, ACOUSTIC_SCALE, _BEAM, _MINIMIZE, _DELTA, _MAX_MEM, _MAX_LOOP,
    option("max-states", int, -1, "Greatest number of states of the result (-1: no limit)"),
    option("max-arcs", int, -1, "Greatest number of arcs of the result (-1: no limit)"),
    option("retry-cutoff", float, 0.5, "If less than this share of the beam was reached, prune the lattice and "
           "determinize again"),
])
def lattice_determinize_pruned(args: list[str], options: Options) -> int:
    from nnet3py.lattices.determinize import determinize_pruned
    from nnet3py.lattices.determinize_options import DeterminizeOptions
    from nnet3py.lattices.scaling import AcousticScores, scaled
    from nnet3py.lattices.states import newly_sorted, top_sorted, trimmed
    from nnet3py.transducers.lattice import expanded

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
    return depths.log(" (or output was empty)")


@kaldi_command("lattice-determinize-phone-pruned", "Lattices",
               "Determinize lattices on phones and words, within a beam, as decoders do.", """
Determinize lattices first on words and phones and then on words, keeping paths within --beam of the best path, as the
decoders do before they write lattices.

Usage: lattice-determinize-phone-pruned [options] <model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-phone-pruned --acoustic-scale=0.1 --beam=6.0 final.mdl ark:raw.lats ark:det.lats
See also: lattice-determinize-pruned, nnet3-latgen-faster
""", arguments=(3, 3), options=[
    WRITE_COMPACT, ACOUSTIC_SCALE, _BEAM, *declared(settings_of(PhoneDeterminizeOptions)),
])
def lattice_determinize_phone_pruned(args: list[str], options: Options) -> int:
    from nnet3py.hmm.transition_model import read_transition_model
    from nnet3py.lattices.determinize import determinize_phone_pruned
    from nnet3py.lattices.scaling import scaled
    from nnet3py.transducers.lattice import expanded

    scales = scales_of(options)
    undone = scales.undone()
    how = fields_from(options, PhoneDeterminizeOptions())
    model = read_transition_model(args[0])
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
    return depths.log()


_OPTIONS = [
    ACOUSTIC_SCALE, _BEAM, option("prune", bool, False, "Prune with --beam after determinization"),
    option("beam-ratio", float, 0.9, "Factor of the beam after each failure for lack of memory; the lattice is pruned "
           "with it before the next attempt", above=0),
    option("num-loops", int, 20, "Greatest number of failures", least=0),
    _MAX_MEM, _MAX_LOOP.but(default=500000), _DELTA, _MINIMIZE,
]


@kaldi_command("lattice-determinize", "Lattices", "Determinize lattices on words.", """
Determinize lattices on words: each word sequence keeps its best path. The result has all word sequences, unless memory
does not suffice; lattice-determinize-pruned is faster where only paths within a beam are wanted.

Usage: lattice-determinize [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize --acoustic-scale=0.1 --prune=true --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize-pruned, lattice-determinize-non-compact
""", arguments=(2, 2), options=_OPTIONS)
def lattice_determinize(args: list[str], options: Options) -> int:
    return _determinize(args, options, compact=True)


@kaldi_command("lattice-determinize-non-compact", "Lattices",
               "Determinize lattices; write a transition-id on each arc.", """
Determinize lattices on words, and write them with a transition-id on each arc and with the acoustic costs that each
transition-id had in the input.

Usage: lattice-determinize-non-compact [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-determinize-non-compact --acoustic-scale=0.1 --prune=true --beam=6.0 ark:raw.lats ark:det.lats
See also: lattice-determinize, lattice-determinize-pruned
""", arguments=(2, 2), options=_OPTIONS)
def lattice_determinize_non_compact(args: list[str], options: Options) -> int:
    return _determinize(args, options, compact=False)


def _determinize(args: list[str], options: Options, compact: bool) -> int:
    """Determinize lattices, after pruning if they are too large; return the exit status."""
    from nnet3py.lattices.scaling import AcousticScores, scaled
    from nnet3py.transducers.lattice import expanded

    scales = scales_of(options)
    undone = scales.undone()

    def determinize(key: str, lattice: Fst) -> CompactLattice | Fst | None:
        scores = None if compact else AcousticScores(lattice)
        result = _determinized_in_memory(key, scaled(lattice, scales), options)
        if result is None or result.start < 0:
            log.warning(f"Lattice for utterance {key} could not be determinized")
            return None
        if options.minimize:
            result = _minimized(result)
        return scaled(result, undone) if scores is None else scores.restored(expanded(result))

    return change_lattices(args, determinize, False, compact).report("Done {done} lattices, failed for {errors}")


def _determinized_in_memory(key: str, lattice: Fst, options: Options) -> CompactLattice | None:
    """Return the determinized lattice, or None if it could not be determinized.

    If --max-mem is exceeded, the lattice is pruned with narrower and narrower beams, --num-loops times at most.
    """
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


@kaldi_command("lattice-push", "Lattices", "Push costs and transition-ids towards the start.", """
Push the strings of transition-ids and the costs of lattices towards their start states, as far as possible.

Usage: lattice-push [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-push ark:1.lats ark:2.lats
See also: lattice-minimize, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    option("push-strings", bool, True, "Push transition-ids"), option("push-weights", bool, True, "Push costs"),
])
def lattice_push(args: list[str], options: Options) -> int:
    return change_lattices(args, lambda key, lattice: not_empty(
        _pushed(lattice, options), f"The lattice of {key} is empty")).report(
        "Pushed {done} lattices, errors on {errors}")


def _pushed(lattice: CompactLattice, options: Options) -> CompactLattice:
    """Return the lattice with transition-ids (--push-strings) and costs (--push-weights) pushed towards its start."""
    from nnet3py.lattices.pruning import with_strings_pushed, with_weights_pushed

    if options.push_strings:
        lattice = with_strings_pushed(lattice)
    return with_weights_pushed(lattice) if options.push_weights else lattice


@kaldi_command("lattice-minimize", "Lattices", "Minimize lattices.", """
Minimize deterministic lattices: push strings and costs, then merge states whose outgoing words, transition-ids and
costs (up to --delta) are the same.

Usage: lattice-minimize [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-minimize ark:1.lats ark:2.lats
See also: lattice-push, lattice-determinize-pruned
""", arguments=(2, 2), options=[
    option("push-strings", bool, True, "Push transition-ids first"),
    option("push-weights", bool, True, "Push costs first"), _DELTA,
])
def lattice_minimize(args: list[str], options: Options) -> int:
    from nnet3py.lattices.pruning import minimized

    return change_lattices(args, lambda key, lattice: not_empty(
        minimized(_pushed(lattice, options), options.delta), f"The lattice of {key} is empty")).report(
        "Minimized {done} lattices, errors on {errors}")
