"""nnet3py/training/transitions.py and nnet3-am-train-transitions: probabilities and priors from alignments."""
from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from paths import DATA

from nnet3py.acoustic_model import read_model
from nnet3py.cli.training.train import am_train_transitions
from nnet3py.errors import FormatError, Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.tables import TableWriter, write_table
from nnet3py.training.options import TransitionOptions
from nnet3py.training.transitions import count_transitions, priors_of_counts, train_transitions

FLOAT32 = 1e-6
MODEL = str(DATA / "network" / "am-priors.mdl")


def model() -> TransitionModel:
    return read_model(MODEL).transition_model


def random_counts(of: TransitionModel, low: int = 0, high: int = 40) -> np.ndarray:
    counts = np.random.default_rng(0).integers(low, high, of.num_transition_ids + 1).astype(np.float64)
    counts[0] = 0
    return counts


def expected_log_probs(of: TransitionModel, counts: np.ndarray, options: TransitionOptions) -> np.ndarray:
    """One state after the other, in double precision."""
    result = of.log_probs.astype(np.float64)
    for state in range(1, of.num_transition_states + 1):
        ids = [of.transition_id(state, i) for i in range(of.num_transition_indices(state))]
        total = counts[ids].sum()
        if len(ids) < 2 or total < options.transition_min_count:
            continue
        probs = counts[ids] / total
        for _ in range(3):
            probs = np.maximum(probs / probs.sum(), options.transition_floor)
        result[ids] = np.log(probs)
    return result


@pytest.mark.parametrize("options", [TransitionOptions(), TransitionOptions(transition_floor=0.2),
                                     TransitionOptions(transition_min_count=60)])
def test_probabilities_are_shares_of_counts(options):
    transitions = model()
    counts, before = random_counts(transitions), transitions.log_probs.copy()
    expected = expected_log_probs(transitions, counts, options)
    improvement = train_transitions(transitions, counts, options)
    np.testing.assert_allclose(transitions.log_probs, expected, atol=10 * FLOAT32)
    used = [state for state in range(1, transitions.num_transition_states + 1)
            if transitions.num_transition_indices(state) > 1]
    ids = np.concatenate([np.arange(transitions.first_transition_id[s], transitions.first_transition_id[s + 1])
                          for s in used])
    assert improvement.num_frames == counts[ids].sum()
    assert improvement.objective == pytest.approx(float(counts @ (expected - before)), rel=1e-4)


@pytest.mark.parametrize(("count", "is_used"), [(4.0, False), (5.0, True)])
def test_how_often_a_state_must_be_seen(count, is_used):
    transitions = model()
    states = range(1, transitions.num_transition_states + 1)
    state = next(state for state in states if transitions.num_transition_indices(state) > 1)
    counts, before = np.zeros(transitions.num_transition_ids + 1), transitions.log_probs.copy()
    counts[transitions.transition_id(state, 0)] = count
    assert train_transitions(transitions, counts).num_frames == count
    assert (transitions.log_probs != before).any() == is_used


def test_what_was_derived_of_the_probabilities_follows():
    transitions = model()
    loops = transitions.self_loop_of > 0
    before = transitions.non_self_loop_log_probs.copy()
    train_transitions(transitions, random_counts(transitions, 10))
    after = transitions.non_self_loop_log_probs
    assert not np.allclose(before[loops], after[loops])
    expected = np.log1p(-np.exp(transitions.log_probs[transitions.self_loop_of[loops]].astype(np.float64)))
    np.testing.assert_allclose(after[loops], expected, atol=1e-5)


def test_sharing_between_states_with_the_same_pdf():
    transitions = model()
    counts = random_counts(transitions)
    train_transitions(transitions, counts, TransitionOptions(share_for_pdfs=True, transition_floor=1e-5))
    groups: dict[int, list[int]] = {}
    for state, pdf in enumerate(transitions.tuples[:, 2].tolist(), 1):
        groups.setdefault(pdf, []).append(state)
    assert transitions.topology.is_hmm
    for states in groups.values():
        first = transitions.first_transition_id[states]
        size = transitions.num_transition_indices(states[0])
        ids = first[:, None] + np.arange(size)
        total = counts[ids].sum(axis=0)
        if size > 1 and total.sum() >= 5:
            for row in ids:
                np.testing.assert_allclose(np.exp(transitions.log_probs[row]), total / total.sum(), atol=2e-5)


def test_lines(caplog):
    caplog.set_level(logging.INFO)
    transitions = model()
    counts = np.zeros(transitions.num_transition_ids + 1)
    ids = [transitions.transition_id(1, i) for i in range(transitions.num_transition_indices(1))]
    counts[ids[0]] = 7.0
    improvement = train_transitions(transitions, counts)
    several = sum(transitions.num_transition_indices(s) > 1 for s in range(1, transitions.num_transition_states + 1))
    assert len(ids) > 1
    assert caplog.messages == [
        f"TransitionModel::Update, objf change is {improvement.average():.6g} per frame over 7 frames. ",
        f"{len(ids) - 1} probabilities floored, {several - 1} out of {transitions.num_transition_states} "
        "transition-states skipped due to insuffient data (it is normal to have some skipped.)"]
    caplog.clear()
    train_transitions(transitions, counts, TransitionOptions(share_for_pdfs=True))
    assert re.fullmatch(r"Objf change is \S+ per frame over 7 frames; \d+ probabilities floored, \d+ pdf-ids skipped "
                        r"due to insuffient data\.", caplog.messages[0])


def test_nothing_counted():
    transitions = model()
    before = transitions.log_probs.copy()
    improvement = train_transitions(transitions, np.zeros(len(before)), TransitionOptions(transition_min_count=0))
    assert np.isnan(improvement.average())
    np.testing.assert_array_equal(transitions.log_probs, before)


def test_priors():
    transitions = model()
    counts = np.zeros(transitions.num_transition_ids + 1)
    counts[1], counts[2] = 3, 1
    pdfs = transitions.transition_id_to_pdf
    priors = priors_of_counts(transitions, counts, 0.01)
    assert priors.dtype == np.float32 and len(priors) == transitions.num_pdfs
    assert priors.sum() == pytest.approx(1.0, abs=1e-5)
    shares = np.bincount(pdfs[1:], counts[1:], transitions.num_pdfs) / 4
    floored = np.maximum(shares, 0.01)
    np.testing.assert_allclose(priors, floored / floored.sum(), rtol=1e-5)
    with pytest.raises(NumericError, match="no transitions were counted"):
        priors_of_counts(transitions, counts * 0, 0.01)


def test_what_cannot_be_used():
    transitions = model()
    counts = np.zeros(transitions.num_transition_ids + 1)
    for wrong in (0, -3, transitions.num_transition_ids + 1):
        with pytest.raises(Nnet3Error, match=f"transition-id {wrong}"):
            count_transitions(transitions, np.array([1, wrong, 2], dtype=np.int32), counts)
    count_transitions(transitions, np.zeros(0, dtype=np.int32), counts)
    assert not counts.any()
    for ids in ([1], [transitions.num_transition_ids], [2, 2, 1, transitions.num_transition_ids]):
        counted = np.zeros_like(counts)
        count_transitions(transitions, np.array(ids, dtype=np.int32), counted)
        assert np.repeat(np.arange(len(counted)), counted.astype(int)).tolist() == sorted(ids)
    with pytest.raises(ShapeError, match="counts of transitions"):
        train_transitions(transitions, counts[1:])
    with pytest.raises(UsageError, match="--transition-floor=0"):
        train_transitions(transitions, counts, TransitionOptions(transition_floor=0.0))
    with pytest.raises(FormatError, match="log-probabilities"):
        transitions.set_log_probs(transitions.log_probs[1:])
    with pytest.raises(FormatError, match="0 or less"):
        transitions.set_log_probs(-transitions.log_probs)


@pytest.fixture
def folder(here):
    """The current folder, with alignments and an acoustic model."""
    transitions, rng = model(), np.random.default_rng(0)
    with TableWriter("ark:ali", INT_VECTOR) as writer:
        for key, frames in (("u1", 200), ("u2", 300)):
            writer.write(key, rng.integers(1, transitions.num_transition_ids + 1, frames).astype(np.int32))
    write_table("ark:empty", INT_VECTOR, {})
    return here


def test_command(folder, capfd):
    assert am_train_transitions.execute([MODEL, "ark:ali", "out.mdl"]) == 0
    old, new = read_model(MODEL), read_model("out.mdl")
    assert not np.allclose(old.transition_model.log_probs, new.transition_model.log_probs)
    assert new.priors.sum() == pytest.approx(1.0, abs=1e-5) and not np.allclose(old.priors, new.priors)
    lines = [line.split(") ", 1)[1] for line in capfd.readouterr().err.splitlines() if line.startswith("LOG")]
    assert lines[0] == "Accumulated transition stats from 2 utterances."
    assert re.fullmatch(r"TransitionModel::Update, objf change is \S+ per frame over \S+ frames\. ", lines[1])
    assert re.fullmatch(r"\d+ probabilities floored, \d+ out of \d+ transition-states skipped due to .*", lines[2])
    assert re.fullmatch(r"Transition model update: average \S+ log-like improvement per frame over \S+ frames\.",
                        lines[3])
    assert lines[4:] == ["Setting priors of pdfs in the model.",
                         "Trained transitions of neural network model and wrote it to out.mdl"]


def test_priors_may_stay(folder, capfd):
    assert am_train_transitions.execute(["--set-priors=false", "--binary=false", MODEL, "ark:empty", "out.mdl"]) == 0
    np.testing.assert_allclose(read_model("out.mdl").priors, read_model(MODEL).priors, rtol=1e-5)
    assert (folder / "out.mdl").read_bytes().startswith(b"<TransitionModel>")
    assert "Setting priors" not in capfd.readouterr().err


def test_errors_leave_no_model(folder, capfd):
    assert am_train_transitions.execute([MODEL, "ark:empty", "out.mdl"]) == 255
    assert "no transitions were counted" in capfd.readouterr().err
    write_table("ark:wrong", INT_VECTOR, {"u1": np.array([1, 99999], dtype=np.int32)})
    assert am_train_transitions.execute([MODEL, "ark:wrong", "out.mdl"]) == 255
    assert "utterance u1: the alignment has transition-id 99999" in capfd.readouterr().err
    assert not (folder / "out.mdl").exists()
