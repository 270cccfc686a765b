"""Operations and elements of commands against what a run really multiplies; lifetimes and the peak."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiler_cases import RNN, TDNN, product, request
from component_configs import CONFIGS

from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.errors import UsageError
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.report.requests import natural_request
from nnet3py.report.tables import (
    Costs,
    bytes_text,
    chosen_passes,
    compilation_steps,
    count_text,
    lifetimes,
    memory_in_use,
    multiplications_per_row,
    peak_memory,
    report,
    shares,
    table,
)
from nnet3py.runtime.computer import Computer

EXACT = ["AffineComponent", "NaturalGradientAffineComponent", "LinearComponent", "FixedAffineComponent",
         "BlockAffineComponent", "RepeatedAffineComponent", "NaturalGradientRepeatedAffineComponent", "TdnnComponent",
         "ConvolutionComponent", "GruNonlinearityComponent", "OutputGruNonlinearityComponent",
         "LstmNonlinearityComponent", "RectifiedLinearComponent", "BatchNormComponent", "PerElementScaleComponent"]


def one_component(kind: str, line: str) -> Nnet:
    text = ConfigLine(f"component name=c type={kind} {line}")
    text.get_string("name"), text.get_string("type")
    dim = component_class(kind).from_config(text, np.random.default_rng(0)).input_dim
    return Nnet.from_config(f"input-node name=input dim={dim}\ncomponent name=c type={kind} {line}\n"
                            "component-node name=c component=c input=input\noutput-node name=output input=c\n")


def multiplied(nnet: Nnet, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Operations of a forward pass of a few rows: as counted from the command list, and as asked of products."""
    asked = natural_request(nnet, frames=5, num_sequences=2)
    computation = consolidate_io(generate_computation(nnet, asked))
    ops = get_ops("cpu")
    real, real_affine, real_spliced, done = ops.add_mat_mat, ops.affine, ops.spliced_affine, 0

    def counting(dst: Any, a: Any, b: Any, alpha: float, beta: float, **trans: bool) -> None:
        nonlocal done
        inner = a.shape[0] if trans.get("trans_a") else a.shape[1]
        done += 2 * dst.shape[0] * dst.shape[1] * inner
        real(dst, a, b, alpha, beta, **trans)

    def counting_affine(dst: Any, src: Any, weights: Any, bias: Any) -> None:
        nonlocal done
        done += 2 * dst.size * src.shape[1]
        real_affine(dst, src, weights, bias)

    def counting_spliced(dst: Any, sums: Any, src: Any, weights: Any, *others: Any) -> None:
        nonlocal done
        done += 2 * dst.size * weights.shape[1]
        real_spliced(dst, sums, src, weights, *others)

    monkeypatch.setattr(ops, "add_mat_mat", counting)
    monkeypatch.setattr(ops, "spliced_affine", counting_spliced)
    monkeypatch.setattr(ops, "affine", counting_affine)
    computer = Computer(computation, nnet)
    rows = len(asked.inputs[0].indexes)
    computer.accept_input("input", np.ones((rows, nnet.input_dim("input")), np.float32))
    computer.run()
    return int(Costs.of(computation, nnet).operations.sum()), done


@pytest.mark.parametrize("kind, line", [(kind, line) for kind in EXACT for line in CONFIGS[kind]])
def test_operations_are_those_of_the_products(kind: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, done = multiplied(one_component(kind, line), monkeypatch)
    assert counted == done


@pytest.mark.parametrize("line", CONFIGS["TimeHeightConvolutionComponent"])
def test_convolution_is_counted_with_its_padding(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, done = multiplied(one_component("TimeHeightConvolutionComponent", line), monkeypatch)
    assert 0 < done <= counted <= 2 * done      # rows at edges where some offsets have no input


def test_components_without_products_in_blas() -> None:
    attention = one_component("RestrictedAttentionComponent", CONFIGS["RestrictedAttentionComponent"][0]).component("c")
    shape = attention.shape
    assert multiplications_per_row(attention) == shape.num_heads * shape.positions * (shape.key_dim + shape.value_dim)
    for line in CONFIGS["CompositeComponent"]:
        composite = one_component("CompositeComponent", line).component("c")
        assert multiplications_per_row(composite) == sum(map(multiplications_per_row, composite.children))


def test_backward_products_count_what_is_wanted() -> None:
    nnet = Nnet.from_config(TDNN)
    inputs, outputs = product([0, 1], range(-4, 5)), product([0, 1], range(3))

    def operations(**flags: bool) -> int:
        return int(Costs.of(generate_computation(nnet, request(inputs, outputs, **flags)), nnet).operations.sum())

    first, second = 2 * 12 * 18, 2 * 6 * 12      # 12 rows of a, 6 of b
    assert operations() == first + second
    assert operations(train=True) == 2 * first + 3 * second
    assert operations(train=True, input_deriv=True) == 3 * first + 3 * second
    assert operations(input_deriv=True) == 2 * first + 2 * second


def test_shares_add_up() -> None:
    nnet = Nnet.from_config(RNN)
    computation = optimize(generate_computation(
        nnet, request(product([0, 1], range(5)), product([0, 1], range(5)), train=True)), nnet)
    costs, found = Costs.of(computation, nnet), shares(computation, nnet)
    assert sum(share.operations for share in found) == costs.operations.sum()
    assert sum(share.elements for share in found) == costs.elements.sum()
    assert [share.name for share in found[:2]] == ["a", "t"]
    assert {share.kind for share in found[2:]} == {"row operation"}


def test_elements_of_row_operations() -> None:
    computation = Computation()
    a, b = computation.new_matrix(4, 3), computation.new_matrix(2, 3)
    computation.indexes_multi.append(np.array([(a, 0), (-1, -1)], np.int32))
    computation.commands = [command(C.ALLOC_MATRIX, a), command(C.SET_CONST, a, alpha=0.0),
                            command(C.ADD_TO_ROWS_MULTI, b, 0), command(C.DEALLOC_MATRIX, a)]
    assert Costs.of(computation, Nnet.from_config(TDNN)).elements.tolist() == [0, 12, 3, 0]


@pytest.mark.parametrize("options", [OptimizeOptions(), OptimizeOptions(allocate_from_other=False)])
def test_memory_in_use_is_the_sum_over_lifetimes(options: OptimizeOptions) -> None:
    nnet = Nnet.from_config(TDNN)
    asked = request(product([0, 1], range(-4, 5)), product([0, 1], range(3)), train=True, input_deriv=True)
    computation = optimize(generate_computation(nnet, asked), nnet, options)
    lives = lifetimes(computation, nnet)
    expected = [sum(life.num_bytes for life in lives if life.begin <= c < life.end)
                for c in range(len(computation.commands))]
    assert memory_in_use(computation).tolist() == expected
    assert peak_memory(computation) == (max(expected), expected.index(max(expected)))
    assert sorted(life.kind for life in lives).count("input") == 2
    assert {life.nodes for life in lives if life.kind == "output"} == {"input", "output"}


REPORT = """\
# Computation request
input-0: name=input, has-deriv=false, indexes=[(0,-4:2)]
output-0: name=output, has-deriv=true, indexes=[(0,0)]
need-model-derivative: true
store-component-stats: true

# Passes
after        commands  matrices  submatrices       peak  operations  elements
unoptimized        59        14           21  328 bytes         216       138

# Commands by kind
command                unoptimized  optimized
kAllocMatrix                    12         12
kDeallocMatrix                  13         13
kSetConst                       12         12
kPropagate                       3          3
kBackprop                        3          3
kMatrixAdd                       4          4
kAddRows                         7          7
kAcceptInput                     2          2
kProvideOutput                   1          1
kNoOperationPermanent            1          1
kNoOperationMarker               1          1
all                             59         59

LISTING# Matrices
matrix  size     memory  from  to   kind        holds
m2      2 x 6  48 bytes  c0    c47  value       a_input [(0,-3), (0,0)]
m3      2 x 3  24 bytes  c2    c48  value       a [(0,-3), (0,0)]
m4      2 x 3  24 bytes  c4    c49  derivative  a [(0,-3), (0,0)]
m5      2 x 3  24 bytes  c6    c50  value       r_input [(0,-3), (0,0)]
m6      2 x 3  24 bytes  c8    c51  derivative  r_input [(0,-3), (0,0)]
m7      2 x 3  24 bytes  c10   c52  value       r [(0,-3), (0,0)]
m8      2 x 3  24 bytes  c12   c53  derivative  r [(0,-3), (0,0)]
m9      1 x 6  24 bytes  c14   c54  value       b_input [(0,0)]
m10     1 x 6  24 bytes  c16   c55  derivative  b_input [(0,0)]
m11     1 x 2   8 bytes  c18   c56  value       b [(0,0)]
m12     1 x 2   8 bytes  c20   c57  derivative  b [(0,0)]
m13     1 x 2   8 bytes  c22   end  output      value of output [(0,0)]
m1      7 x 2  56 bytes  c24   c46  input       value of input [(0,-4:2)]
m14     1 x 2   8 bytes  c38   c58  input       derivative of output [(0,0)]

# Peak memory: 328 bytes when c38 has run

# Operations: 2mnk for each matrix product, natural gradient not counted; elements written
name        type                            commands  operations  elements
a           NaturalGradientAffineComponent         2         144         6
r           RectifiedLinearComponent               2           0        12
b           NaturalGradientAffineComponent         2          72         8
kSetConst   row operation                         12           0        66
kMatrixAdd  row operation                          4           0        16
kAddRows    row operation                          7           0        30
all                                               29         216       138
"""


def test_the_whole_report() -> None:
    """Of a computation as Kaldi generates it, before all passes."""
    nnet = Nnet.from_config(TDNN)
    asked = request(product([0], range(-4, 3)), product([0], [0]), train=True)
    first, *_ = compilation_steps(nnet, asked, OptimizeOptions(optimize=False))
    listing = f"# Listing: optimized\n{first[1].describe(nnet)}\n"
    assert report(nnet, asked, [first]) == REPORT.replace("LISTING", listing)
    assert report(nnet, asked, [first], ["unoptimized"]) == REPORT.replace("LISTING", listing)
    head, rest = REPORT.split("LISTING")
    short = head + rest[rest.index("# Peak"):]
    assert report(nnet, asked, [first], summary=True) == short
    shown = listing.replace("optimized", "unoptimized", 1)
    assert report(nnet, asked, [first], ["unoptimized"], summary=True) == short.replace("# Peak", f"{shown}# Peak")
    again = report(nnet, asked, [first, ("convert-addition", first[1]), ("x", first[1])], ["convert-addition"])
    assert f"# Listing: convert-addition (it changed nothing)\n\n{listing}" in again
    larger = request(product([0], range(-4, 33)), product([0], range(31)), train=True)
    last = list(compilation_steps(nnet, larger, OptimizeOptions(optimize=False)))[-1]
    peak, command = peak_memory(last[1])
    assert peak > 1000 and f"# Peak memory: {peak / 1000:.1f} kB ({peak} bytes) when c{command} has run\n" in report(
        nnet, larger, [last])


def test_names_of_passes() -> None:
    steps = [(name, Computation()) for name in ("unoptimized", "a", "b", "a")]
    assert chosen_passes("all", steps) == ["unoptimized", "a", "b"]
    assert chosen_passes(" b, a,,", steps) == ["b", "a"] and chosen_passes("", steps) == []
    with pytest.raises(UsageError, match="--passes: no pass 'c' ran.*these did: unoptimized, a, b"):
        chosen_passes("a,c", steps)


def test_tables() -> None:
    assert table(("name", "n", "size", "what"), [("a", 5, "1.5 kB", "3 x"), ("longer", 12, "768 bytes", "")]) == (
        "name     n       size  what\na        5     1.5 kB  3 x\nlonger  12  768 bytes\n")
    assert table(("a", "b"), []) == "a  b\n"


@pytest.mark.parametrize("count, size, number", [
    (0, "0 bytes", "0"), (999, "999 bytes", "999"), (1000, "1.0 kB", "1.0 k"), (999_949, "999.9 kB", "999.9 k"),
    (999_950, "1.0 MB", "1.0 M"), (48 * 10**8, "4.8 GB", "4.8 G"), (10**12, "1.0 TB", "1.0 T"),
    (5 * 10**15, "5000.0 TB", "5000.0 T")])
def test_sizes_in_words(count: int, size: str, number: str) -> None:
    assert (bytes_text(count), count_text(count)) == (size, number)


def test_nothing_is_no_memory() -> None:
    assert peak_memory(Computation()) == (0, 0)
