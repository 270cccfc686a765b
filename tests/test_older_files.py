"""Older spellings of model files, each by name: they are read, compute, and are written in today's form.

A row of ``OLDER`` has the fields of a component between its tags as an older Kaldi wrote them, and as they are written
today. Fields are tags (str) and values, whose Python type is the type in the file: int, float, ``Double``,
bool, lists (of int32) and arrays (float32 vectors and matrices, int32 pairs). So every row is tried in text and in
binary.
"""
from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from component_cases import written
from component_configs import CONFIGS
from component_forms import make
from paths import DATA

import nnet3py
from nnet3py.components.registry import component_class
from nnet3py.formats.matrices import read_packed, write_matrix, write_packed, write_vector
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet

FORMS = pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])


class Double(float):
    """A number of eight bytes."""


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


NONE = vector()
W, B = np.array([[1, 2], [3, 4]], dtype=np.float32), vector(5, 6)
RATE = ["<LearningRate>", 0.5]
AFFINE = [*RATE, "<LinearParams>", W, "<BiasParams>", B]
NATURAL = [*AFFINE, "<RankIn>", 1, "<RankOut>", 1]
SETTINGS = ["<UpdatePeriod>", 4, "<NumSamplesHistory>", 2000.0, "<Alpha>", 4.0]
ELEMENT_SETTINGS = ["<Rank>", 1, "<UpdatePeriod>", 10, "<NumSamplesHistory>", 2000.0, "<Alpha>", 4.0]
AVERAGES = ["<ValueAvg>", vector(.5, .25), "<DerivAvg>", vector(.25, .125), "<Count>", Double(8)]
NO_AVERAGES = ["<ValueAvg>", NONE, "<DerivAvg>", NONE, "<Count>", Double(0)]
NO_DERIVS = ["<OderivRms>", NONE, "<OderivCount>", Double(0)]
NO_REPAIRS = ["<NumDimsSelfRepaired>", Double(0), "<NumDimsProcessed>", Double(0)]
REPAIRS = ["<NumDimsSelfRepaired>", Double(1), "<NumDimsProcessed>", Double(2)]
DERIVS = ["<OderivRms>", vector(.5, .5), "<OderivCount>", Double(4)]
SCALE = ["<SelfRepairScale>", 2.0 ** -10]
NO_OP = ["<Dim>", 2, "<BackpropScale>", 1.0]
CLIP = ["<Dim>", 2, "<ClippingThreshold>", 15.0, "<NormBasedClipping>", True]
CLIP_NO_REPAIR = ["<SelfRepairClippedProportionThreshold>", 1.0, "<SelfRepairTarget>", 0.0, "<SelfRepairScale>", 0.0]
CLIP_REPAIR = ["<SelfRepairClippedProportionThreshold>", .5, "<SelfRepairTarget>", .25, "<SelfRepairScale>", 1.0]
CLIP_COUNTS = ["<NumElementsClipped>", 3, "<NumElementsProcessed>", 4]
NO_CLIP_COUNTS = ["<NumSelfRepaired>", 0, "<NumBackpropped>", 0]
DROPOUT = ["<Dim>", 2, "<DropoutProportion>", .25]
FUNCTION = ["<InputDim>", 2, "<Output>", B, "<IsUpdatable>", True, "<UseNaturalGradient>", False]
CONSTANT = FUNCTION[2:]
CONVOLUTION = ["<InputXDim>", 2, "<InputYDim>", 1, "<InputZDim>", 1, "<FiltXDim>", 1, "<FiltYDim>", 1, "<FiltXStep>", 1,
               "<FiltYStep>", 1, "<InputVectorization>", 1, "<FilterParams>", W[:1, :1], "<BiasParams>", B[:1]]
TRUNCATION = ["<ClippingThreshold>", 30.0, "<ZeroingThreshold>", 15.0, "<ZeroingInterval>", 20,
              "<RecurrenceInterval>", 1, "<NumElementsClipped>", Double(1), "<NumElementsZeroed>", Double(0),
              "<NumElementsProcessed>", Double(9), "<NumZeroingBoundaries>", Double(2)]
TDNN = [*RATE, "<TimeOffsets>", [0], "<LinearParams>", W, "<BiasParams>", B, "<OrthonormalConstraint>", 0.0,
        "<UseNaturalGradient>", True, "<NumSamplesHistory>", 2000.0]
MODEL = ["<NumFiltersIn>", 1, "<NumFiltersOut>", 1, "<HeightIn>", 2, "<HeightOut>", 2, "<HeightSubsampleOut>", 1,
         "<Offsets>", np.array([[0, 0]], dtype=np.int32), "<RequiredTimeOffsets>", [0], "</ConvolutionModel>"]
MODEL_PARAMS = ["<LinearParams>", W[:1, :1], "<BiasParams>", B[:1], "<MaxMemoryMb>", 200.0,
                "<UseNaturalGradient>", True, "<NumMinibatchesHistory>", 4.0, "<AlphaInOut>", 4.0, 4.0,
                "<RankInOut>", 1, 1]
TODAYS_RATE = ["<LearningRate>", 0.001]
RELU = ["<RectifiedLinearComponent>", "<Dim>", 2, *NO_AVERAGES, *NO_DERIVS, *NO_REPAIRS, "</RectifiedLinearComponent>"]
OLD_RELU = ["<RectifiedLinearComponent>", "<Dim>", 2, *NO_AVERAGES, "</RectifiedLinearComponent>"]
COMPOSITE = ["<MaxRowsProcess>", 64, "<NumComponents>", 1]
NORMALIZE = ["<TargetRms>", 1.0, "<AddLogStddev>", False]
MASKED = ["<Dim>", 2, "<BlockDim>", 2, "<TimePeriod>", 0, "<DropoutProportion>", .5]

Row = tuple[str, str, Sequence[Any], Sequence[Any]]

# name, type, what an older file says between the component's tags, what is written today
OLDER: list[Row] = [
    *(row for kind in ("Sigmoid", "Tanh", "RectifiedLinear", "Softmax", "LogSoftmax") for row in (
        ("no statistics of derivatives", f"{kind}Component",
         ["<Dim>", 2, *AVERAGES, *REPAIRS, *SCALE], ["<Dim>", 2, *AVERAGES, *NO_DERIVS, *REPAIRS, *SCALE]),
        ("nothing about self-repair", f"{kind}Component",
         ["<Dim>", 2, *AVERAGES], ["<Dim>", 2, *AVERAGES, *NO_DERIVS, *NO_REPAIRS]),
        ("no dims processed", f"{kind}Component",
         ["<Dim>", 2, *AVERAGES, *DERIVS, *REPAIRS[:2]],
         ["<Dim>", 2, *AVERAGES, *DERIVS, *REPAIRS[:2], *NO_REPAIRS[2:]]),
        ("a threshold without a scale", f"{kind}Component",
         ["<Dim>", 2, *AVERAGES, "<SelfRepairLowerThreshold>", .125],
         ["<Dim>", 2, *AVERAGES, *NO_DERIVS, *NO_REPAIRS, "<SelfRepairLowerThreshold>", .125]))),
    ("<IsGradient> after the bias", "AffineComponent", [*AFFINE, "<IsGradient>", True],
     ["<IsGradient>", True, *AFFINE]),
    ("<IsGradient> after the bias, not one", "AffineComponent",
     [*AFFINE, "<IsGradient>", False, "<OrthonormalConstraint>", -1.0], [*AFFINE, "<OrthonormalConstraint>", -1.0]),
    ("<MaxChangePerSample>", "NaturalGradientAffineComponent",
     [*NATURAL, *SETTINGS, "<MaxChangePerSample>", .075], [*NATURAL, *SETTINGS]),
    ("<IsGradient> after the settings", "NaturalGradientAffineComponent",
     [*NATURAL, *SETTINGS, "<IsGradient>", True], ["<IsGradient>", True, *NATURAL, *SETTINGS]),
    ("counts of updates", "NaturalGradientAffineComponent",
     [*NATURAL, *SETTINGS, "<UpdateCount>", Double(7), "<ActiveScalingCount>", Double(2), "<MaxChangeScaleStats>",
      Double(1.5)], [*NATURAL, *SETTINGS]),
    ("all of these", "NaturalGradientAffineComponent",
     [*NATURAL, *SETTINGS, "<MaxChangePerSample>", .075, "<IsGradient>", False, "<UpdateCount>", Double(7),
      "<ActiveScalingCount>", Double(2), "<MaxChangeScaleStats>", Double(1.5)], [*NATURAL, *SETTINGS]),
    ("closed by the opening tag", "NaturalGradientAffineComponent",
     [*NATURAL, *SETTINGS, "<NaturalGradientAffineComponent>"], [*NATURAL, *SETTINGS]),
    *(("<IsGradient> after the bias", f"{kind}Component",
       [*RATE, tag, 1, "<LinearParams>", W, "<BiasParams>", B, "<IsGradient>", True],
       ["<IsGradient>", True, *RATE, tag, 1, "<LinearParams>", W, "<BiasParams>", B]) for kind, tag in (
           ("RepeatedAffine", "<NumRepeats>"), ("NaturalGradientRepeatedAffine", "<NumRepeats>"),
           ("BlockAffine", "<NumBlocks>"))),
    ("<IsGradient> after the scales", "PerElementScaleComponent", [*RATE, "<Params>", B, "<IsGradient>", True],
     ["<IsGradient>", True, *RATE, "<Params>", B]),
    ("<MaxChangePerMinibatch>", "NaturalGradientPerElementScaleComponent",
     [*RATE, "<Params>", B, "<IsGradient>", False, *ELEMENT_SETTINGS, "<MaxChangePerMinibatch>", .5],
     [*RATE, "<Params>", B, "<IsGradient>", False, *ELEMENT_SETTINGS]),
    ("no <Dim>", "PerElementOffsetComponent", [*RATE, "<Offsets>", B],
     [*RATE, "<Offsets>", B, "<Dim>", 2, "<UseNaturalGradient>", True]),
    ("<IsGradient> after the offsets", "PerElementOffsetComponent", [*RATE, "<Offsets>", B, "<IsGradient>", True],
     ["<IsGradient>", True, *RATE, "<Offsets>", B, "<Dim>", 2, "<UseNaturalGradient>", True]),
    ("no learning rate", "ConstantFunctionComponent", FUNCTION, [*TODAYS_RATE, *FUNCTION]),
    ("no learning rate, but a factor", "ConstantFunctionComponent", ["<LearningRateFactor>", .5, *FUNCTION],
     ["<LearningRateFactor>", .5, *TODAYS_RATE, *FUNCTION]),
    ("no learning rate, but other settings", "ConstantFunctionComponent",
     ["<IsGradient>", True, "<MaxChange>", 2.0, "<L2Regularize>", .5, *FUNCTION],
     ["<IsGradient>", True, "<MaxChange>", 2.0, "<L2Regularize>", .5, *TODAYS_RATE, *FUNCTION]),
    ("no learning rate", "ConstantComponent", CONSTANT, [*TODAYS_RATE, *CONSTANT]),
    ("no learning rate", "TimeHeightConvolutionComponent", ["<Model>", "<ConvolutionModel>", *MODEL, *MODEL_PARAMS],
     [*TODAYS_RATE, "<Model>", "<ConvolutionModel>", *MODEL, *MODEL_PARAMS]),
    ("no opening tag of the model", "TimeHeightConvolutionComponent", [*RATE, "<Model>", *MODEL, *MODEL_PARAMS],
     [*RATE, "<Model>", "<ConvolutionModel>", *MODEL, *MODEL_PARAMS]),
    ("no learning rate", "CompositeComponent", [*COMPOSITE, *RELU], [*TODAYS_RATE, *COMPOSITE, *RELU]),
    ("an older component inside", "CompositeComponent", [*RATE, *COMPOSITE, *OLD_RELU], [*RATE, *COMPOSITE, *RELU]),
    ("statistics", "NoOpComponent", ["<Dim>", 2, *AVERAGES], NO_OP),
    ("statistics of derivatives, too", "NoOpComponent", ["<Dim>", 2, *AVERAGES, *DERIVS], NO_OP),
    ("statistics and self-repair", "NoOpComponent", ["<Dim>", 2, *AVERAGES, *DERIVS, *REPAIRS], NO_OP),
    ("statistics, without derivatives", "NoOpComponent", ["<Dim>", 2, *NO_AVERAGES, *NO_DERIVS, *NO_REPAIRS], NO_OP),
    ("self-repair with settings", "NoOpComponent",
     ["<Dim>", 2, *AVERAGES, *DERIVS, *REPAIRS, "<SelfRepairLowerThreshold>", .125, "<SelfRepairUpperThreshold>", .5,
      *SCALE], NO_OP),
    ("closed by the opening tag", "SumGroupComponent", ["<Sizes>", [1, 1], "<SumGroupComponent>"], ["<Sizes>", [1, 1]]),
    ("no self-repair", "ClipGradientComponent", [*CLIP, *CLIP_COUNTS, "<NumSelfRepaired>", 5, "<NumBackpropped>", 6],
     [*CLIP, *CLIP_NO_REPAIR, *CLIP_COUNTS, "<NumSelfRepaired>", 5, "<NumBackpropped>", 6]),
    ("no counts of self-repair", "ClipGradientComponent", [*CLIP, *CLIP_REPAIR, *CLIP_COUNTS],
     [*CLIP, *CLIP_REPAIR, *CLIP_COUNTS, *NO_CLIP_COUNTS]),
    ("neither", "ClipGradientComponent", [*CLIP, *CLIP_COUNTS],
     [*CLIP, *CLIP_NO_REPAIR, *CLIP_COUNTS, *NO_CLIP_COUNTS]),
    ("no scale", "BackpropTruncationComponent", ["<Dim>", 2, *TRUNCATION], ["<Dim>", 2, "<Scale>", 1.0, *TRUNCATION]),
    ("neither by frame nor test mode", "DropoutComponent", DROPOUT,
     [*DROPOUT, "<DropoutPerFrame>", False, "<TestMode>", False]),
    ("no test mode", "DropoutComponent", [*DROPOUT, "<DropoutPerFrame>", True],
     [*DROPOUT, "<DropoutPerFrame>", True, "<TestMode>", False]),
    ("test mode alone", "DropoutComponent", [*DROPOUT, "<TestMode>", True],
     [*DROPOUT, "<DropoutPerFrame>", False, "<TestMode>", True]),
    ("no test mode", "DropoutMaskComponent", ["<OutputDim>", 2, "<DropoutProportion>", .25],
     ["<OutputDim>", 2, "<DropoutProportion>", .25, "<TestMode>", False]),
    ("continuous, no test mode", "DropoutMaskComponent", ["<OutputDim>", 2, "<DropoutProportion>", .25, "<Continuous>"],
     ["<OutputDim>", 2, "<DropoutProportion>", .25, "<TestMode>", False, "<Continuous>"]),
    ("no <IsGradient>", "ConvolutionComponent", [*RATE, *CONVOLUTION], [*RATE, *CONVOLUTION, "<IsGradient>", False]),
    ("no <IsGradient> at the end of one", "ConvolutionComponent", ["<IsGradient>", True, *RATE, *CONVOLUTION],
     [*RATE, *CONVOLUTION, "<IsGradient>", False]),
    ("<Dim>", "NormalizeComponent", ["<Dim>", 2, *NORMALIZE], ["<InputDim>", 2, *NORMALIZE]),
    ("no target rms", "NormalizeComponent", ["<Dim>", 2, "<AddLogStddev>", True],
     ["<InputDim>", 2, "<TargetRms>", 1.0, "<AddLogStddev>", True]),
    ("no log of the rms", "NormalizeComponent", ["<InputDim>", 2, "<TargetRms>", .5],
     ["<InputDim>", 2, "<TargetRms>", .5, "<AddLogStddev>", False]),
    ("statistics", "NormalizeComponent", ["<InputDim>", 2, *NORMALIZE, *AVERAGES], ["<InputDim>", 2, *NORMALIZE]),
    ("statistics and nothing else", "NormalizeComponent", ["<Dim>", 2, *NO_AVERAGES], ["<InputDim>", 2, *NORMALIZE]),
    ("one <Alpha>", "TdnnComponent", [*TDNN, "<Alpha>", 2.0, "<RankInOut>", 1, 1],
     [*TDNN, "<AlphaInOut>", 2.0, 2.0, "<RankInOut>", 1, 1]),
]


def field(writer: TokenWriter, value: Any) -> None:
    """Write a tag or a value in the form that its type has in files."""
    if isinstance(value, str):
        writer.token(value)
    elif isinstance(value, bool):
        writer.boolean(value)
    elif isinstance(value, int):
        writer.integer(value)
    elif isinstance(value, Double):
        writer.float64(value)
    elif isinstance(value, float):
        writer.float32(value)
    elif isinstance(value, list):
        writer.integer_vector(value)
    elif value.dtype == np.int32:
        writer.integer_pairs(value)
    else:
        (write_vector if value.ndim == 1 else write_matrix)(writer, value)


def component_bytes(type_name: str, fields: Sequence[Any], binary: bool) -> bytes:
    """The component in a file, with its tags; fields that end in another closing tag get no second one."""
    stream = io.BytesIO()
    writer = TokenWriter(stream, binary)
    closed = fields[-1] == f"<{type_name}>" if isinstance(fields[-1], str) else False
    for value in (f"<{type_name}>", *fields, *(() if closed else (f"</{type_name}>",))):
        field(writer, value)
    return stream.getvalue()


def model_bytes(component: bytes, binary: bool, dim: int = 2, objective: str = " objective=linear") -> bytes:
    """A model file of that component between an input and an output."""
    config = (f"input-node name=input dim={dim}\ncomponent-node name=c component=c input=input\n"
              f"output-node name=output input=c{objective}\n")
    stream = io.BytesIO()
    writer = TokenWriter(stream, binary)
    writer.raw(b"\0B" if binary else b"")
    writer.token("<Nnet3>")
    writer.raw(f"\n{config}\n".encode())
    writer.token("<NumComponents>")
    writer.integer(1)
    writer.newline_if_text()
    writer.raw(b"<ComponentName> c " + component)
    writer.newline_if_text()
    writer.token("</Nnet3>")
    return stream.getvalue()


@FORMS
@pytest.mark.parametrize(("type_name", "older", "today"), [row[1:] for row in OLDER],
                         ids=[f"{type_name}: {name}" for name, type_name, *_ in OLDER])
def test_older_components(type_name: str, older: Sequence[Any], today: Sequence[Any], binary: bool,
                          tmp_path: Path) -> None:
    """The file opens, computes what today's computes, and is written as today's."""
    paths = {}
    for name, fields in (("older", older), ("today", today)):
        paths[name] = tmp_path / name
        paths[name].write_bytes(model_bytes(component_bytes(type_name, fields, binary), binary))
    nnet = nnet3py.read_nnet(str(paths["older"]))
    nnet.write(str(tmp_path / "written"), binary=binary)
    assert (tmp_path / "written").read_bytes() == paths["today"].read_bytes()
    assert type(nnet.component("c")).__name__ == type_name and nnet3py.info(nnet)
    x = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    outputs = [nnet3py.compute(nnet3py.read_nnet(str(path)), x) for path in paths.values()]
    assert outputs[0].shape[0] == 4 and np.isfinite(outputs[0]).all()
    np.testing.assert_array_equal(*outputs)


def reader_of(data: bytes, binary: bool) -> TokenReader:
    return TokenReader(io.BytesIO(data), size=len(data), binary=binary)


@FORMS
@pytest.mark.parametrize(("type_name", "line"), [(type_name, lines[0]) for type_name, lines in CONFIGS.items()])
def test_the_opening_tag_may_stand_there_or_not(type_name: str, line: str, binary: bool) -> None:
    """Who reads a component may have read its opening tag before, or not."""
    data = written(make(type_name, line), binary)
    for start in (0, len(f"<{type_name}> ")):
        reader = reader_of(data[start:], binary)
        again = component_class(type_name).read(reader)
        assert written(again, binary) == data and reader.at_end()


def test_a_tag_may_lack_its_first_character() -> None:
    """Kaldi's readers look at it before they read the tag, and some streams cannot take it back."""
    data = component_bytes("AffineComponent", AFFINE, True)
    nnet = Nnet.read(reader_of(model_bytes(data.replace(b"<BiasParams>", b"BiasParams>"), True)[2:], True))
    assert written(nnet.component("c"), True) == data


def test_a_permutation_in_floating_point() -> None:
    """Numbers are rounded, and the last one does not count, as in Kaldi: it is taken for the last column."""
    data = component_bytes("PermuteComponent", ["<ColumnMap>", vector(1, 0.0001, 0.75)], True)
    nnet = Nnet.read(reader_of(model_bytes(data, True, dim=3)[2:], True))
    assert written(nnet.component("c"), True) == component_bytes("PermuteComponent", ["<ColumnMap>", [1, 0, 2]], True)
    np.testing.assert_array_equal(nnet3py.compute(nnet, np.array([[5, 6, 7]], dtype=np.float32)), [[6, 5, 7]])


@FORMS
def test_an_output_without_an_objective(binary: bool, tmp_path: Path) -> None:
    component = component_bytes("AffineComponent", AFFINE, binary)
    old, today = (model_bytes(component, binary, objective=text) for text in ("", " objective=linear"))
    (tmp_path / "old").write_bytes(old)
    nnet3py.read_nnet(str(tmp_path / "old")).write(str(tmp_path / "new"), binary=binary)
    assert (tmp_path / "new").read_bytes() == today != old


@FORMS
def test_contexts_in_acoustic_models_are_measured_anew(binary: bool, tmp_path: Path) -> None:
    """Kaldi does not believe those in the file either, which were wrong in some versions."""
    model = nnet3py.read_model(str(DATA / "network" / "am-priors.mdl"))
    stream = io.BytesIO()
    writer = TokenWriter(stream, binary)
    model.write_to(writer)
    today, tag = stream.getvalue(), b"<LeftContext> "
    start = today.index(tag) + len(tag)
    end = today.index(b"<RightContext>")
    stream = io.BytesIO()
    TokenWriter(stream, binary).integer(77)
    again = nnet3py.AcousticModel.read(reader_of(today[:start] + stream.getvalue() + today[end:], binary))
    stream = io.BytesIO()
    again.write_to(TokenWriter(stream, binary))
    assert stream.getvalue() == today


def test_priors_and_transition_models_are_skipped_where_a_network_is_wanted(tmp_path: Path) -> None:
    nnet = nnet3py.read_nnet(str(DATA / "network" / "am-priors.mdl"))
    nnet.write(str(tmp_path / "raw"))
    assert nnet3py.read_nnet(str(tmp_path / "raw")).config_lines() == nnet.config_lines()


def test_packed_matrices_in_text_with_their_dimension() -> None:
    text = b"FP 2 1 2.5 3 "
    found = read_packed(reader_of(text, False))
    np.testing.assert_array_equal(found, [1, 2.5, 3])
    stream = io.BytesIO()
    write_packed(TokenWriter(stream, False), found)
    np.testing.assert_array_equal(read_packed(reader_of(stream.getvalue(), False)), found)


@FORMS
def test_trees_with_numbers_of_pdf_classes(binary: bool) -> None:
    """An older section, which is dropped."""
    data = (DATA / "network" / "tree").read_bytes()
    assert data.startswith(b"\0B")
    stream = io.BytesIO()
    ContextDependency.read(reader_of(data[2:], True)).write(TokenWriter(stream, binary))
    today, tag = stream.getvalue(), b"ToPdf "
    at = today.index(tag)
    to_pdf = today[at + len(tag):today.index(b"EndContextDependency")]
    stream = io.BytesIO()
    older = reader_of(today[:at] + b"ToLength " + to_pdf + today[at:], binary)
    ContextDependency.read(older).write(TokenWriter(stream, binary))
    assert stream.getvalue() == today
