"""nnet3py/compiler/optimize/merge_variables.py: components work in place, copies disappear, results stay."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import TDNN, assert_same_results, product, request, run
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import case
from random_networks import config, few_waves, rows

from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.computation import Computation, command
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.optimize.consolidate import consolidate_io
from nnet3py.compiler.optimize.merge_variables import merge_variables
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.optimize.row_ops import convert_addition
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CompileError, NotComputableError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer

NNET = Nnet.from_config(TDNN + "component name=z type=NormalizeComponent dim=3\n"
                               "component-node name=z component=z input=r\noutput-node name=more input=z\n")
RELU, NORMALIZE = NNET.component_index("r"), NNET.component_index("z")
WANTED = ("remove_assignments", "propagate_in_place", "backprop_in_place")
WAYS = ("allow_left_merge", "allow_right_merge")
COMPONENTS = ["type=NaturalGradientAffineComponent input-dim=2 output-dim=2", "type=NoOpComponent dim=2",
              "type=RectifiedLinearComponent dim=2", "type=SigmoidComponent dim=2",
              "type=ClipGradientComponent dim=2 clipping-threshold=1.0", "type=FixedScaleComponent dim=2"]

BRANCHES = """
input-node name=input dim=4
component name=a type=AffineComponent input-dim=4 output-dim=4
component name=n type=NoOpComponent dim=4 backprop-scale=0.5
component name=s type=SigmoidComponent dim=4
component name=h type=TanhComponent dim=2
component name=b type=AffineComponent input-dim=8 output-dim=4
component-node name=a component=a input=input
component-node name=n component=n input=a
component-node name=s component=s input=n
dim-range-node name=d input-node=s dim-offset=1 dim=2
component-node name=h component=h input=Scale(0.5, d)
component-node name=b component=b input=Append(s, h, Sum(d, Scale(-2.0, h)))
output-node name=output input=b
output-node name=other input=Sum(n, Scale(3.0, b))
output-node name=third input=s
"""


def only(*names: str) -> OptimizeOptions:
    return OptimizeOptions(**{name: name in names for name in WANTED + WAYS})


def lines(computation: Computation) -> list[str]:
    """The commands as Kaldi prints them, without numbers and sizing."""
    found = [line.split(": ", 1)[1] for line in computation.describe(NNET).splitlines() if line.startswith("c")]
    return [line for line in found if "= undefined" not in line and "= []" not in line and ".set(0)" not in line]


class Small:
    """A computation of matrices that are allocated and zeroed first and freed last; ``add`` adds what is between."""

    def __init__(self, *sizes: tuple, given: tuple[int, ...] = (), provided: tuple[int, ...] = ()) -> None:
        self.computation = Computation()
        self.matrices = [self.computation.new_matrix(*size) for size in sizes]
        self.given, self.provided = given, provided
        self.middle: list = []

    def window(self, m: int, *place: int) -> int:
        return self.computation.new_submatrix(m, *place)

    def add(self, kind: C, *args: int, alpha: float = 1.0) -> None:
        self.middle.append(command(kind, *args, alpha=alpha))

    def build(self) -> Computation:
        node_in, node_out = NNET.node_index("input"), NNET.node_index("output")
        commands = []
        for m in self.matrices:
            commands += [command(C.ACCEPT_INPUT, m, node_in)] if m in self.given else [
                command(C.ALLOC_MATRIX, m), command(C.SET_CONST, m, alpha=0.0)]
        commands += self.middle
        commands += [command(C.PROVIDE_OUTPUT, m, node_out) for m in self.provided]
        commands += [command(C.DEALLOC_MATRIX, m) for m in self.matrices if m not in self.provided]
        self.computation.commands = commands
        return self.computation

    def merged(self, options: OptimizeOptions | None = None) -> list[str]:
        return lines(merge_variables(self.build(), NNET, options))


def copy_between(source_size: tuple, target_size: tuple, **kinds: tuple[int, ...]) -> Small:
    """m2 = m1, where m1 is set before and both are read later."""
    small = Small(source_size, target_size, (3, 2), **kinds)
    if 1 not in small.given:
        small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.MATRIX_COPY, 2, 1)
    small.add(C.MATRIX_ADD, 3, 1)
    if 2 not in small.provided:
        small.add(C.MATRIX_ADD, 3, 2)
    return small


def test_a_copy_disappears_and_both_names_stay_readable() -> None:
    assert copy_between((3, 2), (3, 2)).merged() == ["m1.set(1) [dim = 3 x 2];", "m2 += m1", "m2 += m1"]
    assert len(copy_between((3, 2), (3, 2)).merged(only("remove_assignments"))) == 4
    assert len(copy_between((3, 2), (3, 2)).merged(only(*WAYS))) == 4


def test_input_and_output() -> None:
    assert copy_between((3, 2), (3, 2), given=(1,)).merged()[1:] == ["m2 += m1", "m2 += m1"]
    found = merge_variables(copy_between((3, 2), (3, 2), given=(1,), provided=(2,)).build(), NNET)
    kinds = [one.type for one in found.commands]
    assert C.MATRIX_COPY not in kinds and kinds.count(C.ALLOC_MATRIX) == kinds.count(C.DEALLOC_MATRIX) == 1
    assert "m2 = m1" in copy_between((3, 2), (3, 2), provided=(1, 2)).merged()


def test_what_is_written_later_stays_apart() -> None:
    written_source = copy_between((3, 2), (3, 2))
    written_source.add(C.SET_CONST, 1, alpha=2.0)
    written_source.add(C.MATRIX_ADD, 3, 1)
    assert "m2 = m1" in written_source.merged()
    written_target = copy_between((3, 2), (3, 2))
    written_target.add(C.SET_CONST, 2, alpha=2.0)
    assert "m2 = m1" not in written_target.merged()            # nobody reads the source after that
    written_target.add(C.MATRIX_ADD, 3, 1)
    assert "m2 = m1" in written_target.merged()
    used_before = Small((3, 2), (3, 2), (3, 2))
    used_before.add(C.MATRIX_ADD, 3, 2)
    used_before.add(C.MATRIX_COPY, 2, 1)
    used_before.add(C.MATRIX_ADD, 3, 2)
    assert "m2 = m1" in used_before.merged()


def part_of(contiguous: bool, right: bool) -> Small:
    """A whole matrix m1 and three rows and two columns of m2, one copied to the other."""
    small = Small((3, 2, contiguous), (5, 4), (3, 2))
    window = small.window(2, 1, 3, 2, 2)
    source, target = (1, window) if right else (window, 1)
    small.add(C.SET_CONST, source, alpha=1.0)
    small.add(C.MATRIX_COPY, target, source)
    small.add(C.MATRIX_ADD, 3, target)
    return small


@pytest.mark.parametrize("right", [False, True])
def test_parts_of_matrices(right: bool) -> None:
    merged = ["m1(1:3, 2:3).set(1) [dim = 3 x 2];", "m2 += m1(1:3, 2:3)"]
    way, other = WAYS[right], WAYS[not right]
    assert part_of(False, right).merged(only("remove_assignments", way)) == merged
    assert len(part_of(False, right).merged(only("remove_assignments", other))) == 3
    assert len(part_of(True, right).merged()) == 3           # a matrix whose rows must follow each other


@pytest.mark.parametrize("right", [False, True])
def test_what_is_done_to_other_parts_does_not_matter(right: bool) -> None:
    small = part_of(False, right)
    elsewhere = command(C.SET_CONST, small.window(2, 0, 1, 0, 4), alpha=2.0)
    small.middle = [elsewhere, *small.middle, elsewhere]
    merged = small.merged(only("remove_assignments", WAYS[right]))
    assert merged[1:3] == ["m1(1:3, 2:3).set(1) [dim = 3 x 2];", "m2 += m1(1:3, 2:3)"] and len(merged) == 4


@pytest.mark.parametrize("begin", [0, 4])
def test_parts_that_touch_do_not_overlap(begin: int) -> None:
    """What is written to the rows before or after those that are copied leaves the copies mergeable."""
    small = Small((2, 3), (6, 3), (2, 3))
    part, beside = small.window(2, 2, 2, 0, 3), small.window(2, begin, 2, 0, 3)
    small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.MATRIX_COPY, part, 1)
    small.add(C.SET_CONST, beside, alpha=2.0)
    small.add(C.MATRIX_ADD, 3, 1)
    small.add(C.MATRIX_ADD, 3, part)
    small.add(C.MATRIX_ADD, 3, beside)
    assert small.merged()[0] == "m1(2:3, 0:2).set(1) [dim = 2 x 3];" and len(small.merged()) == 5


def test_parts_of_inputs_and_outputs_stay() -> None:
    small = Small((5, 4), (3, 2), given=(1,), provided=(2,))
    window = small.window(1, 1, 3, 2, 2)
    small.add(C.MATRIX_COPY, 2, window)
    assert len(small.merged()) == 3


def test_a_scaled_copy_works_in_place() -> None:
    small = Small((3, 2), (3, 2), (3, 2))
    small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.MATRIX_COPY, 2, 1, alpha=0.5)
    small.add(C.MATRIX_ADD, 3, 2)
    assert small.merged() == ["m1.set(1) [dim = 3 x 2];", "m1 = 0.5 * m1", "m2 += m1"]
    small.add(C.MATRIX_ADD, 3, 1)                              # the unscaled values are needed after all
    assert "m2 = 0.5 * m1" in small.merged()


def propagating(read_later: bool = False, provided: tuple[int, ...] = ()) -> Small:
    small = Small((3, 3), (3, 3), (3, 3), provided=provided)
    small.add(C.SET_CONST, 1, alpha=1.0)
    if provided:
        small.add(C.PROVIDE_OUTPUT, 1, NNET.node_index("output"))
        small.provided = ()
    small.add(C.PROPAGATE, RELU, 0, 1, 2, 0, 1)
    small.add(C.MATRIX_ADD, 3, 2)
    if read_later:
        small.add(C.MATRIX_ADD, 3, 1)
    return small


def test_propagation_in_place() -> None:
    assert "r.Propagate(NULL, m1, &m1)" in propagating().merged()
    assert "r.Propagate(NULL, m1, &m1)" in propagating().merged(only("propagate_in_place", WAYS[1]))
    assert "r.Propagate(NULL, m1, &m2)" in propagating().merged(only("backprop_in_place", "remove_assignments", *WAYS))
    assert "r.Propagate(NULL, m1, &m2)" in propagating(read_later=True).merged()
    # An output is left as it is until the caller has read it, though no later command does.
    assert "r.Propagate(NULL, m1, &m2)" in propagating(provided=(1,)).merged()


def test_backpropagation_in_place_leaves_values_alone() -> None:
    small = Small((3, 3), (3, 3), (3, 3), (3, 3))
    small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.SET_CONST, 2, alpha=1.0)
    small.add(C.BACKPROP, NORMALIZE, 0, 1, 0, 2, 3, 0)
    small.add(C.MATRIX_ADD, 4, 3)
    assert "z.Backprop(NULL, m1, [], m2, NULL, &m2)" in small.merged()
    assert "z.Backprop(NULL, m1, [], m2, NULL, &m3)" in small.merged(only("propagate_in_place", *WAYS))
    same = Small((3, 3), (3, 3), (3, 3))
    same.add(C.SET_CONST, 1, alpha=1.0)
    same.add(C.BACKPROP, NORMALIZE, 0, 1, 0, 1, 2, 0)          # the derivative is the value, which has to stay
    same.add(C.MATRIX_ADD, 3, 2)
    assert "z.Backprop(NULL, m1, [], m1, NULL, &m2)" in same.merged()
    relu = Small((3, 3), (3, 3), (3, 3), (3, 3))
    relu.add(C.SET_CONST, 1, alpha=1.0)
    relu.add(C.SET_CONST, 2, alpha=1.0)
    relu.add(C.BACKPROP, RELU, 0, 0, 1, 2, 3, 0)               # a component that cannot work in place here
    relu.add(C.MATRIX_ADD, 4, 3)
    assert "r.Backprop(NULL, [], m1, m2, NULL, &m3)" in relu.merged()


def test_chains_of_merges() -> None:
    small = Small((3, 3), (3, 3), (3, 3), (4, 5), (3, 3))
    window = small.window(4, 1, 3, 0, 3)
    small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.MATRIX_COPY, 2, 1)
    small.add(C.PROPAGATE, RELU, 0, 2, 3, 0, 0)
    small.add(C.MATRIX_COPY, window, 3)
    small.add(C.MATRIX_ADD, 5, window)
    part = "m1(1:3, 0:2)"
    assert small.merged() == [f"{part}.set(1) [dim = 3 x 3];", f"r.Propagate(NULL, {part}, &{part})", f"m2 += {part}"]


def test_a_copy_into_a_part_waits_for_what_works_in_place() -> None:
    """Were it merged first, the large matrix could not be overwritten, and there would be two of its size."""
    small = Small((2, 3), (6, 3), (6, 3), (2, 3), (6, 3), provided=(4, 5))
    top, rest = small.window(2, 0, 2, 0, 3), small.window(2, 2, 4, 0, 3)
    small.add(C.SET_CONST, 1, alpha=1.0)
    small.add(C.SET_CONST, rest, alpha=2.0)
    small.add(C.MATRIX_COPY, top, 1)
    small.add(C.PROPAGATE, RELU, 0, 2, 3, 0, 0)
    small.add(C.MATRIX_ADD, 5, 3)
    small.add(C.MATRIX_ADD, 4, 1)                      # reads what was copied
    assert "r.Propagate(NULL, m2, &m2)" in small.merged()


def test_rounds_until_nothing_changes() -> None:
    dead = Small((3, 3), (3, 3), (3, 3), (3, 3), provided=(4,))
    dead.add(C.SET_CONST, 1, alpha=1.0)
    dead.add(C.PROPAGATE, RELU, 0, 1, 3, 0, 0)
    dead.add(C.MATRIX_COPY, 2, 1)                      # of no use, but as long as it is there m1 is needed
    dead.add(C.MATRIX_ADD, 4, 3, alpha=2.0)
    assert "r.Propagate(NULL, m1, &m2)" in dead.merged()
    assert "r.Propagate(NULL, m1, &m1)" in lines(optimize(dead.build(), NNET))
    zero = Small((3, 3), (3, 3), (3, 3), provided=(2,))
    zero.add(C.SET_CONST, 3, alpha=1.0)
    zero.add(C.MATRIX_COPY, 2, 1)                      # copies zero; without it the addition is a copy
    zero.add(C.MATRIX_ADD, 2, 3)
    assert "m1 += m2" in zero.merged()
    assert lines(optimize(zero.build(), NNET)) == ["m1.set(1) [dim = 3 x 3];",
                                                     "output m1 to user [for node: 'output']"]
    assert "m1 += m2" in lines(optimize(zero.build(), NNET, OptimizeOptions(convert_addition=False)))


@pytest.mark.parametrize("number", [7, 91, 12, 13])    # the first two change in a second round
def test_no_round_is_left(number: int) -> None:
    drawn = case(number)
    options = OptimizeOptions()
    merged = dict(optimization_steps(drawn.computation, drawn.nnet, options))["remove-assignments"]
    assert merge_variables(merged, drawn.nnet) is merged
    assert convert_addition(merged, drawn.nnet) is merged
    optimized = optimize(drawn.computation, drawn.nnet)
    check_computation(optimized, drawn.nnet, thorough=True)
    assert_same_results(run(drawn.nnet, consolidate_io(drawn.computation), drawn.request),
                        run(drawn.nnet, optimized, drawn.request))


@pytest.mark.parametrize("names", [(), *((name, *WAYS) for name in WANTED), WANTED + WAYS[:1], WANTED + WAYS[1:]])
def test_branching_network(names: tuple[str, ...]) -> None:
    nnet = Nnet.from_config(BRANCHES)
    indexes = product([0, 1], range(6))
    outputs = [IoSpecification(name, indexes, name != "third") for name in ("output", "other", "third")]
    asked = ComputationRequest([IoSpecification("input", indexes, True)], outputs, True, True)
    computation = generate_computation(nnet, asked)
    options = only(*names)
    found = optimize(computation, nnet, options)
    check_computation(found, nnet, thorough=True)
    assert_same_results(run(nnet, consolidate_io(computation), asked), run(nnet, found, asked))
    assert (len(merge_variables(convert_addition(computation, nnet), nnet, options).matrices)
            < len(computation.matrices)) == bool(names)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(COMPONENTS).flatmap(lambda component: config(component=component)), rows(1, 4),
       st.sets(st.sampled_from(WANTED)), st.sets(st.sampled_from(WAYS)))
def test_random_networks(text: str, wanted: dict, names: set[str], ways: set[str]) -> None:
    nnet = Nnet.from_config(text)
    asked = request(np.array(wanted["input"], np.int32), np.array(wanted["output"], np.int32),
                    any(component.PARAMETERS for component in nnet.components), True)
    try:
        with few_waves():
            computation = generate_computation(nnet, asked)
    except (NotComputableError, CompileError):
        return
    found = optimize(computation, nnet, only(*names, *ways))
    check_computation(found, nnet, thorough=True)
    assert_same_results(run(nnet, consolidate_io(computation), asked), run(nnet, found, asked))


def test_inputs_of_the_caller_stay_and_runs_can_be_repeated() -> None:
    nnet = Nnet.from_config(BRANCHES)
    asked = request(product([0, 1], range(6)), product([0, 1], range(6)))
    computer = Computer(optimize(generate_computation(nnet, asked), nnet), nnet)
    given_input = np.random.default_rng(5).standard_normal((12, 4)).astype(np.float32)
    before, outputs = given_input.copy(), []
    for _ in range(2):
        computer.accept_input("input", given_input)
        computer.run()
        outputs.append(computer.output("output"))
    assert (given_input == before).all() and (outputs[0] == outputs[1]).all()
