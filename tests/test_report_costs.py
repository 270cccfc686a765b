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
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.report.requests import natural_request
from nnet3py.report.tables import Costs, lifetimes, memory_in_use, multiplications_per_row, peak_memory, shares
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


def test_nothing_is_no_memory() -> None:
    assert peak_memory(Computation()) == (0, 0)
