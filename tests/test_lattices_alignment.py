"""Lattices aligned with words and phones: every path keeps its words, frames and costs, and is cut where words end."""
from __future__ import annotations

import numpy as np
import pytest
from lattice_cases import LATTICE_DATA, check_same_words, kaldi_lattices, transition_model, ways

from nnet3py.decoding.symbols import read_text
from nnet3py.errors import FormatError
from nnet3py.lattices.best_path import best_path, word_times
from nnet3py.lattices.phone_alignment import align_phones, most_states, with_phones_as_ids
from nnet3py.lattices.word_alignment import (
    WordBoundaries,
    align_words,
    align_words_by_lexicon,
    read_alignment_lexicon,
    read_word_boundaries,
)
from nnet3py.transducers.compact_lattice import CompactLattice

COST = 1e-3           # sums of floats in another order
FOLDER = LATTICE_DATA / "data"
BOUNDARIES = read_word_boundaries(read_text(FOLDER / "word_boundary.int"))
LEXICON = read_alignment_lexicon(read_text(FOLDER / "align_lexicon.int"))
LATTICES = kaldi_lattices("decode/lat.ark")


def phones_of_arcs(lattice: CompactLattice) -> list[tuple[int, tuple[int, ...]]]:
    """Label and phones of each arc that has transition-ids; a phone counts where it begins."""
    model = transition_model()
    begins = (model.transition_id_to_hmm_state == 0) & ~model.is_self_loop
    strings = [lattice.string(arc) for arc in range(lattice.num_arcs)]
    return [(int(label), tuple(model.transition_id_to_phone[ids[begins[ids]]].tolist()))
            for label, ids in zip(lattice.labels, strings, strict=True) if len(ids)]


def check_paths(found: CompactLattice, lattice: CompactLattice) -> None:
    """The same transition-ids and words at the same costs."""
    one, other = ({(way.ids, way.words): way.cost for way in ways(each)} for each in (found, lattice))
    assert one.keys() == other.keys()
    assert all(one[key] == pytest.approx(cost, abs=COST) for key, cost in other.items())


@pytest.mark.parametrize("key", sorted(LATTICES))
def test_arcs_are_words(key: str) -> None:
    found, problem = align_words(LATTICES[key], transition_model(), WordBoundaries(BOUNDARIES))
    assert problem == ""
    check_paths(found, LATTICES[key])
    for word, phones in phones_of_arcs(found):
        kinds = [BOUNDARIES[phone] for phone in phones]
        if word:
            assert kinds == ["singleton"] or kinds[0] == "begin" and kinds[-1] == "end" and set(kinds[1:-1]) <= {
                "internal"}
        else:
            assert kinds == ["nonword"]


@pytest.mark.parametrize("key", sorted(LATTICES))
def test_arcs_are_entries_of_the_lexicon(key: str) -> None:
    found, problem = align_words_by_lexicon(LATTICES[key], transition_model(), LEXICON)
    assert problem == ""
    check_paths(found, LATTICES[key])
    assert all((word, phones) in LEXICON.entries for word, phones in phones_of_arcs(found))


@pytest.mark.parametrize("key", sorted(LATTICES))
def test_arcs_are_phones(key: str) -> None:
    found, problem = align_phones(LATTICES[key], transition_model(), replace_words=True)
    assert problem == "" and {way.ids for way in ways(found)} == {way.ids for way in ways(LATTICES[key])}
    assert all(phones == (label,) for label, phones in phones_of_arcs(found))
    words, problem = align_phones(LATTICES[key], transition_model(), remove_epsilons=False)
    assert problem == ""
    check_same_words(words, LATTICES[key], COST)
    assert all(len(phones) == 1 for _, phones in phones_of_arcs(words))
    strings = with_phones_as_ids(found, transition_model())
    assert {way.ids for way in ways(strings)} == {way.words for way in ways(found)}


def test_both_ways_give_the_same_times() -> None:
    model = transition_model()
    for lattice in LATTICES.values():
        best = best_path(lattice)
        assert best is not None
        by_lexicon = best_path(align_words_by_lexicon(best, model, LEXICON).lattice)
        assert by_lexicon is not None
        times = word_times(align_words(best, model, WordBoundaries(BOUNDARIES)).lattice)
        assert times == word_times(by_lexicon) and times is not None
        assert sum(length for _, _, length in times) == len(ways(lattice)[0].ids)


def cut(lattice: CompactLattice, frames: int) -> CompactLattice:
    """The best path without its last frames."""
    best = best_path(lattice)
    assert best is not None
    ids = ways(best)[0].ids[:-frames]
    return CompactLattice.from_arcs(0, [[np.inf] * 2, [0, 0]], [0], [ways(best)[0].words[0]], [[1, 2]], [len(ids)], ids,
                                    [1])


def test_what_is_cut_is_put_out_and_told() -> None:
    model = transition_model()
    for lattice in LATTICES.values():
        damaged = cut(lattice, 1 + len(ways(lattice)[0].ids) // 2)
        found, problem = align_words(damaged, model, WordBoundaries(BOUNDARIES, partial_word_label=99))
        assert problem and {way.ids for way in ways(found)} == {way.ids for way in ways(damaged)}
        found, problem = align_words_by_lexicon(damaged, model, LEXICON, partial_word_label=99)
        assert problem and {way.ids for way in ways(found)} == {way.ids for way in ways(damaged)}
        found, problem = align_phones(damaged, model)
        assert {way.ids for way in ways(found)} == {way.ids for way in ways(damaged)}


def test_states_are_limited() -> None:
    lattice = LATTICES["en-029-belinda-03"]
    assert align_words(CompactLattice.empty(), transition_model(), WordBoundaries(BOUNDARIES)).problem
    assert [most_states(*limit) for limit in ((2.5, 11), (1e-9, 11), (0.0, 11), (-1.0, 11))] == [1027, 1000, None, None]
    copies = np.arange(lattice.num_states)
    found, problem = align_words(lattice.selected(copies), transition_model(), WordBoundaries(BOUNDARIES), 1e-9)
    assert problem == "" and found.num_states < 1000


@pytest.mark.parametrize("text", ["1 sil\n", "x begin\n", "1\n", "1 begin\n1 end\n", "0 begin\n", "99999999999 end\n"])
def test_bad_word_boundaries(text: str) -> None:
    with pytest.raises(FormatError, match="word-boundary"):
        read_word_boundaries(text)


@pytest.mark.parametrize("text", ["1\n", "a b c\n", "0 0\n", "1 1 0\n", "1 1 2\n1 1 2\n", "1 1 99999999999\n",
                                  "1 -1 2\n"])
def test_bad_lexicons(text: str) -> None:
    with pytest.raises(FormatError, match="lexicon"):
        read_alignment_lexicon(text)
