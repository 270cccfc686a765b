"""Values of component nodes among a request's inputs: what was computed before continues, as in one computation."""
from __future__ import annotations

import numpy as np
import pytest
from equivalence import ALL, MERGES, NONE, SIDES, only, without
from runtime_cases import LSTM, TDNN, assert_close, grid, parameters
from thinned import thinned

from nnet3py.compiler import compile
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_computation, check_loaded
from nnet3py.compiler.generate import generate_computation, generate_segments
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.optimize.passes import optimization_steps
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import Nnet3Error, NotComputableError, ShapeError
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer import Computer

RNN = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=5 learning-rate=0.1
component name=t type=TanhComponent dim=5
component name=b type=BatchNormComponent dim=5 test-mode=true
component name=o type=AffineComponent input-dim=5 output-dim=2 learning-rate=0.1
component-node name=a component=a input=Append(Offset(input, 1), IfDefined(Offset(t, -1)))
component-node name=t component=t input=a
component-node name=b component=b input=t
component-node name=o component=o input=b
output-node name=output input=o
"""
# A recurrence over three frames with a component that is not simple, whose states are wanted at several times.
TDNN_RNN = """
input-node name=input dim=3
component name=d type=TdnnComponent input-dim=6 output-dim=4 time-offsets=-1,0 learning-rate=0.1
component name=t type=TanhComponent dim=4
dim-range-node name=half input-node=t dim-offset=1 dim=3
component-node name=d component=d input=Append(input, IfDefined(Offset(half, -3)))
component-node name=t component=t input=d
output-node name=output input=Sum(t, IfDefined(Offset(t, -1)))
"""
# Network, the node that is its state, how many frames of it are needed, frames of input to the left and to the right.
NETWORKS = {"rnn": (RNN, "t", 1, 0, 1), "lstm": (LSTM, "cell", 1, 0, 0), "tdnn-rnn": (TDNN_RNN, "t", 4, 1, 0)}
FRAMES, FIRST = 12, 5      # of each sequence, and those of its first part
OPTIMIZERS = {"none": NONE, "all": ALL, "merging": only(*MERGES, *SIDES), "no merging": without(*MERGES),
              "no zeroing": without("initialize_undefined"), "by rows": without("optimize_row_ops", "snip_row_ops")}


def network(name: str) -> Nnet:
    """The network, with its state for an output too."""
    text, state, *_ = NETWORKS[name]
    return Nnet.from_config(f"{text}output-node name=state input={state}\n", seed=2)


def frames(values: np.ndarray, times: range, first: int = 0) -> np.ndarray:
    """Rows of values (frames, sequences, dim), whose first is that of time ``first``, for ``grid``."""
    return values[times.start - first:times.stop - first].reshape(-1, values.shape[2])


class Part:
    """The computation of the outputs of some frames; with ``states`` those frames' states are given."""

    def __init__(self, nnet: Nnet, name: str, num_sequences: int, outputs: range, states: range | None = None,
                 deriv: bool = False, optimize: OptimizeOptions = ALL, shortcut: bool = True) -> None:
        _, state, _, left, right = NETWORKS[name]
        self.nnet, self.outputs, self.state, self.states = nnet, outputs, state, states
        self.inputs = range(outputs.start - left, outputs.stop + right)
        inputs = [IoSpecification("input", grid(num_sequences, self.inputs), deriv)]
        if states is not None:
            inputs.append(IoSpecification(state, grid(num_sequences, states), deriv))
        self.request = ComputationRequest(inputs, [IoSpecification(output, grid(num_sequences, outputs), deriv)
                                                   for output in ("output", "state")], deriv)
        self.gradient = nnet.as_gradient() if deriv else None
        self.computation = CachingCompiler(nnet, optimize, use_shortcut=shortcut).compile(self.request)
        check_computation(self.computation, nnet, thorough=True)
        check_loaded(self.computation, nnet, self.request)
        self.computer = Computer(self.computation, nnet, self.gradient)
        self.shape = -1, num_sequences

    def forward(self, x: np.ndarray, first: int, states: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The outputs and the states, (frames, sequences, dim)."""
        self.computer.accept_input("input", frames(x, self.inputs, first))
        if self.states is not None:
            self.computer.accept_input(self.state, states.reshape(-1, states.shape[2]))
        self.computer.run()
        return tuple(self.computer.output(name).reshape(len(self.outputs), self.shape[1], -1)
                     for name in ("output", "state"))

    def backward(self, output: np.ndarray, state: np.ndarray) -> dict[str, np.ndarray]:
        """The derivatives of the inputs."""
        for name, deriv in (("output", output), ("state", state)):
            self.computer.accept_input(name, deriv.reshape(-1, deriv.shape[2]))
        self.computer.run()
        return {io.name: self.computer.output(io.name).reshape(-1, self.shape[1], self.nnet.node_dim(
            self.nnet.node_index(io.name))) for io in self.request.inputs}


def features(num_sequences: int, name: str) -> tuple[np.ndarray, int]:
    """Random input of all frames and their context, (frames, sequences, 3), and the time of the first."""
    _, _, _, left, right = NETWORKS[name]
    rng = np.random.default_rng(0)
    return rng.standard_normal((FRAMES + left + right, num_sequences, 3), dtype=np.float32), -left


@pytest.mark.parametrize(("name", "num_sequences", "optimizer"), thinned(NETWORKS, [1, 2, 5], OPTIMIZERS))
def test_a_recurrence_continues(name: str, num_sequences: int, optimizer: str) -> None:
    nnet, (x, first), how_many = network(name), features(num_sequences, name), NETWORKS[name][2]
    options = {"optimize": OPTIMIZERS[optimizer]}
    output, state = Part(nnet, name, num_sequences, range(FRAMES), **options).forward(x, first)
    before, kept = Part(nnet, name, num_sequences, range(FIRST), **options).forward(x, first)
    assert_close(before, output[:FIRST])
    for shortcut in (True, False):
        rest = Part(nnet, name, num_sequences, range(FIRST, FRAMES), range(FIRST - how_many, FIRST),
                    shortcut=shortcut, **options)
        found, found_state = rest.forward(x, first, kept[FIRST - how_many:])
        assert_close(found, output[FIRST:])
        assert_close(found_state, state[FIRST:])
    alone = Part(nnet, name, num_sequences, range(FIRST, FRAMES), **options).forward(x, first)[0]
    assert np.abs(alone - output[FIRST:]).max() > 0.01, "without the state something else comes out"


def test_a_stream_frame_by_frame() -> None:
    """One computation, run again and again, as decoding online would."""
    nnet, (x, first) = network("lstm"), features(1, "lstm")
    output, _ = Part(nnet, "lstm", 1, range(FRAMES)).forward(x, first)
    begin, go_on = Part(nnet, "lstm", 1, range(1)), Part(nnet, "lstm", 1, range(1, 2), range(1))
    found, state = begin.forward(x, first)
    for t in range(1, FRAMES):
        row, state = go_on.forward(x[t:t + 1], 1, state)
        found = np.concatenate((found, row))
    assert_close(found, output)


@pytest.mark.parametrize(("name", "num_sequences", "optimizer"), thinned(NETWORKS, [1, 3], ["none", "all"]))
def test_derivatives_of_two_parts_are_those_of_the_whole(name: str, num_sequences: int, optimizer: str) -> None:
    """The second part's derivative of the given states goes to the first part's outputs: backpropagation in time."""
    nnet, (x, first), how_many = network(name), features(num_sequences, name), NETWORKS[name][2]
    options = {"deriv": True, "optimize": OPTIMIZERS[optimizer]}
    whole = Part(nnet, name, num_sequences, range(FRAMES), **options)
    output, state = whole.forward(x, first)
    rng = np.random.default_rng(1)
    d_output, d_state = (rng.standard_normal(one.shape, dtype=np.float32) for one in (output, state))
    expected = whole.backward(d_output, d_state)["input"]

    early = Part(nnet, name, num_sequences, range(FIRST), **options)
    late = Part(nnet, name, num_sequences, range(FIRST, FRAMES), range(FIRST - how_many, FIRST), **options)
    _, kept = early.forward(x, first)
    late.forward(x, first, kept[FIRST - how_many:])
    of_late = late.backward(d_output[FIRST:], d_state[FIRST:])
    d_early = d_state[:FIRST].copy()
    d_early[FIRST - how_many:] += of_late[NETWORKS[name][1]]
    d_inputs = [np.zeros_like(x), np.zeros_like(x)]
    for part, derivs, total in ((early, early.backward(d_output[:FIRST], d_early), d_inputs[0]),
                                (late, of_late, d_inputs[1])):
        total[part.inputs.start - first:part.inputs.stop - first] = derivs["input"]
    if name == "tdnn-rnn":      # the output at FIRST reads the state before it directly, which is given, too
        assert np.abs(of_late["t"]).max() > 0
    assert_close(d_inputs[0] + d_inputs[1], expected, 1e-4)         # sums over all frames, in another order
    for key, value in parameters(whole.gradient).items():
        assert_close(parameters(early.gradient)[key] + parameters(late.gradient)[key], value, 1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_pass_leaves_a_sound_computation(name: str) -> None:
    nnet, how_many = network(name), NETWORKS[name][2]
    request = Part(nnet, name, 2, range(FIRST, FRAMES), range(FIRST - how_many, FIRST), deriv=True).request
    computation = generate_computation(nnet, request)
    check_computation(computation, nnet, check_rewrite=True, thorough=True)
    assert computation.describe(nnet) == generate_computation(nnet, request, share=False).describe(nnet)
    for after, optimized in optimization_steps(computation, nnet, OptimizeOptions()):
        check_computation(optimized, nnet, thorough=True, after=after)


def test_values_of_a_layer_are_not_computed_again() -> None:
    """Of a network without recurrence: what is given needs no input, and what is not given is computed."""
    nnet = Nnet.from_config(TDNN + "output-node name=hidden input=t\n")
    x = np.random.default_rng(0).standard_normal((30, 3), dtype=np.float32)

    def outputs(inputs: dict[str, tuple[range, np.ndarray]], names: dict[str, range]) -> list[np.ndarray]:
        request = ComputationRequest([IoSpecification(name, grid(1, times)) for name, (times, _) in inputs.items()],
                                     [IoSpecification(name, grid(1, times)) for name, times in names.items()])
        computation = compile(nnet, request)
        check_computation(computation, nnet, thorough=True)
        computer = Computer(computation, nnet)
        for name, (times, values) in inputs.items():
            computer.accept_input(name, values[times.start:times.stop])
        computer.run()
        return [computer.output(name) for name in names]

    expected, hidden = outputs({"input": (range(30), x)}, {"output": range(6, 20), "hidden": range(2, 28)})
    layer = np.concatenate((np.zeros((2, 5), np.float32), hidden))
    found, = outputs({"t": (range(2, 21), layer)}, {"output": range(6, 20)})
    assert_close(found, expected)
    found, same = outputs({"t": (range(2, 10), layer), "input": (range(9, 30), x)},
                          {"output": range(6, 20), "hidden": range(2, 21)})
    assert_close(found, expected)
    assert_close(same, hidden[:19])


def test_what_cannot_be_given() -> None:
    nnet = network("rnn")

    def ask(name: str, t: int = 0) -> ComputationRequest:
        return ComputationRequest([IoSpecification(name, [[0, 0, 0]])], [IoSpecification("output", [[0, t, 0]])])

    for name in ("nobody", "output", "a_input"):
        with pytest.raises(Nnet3Error, match=f"Network has no input with name {name}"):
            compile(nnet, ask(name))
    with pytest.raises(NotComputableError):
        compile(nnet, ask("t", 1))
    computer = Computer(compile(nnet, ask("t")), nnet)
    with pytest.raises(ShapeError, match="Num-cols mismatch for input 't': 5 in computation-request, 4 provided"):
        computer.accept_input("t", np.zeros((1, 4)))


def test_segments() -> None:
    """A computation of several requests, each of which is given the state of some frame before its own."""
    nnet, (x, first) = network("rnn"), features(1, "rnn")
    output, state = Part(nnet, "rnn", 1, range(FRAMES)).forward(x, first)
    requests = [ComputationRequest([IoSpecification("input", grid(1, inputs)), IoSpecification("t", grid(1, states))],
                                   [IoSpecification("output", grid(1, outputs))])
                for inputs, states, outputs in ((range(3, 6), range(2, 3), range(3, 5)),
                                                (range(8, 12), range(7, 8), range(8, 11)))]
    *_, (_, computation) = optimization_steps(generate_segments(nnet, requests), nnet, OptimizeOptions(), looped=True)
    check_computation(computation, nnet, thorough=True)
    computer = Computer(computation, nnet)
    for request in requests:
        for io in request.inputs:
            computer.accept_input(io.name, (x if io.name == "input" else state)[io.indexes[:, 1], 0])
        computer.run()
        assert_close(computer.output("output"), output[request.outputs[0].indexes[:, 1], 0])
