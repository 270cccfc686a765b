"""The checker: sound lists pass, each rule is broken by what it is for, and random damage is refused or harmless."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from compiler_cases import product, recorded_case, recorded_names, request
from random_cases import KINDS, case
from random_damage import damaged, is_refused, run_in_bounds

from nnet3py import log
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import RULES, check_computation
from nnet3py.compiler.computation import COMMANDS, Computation, Fused, SubMatrix, command
from nnet3py.compiler.computation import CommandType as C
from nnet3py.compiler.fuse import fuse
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions, passes
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.errors import CheckError
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode

NUM_DAMAGED = 60        # of each computation
NET = """
input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component name=r type=RectifiedLinearComponent dim=4
component name=n type=BatchNormComponent dim=4
component name=t type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-1,0,1
component name=v type=TimeHeightConvolutionComponent num-filters-in=2 num-filters-out=2 height-in=2 height-out=2 \
height-offsets=0,1 time-offsets=0
component name=h type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component name=s type=SigmoidComponent dim=4
component name=q type=NaturalGradientAffineComponent input-dim=4 output-dim=4
component-node name=a component=a input=Append(Offset(input, -1), Round(input, 3))
component-node name=r component=r input=a
component-node name=n component=n input=r
component-node name=t component=t input=n
component-node name=v component=v input=t
component-node name=h component=h input=Append(v, IfDefined(Offset(s, -1)))
component-node name=s component=s input=h
component-node name=q component=q input=v
output-node name=output input=Sum(s, q)
"""
ASKED = request(product([0], range(-5, 9)), product([0], range(5)), train=True, input_deriv=True)


@pytest.mark.parametrize("name", recorded_names())
def test_sound_computations_pass(name: str) -> None:
    nnet, asked, _ = recorded_case(name)
    computation = generate_computation(nnet, asked)
    check_computation(computation, nnet, check_rewrite=True, thorough=True)
    options = OptimizeOptions(memory_compression_level=2, fuse="none")
    for passed, optimized in optimization_steps(computation, nnet, options):
        check_computation(optimized, nnet, thorough=True, after=passed)


def test_propagation_alone_leaves_no_memo() -> None:
    """Batch normalization makes its memo for backprop only."""
    asked = request(product([0], range(-5, 9)), product([0], range(5)))
    for train in (False, True):
        nnet = Nnet.from_config(NET, seed=0)
        set_batchnorm_test_mode(nnet, not train)
        check_computation(generate_computation(nnet, asked), nnet, check_rewrite=True, thorough=True)


# -- damage ------------------------------------------------------------------------------------------------------------


Damage = Callable[[Computation], None]


def numbers_of(computation: Computation, kind: C) -> list[int]:
    found = [c for c, one in enumerate(computation.commands) if one.type == kind]
    assert found, f"the computation has no {kind.name}"
    return found


def change(kind: C, place: int, value: int, which: int = 0) -> Damage:
    """Change an argument of one command of a type."""
    def damage(computation: Computation) -> None:
        c = numbers_of(computation, kind)[which]
        args = list(computation.commands[c].args)
        args[place] = value
        computation.commands[c] = computation.commands[c]._replace(args=tuple(args))
    return damage


def change_component(name: str, kind: C, place: int, source: int | None = None, value: int = 0) -> Damage:
    """Change an argument of a component's command to a value, or to that of another argument."""
    def damage(computation: Computation) -> None:
        index = Nnet.from_config(NET).component_index(name)
        c = next(c for c in numbers_of(computation, kind) if computation.commands[c].args[0] == index)
        args = list(computation.commands[c].args)
        args[place] = value if source is None else args[source]
        computation.commands[c] = computation.commands[c]._replace(args=tuple(args))
    return damage


def factor(kind: C, alpha: float) -> Damage:
    def damage(computation: Computation) -> None:
        c = numbers_of(computation, kind)[0]
        computation.commands[c] = computation.commands[c]._replace(alpha=alpha)
    return damage


def source_is_target(kind: C) -> Damage:
    return lambda computation: change(kind, 1, computation.commands[numbers_of(computation, kind)[0]].args[0])(
        computation)


def drop(kind: C, which: int = 0) -> Damage:
    return lambda computation: computation.commands.pop(numbers_of(computation, kind)[which]) and None


def double(kind: C) -> Damage:
    def damage(computation: Computation) -> None:
        c = numbers_of(computation, kind)[0]
        computation.commands.insert(c, computation.commands[c])
    return damage


def move_first(kind: C) -> Damage:
    return lambda computation: computation.commands.insert(
        0, computation.commands.pop(numbers_of(computation, kind)[0]))


def insert_before(kind: C, *args: int, alpha: float = 1.0, inserted: C = C.SET_CONST) -> Damage:
    return lambda computation: computation.commands.insert(
        numbers_of(computation, kind)[0], command(inserted, *args, alpha=alpha))


def change_list(kind: C, place: int, edit: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """Change an index list of the first command of a type."""
    lists = {C.COPY_ROWS: "indexes", C.ADD_ROWS: "indexes", C.ADD_ROW_RANGES: "indexes_ranges"}

    def damage(computation: Computation) -> None:
        entry = computation.commands[numbers_of(computation, kind)[0]].args[place]
        entries = getattr(computation, lists.get(kind, "indexes_multi"))
        entries[entry] = edit(entries[entry].copy())
    return damage


def put(place: tuple[int, ...], value: int) -> Callable[[np.ndarray], np.ndarray]:
    def edit(entry: np.ndarray) -> np.ndarray:
        entry[place] = value
        return entry
    return edit


def repeat_first(pairs: np.ndarray) -> np.ndarray:
    pairs[1] = pairs[0]
    return pairs


def half_a_range(ranges: np.ndarray) -> np.ndarray:
    ranges[np.argmax(ranges[:, 0] >= 0), 0] = -1
    return ranges


def window_beyond_its_matrix(computation: Computation) -> None:
    computation.submatrices[-1] = SubMatrix(1, 5, 10**6, 0, 1)


def part_of_a_matrix_is_freed(computation: Computation) -> None:
    c = numbers_of(computation, C.DEALLOC_MATRIX)[0]
    computation.commands[c] = command(C.DEALLOC_MATRIX, computation.new_submatrix(computation.commands[c].args[0],
                                                                                  0, 1, 0, 1))


def matrix_of_its_own(computation: Computation, num_rows: int, num_cols: int) -> int:
    computation.debug_info.append(computation.debug_info[0])
    return computation.new_matrix(num_rows, num_cols)


def swap_of_another_size(computation: Computation) -> None:
    computation.commands.append(command(C.SWAP_MATRIX, matrix_of_its_own(computation, 1, 99),
                                        computation.commands[numbers_of(computation, C.ALLOC_MATRIX)[0]].args[0]))


def unused_matrix(computation: Computation) -> None:
    computation.commands.insert(0, command(C.ALLOC_MATRIX, matrix_of_its_own(computation, 3, 3)))


def unused_rows(computation: Computation) -> None:
    s = matrix_of_its_own(computation, 10, 3)
    upper = computation.new_submatrix(s, 0, 5, 0, 3)
    computation.commands[:0] = [command(C.ALLOC_MATRIX, s), command(C.SET_CONST, upper)]


def rows_with_gaps(computation: Computation) -> None:
    """The convolution's output becomes a part of wider rows."""
    c = next(c for c in numbers_of(computation, C.PROPAGATE) if computation.commands[c].args[0] == 4)
    args = computation.commands[c].args
    sub = computation.submatrices[args[3]]
    wide = matrix_of_its_own(computation, sub.num_rows, sub.num_cols + 1)
    part = computation.new_submatrix(wide, 0, sub.num_rows, 0, sub.num_cols)
    computation.commands[c] = computation.commands[c]._replace(args=(*args[:3], part, *args[4:]))


def smaller_precomputed_indexes(computation: Computation) -> None:
    precomputed = computation.precomputed_indexes
    number = next(i for i, one in enumerate(precomputed) if type(one).__name__.startswith("Tdnn"))
    precomputed[number] = type(precomputed[number])(precomputed[number].row_stride, [0, 0, 10**6])


def changed_after_it_was_read(computation: Computation) -> None:
    written = computation.commands[numbers_of(computation, C.PROPAGATE)[0]].args[3]
    insert_before(C.PROVIDE_OUTPUT, written, alpha=0.0)(computation)


def decompress_at_once(computation: Computation) -> None:
    decompression = computation.commands.pop(numbers_of(computation, C.DECOMPRESS_MATRIX)[0])
    c = next(c for c in numbers_of(computation, C.COMPRESS_MATRIX)
             if computation.commands[c].args[0] == decompression.args[0])
    computation.commands.insert(c + 1, decompression)


def signs_in_16_bits(computation: Computation) -> None:
    for c in numbers_of(computation, C.COMPRESS_MATRIX):
        one = computation.commands[c]
        computation.commands[c] = one._replace(args=(one.args[0], 3, *one.args[2:]))


def used_after_it_was_freed(computation: Computation) -> None:
    freed = computation.commands[numbers_of(computation, C.DEALLOC_MATRIX)[0]].args[0]
    computation.commands.append(command(C.SET_CONST, freed, alpha=0.0))


def negative_sequence(computation: Computation) -> None:
    info = computation.debug_info[1]
    computation.debug_info[1] = info._replace(indexes=info.indexes - 1)


# rule -> before or after optimization, and damage that breaks just this rule
def parts(edit: Callable[[Fused], Fused]) -> Damage:
    """Change what the first fused command stands for."""
    return lambda computation: computation.parts.__setitem__(0, edit(computation.parts[0]))


PLAIN, OPTIMIZED, FUSED = 0, 1, 2
DAMAGE: dict[str, list[tuple[bool, Damage]]] = {
    "commands-have-seven-arguments": [
        (PLAIN, lambda one: one.commands.append(one.commands[0]._replace(args=(1, 2)))),
        (PLAIN, lambda one: one.commands.append(one.commands[0]._replace(type=3))),  # type: ignore[arg-type]
        (PLAIN, change(C.PROPAGATE, 0, 1 << 40)), (PLAIN, factor(C.ADD_ROWS, float("nan")))],
    "submatrices-lie-in-their-matrices": [
        (PLAIN, window_beyond_its_matrix), (PLAIN, lambda one: one.submatrices.append(SubMatrix(1, -1, 1, 0, 1))),
        (PLAIN, lambda one: one.submatrices.append(SubMatrix(9999, 0, 1, 0, 1))),
        (PLAIN, lambda one: one.submatrices.append(SubMatrix(1, 0, 0, 0, 1))),
        (PLAIN, lambda one: one.matrices.clear()),
        (PLAIN, lambda one: one.precomputed_indexes.clear())],
    "index-lists-are-lists-of-rows": [
        (PLAIN, lambda one: one.indexes.append(np.zeros((3, 2), np.int32))),
        (PLAIN, lambda one: one.indexes_multi.append(np.zeros(3, np.int32))),
        (PLAIN, lambda one: one.indexes_ranges.append(np.full((3, 2), -2, np.int32)))],
    "arguments-exist": [
        (PLAIN, change(C.PROPAGATE, 0, 99)), (PLAIN, change(C.PROPAGATE, 3, 9999)), (PLAIN, change(C.SET_CONST, 0, 0)),
        (PLAIN, change(C.PROPAGATE, 5, 2)), (PLAIN, change(C.ADD_ROWS, 2, 9999)), (PLAIN, change(C.PROPAGATE, 4, -1)),
        (PLAIN, change(C.DEALLOC_MATRIX, 0, -1)), (PLAIN, change(C.ACCEPT_INPUT, 1, 9999))],
    "whole-matrices-are-sized-and-exchanged": [(PLAIN, part_of_a_matrix_is_freed)],
    "swapped-matrices-have-one-size": [(PLAIN, swap_of_another_size)],
    "components-have-output": [(PLAIN, change_component("r", C.PROPAGATE, 3)),
                               (PLAIN, change_component("r", C.PROPAGATE, 2))],
    "columns-are-the-components": [(PLAIN, change_component("a", C.PROPAGATE, 2, 3))],
    "simple-components-keep-rows": [
        (PLAIN, lambda one: change_component("r", C.PROPAGATE, 2, value=one.new_submatrix(
            next(c.args[2] for c in one.commands if c.type == C.PROPAGATE and c.args[0] == 1), 0, 1, 0, 4))(one))],
    "derivatives-have-the-rows-of-values": [
        (PLAIN, lambda one: change_component("t", C.BACKPROP, 2, value=one.new_submatrix(
            next(c.args[2] for c in one.commands if c.type == C.PROPAGATE and c.args[0] == 3), 0, 1, 0, 4))(one))],
    "precomputed-indexes-are-the-components": [(PLAIN, change_component("r", C.PROPAGATE, 1, value=1)),
                                               (PLAIN, change_component("t", C.PROPAGATE, 1, value=0))],
    "precomputed-indexes-fit": [(PLAIN, smaller_precomputed_indexes)],
    "propagation-in-place-is-allowed": [(PLAIN, change_component("q", C.PROPAGATE, 3, 2))],
    "backprop-has-the-values-it-needs": [(PLAIN, change_component("a", C.BACKPROP, 2)),
                                         (PLAIN, change_component("s", C.BACKPROP, 3)),
                                         (PLAIN, lambda one: (change_component("t", C.BACKPROP, 2)(one),
                                                              change_component("t", C.BACKPROP, 5)(one)) and None)],
    "backprop-has-an-effect": [(PLAIN, change_component("n", C.BACKPROP, 5))],
    "backprop-in-place-is-allowed": [
        (PLAIN, change_component("q", C.BACKPROP, 5, 4)), (PLAIN, change_component("s", C.BACKPROP, 5, 3))],
    "contiguous-matrices-have-all-columns": [(PLAIN, rows_with_gaps)],
    "memos-are-made-once-and-used-once": [
        (PLAIN, change_component("n", C.PROPAGATE, 4, value=7)), (PLAIN, change_component("n", C.BACKPROP, 6, value=7)),
        (PLAIN, change_component("n", C.BACKPROP, 6)), (PLAIN, change_component("r", C.PROPAGATE, 4, value=1)),
        (PLAIN, change_component("r", C.BACKPROP, 6, value=1))],
    "copied-matrices-have-one-size": [
        (PLAIN, lambda one: change(C.MATRIX_ADD, 1, matrix_of_its_own(one, 1, 99))(one)),
        (PLAIN, lambda one: change(C.ADD_ROWS, 1, matrix_of_its_own(one, 1, 99))(one))],
    "nothing-is-copied-to-itself": [
        (PLAIN, source_is_target(C.MATRIX_ADD)), (OPTIMIZED, source_is_target(C.MATRIX_COPY))],
    "row-numbers-fit": [(PLAIN, change_list(C.ADD_ROWS, 2, put((0,), 1000))),
                        (PLAIN, change_list(C.ADD_ROWS, 2, lambda rows: rows[1:]))],
    "pairs-fit": [(PLAIN, change_list(C.ADD_ROWS_MULTI, 1, put((0, 0), 9999))),
                  (PLAIN, change_list(C.ADD_ROWS_MULTI, 1, put((0, 0), 0))),
                  (PLAIN, change_list(C.ADD_ROWS_MULTI, 1, put((0, 1), 9999))),
                  (PLAIN, change_list(C.ADD_ROWS_MULTI, 1, lambda pairs: pairs[1:])),
                  (PLAIN, lambda one: change_list(C.ADD_ROWS_MULTI, 1, put((0,), (  # type: ignore[arg-type]
                      one.commands[numbers_of(one, C.ADD_ROWS_MULTI)[0]].args[0], 0)))(one))],
    "changed-rows-are-distinct": [(PLAIN, change_list(C.ADD_TO_ROWS_MULTI, 1, repeat_first))],
    "row-ranges-fit": [(PLAIN, change_list(C.ADD_ROW_RANGES, 2, put((0, 1), 1000))),
                       (PLAIN, change_list(C.ADD_ROW_RANGES, 2, half_a_range)),
                       (PLAIN, change_list(C.ADD_ROW_RANGES, 2, lambda ranges: ranges[1:]))],
    "compression-has-a-form": [(OPTIMIZED, change(C.COMPRESS_MATRIX, 1, 0)), (OPTIMIZED, signs_in_16_bits),
                               (OPTIMIZED, factor(C.COMPRESS_MATRIX, 2e3))],
    "exchange-is-of-inputs-and-outputs": [(PLAIN, change(C.ACCEPT_INPUT, 1, 1))],
    "jump-comes-last": [(PLAIN, lambda one: one.commands.append(command(C.GOTO_LABEL, 0))),
                        (PLAIN, lambda one: one.commands.insert(0, command(C.GOTO_LABEL, 0)))],
    "parts-are-in-order": [
        (PLAIN, drop(C.NO_OPERATION_MARKER)), (PLAIN, double(C.NO_OPERATION_MARKER)),
        (PLAIN, move_first(C.NO_OPERATION_MARKER)), (OPTIMIZED, drop(C.NO_OPERATION_MARKER)),
        (OPTIMIZED, double(C.NO_OPERATION_MARKER)), (OPTIMIZED, move_first(C.NO_OPERATION_MARKER))],
    "matrices-are-initialized-once": [(PLAIN, drop(C.ALLOC_MATRIX)), (PLAIN, double(C.ALLOC_MATRIX))],
    "matrices-are-destroyed-once": [(PLAIN, double(C.DEALLOC_MATRIX)), (PLAIN, move_first(C.DEALLOC_MATRIX))],
    "matrices-are-accessed": [(PLAIN, unused_matrix)],
    "matrices-are-accessed-while-they-are-there": [
        (PLAIN, move_first(C.SET_CONST)),
        (PLAIN, used_after_it_was_freed)],
    "compressed-matrices-are-decompressed": [(OPTIMIZED, drop(C.DECOMPRESS_MATRIX)), (OPTIMIZED, decompress_at_once)],
    "decompressed-matrices-were-compressed": [(OPTIMIZED, drop(C.COMPRESS_MATRIX))],
    "signs-are-kept-for-rectifiers-only": [
        (OPTIMIZED, lambda one: (change(C.COMPRESS_MATRIX, 1, 2, -1)(one), one.commands.__setitem__(
            numbers_of(one, C.COMPRESS_MATRIX)[-1],
            one.commands[numbers_of(one, C.COMPRESS_MATRIX)[-1]]._replace(alpha=0.0))) and None)],
    "variables-are-defined-before-use": [(PLAIN, drop(C.SET_CONST))],
    "fused-commands-have-parts": [
        (FUSED, lambda one: one.parts.pop() and None), (FUSED, lambda one: one.parts.append(one.parts[0])),
        (FUSED, parts(lambda fused: fused._replace(fusion="nobody")))],
    "fused-commands-are-what-their-passes-make": [
        (FUSED, parts(lambda fused: fused._replace(fusion="fuse-sums"))),
        (FUSED, parts(lambda fused: fused._replace(commands=fused.commands[::-1])))],
    "variables-are-used": [(PLAIN, unused_rows)],
    "debug-info-fits": [(PLAIN, lambda one: one.debug_info.pop() and None), (PLAIN, negative_sequence),
                        (PLAIN, lambda one: one.debug_info.__setitem__(1, one.debug_info[0]))],
    "nothing-changes-after-it-was-read": [(PLAIN, changed_after_it_was_read)],
}
CASES = [(rule, which) for rule, damages in DAMAGE.items() for which in range(len(damages))]


@cache
def computations() -> tuple[Nnet, Computation, Computation, Computation]:
    """The network, and its command list before and after optimization, and as it is run."""
    nnet = Nnet.from_config(NET)
    plain = generate_computation(nnet, ASKED)
    optimized = list(optimization_steps(plain, nnet, OptimizeOptions(memory_compression_level=2, fuse="none")))[-1][1]
    check_computation(plain, nnet, check_rewrite=True, thorough=True)
    check_computation(optimized, nnet, thorough=True)
    fused = fuse(optimized, nnet)
    check_computation(fused, nnet, thorough=True)
    return nnet, plain, optimized, fused


def test_every_rule_is_tested() -> None:
    assert set(DAMAGE) == {rule.__name__.replace("_", "-") for rule in RULES}
    assert all(rule.__doc__ for rule in RULES)


@pytest.mark.parametrize(("rule", "which"), CASES)
def test_each_rule_notices_what_breaks_it(rule: str, which: int) -> None:
    form, damage = DAMAGE[rule][which]
    nnet, *forms = computations()
    broken = forms[form].copy()
    damage(broken)
    with pytest.raises(CheckError, match=rf"\[rule {rule} after some-pass\]") as caught:
        check_computation(broken, nnet, check_rewrite=form == PLAIN, thorough=True, after="some-pass")
    assert (caught.value.rule, caught.value.after) == (rule, "some-pass")


def test_errors_name_the_command_as_it_is_printed() -> None:
    nnet, plain, *_ = computations()
    broken = plain.copy()
    c = numbers_of(broken, C.ADD_ROWS)[0]
    change_list(C.ADD_ROWS, 2, put((0,), 1000))(broken)
    with pytest.raises(CheckError) as caught:
        check_computation(broken, nnet)
    assert caught.value.command == c and caught.value.after == ""
    assert broken.describe(nnet).splitlines()[-len(broken.commands) + c] in str(caught.value)
    part = plain.copy()
    part_of_a_matrix_is_freed(part)
    with pytest.raises(CheckError, match="argument 1 is not a whole matrix in command c[0-9]+: m[0-9]+"):
        check_computation(part, nnet)
    change(C.PROPAGATE, 0, 99)(broken)      # what cannot be printed is shown by number
    with pytest.raises(CheckError, match=r"c\d+: .*PROPAGATE.*\(99, "):
        check_computation(broken, nnet)


def test_the_compiler_checks_every_pass_when_it_is_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_pass(computation: Computation, nnet: Nnet) -> Computation:
        broken = computation.copy()
        drop(C.ALLOC_MATRIX)(broken)
        return broken

    nnet = Nnet.from_config(NET)
    monkeypatch.setattr(passes, "_BEFORE_MERGING", (("convert-addition", broken_pass),))
    monkeypatch.setattr(passes, "merge_variables", lambda computation, nnet, options: computation)
    for level, after in ((0, "optimization"), (3, "convert-addition")):
        log.set_verbose(level)
        with pytest.raises(CheckError, match=f"rule matrices-are-initialized-once after {after}"):
            CachingCompiler(nnet).compile(ASKED)
    monkeypatch.undo()
    log.set_verbose(3)
    assert CachingCompiler(nnet).compile(ASKED).commands == CachingCompiler(nnet).compile(ASKED).commands


# -- the order of the parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [number if number < 4 else pytest.param(number, marks=pytest.mark.slow)
                                    for number in range(0, len(KINDS), 2)])
def test_a_marker_in_another_place_is_noticed(number: int) -> None:
    """Wherever it is moved to, unless what it passes is but sizing; and wherever there is one more."""
    one = case(number)
    sizing = {C.ALLOC_MATRIX, C.DEALLOC_MATRIX, C.SWAP_MATRIX, C.NO_OPERATION, C.NO_OPERATION_PERMANENT, C.SET_CONST,
              C.COMPRESS_MATRIX, C.DECOMPRESS_MATRIX}
    for options in (OptimizeOptions(optimize=False), OptimizeOptions()):
        sound = list(optimization_steps(one.computation, one.nnet, options))[-1][1]
        marker = next(c for c, command in enumerate(sound.commands) if command.type == C.NO_OPERATION_MARKER)
        for place in range(len(sound.commands)):
            passed = sound.commands[min(place, marker + 1):max(place + 1, marker)]
            if all(command.type in sizing for command in passed if command.type != C.NO_OPERATION_MARKER):
                continue
            moved, doubled = sound.copy(), sound.copy()
            moved.commands.insert(place, moved.commands.pop(marker))
            doubled.commands.insert(place, doubled.commands[marker])
            assert is_refused(moved, one.nnet) and is_refused(doubled, one.nnet), place


# -- random damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_random_damage_is_refused_or_harmless(number: int) -> None:
    """What gets past the checker runs without reading or writing out of bounds."""
    one = case(number)
    refused = 0
    for options in (OptimizeOptions(optimize=False), OptimizeOptions(memory_compression_level=2, fuse="none")):
        sound = list(optimization_steps(one.computation, one.nnet, options))[-1][1]
        run_in_bounds(sound, one.nnet, one.request)
        rng = np.random.default_rng(number)
        for _ in range(NUM_DAMAGED):
            name, broken = damaged(rng, sound)
            if is_refused(broken, one.nnet):
                refused += 1
            else:
                try:
                    run_in_bounds(broken, one.nnet, one.request)
                except Exception as error:
                    raise AssertionError(f"damage of kind {name} got past the checker:\n{broken.describe(one.nnet)}"
                                         ) from error
    assert refused > NUM_DAMAGED


def test_which_commands_want_whole_matrices() -> None:
    """Kaldi: what allocates, moves or compresses memory, and what the user gives and gets."""
    assert {info.name for info in COMMANDS.values() if info.whole} == {
        "kAllocMatrix", "kDeallocMatrix", "kSwapMatrix", "kCompressMatrix", "kDecompressMatrix", "kAcceptInput",
        "kProvideOutput"}
