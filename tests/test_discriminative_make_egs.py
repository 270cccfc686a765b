"""nnet3py/discriminative/make_egs.py: pieces of lattices and alignments."""
from __future__ import annotations

import dataclasses
import itertools

import lattice_supervisions as cases
import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.discriminative.make_egs import SupervisionSplitter, without_epsilons
from nnet3py.discriminative.options import SplittingOptions
from nnet3py.egs.discriminative_example import DiscriminativeSupervision, read_discriminative_egs
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.io.tables import RandomAccessReader
from nnet3py.lattices.forward_backward import forward_backward
from nnet3py.lattices.states import LatticeError, from_start, top_sorted
from nnet3py.transducers.fst import Fst
from nnet3py.transducers.lattice import LATTICES

KALDIS = 2e-3        # of a total; determinization takes costs for the same that differ by 1/1024
SAME = 1e-4          # float32 costs of some frames
MODEL = cases.model().transition_model
UTTERANCE = "en-029-belinda-05"


def total(lattice: Fst, scale: float) -> float:
    """The log of the sum over a lattice's paths."""
    weights = (lattice.weights * [1.0, scale]).astype(np.float32)
    finals = np.where(lattice.is_final[:, None], lattice.final_weights * [1.0, scale], np.inf).astype(np.float32)
    return forward_backward(from_start(dataclasses.replace(lattice, weights=weights, final_weights=finals))).total


def paths(lattice: Fst) -> dict[tuple[int, ...], float]:
    """The least cost of each label sequence."""
    found: dict[tuple[int, ...], float] = {}
    pending = [(lattice.start, (), 0.0)]
    while pending:
        state, labels, cost = pending.pop()
        if lattice.is_final[state]:
            whole = cost + float(lattice.final_weights[state].sum())
            found[labels] = min(whole, found.get(labels, np.inf))
        for arc in range(lattice.arc_starts[state], lattice.arc_starts[state + 1]):
            label = int(lattice.input_labels[arc])
            pending.append((int(lattice.next_states[arc]), (*labels, label) if label else labels,
                            cost + float(lattice.weights[arc].sum())))
    return found


@pytest.fixture(scope="module")
def kaldis() -> tuple[SupervisionSplitter, dict[int, DiscriminativeSupervision]]:
    with RandomAccessReader(f"ark:{cases.FOLDER}/lat.ark", LATTICES) as lattices, \
            RandomAccessReader(f"ark:{cases.FOLDER}/ali.txt", INT_VECTOR) as alignments:
        splitter = SupervisionSplitter(SplittingOptions(), MODEL, alignments.get(UTTERANCE), lattices.get(UTTERANCE))
    return splitter, {int(key.rsplit("-", 1)[1]): eg.outputs[0].supervision
                      for key, eg in read_discriminative_egs(f"ark:{cases.FOLDER}/degs.ark")}


def test_kaldis_pieces(kaldis):
    splitter, pieces = kaldis
    assert len(pieces) > 4
    for begin, wanted in pieces.items():
        found = splitter.frame_range(begin, wanted.frames_per_sequence, normalize=begin > 0)
        np.testing.assert_array_equal(found.num_ali, wanted.num_ali)
        assert (found.den_lat.num_states, found.den_lat.num_arcs) == (wanted.den_lat.num_states,
                                                                      wanted.den_lat.num_arcs)
        assert total(found.den_lat, 0.1) == pytest.approx(total(wanted.den_lat, 0.1), abs=KALDIS)


@pytest.mark.parametrize("options", [{"determinize": False, "collapse_transition_ids": False}, {}, {"minimize": False},
                                     {"collapse_transition_ids": False}], ids=str)
def test_sums_over_pieces(options):
    """As it is cut out, a piece sums up to 1 or to the utterance; of what is merged then the best paths stay."""
    rng = np.random.default_rng(3)
    lattice, alignment = cases.lattice(rng, 6, width=2), np.ones(6, np.int32)
    splitter = SupervisionSplitter(SplittingOptions(acoustic_scale=0.5, **options), MODEL, alignment, lattice)
    plain = SupervisionSplitter(SplittingOptions(acoustic_scale=0.5, determinize=False, collapse_transition_ids=False),
                                MODEL, alignment, lattice)
    for begin, count in ((0, 6), (0, 2), (1, 3), (4, 2)):
        piece = splitter.frame_range(begin, count, normalize=True)
        whole = plain.frame_range(begin, count, normalize=True)
        assert piece.frames_per_sequence == count and len(piece.num_ali) == count
        for normalize, wanted in ((True, 0.0), (False, total(lattice, 0.5))):
            assert total(plain._cut(begin, begin + count, normalize), 1.0) == pytest.approx(wanted, abs=SAME)
        if not options.get("collapse_transition_ids", True):
            least, before = (paths(dataclasses.replace(fst, weights=(fst.weights * [1, 0.5]).astype(np.float32)))
                             for fst in (piece.den_lat, whole.den_lat))
            assert least == {labels: pytest.approx(cost, abs=KALDIS) for labels, cost in before.items()}
        else:
            pdfs = [tuple(MODEL.transition_id_to_pdf[list(labels)]) for labels in paths(piece.den_lat)]
            assert len(set(pdfs)) == len(pdfs)      # one path for each sequence of pdfs


def test_epsilons_are_removed():
    rng = np.random.default_rng(8)
    lattice = cases.lattice(rng, 4, width=2)
    labels = np.where(rng.random(lattice.num_arcs) < 0.5, 0, lattice.input_labels).astype(np.int32)
    lattice = dataclasses.replace(lattice, input_labels=labels, output_labels=labels)
    found = without_epsilons(top_sorted(lattice))
    assert found.input_labels.all()
    assert paths(found) == {labels: pytest.approx(cost, abs=SAME) for labels, cost in paths(lattice).items()}


def test_what_cannot_be_cut():
    rng = np.random.default_rng(1)
    lattice, alignment = cases.lattice(rng, 4), np.ones(4, np.int32)
    nan = dataclasses.replace(lattice, weights=np.full_like(lattice.weights, np.nan))
    for options, ids, fst, error, message in (
            (SplittingOptions(), alignment[:3], lattice, ShapeError, "paths of 4 frames, the alignment has 3"),
            (SplittingOptions(), alignment[:0], lattice, ShapeError, "no frames"),
            (SplittingOptions(), alignment + 30, lattice, Nnet3Error, "transition-id 31"),
            (SplittingOptions(), alignment, nan, LatticeError, "not a finite number"),
            (SplittingOptions(acoustic_scale=0.0), alignment, lattice, UsageError, "above 0")):
        with pytest.raises(error, match=message):
            SupervisionSplitter(options, MODEL, ids, fst)
    splitter = SupervisionSplitter(SplittingOptions(), MODEL, alignment, lattice)
    for begin, count in ((-1, 2), (0, 5), (2, 0)):
        with pytest.raises(ShapeError, match="not within"):
            splitter.frame_range(begin, count, True)


def test_command(tmp_path, capfd):
    """Examples as Kaldi's: each utterance whole, once with what it needs and thrice without."""
    command = load("nnet3-discriminative-get-egs")
    data = str(cases.FOLDER)
    tables = [f"ark:{data}/feats.ark", f"ark:{data}/lat.ark", f"ark:{data}/ali.txt"]

    def run(*tables: str, lengths: str = "40,30") -> tuple[int, str]:
        status = command.execute(["--print-args=false", "--left-context=2", "--right-context=2",
                                  f"--num-frames={lengths}", "--num-frames-overlap=8", f"{data}/am.mdl", *tables,
                                  f"ark:{tmp_path}/degs"])
        return status, capfd.readouterr().err

    status, error = run(*tables)
    assert status == 0 and "Split 1 utts" in error
    egs = [eg for _, eg in read_discriminative_egs(f"ark:{tmp_path}/degs")]
    kaldis = [eg for _, eg in read_discriminative_egs(f"ark:{cases.FOLDER}/degs.ark")]
    assert len(egs) == len(kaldis)
    for eg in egs:
        output = eg.outputs[0]
        count = output.supervision.frames_per_sequence
        assert eg.inputs[0].features.shape == (count + 4, 40) and len(output.deriv_weights) == count
        np.testing.assert_array_equal(output.indexes[:, 1], np.arange(count))
    assert run(*tables, lengths="-1")[0] == 0, "whole utterances"
    whole = [eg.outputs[0].supervision.frames_per_sequence
             for _, eg in read_discriminative_egs(f"ark:{tmp_path}/degs")]
    assert whole == [len((cases.FOLDER / "ali.txt").read_text().split()) - 1]
    assert run(*tables, lengths="40,2")[0] == 0
    status, error = run(*tables, lengths="40,1")
    assert status == 255 and "examples of one output frame" in error and "at least 2" in error
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "short").write_text(f"{UTTERANCE} 1 1 1\n")
    for place, other, message in ((1, "empty", f"No denominator lattice for key {UTTERANCE}"),
                                  (2, "empty", f"No numerator alignment for key {UTTERANCE}"),
                                  (2, "short", "Supervision does not have expected length")):
        given = [f"ark:{tmp_path}/{other}" if i == place else table for i, table in enumerate(tables)]
        status, error = run(*given)
        assert status == 1 and message in error and "1 utterances had errors and could not be processed." in error
    assert not list(itertools.islice(read_discriminative_egs(f"ark:{tmp_path}/degs"), 1))
