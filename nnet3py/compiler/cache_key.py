"""The names of computations on disk: digests of all that a computation depends on.

That is the request, the options, the nodes, what the compiler can see of the components, and the sources of the
compiler itself. Parameters and statistics are left out, so that a network finds its computations again after training.
"""
from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from nnet3py import __version__
from nnet3py.compiler.optimize_options import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.components.base import Component
from nnet3py.io.tokens import TokenWriter
from nnet3py.network.nnet import Nnet

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_SOURCES = ("compiler/**/*.py", "components/**/*.py", "network/**/*.py", "index.py")    # what computations follow from
_REAL_ARRAYS = frozenset(("FM", "DM", "FV", "DV", "FP", "DP"))      # in files: matrices, vectors, triangles


class _StructureWriter(TokenWriter):
    """Takes tags, integers and flags as components write them, but neither real numbers nor how many there are.

    Sizes of parameters follow from the dimensions, and statistics are empty until there are any.
    """

    _is_array = False       # the sizes of an array of real numbers come next

    def token(self, token: str) -> None:
        self._is_array = token in _REAL_ARRAYS
        if not self._is_array:
            super().token(token)

    def integer(self, value: int, kind: str = "int32") -> None:
        if not self._is_array:
            super().integer(value, kind)

    def array(self, values: np.ndarray, dtype: type[np.generic]) -> None:
        self._is_array = False
        if np.dtype(dtype).kind != "f":
            super().array(values, dtype)

    def float32(self, value: float) -> None:
        pass

    def float64(self, value: float) -> None:
        pass


def structure_of(nnet: Nnet) -> bytes:
    """What the compiler can see of a network, except for :func:`flags_of`, as a digest.

    No component's choice of rows depends on a real number, so that those are left out.
    """
    written = io.BytesIO()
    writer = _StructureWriter(written, True)
    for component in nnet.components:
        component.write(writer)
    digest = hashlib.sha256(repr(nnet.nodes).encode())
    digest.update(written.getvalue())
    return digest.digest()


def flags_of(nnet: Nnet) -> bytes:
    """What may change in the components of a network without a new ``version``: properties, and which are trained."""
    return repr([_flags(component) for component in nnet.components]).encode()


def _flags(component: Component) -> tuple[int, int, int, bool]:
    is_trained = getattr(component, "learning_rate", 0.0) != 0.0
    return int(component.properties), component.input_dim, component.output_dim, is_trained


@cache
def sources_digest() -> bytes:
    """A digest of the source files whose change may change a computation, and of the package's version."""
    from pathlib import Path  # slow to load

    package = Path(_PACKAGE)
    digest = hashlib.sha256(__version__.encode())
    for pattern in _SOURCES:
        for path in sorted(package.glob(pattern)):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def request_digest(request: ComputationRequest) -> bytes:
    """A digest of a request."""
    digest = hashlib.sha256(repr((len(request.inputs), request.need_model_derivative,
                                  request.store_component_stats)).encode())
    for specification in (*request.inputs, *request.outputs):
        indexes = np.ascontiguousarray(specification.indexes, "<i4")
        digest.update(repr((specification.name, specification.has_deriv, len(indexes))).encode())
        digest.update(indexes.tobytes())
    return digest.digest()


def computation_key(structure: bytes, flags: bytes, request: ComputationRequest, options: OptimizeOptions,
                    use_shortcut: bool) -> str:
    """The name of a computation in Kaldi's commands: 64 hexadecimal digits. What is fused later does not count."""
    return _joined(structure, flags, request_digest(request), options, use_shortcut)


def looped_key(structure: bytes, flags: bytes, requests: Sequence[ComputationRequest],
               options: OptimizeOptions) -> str:
    """The name of the looped computation whose first chunks have these requests."""
    return _joined(structure, flags, b"".join(map(request_digest, requests)), options, "looped")


def _joined(structure: bytes, flags: bytes, requests: bytes, options: OptimizeOptions, way: object) -> str:
    digest = hashlib.sha256(sources_digest())
    for part in (structure, flags, requests, repr((replace(options, fuse=""), way)).encode()):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
