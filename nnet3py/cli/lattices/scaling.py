"""lattice-scale, lattice-add-penalty, lattice-rmali, lattice-add-trans-probs, lattice-boost-ali: changing costs."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.lattices.options import (
    ACOUSTIC_SCALE,
    INV_ACOUSTIC_SCALE,
    LM_SCALE,
    WRITE_COMPACT,
    change_lattices,
    log_done,
    status,
)
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option

if TYPE_CHECKING:
    from nnet3py.transducers.compact_lattice import CompactLattice
    from nnet3py.transducers.fst import Fst


@kaldi_command("lattice-scale", group="Lattices", help="Multiply the costs in lattices.", usage="""
Multiply the costs in lattices.

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
    """Scale lattices; 1 if there was none."""
    from nnet3py.lattices.scaling import Scales, inverse_scale, scaled

    scales = Scales(options.lm_scale, inverse_scale(options.acoustic_scale, options.inv_acoustic_scale),
                    options.acoustic2lm_scale, options.lm2acoustic_scale)
    done, _ = change_lattices(args, lambda key, lattice: scaled(lattice, scales), options.write_compact)
    return log_done(done)


@kaldi_command("lattice-add-penalty", group="Lattices", help="Add a penalty for each word.", usage="""
Add a penalty to the graph cost of each word in lattices.

Usage: lattice-add-penalty [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-add-penalty --word-ins-penalty=1.0 ark:- ark:-
See also: lattice-scale, lattice-best-path
""", arguments=(2, 2), options=[option("word-ins-penalty", float, 0.0, "Added to the cost of each word")])
def lattice_add_penalty(args: list[str], options: Options) -> int:
    """Add penalties; 1 if there was no lattice."""
    from nnet3py.lattices.scaling import with_word_penalty

    done, _ = change_lattices(args, lambda key, lattice: with_word_penalty(lattice, options.word_ins_penalty))
    log.log(f"Done adding word insertion penalty to {done} lattices.")
    return status(done)


@kaldi_command("lattice-rmali", group="Lattices", help="Remove the transition-ids from lattices.", usage="""
Remove the transition-ids from lattices: words and costs stay.

Usage: lattice-rmali [options] <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-rmali ark:lat.ark ark:words.ark
See also: lattice-project, lattice-to-fst
""", arguments=(2, 2), options=[])
def lattice_rmali(args: list[str], options: Options) -> int:
    """Remove alignments; 1 if there was no lattice."""
    from nnet3py.lattices.scaling import without_alignments

    done, _ = change_lattices(args, lambda key, lattice: without_alignments(lattice))
    log.log(f"Done removing alignments from {done} lattices.")
    return status(done)


@kaldi_command("lattice-add-trans-probs", group="Lattices", help="Add the costs of transitions to lattices.", usage="""
Add the costs of transitions to the graph costs of lattices. Lattices that were decoded or aligned have them already.

Usage: lattice-add-trans-probs [options] <transition-model> <lattice-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-add-trans-probs --transition-scale=1.0 --self-loop-scale=0.1 final.mdl ark:lat.ark ark:full.ark
See also: lattice-scale, lattice-boost-ali
""", arguments=(3, 3), options=[
    option("transition-scale", float, 1.0, "Factor of transition probabilities, apart from those of self-loops"),
    option("self-loop-scale", float, 1.0, "Factor of the probabilities of staying in a state, and of leaving it"),
])
def lattice_add_trans_probs(args: list[str], options: Options) -> int:
    """Add costs; 1 if there was no lattice."""
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.lattices.scaling import with_transition_probs

    model = read_object(args[0], TransitionModel.read)
    done, _ = change_lattices(args[1:], lambda key, lattice: with_transition_probs(
        lattice, model, options.transition_scale, options.self_loop_scale))
    return log_done(done)


@kaldi_command("lattice-boost-ali", group="Lattices",
               help="Lower the costs of lattices where they differ from alignments.", usage="""
Make the graph costs of lattices lower by a factor times their phone errors, frame by frame, against alignments;
for discriminative training (boosted MMI).

Usage: lattice-boost-ali [options] <transition-model> <lattice-rspecifier> <alignments-rspecifier> <lattice-wspecifier>
e.g.:
 lattice-boost-ali --b=0.05 --silence-phones=1:2:3 final.mdl ark:lat.ark ark:ali.ark ark:boosted.ark
See also: lattice-add-trans-probs, lattice-scale
""", arguments=(4, 4), options=[
    option("b", float, 0.05, "How much each error lowers the graph cost"),
    option("max-silence", float, 0.0, "The error of a silence phone that is not in the alignment"),
    option("silence-phones", str, "", "Numbers of silence phones, with colons between them"),
])
def lattice_boost_ali(args: list[str], options: Options) -> int:
    """Boost lattices; 1 if none was written."""
    from contextlib import ExitStack

    import numpy as np

    from nnet3py.cli.process.copying import convert_table
    from nnet3py.cli.process.lists import int_list
    from nnet3py.formats.holders import INT_VECTOR
    from nnet3py.hmm.transition_model import TransitionModel
    from nnet3py.io.object_files import read_object
    from nnet3py.io.tables import RandomAccessReader
    from nnet3py.lattices.scaling import boosted
    from nnet3py.lattices.states import LatticeError
    from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES, factored

    model = read_object(args[0], TransitionModel.read)
    silence = np.array(int_list(options.silence_phones, "silence-phones"), dtype=np.int32)
    missing = wrong = 0
    with ExitStack() as stack:
        alignments = stack.enter_context(RandomAccessReader(args[2], INT_VECTOR))

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

        done, _ = convert_table(args[1], args[3], LATTICES, COMPACT_LATTICES, boost, inputs=stack)
    log.log(f"Done {done} lattices, missing alignments for {missing}, other errors on {wrong}")
    return status(done)
