"""Rescoring lattices with RNN language models. Kaldi: lattice-lmrescore-kaldi-rnnlm, and -pruned."""
from __future__ import annotations

from nnet3py.lattices.determinize import determinize
from nnet3py.lattices.pruned_composition import (
    DeterministicLm,
    LmDifference,
    PrunedComposition,
    PrunedCompositionOptions,
)
from nnet3py.lattices.scaling import Scales, scaled
from nnet3py.lattices.states import top_sorted
from nnet3py.rnnlm.composition import composed_with_rnnlm
from nnet3py.rnnlm.network import RnnlmNetwork
from nnet3py.rnnlm.on_demand import HistoryLm
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.lattice import expanded


def rescored_with_rnnlm(lattice: CompactLattice, network: RnnlmNetwork, scale: float,
                        max_ngram_order: int) -> CompactLattice:
    """The lattice with ``scale`` times the model's costs added to its graph costs, determinized.

    ShapeError for a word that the model lacks.
    """
    if scale == 0.0:
        return lattice
    composed = composed_with_rnnlm(scaled(lattice, Scales(1.0 / scale)), network, max_ngram_order)
    return scaled(determinize(expanded(top_sorted(composed))), Scales(scale))


def rescored_within_beam(lattice: CompactLattice, old: DeterministicLm, network: RnnlmNetwork, scale: float,
                         max_ngram_order: int, options: PrunedCompositionOptions) -> CompactLattice:
    """The lattice with ``scale`` times what the model costs more than an old one; only paths within a beam.

    Acoustic costs must be scaled as they count against graph costs. Not determinized; empty if there is no path.
    ShapeError for a word that the new model lacks.
    """
    network.embedding.check(lattice.labels)
    model = LmDifference(old, HistoryLm(network, max_ngram_order), scale)
    return PrunedComposition(lattice, model, options).compose()
