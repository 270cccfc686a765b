"""Of every form of every component type: finite differences, the kernels, and that its flags tell the truth."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import FINITE_DIFFERENCE, numeric_gradient
from component_configs import CONFIGS
from component_forms import (
    FORM_NAMES,
    FORMS,
    PATTERNS,
    Pass,
    arrays,
    as_gradient,
    in_float64,
    make_trained,
    parts,
    row_patterns,
)
from numpy_ops import NumpyOps

from nnet3py.components.base import Component, Properties
from nnet3py.components.recurrent import NUM_GATES
from nnet3py.components.registry import COMPONENT_MODULES, component_class
from nnet3py.ops import get_ops

FLOAT32 = 2e-5          # of the largest value: float32 sums of a few dozen products
SAME = 1e-6             # of the largest value: the same float32 sums, begun with another summand or in another order
EVERY_FORM = pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)

# -- where the backward pass is not the derivative, on purpose ---------------------------------------------------------


def _scaled(component, rows, derivative):
    return component.backprop_scale * derivative


def _clipped(component, rows, derivative):
    if component.norm_based_clipping:
        return derivative * np.minimum(1, component.clipping_threshold / np.linalg.norm(derivative, axis=1))[:, None]
    return np.clip(derivative, -component.clipping_threshold, component.clipping_threshold)


def _truncated(component, rows, derivative):
    size = np.linalg.norm(derivative, axis=1)
    factor = np.minimum(1, (component.clipping_threshold or np.inf) / size)
    factor[(rows.indexes.zeroing != 0) & (size > (component.zeroing_threshold or np.inf))] = 0
    return factor[:, None] * derivative


def _without_masks(component, rows, derivative):
    derivative[:, 5 * component.cell_dim:] = 0
    return derivative


def _without_counts(component, rows, derivative):
    derivative[:, 0] = 0
    return derivative


# type -> (reason, what Kaldi's backward pass gives where the derivative is ``derivative``)
NOT_THE_DERIVATIVE = {
    "NoOpComponent": ("backprop-scale multiplies derivatives only", _scaled),
    "ClipGradientComponent": ("derivatives are clipped by element or by norm", _clipped),
    "BackpropTruncationComponent": ("rows are clipped, and large ones at boundaries zeroed", _truncated),
    "StatisticsPoolingComponent": ("nothing flows into the counts", _without_counts),
    "LstmNonlinearityComponent": ("nothing flows into the dropout masks", _without_masks),
}


def _no_lstm_repair(component):
    component.self_repair_config[NUM_GATES:] = 0


def _no_gru_repair(component):
    component.self_repair_scale = 0.0


# Self-repair adds a small term to the derivative. Most types begin without it (no scale, or no statistics); these begin
# with it, so it is switched off here. What it adds is tested with each type's other tests.
SELF_REPAIR_OFF = {
    "LstmNonlinearityComponent": _no_lstm_repair,
    "GruNonlinearityComponent": _no_gru_repair,
    "OutputGruNonlinearityComponent": _no_gru_repair,
}
# DropoutComponent finds its mask as y / x, so where x is 0 the derivative passes; inputs here are never 0.


def made(type_name: str, line: str) -> Component:
    """The form with moved parameters, and without self-repair."""
    component = make_trained(type_name, line)
    for part in parts(component):
        SELF_REPAIR_OFF.get(type(part).__name__, lambda part: None)(part)
    return component


def expected_backward(component, rows, derivative):
    _, change = NOT_THE_DERIVATIVE.get(type(component).__name__, ("", lambda component, rows, derivative: derivative))
    return change(component, rows, derivative)


def assert_close(found, expected, tolerance, what):
    """Equal within ``tolerance`` of the largest expected value, or of 1."""
    largest = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest, err_msg=what)


@pytest.fixture
def cpu(monkeypatch):
    ops = get_ops("cpu")
    monkeypatch.setattr(ops, "random", ops.random)      # passes set their own
    return ops


def test_every_type_is_tested():
    assert set(CONFIGS) == set(COMPONENT_MODULES) and all(CONFIGS.values())
    assert set(NOT_THE_DERIVATIVE) | set(SELF_REPAIR_OFF) <= set(CONFIGS)


@EVERY_FORM
def test_every_form_is_tested_on_several_rows(type_name, line):
    """Components that look at indexes meet several sequences, single frames, missing frames and frames in steps."""
    component = made(type_name, line)
    assert type(component) is component_class(type_name)
    names = {rows.name for rows in row_patterns(component)}
    if component.has(Properties.SIMPLE):
        assert names == {"simple"}
    else:
        assert names >= {"frames", "one", "subsampled", "edges"} and names <= set(PATTERNS)


@EVERY_FORM
def test_derivatives(type_name, line):
    """By the input and by every parameter, in float64."""
    component = in_float64(made(type_name, line))
    for rows in row_patterns(component):
        run = Pass(NumpyOps(np.float64), component, rows)
        x, dy = run.inputs(), run.outputs()

        def objective(run=run, x=x, dy=dy):
            return float((run.forward(x, np.zeros_like(dy)) * dy).sum())

        y, gradient = run.forward(x, np.zeros_like(dy)), as_gradient(component)
        dx = run.backward(x, y, dy, np.zeros_like(x), gradient)
        expected = expected_backward(component, rows, numeric_gradient(objective, x))
        assert_close(dx, expected, FINITE_DIFFERENCE, f"{rows.name}: input")
        for (name, found), parameter in zip(gradient.parameters().items(), component.parameters().values(),
                                            strict=True):
            assert_close(found, numeric_gradient(objective, parameter), FINITE_DIFFERENCE, f"{rows.name}: {name}")


@EVERY_FORM
def test_kernels(type_name, line, cpu):
    """The float32 kernels give what the float64 reference gives."""
    component = made(type_name, line)
    for rows in row_patterns(component):
        exact = Pass(NumpyOps(np.float64), in_float64(component), rows)
        run = Pass(cpu, component, rows)
        wanted, found = (_results(one, dtype) for one, dtype in ((exact, np.float64), (run, np.float32)))
        assert list(found) == list(wanted)
        for name, value in found.items():
            assert value.dtype == np.float32
            assert_close(value, wanted[name], FLOAT32, f"{rows.name}: {name}")


def _results(run: Pass, dtype) -> dict[str, np.ndarray]:
    """Output, input derivative and parameter gradients of one pass."""
    x, dy, gradient = run.inputs(dtype), run.outputs(dtype), as_gradient(run.component)
    y = run.forward(x, np.zeros_like(dy))
    return {"y": y, "dx": run.backward(x, y, dy, np.zeros_like(x), gradient), **gradient.parameters()}


@EVERY_FORM
def test_adds_or_sets(type_name, line, cpu):
    """With PROPAGATE_ADDS and BACKPROP_ADDS what was there stays as a summand, without them it does not matter."""
    component = made(type_name, line)
    for rows in row_patterns(component):
        run = Pass(cpu, component, rows)
        x, dy = run.inputs(np.float32), run.outputs(np.float32)
        y = run.forward(x, np.zeros_like(dy))
        before = run.outputs(np.float32, seed=2)
        if component.has(Properties.PROPAGATE_ADDS):
            assert_close(run.forward(x, before.copy()), before + y, SAME, rows.name)
        else:
            np.testing.assert_array_equal(run.forward(x, np.full_like(dy, np.nan)), y, rows.name)
        dx = run.backward(x, y, dy, np.zeros_like(x))
        before = run.inputs(np.float32, seed=2)
        if component.has(Properties.BACKPROP_ADDS):
            assert_close(run.backward(x, y, dy, before.copy()), before + dx, SAME, rows.name)
        else:
            np.testing.assert_array_equal(run.backward(x, y, dy, np.full_like(x, np.nan)), dx, rows.name)


@EVERY_FORM
def test_in_place(type_name, line, cpu):
    """With PROPAGATE_IN_PLACE and BACKPROP_IN_PLACE the same numbers come out where the input or derivative stood."""
    component = made(type_name, line)
    for rows in row_patterns(component):
        run = Pass(cpu, component, rows)
        x, dy = run.inputs(np.float32), run.outputs(np.float32)
        y = run.forward(x, np.zeros_like(dy))
        if component.has(Properties.PROPAGATE_IN_PLACE):
            place = x.copy()
            assert_close(run.forward(place, place), y, SAME, rows.name)
        if component.has(Properties.BACKPROP_IN_PLACE):
            apart, together = as_gradient(component), as_gradient(component)
            dx, place = run.backward(x, y, dy, np.zeros_like(x), apart), dy.copy()
            assert_close(run.backward(x, y, place, place, together), dx, SAME, rows.name)
            assert_same_arrays(together, apart, rows.name)


@EVERY_FORM
def test_rows_apart_in_memory(type_name, line, cpu):
    """Unless the flags ask for contiguous matrices, rows may stand apart; what stands between them stays."""
    component = made(type_name, line)
    for rows in row_patterns(component):
        run = Pass(cpu, component, rows)
        x, dy = run.inputs(np.float32), run.outputs(np.float32)
        y = run.forward(x, np.zeros_like(dy))
        wanted = as_gradient(component)
        dx = run.backward(x, y, dy, np.zeros_like(x), wanted)
        spread_in = np.asarray if component.has(Properties.INPUT_CONTIGUOUS) else _apart
        spread_out = np.asarray if component.has(Properties.OUTPUT_CONTIGUOUS) else _apart
        x, dy, found = spread_in(x), spread_out(dy), as_gradient(component)
        result = run.forward(x, spread_out(np.zeros_like(y)))
        assert_close(result, y, SAME, rows.name)
        deriv = run.backward(x, result, dy, spread_in(np.zeros_like(dx)), found)
        assert_close(deriv, dx, SAME, rows.name)
        for name, value in found.parameters().items():
            assert_close(value, wanted.parameters()[name], SAME, f"{rows.name}: {name}")
        for matrix in (x, dy, result, deriv):
            if matrix.base is not None and matrix.base.shape != matrix.shape:
                assert np.isnan(matrix.base[:, :2]).all() and np.isnan(matrix.base[:, 2 + matrix.shape[1]:]).all()


def _apart(matrix: np.ndarray) -> np.ndarray:
    """The same matrix as a part of a wider one full of NaN."""
    whole = np.full((matrix.shape[0], matrix.shape[1] + 5), np.nan, matrix.dtype)
    view = whole[:, 2:2 + matrix.shape[1]]
    view[...] = matrix
    return view


@EVERY_FORM
def test_without_a_derivative_and_without_an_update(type_name, line, cpu):
    """Either half of a backward pass can be left out; the other half gives the same, and no argument changes."""
    component = made(type_name, line)
    for rows in row_patterns(component):
        run = Pass(cpu, component, rows)
        x, dy = run.inputs(np.float32), run.outputs(np.float32)
        y, both = run.forward(x, np.zeros_like(dy)), as_gradient(component)
        given = [matrix.copy() for matrix in (x, y, dy)]
        dx = run.backward(x, y, dy, np.zeros_like(x), both)
        before = {name: value.copy() for name, value in arrays(component).items()}
        np.testing.assert_array_equal(run.backward(x, y, dy, np.zeros_like(x)), dx, rows.name)
        only = as_gradient(component)
        assert run.backward(x, y, dy, None, only) is None
        for name, value in only.parameters().items():
            np.testing.assert_array_equal(value, both.parameters()[name], f"{rows.name}: {name}")
        assert run.backward(x, y, dy, None) is None
        for name, value in arrays(component).items():
            np.testing.assert_array_equal(value, before[name], name)
        for matrix, copy in zip((x, y, dy), given, strict=True):
            np.testing.assert_array_equal(matrix, copy, rows.name)


def assert_same_arrays(found: Component, expected: Component, what: str) -> None:
    wanted = arrays(expected)
    for name, value in arrays(found).items():
        np.testing.assert_array_equal(value, wanted[name], f"{what}: {name}")
