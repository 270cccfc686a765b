"""Requests, computations and caches of them in files."""
from __future__ import annotations

import logging
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import read_request as case_request
from golden_cases import runnable_cases
from io_samples import check_survives, damaged, reader_of, written
from paths import DATA, shared_golden

import nnet3py
from nnet3py.compiler import cache as cache_module
from nnet3py.compiler.cache import MOST_UNUSED_WRITTEN, CachingCompiler
from nnet3py.compiler.check import check_loaded
from nnet3py.compiler.computation import Command, CommandType, Computation, MatrixInfo
from nnet3py.compiler.computation_file import (
    read_cache,
    read_computation,
    read_optimize_options,
    read_request,
    write_cache,
    write_computation,
    write_optimize_options,
    write_request,
)
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CheckError, FormatError, Nnet3Error
from nnet3py.io.object_files import read_object
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.binding import plan_memory

CASES = DATA / "cases"
PRECOMPUTED = ["backprop-truncation", "distribute", "restricted-attention", "statistics-pooling",
               "tdnn-component", "time-height-convolution"]
SMALL = ["affine", "clip-gradient", "dropout-test-mode", "lstm-nonlinearity", *PRECOMPUTED]


def case(folder: Path) -> tuple[Nnet, ComputationRequest]:
    return nnet3py.read_nnet(str(folder / "nnet.raw")), case_request(folder / "request.txt")


def save(computation: Computation, binary: bool) -> bytes:
    return written(write_computation, computation, binary=binary)


def check_file_forms(folder: Path) -> None:
    """Request and computation of a case survive both forms, and the computation is found sound."""
    nnet, request = case(folder)
    for optimize in (True, False):
        computation = nnet3py.compile(nnet, request, optimize=optimize).unfused()
        for binary in (True, False):
            data = save(computation, binary)
            again = read_computation(reader_of(data, binary))
            assert save(again, binary) == data
            assert again.commands == computation.commands
            assert again.describe(nnet) == computation.describe(nnet)
            check_loaded(again, nnet, request)
    for binary in (True, False):
        data = written(write_request, request, binary=binary)
        assert read_request(reader_of(data, binary)) == request
        assert written(write_request, read_request(reader_of(data, binary)), binary=binary) == data


@pytest.mark.parametrize("name", SMALL)
def test_computations_survive_files(name: str) -> None:
    check_file_forms(CASES / name)


def test_every_golden_case_survives_files() -> None:
    folder = shared_golden() / "cases"
    names = runnable_cases(folder)
    for name in names:
        check_file_forms(folder / name)
    assert len(names) > len(SMALL)


def test_the_bytes_of_a_request() -> None:
    request = ComputationRequest([nnet3py.IoSpecification("input", [(0, -1, 0), (0, 0, 0)])],
                                 [nnet3py.IoSpecification("output", [(0, 0, 0)], has_deriv=True)], True)
    eight = b"\xf8%c\0\0\0\0\0\0\0"
    assert written(write_request, request, binary=True) == (
        b"<ComputationRequest> <NumInputs> " + eight % 1 + b"<Inputs> <IoSpecification> input <NumIndexes> " + eight % 2
        + b"<Indexes> <I1V> \4\2\0\0\0\xff\1<HasDeriv> F</IoSpecification> <NumOutputs> " + eight % 1
        + b"<Outputs> <IoSpecification> output <NumIndexes> " + eight % 1 + b"<Indexes> <I1V> \4\1\0\0\0\0<HasDeriv> T"
        b"</IoSpecification> <NeedModelDerivative> T<StoreComponentStats> F</ComputationRequest> ")
    assert written(write_request, request, binary=False) == (
        b"<ComputationRequest> \n<NumInputs> 1 \n<Inputs> <IoSpecification> \ninput <NumIndexes> 2 <Indexes> <I1V> 2 "
        b"<I1> 0 -1 0 <I1> 0 0 0 <HasDeriv> F \n</IoSpecification> \n\n<NumOutputs> 1 \n<Outputs> <IoSpecification> \n"
        b"output <NumIndexes> 1 <Indexes> <I1V> 1 <I1> 0 0 0 <HasDeriv> T \n</IoSpecification> \n\n"
        b"<NeedModelDerivative> T <StoreComponentStats> F </ComputationRequest> \n")


def test_the_bytes_of_a_computation() -> None:
    computation = Computation(commands=[Command(CommandType.NO_OPERATION_MARKER),
                                        Command(CommandType.MATRIX_COPY, 0.5, (3, -1, 4, -1, -1, -1, -1))])
    computation.matrices.append(MatrixInfo(2, 3, contiguous=True))
    data = save(computation, True)
    assert b"<Cmd> \4\x16\0\0\0\4\0\0\x80\x3f\4\0\0\0\0</Cmd> " in data            # the documented example
    assert b"<Cmd> \4\7\0\0\0\4\0\0\0\x3f\4\3\0\0\0\3\0\0\0\xff\xff\xff\xff\4\0\0\0</Cmd> " in data
    assert (b"<MatrixInfo> <NumRows> \4\2\0\0\0<NumCols> \4\3\0\0\0<StrideEqualNumCols> </MatrixInfo> ") in data
    assert b"<NumComponentPrecomputedIndexes> \xf8\1\0\0\0\0\0\0\0<PrecomputedIndexesInfo> <NumIndexes> " in data
    text = save(computation, False)
    assert text.startswith(b"<NnetComputation> <Version> 5 <NumMatrices> 2 <Matrices> <MatrixInfo> \n<NumRows> 0 "
                           b"<NumCols> 0 \n</MatrixInfo> \n")
    assert b"<Cmd> kMatrixCopy\n<Alpha> 0.5 <Args> 3 -1 4 -1 -1 -1 -1 </Cmd> \n<NeedModelDerivative> F " in text


@pytest.mark.parametrize("change", [
    lambda o: o, lambda o: o.replace(b"<SplitRowOps> T ", b"").replace(b"<ExtendMatrices> T ", b""),
    lambda o: o.replace(b"<MaxDerivTimeRelative> 2147483647 <SnipRowOps> T <MemoryCompressionLevel> 1 ", b"")])
def test_options_of_older_files_are_read(change) -> None:
    text = written(write_optimize_options, OptimizeOptions(), binary=False)
    assert text.startswith(b"<NnetOptimizeOptions> <Optimize> T <ConsolidateModelUpdate> T <PropagateInPlace> T ")
    assert read_optimize_options(reader_of(change(text), False)) == OptimizeOptions()


def test_an_option_that_every_file_has_may_not_be_missing() -> None:
    newer = {"OptimizeRowOps", "SplitRowOps", "ExtendMatrices", "MaxDerivTimeRelative", "SnipRowOps",
             "MemoryCompressionLevel"}
    text = written(write_optimize_options, OptimizeOptions(), binary=False)
    for pair, tag in re.findall(rb"(<(\w+)> [T0-9-][0-9]* )", text):
        without, name = reader_of(text.replace(pair, b""), False), tag.decode()
        with nullcontext() if name in newer else pytest.raises(FormatError, match=f"expected.*{name}"):
            assert read_optimize_options(without) == OptimizeOptions()


def test_a_cache_of_other_options_is_not_read_on() -> None:
    nnet, request = case(CASES / "affine")
    pairs = [(request, nnet3py.compile(nnet, request))]
    data = written(lambda writer: write_cache(writer, OptimizeOptions(), pairs), binary=True)
    assert read_cache(reader_of(data, True), OptimizeOptions(convert_addition=False)) is None
    found = read_cache(reader_of(data, True), OptimizeOptions(extend_matrices=False))
    assert found is not None
    assert found[0][0] == request
    assert written(lambda writer: write_cache(writer, OptimizeOptions(), found), binary=True) == data


def results(compiler: CachingCompiler, nnet: Nnet, request: ComputationRequest) -> list[np.ndarray]:
    """All outputs, input derivatives and gradients of one run on fixed inputs."""
    rng = np.random.default_rng(0)
    gradient = nnet.as_gradient() if request.need_model_derivative else None
    computer = nnet3py.Computer(compiler.compile(request), nnet, update=gradient)
    for io in request.inputs:
        computer.accept_input(io.name, rng.normal(size=(len(io.indexes), nnet.input_dim(io.name))))
    computer.run()
    found = [computer.output(io.name) for io in request.outputs]
    given = [io for io in request.outputs if io.has_deriv]
    for io in given:
        computer.accept_input(io.name, rng.normal(size=(len(io.indexes), nnet.output_dim(io.name))))
    if given and request.needs_derivatives():
        computer.run()
        found += [computer.output(io.name) for io in request.inputs if io.has_deriv]
    for component in gradient.components if gradient else ():
        found += list(component.parameters().values())
    return found


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_a_cached_computation_gives_the_same_and_nothing_is_compiled(
        name: str, binary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, request = case(CASES / name)
    compiler = CachingCompiler(nnet)
    expected = results(compiler, nnet, request)
    compiler.write_cache(str(tmp_path / "cache"), binary)
    reading = CachingCompiler(nnet)
    assert reading.read_cache(str(tmp_path / "cache")) >= 1
    monkeypatch.setattr(cache_module, "generate_computation", None)
    monkeypatch.setattr(cache_module, "expand_computation", None)
    found = results(reading, nnet, request)
    assert all(np.array_equal(mine, other) for mine, other in zip(found, expected, strict=True))
    reading.write_cache(str(tmp_path / "again"), binary)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "cache").read_bytes()


def test_of_what_was_read_and_not_used_little_is_written(tmp_path: Path) -> None:
    nnet, _ = case(CASES / "affine")
    requests = [ComputationRequest([IoSpecification.frames("input", count, -9, 13)],
                                   [IoSpecification.frames("output", count, 0, 4)]) for count in range(1, 7)]
    compiler = CachingCompiler(nnet, use_shortcut=False)
    for request in requests:
        compiler.compile(request)
    compiler.write_cache(str(tmp_path / "cache"))
    reading = CachingCompiler(nnet, use_shortcut=False)
    assert reading.read_cache(str(tmp_path / "cache")) == len(requests)
    reading.compile(requests[1])
    reading.write_cache(str(tmp_path / "again"))
    left = read_object(str(tmp_path / "again"), lambda reader: read_cache(reader, OptimizeOptions()))
    assert left is not None
    assert [request for request, _ in left] == [*requests[-MOST_UNUSED_WRITTEN:], requests[1]]


def test_what_does_not_fit_the_network_is_compiled_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nnet, request = case(CASES / "affine")
    other, _ = case(CASES / "tdnn-component")
    compiler = CachingCompiler(nnet)
    compiler.compile(request)
    compiler.write_cache(str(tmp_path / "cache"))
    reading = CachingCompiler(other)
    with caplog.at_level(logging.WARNING):
        assert reading.read_cache(str(tmp_path / "cache")) == 0
    assert "is not one of this network and will be compiled again" in caplog.text
    with caplog.at_level(logging.WARNING):
        assert CachingCompiler(nnet, OptimizeOptions(optimize=False)).read_cache(str(tmp_path / "cache")) == 0
    assert "other --optimization options" in caplog.text
    assert CachingCompiler(nnet, capacity=1).read_cache(str(tmp_path / "cache")) >= 1


def changed(computation: Computation, kind: CommandType, place: int, value: int) -> Computation:
    """A copy with one argument of the first command of that type changed."""
    copy = computation.copy()
    number = next(i for i, command in enumerate(copy.commands) if command.type == kind)
    args = list(copy.commands[number].args)
    args[place] = value
    copy.commands[number] = copy.commands[number]._replace(args=tuple(args))
    return copy


@pytest.mark.parametrize("name", [*PRECOMPUTED, "dropout-test-mode"])
def test_precomputed_indexes_are_checked(name: str) -> None:
    nnet, request = case(CASES / name)
    computation = nnet3py.compile(nnet, request, OptimizeOptions(fuse="none"))
    if len(computation.precomputed_indexes) == 1:
        pytest.skip("this case has no precomputed indexes")
    without = computation.copy()
    without.commands = [command._replace(args=(command.args[0], 0, *command.args[2:]))
                        if command.type == CommandType.PROPAGATE else command for command in computation.commands]
    with pytest.raises(CheckError, match="precomputed"):
        check_loaded(without, nnet, request)
    numbers = [number for number, indexes in enumerate(computation.precomputed_indexes) if indexes is not None]
    for number in numbers:
        kind = type(computation.precomputed_indexes[number])
        other = next(CASES / n for n in PRECOMPUTED if n != name)
        wrong = nnet3py.compile(*case(other)).precomputed_indexes[1]
        copy = computation.copy()
        copy.precomputed_indexes[number] = wrong
        with pytest.raises(CheckError, match="precomputed|other dimensions"):
            check_loaded(copy, nnet, request)
        assert kind is not type(wrong)


def test_wrong_computations_are_refused() -> None:
    nnet, request = case(CASES / "affine")
    computation = nnet3py.compile(nnet, request)
    loop = computation.copy()
    loop.commands += [Command(CommandType.GOTO_LABEL, 1.0, (0, -1, -1, -1, -1, -1, -1))]
    empty = Computation(matrices=[], submatrices=[])
    wide = computation.copy()
    wide.matrices[1] = wide.matrices[1]._replace(num_cols=1 << 30)
    no_debug = computation.copy()
    no_debug.debug_info = []
    wrong_node = computation.copy()
    wrong_node.debug_info[1] = wrong_node.debug_info[1]._replace(nodes=wrong_node.debug_info[1].nodes + 1000)
    none = computation.copy()
    none.need_model_derivative = not none.need_model_derivative
    for wrong in (loop, empty, wide, no_debug, wrong_node, none,
                  changed(computation, CommandType.PROPAGATE, 2, 0), changed(computation, CommandType.PROPAGATE, 0, 99),
                  changed(computation, CommandType.ACCEPT_INPUT, 1, -1)):
        with pytest.raises(CheckError):
            check_loaded(wrong, nnet, request)
    indexes = request.inputs[0].indexes
    fewer = ComputationRequest([nnet3py.IoSpecification(request.inputs[0].name, indexes[1:])], request.outputs,
                               request.need_model_derivative)
    with pytest.raises(CheckError, match="differ"):
        check_loaded(computation, nnet, fewer)


@pytest.mark.parametrize("old, new, message", [
    (b"<Version> 5", b"<Version> 4", "version 4"), (b"<Version> 5 ", b"", "version 1"),
    (b"<NumMatrices> ", b"<NumMatrices> 99999999", "expected|only"),
    (b"kPropagate\n", b"kPropagat\n", "name of a command"),
    (b"<NumRows> 0", b"<NumRows> -2", "0 or more"), (b"</MatrixInfo>", b"<Stride>", "expected </MatrixInfo>")])
def test_wrong_fields_are_named(old: bytes, new: bytes, message: str) -> None:
    text = save(nnet3py.compile(*case(CASES / "affine")), False)
    assert old in text
    with pytest.raises(FormatError, match=message):
        read_computation(reader_of(text.replace(old, new, 1), False))


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", ["affine", "tdnn-component", "statistics-pooling"])
def test_damaged_files_are_refused(name: str, binary: bool) -> None:
    """Reading and checking raise Nnet3Error only; what passes can be laid out in memory."""
    nnet, request = case(CASES / name)
    computation = nnet3py.compile(nnet, request)
    data = save(computation, binary)
    check_survives(read_computation, data, binary, count=60)
    check_survives(read_request, written(write_request, request, binary=binary), binary, count=60)
    for sample in damaged(data, 120, seed=1):
        try:
            loaded = read_computation(reader_of(sample, binary))
            check_loaded(loaded, nnet, request)
        except Nnet3Error:
            continue
        plan_memory(loaded)
