"""Files of compiled computations, each with one number changed: refused, or run without leaving the matrices.

What passes the reader and the checker runs on the real kernels, its matrices laid out far apart and NaN in between. A
write outside of a matrix changes what lies between; what is read from there makes NaN of what comes out, or at least
makes something else come out when there are other numbers between.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from component_configs import CONFIGS
from component_forms import make
from runtime_cases import LSTM, grid, training_request
from thinned import thinned

import nnet3py
import nnet3py.runtime.binding as binding
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_loaded
from nnet3py.compiler.computation import COMMANDS, CommandType, Computation, command
from nnet3py.compiler.computation_file import read_cache, write_cache
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.looped import find_looped, looped_requests
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.registry import PRECOMPUTED_MODULES, PRECOMPUTED_SUFFIX
from nnet3py.errors import CheckError, FormatError, Nnet3Error
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.binding import MemoryPlan, plan_memory

NETWORK = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim={dim}
component name=c type={type} {line}
component-node name=a component=a input=input
component-node name=c component=c input=a
output-node name=output input=c
"""
RECURRENT = "a recurrence"
PERIOD = {"StatisticsExtractionComponent": 4}      # of the output, so that its rows are those that there are
GAP = 4096                       # elements between matrices, more than any change of a number by a little reaches
# One form of each type that makes something of its rows before it runs, and a recurrence, with its lists of pairs.
TYPES = sorted(name.removesuffix(PRECOMPUTED_SUFFIX) for name in PRECOMPUTED_MODULES)
CASES = [*TYPES, "LstmNonlinearityComponent", "BatchNormComponent", RECURRENT]
OPTIMIZERS = {"all": OptimizeOptions(), "none": OptimizeOptions(optimize=False),
              "swaps": OptimizeOptions(remove_assignments=False, memory_compression_level=2)}
OF_EACH_FIELD = {"quick": (1, 1), "slow": (5, 7)}      # numbers that are changed, and to how many others
Loaded = tuple[ComputationRequest, Computation]


# -- files -------------------------------------------------------------------------------------------------------------


def text_of(request: ComputationRequest, computation: Computation) -> bytes:
    stream = BytesIO()
    write_cache(TokenWriter(stream, binary=False), OptimizeOptions(), [(request, computation)])
    return stream.getvalue()


def loaded(data: bytes) -> Loaded:
    found = read_cache(TokenReader(BytesIO(data), size=len(data)), OptimizeOptions())
    assert found is not None
    return found[0]


def fields(data: bytes) -> dict[bytes, list[tuple[int, int]]]:
    """Where numbers stand in the computation, by what stands before: the tag, or for a command its name too."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    begin, name, place = data.index(b"<NnetComputation>"), b"", 0
    roles = {info.name.encode(): len(info.roles) for info in COMMANDS.values()}
    for match in re.finditer(rb"\S+", data[begin:]):
        word = match.group()
        if re.fullmatch(rb"-?\d+", word):
            # Of lists every number is alike; of a command each has a meaning of its own.
            field = name + b" %d" % place if name in roles else name
            if place <= roles.get(name, place):
                found.setdefault(field, []).append((begin + match.start(), begin + match.end()))
            place += 1
        elif word in roles:
            name, place = word, 0
        elif word.startswith(b"<") and not (word in (b"<Alpha>", b"<Args>") and name in roles):
            name, place = word, 0
    return found


def mutants(data: bytes, rng: np.random.Generator, most: int, values: int) -> Iterator[tuple[bytes, bytes]]:
    """Files with one number changed: ``most`` of each field, each to so many other ``values``; and the field."""
    for field, places in fields(data).items():
        chosen = places if len(places) <= most else [places[i] for i in rng.choice(len(places), most, replace=False)]
        for begin, end in chosen:
            number = int(data[begin:end])
            other = places[int(rng.integers(len(places)))]
            news = sorted({number - 1, number + 1, 0, -1, 2 * number + 1, 2**31 - 1,
                           int(data[other[0]:other[1]])} - {number})
            for new in rng.permutation(news)[:values].tolist():
                yield field, data[:begin] + b"%d" % new + data[end:]


# -- running -----------------------------------------------------------------------------------------------------------


def spread_out(computation: Computation) -> MemoryPlan:
    """As ``plan_memory``, but places that overlap lie apart, with a gap before each and after the last."""
    plan = plan_memory(computation)
    sizes = np.array([info.num_rows * info.num_cols for info in computation.matrices])
    offsets, end = np.full(len(sizes), -1, np.int64), GAP
    for place in np.unique(plan.offsets[plan.offsets >= 0]):
        mine = plan.offsets == place
        offsets[mine] = end
        end += int(sizes[mine].max()) + GAP
    return MemoryPlan(offsets, end)


def run(nnet: Nnet, request: ComputationRequest, computation: Computation) -> list[np.ndarray] | None:
    """Forward and backward on random numbers; the outputs and derivatives, or None if an error of ours stopped it.

    Fails if anything outside of the matrices has been written or read.
    """
    found = run_amid(np.nan, nnet, request, computation)
    if found is not None and any(np.isnan(one).any() for one in found):      # of a mutant that may be as it should be
        again = run_amid(1.0, nnet, request, computation)
        assert again is not None and all(map(partial(np.array_equal, equal_nan=True), found, again)), (
            "something outside of the matrices was read")
    return found


def run_amid(filling: float, nnet: Nnet, request: ComputationRequest,
             computation: Computation) -> list[np.ndarray] | None:
    """The same, with a number between the matrices; fails if that has changed."""
    gradient = nnet.as_gradient()
    rng, found = np.random.default_rng(0), []
    try:
        computation = fuse(computation, nnet)
        computer = nnet3py.Computer(computation, nnet, update=gradient)
        bound = computer._bound
        inside = np.zeros(bound.plan.size, bool)
        for info, offset in zip(computation.matrices, bound.plan.offsets.tolist(), strict=True):
            inside[max(offset, 0):max(offset, 0) + info.num_rows * info.num_cols] = True
        bound._buffer[...] = np.where(inside, 0.0, filling)
        for given, taken in ((request.inputs, request.outputs), (request.outputs, request.inputs)):
            if given is request.outputs and not request.needs_derivatives():
                break
            for io in given:
                if given is request.inputs or io.has_deriv:
                    dim = nnet.node_dim(nnet.node_index(io.name))
                    computer.accept_input(io.name, rng.standard_normal((len(io.indexes), dim), dtype=np.float32))
            computer.run()
            found += [computer.output(io.name) for io in taken if taken is request.outputs or io.has_deriv]
    except Nnet3Error:
        found = None
    assert np.array_equal(bound._buffer[~inside], np.full((~inside).sum(), filling, np.float32), equal_nan=True), (
        "a write outside of the matrices")
    return found


def case(name: str) -> tuple[Nnet, ComputationRequest]:
    if name == RECURRENT:
        nnet, inputs = Nnet.from_config(LSTM), range(6)
    else:
        line = CONFIGS[name][0]
        nnet = Nnet.from_config(NETWORK.format(dim=make(name, line).input_dim, type=name, line=line))
        inputs = range(-4, 10)
    return nnet, training_request(2, inputs, range(0, 6, PERIOD.get(name, 1)))


def check(nnet: Nnet, request: ComputationRequest, computation: Computation, most: int, values: int) -> None:
    data = text_of(request, computation)
    assert run(nnet, request, loaded(data)[1]) is not None
    refused = run_through = 0
    for field, mutant in mutants(data, np.random.default_rng(1), most, values):
        try:
            read = loaded(mutant)[1]
            check_loaded(read, nnet, request)
        except (FormatError, CheckError):
            refused += 1
            continue
        try:
            run_through += run(nnet, request, read) is not None
        except Exception as error:
            raise AssertionError(f"a change of a number after {field.decode()}") from error
    assert refused > run_through > 0


@pytest.fixture(autouse=True)
def _matrices_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "plan_memory", spread_out)


@pytest.mark.parametrize(("name", "optimizer"), thinned(CASES, OPTIMIZERS, keep=12))
def test_every_field_of_a_file(name: str, optimizer: str) -> None:
    nnet, request = case(name)
    computation = CachingCompiler(nnet, OPTIMIZERS[optimizer]).compile(request)
    check(nnet, request, computation, *OF_EACH_FIELD["quick"])


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", CASES)
def test_many_numbers_of_every_field(name: str, optimizer: str) -> None:
    nnet, request = case(name)
    check(nnet, request, CachingCompiler(nnet, OPTIMIZERS[optimizer]).compile(request), *OF_EACH_FIELD["slow"])


def test_a_jump_is_refused() -> None:
    """A computation that goes on for ever is for streams only, whose compiler makes it itself."""
    nnet = Nnet.from_config(LSTM)
    requests = [ComputationRequest([IoSpecification("input", grid(1, range(4 * k, 4 * k + 4)))],
                                   [IoSpecification("output", grid(1, range(4 * k, 4 * k + 4)))]) for k in range(2)]
    looped = find_looped(nnet, looped_requests(nnet, 4, 0, 0, 1))
    assert looped.commands[-1].type == CommandType.GOTO_LABEL
    for computation in (looped, CachingCompiler(nnet).compile(requests[0])):
        read = loaded(text_of(requests[0], computation))[1]
        if computation is not looped:
            for label, jump in ((0, 0), (3, len(read.commands)), (len(read.commands), 1)):
                broken = read.copy()
                broken.commands.insert(label, command(CommandType.NO_OPERATION_LABEL))
                broken.commands.append(command(CommandType.GOTO_LABEL, jump))
                with pytest.raises(CheckError):
                    check_loaded(broken, nnet, requests[0])
        else:
            with pytest.raises(CheckError):
                check_loaded(read, nnet, requests[0])


def test_the_gaps_notice_an_access_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the checker: numbers that lead a row or two out of their matrix do not go unnoticed."""
    nnet, request = case(RECURRENT)
    computation = CachingCompiler(nnet, OptimizeOptions(optimize=False)).compile(request)
    noticed, tried = 0, range(1, len(computation.submatrices), 4)
    for s in tried:
        broken = computation.copy()
        window = broken.submatrices[s]
        broken.submatrices[s] = window._replace(row_offset=window.row_offset + 2)
        monkeypatch.setattr(binding.BoundComputation, "view", beyond)
        try:
            run(nnet, request, broken)
        except AssertionError:
            noticed += 1
    assert noticed > len(tried) // 2


def beyond(bound: binding.BoundComputation, s: int) -> np.ndarray | None:
    """The view of a sub-matrix, wherever its numbers lead."""
    if s <= 0:
        return None
    sub = bound.computation.submatrices[s]
    cols, start = bound.computation.matrices[sub.matrix].num_cols, int(bound.plan.offsets[sub.matrix])
    start += sub.row_offset * cols + sub.col_offset
    return np.lib.stride_tricks.as_strided(bound._buffer[start:], (sub.num_rows, sub.num_cols), (4 * cols, 4))
