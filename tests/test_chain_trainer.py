"""nnet3py/training/chain_trainer.py: the step that an example makes, and what does not fit."""
from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
from chain_graphs import chain_example, random_graph
from paths import shared_golden
from runtime_cases import parameters

from nnet3py.chain.den_graph import DenominatorGraph
from nnet3py.egs.chain_example import read_chain_egs
from nnet3py.egs.example import NnetIo
from nnet3py.errors import Nnet3Error
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.training.chain_objective import LWF_POSTERIORS, ChainObjectiveComputation, graph_folder, one_graph
from nnet3py.training.chain_trainer import ChainDiagnosticOptions, ChainDiagnostics, ChainTrainer
from nnet3py.training.options import ChainOptions, TrainerOptions

STEP = 2e-5           # float32 sums of some tens of terms, of the largest element
RATE, XENT, PDFS = 0.1, 0.25, 5
SGD = TrainerOptions(max_param_change=0.0)

# One matrix to the chain output and one, with the logs of a softmax, to its companion; plain gradient descent.
NET = f"""
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim={PDFS} learning-rate={RATE}
component-node name=a component=a input=input
output-node name=output input=a objective=linear
component name=x type=AffineComponent input-dim=3 output-dim={PDFS} learning-rate={RATE}
component-node name=x component=x input=input
component name=l type=LogSoftmaxComponent dim={PDFS}
component-node name=l component=l input=x
output-node name=output-xent input=l objective=linear
"""


@pytest.fixture
def graph():
    return DenominatorGraph(random_graph(np.random.default_rng(1), 6, PDFS), PDFS)


@pytest.fixture
def net():
    return Nnet.from_config(NET, seed=1)


def example(seed=0, **settings):
    return chain_example(np.random.default_rng(seed), 2, 4, PDFS, step=1, weight=0.5, **settings)


def rows_by_frame(eg):
    """The inputs in the order of the output's rows."""
    io = eg.inputs[0]
    return io.features[np.lexsort((io.indexes[:, 0], io.indexes[:, 1]))].astype(np.float64)


def expected_step(net, graph, eg, options, weights=None):
    """The changes of both matrices by one step of gradient descent, (pdfs, inputs + 1)."""
    x = np.hstack([rows_by_frame(eg), np.ones((len(eg.outputs[0].indexes), 1))])
    chain, xent = ({name: value.astype(np.float64) for name, value in net.component(one).parameters().items()}
                   for one in "ax")
    output = (x @ np.hstack([chain["linear_params"], chain["bias_params"][:, None]]).T).astype(np.float32)
    deriv, numerator = np.empty_like(output), np.empty_like(output)
    ChainObjectiveComputation(get_ops("cpu"), graph, options).compute(eg.outputs[0].supervision, output, deriv,
                                                                      numerator)
    weights = np.ones(len(x)) if weights is None else weights
    scores = x @ np.hstack([xent["linear_params"], xent["bias_params"][:, None]]).T
    softmax = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    at_xent = XENT * weights[:, None] * (numerator - numerator.sum(axis=1)[:, None] * softmax)
    return RATE * (weights[:, None] * deriv).T @ x, RATE * at_xent.T @ x


@pytest.mark.parametrize("apply_weights", [True, False])
@pytest.mark.parametrize("end_to_end", [True, False])
def test_a_step(net, graph, end_to_end, apply_weights):
    eg = example(end_to_end=end_to_end)
    options = ChainOptions(leaky_hmm_coefficient=0.1, l2_regularize=0.01, xent_regularize=XENT)
    expected = expected_step(net, graph, eg, options, eg.outputs[0].deriv_weights if apply_weights else None)
    before = parameters(net)
    ChainTrainer(net, lambda name: graph, SGD, options, apply_weights).train(eg)
    after = parameters(net)
    for component, change in zip("ax", expected, strict=True):
        found = np.hstack([after[f"{component}.linear_params"] - before[f"{component}.linear_params"],
                           (after[f"{component}.bias_params"] - before[f"{component}.bias_params"])[:, None]])
        np.testing.assert_allclose(found, change, atol=STEP * np.abs(change).max())


def test_weights_do_not_change_the_objectives(net, graph):
    totals = []
    for weighted in (True, False):
        trainer = ChainTrainer(net.copy(), lambda name: graph, SGD, ChainOptions(xent_regularize=XENT), weighted)
        trainer.train(example())
        totals.append({name: (one.total_weight, one.total_objective) for name, one in trainer.objectives.items()})
    assert totals[0] == totals[1]
    assert list(totals[0]) == ["output-xent", "output"]
    assert [weight for weight, _ in totals[0].values()] == [0.5 * 2 * 4] * 2


def test_training_improves_the_objective(net, graph):
    egs = [example(seed) for seed in range(3)]
    trainer = ChainTrainer(net, lambda name: graph, TrainerOptions(print_interval=3), ChainOptions())
    averages = []
    for _ in range(6):
        diagnostics = ChainDiagnostics(net, lambda name: graph)
        for eg in egs:
            diagnostics.compute(eg)
            trainer.train(eg)
        objective, weight = diagnostics.totals()
        averages.append(objective / weight)
    assert averages == sorted(averages) and averages[-1] > averages[0] + 0.1


def test_diagnostics(net, graph, caplog):
    options = ChainDiagnosticOptions(ChainOptions(l2_regularize=0.01, xent_regularize=XENT))
    diagnostics = ChainDiagnostics(net, lambda name: graph, options)
    trainer = ChainTrainer(net.copy(), lambda name: graph, SGD, options.chain)
    for found in (diagnostics.compute, trainer.train):
        found(example())
    with caplog.at_level(logging.INFO):
        assert diagnostics.log_totals()
    for name, stats in trainer.objectives.items():
        one = diagnostics.outputs[name]
        assert (one.weight, one.objective, one.aux_objective) == pytest.approx(
            (stats.total_weight, stats.total_objective, stats.total_aux))
    main = diagnostics.outputs["output"]
    value, aux = main.objective / main.weight, main.aux_objective / main.weight
    assert caplog.messages[1] == (f"Overall log-probability for 'output' is {value:.6g} + {aux:.6g} = "
                                  f"{value + aux:.6g} per frame, over 4 frames.")
    assert caplog.messages[0].startswith("Overall log-probability for 'output-xent' is -")
    assert not ChainDiagnostics(net, lambda name: graph).log_totals()


def test_a_minibatch_that_fails_changes_nothing(net, graph, caplog):
    net.component("a").parameters()["bias_params"][1] = np.nan
    before = parameters(net)
    trainer = ChainTrainer(net, lambda name: graph, SGD, ChainOptions())
    with caplog.at_level(logging.WARNING):
        trainer.train(example())
    assert any("setting objective function to -10 per frame." in message for message in caplog.messages)
    assert trainer.objectives["output"].average() == -10.0
    for name, value in parameters(net).items():
        np.testing.assert_array_equal(value, before[name])


def test_posteriors_that_examples_bring_along(net, graph):
    """They come sequence after sequence, and are added to the derivative, before its weights."""
    eg, rng = example(), np.random.default_rng(5)
    rows = eg.outputs[0].indexes
    posteriors = rng.random((len(rows), PDFS)).astype(np.float32)
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    with_posteriors = copy.deepcopy(eg)
    with_posteriors.inputs.append(NnetIo(LWF_POSTERIORS, rows[order], posteriors[order]))
    nets = []
    for one, options in ((eg, ChainOptions()), (with_posteriors, ChainOptions(lwf_scale=0.5))):
        nets.append(net.copy())
        ChainTrainer(nets[-1], lambda name: graph, SGD, options).train(one)
    weights = eg.outputs[0].deriv_weights[:, None]
    expected = RATE * 0.5 * (weights * posteriors).T @ rows_by_frame(eg)
    changed, plain = (one.component("a").parameters()["linear_params"] for one in (nets[1], nets[0]))
    np.testing.assert_allclose(changed - plain, expected, atol=STEP * np.abs(expected).max())
    with pytest.raises(Nnet3Error, match="need examples with an input __LWF-posteriors"):
        ChainTrainer(net, lambda name: graph, SGD, ChainOptions(lwf_scale=0.5)).train(eg)


def test_backstitch(net, graph):
    options = TrainerOptions(backstitch_training_scale=0.3, max_param_change=0.0)
    trainer = ChainTrainer(net, lambda name: graph, options, ChainOptions(xent_regularize=XENT))
    trainer.train(example())
    assert sorted(trainer.objectives) == ["output", "output-xent", "output-xent_backstitch", "output_backstitch"]


def test_examples_of_other_frame_rates(net, graph):
    trainer = ChainTrainer(net, lambda name: graph, SGD, ChainOptions())
    rng = np.random.default_rng(0)
    trainer.train(chain_example(rng, 2, 4, PDFS, step=3))
    with pytest.raises(Nnet3Error, match=r"output 'output': the times of its frames are 1 apart, those of .* 3"):
        trainer.train(chain_example(rng, 2, 4, PDFS, step=1))
    later = chain_example(rng, 2, 4, PDFS, step=3)
    for io in (*later.inputs, *later.outputs):
        io.indexes[:, 1] += 30                   # where it begins does not matter
    trainer.train(later)


@pytest.mark.parametrize("settings, options, complaint", [
    ({"name": "out"}, {}, "output named 'out', but no such output node is in the network"),
    ({"dim": 4}, {}, "input"),
])
def test_examples_of_other_networks(net, graph, settings, options, complaint):
    with pytest.raises(Nnet3Error, match=complaint):
        ChainTrainer(net, lambda name: graph, SGD, ChainOptions(**options)).train(example(**settings))


def test_examples_of_other_pdfs(net, graph):
    eg = chain_example(np.random.default_rng(0), 2, 4, PDFS + 1)
    with pytest.raises(Nnet3Error, match="output 'output': the supervision is of 6 pdfs, but .* has the dimension 5"):
        ChainTrainer(net, lambda name: graph, SGD, ChainOptions()).train(eg)


def test_a_network_without_the_companion(graph):
    net = Nnet.from_config(NET.partition("component name=x")[0], seed=1)
    with pytest.raises(Nnet3Error, match="'output-xent', but no such output node .*for --xent-regularize"):
        ChainTrainer(net, lambda name: graph, SGD, ChainOptions(xent_regularize=XENT)).train(example())


def test_where_denominator_graphs_come_from(net, tmp_path):
    from nnet3py.io.object_files import write_object
    from nnet3py.transducers.fst_text import write_fst

    languages = NET.replace("name=output ", "name=output-a ").replace("name=output-xent", "name=output-b")
    fst = random_graph(np.random.default_rng(1), 6, PDFS)
    write_object(str(tmp_path / "a.den.fst"), lambda writer: write_fst(writer, fst), True)
    graphs = graph_folder(Nnet.from_config(languages, seed=1), str(tmp_path))
    assert graphs("output-a") is graphs("output-a") and graphs("output-a").num_pdfs == PDFS
    with pytest.raises(Nnet3Error, match="b.den.fst"):
        graphs("output-b")
    single = one_graph(net, str(tmp_path / "a.den.fst"))
    assert single("output") is single("another")
    with pytest.raises(Nnet3Error, match="no output node named 'output'"):
        one_graph(Nnet.from_config(languages, seed=1), str(tmp_path / "a.den.fst"))
    smaller = Nnet.from_config(NET.replace(f"dim={PDFS}", "dim=3"), seed=1)
    with pytest.raises(Nnet3Error, match="a.den.fst: the denominator FST has pdf 4, but .* dimension 3"):
        one_graph(smaller, str(tmp_path / "a.den.fst"))


PATH = 0.1        # of the distance that training moved the parameters: see below


def test_kaldis_path():
    """All parameters after 15 minibatches, with weights of frames and l2.

    In the sixth minibatch one input of a rectifier is within 1e-5 of 0, the sum of terms of size 9: on which side it
    comes out is a matter of rounding. Kaldi with two threads in BLAS ends 5.9 % from itself with one.
    """
    folder = shared_golden() / "chain"
    net, start, theirs = (read_nnet(f"{folder}/{name}") for name in ("init.raw", "init.raw", "plain/final.raw"))
    trainer = ChainTrainer(net, one_graph(net, f"{folder}/den.fst"), TrainerOptions(),
                           ChainOptions(leaky_hmm_coefficient=0.1, l2_regularize=5e-5))
    for _, eg in read_chain_egs(f"ark:{folder}/merged.cegs"):
        trainer.train(eg)
    for name, value in parameters(theirs).items():
        moved = np.linalg.norm(value - parameters(start)[name])
        assert np.linalg.norm(value - parameters(net)[name]) <= PATH * max(moved, 1e-6), name
    total = trainer.objectives["output"]
    assert total.average() == pytest.approx(-1.65279, abs=2e-4)
    assert total.total_aux / total.total_weight == pytest.approx(-0.00254513, abs=1e-7)
