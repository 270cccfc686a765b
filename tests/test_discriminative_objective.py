"""nnet3py/discriminative/objective.py: Kaldi's numbers, finite differences, and what is refused."""
from __future__ import annotations

import dataclasses
import logging
from contextlib import nullcontext

import lattice_supervisions as cases
import numpy as np
import pytest

from nnet3py.discriminative import objective
from nnet3py.discriminative.objective import DiscriminativeObjective, DiscriminativeTotals
from nnet3py.discriminative.options import DiscriminativeOptions
from nnet3py.egs.discriminative_example import merge_supervisions, read_discriminative_egs
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import SequentialReader
from nnet3py.lattices.states import LatticeError, from_start, state_times
from nnet3py.ops import get_ops
from nnet3py.transducers.fst import NO_WEIGHT, Fst

RELATIVE = 2e-6         # Kaldi's sums of 160 frames are of float32
DERIV = 1e-6            # Kaldi's posteriors are of float32
DIFFERENCE = 2e-3       # of a finite difference in float64 sums of float32 scores, with steps of 0.02
MODEL = cases.model()
OPTIONS = {
    "mmi": {"criterion": "mmi"}, "mmi-boost": {"criterion": "mmi", "boost": 0.1, "silence_phones": [1]},
    "mmi-drop": {"criterion": "mmi", "drop_frames": True}, "smbr": {}, "smbr-sil": {"silence_phones": [1]},
    "smbr-onesil": {"one_silence_class": True, "silence_phones": [1, 2]}, "mpfe": {"criterion": "mpfe"},
    "mpfe-onesil": {"criterion": "mpfe", "one_silence_class": True, "silence_phones": [1, 2]},
    "smbr-l2": {"one_silence_class": True, "silence_phones": [1], "l2_regularize": 0.01},
    "smbr-chain": {"acoustic_scale": 1.0, "one_silence_class": True, "silence_phones": [1]},
    "mmi-chain": {"criterion": "mmi", "acoustic_scale": 1.0},
}


def computed(supervision, output, priors=False, deriv=None, **options) -> DiscriminativeTotals:
    return DiscriminativeObjective(get_ops("cpu"), MODEL.transition_model,
                                   MODEL.priors if priors else MODEL.priors[:0],
                                   DiscriminativeOptions(**options)).compute(supervision, output, deriv)


@pytest.fixture(scope="module")
def kaldi():
    """A minibatch's supervision, and matrices by name."""
    (_, eg), = read_discriminative_egs(f"ark:{cases.FOLDER}/merged.degs")
    with SequentialReader(f"ark:{cases.FOLDER}/objective.ark", FLOAT_MATRIX) as reader:
        return eg.outputs[0].supervision, {key.split(".")[1]: matrix for key, matrix in reader}


@pytest.mark.parametrize("line", (cases.FOLDER / "objective.txt").read_text().splitlines(),
                         ids=lambda line: line.split()[1])
def test_kaldis_numbers(kaldi, line):
    supervision, matrices = kaldi
    _, setting, *words = line.split()
    wanted = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    deriv = np.empty_like(matrices["output"])
    totals = computed(supervision, matrices["output"], "chain" not in setting, deriv, **OPTIONS[setting])
    found = {"objf": totals.objective, "num": totals.numerator, "l2": totals.l2_term, "num_count": totals.num_count,
             "den_count": totals.den_count, "t": totals.frames, "tw": totals.weight}
    assert found == {name: pytest.approx(wanted[name], rel=RELATIVE, abs=RELATIVE) for name in found}
    np.testing.assert_allclose(deriv, matrices[setting], atol=DERIV)


@pytest.mark.parametrize("options", [{"criterion": "mmi", "boost": 0.3}, {"criterion": "mpfe"}, {},
                                     {"one_silence_class": True, "silence_phones": [2]}], ids=str)
@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_derivatives_are_differences_over_the_scale(rng, options, scale):
    supervision, output, step = cases.supervision(rng, 5, 0.5), cases.log_probs(rng, 5), np.float32(0.02)
    deriv = np.empty_like(output)
    computed(supervision, output, deriv=deriv, acoustic_scale=scale, **options)
    for row, column in np.ndindex(output.shape):
        values = []
        for sign in (1, -1):
            changed = output.copy()
            changed[row, column] += sign * step
            values.append(computed(supervision, changed, acoustic_scale=scale, **options).objective)
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(scale * deriv[row, column], abs=DIFFERENCE)


@pytest.mark.parametrize("criterion", ["mmi", "smbr"])
@pytest.mark.parametrize("epsilons", ["between", "inside", "doubled"])
def test_merged_sequences_are_their_sum(rng, criterion, epsilons):
    """Cut into graphs where epsilon arcs only join sequences, and as one graph where there are others."""
    num_frames, parts = 4, [cases.supervision(rng, 4, 0.5) for _ in range(3)]
    merged, options = merge_supervisions(parts), {"criterion": criterion, "acoustic_scale": 1.0}
    if epsilons == "inside":       # one more state before the first: an epsilon arc leads on
        fst = merged.den_lat
        merged = dataclasses.replace(merged, den_lat=dataclasses.replace(
            fst, start=0, arc_starts=np.append(0, fst.arc_starts + 1), next_states=np.append(1, fst.next_states + 1)
            .astype(np.int32), weights=np.append(np.zeros((1, 2), np.float32), fst.weights, axis=0),
            input_labels=np.append(0, fst.input_labels).astype(np.int32),
            output_labels=np.append(0, fst.output_labels).astype(np.int32),
            final_weights=np.append(np.full((1, 2), np.inf, np.float32), fst.final_weights, axis=0)))
    elif epsilons == "doubled":      # twice as many paths over each of the two joints
        fst = merged.den_lat
        arcs = np.append(np.arange(fst.num_arcs), np.flatnonzero(fst.input_labels == 0))
        merged = dataclasses.replace(merged, den_lat=Fst.from_arcs(
            fst.start, fst.final_weights, fst.sources[arcs], fst.input_labels[arcs], fst.output_labels[arcs],
            fst.weights[arcs], fst.next_states[arcs], fst.arc_type))
    output = cases.log_probs(rng, 3 * num_frames)
    total = -merged.weight * np.log(4.0) if (criterion, epsilons) == ("mmi", "doubled") else 0.0
    deriv = np.empty_like(output)
    for s, part in enumerate(parts):
        own = np.empty_like(output[s::3])
        total += computed(part, np.ascontiguousarray(output[s::3]), deriv=own, **options).objective
        deriv[s::3] = own
    found = np.empty_like(output)
    assert computed(merged, output, deriv=found, **options).objective == pytest.approx(total, rel=RELATIVE)
    np.testing.assert_allclose(found, deriv, atol=DERIV)


def test_numbers_of_places(monkeypatch):
    """By marks, and by sorting where there are too many."""
    for most in (100, 0):
        monkeypatch.setattr(objective, "MOST_MARKED", most)
        places, (first, second) = objective._numbered(9, np.array([7, 2, 7]), np.array([0, 2]))
        assert (places.tolist(), first.tolist(), second.tolist()) == ([0, 2, 7], [2, 1, 2], [0, 1])


def test_a_sequence_is_a_graph_of_its_own(kaldi):
    from nnet3py.discriminative.objective import lattice_graphs
    graphs = lattice_graphs(kaldi[0], MODEL.transition_model)
    assert graphs.num_graphs == 4 and graphs.num_levels == 41 and (graphs.times >= 0).all()


def test_posteriors_of_a_frame_add_up_to_one(rng):
    supervision, output = cases.supervision(rng, 6), cases.log_probs(rng, 6)
    deriv = np.empty_like(output)
    computed(supervision, output, criterion="mmi", deriv=deriv)
    np.testing.assert_allclose(deriv.sum(axis=1), 0.0, atol=DERIV)
    accuracy = computed(supervision, output, criterion="mpfe").objective
    assert 0.0 <= accuracy <= 6.0


@pytest.mark.parametrize("criterion", ["mmi", "mpfe", "smbr"])
def test_an_epsilon_arc_has_no_frame(rng, criterion):
    """Before or after the only frame it changes nothing, and is not taken for an arc of a frame that is not there."""
    plain, output = cases.supervision(rng, 1), cases.log_probs(rng, 1)
    arcs, end = plain.den_lat, plain.den_lat.num_states
    finals = np.full((end + 1, 2), NO_WEIGHT, np.float32)
    finals[end] = arcs.final_weights[end - 1]
    longer = Fst.from_arcs(arcs.start, finals, *(np.append(part, last) for part, last in (
        (arcs.sources, end - 1), (arcs.input_labels, 0), (arcs.output_labels, 0))),
                           np.append(arcs.weights, np.zeros((1, 2), np.float32), axis=0),
                           np.append(arcs.next_states, end), arcs.arc_type)
    expected, found = (computed(changed(plain, den_lat=lattice), output, criterion=criterion, boost=0.1)
                       for lattice in (arcs, longer))
    assert found.objective == pytest.approx(expected.objective, rel=RELATIVE)


def test_no_number_gives_ten_per_frame(rng, caplog):
    supervision, output = cases.supervision(rng, 3), cases.log_probs(rng, 3)
    output[:] = np.nan
    deriv = np.ones_like(output)
    with caplog.at_level(logging.WARNING):
        totals = computed(supervision, output, deriv=deriv)
    assert totals.objective == -30.0 and not deriv.any()
    assert "Objective function is nan, setting to -10 per frame." in caplog.text


def test_low_scores_are_floored(rng, caplog):
    """Those below log(1e-20) count as this, with a warning of how many the lattice and the reference need."""
    supervision, output = cases.supervision(rng, 3), cases.log_probs(rng, 3)
    lowest, floored = np.float32(np.log(1e-20)), output.copy()
    output[1], floored[1] = -100.0, lowest
    floored[0], output[0] = lowest, lowest
    options = {"criterion": "mmi", "acoustic_scale": 1.0}
    with caplog.at_level(logging.WARNING):
        expected = computed(supervision, floored, **options).objective
    assert not caplog.text
    with caplog.at_level(logging.WARNING):
        assert computed(supervision, output, **options).objective == expected
    lattice = from_start(supervision.den_lat)
    in_frame = lattice.input_labels[state_times(lattice)[lattice.sources] == 1]
    pdfs = MODEL.transition_model.transition_id_to_pdf[[*in_frame, supervision.num_ali[1]]]
    assert [record.getMessage() for record in caplog.records] == [f"Floored {len(set(pdfs))} probabilities from nnet."]


def test_accumulated_vectors(rng):
    supervision, output, deriv = cases.supervision(rng, 3), cases.log_probs(rng, 3), np.empty((3, 10), np.float32)
    totals = computed(supervision, output, deriv=deriv, accumulate_gradients=True, accumulate_output=True)
    np.testing.assert_allclose(totals.gradients, deriv.sum(axis=0), atol=DERIV)
    np.testing.assert_allclose(totals.outputs, np.exp(output).sum(axis=0), rtol=1e-5)
    both = DiscriminativeTotals()
    both.add(totals)
    both.add(totals)
    for part in dataclasses.fields(both):
        np.testing.assert_allclose(getattr(both, part.name), 2 * getattr(totals, part.name), err_msg=part.name)


def changed(supervision, **parts):
    return dataclasses.replace(supervision, **parts)


def test_what_is_refused(rng):
    good, output = cases.supervision(rng, 3), cases.log_probs(rng, 3)
    bad_ids = dataclasses.replace(good.den_lat, input_labels=good.den_lat.input_labels + 20)
    cases_of = [
        (changed(good, num_ali=good.num_ali[:2]), ShapeError, "alignment of a supervision has 2 frames"),
        (changed(good, num_ali=good.num_ali + 20), Nnet3Error, "transition-id"),
        (changed(good, den_lat=bad_ids), Nnet3Error, "transition-id"),
        (changed(good, den_lat=cases.lattice(rng, 4)), ShapeError, "paths of 4 frames, expected 3"),
        (changed(good, den_lat=dataclasses.replace(
            good.den_lat, final_weights=np.full_like(good.den_lat.final_weights, np.inf))), LatticeError, "no path"),
        (changed(good, den_lat=dataclasses.replace(
            good.den_lat, weights=np.full_like(good.den_lat.weights, np.nan))), LatticeError, "not a number"),
    ]
    for supervision, error, message in cases_of:
        with pytest.raises(error, match=message):
            computed(supervision, output)
    with pytest.raises(ShapeError, match="output has the dimension 9"):
        computed(good, output[:, :9])
    with pytest.raises(ShapeError, match="output has 2 rows"):
        computed(good, output[:2])
    with pytest.raises(NumericError, match="expected log-probabilities"):
        computed(good, output + 5.0, priors=True)


@pytest.mark.parametrize("prior", [0.0, -0.5, 1.5])
def test_priors_are_probabilities(prior):
    for value, is_prior in ((prior, False), (1e-6, True), (1.0, True)):
        priors = MODEL.priors.copy()
        priors[3] = value
        with nullcontext() if is_prior else pytest.raises(NumericError, match=f"a prior of the model is {value:g}, "):
            DiscriminativeObjective(get_ops("cpu"), MODEL.transition_model, priors, DiscriminativeOptions())


@pytest.mark.parametrize(("criterion", "sums", "message"), [
    ("mmi", (2.0, 2.0 * (1 + 0.9e-8)), ""), ("mmi", (2.0, 2.0 * (1 + 2e-8)), "log-probability is 2 forward and 2 "),
    ("smbr", (2.0, 2.0 * (1 + 0.9e-6), 3.0, 3.0 * (1 + 0.9e-4)), ""),
    *[(name, (2.0, 2.00001, 3.0, 3.0), "total log-probability is 2 forward and 2.00001 backward")
      for name in ("mpfe", "smbr")],
    ("smbr", (2.0, 2.0, 3.0, 3.001), "total accuracy is 3 forward and 3.001 backward"),
    ("smbr", (np.inf, 2.0, 3.0, 3.0), "")])
def test_both_passes_over_a_lattice_have_the_same_sums(criterion, sums, message, caplog):
    checked = DiscriminativeObjective(get_ops("cpu"), MODEL.transition_model, MODEL.priors,
                                      DiscriminativeOptions(criterion=criterion))
    with pytest.raises(NumericError, match=message) if message and criterion != "mmi" else nullcontext():
        checked._check_passes(np.array(sums))
    assert bool(caplog.text) == bool(message and criterion == "mmi") and (criterion != "mmi" or message in caplog.text)


@pytest.mark.parametrize("options", [{"criterion": "map"}, {"boost": -1.0}, {"silence_phones": [0]}], ids=str)
def test_wrong_options(options):
    with pytest.raises(UsageError):
        DiscriminativeOptions(**options).check()
