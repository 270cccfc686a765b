"""xconfig files: Kaldi's own expansions byte for byte, lines, input expressions, and what is said about wrong ones."""
from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import DATA, shared_golden
from xconfig_layers import LAYERS, xconfig

from nnet3py.errors import ConfigError
from nnet3py.network.nnet import Nnet
from nnet3py.xconfig import existing_nodes, expand
from nnet3py.xconfig.line import XconfigLine, parse_xconfig

NETWORKS = ["blstm", "cnn-tdnn", "lstm", "tdnn", "tdnnf", "xvector"]
DAMAGES = 300      # of each file
DEBRIS = ["-1", "0", "99999999", "(", "x", "\n", '"', "1e300"]
TOP = "input name=ivector dim=4\ninput name=input dim=8\nrelu-layer name=a dim=6\ntanh-layer name=b-1.x dim=6\n"


def recorded(name: str, folder: Path) -> None:
    expansion = expand((folder / name / "network.xconfig").read_text())
    init = folder / name / "init.config"
    assert expansion.init == (init.read_text() if init.exists() else None)
    assert expansion.ref == (folder / name / "ref.config").read_text()
    assert expansion.final == (folder / name / "final.config").read_text()
    assert expansion.with_options == (folder / name / "xconfig.expanded.1").read_text()
    assert expansion.normalized == (folder / name / "xconfig.expanded.2").read_text()
    for path, content in expansion.files.items():
        assert content == (folder / path).read_text()


@pytest.mark.parametrize("name", NETWORKS)
def test_expansions_are_kaldis_byte_for_byte(name):
    recorded(name, DATA / "xconfig")


def test_every_recorded_network_is_tested():
    folder = shared_golden() / "xconfig"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert names == NETWORKS
    for name in names:
        recorded(name, folder)


def test_only_the_inverse_cosine_transform_makes_a_file():
    made = {name: list(expand((DATA / "xconfig" / name / "network.xconfig").read_text()).files) for name in NETWORKS}
    assert made == {**dict.fromkeys(NETWORKS, []), "tdnnf": ["idct.mat"]}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_normalized_xconfig_expands_to_the_same(name):
    first = expand((DATA / "xconfig" / name / "network.xconfig").read_text())
    lines = [line for line in first.normalized.splitlines() if not line.startswith("conv-")]
    if len(lines) == len(first.layers):      # a convolution's num-filters-in is shown, but cannot be given
        assert expand(first.normalized).final == first.final


def test_a_line_is_a_type_a_name_and_pairs():
    line = XconfigLine(' affine-layer  name=x_1 input=Append(a, b)  ng-affine-options=" a=1  b=2 " l2= dim=3 ')
    assert (line.type, line.name) == ("affine-layer", "x_1")
    assert line.values == {"input": "Append(a, b)", "ng-affine-options": " a=1  b=2 ", "l2": "", "dim": "3"}


def test_comments_and_blank_lines_go():
    lines = parse_xconfig("# all of it\n\n  input name=a dim=1 # dim=2 'x'\n\t\ninput name=b dim=3\r\n", "x.xconfig")
    assert [(line.name, line.number, line.values) for line in lines] == [("a", 3, {"dim": "1"}), ("b", 5, {"dim": "3"})]


@pytest.mark.parametrize(("line", "message"), [
    ("relu-layer dim=3", "name= is missing"),
    ("relu-layer name=1a dim=3", "'1a' cannot be the name of a layer"),
    ("relu-layer name=a(b) dim=3", r"'a\(b\)' cannot be the name of a layer"),
    ("relu-layer name=x dim=3 dim=4", "dim= is given twice"),
    ("relu-layer name=x name=y dim=3", "name= is given twice"),
    ("relu-layer name=x ng-affine-options='a=1'", "the character \"'\" cannot stand .*only double quotes"),
    ("relu-layer name=x input=[-1]", r"the character '\[' cannot stand .*bare frame offset"),
    ("relu-layer name=x dim=3 [", r"the character '\[' cannot stand"),
    ("relu-layer name=x ü", "the character 'ü' cannot stand"),
    ('relu-layer name=x ng-affine-options="a=1', "has no partner"),
    ("relu-layer name=x ng-affine-options=a=1", r"a second '=' in ng-affine-options=a=1.*double quotes"),
    ("relu-layer x name=x", "expected key=value after the layer type, found 'x'"),
    ("relu-layer", "name= is missing"),
    ("Relu-layer name=x", "expected a layer type such as relu-batchnorm-layer, found 'Relu-layer'"),
    ("relu-batchnrom-layer name=x", "no layer type 'relu-batchnrom-layer'.*did you mean 'relu-batchnorm-layer'"),
    ("relu-layer name=x dmi=3", "relu-layer has no option dmi=.*did you mean 'dim'"),
    ("relu-layer name=x zzz=3", "relu-layer has no option zzz=.*it has add-log-stddev, bias-stddev"),
    ("relu-layer name=x dim=3.5", "dim= must be an integer, found '3.5'"),
    ("relu-layer name=x dim=", "dim= must be an integer, found ''"),
    ("relu-layer name=x dim=1_0", "dim= must be an integer"),
    ("relu-layer name=x dim=99999999999999", "dim= must be an integer"),
    ("relu-layer name=x target-rms=1_0", "target-rms= must be a number"),
    ("relu-layer name=x target-rms=nan", "target-rms= must be a number, found 'nan'"),
    ("relu-renorm-layer name=x add-log-stddev=yes", "add-log-stddev= must be true or false, found 'yes'"),
    ("relu-layer name=a", "there is a layer 'a' already"),
    ("relu-layer name=x input=zz", "there is no layer 'zz'"),
    ("relu-layer name=x input=ivecto", "there is no layer 'ivecto'.*did you mean 'ivector'"),
    ("relu-layer name=x input=x", "layer 'x' comes only with this line.*lines before it"),
    ("relu-layer name=x input=later", "layer 'later' comes only later"),
    ("relu-layer name=x input=a.b", r"layer 'a' \(relu-layer\) has no output 'b'.*only its main output"),
    ("output-layer name=x input=output", "'output' is an output of the network.*take output.affine or output.log"),
    ("relu-layer name=x input=output.log", "has no output 'log'.*it has affine, log-softmax"),
    ("relu-layer name=x input=Sum(a, input)", r"is Sum\(\) of unequal dimensions: 6, 8"),
    ("relu-layer name=x input=Apend(a, a)", r"there is no operator Apend\(\).*did you mean 'Append'"),
    ("relu-layer name=x input=Append(a", r"expected '\)', but it ends"),
    ("relu-layer name=x input=Append()", "expected a layer or a whole number of frames, found '\\)'"),
    ("relu-layer name=x input=a b", "it goes on with 'b' where it should end"),
    ("relu-layer name=x input=", "expected a layer, but it ends"),
    ("relu-layer name=x input=a/b", "found '/b'"),
    ("relu-layer name=x input=1.5", "expected a layer or a whole number of frames, found '1.5'"),
    ("relu-layer name=x input=a@b", "expected an integer, found 'b'"),
    ("relu-layer name=x input=Offset(a)", r"Offset\(\) has 1 of 2 arguments"),
    ("relu-layer name=x input=Offset(a, 1, 2, 3)", r"Offset\(\) has more than 3 arguments"),
    ("relu-layer name=x input=Failover(a)", r"Failover\(\) has 1 of 2 arguments"),
    ("relu-layer name=x input=IfDefined(a, a)", r"IfDefined\(\) has more than 1 arguments"),
    ("relu-layer name=x input=ReplaceIndex(a, n, 0)", "expected x or t, found 'n'"),
    ("relu-layer name=x input=Scale(a, a)", "expected a number, found 'a'"),
    ("relu-layer name=x input=" + "Sum(" * 5000 + "a" + ")" * 5000, "nested more than 50 deep"),
])
def test_wrong_lines_are_refused_with_their_place(line, message):
    text = f"{TOP}output-layer name=output dim=3\n{line}\nrelu-layer name=later\n"
    with pytest.raises(ConfigError, match=message) as error:
        expand(text, "net.xconfig")
    assert "[net.xconfig, line 6]" in error.value.message


@pytest.mark.parametrize(("line", "message"), [
    ("relu-layer name=x", "there is no layer before it"),
    ("input name=x", "input needs dim="),
    ("input name=x dim=0", "dim= must be above zero, found 0"),
])
def test_first_lines(line, message):
    with pytest.raises(ConfigError, match=message):
        expand(f"{line}\noutput name=output")


@pytest.mark.parametrize("text", ["", "input name=input dim=3\nrelu-layer name=a"])
def test_a_network_needs_an_output(text):
    with pytest.raises(ConfigError, match="no layer of the xconfig is an output"):
        expand(text)


@pytest.mark.parametrize(("text", "normal", "final", "dim"), [
    ("0", "b-1.x", "b-1.x.tanh", 6),
    ("-3", "Offset(b-1.x, -3)", "Offset(b-1.x.tanh, -3)", 6),
    ("a", "a", "a.relu", 6),
    ("a@2", "Offset(a, 2)", "Offset(a.relu, 2)", 6),
    ("a@0", "a", "a.relu", 6),
    ("Append(-1,0, a@+1 ,input)", "Append(Offset(b-1.x, -1), b-1.x, Offset(a, 1), input)",
     "Append(Offset(b-1.x.tanh, -1), b-1.x.tanh, Offset(a.relu, 1), input)", 26),
    ("Append(a)", "Append(a)", "Append(a.relu)", 6),
    ("Sum(a, 0)", "Sum(a, b-1.x)", "Sum(a.relu, b-1.x.tanh)", 6),
    ("Switch(a, 0, a)", "Switch(a, b-1.x, a)", "Switch(a.relu, b-1.x.tanh, a.relu)", 6),
    ("Failover(a, Const(0, 6))", "Failover(a, Const(0.0, 6))", "Failover(a.relu, Const(0.0, 6))", 6),
    ("IfDefined(-1)", "IfDefined(Offset(b-1.x, -1))", "IfDefined(Offset(b-1.x.tanh, -1))", 6),
    ("Offset(a, 0)", "Offset(a, 0)", "Offset(a.relu, 0)", 6),
    ("Offset(a,1,2)", "Offset(a, 1, 2)", "Offset(a.relu, 1, 2)", 6),
    ("Round(a, 3)", "Round(a, 3)", "Round(a.relu, 3)", 6),
    ("ReplaceIndex(ivector, t, 0)", "ReplaceIndex(ivector, t, 0)", "ReplaceIndex(ivector, t, 0)", 4),
    ("Scale(2, a)", "Scale(2.0, a)", "Scale(2.0, a.relu)", 6),
    ("Scale(-1e-3, a)", "Scale(-0.001, a)", "Scale(-0.001, a.relu)", 6),
])
def test_input_expressions(text, normal, final, dim):
    expansion = expand(f"{TOP}no-op-component name=x input={text}\noutput name=output")
    layer = expansion.layers[-2]
    assert f"no-op-component name=x input={normal}\n" in expansion.normalized
    assert f"no-op-component name=x input={text}\n" in expansion.with_options
    assert (layer.input, layer.input_dim) == (final, dim)


def test_layers_whose_output_is_an_expression():
    expansion = expand("input name=input dim=4\nstats-layer name=s config=mean(-2:1:2:2)\nno-op-component name=n "
                       "input=Append(s, s@2)\noutput name=output")
    assert expansion.layers[2].input == "Append(Round(s-pooling-2-2, 2), Offset(Round(s-pooling-2-2, 2), 2))"


def test_a_residual_block_that_changes_nothing_has_no_convolution_around_it():
    for options, changes in (("height=6 num-filters=4", False), ("height=6 num-filters=5", True),
                             ("height-in=6 height-out=3 num-filters=4 time-period=2", True)):
        assert ("conv_bypass" in expand(xconfig("res2-block", options)).ref) is changes


@pytest.mark.parametrize("type", ["res-block", "res2-block"])
def test_only_the_last_convolution_of_a_bottleneck_has_all_filters(type):
    expanded = expand(xconfig(type, "height=6 num-filters=4 num-bottleneck-filters=2")).ref
    assert re.findall(r"name=layer.conv(\d) .* num-filters-in=(\d) num-filters-out=(\d)", expanded) == [
        ("1", "4", "2"), ("2", "2", "2"), ("3", "2", "4")]


def parts_of(type: str, options: str) -> dict[str, str]:
    """What the lines of a layer's components and nodes say of each: type and settings, and the input behind an arrow.

    Without the settings that end a line by themselves: learning rates, sizes of changes, self-repair.
    """
    parts: dict[str, str] = {}
    lines = re.findall(r"^component(?:-node)? name=layer\.(\S+) +(?:type=(.*)|component=\S+ input=(.*))$",
                       expand(xconfig(type, options)).ref, re.MULTILINE)
    for name, settings, source in lines:
        said = re.sub(r" (max-change|self-repair-[a-z-]+|learning-rate-factor)=\S+", "", settings).split()
        parts[name] = parts.get(name, "") + " ".join(said) + (f" <- {source.replace('layer.', '')}" if source else "")
    return parts


@pytest.mark.parametrize(("options", "first", "second", "scale", "dropout"), [
    ("", "-1,0", "0,1", "0.66", ""), ("time-stride=3", "-3,0", "0,3", "0.66", ""),
    ("time-stride=0", "0", "0", "0.66", ""),
    ("context=left-only time-stride=2 dropout-proportion=0.0", "-2,0", "0", "0.66", "0.0"),
    ("context=shift-left bypass-scale=-0.5", "-1,0", "-1,0", "-0.5", ""),
    ("context=none bypass-scale=0 dropout-proportion=0.2", "0", "0", "", "0.2")])
def test_parts_of_a_factored_layer(options, first, second, scale, dropout):
    expected = {
        "linear": "TdnnComponent input-dim=24 output-dim=4 l2-regularize=0.1 use-bias=false "
                  f"time-offsets={first} orthonormal-constraint=-1.0 <- first",
        "affine": f"TdnnComponent input-dim=4 output-dim=24 l2-regularize=0.1 time-offsets={second} <- linear",
        "relu": "RectifiedLinearComponent dim=24 <- affine", "batchnorm": "BatchNormComponent dim=24 <- relu"}
    if dropout:
        expected["dropout"] = ("GeneralDropoutComponent dim=24 "
                               f"dropout-proportion={dropout} continuous=true <- batchnorm")
    last = "dropout" if dropout else "batchnorm"
    if scale:
        expected["noop"] = f"NoOpComponent dim=24 <- Sum(Scale({scale}, first), {last})"
        last = "noop"
    whole = f"dim=24 bottleneck-dim=4 l2-regularize=0.1 {options}"
    assert parts_of("tdnnf-layer", whole) == expected
    assert f"output-node name=output input=layer.{last} " in expand(xconfig("tdnnf-layer", whole)).ref


@pytest.mark.parametrize(("options", "projected", "attention", "dim"), [
    ("", 15, "num-left-inputs-required=-1 num-right-inputs-required=-1 output-context=True time-stride=1 num-heads=1 "
     "key-scale=0.5", 7),
    ("num-heads=3 output-context=false key-scale=0.1 time-stride=2 num-left-inputs-required=2", 45,
     "num-left-inputs-required=2 num-right-inputs-required=-1 output-context=False time-stride=2 num-heads=3 "
     "key-scale=0.1", 9)])
def test_parts_of_an_attention_layer(options, projected, attention, dim):
    """For each head two keys of 4 columns, a value of 3, and one column for each of the four frames."""
    given = "value-dim=3 key-dim=4 num-left-inputs=2 num-right-inputs=1"
    assert parts_of("attention-relu-batchnorm-layer", f"{given} {options} target-rms=0.5") == {
        "affine": f"NaturalGradientAffineComponent input-dim=24 output-dim={projected} <- first",
        "attention": f"RestrictedAttentionComponent {given} {attention} <- affine",
        "relu": f"RectifiedLinearComponent dim={dim} <- attention",
        "batchnorm": f"BatchNormComponent dim={dim} target-rms=0.5 <- relu"}


@pytest.mark.parametrize(("config", "variance", "columns", "left", "right", "counts", "period"), [
    ("mean(-9:1:3:6)", "false", 25, 9, 6, 0, 3), ("mean+stddev(-4:1:2:4)", "true", 49, 4, 4, 0, 2),
    ("mean+count(0:1:1:10)", "false", 25, 0, 10, 1, 1)])
def test_parts_of_a_layer_of_statistics(config, variance, columns, left, right, counts, period):
    text = expand(xconfig("stats-layer", f"config={config}")).ref
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("component name=layer", "output-node"))] == [
        f"component name=layer-extraction-{left}-{right} type=StatisticsExtractionComponent input-dim=24 "
        f"input-period=1 output-period={period} include-variance={variance}",
        f"component name=layer-pooling-{left}-{right} type=StatisticsPoolingComponent input-dim={columns} "
        f"input-period={period} left-context={left} right-context={right} num-log-count-features={counts} "
        f"output-stddevs={variance}",
        f"output-node name=output input=Round(layer-pooling-{left}-{right}, {period}) objective=linear"]


@pytest.mark.parametrize(("options", "heights", "times", "required", "output"), [
    ("height=6", "-1,0,1", "-1,0,1", " required-time-offsets=0", "noop"),
    ("height=6 bypass-source=input allow-zero-padding=false", "-1,0,1", "-1,0,1", "", "Sum(conv2, first)"),
    ("height=6 bypass-source=relu height-period=2", "-2,0,2", "-1,0,1", " required-time-offsets=0",
     "Sum(conv2, relu1)"),
    ("height=6 bypass-source=batchnorm time-period=3", "-1,0,1", "-3,0,3", " required-time-offsets=0",
     "Sum(conv2, batchnorm1)")])
def test_parts_of_a_residual_block(options, heights, times, required, output):
    convolution = (f"TimeHeightConvolutionComponent height-in=6 height-out=6 height-offsets={heights} "
                   f"time-offsets={times} num-filters-in=4 num-filters-out=4{required}")
    expected = {}
    for number, source in (("1", "first"), ("2", "conv1")):
        expected |= {f"relu{number}": f"RectifiedLinearComponent dim=24 block-dim=4 <- {source}",
                     f"batchnorm{number}": f"BatchNormComponent dim=24 block-dim=4 <- relu{number}",
                     f"conv{number}": f"{convolution} <- batchnorm{number}"}
    if output == "noop":
        expected["noop"] = "NoOpComponent dim=24 <- Sum(first, conv2)"
    assert parts_of("res-block", options) == expected
    shown = re.search("output-node name=output input=(.*) objective", expand(xconfig("res-block", options)).ref)
    assert shown is not None and shown[1].replace("layer.", "") == output


def test_parts_of_basic_layers_and_outputs():
    assert parts_of("relu-renorm-layer", "dim=8 add-log-stddev=true target-rms=0.5 bottleneck-dim=4 "
                    "input=Append(-1,0,2)") == {
        "linear": "LinearComponent input-dim=72 orthonormal-constraint=1.0 output-dim=4 <- "
                  "Append(Offset(first, -1), first, Offset(first, 2))",
        "affine": "NaturalGradientAffineComponent input-dim=4 output-dim=7 <- linear",
        "relu": "RectifiedLinearComponent dim=7 <- affine",
        "renorm": "NormalizeComponent dim=7 target-rms=0.5 add-log-stddev=true <- relu"}
    affine = {"affine": "NaturalGradientAffineComponent input-dim=24 output-dim=24 bias-stddev=0.1 l2-regularize=0.2 "
              "<- first", "relu": "RectifiedLinearComponent dim=24 <- affine",
              "batchnorm": "BatchNormComponent dim=24 target-rms=1.0 <- relu"}
    for option, dropout in (("", "DropoutComponent dim=24 dropout-proportion=0.5"),
                            ("dropout-per-dim=true", "GeneralDropoutComponent dim=24 dropout-proportion=0.5"),
                            ("dropout-per-dim-continuous=true",
                             "GeneralDropoutComponent dim=24 dropout-proportion=0.5 continuous=true")):
        assert parts_of("relu-batchnorm-dropout-layer", f"bias-stddev=0.1 l2-regularize=0.2 {option}") == {
            **affine, "dropout": f"{dropout} <- batchnorm"}
    assert parts_of("relu-batchnorm-so-layer", "dim=5")["so"] == "ScaleAndOffsetComponent dim=5 <- batchnorm"
    text = expand(xconfig("output-layer", "dim=9 bottleneck-dim=4 include-log-softmax=false output-delay=-1 "
                          "objective-type=quadratic orthonormal-constraint=2.0 input=Append(0,1,2,3,4,5)")).ref
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("component name=output", "output-node"))] == [
        "component name=output.linear type=LinearComponent orthonormal-constraint=2.0 "
        f"param-stddev={2.0 / 12.0} input-dim=144 output-dim=4 max-change=0.75 max-change=1.5",
        "component name=output.affine type=NaturalGradientAffineComponent input-dim=4 output-dim=9 max-change=1.5 "
        "param-stddev=0.0 bias-stddev=0.0",
        "output-node name=output input=Offset(output.affine, -1) objective=quadratic"]


def test_the_bottleneck_of_lstmb_is_orthonormal_by_default():
    text = expand(xconfig("lstmb-layer", "cell-dim=6 bottleneck-dim=4")).ref
    assert "type=LinearComponent" in text and re.search(r"W_all_a .*orthonormal-constraint=1\.0 ", text)


@pytest.mark.parametrize(("type", "options", "message"), [
    ("output", "objective-type=squared", "objective-type= must be linear or quadratic"),
    ("output-layer", "orthonormal-constraint=0.0", "orthonormal-constraint= must be above zero"),
    ("relu-layer", "dropout-proportion=1.5", "dropout-proportion= must be 0 or more, 1 at most, found 1.5"),
    ("relu-layer", "dim=5 bottleneck-dim=5", "bottleneck-dim= must be above zero and below .* 5, found 5"),
    ("relu-renorm-layer", "dim=1 add-log-stddev=true", "there is only one"),
    ("fixed-affine-layer", "", "fixed-affine-layer needs affine-transform-file="),
    ("idct-layer", "", "idct-layer needs affine-transform-file="),
    ("idct-layer", "affine-transform-file=x dim=5000", "more than 2000 dimensions"),
    ("spec-augment-layer", "freq-max-proportion=1.0", "above zero and below one, found 1.0"),
    ("batchnorm-component", "target-rms=0.0", "target-rms= must be above zero"),
    ("dim-range-component", "dim=20 dim-offset=5", "columns 5 to 24 are not among the input's 24"),
    ("dim-range-component", "input=Append(0, -1)", "the input must be one layer.*no-op-component"),
    ("delta-layer", "input=Append(0, -1)", "the input must be one layer.*no-op-component"),
    ("combine-feature-maps-layer", "num-filters1=2 num-filters2=2", "needs height="),
    ("combine-feature-maps-layer", "num-filters1=2 num-filters2=2 height=5", r"height 5 times 2 \+ 2 \+ 0 filters"),
    ("channel-average-layer", "dim=7", "24 is not a multiple of dim=7"),
    ("tdnnf-layer", "dim=24", "tdnnf-layer needs bottleneck-dim="),
    ("tdnnf-layer", "dim=24 bottleneck-dim=24", "must be below dim=24"),
    ("tdnnf-layer", "dim=20 bottleneck-dim=4", "24 columns to an output of 20.*bypass-scale=0.0"),
    ("tdnnf-layer", "dim=24 bottleneck-dim=4 bypass-scale=2.0", "bypass-scale= must be -1 or more, 1 at most"),
    ("tdnnf-layer", "dim=24 bottleneck-dim=4 context=left", "context= must be default.*did you mean 'left-only'"),
    ("tdnnf-layer", "dim=24 bottleneck-dim=4 time-stride=-1", "time-stride= must be 0 or more"),
    ("prefinal-layer", "big-dim=4 small-dim=4", "small-dim=4 must be below big-dim=4"),
    ("stats-layer", "", "config= must be such as"),
    ("stats-layer", "config=mean(0:0:1:0)", "a period in config= is zero"),
    ("stats-layer", "config=mean(0:2:3:0)", "3 is not a multiple of the input period 2"),
    ("stats-layer", "config=mean(-4:1:3:3)", "must be multiples of the output period 3"),
    ("stats-layer", "config=mean(-3:1:3:3) dim=5", "dim=5, but the statistics have 24 columns"),
    ("attention-renorm-layer", "key-dim=2 value-dim=2 num-right-inputs=1", "needs num-left-inputs="),
    ("conv-layer", "height-out=6 num-filters-out=2", "conv-layer needs height-in="),
    ("conv-layer", "height-in=7 height-out=6 num-filters-out=2", "24 is not a multiple of height-in=7"),
    ("conv-layer", "height-in=6 height-out=6 num-filters-out=2 time-offsets=0", "height-offsets= must be rising"),
    ("conv-layer", "height-in=6 height-out=6 num-filters-out=2 time-offsets=0 height-offsets=1,0", "found '1,0'"),
    ("conv-layer", "height-in=6 height-out=2 num-filters-out=2 time-offsets=0 height-offsets=-1,0,1",
     "must be from 3 to 6 .*, found 2"),
    ("relu-noconv-layer", "height-in=6 height-out=6 num-filters-out=2", "must be the input's dimension 24, found 12"),
    ("res-block", "", "res-block needs height="),
    ("res-block", "height=6 num-filters=5", "the input has 4 filters, and so must the output, found 5"),
    ("res-block", "height=6 bypass-source=rely", "bypass-source= must be .*did you mean 'relu'"),
    ("res2-block", "num-filters=4", "needs height=, or height-in= and height-out="),
    ("res2-block", "height-in=6 height-out=1 num-filters=4", "or about half of it"),
    ("res2-block", "height-in=6 height-out=3 num-filters=4", "time-period= must be even"),
    ("lstm-layer", "delay=0", "delay= must not be zero"),
    ("lstm-layer", "decay-time=1.0", "decay-time= must be above the delay of 1 frames"),
    ("lstmp-layer", "", "lstmp-layer needs cell-dim="),
    ("lstmp-layer", "cell-dim=3", "which is nothing"),
    ("lstmp-layer", "cell-dim=8 recurrent-projection-dim=5", "together exceed cell-dim=8"),
    ("lstmp-layer", "cell-dim=8 dropout-proportion=-0.5", "from 0 to 1, or -1.0 for none"),
    ("lstmb-layer", "cell-dim=8", "lstmb-layer needs bottleneck-dim="),
    ("norm-opgru-layer", "cell-dim=8 l2-regularize=-1", "l2-regularize= must not be negative"),
    ("gru-layer", "self-repair-scale-nonlinearity=2.0", "1 at most, found 2.0"),
])
def test_values_that_a_layer_cannot_use(type, options, message):
    with pytest.raises(ConfigError, match=message):
        expand(xconfig(type, options), "net.xconfig")


@pytest.mark.parametrize("type", sorted(LAYERS))
def test_options_that_are_numbers_refuse_words(type):
    line = xconfig(type, LAYERS[type][0])
    for key, default in type_options(type).items():
        if not isinstance(default, str) and f"{key}=" not in LAYERS[type][0]:
            with pytest.raises(ConfigError, match=f"{key}= must be"):
                expand(line.replace(f"\n{type} ", f"\n{type} {key}=word "))


def type_options(type: str) -> dict[str, object]:
    from nnet3py.xconfig import layer_class

    return dict(layer_class(type).OPTIONS)


def test_nodes_of_an_existing_network_may_be_inputs():
    nnet = Nnet.from_config(expand(f"{TOP}output-layer name=output dim=3 input=a").ref)
    nodes = existing_nodes(nnet)
    assert ("a.relu", 6) in nodes and ("output", 3) in nodes and ("ivector", 4) in nodes
    expansion = expand("tanh-layer name=c dim=5 input=a.relu@1\noutput-layer name=output dim=7", existing=nodes)
    assert expansion.layers[0].input == "Offset(a.relu, 1)" and "input-node" not in expansion.ref
    nnet.read_config(expansion.ref)
    assert nnet.output_dim("output") == 7


def test_layers_before_are_those_of_the_file_only():
    with pytest.raises(ConfigError, match=r"no layer before it .*name a layer with input="):
        expand("relu-layer name=c dim=5\noutput name=output", existing=[("a", 3)])


@pytest.mark.parametrize("name", NETWORKS)
def test_damaged_files_give_an_error_or_a_network_and_nothing_else(name):
    """Characters and words are exchanged, doubled and dropped; words are also taken from the other lines."""
    text = (DATA / "xconfig" / name / "network.xconfig").read_text()
    rng = random.Random(name)
    refused = 0
    for _ in range(DAMAGES):
        pieces = re.split(r"([\s=,()]|-)", text) if rng.random() < 0.7 else list(text)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(pieces))
            pieces[at] = rng.choice(["", pieces[at] * 2, rng.choice(pieces), *DEBRIS])
        try:
            expand("".join(pieces))
        except ConfigError as error:
            refused += 1
            assert len(str(error)) < 5000
    assert 0.2 * DAMAGES < refused < DAMAGES


def test_expanding_imports_nothing_heavy():
    code = ("import sys; from nnet3py.xconfig import expand; expand(open(sys.argv[1]).read()); "
            "sys.exit('numpy' in sys.modules or 'numba' in sys.modules)")
    path = DATA / "xconfig" / "tdnn" / "network.xconfig"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 0
