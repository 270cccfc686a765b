"""Imported networks compared with what onnxruntime computes of the file."""
from __future__ import annotations

import numpy as np

from nnet3py.compiler import compile
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.export.onnx_file import session
from nnet3py.export.onnx_import import ForeignNetwork
from nnet3py.network.inference import for_inference
from nnet3py.runtime.computer import Computer

_FRAMES = 101


def difference_from_onnx(foreign: ForeignNetwork, path: str, frames: int = _FRAMES) -> float:
    """The largest difference between the first outputs, relative to the largest value, on random input.

    ``frames`` is used where the graph does not fix them. Frames around the utterance are not used: the network gets
    those of the graph, and gives the rows of the graph. Raises Nnet3Error if onnxruntime is not installed, or cannot
    run the file.
    """
    running = session(path)
    rng, letters = np.random.default_rng(0), foreign.layout
    sizes = [size if size > 0 else 2 if letter == "n" else frames
             for letter, size in zip(letters, foreign.sizes, strict=True)]
    given: dict[str, np.ndarray] = {}
    for each in running.get_inputs():
        shape = sizes if len(each.shape) == len(letters) and len(given) == 0 or len(each.shape) > 2 else [
            sizes[letters.index("n")] if "n" in letters else 1, each.shape[1]]
        given[each.name] = rng.standard_normal(shape).astype(np.float32)
    expected = running.run(None, given)[0]
    main = next(array for array in given.values() if list(array.shape) == sizes)
    vectors = [array for array in given.values() if array is not main]
    return _difference(foreign, _by_frames(main, letters), vectors[0] if vectors else None,
                       _by_frames(expected, foreign.output_axes))


def _by_frames(array: np.ndarray, letters: str) -> np.ndarray:
    """(sequences, frames, columns)."""
    order = [i for letter in "ntc" for i, axis in enumerate(letters) if axis == letter]
    array = array.transpose(order)
    num = array.shape[0] if "n" in letters else 1
    return array.reshape(num, -1, int(np.prod(array.shape[len(letters) - letters.count("c"):])))


def _difference(foreign: ForeignNetwork, feats: np.ndarray, vectors: np.ndarray | None, expected: np.ndarray) -> float:
    num, rows = expected.shape[:2]
    before, after = foreign.repeated
    feats = np.pad(feats, ((0, 0), (before, after), (0, 0)), mode="edge")
    nnet = for_inference(foreign.nnet)

    def indexes(times: range) -> np.ndarray:
        return np.array([(n, t, 0) for n in range(num) for t in times], np.int32)

    inputs = {"input": (indexes(range(-before, feats.shape[1] - before)), feats.reshape(-1, feats.shape[2]))}
    if vectors is not None:
        inputs["ivector"] = indexes(range(1)), vectors
    times = range(foreign.first, foreign.first + rows * foreign.step, foreign.step)
    request = ComputationRequest([IoSpecification(name, where) for name, (where, _) in inputs.items()],
                                 [IoSpecification("output", indexes(times))])
    computer = Computer(compile(nnet, request), nnet)
    for name, (_, array) in inputs.items():
        computer.accept_input(name, np.ascontiguousarray(array))
    computer.run()
    rows_found = computer.output("output").reshape(num, rows, -1)
    return float(np.abs(rows_found - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny))
