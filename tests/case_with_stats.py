"""Kaldi's small cases of components with memos, statistics and precomputed indexes, driven by hand."""
from __future__ import annotations

import numpy as np
from component_cases import DrivenCase, read_components, reread

from nnet3py.components.base import Properties

OUTPUT = 1e-5       # of the largest absolute value: float32 sums of about 20 terms, and our exponential function
GRADIENT = 1e-5
STATISTIC = 2e-6    # float32 averages of sums in another order
UPDATE = 1e-3       # of the change: parameters near 1 are rounded by 6e-8, and the smallest changes are about 1e-4
SMALLEST = 0.1      # values below this are sums that cancel
ROUNDING = 4e-7     # of a parameter of size 1 to 2 that is changed a few times


class CaseWithStats(DrivenCase):
    """A case whose component ``c`` gets its memo, its precomputed indexes and, where Kaldi stored them, statistics."""

    def __init__(self, case: str, ops) -> None:
        super().__init__(case, ops)
        self.precomputed = self.nnet["c"].precompute_indexes(self.outputs, self.outputs, True)
        self.store_stats = "store_component_stats=1" in (self.folder / "request.txt").read_text()

    def run(self, update: dict) -> tuple[np.ndarray, np.ndarray]:
        """Forwards and backwards, statistics into ``update``: returns the output and the derivative at the input."""
        component, ops = self.nnet["c"], self.ops
        a = self._forward("a", self.x, len(self.x))
        memo = component.new_memo(ops, len(a)) if component.has(Properties.USES_MEMO) else None
        y = np.zeros((len(a), component.output_dim), dtype=np.float32)
        self.ops.reset_scratch()
        component.propagate(ops, self.precomputed, a, y, memo)
        if self.store_stats and component.has(Properties.STORES_STATS):
            update["c"].store_stats(ops, None, y, memo)
        z = self._forward("z", y, len(y))
        dy = self.io["output-deriv.output"].copy()
        for name, given, value in (("z", y, z), ("c", a, y), ("a", self.x, a)):
            # what the flags do not ask for is not there
            component = self.nnet[name]
            dx = np.zeros_like(given)
            ops.reset_scratch()
            component.backprop(ops, self.precomputed if name == "c" else None,
                               given if component.has(Properties.BACKPROP_NEEDS_INPUT) else None,
                               value if component.has(Properties.BACKPROP_NEEDS_OUTPUT) else None,
                               dy, memo if name == "c" else None, update[name], dx)
            dy = dx
        return z, self._at_input(dy)

    def _at_input(self, dx: np.ndarray) -> np.ndarray:
        """The derivative of the spliced input (t-1 and t) collected at the rows of the input."""
        result = np.zeros_like(self.io["input.input"])
        dim = result.shape[1]
        for row, spliced in enumerate(self.x):
            for part in (slice(None, dim), slice(dim, None)):
                place = np.flatnonzero((self.io["input.input"] == spliced[part]).all(axis=1))
                result[place] += dx[row, part]
        return result


def assert_close(found, expected, tolerance, what="", largest=SMALLEST) -> None:
    """Equal within ``tolerance`` of the largest absolute expected value, or of ``largest`` if that is larger."""
    allowed = tolerance * max(np.abs(expected).max(initial=0.0), SMALLEST, largest)
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed, err_msg=what)


def check_gradient(case: CaseWithStats, gradient_file: str = "gradient.raw") -> None:
    """Output, derivatives and statistics of a plain backward pass against Kaldi's.

    A gradient is as exact as the largest one of its component: that of a bias before batch normalization, which is 0,
    is all rounding.
    """
    gradient = {key: component.copy() for key, component in case.nnet.items()}
    for component in gradient.values():
        component.scale(0.0)
        if component.has(Properties.UPDATABLE):
            component.set_as_gradient()
    output, dx = case.run(gradient)
    assert_close(output, case.io["output.output"], OUTPUT)
    assert_close(dx, case.io["input-deriv.input"], OUTPUT)
    expected = {key: found for key, (found, _) in read_components(case.folder / gradient_file).items()}
    for key, component in gradient.items():
        wanted = expected[key].parameters()
        largest = max((np.abs(value).max(initial=0.0) for value in wanted.values()), default=0.0)
        for name, value in wanted.items():
            assert_close(component.parameters()[name], value, GRADIENT, f"{key}.{name}", largest)
    assert_same_statistics(gradient["c"], expected["c"])


def assert_same_statistics(found, expected) -> None:
    """Equal statistics as far as files hold them, but for float32 rounding of averages."""
    found = reread(found)
    for name in expected.STATISTICS:
        if name == "sumsq":
            continue        # a file holds the variance; compared there
        assert_close(getattr(found, name), getattr(expected, name), STATISTIC, name)


def check_update(case: CaseWithStats, tolerance: float = UPDATE) -> None:
    """A real update of the net by itself against Kaldi's; ``tolerance`` is of the largest change."""
    before = case.expected("nnet.raw")
    case.run(case.nnet)
    expected = {key: found for key, (found, _) in read_components(case.folder / "updated.raw").items()}
    for key, component in case.nnet.items():
        for name, value in expected[key].parameters().items():
            change = np.abs(value - before[key][name]).max()
            np.testing.assert_allclose(component.parameters()[name], value, rtol=0,
                                       atol=max(tolerance * change, ROUNDING), err_msg=f"{key}.{name}")
    assert_same_statistics(case.nnet["c"], expected["c"])
