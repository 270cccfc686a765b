"""Every way to compile a case, and running what comes out in memory in which whatever nobody has written is NaN."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from random_cases import Case

import nnet3py.runtime.computer as computer_module
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import SIZING, Command, CommandType, Computation
from nnet3py.compiler.fuse import PASSES, fusion_steps
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.request import ComputationRequest
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import has_batchnorm
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import BoundComputation
from nnet3py.runtime.calls import Call

# Of the largest value of an array: its float32 sums of some hundreds of terms may be taken in another order. A batch
# norm takes the square of the mean from the mean square: where the mean is large beside the spread, that shows more.
ROUNDING, ROUNDING_WITH_BATCH_NORM = 3e-5, 1e-4
# Of the largest gradient: before a batch norm that of a bias is zero but for the rounding of terms that cancel, and
# fused commands round otherwise.
CANCELLED = 0.3
SWITCHES = [f.name for f in dataclasses.fields(OptimizeOptions) if f.type == "bool" and f.name != "optimize"]
MERGES = ["propagate_in_place", "backprop_in_place", "remove_assignments"]
SIDES = ["allow_left_merge", "allow_right_merge"]
NONE = OptimizeOptions(optimize=False, memory_compression_level=0)
ALL = OptimizeOptions()
# Types whose backward commands take statistics or not, as drawn for each; consolidating them changes their number.
SAMPLED = frozenset(("GruNonlinearityComponent", "OutputGruNonlinearityComponent"))


def only(*names: str) -> OptimizeOptions:
    """Nothing but these."""
    return OptimizeOptions(memory_compression_level=0, fuse="none", **{name: name in names for name in SWITCHES})


def without(*names: str) -> OptimizeOptions:
    """All but these."""
    return OptimizeOptions(**{name: name not in names for name in SWITCHES})


# Merging needs an occasion and a side; each pair of them counts as a pass alone.
VARIANTS = {"all": ALL, "all, Kaldi's form": OptimizeOptions(memory_compression_level=2, fuse="none"),
            **{f"only {name}": only(name) for name in SWITCHES if name not in (*MERGES, *SIDES)},
            **{f"only {merge}, {side}": only(merge, side) for merge in MERGES for side in SIDES},
            **{f"all but {name}": without(name) for name in SWITCHES},
            **{f"fuse={one.name}": OptimizeOptions(fuse=one.name) for one in PASSES}}
# Derivatives that count as zero make other results, which optimizing must leave alone too.
LIMITS = [{"min_deriv_time": 0}, {"max_deriv_time": 2}, {"min_deriv_time": -4, "max_deriv_time_relative": 0}]


class PoisonedComputation(BoundComputation):
    """Matrices are NaN when they are allocated or taken over, and again when they are freed."""

    _fused = False      # whether the parts of a fused command are bound

    def _call(self, command: Command) -> Call | None:
        if command.type in SIZING:
            return None if self._fused else self._poison(command)
        return super()._call(command)

    def _poison(self, command: Command) -> Call:
        return self.ops.set_const, (self.view(command.args[0]), np.nan)

    def _bind_fused(self, command: Command) -> Call:
        """What is allocated between the parts is so before the first, and what is freed after the last."""
        sizing = [part for part in self.computation.parts[command.args[0]][1] if part.type in SIZING]
        before, after = ([self._poison(part) for part in sizing if (part.type == CommandType.DEALLOC_MATRIX) == freed]
                         for freed in (False, True))
        self._fused = True
        calls = [*before, super()._bind_fused(command), *after]
        self._fused = False

        def run() -> None:
            for function, args in calls:
                function(*args)

        return (run, ()) if sizing else calls[0]


def run_poisoned(nnet: Nnet, computation: Computation, asked: ComputationRequest) -> dict[str, np.ndarray]:
    """Run on random matrices (fixed seed): outputs, input derivatives, parameter gradients and statistics by name."""
    rng = np.random.default_rng(3)
    given = {io.name: rng.standard_normal((len(io.indexes), nnet.node_dim(nnet.node_index(io.name))), dtype=np.float32)
             for io in (*asked.inputs, *asked.outputs)}
    gradient = nnet.as_gradient() if asked.need_model_derivative or asked.store_component_stats else None
    get_ops().random.begin_minibatch(1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computer_module, "BoundComputation", PoisonedComputation)
        computer = computer_module.Computer(computation, nnet, update=gradient)
    computer._bound.arena.buffer[...] = np.nan
    for io in asked.inputs:
        computer.accept_input(io.name, given[io.name])
    computer.run()
    found = {f"output {io.name}": computer.output(io.name) for io in asked.outputs}
    if asked.needs_derivatives():
        for io in asked.outputs:
            if io.has_deriv:
                computer.accept_input(io.name, given[io.name])
        computer.run()
        found |= {f"derivative {io.name}": computer.output(io.name) for io in asked.inputs if io.has_deriv}
    if gradient is not None:
        for name in gradient.component_names:
            component = gradient.component(name)
            found |= {f"gradient {name}.{key}": value for key, value in component.parameters().items()}
            if type(component).__name__ not in SAMPLED:
                found |= {f"statistics {name}.{key}": getattr(component, key) for key in component.STATISTICS}
    return found


def differences(expected: dict[str, np.ndarray], found: dict[str, np.ndarray], nnet: Nnet) -> list[str]:
    """What differs by more than rounding, as text."""
    assert expected.keys() == found.keys()
    rounding = ROUNDING_WITH_BATCH_NORM if has_batchnorm(nnet) else ROUNDING
    wrong = []
    gradients = max((np.abs(value).max(initial=0.0) for name, value in expected.items() if name.startswith("gradient")),
                    default=0.0)
    for name, value in expected.items():
        assert np.isfinite(value).all(), f"{name} is not finite even without optimization"
        largest = np.abs(value).max(initial=0.0)
        error = np.abs(found[name] - value).max(initial=0.0)
        least = CANCELLED * gradients if name.startswith("gradient") else 0.0
        if not error <= rounding * max(largest, least, 1e-3):
            wrong.append(f"{name} differs by {error:.3g} of {largest:.3g}")
    return wrong


class Compiler:
    """Optimizes a case's command list; every pass leaves a sound list, and what it was given as it was."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._key = _key(case.computation)
        self._sound = {self._key}
        check_computation(case.computation, case.nnet, check_rewrite=True, thorough=True)

    def optimized(self, options: OptimizeOptions) -> Computation:
        steps = list(optimization_steps(self.case.computation, self.case.nnet, options))
        steps += fusion_steps(steps[-1][1], self.case.nnet, options)
        for name, computation in steps:
            self.check(computation, name)
        assert _key(self.case.computation) == self._key, "a pass changed what it was given"
        return computation

    def check(self, computation: Computation, after: str) -> None:
        """Apply the checker's rules, once to equal command lists."""
        key = _key(computation)
        if key not in self._sound:
            check_computation(computation, self.case.nnet, thorough=True, after=after)
            self._sound.add(key)

    def in_every_way(self) -> Iterator[tuple[str, Computation]]:
        """All variants, the plain one first."""
        yield "not optimized", self.optimized(NONE)
        for name, options in VARIANTS.items():
            yield name, self.optimized(options)
        for name, options in (("not optimized", NONE), ("all", ALL)):
            for shortcut in (False, True):
                compiler = CachingCompiler(self.case.nnet, options, use_shortcut=shortcut)
                name = f"compiled, {name}, {'with' if shortcut else 'without'} shortcut"
                computation = compiler.compile(self.case.request)
                self.check(computation, name)
                yield name, computation


def _key(computation: Computation) -> tuple[object, ...]:
    """Equal for equal command lists."""
    rows = tuple(len(info.indexes) for info in computation.debug_info)
    lists = (*computation.indexes, *computation.indexes_multi, *computation.indexes_ranges)
    return (tuple(computation.commands), tuple(computation.parts), tuple(computation.matrices),
            tuple(computation.submatrices), rows, tuple((part.shape, part.tobytes()) for part in lists))


def check_case(case: Case, counts: list[int] | None = None) -> list[str]:
    """What goes wrong with a case, as text; the number of different command lists goes to ``counts``."""
    wrong, expected, seen = [], None, set()
    compiler = Compiler(case)
    for name, computation in compiler.in_every_way():
        key = _key(computation)
        if key in seen:
            continue
        seen.add(key)
        found = run_poisoned(case.nnet, computation, case.request)
        expected = expected or found
        wrong += [f"{name}: {text}" for text in differences(expected, found, case.nnet)]
    if counts is not None:
        counts.append(len(seen))
    return wrong + limited_in_every_way(case, compiler)


def limited_in_every_way(case: Case, compiler: Compiler) -> list[str]:
    """What differs between optimized and other command lists when derivatives are limited to some times, as text."""
    wrong = []
    if not case.request.needs_derivatives():
        return wrong
    for limits in LIMITS:
        expected = None
        for name, options in (("not optimized", NONE), ("all", ALL)):
            last_t = max(int(io.indexes[:, 1].max()) for io in case.request.outputs)
            computation = compiler.optimized(dataclasses.replace(options, **limits).for_outputs_until(last_t))
            found = run_poisoned(case.nnet, computation, case.request)
            expected = expected or found
            wrong += [f"{limits}, {name}: {text}" for text in differences(expected, found, case.nnet)]
    return wrong
