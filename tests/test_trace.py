"""nnet3py/runtime/trace.py: the log of a computation, command by command."""
from __future__ import annotations

import logging
import re

import numpy as np

import nnet3py
from nnet3py.ops import get_ops
from nnet3py.runtime import trace
from nnet3py.runtime.computer import Computer

CONFIG = """
input-node name=input dim=3
component name=r type=RectifiedLinearComponent dim=4
component name=a type=AffineComponent input-dim=6 output-dim=4
component-node name=a component=a input=Append(input, Offset(input, 1))
component-node name=r component=r input=a
output-node name=output input=r
"""


def run_with_debug(caplog, debug: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
    nnet = nnet3py.Nnet.from_config(CONFIG, seed=3)
    t = np.arange(5)
    indexes = np.stack([0 * t, t, 0 * t], axis=1)
    request = nnet3py.ComputationRequest([nnet3py.IoSpecification("input", indexes, has_deriv=True)],
                                         [nnet3py.IoSpecification("output", indexes[:4], has_deriv=True)],
                                         need_model_derivative=True)
    gradient = nnet.as_gradient()
    computer = Computer(nnet3py.compile(nnet, request), nnet, update=gradient, debug=debug)
    with caplog.at_level(logging.INFO, logger="nnet3py.runtime.trace"):
        computer.accept_input("input", np.random.default_rng(1).standard_normal((5, 3)))
        computer.run()
        output = computer.output("output")
        computer.accept_input("output", np.ones((4, 4)))
        computer.run()
    return output, computer.output("input"), [record.getMessage() for record in caplog.records]


def test_a_line_for_each_command_with_sizes_before_and_after(caplog):
    _, _, lines = run_with_debug(caplog, debug=True)
    traced = [line for line in lines if re.match(r"c\d+: ", line)]
    assert any("a.Propagate(" in line for line in traced) and any("a.Backprop(" in line for line in traced)
    for line in traced:
        command, changes, elapsed = line.split("\t|\t")
        assert command and re.fullmatch(r"(\S+(, \S+)?: \S+->\S+ ?)+", changes)
        assert re.fullmatch(r" time: \S+ secs", elapsed)
    parts = [line for line in traced if re.search(r"m\d+\(", line.split("\t|\t")[1])]
    assert parts and len(parts) < len(traced)
    for line in parts:                    # of a part, the whole matrix and the part; else the matrix only
        assert re.search(r"(^|, | )m(\d+): \S+ m\2\([0-9:]+, [0-9:]+\): ", line.split("\t|\t")[1])
    update = next(line for line in traced if "[component-pointer]" in line and line.split(": ", 1)[1].startswith("a."))
    assert re.search(r" a: 0->[0-9.e-]+", update) or re.search(r"\ta: 0->[0-9.e-]+", update)


def test_results_do_not_depend_on_it(caplog):
    output, deriv, _ = run_with_debug(caplog, debug=True)
    plain_output, plain_deriv, _ = run_with_debug(caplog, debug=False)
    np.testing.assert_array_equal(output, plain_output)
    np.testing.assert_array_equal(deriv, plain_deriv)


def test_what_a_matrix_holds_before_it_is_set_does_not_disturb():
    """A matrix that is only allocated holds whatever was in memory: here, what makes squaring complain."""
    signaling_nan = 0x7F800001
    value = np.full((2, 3), signaling_nan, np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(trace._rms(get_ops("cpu"), value))
