"""How long compiling takes, as ratios to Kaldi's times, measured elsewhere, for the same networks and requests.

usage: python benchmarks/compiling.py [--runs=7] [--only=NAME] [--profile=ROWS]

Rows with 64 sequences: inputs from t = -context to 149 + context, outputs at every third t from 0 to 147, parameter,
input and output derivatives; with shortcut compilation and without. Rows of nnet3-compute: all that it compiles for 120
utterances (their lengths stand below) with --frames-per-chunk=150. All with the default optimization, checked; medians,
without importing. Ratios are of processor time, which is what the clock shows where nothing else runs (one thread
compiles). No program of Kaldi compiles such requests alone, so its times are those of another machine
(cpu_parts/kaldi.py).

A second table has what the shortcut gains for other numbers of sequences: least processor times of runs in turns.
"""
from __future__ import annotations

import cProfile
import logging
import pstats
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from cpu_parts import kaldi

import nnet3py
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.network.inference import prepare_for_test
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.compute import UtteranceComputer
from nnet3py.runtime.cutting import Shape, Utterance
from nnet3py.runtime.options import ComputeOptions

NETS = Path(__file__).resolve().parent / "nets"
NUM_SEQUENCES = 64
MORE_SEQUENCES = (16, 64, 256, 1024)
NUM_FRAMES = 150
CONTEXT = {"tdnnf": 28, "tdnn-lstm": 5}
CAPACITY = 114      # of nnet3-compute's cache
KALDI = {("tdnnf", "shortcut"): 0.056, ("tdnnf", "whole"): 3.6, ("tdnnf", "nnet3-compute"): 2.4,
         ("tdnn-lstm", "shortcut"): 0.034, ("tdnn-lstm", "whole"): 0.32, ("tdnn-lstm", "nnet3-compute"): 1.4}
GOAL = {"shortcut": 3.0, "whole": 1.0, "nnet3-compute": 1.0}
LENGTHS = [int(length) for length in """
202 155 232 346 277 229 242 206 236 274 288 162 125 158 237 120 91 125 173 82 124 172 191 95 165 325 346 419
322 367 488 315 436 175 219 391 180 160 189 445 277 249 257 234 184 377 183 163 329 115 223 249 333 219 160
218 166 298 188 205 295 222 385 330 251 286 127 297 145 201 239 232 140 206 249 195 157 240 263 113 117 174
167 183 251 144 93 206 207 271 221 99 223 149 263 198 154 88 79 157 115 225 174 181 95 104 172 116 104 148 134
101 183 78 92 68 84 167 109 139
""".split()]


def indexes(num_sequences: int, times: range) -> np.ndarray:
    """int32 (rows, 3): all times of the first sequence, then of the next."""
    return np.array([(n, t, 0) for n in range(num_sequences) for t in times], np.int32)


def training_request(context: int, num_sequences: int = NUM_SEQUENCES) -> nnet3py.ComputationRequest:
    """What a minibatch of chunks asks for."""
    io = nnet3py.IoSpecification
    return nnet3py.ComputationRequest(
        [io("input", indexes(num_sequences, range(-context, NUM_FRAMES + context)), has_deriv=True)],
        [io("output", indexes(num_sequences, range(0, NUM_FRAMES, 3)), has_deriv=True)], need_model_derivative=True)


def chunk_requests(nnet: Nnet) -> list[nnet3py.ComputationRequest]:
    """What nnet3-compute asks for, minibatch by minibatch."""
    computer = UtteranceComputer(nnet, ComputeOptions(frames_per_chunk=NUM_FRAMES))
    found: list[nnet3py.ComputationRequest] = []

    def note(shape: Shape, chunks: list[Any]) -> None:
        found.append(computer.request(shape, computer.cutter.size_for(len(chunks), shape.full_size)))
        for utterance, _ in chunks:
            utterance.num_waiting -= 1

    computer._run_minibatch = note       # type: ignore[method-assign]
    dim = nnet.input_dim("input")
    for _ in computer.compute_all(Utterance(str(i), np.zeros((length, dim), np.float32)) for i, length in
                                  enumerate(LENGTHS)):
        pass
    return found


def cases(name: str) -> dict[str, Callable[[], CachingCompiler]]:
    """What to measure for a network; each compiles everything anew and returns the compiler, which knows the times."""
    nnet = Nnet.from_config((NETS / f"{name}.config").read_text(encoding="utf-8"))
    decoding = prepare_for_test(nnet.copy())
    minibatch, chunks = training_request(CONTEXT[name]), chunk_requests(decoding)

    def train(use_shortcut: bool) -> CachingCompiler:
        compiler = CachingCompiler(nnet, use_shortcut=use_shortcut)
        compiler.compile(minibatch)
        return compiler

    def compute() -> CachingCompiler:
        compiler = CachingCompiler(decoding, capacity=CAPACITY)
        for request in chunks:
            compiler.compile(request)
        return compiler

    return {"shortcut": lambda: train(True), "whole": lambda: train(False), "nnet3-compute": compute}


def print_gains(runs: int, only: str) -> None:
    """Print what compiling a training request takes with the shortcut and without, by the number of sequences."""
    click.echo(f"\n{'network':10} {'sequences':>9} {'shortcut':>9} {'whole':>7} {'gain':>5}")
    for name in CONTEXT:
        nnet = Nnet.from_config((NETS / f"{name}.config").read_text(encoding="utf-8"))
        for num_sequences in (count for count in MORE_SEQUENCES if only in f"{name} {count} sequences"):
            request = training_request(CONTEXT[name], num_sequences)
            seconds: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(runs):
                for use_shortcut, found in seconds.items():
                    compiler = CachingCompiler(nnet, use_shortcut=use_shortcut)
                    start = time.process_time()
                    compiler.compile(request)
                    found.append(time.process_time() - start)
            shortcut, whole = min(seconds[True]), min(seconds[False])
            click.echo(f"{name:10} {num_sequences:9} {shortcut:9.3f} {whole:7.3f} {whole / shortcut:5.2f}")


def profile(run: Callable[[], CachingCompiler], rows: int) -> None:
    """Print the functions that take most of the time of one run."""
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(rows)


@click.command()
@click.option("--runs", default=7, show_default=True, help="Runs of each row.")
@click.option("--only", default="", help="Only rows whose network and request contain this.")
@click.option("--profile", "rows", default=0, help="Print so many rows of a profile of what misses its goal.")
def main(runs: int, only: str, rows: int) -> None:
    """Print how long compiling takes, and its ratio to Kaldi's time elsewhere."""
    logging.disable(logging.WARNING)      # random networks have no statistics for their test mode
    click.echo(f"{'network':10} {'request':14} {'clock':>7} {'cpu':>7} {'Kaldi*':>7} {'ratio':>6} {'goal':>5}"
               "   of which by the clock")
    for name in CONTEXT:
        for kind, run in cases(name).items() if any(only in f"{name} {kind}" for kind in GOAL) else ():
            if only not in f"{name} {kind}":
                continue
            run()      # once unmeasured
            clock, cpu, parts = [], [], []
            for _ in range(runs):
                start = time.perf_counter(), time.process_time()
                compiler = run()
                clock.append(time.perf_counter() - start[0])
                cpu.append(time.process_time() - start[1])
                parts.append(compiler.seconds)
            seconds, there = statistics.median(cpu), KALDI[name, kind]
            of_which = ", ".join(f"{part} {statistics.median(one[part] for one in parts):.3f}" for part in parts[0])
            click.echo(f"{name:10} {kind:14} {statistics.median(clock):7.3f} {seconds:7.3f} {there:7.3f} "
                       f"{seconds / there:6.2f} {GOAL[kind]:5.1f}   {of_which}")
            if rows and seconds > GOAL[kind] * there:
                profile(run, rows)
    click.echo(f"* {kaldi.WHERE}")
    print_gains(runs, only)


if __name__ == "__main__":
    main()
