"""nnet3py/training/combination.py and nnet3-combine: the best average of the last models."""
from __future__ import annotations

import logging
import re

import numpy as np
import pytest
from runtime_cases import TDNN, TDNN_CONTEXT, assert_close, class_example, dense_example, parameters, plain

from nnet3py.cli.training.combine import combine
from nnet3py.egs.example import EXAMPLE
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.formats.general import to_dense
from nnet3py.io.tables import TableWriter
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.training.combination import CombineOptions, combine_nnets
from nnet3py.training.diagnostics import NnetDiagnostics

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
    return [record.getMessage() for record in caplog.records if record.name == "nnet3py.training.combination"]


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


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with 0.raw, 1.raw, 2.raw and examples."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        Nnet.from_config(TDNN, seed=seed).write(f"{seed}.raw")
    plain().write("p.raw")
    left, right = TDNN_CONTEXT
    with TableWriter("ark:egs", EXAMPLE) as writer:
        for seed in range(2):
            writer.write(f"e{seed}", class_example(3, 4, seed=seed, left=left, right=right))
    with TableWriter("ark:empty", EXAMPLE):
        pass
    return tmp_path


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
    (["--max-objective-evaluations=0", "0.raw", "ark:egs", "out.raw"], "--max-objective-evaluations=0 must be")])
def test_errors(folder, capfd, words, message):
    assert combine.execute(words) == 255
    assert message in capfd.readouterr().err and not (folder / "out.raw").exists()
