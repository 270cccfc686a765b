"""nnet3py/chain/phone_lm.py: the worked examples, Kaldi's model of the digits, and sequences that make none."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from graph_sums import log_sum
from paths import DATA

from nnet3py.chain.options import PhoneLmOptions
from nnet3py.chain.phone_lm import estimate_phone_lm
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.io.object_files import read_object
from nnet3py.transducers.fst_text import read_fst

CHAIN = DATA / "chain"
SENTENCES = [[1, 2, 3, 1], [1, 2, 2, 1], [1, 3, 2, 1], [1, 2, 3, 2, 1]]
SHEET = 1e-6          # costs are given with six decimals


def digits() -> list[list[int]]:
    return [[int(word) for word in line.split()[1:]] for line in (CHAIN / "phones.seq").read_text().splitlines()]


def arcs(fst):
    rows = zip(fst.sources.tolist(), fst.input_labels.tolist(), fst.next_states.tolist(),
               np.exp(-fst.weights.astype(np.float64)), strict=True)
    return [(source, label, target, round(float(prob), 6)) for source, label, target, prob in rows]


def test_kaldis_model_of_the_digits():
    fst = estimate_phone_lm(digits(), PhoneLmOptions(num_extra_lm_states=20))
    kaldi = read_object(CHAIN / "phone_lm.fst", read_fst)
    assert fst.start == kaldi.start
    for name in ("arc_starts", "input_labels", "output_labels", "next_states", "is_final"):
        np.testing.assert_array_equal(getattr(fst, name), getattr(kaldi, name))
    np.testing.assert_allclose(fst.weights, kaldi.weights, atol=SHEET)
    np.testing.assert_allclose(fst.final_weights, kaldi.final_weights, atol=SHEET)


def test_worked_example_with_one_extra_state():
    fst = estimate_phone_lm(SENTENCES, PhoneLmOptions(3, 1, 2))
    assert arcs(fst) == [(0, 1, 1, 1.0), (1, 2, 3, 0.75), (1, 3, 4, 0.25), (3, 1, 2, 0.5), (3, 2, 3, 0.166667),
                         (3, 3, 4, 0.333333), (4, 1, 2, 0.333333), (4, 2, 3, 0.666667)]
    assert fst.final_weights.tolist() == [np.inf, np.inf, 0.0, np.inf, np.inf]


def test_worked_example_without_extra_states():
    fst = estimate_phone_lm(SENTENCES, PhoneLmOptions(3, 0, 2))
    assert fst.num_states == 4
    assert [arc for arc in arcs(fst) if arc[0] == 1] == [(1, 2, 2, 0.375), (1, 3, 3, 0.125)]
    assert fst.weights[1] == pytest.approx(0.980829, abs=SHEET)
    assert np.exp(-fst.final_weights[1]) == pytest.approx(0.5, abs=SHEET)


def test_worked_example_without_merging(caplog):
    with caplog.at_level(logging.INFO, logger="nnet3py"):
        assert estimate_phone_lm(SENTENCES, PhoneLmOptions(3, 100, 2)).num_states == 9
    assert [record.getMessage() for record in caplog.records] == [
        "In LM [hard] backoff, target num states was 4 + --num-extra-lm-states=100 = 104, pruned from 9 to 9",
        "Total number of phone instances seen was 21", "Perplexity on training data is: 1.3022",
        "Created phone language model with 9 states and 10 arcs."]


@pytest.mark.parametrize("options", [PhoneLmOptions(), PhoneLmOptions(2, 0, 1), PhoneLmOptions(2, 3, 2),
                                     PhoneLmOptions(5, 40, 2), PhoneLmOptions(3, 0, 3)])
def test_probabilities_of_a_state_sum_to_one(options):
    rng = np.random.default_rng(5)
    fst = estimate_phone_lm([rng.integers(1, 6, rng.integers(0, 9)) for _ in range(60)], options)
    sums = np.exp(-fst.final_weights) + np.bincount(fst.sources, np.exp(-fst.weights), fst.num_states)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
    assert fst.is_acceptor
    pairs = list(zip(fst.sources.tolist(), fst.input_labels.tolist(), strict=True))
    assert pairs == sorted(set(pairs)), "deterministic, sorted by phone"


def test_one_state_is_the_unigram_model():
    sentences = [[1, 1, 2], [2], []]
    fst = estimate_phone_lm(sentences, PhoneLmOptions(2, 0, 1))
    assert (fst.num_states, fst.start) == (1, 0)
    np.testing.assert_allclose(np.exp(-fst.weights), [2 / 7, 2 / 7], rtol=SHEET)
    assert np.exp(-fst.final_weights[0]) == pytest.approx(3 / 7)


def test_merging_more_states_never_fits_better():
    rng = np.random.default_rng(2)
    sentences = [rng.integers(1, 5, 6).tolist() for _ in range(40)]
    likelihoods = []
    for extra in (1000, 40, 10, 0):
        fst = estimate_phone_lm(sentences, PhoneLmOptions(4, extra, 2))
        scores = np.full((len(sentences), 6, 5), -100.0)        # rows allow one phone each
        for sentence, rows in zip(sentences, scores, strict=True):
            rows[np.arange(6), sentence] = 0.0
        likelihoods.append(sum(log_sum(fst, rows) for rows in scores))
    assert likelihoods == sorted(likelihoods, reverse=True)
    assert likelihoods[0] > likelihoods[-1] + 1.0


@pytest.mark.parametrize("options, message", [
    (PhoneLmOptions(1, 0, 1), "expected 2 or more"), (PhoneLmOptions(3, 0, 4), "less than --no-prune-ngram-order=4")])
def test_impossible_options(options, message):
    with pytest.raises(UsageError, match=message):
        estimate_phone_lm(SENTENCES, options)


def test_zeros_are_no_phones():
    with pytest.raises(Nnet3Error, match="above 0, found 0 in a sequence of 3"):
        estimate_phone_lm([[1, 0, 2]])


def test_nothing_to_count():
    with pytest.raises(Nnet3Error, match="no phone sequences"):
        estimate_phone_lm([])
