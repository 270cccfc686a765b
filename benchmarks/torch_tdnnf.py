"""The TDNN-F of benchmarks/nets/tdnnf.config in PyTorch on the CPU: what cpu.py compares nnet3py with.

    python benchmarks/torch_tdnnf.py train|compute [--threads 2] [--way conv1d] [--steps 13] [--frames 24717] [--json]

The layers are read from the config by nnet3py's parser, so that dimensions, time offsets and bypasses are the same.
They are affine maps of a few frames, batch normalization without an affine map of its own, ReLU, sums scaled by 0.66,
and log-softmax with the linear objective. Training is plain SGD, which does less than nnet3-train (no natural gradient,
orthonormal constraint, max-change or statistics). Times are those of the steps alone: neither Python's start, nor the
import of torch, nor a first step, which is not counted.

PyTorch can do this in several ways; `--way=all` (the default) measures each, and cpu.py compares with the fastest:

- conv1d: 1-D convolutions over (sequences, channels, frames), by oneDNN, which is what one would write first
- native: the same without oneDNN; only for computing, since it trains several times more slowly
- channels-last: 2-D convolutions of height 1 in the memory format torch.channels_last
- rows: matrix products over (frames, sequences, channels), one for each time offset; a shift in time is then a view
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))   # nnet3py, where it is not installed

from nnet3py.extras import install_command  # noqa: E402

CONFIG = ROOT / "benchmarks" / "nets" / "tdnnf.config"
WAYS = {"train": ("conv1d", "channels-last", "rows"), "compute": ("conv1d", "native", "channels-last", "rows")}
SEQUENCES, FRAMES, STEPS = 32, 60, 13      # of a training minibatch, and minibatches in a pass
PIECE, TOTAL = 150, 24717                  # frames computed at a time, and in all
LEARNING_RATE = 1e-3

_KINDS = {"NaturalGradientAffineComponent": "affine", "TdnnComponent": "affine", "LinearComponent": "affine",
          "BatchNormComponent": "batchnorm", "RectifiedLinearComponent": "relu", "LogSoftmaxComponent": "log-softmax",
          "GeneralDropoutComponent": "sum", "NoOpComponent": "sum"}    # dropout's proportion is 0 here


@dataclass(frozen=True)
class Layer:
    """A component node: what it does to which earlier ones.

    ``sources`` are names with the scales by which they are summed; ``offsets`` the frames that an affine map looks at,
    relative to its output's; ``dims`` the channels of its input (for each frame) and output.
    """

    name: str
    kind: str
    sources: tuple[tuple[str, float], ...]
    offsets: tuple[int, ...]
    dims: tuple[int, int]
    bias: bool


def read_layers(config: Path = CONFIG) -> list[Layer]:
    """The layers of a network in their order, as nnet3py reads them; SystemExit for what has no counterpart here."""
    from nnet3py.network.nnet import Nnet

    nnet = Nnet.from_config(config.read_text(encoding="utf-8"))
    return [_layer(nnet, i) for i in range(len(nnet.nodes)) if nnet.is_component(i)]


def _layer(nnet: Any, i: int) -> Layer:
    import numpy as np

    component, kind = nnet.component_of(i), _KINDS.get(type(nnet.component_of(i)).__name__)
    parts = nnet.descriptor_of(i - 1).descriptor.parts
    origin = np.zeros((1, 3), np.int32)
    found = [[(int(nodes[0]), int(moved[0, 1])) for nodes, moved in (leaf.map(origin) for leaf in part.leaves())]
             for part in parts]
    nodes = {node for part in found for node, _ in part}
    shifts = [shift for part in found for _, shift in part]
    is_splice = len(nodes) == 1 and all(len(part) == 1 for part in found)
    if kind is None or not (is_splice or (len(parts) == 1 and not any(shifts))):
        sys.exit(f"{nnet.nodes[i].name}: a {type(component).__name__} of such inputs has no counterpart here")
    scales = parts[0].scales()
    offsets = tuple(getattr(component, "time_offsets", shifts if is_splice else [0]))
    bias = getattr(component, "bias_params", None)
    return Layer(nnet.nodes[i].name, kind, tuple((nnet.node_names[node], float(scales.get(node, 1.0)))
                                                 for part in found[:1] for node, _ in part),
                 tuple(int(offset) for offset in offsets),
                 (component.input_dim // (len(parts) if is_splice else 1), component.output_dim),
                 bias is not None and bias.size > 0)


def context(layers: list[Layer]) -> tuple[int, int]:
    """Frames of left and right context that the last layer's output needs."""
    reach: dict[str, tuple[int, int]] = {}
    for layer in layers:
        before = [reach.get(name, (0, 0)) for name, _ in layer.sources]
        reach[layer.name] = (max(left for left, _ in before) - min(layer.offsets),
                             max(right for _, right in before) + max(layer.offsets))
    return reach[layers[-1].name]


class Model:
    """The network, computed in one of the ways above."""

    def __init__(self, layers: list[Layer], way: str) -> None:
        import torch

        torch.manual_seed(0)
        self.layers, self.way, self.training = layers, way, True
        self.weights: dict[str, Any] = {}
        self.biases: dict[str, Any] = {}
        self.moments: dict[str, tuple[Any, Any]] = {}
        for layer in layers:
            if layer.kind == "affine":
                self.weights[layer.name] = self._laid_out(
                    torch.randn(layer.dims[1], layer.dims[0], len(layer.offsets))
                    / (layer.dims[0] * len(layer.offsets)) ** 0.5).requires_grad_()
                if layer.bias:
                    self.biases[layer.name] = torch.zeros(layer.dims[1]).requires_grad_()
            elif layer.kind == "batchnorm":
                self.moments[layer.name] = torch.zeros(layer.dims[1]), torch.ones(layer.dims[1])

    def parameters(self) -> list[Any]:
        """What is trained."""
        return [*self.weights.values(), *self.biases.values()]

    def input(self, sequences: int, frames: int) -> Any:
        """Random features in the layout of this way."""
        import torch

        x = torch.randn(sequences, self.layers[0].dims[0], frames)
        if self.way == "rows":
            return x.permute(2, 0, 1).contiguous()
        return x.unsqueeze(2).contiguous(memory_format=torch.channels_last) if self.way == "channels-last" else x

    def labels(self, sequences: int, frames: int) -> Any:
        """A random class for each frame, in the layout of this way."""
        import torch

        found = torch.randint(self.layers[-1].dims[1], (sequences, frames))
        return {"rows": found.T.contiguous(), "channels-last": found.unsqueeze(1)}.get(self.way, found)

    def objective(self, output: Any, labels: Any) -> Any:
        """The negative of the linear objective: that of one class per frame is its log-probability."""
        import torch.nn.functional as F

        if self.way == "rows":
            return F.nll_loss(output.reshape(-1, output.shape[-1]), labels.reshape(-1), reduction="sum")
        return F.nll_loss(output, labels, reduction="sum")

    def __call__(self, x: Any) -> Any:
        """The last layer's output for the frames whose context ``x`` holds."""
        values = {self.layers[0].sources[0][0]: (x, 0)}      # by name: tensor, time of its first frame
        for layer in self.layers:
            value, first = self._sum([(*values[name], scale) for name, scale in layer.sources])
            values[layer.name] = self._apply(layer, value), first - min(layer.offsets)
        return values[self.layers[-1].name][0]

    # -- one layer ---------------------------------------------------------------------------------------------------

    @property
    def _time_axis(self) -> int:
        return 0 if self.way == "rows" else -1

    def _laid_out(self, weight: Any) -> Any:
        """A weight (output, input, offsets) as this way keeps it."""
        import torch

        if self.way == "rows":
            return weight.permute(2, 1, 0).contiguous()
        if self.way == "channels-last":
            return weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        return weight

    def _sum(self, terms: list[tuple[Any, int, float]]) -> tuple[Any, int]:
        """The scaled sum over the frames that all terms have, and the first frame's time."""
        axis = self._time_axis
        first = max(start for _, start, _ in terms)
        end = min(start + value.shape[axis] for value, start, _ in terms)
        total = None
        for value, start, scale in sorted(terms, key=lambda term: abs(term[2] - 1.0)):
            part = value if (start, start + value.shape[axis]) == (first, end) else \
                value.narrow(axis, first - start, end - first)
            total = (part if scale == 1.0 else part * scale) if total is None else total.add(part, alpha=scale)
        return total, first

    def _apply(self, layer: Layer, x: Any) -> Any:
        import torch.nn.functional as F

        if layer.kind == "affine":
            return self._affine(x, self.weights[layer.name], self.biases.get(layer.name), layer.offsets)
        if layer.kind == "relu":
            return F.relu(x)
        if layer.kind == "log-softmax":
            return F.log_softmax(x, dim=-1 if self.way == "rows" else 1)
        if layer.kind == "batchnorm":
            flat = x.reshape(-1, x.shape[-1]) if self.way == "rows" else x
            return F.batch_norm(flat, *self.moments[layer.name], training=self.training, eps=1e-3).view(x.shape)
        return x

    def _affine(self, x: Any, weight: Any, bias: Any, offsets: tuple[int, ...]) -> Any:
        import torch
        import torch.nn.functional as F

        step = offsets[1] - offsets[0] if len(offsets) > 1 else 1
        if self.way == "channels-last":
            return F.conv2d(x, weight, bias, dilation=(1, step))
        if self.way != "rows":
            return F.conv1d(x, weight, bias, dilation=step)
        frames = x.shape[0] - step * (len(offsets) - 1)
        rows = [x[i * step:i * step + frames].reshape(-1, x.shape[2]) for i in range(len(offsets))]
        y = rows[0] @ weight[0] if bias is None else torch.addmm(bias, rows[0], weight[0])
        for i in range(1, len(offsets)):
            y = torch.addmm(y, rows[i], weight[i])
        return y.view(frames, x.shape[1], -1)


def train_step(model: Model, layers: list[Layer]) -> Callable[[], Any]:
    """A function that does one step of plain SGD on a minibatch."""
    import torch

    left, right = context(layers)
    x, labels = model.input(SEQUENCES, FRAMES + left + right), model.labels(SEQUENCES, FRAMES)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE / SEQUENCES)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.objective(model(x), labels).backward()
        optimizer.step()

    return step


def compute_pass(model: Model, layers: list[Layer], total: int) -> Callable[[], Any]:
    """A function that computes ``total`` frames in pieces of ``PIECE``, each with its context."""
    import torch

    model.training = False
    pieces = [model.input(1, frames + sum(context(layers)))
              for frames in [PIECE] * (total // PIECE) + [total % PIECE] if frames]

    def run() -> None:
        with torch.inference_mode():
            for piece in pieces:
                model(piece)

    return run


def seconds(task: str, way: str, threads: int, steps: int, frames: int) -> float:
    """Seconds of ``steps`` training steps, or of computing ``frames`` frames, after a first step or piece."""
    import torch

    torch.set_num_threads(threads)
    layers = read_layers()
    model = Model(layers, way)
    native: AbstractContextManager = torch.backends.mkldnn.flags(enabled=False) if way == "native" else nullcontext()
    with native:
        if task == "train":
            step = train_step(model, layers)
            step()
            start = time.perf_counter()
            for _ in range(steps):
                step()
        else:
            run = compute_pass(model, layers, frames)
            with torch.inference_mode():
                model(model.input(1, PIECE + sum(context(layers))))
            start = time.perf_counter()
            run()
    return time.perf_counter() - start


def is_installed() -> bool:
    """Whether there is a torch to import."""
    return importlib.util.find_spec("torch") is not None


def main() -> None:
    """Print the seconds of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "compute"), nargs="?", default="train")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", choices=(*WAYS["compute"], "all"), default="all")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS, help="of training")
    parser.add_argument("--frames", type=int, default=TOTAL, help="to compute")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    if not is_installed():
        print("PyTorch is not installed, so there is nothing to compare with:", install_command("bench"))
        return
    import torch

    measured = {way: statistics.median(seconds(args.task, way, args.threads, args.steps, args.frames)
                                       for _ in range(args.runs))
                for way in (WAYS[args.task] if args.way == "all" else (args.way,))}
    if args.json:
        print(json.dumps({"version": torch.__version__, "seconds": measured}))
        return
    print(f"PyTorch {torch.__version__}, {args.threads} threads, TDNN-F, {args.task}")
    for way, taken in measured.items():
        print(f"{way:14} {taken:.2f} s")


if __name__ == "__main__":
    main()
