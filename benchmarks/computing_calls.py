"""What a call of ``nnet3py.compute`` costs beyond the computing, for a network that it has computed before.

usage: python benchmarks/computing_calls.py [--runs=200] [--only=NAME] [FRAMES...]

The computing is one run of the same compiled computation, its inputs being in place. Medians.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

import nnet3py
from nnet3py.network.inference import for_inference
from nnet3py.runtime.compute import UtteranceComputer

ROOT = Path(__file__).resolve().parent.parent
NETS = {"TDNN of the digits recipe": ROOT / "egs/digits/conf/tdnn.config",
        "LSTM of the digits recipe": ROOT / "egs/digits/conf/lstm.config",
        "TDNN-F": ROOT / "benchmarks/nets/tdnnf.config"}
GOAL = 1e-3      # seconds beyond the computing


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def with_statistics(nnet: nnet3py.Nnet) -> nnet3py.Nnet:
    """The network, its batch norm as after some training."""
    for component in nnet.components:
        if type(component).__name__ == "BatchNormComponent":
            component.count[:], component.sumsq[:] = 1.0, 1.0
    return nnet


@click.command()
@click.option("--runs", default=200, show_default=True, help="Calls of each kind, in turns.")
@click.option("--only", default="", help="Only networks whose name contains this.")
@click.argument("frames", type=int, nargs=-1)
def main(runs: int, only: str, frames: tuple[int, ...]) -> None:
    """Print the time of a first call, of a later one, and of the computing alone."""
    print(f"{'network':28}{'frames':>8}{'first':>12}{'later':>12}{'computing':>12}{'beyond':>12}")
    for name, config in NETS.items():
        if only not in name:
            continue
        nnet = with_statistics(nnet3py.Nnet.from_config(config.read_text(encoding="utf-8")))
        for count in frames or (100, 300):
            feats = np.random.default_rng(0).standard_normal((count, nnet.input_dim("input")), dtype=np.float32)
            nnet3py.compute(nnet.copy(), feats)          # kernels are loaded
            first = seconds(lambda: nnet3py.compute(nnet.copy(), feats))      # noqa: B023
            alone = UtteranceComputer(for_inference(nnet))
            alone.compute(feats)
            stages = [computer._bound.stages() for computer in alone._computers._computers.values()]
            times = [(seconds(lambda: nnet3py.compute(nnet, feats)),          # noqa: B023
                      sum(seconds(stage[0].run) for stage in stages)) for _ in range(runs)]
            later, computing = (statistics.median(column) for column in zip(*times, strict=True))
            beyond = statistics.median(call - run for call, run in times)
            print(f"{name:28}{count:8}{first * 1e3:9.2f} ms{later * 1e3:9.2f} ms{computing * 1e3:9.2f} ms"
                  f"{beyond * 1e3:9.2f} ms  {'met' if beyond < GOAL else 'missed'}")


if __name__ == "__main__":
    main()
