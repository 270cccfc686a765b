"""nnet3py/inspection/summary.py: the table of a network's nodes."""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from runtime_cases import LSTM, TDNN
from test_train import CLASSIFIER, points
from test_whole_model import COMPOSITE, updatable

import nnet3py
from nnet3py.errors import UsageError
from nnet3py.inspection.summary import Row
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_learning_rate

WITH_OFFSETS = """
input-node name=input dim=3
component name=a type=TdnnComponent input-dim=3 output-dim=4 time-offsets=-1,0,2
component name=r type=RectifiedLinearComponent dim=4
component-node name=a component=a input=input
component-node name=r1 component=r input=a
output-node name=output input=r1
"""


def test_the_table() -> None:
    lines = str(nnet3py.summary(Nnet.from_config(TDNN))).splitlines()
    assert lines[0].split() == ["node", "type", "takes", "input", "output", "parameters"]
    assert lines[2] == "a       Affine      input (−1, 0, +2)      9       5          50"
    assert lines[3] == "t       Tanh        a                      5       5"
    assert len(lines) == 10
    assert lines[-1] == "130 parameters in 3 of 6 components; context 5 frames left, 3 right"


def test_rows_are_data() -> None:
    shown = Nnet.from_config(LSTM).summary()
    assert shown.rows == (
        Row("input", "input", "", 0, 3, 0), Row("gates", "Affine", "input, m (−1)", 5, 8, 48),
        Row("cell", "LstmNonlinearity", "gates, c (−1)", 10, 4, 6), Row("c", "range", "cell", 4, 2, 0),
        Row("m", "range", "cell", 4, 2, 0), Row("out", "Affine", "m", 2, 3, 9), Row("output", "output", "out", 3, 3, 0))
    assert shown.headline == "63 parameters in 3 of 3 components; context 0 frames left, 0 right; recurrent"
    assert repr(shown) == str(shown)


def test_a_component_s_own_offsets_and_one_that_works_twice() -> None:
    rows = Nnet.from_config(WITH_OFFSETS).summary().rows
    assert rows[1].takes == "input at −1, 0, +2" and rows[1].num_parameters == 3 * 3 * 4 + 4
    twice = Nnet.from_config(TDNN + "component-node name=again component=c input=Append(s, s)\n"
                                    "output-node name=more input=again\n").summary().rows
    assert [row.num_parameters for row in twice if row.node in ("c", "again")] == [36, 0]


def values(nnet: Nnet, name: str, key: str) -> np.ndarray:
    return updatable(nnet, name).parameters()[key]


@pytest.mark.parametrize("config", [CLASSIFIER, COMPOSITE])
def test_copies_and_files_are_the_same(config: str, tmp_path: Path) -> None:
    nnet = Nnet.from_config(config)
    nnet.write(tmp_path / "a.raw")
    read = nnet3py.read_nnet(tmp_path / "a.raw")
    set_learning_rate(read, 0.5)
    for other in (nnet, nnet.copy(), read):
        assert nnet == other and not nnet != other
        assert nnet3py.compare(nnet, other).same
    comparison = nnet3py.compare(tmp_path / "a.raw", nnet)
    assert str(comparison).startswith("0 of ") and str(comparison).endswith("components differ; the nodes are the same")
    assert nnet != Nnet.from_config(config, seed=1) and nnet != 3 and nnet is not None
    assert len({nnet, nnet.copy()}) == 2


def test_how_much_parameters_differ() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    values(nnet, "a", "linear_params")[1, 1] = 2.0
    other = nnet.copy()
    values(other, "a", "linear_params")[1, 1] = 2.5
    values(nnet, "a", "bias_params")[3], values(other, "a", "bias_params")[3] = 0.25, -0.125
    assert nnet != other
    comparison = nnet3py.compare(nnet, other)
    only, = comparison.different
    assert (only.name, only.difference, only.array) == ("a", "numbers", "linear_params")
    assert (only.absolute, only.relative) == (0.5, 1.5)
    heading, *lines = str(comparison).splitlines()
    assert heading.split() == ["component", "difference", "largest", "relative"] and repr(comparison) == str(comparison)
    assert lines[0].split() == ["a", "numbers", "in", "linear_params", "0.5", "1.5"]
    assert lines[1] == "1 of 5 components differ; the nodes are the same"
    values(other, "a", "bias_params")[3] = np.nan
    assert nnet3py.compare(nnet, other).different[0].absolute == math.inf
    values(nnet, "a", "bias_params")[3] = np.nan
    assert nnet3py.compare(nnet, other).different[0].absolute == 0.5


def test_statistics_of_batch_normalization_count() -> None:
    nnet = Nnet.from_config(CLASSIFIER)
    other = nnet.copy()
    nnet3py.freeze(other, "*")
    nnet3py.train(other, points(64, 0), learning_rate=0.1)
    assert nnet != other and [each.name for each in nnet3py.compare(nnet, other).different] == ["n"]
    nnet3py.set_batchnorm_test_mode(nnet, True)
    assert [each.name for each in nnet3py.compare(nnet, other).different] == ["n"]


def test_other_forms_and_components_of_one_network_only() -> None:
    nnet, other = Nnet.from_config(CLASSIFIER), Nnet.from_config(
        CLASSIFIER.replace("8", "4").replace("name=r type", "name=q type").replace("component=r", "component=q"))
    comparison = nnet3py.compare(nnet, other)
    assert {each.name: each.difference for each in comparison.different} == {
        "a": "form", "r": "only in the first", "n": "form", "b": "form", "q": "only in the second"}
    assert not comparison.same_nodes and str(comparison).endswith("5 of 6 components differ; the nodes differ")
    with pytest.raises(UsageError, match="expected a network or an acoustic model, found int"):
        nnet3py.compare(nnet, 3)      # type: ignore[arg-type]


def test_settings_and_fixed_numbers_count() -> None:
    end = "component name=f type={}\ncomponent-node name=f component=f input=l\noutput-node name=output input=f"
    plain, turned, constant, dropout = (
        Nnet.from_config(CLASSIFIER.replace("output-node name=output input=l", end.format(kind)))
        for kind in ("PermuteComponent column-map=0,1", "PermuteComponent column-map=1,0", "FixedBiasComponent dim=2",
                     "DropoutComponent dim=2 dropout-proportion=0.5"))
    assert plain != turned and nnet3py.compare(plain, turned).different[0].difference == "form"
    assert nnet3py.compare(plain, dropout).different[0].difference == "form"
    other = constant.copy()
    other["f"].vector[1] += 1.0
    assert constant != other and nnet3py.compare(constant, other).different[0].array == "vector"


@pytest.mark.parametrize("sample", ["convolution", "tdnn"])
def test_offsets_count(sample: str) -> None:
    end = "component-node name=f component=f input=input\noutput-node name=output input=f"
    line, other = {
        "convolution": ("TimeHeightConvolutionComponent num-filters-in=1 num-filters-out=1 height-in=2 height-out=2 "
                        "height-offsets=0 time-offsets=-1,0 required-time-offsets=0", "-1,0"),
        "tdnn": ("TdnnComponent input-dim=2 output-dim=2 time-offsets=-1,0", "-1,0")}[sample]
    first, second = (Nnet.from_config(f"input-node name=input dim=2\ncomponent name=f type={text}\n{end}")
                     for text in (line, line.replace(other, "0,1")))
    assert first == first.copy() and first != second
    assert nnet3py.compare(first, second).different[0].difference == "form"
