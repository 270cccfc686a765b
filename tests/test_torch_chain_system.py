"""nnet3py/torch/chain.py: supervision from alignments, lattices and phones, and training on it."""
from __future__ import annotations

import numpy as np
import pytest
from graph_systems import SYSTEMS
from paths import DATA

pytest.importorskip("torch", reason="the extra torch")

import torch
from io_samples import read_table

from nnet3py.chain.acceptor import SupervisionError
from nnet3py.chain.den_fst import make_den_fst
from nnet3py.chain.normalization import Normalizer, normalization_fst
from nnet3py.chain.phone_lm import estimate_phone_lm
from nnet3py.egs.chain_example import Supervision, read_supervisions
from nnet3py.errors import FormatError, ShapeError
from nnet3py.formats.holders import INT_PAIR_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.torch import (
    ChainLoss,
    ChainSystem,
    supervision_from_alignments,
    supervision_from_lattices,
    supervision_from_phones,
)
from nnet3py.torch.chain import _in_order
from nnet3py.transducers.compact_lattice import CompactLattice
from nnet3py.transducers.fst_text import read_fst_file

FOLDER = DATA / "chain"


@pytest.fixture(scope="module")
def system() -> ChainSystem:
    return ChainSystem(FOLDER / "tree", FOLDER / "0.trans_mdl", str(FOLDER / "den.fst"))


@pytest.fixture(scope="module")
def pairs() -> list[np.ndarray]:
    return [value for value in read_table(f"ark:{FOLDER / 'phones.len'}", INT_PAIR_VECTOR).values()]


def same(left: Supervision, right: Supervision) -> bool:
    assert left.fst is not None and right.fst is not None
    return left.fst.equals(right.fst) and (left.frames_per_sequence, left.label_dim) == (
        right.frames_per_sequence, right.label_dim)


def transition_ids(pairs: np.ndarray, model: TransitionModel) -> np.ndarray:
    """An alignment of phones of one state: the transition forward, then the self-loop."""
    ids = np.arange(1, model.num_transition_ids + 1)
    phones, loops = model.transition_id_to_phone[ids], model.is_self_loop[ids]
    return np.concatenate([[ids[(phones == phone) & ~loops][0], *[ids[(phones == phone) & loops][0]] * (length - 1)]
                           for phone, length in pairs.tolist()])


def test_alignments(system: ChainSystem, pairs: list[np.ndarray]) -> None:
    """As Kaldi's program makes them, and normalized."""
    normalize = Normalizer(normalization_fst(read_fst_file(FOLDER / "den.fst")))
    wanted = [normalize(value) for _, value in read_supervisions(f"ark:{FOLDER / 'sup.ark'}")][:3]
    ids = [transition_ids(each, system.model) for each in pairs[:3]]
    for made in (supervision_from_alignments(pairs[:3], system), supervision_from_alignments(ids, system),
                 supervision_from_alignments(ids, system, system.model)):
        assert len(made) == 3 and all(same(*both) for both in zip(made, wanted, strict=True))


def phone_lattice(pairs: np.ndarray) -> CompactLattice:
    """Of one path; its transition-ids count frames only."""
    arcs, lengths = len(pairs), pairs[:, 1]
    costs = np.zeros((arcs, 2), np.float32)
    finals = np.full((arcs + 1, 2), np.inf, np.float32)
    finals[-1] = 0.0
    nothing = np.zeros(arcs + 2, np.int64)
    return CompactLattice(start=0, arc_starts=np.append(np.arange(arcs + 1), arcs), labels=pairs[:, 0].astype(np.int32),
                          next_states=np.arange(1, arcs + 1, dtype=np.int32), weights=costs,
                          string_starts=np.concatenate(([0], np.cumsum(lengths))),
                          ids=np.ones(lengths.sum(), np.int32), final_weights=finals, final_string_starts=nothing,
                          final_ids=np.zeros(0, np.int32))


def test_lattices(system: ChainSystem, pairs: list[np.ndarray]) -> None:
    made = supervision_from_lattices([phone_lattice(each) for each in pairs[:2]], system)
    assert all(same(*both) for both in zip(made, supervision_from_alignments(pairs[:2], system), strict=True))


def test_phones(system: ChainSystem, pairs: list[np.ndarray]) -> None:
    phones, frames = [each[:, 0] for each in pairs[:3]], [-(-int(each[:, 1].sum()) // 3) for each in pairs[:3]]
    made = supervision_from_phones(phones, frames, system)
    assert [each.frames_per_sequence for each in made] == frames and all(each.is_end_to_end for each in made)
    graphs = [system.maker.transition_ids(_in_order(each)) for each in phones]
    again = supervision_from_phones(graphs, frames, system)
    assert all(left.e2e_fsts[0].equals(right.e2e_fsts[0]) for left, right in zip(made, again, strict=True))


@pytest.mark.parametrize("name", ["chain", "left-biphone"])
def test_training(name: str) -> None:
    """A bias for each frame learns what is supervised: the numerator comes close to the denominator."""
    tree, model = SYSTEMS[name]()
    sentences = [np.array(each) for each in ([1, 2, 3], [3, 1, 2], [2, 2, 1])]
    system = ChainSystem(tree, model, make_den_fst(tree, model, estimate_phone_lm(sentences)),
                         frame_subsampling_factor=1, left_tolerance=1, right_tolerance=1)
    aligned = supervision_from_alignments([np.array([[phone, 3] for phone in each]) for each in sentences], system)
    for supervised in (aligned, supervision_from_phones(sentences, [9, 9, 9], system)):
        loss = ChainLoss(system.den_fst, system.num_pdfs, 0.1)
        output = torch.zeros(3, 9, system.num_pdfs, requires_grad=True)
        optimizer = torch.optim.SGD([output], lr=20.0)
        values = []
        for _ in range(10):
            optimizer.zero_grad()
            value = loss(output, supervised)
            value.backward()
            optimizer.step()
            values.append(value.item())
        assert values[-1] < values[0] - 0.2


def test_what_cannot_be_supervised(system: ChainSystem, pairs: list[np.ndarray]) -> None:
    good = pairs[0]
    for alignment, error, message in (
            (np.array([[1, 1], [2, 1], [3, 1]]), SupervisionError, "alignment 1: .*too many phones for too few frames"),
            (good.astype(np.float32), ShapeError, "alignment 1: found float32 .*, expected integers"),
            (good[:, :1], ShapeError, "alignment 1: found int"),
            (np.array([10**6]), ShapeError, "alignment 1: Invalid transition-id 1000000"),
            (transition_ids(good, system.model)[2:], SupervisionError, "alignment 1: its phones are not complete")):
        with pytest.raises(error, match=message):
            supervision_from_alignments([good, alignment], system)
    for phones, frames, error, message in (
            ([[1, 2]], [1], SupervisionError, "sequence 0: there are too many phones for too few frames"),
            ([[0, 2]], [9], SupervisionError, r"sequence 0: its phones are \[0, 2\], expected numbers from 1 on"),
            ([[]], [9], ShapeError, "sequence 0: found float64"),
            ([[1.5]], [9], ShapeError, "expected phones, integers"),
            ([[1], [2]], [9], ShapeError, "found 1 numbers of frames for 2 sequences"),
            ([[10**5]], [9], FormatError, "sequence 0: phone 100000 of the graph is not in")):
        with pytest.raises(error, match=message):
            supervision_from_phones(phones, frames, system)
    with pytest.raises(FormatError, match="do tree and final.mdl come from the same folder"):
        ChainSystem(FOLDER / "tree", SYSTEMS["chain"]()[1], FOLDER / "den.fst")
