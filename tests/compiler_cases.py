"""Networks and requests for the compiler's tests, run in memory in which whatever nobody has written is NaN."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

import nnet3py.runtime.computer as computer_module
from nnet3py.compiler.computation import SIZING, Command, CommandType, Computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.binding import BoundComputation
from nnet3py.runtime.calls import Call

CASES = DATA / "compiler"
ROUNDING = 2e-5      # float32 sums of some tens of terms
# Types whose backward commands take statistics or not, as drawn for each; consolidating them changes their number.
SAMPLED = frozenset(("GruNonlinearityComponent", "OutputGruNonlinearityComponent"))


def product(sequences: Iterable[int], times: Iterable[int], x: int = 0) -> np.ndarray:
    """int32 (rows, 3): all times of the first sequence, then of the next."""
    return np.array([(n, t, x) for n in sequences for t in times], np.int32).reshape(-1, 3)


def request(inputs: np.ndarray, outputs: np.ndarray, train: bool = False,
            input_deriv: bool = False) -> ComputationRequest:
    """A request for ``output`` from ``input``."""
    return ComputationRequest([IoSpecification("input", inputs, input_deriv)],
                              [IoSpecification("output", outputs, train or input_deriv)], train, train)


def read_request(path: Path) -> ComputationRequest:
    """A recorded request."""
    ios: dict[str, list[IoSpecification]] = {"input": [], "output": []}
    flags = {}
    for line in path.read_text().splitlines():
        if line.startswith(("input ", "output ")):
            kind, name, deriv, *rows = line.split()
            ios[kind].append(IoSpecification(name, np.array([row.split(",") for row in rows]).astype(np.int32),
                                             deriv.endswith("1")))
        elif "=" in line:
            name, value = line.split("=")
            flags[name] = value == "1"
    return ComputationRequest(ios["input"], ios["output"], **flags)


def recorded_case(name: str) -> tuple[Nnet, ComputationRequest, str]:
    """A network, a request, and Kaldi's unoptimized listing for them."""
    folder = CASES / name
    return (Nnet.from_config((folder / "config.txt").read_text()), read_request(folder / "request.txt"),
            (folder / "computation-unoptimized.txt").read_text())


def recorded_names() -> list[str]:
    """The cases that lie beside the tests."""
    return sorted(folder.name for folder in CASES.iterdir())


TDNN = """
input-node name=input dim=2
component name=a type=NaturalGradientAffineComponent input-dim=6 output-dim=3
component name=r type=RectifiedLinearComponent dim=3
component name=b type=NaturalGradientAffineComponent input-dim=6 output-dim=2
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 2))
component-node name=r component=r input=a
component-node name=b component=b input=Append(Offset(r, -3), r)
output-node name=output input=b
"""

RNN = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=7 output-dim=4
component name=t type=TanhComponent dim=4
component-node name=a component=a input=Append(input, IfDefined(Offset(t, -1)))
component-node name=t component=t input=a
output-node name=output input=t
"""


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


def run(nnet: Nnet, computation: Computation, asked: ComputationRequest) -> dict[str, np.ndarray]:
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


def assert_same_results(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Equal outputs and derivatives but for rounding: sums may be taken in another order."""
    assert first.keys() == second.keys()
    for name in (name for name in first if not name.startswith("statistics")):
        value = first[name]
        allowed = ROUNDING * (1 + np.abs(value).max(initial=0))
        np.testing.assert_allclose(second[name], value, rtol=ROUNDING, atol=allowed, err_msg=name)
