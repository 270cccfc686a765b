"""ONNX graphs made by hand, and at random, for the tests of nnet3py/export/onnx_import.py."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnet3py.export.onnx_import import ForeignNetwork, foreign_network, read_onnx

OPSET = 17
END = 2**31 - 1
MOST = 2                 # of frames for a row, before another stride: so that some are left of short sequences


class GraphMaker:
    """Collects operators; ``x`` is the input, (N, T, columns)."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """The name of an initializer."""
        self.arrays.append(numpy_helper.from_array(np.asarray(values, dtype), f"k{len(self.arrays)}"))
        return str(self.arrays[-1].name)

    def numbers(self, *shape: int) -> str:
        """The name of an initializer of random numbers."""
        return self.constant(self.rng.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5, np.float32)

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """An operator; the name of its first output."""
        names = [f"v{len(self.nodes)}.{i}" if i else f"v{len(self.nodes)}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        return names[0]

    def write(self, path: Path, *outputs: str, shape: tuple[Any, ...] = ("N", "T", 4), opset: int = OPSET,
              more_inputs: dict[str, tuple[Any, ...]] | None = None) -> Path:
        """Write the graph to a file; returns its path."""
        real = onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(name, real, its) for name, its in {"x": shape, **(
            more_inputs or {})}.items()]
        graph = helper.make_graph(self.nodes, "made by hand", inputs, [
            helper.make_tensor_value_info(name, real, None) for name in outputs], self.arrays)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
        return path


def foreign(path: Path, **settings: Any) -> ForeignNetwork:
    """The network of a file, and how it belongs to the graph."""
    return foreign_network(read_onnx(path), **settings)


def random_graph(seed: int, path: Path) -> Path:
    """Convolutions with any padding, stride and dilation, and what may stand between them."""
    g, columns, total = GraphMaker(seed), 4, 1
    rng, x = g.rng, g.add("Transpose", "x", perm=[0, 2, 1])
    for kind in rng.choice(["conv", "conv", "each", "causal", "relu", "slice", "pad", "mean", "most"],
                           rng.integers(1, 7)):
        if kind in ("conv", "each", "causal"):
            size, dilation = int(rng.integers(1, 5)), int(rng.integers(1, 4))
            reach = (size - 1) * dilation
            stride = 1 if kind == "causal" or total > MOST else int(rng.choice([1, 1, 1, 2, 3]))
            total *= stride
            pads = [reach, reach] if kind == "causal" else rng.integers(0, reach + 1, 2).tolist()
            pads = pads if kind == "causal" or rng.random() < 0.6 else [0, 0]
            groups, outputs = (columns, columns) if kind == "each" else (1, int(rng.integers(2, 5)))
            inputs = [x, g.numbers(outputs, columns // groups, size)]
            inputs += [g.numbers(outputs)] if rng.random() < 0.7 else []
            x = g.add("Conv", *inputs, kernel_shape=[size], dilations=[dilation], strides=[stride], pads=pads,
                      group=groups)
            columns = outputs
            if kind == "causal" and reach:
                x = g.add("Slice", x, *map(g.constant, ([0], [-reach], [2])))
        elif kind == "relu":
            x = g.add("Relu", x)
        elif kind == "slice":
            begin, end = rng.integers(0, 4, 2).tolist()
            step = 1 if total > MOST else int(rng.choice([1, 1, 2]))
            total *= step
            x = g.add("Slice", x, *map(g.constant, ([begin], [-end or END], [2], [step])))
        elif kind == "pad":
            x = g.add("Pad", x, g.constant([0, 0, rng.integers(0, 4), 0, 0, rng.integers(0, 4)]))
        else:
            stride = 1 if total > MOST else int(rng.choice([1, 2]))
            total *= stride
            x = g.add("AveragePool" if kind == "mean" else "MaxPool", x, kernel_shape=[int(rng.integers(1, 4))],
                      strides=[stride])
    return g.write(path, g.add("Transpose", x, perm=[0, 2, 1]))
