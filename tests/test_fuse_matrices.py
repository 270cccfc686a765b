"""nnet3py/compiler/fuse/passes.py: matrices that are left out or share a place; results stay the same."""
from __future__ import annotations

import numpy as np
import pytest
from fuse_cases import LAYER, assert_same, compiled, fusions, results

import nnet3py
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import BACKPROPS, Command, CommandType, Computation, command
from nnet3py.compiler.fuse.passes import needless_copies
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.normalize import BatchNormComponent
from nnet3py.errors import Nnet3Error
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_dropout_proportion
from nnet3py.runtime.binding import plan_memory
from nnet3py.runtime.computer import Computer, ComputerCache

CONFIG = """
input-node name=input dim=5
component name=affine type=AffineComponent input-dim=5 output-dim=6
component-node name=affine component=affine input=input
component name=norm type=BatchNormComponent dim=6
component-node name=norm component=norm input=affine
component name=dropout type=GeneralDropoutComponent dim=6 dropout-proportion=0.0
component-node name=dropout component=dropout input=norm
component name=last type=AffineComponent input-dim=6 output-dim=3
component-node name=last component=last input=Sum(Scale(0.5, norm), dropout)
output-node name=output input=last
"""
ROWS = 7


def network(proportion: float) -> Nnet:
    nnet = Nnet.from_config(CONFIG, 3)
    set_dropout_proportion(nnet, proportion)
    return nnet


def request() -> ComputationRequest:
    indexes = np.zeros((ROWS, 3), np.int32)
    indexes[:, 1] = np.arange(ROWS)
    return ComputationRequest([IoSpecification("input", indexes, has_deriv=True)],
                              [IoSpecification("output", indexes, has_deriv=True)], need_model_derivative=True)


def made(nnet: Nnet, fuse: str) -> Computation:
    return nnet3py.compile(nnet, request(), OptimizeOptions(fuse=fuse))


def dropout_commands(nnet: Nnet, computation: Computation) -> list[CommandType]:
    return [one.type for one in computation.unfused().commands if one.type in (CommandType.PROPAGATE, *BACKPROPS)
            and nnet.component_names[one.args[0]] == "dropout"]


def test_dropout_that_drops_nothing_makes_no_matrix() -> None:
    nnet = network(0.0)
    lean, full = made(nnet, "omit-copies"), made(nnet, "none")
    assert len(lean.matrices) < len(full.matrices)
    assert dropout_commands(nnet, full) and not dropout_commands(nnet, lean)
    assert {nnet.component_names[c] for c in lean.copying} == {"dropout"} and not full.copying


def test_dropout_that_drops_is_left_alone() -> None:
    nnet = network(0.5)
    assert made(nnet, "omit-copies").commands == made(nnet, "omit-marks").commands


@pytest.mark.parametrize("proportion", [0.0, 0.5])
def test_results_are_those_of_every_command_run(proportion: float) -> None:
    found = []
    for fuse in ("all", "none"):
        nnet = network(proportion)
        gradient, rng = nnet.as_gradient(), np.random.default_rng(0)
        computer = Computer(made(nnet, fuse), nnet, gradient)
        computer.accept_input("input", rng.standard_normal((ROWS, 5)))
        computer.run()
        output = computer.output("output")
        computer.accept_input("output", rng.standard_normal((ROWS, 3)))
        computer.run()
        found.append((output, computer.output("input"), *(c.vectorize() for c in gradient.components
                                                          if hasattr(c, "vectorize"))))
    for lean, full in zip(*found, strict=True):
        np.testing.assert_allclose(lean, full, rtol=1e-5, atol=1e-6)     # a sum of two in one pass rounds once less


def test_dropout_that_is_set_later_is_not_overlooked() -> None:
    """What was compiled without it cannot be run any more, and is compiled again by whoever keeps computations."""
    nnet = network(0.0)
    computation, compiler = made(nnet, "all"), CachingCompiler(nnet)
    cache, update = ComputerCache(nnet, compiler, nnet.as_gradient()), nnet.as_gradient()
    computer, first = Computer(computation, nnet, update), cache.computer(request())
    assert cache.computer(request()) is first
    set_dropout_proportion(nnet, 0.5)
    with pytest.raises(Nnet3Error, match="out when this was compiled"):
        computer.accept_input("input", np.zeros((ROWS, 5)))
    with pytest.raises(Nnet3Error, match="out when this was compiled"):
        Computer(computation, nnet, update)
    second = cache.computer(request())
    assert second is not first and not second.computation.copying
    assert dropout_commands(nnet, second.computation)
    set_dropout_proportion(nnet, 0.0)
    assert cache.computer(request()) is second       # which does what it should, if slower


def edited(after: int | None = None, *inserted: Command, last: Command | None = None) -> dict[int, tuple[int, int]]:
    """The needless copies of a forward pass.

    ``inserted`` comes after the command of that number; ``last`` takes the place of the one that reads the copy last.
    """
    nnet = network(0.0)
    forward = made(nnet, "none")
    commands = list(forward.commands[:OUTPUT])
    assert commands[READ] == command(CommandType.MATRIX_ADD, SUM, COPY)
    commands[READ] = last or commands[READ]
    if after is not None:
        commands[after + 1:after + 1] = inserted
    forward.set_commands(commands)
    return needless_copies(forward, nnet)


# In the listing of the network: the commands that copy, read the copy for the last time and give the output; and the
# sub-matrices.
MADE, READ, OUTPUT = 6, 9, 12
SOURCE, COPY, SUM, OTHER = 3, 6, 7, 4


def test_a_copy_is_needed_if_its_source_changes_before_it_was_read_last() -> None:
    change = command(CommandType.SET_CONST, SOURCE, alpha=0.0)
    assert edited() and edited(READ, change)
    assert not edited(MADE, change) and not edited(READ - 1, change)
    assert not edited(last=command(CommandType.MATRIX_ADD, SOURCE, COPY))        # what reads it changes the source


def test_a_copy_is_needed_if_its_sources_memory_ends_before_it_was_read_last() -> None:
    freed = command(CommandType.DEALLOC_MATRIX, SOURCE)
    assert edited(READ, freed) and not edited(READ - 1, freed)


def test_a_copy_that_is_written_is_needed() -> None:
    assert not edited(MADE, command(CommandType.SET_CONST, COPY, alpha=0.0))
    assert not edited(last=command(CommandType.MATRIX_ADD, COPY, SUM))


# -- a rectifier's output in the place of the batch norm's -------------------------------------------------------------


WITHOUT = "fuse-affine, fuse-backprop"


def test_the_rectifier_needs_no_memory_and_results_stay() -> None:
    found, sizes = [], []
    for fuse in (f"{WITHOUT}, share-places", WITHOUT, "none"):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, fuse)
        check_computation(computation, nnet, thorough=True)
        assert len(computation.places) == (fuse.endswith("places"))
        sizes.append(plan_memory(computation).size)
        found.append(results(nnet, computation, True))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
    assert sizes[0] < sizes[1]


def test_the_listing_says_when_it_exists() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    computation = compiled(nnet, True, "all")
    (matrix, _), = computation.places.items()
    lines = [line for line in computation.describe(nnet).splitlines() if f"m{matrix} = " in line]
    assert [line.split()[1] for line in lines if line.startswith("c")] == ["fuse-affine", "fuse-backprop"]
    assert fusions(computation.unfused()) == [] and not computation.unfused().places


def test_an_output_that_others_read_keeps_its_memory() -> None:
    shared = LAYER.replace("component-node name=last component=last input=norm",
                           "component-node name=last component=last input=Sum(norm, relu)")
    for text, training in ((shared, True), (LAYER, False)):
        assert not compiled(Nnet.from_config(text, 3), training, "all").places


@pytest.mark.parametrize("fuse", ["all", "none"])
def test_a_batch_norm_put_in_test_mode_later(fuse: str) -> None:
    """Then the parts run one by one, and the rectifier still knows what was positive."""
    found = []
    for chosen in (fuse, WITHOUT):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, chosen)
        norm = nnet.components[nnet.component_names.index("norm")]
        assert isinstance(norm, BatchNormComponent)
        norm.set_test_mode(True, np.random.default_rng(1))
        found.append(results(nnet, computation, True))
    assert_same(*found)
