"""Networks and requests for the compiler's tests."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from paths import DATA

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet

CASES = DATA / "compiler"
ROUNDING = 2e-5      # float32 sums of some tens of terms


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


def run(nnet: Nnet, computation: Computation, asked: ComputationRequest) -> dict[str, np.ndarray]:
    """Run a computation on random matrices (fixed seed): outputs, input derivatives and parameter gradients by name."""
    from nnet3py.runtime.computer import Computer

    rng = np.random.default_rng(3)
    gradient = nnet.as_gradient() if asked.need_model_derivative else None
    computer = Computer(computation, nnet, update=gradient)
    given = {io.name: rng.standard_normal((len(io.indexes), nnet.node_dim(nnet.node_index(io.name)))).astype(np.float32)
             for io in (*asked.inputs, *asked.outputs)}
    for io in asked.inputs:
        computer.accept_input(io.name, given[io.name])
    computer.run()
    found = {f"output {io.name}": computer.output(io.name) for io in asked.outputs}
    if asked.needs_derivatives():
        for io in asked.outputs:
            if io.has_deriv:
                computer.accept_input(io.name, given[io.name])
        computer.run()
        found |= {f"deriv {io.name}": computer.output(io.name) for io in asked.inputs if io.has_deriv}
    if gradient is not None:
        for name in gradient.component_names:
            found |= {f"gradient {name}.{key}": value for key, value in gradient.component(name).parameters().items()}
    return found


def assert_same_results(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """Equal but for rounding: sums may be taken in another order."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        allowed = ROUNDING * (1 + np.abs(value).max(initial=0))
        np.testing.assert_allclose(second[name], value, rtol=ROUNDING, atol=allowed, err_msg=name)
