"""Networks and requests of every kind that the compiler treats in its own way, by number.

``case(number)`` has one layer of the kind ``KINDS[number % len(KINDS)]`` among others drawn at random, and a request
that its network can compute.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from random_networks import few_waves

from nnet3py.compiler.computation import Computation
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.errors import CompileError, DescriptorError, NotComputableError
from nnet3py.network.nnet import Nnet

DIM = 4              # of every node that others read
MOST_COMMANDS = 400  # larger computations are drawn again: they take longer and show nothing more

# What may follow an affine component, with DIM inputs and outputs: flags for in-place work, memos, adding, statistics.
ELEMENTWISE = [
    f"type=RectifiedLinearComponent dim={DIM}", f"type=SigmoidComponent dim={DIM}", f"type=TanhComponent dim={DIM}",
    f"type=NoOpComponent dim={DIM}", f"type=NoOpComponent dim={DIM} backprop-scale=0.5",
    f"type=LogSoftmaxComponent dim={DIM}", f"type=SoftmaxComponent dim={DIM}",
    f"type=BatchNormComponent dim={DIM}", f"type=BatchNormComponent dim={DIM} block-dim=2",
    f"type=NormalizeComponent dim={DIM} target-rms=0.5", f"type=DropoutComponent dim={DIM} dropout-proportion=0.25",
    f"type=GeneralDropoutComponent dim={DIM} time-period=2",
    f"type=SpecAugmentTimeMaskComponent dim={DIM} zeroed-proportion=0.25 time-mask-max-frames=2",
    f"type=ClipGradientComponent dim={DIM} clipping-threshold=1", f"type=ScaleAndOffsetComponent dim={DIM}",
    f"type=PerElementScaleComponent dim={DIM}", f"type=PerElementOffsetComponent dim={DIM} block-dim=2",
    f"type=FixedScaleComponent dim={DIM}", f"type=FixedBiasComponent dim={DIM}",
    "type=PermuteComponent column-map=2,0,3,1",
    f"type=LinearComponent input-dim={DIM} output-dim={DIM}",
    f"type=CompositeComponent num-components=2 component1='type=AffineComponent input-dim={DIM} output-dim=3' "
    f"component2='type=NaturalGradientAffineComponent input-dim=3 output-dim={DIM}'",
    f"type=PnormComponent input-dim={DIM} output-dim={DIM}"]


class Builder:
    """Config lines, and the nodes of DIM columns that further nodes may read."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines = [f"input-node name=input dim={DIM}"]
        self.usable = ["input"]
        self.components: list[str] = []
        self.x_values = 1           # how many values of x outputs are wanted at
        self.ivector_period = 0     # of a second input, 0: there is none
        self.wanted = ""            # the last node of the layer for which the case is made
        self.count = 0

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def shift(self) -> int:
        return int(self.rng.integers(-3, 4))

    # -- descriptors -----------------------------------------------------------------------------------------------

    def leaf(self) -> str:
        name = self.pick(self.usable[-1], self.usable[-1], *self.usable[-3:], self.usable[0])
        kind = self.pick("node", "offset", "offset", "offset", "round", "switch", "scale", "replace")
        if kind == "offset":
            return f"Offset({name}, {self.shift()})"
        if kind == "round":
            return f"Offset(Round({name}, 2), {self.pick(0, 1)})"
        if kind == "switch":
            return f"Switch({name}, Offset({self.pick(*self.usable)}, {self.shift()}))"
        if kind == "scale":
            return f"Scale({self.pick(-1.0, 0.5)}, {name})"
        if kind == "replace" and self.chance(0.3):
            return f"ReplaceIndex({name}, t, {self.pick(0, 1)})"
        return name

    def part(self) -> str:
        """DIM columns."""
        kind = self.pick("leaf", "leaf", "sum", "sum3", "failover", "optional", "constant")
        first = self.leaf()
        if kind == "sum":
            return f"Sum({first}, {self.leaf()})"
        if kind == "sum3":
            return f"Sum({first}, {self.leaf()}, {self.leaf()})"
        if kind == "failover":
            return f"Failover(Offset({self.pick(*self.usable)}, {self.pick(-6, 6)}), {first})"
        if kind == "optional":
            return f"Sum({first}, IfDefined(Offset({self.pick(*self.usable)}, {self.pick(-5, 5)})))"
        if kind == "constant":
            return f"Sum({first}, Const(0.5, {DIM}))"
        return first

    def parts(self, most: int = 3) -> list[str]:
        return [self.part() for _ in range(int(self.rng.integers(1, most + 1)))]

    # -- nodes -----------------------------------------------------------------------------------------------------

    def node(self, component: str, text: str, name: str = "") -> str:
        """A component of its own and its node."""
        self.count += 1
        name = name or f"c{self.count}"
        self.lines.append(f"component name={name} {component}")
        self.lines.append(f"component-node name={name} component={name} input={text}")
        return name

    def affine(self, parts: list[str], extra_dim: int = 0, output_dim: int = DIM, name: str = "") -> str:
        """A trained map of the parts, of DIM columns each, and of ``extra_dim`` in the last."""
        input_dim = DIM * (len(parts) - bool(extra_dim)) + extra_dim
        kind = self.pick("AffineComponent", "NaturalGradientAffineComponent", "LinearComponent")
        text = parts[0] if len(parts) == 1 else f"Append({', '.join(parts)})"
        rate = self.pick("", "", "", " learning-rate=0")
        return self.node(f"type={kind} input-dim={input_dim} output-dim={output_dim}{rate}", text, name)

    def chain(self, name: str) -> str:
        """None to two elementwise components behind a node."""
        for _ in range(self.pick(0, 1, 1, 2)):
            name = self.node(self.pick(*ELEMENTWISE), name)
        return name

    def tdnn_layer(self) -> str:
        return self.chain(self.affine(self.parts()))

    def tdnn_component(self) -> str:
        offsets = self.pick("-1,0,1", "-3,0", "0,2", "0")
        return self.chain(self.node(f"type=TdnnComponent input-dim={DIM} output-dim={DIM} time-offsets={offsets} "
                                    f"use-bias={self.pick('true', 'false')}", self.part()))

    def recurrent(self) -> str:
        delays = self.pick((-1,), (-1,), (-2,), (1,), (-3,))
        return self._recurrence(delays)

    def clockwork(self) -> str:
        return self._recurrence(self.pick((-1, -3), (-1, -2), (-2, -3), (1, 3)))

    def _recurrence(self, delays: tuple[int, ...]) -> str:
        self.count += 1
        state = f"r{self.count}"
        back = [f"IfDefined(Offset({state}, {delay}))" for delay in delays]
        if len(back) > 1 and self.chance(0.4):
            back = [f"Sum({back[0]}, {back[1]})"]
        last = self.affine([*self.parts(2), *back])
        if self.chance(0.4):
            last = self.node(f"type=BackpropTruncationComponent dim={DIM} clipping-threshold=1 zeroing-interval=2",
                             last)
        return self.node(f"type={self.pick('Tanh', 'Sigmoid')}Component dim={DIM}", last, state)

    def lstm(self) -> str:
        half = DIM // 2
        self.count += 1
        cell = f"l{self.count}"
        delay = self.pick(-1, -1, -2, 1)
        gates = self.affine([*self.parts(2), f"IfDefined(Offset({cell}m, {delay}))"], half, 4 * half)
        self.node(f"type=LstmNonlinearityComponent cell-dim={half}",
                  f"Append({gates}, IfDefined(Offset({cell}c, {delay})))", cell)
        self.lines += [f"dim-range-node name={cell}c input-node={cell} dim-offset=0 dim={half}",
                       f"dim-range-node name={cell}m input-node={cell} dim-offset={half} dim={half}"]
        return self.chain(cell)

    def gru(self) -> str:
        half = DIM // 2
        self.count += 1
        cell = f"g{self.count}"
        gates = self.affine(self.parts(2), output_dim=3 * half)
        # Self-repair goes by what is drawn for each backward command, and consolidating them changes their number.
        self.node(f"type=GruNonlinearityComponent cell-dim={half} self-repair-scale=0",
                  f"Append({gates}, IfDefined(Offset({cell}c, -1)))", cell)
        self.lines.append(f"dim-range-node name={cell}c input-node={cell} dim-offset={half} dim={half}")
        return self.chain(cell)

    def convolution(self) -> str:
        offsets = self.pick("time-offsets=-1,0,1", "time-offsets=-3,0,3 required-time-offsets=0", "time-offsets=0,1",
                            "time-offsets=-1,0 required-time-offsets=0")
        before = self.affine(self.parts(2))
        name = self.node("type=TimeHeightConvolutionComponent num-filters-in=2 num-filters-out=2 height-in=2 "
                         f"height-out=2 height-offsets=-1,0,1 {offsets}", self.pick(before, self.part()))
        return self.chain(name)

    def pooling(self) -> str:
        period, squares = self.pick(1, 2, 3), self.pick("true", "false")
        dim = 1 + (2 if squares == "true" else 1) * DIM
        sums = self.node(f"type=StatisticsExtractionComponent input-dim={DIM} output-period={period} "
                         f"include-variance={squares}", self.part())
        log_counts = self.pick(0, 1, 2)
        pooled = self.node(f"type=StatisticsPoolingComponent input-dim={dim} input-period={period} "
                           f"left-context={2 * period} right-context={period} num-log-count-features={log_counts} "
                           f"output-stddevs={squares} variance-floor=0.5", sums)
        read = f"Round({pooled}, {period})" if period > 1 else pooled
        return self.chain(self.affine([self.part(), read], dim - 1 + log_counts))

    def attention(self) -> str:
        heads, key, value, left, right = self.pick((1, 2, 2, 1, 1), (2, 1, 2, 1, 0))
        positions = left + right + 1
        columns = heads * (2 * key + value + positions)
        context = self.pick("true", "false")
        before = self.affine(self.parts(2), output_dim=columns)
        required = self.pick("", " num-left-inputs-required=0 num-right-inputs-required=0")
        attended = self.node(f"type=RestrictedAttentionComponent num-heads={heads} key-dim={key} value-dim={value} "
                             f"num-left-inputs={left} num-right-inputs={right} time-stride={self.pick(1, 2)} "
                             f"output-context={context}{required}", before)
        return self.chain(self.affine([attended], heads * (value + (positions if context == "true" else 0))))

    def ivector(self) -> str:
        if not self.ivector_period:
            self.ivector_period = self.pick(100, 100, 5)
            self.lines.insert(1, "input-node name=ivector dim=3")
        read = "ReplaceIndex(ivector, t, 0)" if self.ivector_period == 100 else "Round(ivector, 5)"
        return self.chain(self.affine([*self.parts(2), read], 3))

    def distribute(self) -> str:
        """From here on nodes have two values of x; those before are read at x = 0."""
        before = self.affine(self.parts(2), output_dim=2 * DIM)
        name = self.node(f"type=DistributeComponent input-dim={2 * DIM} output-dim={DIM}", before)
        self.x_values = 2
        earlier = f"ReplaceIndex({self.pick(*self.usable)}, x, 0)"
        self.usable = [name]
        return self.chain(self.affine([self.pick(name, f"Sum({name}, {earlier})"), earlier]))

    def missing_edges(self) -> str:
        far = self.pick(-9, 9)
        earlier = self.pick(*self.usable)
        parts = [f"Sum({self.part()}, IfDefined(Offset({earlier}, {far})))",
                 f"Failover(Offset({earlier}, {-far}), {self.part()})",
                 f"Sum(IfDefined(Offset({earlier}, {far})), IfDefined(Offset({earlier}, {-far})), Const(0.25, {DIM}))"]
        return self.chain(self.affine(parts[:self.pick(1, 2, 3)]))

    def dim_range(self) -> str:
        wide = self.affine(self.parts(2), output_dim=2 * DIM)
        if self.chance(0.5):
            wide = self.node(f"type=RectifiedLinearComponent dim={2 * DIM}", wide)
        offsets = self.pick((0, DIM), (1, 3), (2,), (0, DIM, 2))
        names = [f"{wide}d{offset}" for offset in offsets]
        self.lines += [f"dim-range-node name={name} input-node={wide} dim-offset={offset} dim={DIM}"
                       for name, offset in zip(names, offsets, strict=True)]
        self.usable += names
        return self.chain(self.affine(self.parts())) if self.chance(0.7) else names[0]

    def shared(self) -> str:
        """Two nodes with one component, the second perhaps behind the first."""
        first = self.chain(self.affine([self.part()]))
        component = next(line.split("component=")[1].split()[0] for line in reversed(self.lines)
                         if line.startswith(f"component-node name={first} "))
        second = f"{first}again"
        source = self.pick(first, f"Offset({first}, {self.shift()})", self.part())
        self.lines.append(f"component-node name={second} component={component} input={source}")
        self.usable.append(first)
        return second

    def reuse(self) -> str:
        """Sums in which one node occurs again and again."""
        name = self.tdnn_layer()
        shifted = [f"Offset({name}, {self.shift()})" for _ in range(3)]
        parts = [f"Sum({name}, {shifted[0]})", f"Sum({shifted[1]}, {name}, {shifted[2]})", name]
        return self.chain(self.affine(parts[:self.pick(1, 2, 3)]))

    def in_place(self) -> str:
        """A chain of elementwise components, some of which are read by others too."""
        name = self.affine(self.parts())
        for _ in range(self.pick(2, 3, 4)):
            name = self.node(self.pick(*ELEMENTWISE), name)
            if self.chance(0.3):
                self.usable.append(name)
        return name

    def residual(self) -> str:
        """A factorized layer around which its input goes by, scaled."""
        before = self.pick(*self.usable[-2:])
        narrow = self.node(f"type=TdnnComponent input-dim={DIM} output-dim=3 time-offsets=-1,0 use-bias=false",
                           before)
        name = self.node(f"type=TdnnComponent input-dim=3 output-dim={DIM} time-offsets=0,1", narrow)
        name = self.node(f"type=RectifiedLinearComponent dim={DIM}", name)
        name = self.node(f"type=BatchNormComponent dim={DIM}", name)
        return self.node(f"type=NoOpComponent dim={DIM}", f"Sum(Scale(0.66, {before}), {name})")


KINDS: dict[str, Callable[[Builder], str]] = {
    "tdnn": Builder.tdnn_layer, "tdnn component": Builder.tdnn_component, "recurrent": Builder.recurrent,
    "clockwork": Builder.clockwork, "lstm": Builder.lstm, "gru": Builder.gru, "convolution": Builder.convolution,
    "pooling": Builder.pooling, "attention": Builder.attention, "ivector": Builder.ivector,
    "distribute": Builder.distribute, "missing edges": Builder.missing_edges, "dim-range": Builder.dim_range,
    "shared": Builder.shared, "reuse": Builder.reuse, "in place": Builder.in_place, "residual": Builder.residual}
_ANYWHERE = [kind for kind in KINDS if kind != "distribute"]


def network(rng: np.random.Generator, kind: str) -> Builder:
    """One to three layers, one of them of ``kind``, and one or two output nodes."""
    builder = Builder(rng)
    kinds = [builder.pick(*_ANYWHERE) for _ in range(builder.pick(0, 0, 1, 1, 2))]
    if kind == "distribute":
        kinds.append(kind)
    else:
        kinds.insert(int(rng.integers(len(kinds) + 1)), kind)
    for one in kinds:
        builder.usable.append(KINDS[one](builder))
        if one == kind:
            builder.wanted = builder.usable[-1]
    last = builder.usable[-1]
    objective = builder.pick("linear", "quadratic")
    builder.lines.append(f"output-node name=output input={builder.pick(last, last, f'Offset({last}, 1)')} "
                         f"objective={objective}")
    if builder.chance(0.3):
        builder.lines.append(f"output-node name=other input={builder.pick(last, builder.part())}")
    return builder


# -- requests ----------------------------------------------------------------------------------------------------------


ORDERS = ("sequences first", "times first", "shuffled")


def grid(rng: np.random.Generator, sequences: list[int], times: list[range], xs: int, order: str) -> np.ndarray:
    """int32 (rows, 3): the times of each sequence, in an order."""
    rows = [(n, t, x) for n, own in zip(sequences, times, strict=True) for t in own for x in range(xs)]
    if order == "times first":
        rows.sort(key=lambda row: (row[1], row[2], row[0]))
    elif order == "shuffled":
        rng.shuffle(rows)
    return np.array(rows, np.int32).reshape(-1, 3)


def random_request(rng: np.random.Generator, builder: Builder) -> ComputationRequest:
    """Some frames of one to five sequences, equal or not, with derivatives or without."""
    pick = builder.pick
    sequences = list(range(pick(1, 2, 3, 3, 4, 5)))
    if builder.chance(0.1):
        sequences = [3 * n + 2 for n in sequences]
    equal = builder.chance(0.75)
    step, left, right = pick(1, 1, 2, 3), pick(1, 4, 8, 8), pick(1, 4, 8, 8)
    lengths = [pick(1, 2, 3, 4)] * len(sequences) if equal else [pick(1, 2, 3, 4) for _ in sequences]
    begins = [pick(0, 0, 0, -2, 3)] * len(sequences)
    order = pick(*ORDERS) if builder.chance(0.5) else ORDERS[0]
    out_times = [range(begin, begin + step * length, step) for begin, length in zip(begins, lengths, strict=True)]
    in_times = [range(times[0] - left, times[-1] + 1 + right) for times in out_times]
    trains, input_deriv = pick((True, True), (True, True), (True, False), (False, True), (False, False))
    inputs = [IoSpecification("input", grid(rng, sequences, in_times, 1, order), input_deriv)]
    if builder.ivector_period == 100:
        inputs.append(IoSpecification("ivector", grid(rng, sequences, [range(1)] * len(sequences), 1, order),
                                      input_deriv and builder.chance(0.5)))
    elif builder.ivector_period:
        times = [range(5 * (own[0] // 5), own[-1] + 1, 5) for own in in_times]
        inputs.append(IoSpecification("ivector", grid(rng, sequences, times, 1, order), input_deriv))
    backward = trains or input_deriv
    outputs = [IoSpecification("output", grid(rng, sequences, out_times, builder.x_values, order), backward)]
    if builder.lines[-1].startswith("output-node name=other"):
        outputs.append(IoSpecification("other", grid(rng, sequences, out_times, builder.x_values, pick(*ORDERS)),
                                       backward and builder.chance(0.7)))
    return ComputationRequest(inputs, outputs, trains, trains or builder.chance(0.2))


@dataclass
class Case:
    """A network, what is asked of it, and the command list for that before any optimization."""

    kind: str
    text: str
    nnet: Nnet
    request: ComputationRequest
    computation: Computation


def _computes(computation: Computation, nnet: Nnet, name: str) -> bool:
    """Whether a node is among what is computed."""
    node = nnet.node_index(name)
    return any((info.nodes == node).any() for info in computation.debug_info)


def case(number: int) -> Case:
    """The case of that number; what cannot be computed, or is too large, is drawn again."""
    kind = list(KINDS)[number % len(KINDS)]
    for attempt in range(1000):
        rng = np.random.default_rng((number, attempt))
        builder = network(rng, kind)
        text = "\n".join(builder.lines) + "\n"
        nnet = Nnet.from_config(text, seed=number)
        for _ in range(3):
            asked = random_request(rng, builder)
            try:
                with few_waves():
                    computation = generate_computation(nnet, asked)
            except (NotComputableError, CompileError, DescriptorError):
                continue
            if len(computation.commands) <= MOST_COMMANDS and _computes(computation, nnet, builder.wanted):
                return Case(kind, text, nnet, asked, computation)
    raise AssertionError(f"no case of kind {kind} found for number {number}")
