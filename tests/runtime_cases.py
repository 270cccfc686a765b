"""Small networks, requests and examples for the tests of the runtime and of training."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler import compile
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.egs.example import NnetExample, NnetIo
from nnet3py.formats.general import SparseMatrix
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer

ROUNDING = 2e-5       # float32 sums of some tens of terms, as a fraction of the largest value

# The derivative of everything is smooth here, so that finite differences mean something.
TDNN = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=9 output-dim=5 learning-rate=0.1
component name=t type=TanhComponent dim=5
component name=b type=AffineComponent input-dim=10 output-dim=4 learning-rate=0.1
component name=s type=SigmoidComponent dim=4
component name=c type=AffineComponent input-dim=8 output-dim=4 learning-rate=0.1
component name=l type=LogSoftmaxComponent dim=4
component-node name=a component=a input=Append(Offset(input, -1), input, Offset(input, 2))
component-node name=t component=t input=a
component-node name=b component=b input=Append(Offset(t, -3), t)
component-node name=s component=s input=b
component-node name=c component=c input=Append(Offset(s, -1), Offset(s, 1))
component-node name=l component=l input=c
output-node name=output input=l
"""
TDNN_CONTEXT = (5, 3)

LSTM = """
input-node name=input dim=3
component name=gates type=AffineComponent input-dim=5 output-dim=8 learning-rate=0.1
component name=cell type=LstmNonlinearityComponent cell-dim=2 use-dropout=false learning-rate=0.1
component name=out type=AffineComponent input-dim=2 output-dim=3 learning-rate=0.1
component-node name=gates component=gates input=Append(input, IfDefined(Offset(m, -1)))
component-node name=cell component=cell input=Append(gates, IfDefined(Offset(c, -1)))
dim-range-node name=c input-node=cell dim-offset=0 dim=2
dim-range-node name=m input-node=cell dim-offset=2 dim=2
component-node name=out component=out input=m
output-node name=output input=out
"""

# One matrix and a bias, without natural gradient: what training does to it can be written in a few lines.
PLAIN = """
input-node name=input dim=3
component name=a type=AffineComponent input-dim=3 output-dim=4 learning-rate=0.05 {settings}
component-node name=a component=a input=input
output-node name=output input=a objective={objective}
"""


def plain(settings: str = "", objective: str = "quadratic") -> Nnet:
    """The affine network, always with the same parameters."""
    return Nnet.from_config(PLAIN.format(settings=settings, objective=objective), seed=1)


def grid(num_sequences: int, times: range) -> np.ndarray:
    """int32 (rows, 3): for each time all sequences."""
    return np.array([(n, t, 0) for t in times for n in range(num_sequences)], dtype=np.int32)


def training_request(num_sequences: int = 2, inputs: range = range(-6, 8), outputs: range = range(4),
                     input_deriv: bool = True, model_deriv: bool = True) -> ComputationRequest:
    """A forward and a backward pass over some frames of some sequences."""
    has_deriv = input_deriv or model_deriv
    return ComputationRequest([IoSpecification("input", grid(num_sequences, inputs), input_deriv)],
                              [IoSpecification("output", grid(num_sequences, outputs), has_deriv)], model_deriv, False)


def forward_request(num_sequences: int = 2, inputs: range = range(-6, 8),
                    outputs: range = range(4)) -> ComputationRequest:
    """Only a forward pass."""
    return training_request(num_sequences, inputs, outputs, False, False)


def matrices_for(nnet: Nnet, request: ComputationRequest, seed: int = 0) -> dict[str, np.ndarray]:
    """A random matrix for each input and, as its derivative, for each output."""
    rng = np.random.default_rng(seed)
    return {io.name: rng.standard_normal((len(io.indexes), nnet.node_dim(nnet.node_index(io.name))), dtype=np.float32)
            for io in (*request.inputs, *request.outputs)}


def run_both(computer: Computer, given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A pass forward and back of a computation with ``input`` and ``output``: the output and the input's derivative."""
    computer.accept_input("input", given["input"])
    computer.run()
    output = computer.output("output")
    computer.accept_input("output", given["output"])
    computer.run()
    return output, computer.output("input")


def computer_for(nnet: Nnet, request: ComputationRequest, update: Nnet | None = None, **options: object) -> Computer:
    """A compiled and bound computation."""
    return Computer(compile(nnet, request), nnet, update=update, **options)   # type: ignore[arg-type]


def parameters(nnet: Nnet) -> dict[str, np.ndarray]:
    """Copies of all parameters, as ``component.name``."""
    return {f"{name}.{key}": value.copy() for name in nnet.component_names
            for key, value in nnet.component(name).parameters().items()}


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float = ROUNDING) -> None:
    """Equal shapes, and equal values to within a fraction of the largest."""
    assert found.shape == expected.shape
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
    assert float(np.abs(found - expected).max(initial=0.0)) <= tolerance * scale


def dense_example(num_sequences: int = 3, frames: int = 2, in_dim: int = 3, out_dim: int = 4, seed: int = 0,
                  left: int = 0, right: int = 0) -> NnetExample:
    """Random features and random dense targets."""
    rng = np.random.default_rng(seed)
    inputs, outputs = grid(num_sequences, range(-left, frames + right)), grid(num_sequences, range(frames))
    return NnetExample([
        NnetIo("input", inputs, rng.standard_normal((len(inputs), in_dim), dtype=np.float32)),
        NnetIo("output", outputs, rng.standard_normal((len(outputs), out_dim), dtype=np.float32))])


def class_example(num_sequences: int = 3, frames: int = 2, in_dim: int = 3, out_dim: int = 4, seed: int = 0,
                  left: int = 0, right: int = 0) -> NnetExample:
    """Random features and one random class for each output frame, as sparse supervision."""
    eg = dense_example(num_sequences, frames, in_dim, out_dim, seed, left, right)
    classes = np.random.default_rng(seed + 1).integers(0, out_dim, len(eg.io[1].indexes))
    eg.io[1].features = SparseMatrix.from_rows([[(int(c), 1.0)] for c in classes], out_dim)
    return eg
