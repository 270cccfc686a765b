"""What tests of single components share: config lines, files, Kaldi's reference cases, chosen random numbers."""
from __future__ import annotations

import io
import re
import struct
from pathlib import Path

import numpy as np
from io_samples import object_bytes as written
from paths import DATA

from nnet3py.components.registry import component_class
from nnet3py.config_line import ConfigLine
from nnet3py.index import NO_TIME
from nnet3py.io.tokens import TokenReader

CASES = DATA / "cases"


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers, float32, always the same for a shape and a seed."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)


def from_config(kind, text: str, seed: int = 0):
    """The component that a config line makes, all of whose keys are used."""
    line = ConfigLine(text)
    component = kind.from_config(line, np.random.default_rng(seed))
    line.check_all_used()
    return component


def read_text(kind, text: str | bytes):
    """The component, or another object of a model file, in a file's text, after its opening tag or with it."""
    data = text if isinstance(text, bytes) else text.encode()
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    return kind.read(reader)


def indexes_of(times, sequences=((0, 0), (1, 0))) -> np.ndarray:
    """Indexes (n, t, x) of the pairs (n, x) in the compiler's order: t, then x, then n."""
    return np.array([(n, t, x) for t in times for n, x in sequences], np.int32).reshape(-1, 3)


def arranged(component, outputs: np.ndarray, exists=None, more: np.ndarray | None = None):
    """Input and output rows as the component wants them, and its precomputed indexes.

    Outputs without their inputs, of which those exist whose time ``exists`` says, are left out; None where all are.
    """
    wanted = component.input_indexes(outputs)
    available = wanted[..., 1] != NO_TIME
    if exists is not None:
        available &= exists(wanted[..., 1])
    computable, used = component.is_computable(outputs, available)
    if not computable.any():
        return None
    inputs = wanted[computable][used[computable]]
    inputs = np.unique(inputs if more is None else np.concatenate([inputs, more]), axis=0)
    inputs, outputs = component.reorder_indexes(inputs, outputs[computable])
    return inputs, outputs, component.precompute_indexes(inputs, outputs, True)


class Draws:
    """Random numbers that a test chooses; also remembers in which order they were asked for."""

    def __init__(self, integers=(), uniforms=()):
        self.integers, self.uniforms, self.asked = list(integers), list(uniforms), []

    def integer(self, n):
        self.asked.append(n)
        return self.integers.pop(0)

    def uniform(self):
        self.asked.append("uniform")
        return self.uniforms.pop(0)

    draw_integer, draw_uniform = integer, uniform

    def begin_minibatch(self, seed, minibatch):
        """Accepted and ignored, as is the next: the test has chosen."""

    def select(self, component_index, call=0):
        """See ``begin_minibatch``."""


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


STEP = 1e-6          # of the differences, in float64
FINITE_DIFFERENCE = 1e-7   # relative: rounding 1e-16 / STEP, and STEP squared


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
