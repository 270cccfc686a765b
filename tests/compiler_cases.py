"""Networks and requests for the compiler's tests."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.network.nnet import Nnet
from paths import DATA

CASES = DATA / "compiler"


def product(sequences: Iterable[int], times: Iterable[int], x: int = 0) -> np.ndarray:
    """int32 (rows, 3): all times of the first sequence, then of the next."""
    return np.array([(n, t, x) for n in sequences for t in times], np.int32).reshape(-1, 3)


def request(inputs: np.ndarray, outputs: np.ndarray, train: bool = False, input_deriv: bool = False) -> ComputationRequest:
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
    """A network, a request, and Kaldi's unoptimised listing for them."""
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
