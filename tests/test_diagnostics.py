"""nnet3py/training/diagnostics.py: objectives and accuracies, and the best average of the last models."""
from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, parameters, plain

from nnet3py.cli.training.train import combine
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import SparseMatrix, to_dense
from nnet3py.io.tables import write_table
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.training.diagnostics import NnetDiagnostics, best_classes, combine_nnets
from nnet3py.training.options import CombineOptions, DiagnosticOptions

IDENTITY = """
input-node name=input dim=3
component name=i type=NoOpComponent dim=3
component-node name=i component=i input=input
output-node name=output input=i
"""


def example(outputs: list[list[float]], supervision) -> NnetExample:
    """For IDENTITY: rows of output and of supervision."""
    indexes = np.array([(0, t, 0) for t in range(len(outputs))], dtype=np.int32)
    return NnetExample([NnetIo("input", indexes, np.array(outputs, dtype=np.float32)),
                        NnetIo("output", indexes, supervision)])


def test_best_classes_take_the_first_of_equals():
    sparse = SparseMatrix.from_rows([[(2, 0.5), (1, 0.5)], [(0, 0.25), (2, 0.75)], [], [(1, 1.0)]], 3)
    best, weights = best_classes(sparse)
    assert best.tolist() == [1, 2, 0, 1] and weights.tolist() == [1.0, 1.0, 0.0, 1.0]
    best, weights = best_classes(np.array([[0, 0.5, 0.5], [0.25, 0, 0.75]], dtype=np.float32))
    assert best.tolist() == [1, 2] and weights.tolist() == [1.0, 1.0]
    best, weights = best_classes(CompressedMatrix.compress(np.eye(3, dtype=np.float32)))
    assert best.tolist() == [0, 1, 2] and np.allclose(weights, 1.0)


def test_accuracy_is_weighted_and_ties_go_to_the_first():
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    supervision = SparseMatrix.from_rows([[(0, 1.0)], [(1, 2.0)], [(2, 1.0)], [(1, 0.5), (0, 0.25)]], 3)
    diagnostics.compute(example([[1, 1, 0], [2, 2, 0], [0, 1, 2], [0, 3, 0]], supervision))
    totals = diagnostics.outputs["output"]
    assert totals.weight == totals.accuracy_weight == 4.75
    assert totals.num_correct == 1.0 + 0.0 + 1.0 + 0.75
    assert totals.objective == 1.0 + 2 * 2.0 + 2.0 + 0.5 * 3.0


def test_lines(caplog):
    caplog.set_level(logging.INFO)
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY), DiagnosticOptions(compute_per_dim_accuracy=True))
    first = SparseMatrix.from_rows([[(2, 1.0)]], 3)
    last = SparseMatrix.from_rows([[(0, 1.0)], [(0, 1.0)], [(1, 1.0)]], 3)
    diagnostics.compute(example([[0, 0, -1]], first))
    diagnostics.compute(example([[1, 0, 0], [0, 1, 0], [0, 2, 0]], last))
    assert diagnostics.log_totals()
    assert caplog.messages == [
        "Overall log-likelihood for 'output' is 0.5 per frame, over 4 frames.",
        "Overall accuracy for 'output' is 0.5 per frame, over 4 frames.",
        # of the last minibatch only, as Kaldi has it
        "Overall per-dim accuracy vector for 'output' is  [ 0.5 1 -1 ]\n per frame, over 4 frames."]
    assert [record.kaldi_place[1:] for record in caplog.records] == 3 * [("nnet-diagnostics.cc", 165)]


def test_quadratic_objective(caplog):
    caplog.set_level(logging.INFO)
    nnet = plain()
    diagnostics = NnetDiagnostics(nnet, DiagnosticOptions(compute_accuracy=False))
    eg, values = dense_example(), parameters(nnet)
    diagnostics.compute(eg)
    y = to_dense(eg.io[0].features) @ values["a.linear_params"].T + values["a.bias_params"]
    expected = -0.5 * float(((to_dense(eg.io[1].features) - y) ** 2).sum()) / 6
    assert diagnostics.log_totals()
    message, = (each for each in caplog.messages if each.startswith("Overall objective"))
    value, = re.findall(r"^Overall objective for 'output' is (\S+) per frame, over 6 frames\.$", message)
    assert float(value) == pytest.approx(expected, rel=1e-5)


def test_sparse_and_dense_supervision_agree():
    left, right = TDNN_CONTEXT
    found = []
    for change in (lambda m: m, to_dense, lambda m: CompressedMatrix.compress(to_dense(m))):
        diagnostics = NnetDiagnostics(Nnet.from_config(TDNN))
        for i in range(4):
            eg = class_example(5, 3, seed=i, left=left, right=right)
            eg.io[1].features = change(eg.io[1].features)
            diagnostics.compute(eg)
        totals = diagnostics.outputs["output"]
        found.append((totals.weight, totals.objective, totals.accuracy_weight, totals.num_correct))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
    assert 0 < found[0][3] < found[0][2] == 60


def test_the_network_is_left_alone():
    nnet = plain("l2-regularize=0.1")
    before = parameters(nnet)
    NnetDiagnostics(nnet).compute(dense_example())
    for name, value in parameters(nnet).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("store", [True, False])
def test_statistics_if_asked_for(store):
    nnet = Nnet.from_config(IDENTITY.replace("NoOpComponent", "BatchNormComponent"))
    diagnostics = NnetDiagnostics(nnet, DiagnosticOptions(store_component_stats=store))
    diagnostics.compute(example([[1, 2, 3], [3, 2, 1]], np.eye(3, dtype=np.float32)[:2]))
    assert vars(nnet.component("i"))["count"][0] == (2 if store else 0)


def test_no_weight(caplog):
    caplog.set_level(logging.INFO)
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    assert not diagnostics.log_totals() and caplog.messages == []
    diagnostics.compute(example([[1, 2, 3]], np.zeros((1, 3), dtype=np.float32)))
    assert not diagnostics.log_totals()
    assert caplog.messages == ["Overall log-likelihood for 'output' is nan per frame, over 0 frames.",
                               "Overall accuracy for 'output' is nan per frame, over 0 frames."]


def test_examples_must_fit():
    diagnostics = NnetDiagnostics(Nnet.from_config(IDENTITY))
    with pytest.raises(ShapeError, match=r"mismatch for 'output': 3 \(nnet\) vs. 4 \(egs\)"):
        diagnostics.compute(example([[1, 2, 3]], np.zeros((1, 4), dtype=np.float32)))
    eg = example([[1, 2, 3]], np.zeros((1, 3), dtype=np.float32))
    eg.io[1].name = "output-7"
    with pytest.raises(Nnet3Error, match="input or output named 'output-7', but no such"):
        diagnostics.compute(eg)


BATCHNORM = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4
component name=n type=BatchNormComponent dim=4
component name=d type=DropoutComponent dim=4 dropout-proportion=0.5
component-node name=a component=a input=input
component-node name=n component=n input=a
component-node name=d component=d input=n
output-node name=output input=d objective=quadratic
"""


def around(target: Nnet, offsets: list[float]) -> list[tuple[str, Nnet]]:
    """Copies of a network, the parameters of each shifted."""
    nnets = []
    for i, offset in enumerate(offsets):
        nnet = target.copy()
        for value in nnet.component("a").parameters().values():
            value += np.float32(offset)
        nnets.append((f"{i}.raw", nnet))
    return nnets


def fitted_examples(nnet: Nnet) -> list:
    """Examples whose targets are the network's outputs, so that it is the best."""
    examples, values = [dense_example(seed=seed) for seed in range(2)], parameters(nnet)
    for eg in examples:
        eg.io[1].features = to_dense(eg.io[0].features) @ values["a.linear_params"].T + values["a.bias_params"]
    return examples


def objective(nnet: Nnet, examples: list) -> float:
    diagnostics = NnetDiagnostics(nnet)
    for eg in examples:
        diagnostics.compute(eg)
    total, weight = diagnostics.totals()
    return total / weight


def messages(caplog) -> list[str]:
    """What the combination itself logged."""
    return [record.getMessage() for record in caplog.records if record.name == "nnet3py.training.diagnostics"]


def average(nnets: list[tuple[str, Nnet]], count: int) -> Nnet:
    result = nnets[0][1].copy()
    result.scale(1.0 / count)
    for _, nnet in nnets[1:count]:
        result.add(1.0 / count, nnet)
    return result


def test_the_best_average_is_found(caplog):
    caplog.set_level(logging.INFO)
    target = plain()
    examples, nnets = fitted_examples(target), around(target, [0.3, 0.1, -0.4, 0.9, 0.9])     # the first three: 0
    expected = [objective(average(nnets, n), examples) for n in range(1, 6)]
    result = combine_nnets(iter([(name, nnet.copy()) for name, nnet in nnets]), 5, examples)
    assert result.num_models == 3
    assert result.first_objective == pytest.approx(expected[0], rel=1e-4)
    for name, value in parameters(result.nnet).items():
        assert_close(value, parameters(target)[name])
    lines = messages(caplog)
    numbers = [float(line.rsplit(" ", 1)[1]) for line in lines[:5]]
    np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=1e-9)
    assert [line.rsplit(" ", 1)[0] for line in lines[:5]] == [
        "objective function using the last model is",
        *(f"Combining last {n} models, objective function is" for n in range(2, 6))]
    assert re.fullmatch(r"Combining 3 nnets, objective function changed from \S+ to \S+", lines[5])


def test_a_worse_average_is_not_taken():
    target = plain()
    result = combine_nnets(iter(around(target, [0.0, 0.5])), 2, fitted_examples(target))
    assert result.num_models == 1 and result.best_objective == result.first_objective
    for name, value in parameters(result.nnet).items():
        np.testing.assert_array_equal(value, parameters(target)[name])


@pytest.mark.parametrize(("most", "evaluated"), [(3, [4, 7]), (1, [7]), (7, [2, 3, 4, 5, 6, 7]), (30, None)])
def test_few_evaluations(caplog, most, evaluated):
    caplog.set_level(logging.INFO)
    target = plain()
    combine_nnets(iter(around(target, [0.1] * 7)), 7, fitted_examples(target), CombineOptions(most))
    found = [int(m[1]) for line in caplog.messages if (m := re.match(r"Combining last (\d+) models", line))]
    assert found == (evaluated or [2, 3, 4, 5, 6, 7])


def test_a_diverged_model_loses(caplog):
    caplog.set_level(logging.INFO)
    target = plain()
    nnets = around(target, [0.0, float("nan")])
    result = combine_nnets(iter(nnets), 2, fitted_examples(target))
    assert result.num_models == 1
    assert "Combining last 2 models, objective function is -inf" in caplog.messages


def test_batchnorm_statistics_are_computed_anew(caplog):
    caplog.set_level(logging.INFO)
    nnet = Nnet.from_config(BATCHNORM, seed=1)
    examples = [dense_example(4, seed=seed) for seed in range(3)]
    result = combine_nnets(iter([("a", nnet.copy()), ("b", nnet.copy())]), 2, examples)
    values, stats = parameters(nnet), vars(result.nnet.component("n"))
    outputs = np.vstack([to_dense(eg.io[0].features) for eg in examples]) @ values["a.linear_params"].T
    outputs += values["a.bias_params"]
    assert stats["count"][0] == len(outputs)
    np.testing.assert_allclose(stats["sum"], outputs.sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(stats["sumsq"], (outputs ** 2).sum(axis=0), rtol=1e-4)
    start = caplog.messages.index("Recomputing stats on nnet (affects batch-norm)")
    assert caplog.messages[start + 1].startswith("Overall objective for 'output' is ")
    assert caplog.messages[start + 2].startswith("Overall accuracy for 'output' is ")
    assert caplog.messages[start + 3] == "Done recomputing stats."


@pytest.mark.parametrize("batchnorm", [False, True])
def test_test_modes_of_evaluations(batchnorm):
    """Dropout is off, and batch normalization as asked for; the result's modes are those of the input."""
    from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode

    nnet = Nnet.from_config(BATCHNORM, seed=1)
    examples = [dense_example(4, seed=seed) for seed in range(3)]
    combine_nnets(iter([("a", nnet)]), 1, examples)
    statistics = nnet.component("n")
    statistics.count[...], statistics.sum[...], statistics.sumsq[...] = 10, 3, 20
    expected = nnet.copy()
    set_dropout_test_mode(expected, True)
    set_batchnorm_test_mode(expected, batchnorm)
    result = combine_nnets(iter([("a", nnet)]), 1, examples, CombineOptions(batchnorm_test_mode=batchnorm))
    assert result.first_objective == pytest.approx(objective(expected, examples), rel=1e-5)
    assert not result.nnet.component("n").test_mode and not result.nnet.component("d").test_mode


def test_what_cannot_be_combined():
    target = plain()
    with pytest.raises(UsageError, match="no models"):
        combine_nnets(iter([]), 0, fitted_examples(target))
    with pytest.raises(UsageError, match="no examples"):
        combine_nnets(iter(around(target, [0.0])), 1, [])
    with pytest.raises(UsageError, match="--max-objective-evaluations=0"):
        combine_nnets(iter(around(target, [0.0])), 1, fitted_examples(target), CombineOptions(0))
    with pytest.raises(Nnet3Error, match="other.raw"):
        combine_nnets(iter([("a", target), ("other.raw", Nnet.from_config(TDNN))]), 2, fitted_examples(target))


@pytest.fixture
def folder(here):
    """The current folder, with 0.raw, 1.raw, 2.raw and examples."""
    for seed in range(3):
        Nnet.from_config(TDNN, seed=seed).write(f"{seed}.raw")
    plain().write("p.raw")
    left, right = TDNN_CONTEXT
    write_table("ark:egs", EXAMPLE,
                ((f"e{seed}", class_example(3, 4, seed=seed, left=left, right=right)) for seed in range(2)))
    write_table("ark:empty", EXAMPLE, {})
    return here


def test_command(folder, capfd):
    assert combine.execute(["0.raw", "1.raw", "2.raw", "ark:egs", "out.raw"]) == 0
    err = capfd.readouterr().err
    assert ") Read 2 examples.\n" in err
    count = int(re.search(r"\) Combining (\d) nnets, objective function changed from \S+ to \S+\n", err)[1])
    assert ") Finished combining neural nets, wrote model to out.raw\n" in err
    expected = average([(f"{i}.raw", read_nnet(f"{i}.raw")) for i in range(3)], count)
    for name, value in parameters(read_nnet("out.raw")).items():
        assert_close(value, parameters(expected)[name])


@pytest.mark.parametrize(("words", "message"), [
    (["0.raw", "ark:empty", "out.raw"], "no examples to combine models on"),
    (["0.raw", "p.raw", "ark:egs", "out.raw"], "p.raw"),
    (["0.raw", "missing.raw", "ark:egs", "out.raw"], "missing.raw"),
    (["--max-objective-evaluations=0", "0.raw", "ark:egs", "out.raw"], "--max-objective-evaluations=0: expected 1")])
def test_errors(folder, capfd, words, message):
    assert combine.execute(words) == 255
    assert message in capfd.readouterr().err and not (folder / "out.raw").exists()
