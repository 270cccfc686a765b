"""nnet3py/training/trainer.py against training written out in a few lines, and what else a trainer does."""
from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
from runtime_cases import ROUNDING, TDNN, TDNN_CONTEXT, class_example, dense_example, parameters, plain

from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.errors import Nnet3Error, NumericError, ShapeError, UsageError
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import to_dense
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import constrain_matrix
from nnet3py.ops import get_ops
from nnet3py.training.options import TrainerOptions
from nnet3py.training.trainer import NnetTrainer, num_sequences

PATH = 2e-4           # of the distance traveled: rounding of float32 parameters over some minibatches
RATE = 0.05

BATCHNORM = """
input-node name=input dim=3
component name=n type=BatchNormComponent dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4 learning-rate=0.0
component-node name=n component=n input=input
component-node name=a component=a input=n
output-node name=output input=a objective=quadratic
"""

DROPOUT = """
input-node name=input dim=3
component name=d type=DropoutComponent dim=3 dropout-proportion=0.5
component name=a type=AffineComponent input-dim=3 output-dim=4 learning-rate={rate}
component-node name=d component=d input=input
component-node name=a component=a input=d
output-node name=output input=a objective=quadratic
"""


@dataclass
class Reference:
    """One affine layer trained in double precision; what Kaldi does at each minibatch, in its order."""

    weights: np.ndarray               # (out, in + 1), the bias last
    options: TrainerOptions
    quadratic: bool = True
    l2: float = 0.0
    limit: float = 0.0
    interval_offset: int = 0
    objectives: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.delta = np.zeros_like(self.weights)
        self.minibatch = 0

    def gradient(self, eg: NnetExample) -> np.ndarray:
        inputs = to_dense(eg.io[0].features)
        x = np.hstack([inputs, np.ones((len(inputs), 1))]).astype(float)
        s, y = to_dense(eg.io[1].features).astype(float), x @ self.weights.T
        deriv = s - y if self.quadratic else s
        self.objectives.append(-0.5 * float((deriv ** 2).sum()) if self.quadratic else float((y * s).sum()))
        return deriv.T @ x

    def add(self, scale: float, max_change_scale: float) -> None:
        size = np.linalg.norm(self.delta) * abs(scale)
        factor = self.limit * max_change_scale / size if self.limit and size > self.limit * max_change_scale else 1.0
        size *= factor
        most = self.options.max_param_change * max_change_scale
        if most and size > most:
            factor *= most / size
        self.weights = self.weights + scale * factor * self.delta

    def train(self, eg: NnetExample) -> None:
        options, alpha = self.options, self.options.backstitch_training_scale
        decay = 2.0 * num_sequences(eg.io) * options.l2_regularize_factor * RATE * self.l2
        interval = options.backstitch_training_interval
        if alpha > 0.0 and self.minibatch % interval == self.interval_offset % interval:
            self.delta = RATE * self.gradient(eg)
            self.add(-alpha, alpha)
            self.delta = RATE * self.gradient(eg) - decay / (1.0 + alpha) * self.weights
            self.add(1.0 + alpha, 1.0 + alpha)
            self.delta[:] = 0.0
        else:
            self.delta += RATE * self.gradient(eg)
            self.delta -= decay * self.weights
            self.add(1.0 - options.momentum, 1.0)
            self.delta *= options.momentum
        self.minibatch += 1


def weights_of(nnet: Nnet) -> np.ndarray:
    values = nnet.component("a").parameters()
    return np.hstack([values["linear_params"], values["bias_params"][:, None]]).astype(float)


@pytest.mark.parametrize(("settings", "l2", "limit", "options"), [
    ("", 0.0, 0.0, {}),
    ("", 0.0, 0.0, {"max_param_change": 0.0}),
    ("", 0.0, 0.0, {"max_param_change": 0.05}),
    ("max-change=0.03", 0.0, 0.03, {"max_param_change": 0.0}),
    ("max-change=0.03", 0.0, 0.03, {"max_param_change": 0.02}),
    ("", 0.0, 0.0, {"momentum": 0.5}),
    ("", 0.0, 0.0, {"momentum": 0.9, "max_param_change": 0.05}),
    ("l2-regularize=0.1", 0.1, 0.0, {}),
    ("l2-regularize=0.1", 0.1, 0.0, {"l2_regularize_factor": 0.25, "momentum": 0.3}),
    ("l2-regularize=0.1", 0.1, 0.0, {"l2_regularize_factor": 0.0}),
    ("", 0.0, 0.0, {"backstitch_training_scale": 0.3}),
    ("l2-regularize=0.1 max-change=0.05", 0.1, 0.05, {"backstitch_training_scale": 0.3}),
    ("l2-regularize=0.1", 0.1, 0.0, {"backstitch_training_scale": 1.0, "backstitch_training_interval": 3,
                                     "max_param_change": 0.04}),
])
@pytest.mark.parametrize("objective", ["quadratic", "linear"])
def test_the_path_of_one_layer(settings, l2, limit, options, objective):
    trainer_options = TrainerOptions(srand=7, **options)
    nnet = plain(settings, objective)
    trainer = NnetTrainer(nnet, trainer_options)
    start = weights_of(nnet)
    reference = Reference(start.copy(), trainer_options, objective == "quadratic", l2, limit, trainer._seed)
    for i in range(8):
        eg = dense_example(2 + i % 2, 2, seed=i) if objective == "quadratic" else class_example(3, 2, seed=i)
        trainer.train(eg)
        reference.train(eg)
    moved = np.linalg.norm(reference.weights - start)
    assert moved > 0.05
    assert np.linalg.norm(weights_of(nnet) - reference.weights) <= PATH * moved
    total = sum(stats.total_objective for stats in trainer.objectives.values())
    assert total == pytest.approx(sum(reference.objectives), rel=1e-4, abs=1e-4)


def test_backstitch_records_both_steps_by_name(caplog):
    caplog.set_level(logging.INFO)
    trainer = NnetTrainer(plain(), TrainerOptions(backstitch_training_scale=0.3, backstitch_training_interval=2))
    for i in range(6):
        trainer.train(dense_example(seed=i))
    counts = {name: stats.total_weight for name, stats in trainer.objectives.items()}
    assert counts == {"output": 6 * 6, "output_backstitch": 3 * 6}
    assert trainer.max_change_stats.num_minibatches == 9
    caplog.clear()
    assert trainer.log_totals()
    found = [re.sub(r"-\d[\d.]*", "X", line) for line in caplog.messages]
    assert found == ["Overall average objective function for 'output' is X over 36 frames.",
                     "[this line is to be parsed by a script:] log-prob-per-frame=X",
                     "Overall average objective function for 'output_backstitch' is X over 18 frames.",
                     "[this line is to be parsed by a script:] log-prob-per-frame=X"]


def test_both_steps_of_backstitch_have_the_same_masks():
    """With a learning rate of 0 nothing changes between the steps, so only the masks could."""
    trainer = NnetTrainer(Nnet.from_config(DROPOUT.format(rate=0.0)), TrainerOptions(backstitch_training_scale=0.5))
    eg = dense_example(20)
    values = []
    for _ in range(4):
        before = [s.total_objective for s in trainer.objectives.values()] or [0.0, 0.0]
        trainer.train(eg)
        first, second = (s.total_objective - b for s, b in zip(trainer.objectives.values(), before, strict=True))
        assert first == pytest.approx(second, rel=1e-6)
        values.append(first)
    assert len({round(value, 3) for value in values}) == 4


@pytest.mark.parametrize("srand", [0, 5, -1])
def test_the_seed_makes_the_model(srand):
    models = []
    for seed in (srand, srand, srand + 1):
        nnet = Nnet.from_config(DROPOUT.format(rate=RATE))
        trainer = NnetTrainer(nnet, TrainerOptions(srand=seed))
        for i in range(5):
            trainer.train(dense_example(4, seed=i))
        models.append(weights_of(nnet))
    np.testing.assert_array_equal(models[0], models[1])
    assert np.abs(models[0] - models[2]).max() > 1e-3


# -- the other parts of a step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.8, 1.0, 0.0])
def test_batchnorm_statistics_fade(scale):
    nnet = Nnet.from_config(BATCHNORM)
    trainer = NnetTrainer(nnet, TrainerOptions(batchnorm_stats_scale=scale))
    count, total = 0.0, np.zeros(3)
    for i in range(4):
        eg = dense_example(3, 2, seed=i)
        trainer.train(eg)
        count = (count + 6) * scale
        total = (total + to_dense(eg.io[0].features).sum(axis=0, dtype=float)) * scale
    found = vars(nnet.component("n"))
    assert float(found["count"][0]) == pytest.approx(count)
    np.testing.assert_allclose(np.asarray(found["sum"]), total, atol=1e-5)


def test_backstitch_fades_batchnorm_once_per_minibatch():
    nnet = Nnet.from_config(BATCHNORM)
    NnetTrainer(nnet, TrainerOptions(backstitch_training_scale=0.3)).train(dense_example(3, 2))
    assert float(vars(nnet.component("n"))["count"][0]) == pytest.approx((6 + 6) * 0.8)


@pytest.mark.parametrize(("zero", "store"), [(True, True), (True, False), (False, True), (False, False)])
def test_statistics_are_kept_zeroed_or_added_to(zero, store):
    nnet = Nnet.from_config(BATCHNORM)
    NnetTrainer(nnet, TrainerOptions(batchnorm_stats_scale=1.0)).train(dense_example(3, 2))
    count = vars(nnet.component("n"))["count"]
    assert count[0] == 6
    options = TrainerOptions(batchnorm_stats_scale=1.0, zero_component_stats=zero, store_component_stats=store)
    NnetTrainer(nnet, options).train(dense_example(2, 2))
    assert count[0] == (0 if zero else 6) + (4 if store else 0)


def test_the_orthonormal_constraint_is_drawn_for_each_minibatch():
    nnet = plain("orthonormal-constraint=1.0 param-stddev=0.4")
    layer = nnet.component("a")
    layer.learning_rate = 0.0     # type: ignore[attr-defined]
    trainer = NnetTrainer(nnet, TrainerOptions(srand=3))
    draws = np.random.Generator(np.random.Philox(key=3))
    draws.integers(0, 100001)      # the trainer's seed
    taken = 0
    for i in range(40):
        expected = layer.parameters()["linear_params"].copy()
        if draws.integers(0, 4) == 0:
            constrain_matrix(get_ops("cpu"), expected, 1.0)
            taken += 1
        trainer.train(dense_example(seed=i))
        np.testing.assert_array_equal(layer.parameters()["linear_params"], expected)
    assert 3 <= taken <= 20       # 40 draws of 1/4
    w = layer.parameters()["linear_params"].astype(float)
    assert np.abs(np.linalg.svd(w)[1] - 1.0).max() < 0.1


def test_backstitch_constrains_before_its_first_step():
    """With a learning rate of 0 nothing else changes the layer."""
    nnet, calls = plain("orthonormal-constraint=1.0 param-stddev=0.4"), 0
    layer = nnet.component("a")
    layer.learning_rate = 0.0     # type: ignore[attr-defined]
    trainer = NnetTrainer(nnet, TrainerOptions(srand=3, backstitch_training_scale=0.3))
    for i in range(40):
        before = layer.parameters()["linear_params"].copy()
        trainer.train(dense_example(seed=i))
        calls += not np.array_equal(layer.parameters()["linear_params"], before)
    assert 3 <= calls <= 20       # 40 draws of 1/4, as without backstitch


def test_a_refused_change_is_forgotten():
    """Also by momentum, and whatever it was made of."""
    nnet = plain(objective="linear")
    trainer = NnetTrainer(nnet, TrainerOptions(momentum=0.9))
    before = weights_of(nnet)
    for value in trainer.delta.component("a").parameters().values():
        value.fill(np.inf)
    trainer.train(class_example())
    np.testing.assert_array_equal(weights_of(nnet), before)
    for value in trainer.delta.component("a").parameters().values():
        np.testing.assert_array_equal(value, np.zeros_like(value))
    trainer.train(class_example())
    assert np.isfinite(weights_of(nnet)).all() and np.abs(weights_of(nnet) - before).max() > 0


def test_a_network_without_trainable_parts():
    nnet = Nnet.from_config("input-node name=input dim=3\ncomponent name=t type=SoftmaxComponent dim=3\n"
                            "component-node name=t component=t input=input\noutput-node name=output input=t\n")
    trainer = NnetTrainer(nnet, TrainerOptions())
    eg = class_example(out_dim=3)
    for _ in range(2):
        trainer.train(eg)
    x = to_dense(eg.io[0].features)
    expected = float((np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) * to_dense(eg.io[1].features)).sum())
    assert trainer.objectives["output"].total_objective == pytest.approx(2 * expected, rel=ROUNDING * 10)


def test_several_outputs():
    text = TDNN + "output-node name=output-b input=b objective=quadratic\n"
    nnet = Nnet.from_config(text)
    trainer = NnetTrainer(nnet, TrainerOptions())
    left, right = TDNN_CONTEXT
    both = class_example(left=left, right=right)
    second = NnetIo("output-b", both.io[1].indexes, np.ones((6, 4), dtype=np.float32))
    before = parameters(nnet)
    trainer.train(NnetExample([both.io[0], second]))
    after = parameters(nnet)
    np.testing.assert_array_equal(after["c.linear_params"], before["c.linear_params"])     # not on its way
    assert np.abs(after["b.linear_params"] - before["b.linear_params"]).max() > 0
    trainer.train(NnetExample([both.io[0], second, both.io[1]]))
    assert {name: stats.total_weight for name, stats in trainer.objectives.items()} == {"output-b": 12, "output": 6}
    assert np.abs(parameters(nnet)["c.linear_params"] - before["c.linear_params"]).max() > 0


def test_supervision_of_any_kind_trains_alike():
    results = []
    for change in (lambda m: m, to_dense, lambda m: CompressedMatrix.compress(to_dense(m))):
        nnet = plain(objective="linear")
        trainer = NnetTrainer(nnet, TrainerOptions())
        for i in range(3):
            eg = class_example(seed=i)
            eg.io[1].features = change(eg.io[1].features)
            trainer.train(eg)
        results.append(weights_of(nnet))
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-6)


def test_minibatches_of_changing_size_reuse_what_was_compiled():
    trainer = NnetTrainer(plain(), TrainerOptions())
    for size in (2, 5, 3, 5, 2):
        trainer.train(dense_example(size))
    assert len(trainer.compiler._kept) == 3
    assert trainer.num_minibatches == 5


@pytest.mark.parametrize(("options", "message"), [
    ({"momentum": math.nan}, "--momentum=nan: expected 0 or more"),
    ({"momentum": 0.5, "backstitch_training_scale": 0.3}, "--momentum=0.5 must be 0 with backstitch"),
])
def test_options_are_checked(options, message):
    with pytest.raises(UsageError, match=message):
        NnetTrainer(plain(), TrainerOptions(**options))


def test_examples_must_fit():
    trainer = NnetTrainer(plain(), TrainerOptions())
    with pytest.raises(ShapeError, match="mismatch for 'output': 4 .nnet. vs. 5 .egs."):
        trainer.train(dense_example(out_dim=5))
    with pytest.raises(ShapeError, match="Num-cols mismatch for input 'input'"):
        trainer.train(dense_example(in_dim=2))
    eg = dense_example()
    eg.io[0].features = to_dense(eg.io[0].features)[:-1]
    with pytest.raises(ShapeError, match="Num-rows mismatch for input 'input'"):
        trainer.train(eg)
    before = weights_of(trainer.nnet)
    trainer.train(dense_example())     # and it can go on
    assert np.abs(weights_of(trainer.nnet) - before).max() > 0


@pytest.mark.parametrize("io", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_do_not_reach_the_model(io, value):
    trainer = NnetTrainer(plain(), TrainerOptions())
    before = weights_of(trainer.nnet)
    eg = dense_example()
    to_dense(eg.io[io].features)[2, 1] = value
    with pytest.raises(NumericError, match=r"row 2, column 1"):
        trainer.train(eg)
    np.testing.assert_array_equal(weights_of(trainer.nnet), before)


def test_number_of_sequences():
    assert num_sequences(dense_example(5).io) == 5
    eg = dense_example(5)
    eg.io[1] = dense_example(4).io[1]
    with pytest.raises(Nnet3Error, match="different numbers of sequences.*'input': 5, 'output': 4"):
        num_sequences(eg.io)


def test_totals_without_weight(caplog):
    caplog.set_level(logging.INFO)
    trainer = NnetTrainer(plain(objective="linear"), TrainerOptions())
    assert not trainer.log_totals() and caplog.messages == []
    eg = dense_example()
    to_dense(eg.io[1].features)[:] = 0
    trainer.train(eg)
    assert not trainer.log_totals()
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("nnet3py.training")]
    assert messages[0] == "Overall average objective function for 'output' is nan over 0 frames."
