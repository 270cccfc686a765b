"""Rescoring with language models (lattice-lmrescore …), composition with FSTs, and combination with other lattices.

The programs for the last: lattice-interp, -copy-backoff, -union, -combine and -difference.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from math import log as logarithm
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.lattices.tables import (
    ACOUSTIC_SCALE,
    DONE,
    INV_ACOUSTIC_SCALE,
    LM_SCALE,
    WRITE_COMPACT,
    change_lattices,
    not_empty,
    rescore_lattices,
    rescore_within_beam,
    scales_of,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.copying import Counts
from nnet3py.cli.process.options import Options, declared, float_list, option
from nnet3py.errors import UsageError
from nnet3py.lattices.determinize_options import PrunedCompositionOptions
from nnet3py.option_fields import settings_of

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst


# -- language models ---------------------------------------------------------------------------------------------------


_MODEL_SCALE = option("lm-scale", float, 1.0, "Factor of the language model's costs; -1 subtracts those of a model "
                      "that the lattices have")


@kaldi_command("lattice-lmrescore", "Lattices", "Add the costs of a language model, an FST.", """
Add --lm-scale times the costs of a language model, an FST that accepts words, to the graph costs of lattices. To
replace a language model, first subtract the old one's costs with --lm-scale=-1.0.

Usage: lattice-lmrescore [options] <lattice-rspecifier> <lm-fst> <lattice-wspecifier>
e.g.:
 lattice-lmrescore --lm-scale=-1.0 ark:in.lats 'fstproject --project_output=true data/lang/G.fst|' ark:- | \\
   lattice-lmrescore --lm-scale=1.0 ark:- 'fstproject --project_output=true data/lang_big/G.fst|' ark:out.lats
See also: lattice-lmrescore-const-arpa, lattice-lmrescore-pruned, lattice-compose
""", arguments=(3, 3), options=[
    _MODEL_SCALE, option("num-states-cache", int, 50000, "No effect: results do not depend on it"),
])
def lattice_lmrescore(args: list[str], options: Options) -> int:
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.composition import Composer, rescored_with_fst
    from nnet3py.transducers.fst_text import read_fst

    model = Composer(read_object(args[1], read_fst))
    return rescore_lattices([args[0], args[2]], lambda lattice: rescored_with_fst(lattice, model, options.lm_scale))


@kaldi_command("lattice-lmrescore-const-arpa", "Lattices", "Add the costs of an n-gram model in const-ARPA form.", """
Add --lm-scale times the costs of an n-gram language model in const-ARPA form to the graph costs of lattices.

Usage: lattice-lmrescore-const-arpa [options] <lattice-rspecifier> <const-arpa> <lattice-wspecifier>
e.g.:
 lattice-lmrescore-const-arpa --lm-scale=1.0 ark:no-lm.lats G.carpa ark:out.lats
See also: lattice-lmrescore, arpa-to-const-arpa
""", arguments=(3, 3), options=[_MODEL_SCALE])
def lattice_lmrescore_const_arpa(args: list[str], options: Options) -> int:
    from nnet3py.fst.const_arpa import ConstArpa
    from nnet3py.lattices.composition import rescored_with_const_arpa

    model = ConstArpa.read(args[1])
    return rescore_lattices([args[0], args[2]],
                            lambda lattice: rescored_with_const_arpa(lattice, model, options.lm_scale))


@kaldi_command("lattice-lmrescore-pruned", "Lattices", "Replace the language model, within a beam.", """
Replace the language model of lattices: subtract the old model's costs and add the new one's, only on paths within a
beam (pruned composition). The input should be determinized; the output is not.

Usage: lattice-lmrescore-pruned [options] <old-lm> <new-lm> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-lmrescore-pruned --acoustic-scale=0.1 data/lang/G.fst data/lang_big/G.fst ark:in.lats ark:out.lats
 lattice-lmrescore-pruned --add-const-arpa=true data/lang/G.fst data/lang_big/G.carpa ark:in.lats ark:out.lats
See also: lattice-lmrescore, lattice-lmrescore-const-arpa
""", arguments=(4, 4), options=[
    _MODEL_SCALE, ACOUSTIC_SCALE, option("add-const-arpa", bool, False, "<new-lm> is in const-ARPA form"),
    *declared(settings_of(PrunedCompositionOptions)),
])
def lattice_lmrescore_pruned(args: list[str], options: Options) -> int:
    from nnet3py.lattices.pruned_composition import ConstArpaLm, FstLm, LmDifference, PrunedComposition

    log.log("Reading LMs...")
    new: Any = ConstArpaLm.read(args[1]) if options.add_const_arpa else FstLm.read(args[1])
    model = LmDifference(FstLm.read(args[0]), new, options.lm_scale)
    log.log("Done.")
    return rescore_within_beam(
        args[2:], lambda lattice, limits: PrunedComposition(lattice, model, limits).compose(), options)


# -- FSTs and other lattices -------------------------------------------------------------------------------------------


def _change_pairs(args: list[str], change: Callable[[str, CompactLattice, CompactLattice | None], Any]) -> Counts:
    """Write ``change(key, lattice, other)`` for each lattice of the first table.

    ``other`` is the lattice of this key in the second table, or None.
    """
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    with RandomAccessReader(args[1], COMPACT_LATTICES) as others:
        return change_lattices([args[0], args[2]], lambda key, lattice: change(
            key, lattice, others[key] if key in others else None), inputs=others)


@kaldi_command("lattice-compose", "Lattices", "Compose lattices with lattices or FSTs.", """
Compose lattices with other lattices of the same keys, with an FST, or with FSTs of the same keys: the words of the
first with the input labels of the second. The output is not determinized.

Usage: lattice-compose [options] <lattice-rspecifier> <lattice-rspecifier|fst-rxfilename|fst-rspecifier> \
<lattice-wspecifier>
e.g.:
 lattice-compose ark:1.lats ark:2.lats ark:composed.lats
 lattice-compose --phi-label=300 ark:1.lats G.fst ark:composed.lats
 lattice-compose --compose-with-fst=true ark:1.lats ark:fsts.ark ark:composed.lats
See also: lattice-project, lattice-lmrescore, lattice-interp
""", arguments=(3, 3), options=[
    WRITE_COMPACT,
    option("phi-label", int, -1, "Label of failure arcs in the FST: taken if no other arc matches a word"),
    option("rho-label", int, -1, "Label of arcs in the FST that match any word without an arc of its own"),
    option("num-states-cache", int, 50000, "No effect: results do not depend on it"),
    option("compose-with-fst", str, "auto", "true: the second table has FSTs; false, auto: lattices",
           choices=("auto", "true", "false", "True", "False", "T", "F")),
])
def lattice_compose(args: list[str], options: Options) -> int:
    from nnet3py.io.object_files import read_object
    from nnet3py.io.specifiers import is_rspecifier
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.composition import Composer
    from nnet3py.transducers.fst_text import FST, read_fst
    from nnet3py.transducers.lattice import LATTICES, expanded

    phi, rho = options.phi_label, options.rho_label
    if phi > 0 and rho > 0 or phi == 0 or rho == 0:
        raise UsageError(f"--phi-label={phi} --rho-label={rho}: expected at most one of the two, with a label above 0",
                         "leave out the other option; label 0 is epsilon")
    with ExitStack() as stack:
        table: Any = None
        if is_rspecifier(args[1]):
            holder: Any = FST if options.compose_with_fst[0] in "tT" else LATTICES
            table = stack.enter_context(RandomAccessReader(args[1], holder))
        else:
            model = Composer(read_object(args[1], read_fst), phi, rho)

        def compose(key: str, lattice: CompactLattice) -> CompactLattice | Fst | None:
            if table is not None and key not in table:
                log.warning(f"Not producing output for utterance {key} because not present in second table.")
                return None
            result = (model if table is None else Composer(table[key], phi, rho)).compose(lattice)
            if not_empty(result, f"Empty lattice for utterance {key} (incompatible LM?)") is None:
                return None
            return result if options.write_compact else expanded(result)

        return change_lattices([args[0], args[2]], compose, compact_output=options.write_compact, inputs=stack).report(
            "Done {done} lattices; failed for {errors}")


@kaldi_command("lattice-interp", "Lattices", "Interpolate the costs of two lattices.", """
Interpolate lattices: keep the word sequences that both lattices of a key have, with --alpha times the first one's costs
plus 1 - alpha times the second one's, and the transition-ids of the first.

Usage: lattice-interp [options] <lattice-rspecifier-a> <lattice-rspecifier-b> <lattice-wspecifier>
e.g.:
 lattice-interp --alpha=0.4 ark:1.lats ark:2.lats ark:3.lats
See also: lattice-combine, lattice-compose
""", arguments=(3, 3), options=[
    option("alpha", float, 0.5, "Factor of the first lattice's costs; the second one's is 1 - alpha", least=0, most=1),
])
def lattice_interp(args: list[str], options: Options) -> int:
    from nnet3py.lattices.composition import Composer
    from nnet3py.lattices.scaling import Scales, on_words, scaled

    alpha = options.alpha
    first, second = Scales(alpha, alpha), Scales(1.0 - alpha, 1.0 - alpha)
    missing = empty = 0

    def interpolate(key: str, lattice: CompactLattice, other: CompactLattice | None) -> CompactLattice | None:
        nonlocal missing, empty
        if other is None:
            log.warning(f"Not producing output for utterance {key} because not present in second table.")
            missing += 1
            return None
        result = Composer(on_words(scaled(other, second))).compose(scaled(lattice, first))
        if result.start < 0:
            log.warning(f"Composition of the lattices of {key} is empty")
            empty += 1
            return None
        return result

    counts = _change_pairs(args, interpolate)
    return counts.report(f"Done {counts.done + empty} lattices; {{done}} had nonempty result, {empty} had empty "
                         f"composition; in {missing}, had empty second lattice.")


@kaldi_command("lattice-copy-backoff", "Lattices", "Copy lattices from a second table, else from the first.", """
Copy lattices with the keys of the first table: from the second table where it has the key, else from the first.

Usage: lattice-copy-backoff [options] <lattice-rspecifier-1> <lattice-rspecifier-2> <lattice-wspecifier>
e.g.:
 lattice-copy-backoff ark:bad_but_complete.lats ark:good_but_incomplete.lats ark:out.lats
See also: lattice-copy, lattice-interp
""", arguments=(3, 3), options=[])
def lattice_copy_backoff(args: list[str], options: Options) -> int:
    replaced = 0

    def choose(key: str, lattice: CompactLattice, other: CompactLattice | None) -> CompactLattice:
        nonlocal replaced
        replaced += other is not None
        return lattice if other is None else other

    counts = _change_pairs(args, choose)
    return counts.report(f"Done {{done}} lattices; {counts.done - replaced} were from the first table, {replaced} from "
                         "the second.")


@kaldi_command("lattice-union", "Lattices", "Unite two lattices, and determinize the union.", """
Unite the two lattices of each key, and determinize the union: each word sequence keeps its best path of both.

Usage: lattice-union [options] <lattice-rspecifier-1> <lattice-rspecifier-2> <lattice-wspecifier>
e.g.:
 lattice-union ark:den.lats ark:num.lats ark:union.lats
See also: lattice-combine, lattice-interp
""", arguments=(3, 3), options=[])
def lattice_union(args: list[str], options: Options) -> int:
    from nnet3py.lattices.composition import union
    from nnet3py.lattices.determinize import determinize
    from nnet3py.transducers.lattice import expanded

    united = missing = 0

    def unite(key: str, lattice: CompactLattice, other: CompactLattice | None) -> CompactLattice:
        nonlocal united, missing
        if other is not None:
            lattice = union([lattice, other])
            united += 1
        else:
            log.warning(f"No lattice found for utterance {key} in {args[1]}. Result will be first lattice.")
            missing += 1
        return determinize(expanded(lattice))

    counts = _change_pairs(args, unite)
    counts.report(f"Total {{done}}lattices written. Computed union for {united} pairs of lattices. Missing second "
                  f"lattice in {missing} cases.")
    return counts.report(DONE)


@kaldi_command("lattice-combine", "Lattices", "Combine the lattices of several systems.", """
Combine the lattices of several systems, for minimum Bayes risk decoding: the union of their paths, where the
probabilities of a system's paths are scaled to sum to its weight. The output has the keys of the first table.

Usage: lattice-combine [options] <lattice-rspecifier-1> [<lattice-rspecifier-2> ...] <lattice-wspecifier>
e.g.:
 lattice-combine --inv-acoustic-scale=12 --lat-weights=0.3:0.7 ark:1.lats ark:2.lats ark:- | \\
   lattice-mbr-decode ark:- ark,t:-
See also: lattice-union, lattice-interp, lattice-mbr-decode
""", arguments=(2, None), options=[
    ACOUSTIC_SCALE, INV_ACOUSTIC_SCALE, LM_SCALE,
    option("lat-weights", str, "", "Colon-separated list of the systems' weights (empty: equal ones)"),
])
def lattice_combine(args: list[str], options: Options) -> int:
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.composition import union, with_final_cost
    from nnet3py.lattices.forward_backward import forward_backward
    from nnet3py.lattices.scaling import scaled
    from nnet3py.lattices.states import LatticeError, from_start
    from nnet3py.transducers.lattice import COMPACT_LATTICES

    num_systems = len(args) - 1
    weights = _system_weights(options.lat_weights, num_systems)
    scales = scales_of(options)
    total = missing = errors = 0
    with ExitStack() as stack:
        others = [stack.enter_context(RandomAccessReader(name, COMPACT_LATTICES)) for name in args[1:-1]]

        def weighted(key: str, lattice: CompactLattice, weight: float) -> CompactLattice | None:
            nonlocal errors
            try:
                lattice = from_start(scaled(lattice, scales))
                return with_final_cost(lattice, forward_backward(lattice).total - logarithm(weight))
            except LatticeError as error:
                log.warning(f"Lattice for utterance {key} cannot be used: {error}")
                errors += 1
                return None

        def combine(key: str, lattice: CompactLattice) -> CompactLattice | None:
            nonlocal total, missing
            members: list[CompactLattice | None] = [lattice]
            for name, table in zip(args[1:-1], others, strict=True):
                if key not in table:
                    log.warning(f"No lattice found for utterance {key} for system {name}.")
                    missing += 1
                members.append(table[key] if key in table else None)
            usable: list[Any] = [weighted(key, member, weight) for member, weight in zip(members, weights, strict=True)
                      if member is not None]
            total += len(usable)
            usable = [member for member in usable if member is not None]
            return union(usable) if usable else None

        done, failed = change_lattices([args[0], args[-1]], combine, inputs=stack)
    log.log(f"Processed {done + failed} utterances: with a total of {total} lattices across {num_systems} different "
            "systems")
    log.log(f"Produced output for {done} utterances; {missing} total missing lattices and {errors} total lattices had "
            "errors in processing.")
    return 0 if done and missing < 0.5 * (total + missing) else 1


def _system_weights(text: str, count: int) -> list[float]:
    weights = float_list(text, "lat-weights") or [1.0 / count] * count
    if len(weights) != count or not all(weight > 0.0 for weight in weights):
        raise UsageError(f"expected {count} weights that are more than 0, found --lat-weights={text}",
                         "one for each table of lattices")
    return weights


@kaldi_command("lattice-difference", "Lattices", "Keep paths whose word sequences other lattices lack.", """
Subtract lattices: keep the paths of the first lattice whose word sequences the second lattice of the same key lacks.

Usage: lattice-difference [options] <lattice-rspecifier-1> <lattice-rspecifier-2> <lattice-wspecifier>
e.g.:
 lattice-difference ark:den.lats ark:num.lats ark:diff.lats
See also: lattice-union, lattice-compose
""", arguments=(3, 3), options=[])
def lattice_difference(args: list[str], options: Options) -> int:
    from nnet3py.lattices.composition import difference

    empty = missing = 0

    def subtract(key: str, lattice: CompactLattice, other: CompactLattice | None) -> CompactLattice | None:
        nonlocal empty, missing
        if other is None:
            log.warning(f"No lattice found for utterance {key} in {args[1]}")
            missing += 1
            return None
        result = difference(lattice, other)
        empty += result.start < 0
        return result

    return _change_pairs(args, subtract).report(
        f"Done {{done}} lattices; {empty} of them are empty, {missing} had no second lattice.")
