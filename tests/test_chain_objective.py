"""nnet3py/training/chain_objective.py: Kaldi's results, failures, and the terms besides numerator and denominator."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from chain_graphs import random_graph, supervision
from io_samples import read_table
from paths import DATA, shared_golden

from nnet3py.chain.den_graph import DenominatorGraph, read_den_graph
from nnet3py.egs.chain_example import read_chain_egs, read_supervisions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.ops import get_ops
from nnet3py.training.chain_objective import ChainObjectiveComputation, ChainOutputs
from nnet3py.training.options import ChainOptions

KALDI = 1e-5          # of the objective's size and of the derivatives, which are up to 1; rounding is 1e-6
ops = get_ops("cpu")


def matrices(path):
    return read_table(f"ark:{path}", FLOAT_MATRIX)


def agree(graph, found, leaky, l2, golden, prefix, expected):
    options = ChainOptions(leaky_hmm_coefficient=leaky, l2_regularize=l2)
    output = golden[f"{prefix}nnet-output"]
    deriv, numerator = np.empty_like(output), np.empty_like(output)
    result = ChainObjectiveComputation(ops, graph, options).compute(found, output, deriv, numerator)
    value, l2_term, weight = expected
    assert result.value == pytest.approx(value, rel=KALDI)
    assert result.l2_term == pytest.approx(l2_term, rel=KALDI)
    assert result.weight == weight
    np.testing.assert_allclose(deriv, golden[f"{prefix}deriv"], atol=KALDI)
    np.testing.assert_allclose(numerator, golden[f"{prefix}xent-deriv"], atol=KALDI)


def test_kaldis_objective():
    folder = DATA / "chain"
    (_, found), = read_supervisions(f"ark:{folder}/objective-sup.ark")
    agree(read_den_graph(f"{folder}/den.fst", 56), found, 0.1, 0.0, matrices(folder / "objective.ark"), "",
          (-582.519287, 0.0, 160.0))


def test_all_of_kaldis_objectives():
    folder = shared_golden() / "chain"
    golden, graph = matrices(folder / "objective.ark"), read_den_graph(f"{folder}/den.fst", 56)
    examples = dict(read_chain_egs(f"ark:{folder}/merged.cegs"))
    lines = (folder / "objective.txt").read_text().splitlines()
    for line in lines:
        prefix, *words = line.split()
        facts = dict(word.split("=") for word in words)
        agree(graph, examples[facts["name"]].outputs[0].supervision, float(facts["leaky-hmm-coefficient"]),
              float(facts["l2-regularize"]), golden, f"{prefix}.",
              (float(facts["objf"]), float(facts["l2-term"]), float(facts["weight"])))
    assert len(lines) == 4


@pytest.fixture
def graph():
    return DenominatorGraph(random_graph(np.random.default_rng(1), 6, 4), 4)


def outputs(found, scale=1.0):
    rows = found.num_sequences * found.frames_per_sequence
    return (scale * np.random.default_rng(2).standard_normal((rows, found.label_dim))).astype(np.float32)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_a_failed_minibatch(graph, caplog, end_to_end):
    found = supervision(np.random.default_rng(3), 2, 3, 4, weight=0.5, end_to_end=end_to_end)
    output = outputs(found)
    output[1] = np.nan
    deriv, numerator = np.ones_like(output), np.ones_like(output)
    with caplog.at_level(logging.WARNING):
        result = ChainObjectiveComputation(ops, graph, ChainOptions()).compute(found, output, deriv, numerator)
    assert result.value == -10.0 * 0.5 * 6 and result.l2_term == 0.0
    assert not deriv.any() and not numerator.any()
    middle = " and numerator computation returned false" if end_to_end else ""
    assert caplog.messages == [f"Objective function is nan and denominator computation (if done) returned true{middle},"
                               " setting objective function to -10 per frame."]


def test_l2_is_added_to_a_failed_minibatch(graph):
    for end_to_end in (False, True):
        found = supervision(np.random.default_rng(3), 1, 3, 4, end_to_end=end_to_end)
        output = np.full((3, 4), np.nan, np.float32)
        result = ChainObjectiveComputation(ops, graph, ChainOptions(l2_regularize=0.1)).compute(found, output)
        assert np.isnan(result.l2_term) != end_to_end


def test_l2(graph):
    found = supervision(np.random.default_rng(3), 2, 3, 4, weight=0.5)
    output = outputs(found)
    plain, with_l2 = np.empty_like(output), np.empty_like(output)
    ChainObjectiveComputation(ops, graph, ChainOptions()).compute(found, output, plain)
    result = ChainObjectiveComputation(ops, graph, ChainOptions(l2_regularize=0.2)).compute(found, output, with_l2)
    assert result.l2_term == pytest.approx(-0.5 * 0.5 * 0.2 * float((output.astype(np.float64) ** 2).sum()))
    np.testing.assert_allclose(with_l2, plain - np.float32(0.1) * output, atol=1e-6)


def test_the_penalty_out_of_range(graph):
    """In half of the minibatches, twice as strong: on average its derivative."""
    found = supervision(np.random.default_rng(3), 1, 3, 4)
    output = outputs(found)
    output[1] = [31.0, -33.0, 30.0, 0.0]
    plain, deriv, seen = np.empty_like(output), np.empty_like(output), []
    ChainObjectiveComputation(ops, graph, ChainOptions(out_of_range_regularize=0.0)).compute(found, output, plain)
    computation = ChainObjectiveComputation(ops, graph, ChainOptions(out_of_range_regularize=0.25), seed=4)
    for _ in range(200):
        computation.compute(found, output, deriv)
        seen.append(deriv - plain)
    applied = np.array([one.any() for one in seen])
    assert 70 < applied.sum() < 130
    expected = np.zeros_like(output)
    expected[1, :2] = [-0.5 * 1.0, 0.5 * 3.0]
    for one in np.array(seen)[applied]:
        np.testing.assert_allclose(one, expected, atol=1e-6)


def test_without_derivatives_the_objective_is_the_same(graph):
    found = supervision(np.random.default_rng(3), 2, 3, 4)
    output, computation = outputs(found), ChainObjectiveComputation(ops, graph, ChainOptions())
    assert computation.compute(found, output) == computation.compute(found, output, np.empty_like(output))


def test_the_numerator_of_unconstrained_supervision_is_logged(graph, caplog):
    found = supervision(np.random.default_rng(3), 2, 3, 4, end_to_end=True)
    with caplog.at_level(logging.INFO):
        ChainObjectiveComputation(ops, graph, ChainOptions()).compute(found, outputs(found))
    assert len(caplog.messages) == 1 and caplog.messages[0].startswith("Numerator objf: ")


def test_a_warning_about_the_range(graph, caplog):
    """Now and then the range of the output is looked at."""
    found = supervision(np.random.default_rng(3), 1, 3, 4)
    computation = ChainObjectiveComputation(ops, graph, ChainOptions())
    with caplog.at_level(logging.WARNING):
        for _ in range(400):
            computation.compute(found, outputs(found, scale=40.0))
    assert 0 < len(caplog.messages) < 40
    assert all("outside the range [-30,30], derivs may be inaccurate." in message for message in caplog.messages)


def test_options_without_sense(graph):
    with pytest.raises(UsageError, match="--leaky-hmm-coefficient=0: expected above 0 and below 1"):
        ChainOutputs(ops, lambda name: graph, ChainOptions(leaky_hmm_coefficient=0.0))


def test_supervision_of_other_pdfs(graph):
    found = supervision(np.random.default_rng(3), 1, 3, 5)
    with pytest.raises(Nnet3Error, match="of 5 pdfs, but the network's output has the dimension 4"):
        ChainObjectiveComputation(ops, graph, ChainOptions()).compute(found, np.zeros((3, 4), np.float32))
