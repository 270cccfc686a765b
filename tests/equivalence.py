"""Every way to compile a case, and what differs between the results."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from compiler_cases import run
from random_cases import Case

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.fuse import PASSES, fusion_steps
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import has_batchnorm

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
        found = run(case.nnet, computation, case.request)
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
            found = run(case.nnet, computation, case.request)
            expected = expected or found
            wrong += [f"{limits}, {name}: {text}" for text in differences(expected, found, case.nnet)]
    return wrong
