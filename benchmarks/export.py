"""Exported models beside nnet3py: onnxruntime and PyTorch, on the same threads, in turns.

    python benchmarks/export.py [--frames=1500] [--runs=5] [--threads=2]

One utterance, and ten of a tenth of its frames as one batch. nnet3py computes the utterance in chunks of 150 frames and
as one chunk. Milliseconds, medians; the last column is the largest difference from nnet3py's one chunk, of the largest
value: a recurrence begins anew in each chunk. The last line says which runtimes are faster than nnet3py's one chunk.
PyTorch goes through recurrences in a loop of Python.
"""
from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

import nnet3py
from nnet3py.engine import threads as engine_threads
from nnet3py.export.export_onnx import export_onnx
from nnet3py.export.onnx_file import run, session
from nnet3py.runtime.compute import Utterance, UtteranceComputer
from nnet3py.runtime.options import ComputeOptions

NETS = Path(__file__).resolve().parent / "nets"
SEQUENCES = 10
Call = Callable[[], np.ndarray]


def with_statistics(nnet: nnet3py.Nnet) -> nnet3py.Nnet:
    """The network, its batch norm as after some training, its last layer not zero."""
    rng = np.random.default_rng(0)
    for component in nnet.components:
        if type(component).__name__ == "BatchNormComponent":
            component.count[:], component.sumsq[:] = 1.0, 1.0
        for array in component.parameters().values():
            if not array.any():
                array[...] = 0.05 * rng.standard_normal(array.shape)
    return nnet


def calls(nnet: nnet3py.Nnet, feats: np.ndarray, count: int, folder: Path) -> dict[str, Call]:
    """What is measured, by name; ``feats`` is (sequences, frames, dim)."""
    import torch

    torch.set_num_threads(count)
    export_onnx(nnet, folder / "net.onnx")
    running = session(str(folder / "net.onnx"), count)
    module, tensor = nnet3py.to_torch(nnet), torch.from_numpy(feats)
    whole, chunks = (UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=frames))
                     for frames in (feats.shape[1], 150))

    def by_nnet3py(computer: UtteranceComputer) -> np.ndarray:
        results = computer.compute_all([Utterance(str(n), x) for n, x in enumerate(feats)])
        return np.stack([np.asarray(output) for _, output in results])

    def by_torch() -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(module(tensor).numpy())

    return {"nnet3py, one chunk": lambda: by_nnet3py(whole), "nnet3py, chunks of 150": lambda: by_nnet3py(chunks),
            "onnxruntime": lambda: run(running, feats)[0], "torch": by_torch}


@click.command()
@click.option("--frames", default=1500, show_default=True, help="Frames of the utterance.")
@click.option("--runs", default=5, show_default=True, help="Runs of each, in turns, after one that is not counted.")
@click.option("--threads", default=2, show_default=True, help="Threads of each.")
def main(frames: int, runs: int, threads: int) -> None:
    """Print a table for each network."""
    engine_threads.set_num_threads(threads)
    for config in sorted(NETS.glob("*.config")):
        nnet = with_statistics(nnet3py.Nnet.from_config(config.read_text(encoding="utf-8"), seed=1))
        rng = np.random.default_rng(0)
        for shape in ((1, frames), (SEQUENCES, frames // SEQUENCES)):
            feats = rng.standard_normal((*shape, nnet.input_dim("input"))).astype(np.float32)
            print(f"{config.stem}, {shape[0]} x {shape[1]} frames, {threads} threads")
            with tempfile.TemporaryDirectory() as folder:
                report(calls(nnet, feats, threads, Path(folder)), runs)


def report(measured: dict[str, Call], runs: int) -> None:
    """Run all in turns, and print the medians."""
    outputs = {name: call() for name, call in measured.items()}
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(runs):
        for name, call in measured.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    expected = next(iter(outputs.values()))
    medians = {name: 1000 * statistics.median(times) for name, times in seconds.items()}
    for name, milliseconds in medians.items():
        difference = np.abs(outputs[name] - expected).max() / np.abs(expected).max()
        print(f"  {name:26}{milliseconds:9.1f} ms{difference:12.1e}")
    print(faster_than_ours(medians))


def faster_than_ours(medians: dict[str, float]) -> str:
    """Which runtimes take less time than nnet3py as one chunk, which gives the same output."""
    ours, *others = medians.items()
    faster = [f"{name} ({ours[1] / milliseconds:.1f} times)" for name, milliseconds in others
              if milliseconds < ours[1] and not name.startswith("nnet3py")]
    return f"  faster than {ours[0]}: {', '.join(faster) or 'none'}"


if __name__ == "__main__":
    main()
