"""Kaldi's small reference cases, as far as single components need them, and finite differences.

The cases are nets of three components: ``a`` maps [x(t-1), x(t)] to 12 dimensions, ``c`` is the component of the case,
``z`` is linear. They are driven here by hand, without a network or a compiler.
"""
from __future__ import annotations

import io
import re
import struct
from pathlib import Path

import numpy as np
from paths import DATA

from nnet3py.components.base import Properties
from nnet3py.components.registry import component_class
from nnet3py.io.tokens import TokenReader, TokenWriter

CASES = DATA / "cases"
TRAINED_CASES = [
    "affine", "block-affine", "linear", "linear-no-ng", "natural-gradient-affine", "natural-gradient-per-element-scale",
    "natural-gradient-repeated-affine", "per-element-offset", "per-element-offset-block", "per-element-scale",
    "repeated-affine", "scale-and-offset", "scale-and-offset-block", "tdnn-component", "tdnn-component-no-bias"]


def read_components(path: Path) -> dict[str, tuple]:
    """Of a model file, binary or text: name -> (component, the bytes that held it)."""
    data = path.read_bytes()
    header = b"\0B" if data.startswith(b"\0B") else b""
    data = header + data[data.index(b"<NumComponents>"):]
    reader = TokenReader(io.BytesIO(data), path=str(path), size=len(data))
    reader.read_header()
    reader.expect("<NumComponents>")
    components = {}
    for _ in range(reader.integer()):
        reader.expect("<ComponentName>")
        name = reader.token()
        start = reader.offset
        component = component_class(reader.token()[1:-1]).read(reader)
        components[name] = component, data[start:reader.offset]
    return components


def written(component, binary: bool) -> bytes:
    """The bytes that the component writes."""
    stream = io.BytesIO()
    component.write(TokenWriter(stream, binary))
    return stream.getvalue()


def reread(component, binary: bool = True):
    """The component after a trip through its file form."""
    data = (b"\0B" if binary else b"") + written(component, binary)
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    assert reader.token() == f"<{type(component).__name__}>"
    return type(component).read(reader)


def info_lines(case: str) -> dict[str, str]:
    """Of Kaldi's information text: component name -> what follows ``type=``."""
    text = (CASES / case / "info.txt").read_text()
    return dict(re.findall(r"^component name=(\S+) type=(.*)$", text, re.MULTILINE))


def assert_same_info(found: str, expected: str) -> None:
    """Equal texts but for the last digit of numbers, which depends on the order of sums."""
    pattern = r"-?(?:nan|\d[\d.]*(?:e[-+]\d+)?)"
    assert re.sub(pattern, "#", found) == re.sub(pattern, "#", expected)
    numbers = [[float(v.replace("-nan", "nan")) for v in re.findall(pattern, text)] for text in (found, expected)]
    np.testing.assert_allclose(*numbers, rtol=2e-2)


def read_ark(path: Path) -> dict[str, np.ndarray]:
    """A binary archive of float matrices."""
    data, at, out = path.read_bytes(), 0, {}
    while at < len(data):
        end = data.index(b" ", at)
        key = data[at:end].decode()
        rows, cols = struct.unpack("<xixi", data[end + 6:end + 16])
        at = end + 16 + 4 * rows * cols
        out[key] = np.frombuffer(data, "<f4", rows * cols, end + 16).reshape(rows, cols).copy()
    return out


def read_request(path: Path) -> dict[str, np.ndarray]:
    """Node name -> its indexes, int32 (rows, 3)."""
    return {line.split()[1]: np.array([[int(v) for v in row.split(",")] for row in line.split()[3:]], dtype=np.int32)
            for line in path.read_text().splitlines() if line.startswith(("input ", "output "))}


class DrivenCase:
    """One case, computed forwards and backwards with given operations."""

    def __init__(self, case: str, ops) -> None:
        self.folder, self.ops = CASES / case, ops
        self.nnet = {name: component for name, (component, _) in read_components(self.folder / "nnet.raw").items()}
        self.io = read_ark(self.folder / "io.ark")
        indexes = read_request(self.folder / "request.txt")
        c, self.outputs, self.precomputed = self.nnet["c"], indexes["output"], None
        inner = self.outputs
        if c.has(Properties.REORDERS_INDEXES):
            wanted = np.unique(c.input_indexes(self.outputs).reshape(-1, 3), axis=0)
            inner, self.outputs = c.reorder_indexes(wanted, self.outputs)
            self.precomputed = c.precompute_indexes(inner, self.outputs, True)
        self.order = [list(map(tuple, indexes["output"])).index(tuple(row)) for row in self.outputs]
        place = {tuple(row): i for i, row in enumerate(indexes["input"])}
        spliced = [[place[n, t + offset, x] for n, t, x in inner] for offset in (-1, 0)]
        self.x = np.concatenate([self.io["input.input"][rows] for rows in spliced], axis=1)

    def propagate(self) -> np.ndarray:
        """The output of the net, rows in the order of the case's file."""
        a = self._forward("a", self.x, len(self.x))
        c = self._forward("c", a, len(self.outputs), self.precomputed)
        z = self._forward("z", c, len(self.outputs))
        self.values = {"a": (self.x, a), "c": (a, c), "z": (c, z)}
        result = np.empty_like(z)
        result[self.order] = z
        return result

    def backprop(self, update: dict) -> None:
        """Update the components ``update`` with the case's output derivative."""
        dy = self.io["output-deriv.output"][self.order].copy()
        for name in ("z", "c", "a"):
            x, y = self.values[name]
            dx = np.zeros_like(x)
            self.ops.reset_scratch()
            self.nnet[name].backprop(self.ops, self.precomputed if name == "c" else None, x, y, dy, None,
                                     update[name], dx)
            dy = dx

    def expected(self, name: str) -> dict[str, dict[str, np.ndarray]]:
        """Parameters of every component in one of the case's model files."""
        return {key: component.parameters() for key, (component, _) in read_components(self.folder / name).items()}

    def _forward(self, name: str, x: np.ndarray, num_rows: int, precomputed=None) -> np.ndarray:
        y = np.zeros((num_rows, self.nnet[name].output_dim), dtype=np.float32)
        self.ops.reset_scratch()
        self.nnet[name].propagate(self.ops, precomputed, x, y, None)
        return y


# -- finite differences ----------------------------------------------------------------------------------------------

STEP = 1e-6          # of the differences, in float64
FINITE_DIFFERENCE = 1e-7   # relative: rounding 1e-16 / STEP, and STEP squared


def in_float64(component):
    """A copy whose parameters are float64, for use with NumpyOps(float64)."""
    component = component.copy()
    for part in component.children or [component]:
        for name, value in part.parameters().items():
            setattr(part, name, value.astype(np.float64))
    return component


def numeric_gradient(function, array: np.ndarray) -> np.ndarray:
    """Central differences of ``function()`` by every element of ``array``, which is restored."""
    gradient = np.empty_like(array)
    for i in np.ndindex(array.shape):
        value = array[i]
        array[i] = value + STEP
        above = function()
        array[i] = value - STEP
        below = function()
        array[i] = value
        gradient[i] = (above - below) / (2 * STEP)
    return gradient


def check_derivatives(ops, component, num_inputs: int, num_outputs: int, indexes=None, seed: int = 0) -> None:
    """Compare ``dx`` and the parameter gradients of a float64 component with finite differences of sum(y * dy)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_inputs, component.input_dim))
    dy = rng.standard_normal((num_outputs, component.output_dim))

    def output() -> np.ndarray:
        y = np.zeros((num_outputs, component.output_dim))
        component.propagate(ops, indexes, x, y, None)
        return y

    def objective() -> float:
        return float((output() * dy).sum())

    y, dx, update = output(), np.zeros_like(x), None
    if component.has(Properties.UPDATABLE):
        update = component.copy()
        update.set_as_gradient()
        update.scale(0.0)
    component.backprop(ops, indexes, x, y, dy, None, update, dx)
    np.testing.assert_allclose(dx, numeric_gradient(objective, x), rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)
    if update is not None:
        for name, found in update.parameters().items():
            expected = numeric_gradient(objective, component.parameters()[name])
            np.testing.assert_allclose(found, expected, rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE, err_msg=name)
