"""Lattices: determinization, pruning, rescoring, alignment with words and phones, posteriors, minimum Bayes risk.

A lattice is a ``CompactLattice`` or, with a transition-id on each arc, an ``Fst`` of arc type ``lattice4``. Most used
are ``best_path`` (``best_path.py``), ``pruned`` (``pruning.py``) and ``determinize_phone_pruned`` (``determinize.py``);
``states.py`` has what most algorithms begin with: ``top_sorted``, ``trimmed``, ``arc_costs``, ``state_times``. Loops
over states and arcs are compiled (``*_loops.py``): they fill arrays, return when one is full, and continue when they
are called with a larger one.

The package must not import decoding, networks or language-model training; models are passed to it as
``DeterministicLm`` (``pruned_composition.py``), ``Composer`` (``composition.py``) or ``ConstArpa``. kaldifst composes
and determinizes FSTs; lattices would have to be passed to it as files, and results must equal those of Kaldi's pruned
determinization.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py.public_names import give_names

if TYPE_CHECKING:
    from nnet3py.lattices.best_path import Path as Path
    from nnet3py.lattices.best_path import best_path as best_path
    from nnet3py.lattices.best_path import best_paths as best_paths
    from nnet3py.lattices.best_path import confidence as confidence
    from nnet3py.lattices.best_path import linear_lattice as linear_lattice
    from nnet3py.lattices.best_path import path_of as path_of
    from nnet3py.lattices.best_path import phones_of_words as phones_of_words
    from nnet3py.lattices.best_path import random_paths as random_paths
    from nnet3py.lattices.best_path import word_times as word_times
    from nnet3py.lattices.composition import Composer as Composer
    from nnet3py.lattices.composition import concatenation as concatenation
    from nnet3py.lattices.composition import difference as difference
    from nnet3py.lattices.composition import rescored_with_const_arpa as rescored_with_const_arpa
    from nnet3py.lattices.composition import rescored_with_fst as rescored_with_fst
    from nnet3py.lattices.composition import union as union
    from nnet3py.lattices.determinize import Determinized as Determinized
    from nnet3py.lattices.determinize import determinize as determinize
    from nnet3py.lattices.determinize import determinize_phone_pruned as determinize_phone_pruned
    from nnet3py.lattices.determinize import determinize_pruned as determinize_pruned
    from nnet3py.lattices.determinize_options import DeterminizeOptions as DeterminizeOptions
    from nnet3py.lattices.determinize_options import PhoneDeterminizeOptions as PhoneDeterminizeOptions
    from nnet3py.lattices.forward_backward import ForwardBackward as ForwardBackward
    from nnet3py.lattices.forward_backward import FramePosteriors as FramePosteriors
    from nnet3py.lattices.forward_backward import forward_backward as forward_backward
    from nnet3py.lattices.forward_backward import frame_posteriors as frame_posteriors
    from nnet3py.lattices.phone_alignment import Alignment as Alignment
    from nnet3py.lattices.phone_alignment import align_phones as align_phones
    from nnet3py.lattices.pruning import depth as depth
    from nnet3py.lattices.pruning import depth_per_frame as depth_per_frame
    from nnet3py.lattices.pruning import limited_depth as limited_depth
    from nnet3py.lattices.pruning import minimized as minimized
    from nnet3py.lattices.pruning import pruned as pruned
    from nnet3py.lattices.pruning import with_strings_pushed as with_strings_pushed
    from nnet3py.lattices.pruning import with_weights_pushed as with_weights_pushed
    from nnet3py.lattices.scaling import Scales as Scales
    from nnet3py.lattices.scaling import scaled as scaled
    from nnet3py.lattices.scaling import with_transition_probs as with_transition_probs
    from nnet3py.lattices.scaling import with_word_penalty as with_word_penalty
    from nnet3py.lattices.scaling import without_alignments as without_alignments
    from nnet3py.lattices.word_alignment import AlignmentLexicon as AlignmentLexicon
    from nnet3py.lattices.word_alignment import WordBoundaries as WordBoundaries
    from nnet3py.lattices.word_alignment import align_words as align_words
    from nnet3py.lattices.word_alignment import align_words_by_lexicon as align_words_by_lexicon
    from nnet3py.lattices.word_alignment import read_alignment_lexicon as read_alignment_lexicon
    from nnet3py.lattices.word_alignment import read_word_boundaries as read_word_boundaries
    from nnet3py.lattices.word_errors import MbrResult as MbrResult
    from nnet3py.lattices.word_errors import Oracle as Oracle
    from nnet3py.lattices.word_errors import minimum_bayes_risk as minimum_bayes_risk
    from nnet3py.lattices.word_errors import oracle as oracle

_PUBLIC = {
    "best_path": "nnet3py.lattices.best_path",
    "best_paths": "nnet3py.lattices.best_path",
    "random_paths": "nnet3py.lattices.best_path",
    "path_of": "nnet3py.lattices.best_path",
    "Path": "nnet3py.lattices.best_path",
    "linear_lattice": "nnet3py.lattices.best_path",
    "word_times": "nnet3py.lattices.best_path",
    "phones_of_words": "nnet3py.lattices.best_path",
    "minimum_bayes_risk": "nnet3py.lattices.word_errors",
    "MbrResult": "nnet3py.lattices.word_errors",
    "confidence": "nnet3py.lattices.best_path",
    "oracle": "nnet3py.lattices.word_errors",
    "Oracle": "nnet3py.lattices.word_errors",
    "forward_backward": "nnet3py.lattices.forward_backward",
    "ForwardBackward": "nnet3py.lattices.forward_backward",
    "frame_posteriors": "nnet3py.lattices.forward_backward",
    "FramePosteriors": "nnet3py.lattices.forward_backward",
    "scaled": "nnet3py.lattices.scaling",
    "Scales": "nnet3py.lattices.scaling",
    "with_word_penalty": "nnet3py.lattices.scaling",
    "with_transition_probs": "nnet3py.lattices.scaling",
    "without_alignments": "nnet3py.lattices.scaling",
    "pruned": "nnet3py.lattices.pruning",
    "depth": "nnet3py.lattices.pruning",
    "depth_per_frame": "nnet3py.lattices.pruning",
    "limited_depth": "nnet3py.lattices.pruning",
    "determinize": "nnet3py.lattices.determinize",
    "determinize_pruned": "nnet3py.lattices.determinize",
    "Determinized": "nnet3py.lattices.determinize",
    "determinize_phone_pruned": "nnet3py.lattices.determinize",
    "DeterminizeOptions": "nnet3py.lattices.determinize_options",
    "PhoneDeterminizeOptions": "nnet3py.lattices.determinize_options",
    "with_strings_pushed": "nnet3py.lattices.pruning",
    "with_weights_pushed": "nnet3py.lattices.pruning",
    "minimized": "nnet3py.lattices.pruning",
    "Composer": "nnet3py.lattices.composition",
    "union": "nnet3py.lattices.composition",
    "concatenation": "nnet3py.lattices.composition",
    "difference": "nnet3py.lattices.composition",
    "rescored_with_fst": "nnet3py.lattices.composition",
    "rescored_with_const_arpa": "nnet3py.lattices.composition",
    "align_words": "nnet3py.lattices.word_alignment",
    "WordBoundaries": "nnet3py.lattices.word_alignment",
    "read_word_boundaries": "nnet3py.lattices.word_alignment",
    "Alignment": "nnet3py.lattices.phone_alignment",
    "align_words_by_lexicon": "nnet3py.lattices.word_alignment",
    "AlignmentLexicon": "nnet3py.lattices.word_alignment",
    "read_alignment_lexicon": "nnet3py.lattices.word_alignment",
    "align_phones": "nnet3py.lattices.phone_alignment",
}
give_names(__name__, _PUBLIC, {
    "prune lattice_prune": "pruned(lattice, 8.0)", "scale lattice_scale": "scaled(lattice, Scales(1.0, 0.1))",
    "one_best best shortest_path lattice_best_path": "best_path(lattice)", "nbest n_best": "best_paths(lattice, 10)",
    "mbr mbr_decode": "minimum_bayes_risk(lattice)", "posteriors": "forward_backward(lattice)",
    "ctm to_ctm": "word_times(lattice)", "read read_lattice read_lattices": "nnet3py.read_lattices('ark:lat.ark')",
    "write write_lattices": "nnet3py.write_lattices('ark:lat.ark', lattices)",
    "CompactLattice": "nnet3py.CompactLattice",
    "rescore lmrescore": "rescored_with_const_arpa, rescored_with_fst",
})
