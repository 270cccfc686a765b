"""Damaged lattices for the fuzz test: they are read, and what can be read goes through every tool."""
from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lattice_cases import LATTICE_DATA, kaldi_lattices, random_lattice, transition_model

from nnet3py.decoding.symbols import read_text
from nnet3py.errors import Nnet3Error
from nnet3py.fst.const_arpa import ConstArpa
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenWriter
from nnet3py.lattices import frame_posteriors, pruning, scaling
from nnet3py.lattices.best_path import best_path, best_paths, path_of, word_times
from nnet3py.lattices.composition import Composer, composed_with_const_arpa, difference, union
from nnet3py.lattices.determinize import determinize_phone_pruned, determinize_pruned
from nnet3py.lattices.determinize_options import DeterminizeOptions, PrunedCompositionOptions
from nnet3py.lattices.forward_backward import arc_lines
from nnet3py.lattices.phone_alignment import with_phones_as_ids
from nnet3py.lattices.pruned_composition import FstLm, PrunedComposition
from nnet3py.lattices.pruning import minimized, with_strings_pushed, with_weights_pushed
from nnet3py.lattices.word_alignment import (
    WordBoundaries,
    align_words,
    align_words_by_lexicon,
    read_alignment_lexicon,
    read_word_boundaries,
)
from nnet3py.lattices.word_errors import minimum_bayes_risk, oracle
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst_text import read_fst
from nnet3py.transducers.lattice import COMPACT_LATTICES, LATTICES, expanded, factored

SMALLEST = "en-029-ed-01"           # of Kaldi's lattices
MAX_EXPAND = 2.0                    # of aligning with words: damage can make as many states as there are paths
MOST_ARCS = 200                     # of what goes through the tools
MOST_IDS = 2000                     # damage can make one string very long


def entries(compact: bool) -> Callable[[bytes, Path], list[Any]]:
    """Reads an archive; the lattices in it."""
    def read(data: bytes, path: Path) -> list[Any]:
        with SequentialReader(f"ark:{path}", COMPACT_LATTICES if compact else LATTICES) as reader:    # type: ignore[arg-type]
            return [lattice for _, lattice in reader]

    return read


def archive(lattices: list[CompactLattice], compact: bool, binary: bool) -> bytes:
    """An archive of lattices."""
    stream = io.BytesIO()
    for number, lattice in enumerate(lattices):
        stream.write(b"u%d " % number)
        if compact:
            COMPACT_LATTICES.write(TokenWriter(stream, binary), lattice)
        else:
            LATTICES.write(TokenWriter(stream, binary), expanded(lattice))
    return stream.getvalue()


@functools.cache
def _tools() -> tuple[Callable[[CompactLattice], Any], ...]:
    """What is done to lattices."""
    model = transition_model()
    data = LATTICE_DATA / "data"
    boundaries = WordBoundaries(read_word_boundaries(read_text(data / "word_boundary.int")))
    lexicon = read_alignment_lexicon(read_text(data / "align_lexicon.int"))
    arpa = ConstArpa.read(LATTICE_DATA / "const-arpa" / "G.carpa")
    grammar = read_object(str(LATTICE_DATA / "graph-grammar" / "G.fst"), read_fst)
    other, small = random_lattice(5), DeterminizeOptions(max_states=500)
    reference = np.array([1, 2, 3, 2], dtype=np.int32)
    return (
        lambda one: scaling.scaled(one, scaling.Scales(0.5, 2.0, 0.1)), lambda one: scaling.with_word_penalty(one, 1.0),
        lambda one: scaling.with_transition_probs(one, model, 1.0, 0.5), best_path,
        lambda one: best_paths(one, 5), path_of, word_times, lambda one: pruning.pruned(one, 3.0),
        pruning.depth, pruning.depth_per_frame, lambda one: pruning.limited_depth(one, 2),
        lambda one: frame_posteriors(expanded(one)), lambda one: arc_lines("u", one, model, True, 0.1),
        minimum_bayes_risk, lambda one: oracle(one, reference, reference[:1]), lambda one: union([one, other]),
        lambda one: difference(one, other), Composer(grammar).compose, Composer(grammar, rho=3).compose,
        Composer(grammar, phi=15).compose, lambda one: composed_with_const_arpa(one, arpa),
        lambda one: PrunedComposition(one, FstLm(grammar), PrunedCompositionOptions(max_arcs=200)).compose(),
        lambda one: scaling.word_fst(one, True), lambda one: scaling.AcousticScores(expanded(one)),
        lambda one: determinize_pruned(expanded(one), 5.0, small),
        lambda one: determinize_phone_pruned(model, expanded(one), 2.0),
        lambda one: minimized(with_weights_pushed(with_strings_pushed(one))),
        lambda one: align_words(one, model, boundaries, MAX_EXPAND),
        lambda one: with_phones_as_ids(one, model),
        lambda one: align_words_by_lexicon(one, model, lexicon, max_expand=MAX_EXPAND),
    )


def use(lattices: list[Any]) -> None:
    """Put lattices through every tool; what a tool refuses, it refuses by an Nnet3Error."""
    for lattice in lattices:
        compact = lattice if isinstance(lattice, CompactLattice) else factored(lattice)
        if compact.num_arcs > MOST_ARCS or len(compact.ids) + len(compact.final_ids) > MOST_IDS:
            continue
        for tool in _tools():
            with contextlib.suppress(Nnet3Error), warnings.catch_warnings():
                warnings.simplefilter("error")
                tool(compact)


def lattice_archives() -> list[tuple[str, bytes, Callable[[bytes, Path], Any]]]:
    """Names, good archives in all forms, and what reads them, as the other kind too."""
    random = [random_lattice(seed, num_states=5, frames=1) for seed in range(2)]
    kaldis = [kaldi_lattices("decode/lat.ark")[SMALLEST]]
    found = []
    for name, lattices in (("random", random), ("Kaldi's", kaldis)):
        for compact in (True, False):
            for binary in (True, False):
                form = f"{name} {'compact' if compact else 'plain'} {'binary' if binary else 'text'}"
                found.append((form, archive(lattices, compact, binary), entries(compact != (name == "random"))))
    return found


def read_words(data: bytes, path: Path) -> None:
    """Read a file of word boundaries, or a lexicon for alignment."""
    for read in (read_word_boundaries, read_alignment_lexicon):
        with contextlib.suppress(Nnet3Error):
            read(data.decode("utf-8", "surrogateescape"))
