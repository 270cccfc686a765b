"""nnet3py/training/class_outputs.py: classes train log-probabilities, and nothing else."""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from test_train import CLASSIFIER, points

import nnet3py
from nnet3py.errors import UsageError
from nnet3py.formats.holders import FLOAT_MATRIX, INT_VECTOR
from nnet3py.io.tables import TableWriter
from nnet3py.network.nnet import Nnet
from nnet3py.training.class_outputs import check_class_output

OPEN = CLASSIFIER.replace("output-node name=output input=l", "output-node name=output input=b")


@pytest.mark.parametrize("classes", [list, lambda classes: classes.astype(np.int8), lambda classes: classes == 1])
def test_train_refuses_an_output_without_log_softmax(classes) -> None:
    nnet, (feats, labels) = Nnet.from_config(OPEN), points(64, 0)
    before = nnet.squares()
    with pytest.raises(UsageError, match="the targets are classes, for which 'output' must be log-probabilities: "
                                         "expected a log-softmax at its end, found a NaturalGradientAffineComponent "
                                         "in 'b'.*add a LogSoftmaxComponent dim=2"):
        nnet3py.train(nnet, feats, classes(labels))
    assert np.array_equal(nnet.squares(), before)
    for data in ([(feats, labels)], {"a": (feats, labels)}, iter([(feats, labels)])):
        with pytest.raises(UsageError, match="log-softmax"):
            nnet3py.train(nnet, data)


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    feats, labels = points(64, 0)
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as matrices, TableWriter("ark:ali.ark", INT_VECTOR) as alignments:
        matrices.write("utt", feats)
        alignments.write("utt", labels.astype(np.int32))
    assert len(nnet3py.train(Nnet.from_config(CLASSIFIER), ("ark:feats.ark", "ark:ali.ark"))) == 1
    with pytest.raises(UsageError, match="log-softmax"):
        nnet3py.train(Nnet.from_config(OPEN), ("ark:feats.ark", "ark:ali.ark"))


def test_other_targets_and_objectives_stay_as_they_are() -> None:
    feats, labels = points(64, 0)
    dense = np.eye(2, dtype=np.float32)[labels]
    nnet3py.train(Nnet.from_config(OPEN), feats, dense)
    quadratic = Nnet.from_config(OPEN.replace("output input=b", "output input=b objective=quadratic"))
    assert nnet3py.train(quadratic, feats, labels)["objective"][-1] < 0.0


@pytest.mark.parametrize("end", [
    "output-node name=output input=Sum(l, Const(1.0, 2))",
    "output-node name=output input=Scale(0.5, Offset(l, 1))",
    "component name=f type=FixedBiasComponent dim=2\ncomponent-node name=f component=f input=l\n"
    "output-node name=output input=f",
    "component name=s type=ScaleAndOffsetComponent dim=2\ncomponent-node name=s component=s input=Sum(b, l)\n"
    "output-node name=output input=s",
    "dim-range-node name=d input-node=l dim=1 dim-offset=0\noutput-node name=output input=d",
    "component name=c type=CompositeComponent num-components=2 component1='type=NoOpComponent dim=2' "
    "component2='type=LogSoftmaxComponent dim=2'\ncomponent-node name=c component=c input=b\n"
    "output-node name=output input=c"])
def test_what_leads_to_a_log_softmax_passes(end: str) -> None:
    check_class_output(Nnet.from_config(CLASSIFIER.replace("output-node name=output input=l", end)))


@pytest.mark.parametrize(("end", "message"), [
    ("component name=f type=NoOpComponent dim=2\ncomponent-node name=f component=f input=b\n"
     "output-node name=output input=f", "found a NaturalGradientAffineComponent in 'b'. The"),
    ("component name=f type=SoftmaxComponent dim=2\ncomponent-node name=f component=f input=b\n"
     "output-node name=output input=f", "found a SoftmaxComponent in 'f'. The"),
    ("output-node name=output input=Sum(Sum(b, b), input)", "found a NaturalGradientAffineComponent in 'b'. The"),
    ("output-node name=output input=input", "found none. The")])
def test_what_does_not_is_named(end: str, message: str) -> None:
    nnet = Nnet.from_config(CLASSIFIER.replace("output-node name=output input=l", end))
    with pytest.raises(UsageError, match=message):
        check_class_output(nnet)


def test_a_component_of_one_s_own_passes() -> None:
    @nnet3py.register_component
    class LogSigmoidOfTheTestComponent(nnet3py.FunctionComponent):
        @staticmethod
        def function(x: float) -> float:
            return -math.log(1.0 + math.exp(-x))

        @staticmethod
        def derivative(x: float, y: float) -> float:
            return 1.0 / (1.0 + math.exp(x))

    check_class_output(Nnet.from_config(CLASSIFIER.replace("type=LogSoftmaxComponent",
                                                           "type=LogSigmoidOfTheTestComponent")))
