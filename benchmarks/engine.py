"""What each part of the engine gains over what a library has for the same; one line for each part and kind of work.

    python benchmarks/engine.py [--threads 2] [--runs 5] [--parts team,tiles,…] [--work start,tdnn,…] [--keep FOLDER]

The same command runs with the engine as it is and with one part replaced (engine_parts/replaced.py has how):

    team      numba's own threads instead of the team
    tiles     scipy's BLAS instead of tiles
    loading   numba's own cache, loading and wrappers instead of object files and entries
    entries   ctypes instead of entries
    layouts   examples found by walking over each, without learned regular expressions

Work: ``start``, a whole process that computes one short utterance with the digits' TDNN; ``tdnn``, ``tdnnf`` and
``tdnn-lstm``, the steps of training the nets of egs/digits and benchmarks/nets, a minibatch each; ``examples``, a whole
process that copies the digits' examples one by one. All ways take turns. Of whole processes the median of the seconds
of the clock and of the processor is shown, of steps also the clock's least. A part's gain is what the time becomes
without it, over what it is, less one. On a busy machine the processor's seconds with --threads=1 say most.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cpu_parts import data, processes

HERE = Path(__file__).resolve().parent
AS_IT_IS = ""
PARTS = ("team", "tiles", "loading", "entries", "layouts")
OWN_KERNELS = ("tiles", "loading", "entries")       # parts whose kernels are others
WORK = ("start", "tdnn", "tdnnf", "tdnn-lstm", "examples")
MINIBATCHES = {"tdnn": 40, "tdnnf": 4, "tdnn-lstm": 4}
WALL, CPU = "wall", "processor"


def make_data(folder: Path) -> None:
    """Models and a few minibatches of each net, and single examples."""
    data.make(folder)
    for net, count in MINIBATCHES.items():
        source = "large" if net in data.LARGE else "recipe"
        if not (folder / f"{net}.some").exists():
            processes.program("nnet3-subset-egs", f"--n={count}", f"ark:{folder / source}.ark",
                              f"ark:{folder / net}.some", threads=1)
    if not (folder / "single.some").exists():
        processes.program("nnet3-get-egs", "--num-pdfs=28", "--left-context=12", "--right-context=12", "--num-frames=8",
                          f"ark:{data.TRAIN / 'feats.ark'}",
                          f"ark:ali-to-post ark,t:{data.TRAIN / 'ali.txt'} ark:- |", f"ark:{folder / 'single.some'}",
                          threads=1)


def command_of(folder: Path, work: str, threads: int) -> list[str]:
    """The program of a kind of work, and its arguments."""
    if work == "start":
        return ["nnet3-compute", f"--num-threads={threads}", f"{folder}/tdnn.raw", f"ark:{folder}/short.ark",
                f"ark:{folder}/out.ark"]
    if work == "examples":
        return ["nnet3-copy-egs", f"ark:{folder}/single.some", f"ark:{folder}/out.ark"]
    return ["nnet3-train", f"--num-threads={threads}", "--max-param-change=2.0", f"{folder}/{work}.raw",
            f"ark:{folder}/{work}.some", f"{folder}/out.raw"]


def run(folder: Path, part: str, work: str, threads: int) -> dict[str, list[float]]:
    """Seconds of one run, the clock's and the processor's: of the process, or of each minibatch but the first."""
    times = folder / "times.json"
    cache = folder / f"cache-{part if part in OWN_KERNELS else 'as-it-is'}"
    environment = {**processes.environment(threads), "NNET3PY_CACHE": str(cache), "NUMBA_CACHE_DIR": "",
                   "PYTHONPATH": f"{processes.ROOT}:{HERE}"}
    words = [sys.executable, "-m", "engine_parts.replaced", part, str(times), *command_of(folder, work, threads)]
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    log = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"exit status {process.returncode}: {' '.join(words)}\n{log.decode()}")
    steps = json.loads(times.read_text(encoding="utf-8"))[1:]
    if steps:
        return {"step": [wall for wall, _ in steps], CPU: [cpu for _, cpu in steps]}
    return {WALL: [seconds], CPU: [usage.ru_utime + usage.ru_stime]}


def summaries(samples: dict[str, list[float]]) -> dict[str, float]:
    """The figures that are shown of some runs, in seconds."""
    if "step" in samples:
        return {"median": statistics.median(samples["step"]), "least": min(samples["step"]),
                CPU: statistics.median(samples[CPU])}
    return {name: statistics.median(values) for name, values in samples.items()}


def measure(folder: Path, work: str, parts: list[str], threads: int, runs: int,
            write: Callable[[str], None]) -> None:
    """Take turns, and write a line for the engine as it is and for each part without which it was run."""
    found: dict[str, dict[str, list[float]]] = {part: {} for part in (AS_IT_IS, *parts)}
    for turn in range(runs + 1):
        for part, samples in found.items():
            for name, values in run(folder, part, work, threads).items():
                if turn:                # kernels may be compiled in the first
                    samples.setdefault(name, []).extend(values)
    ours = summaries(found[AS_IT_IS])
    write(f"{work:10} as it is    " + "   ".join(f"{name} {1e3 * value:8.2f} ms" for name, value in ours.items()))
    for part in parts:
        theirs = summaries(found[part])
        write(f"{work:10} {'without ' + part:18}" + "   ".join(
            f"{name} {1e3 * value:8.2f} ms, gain {100 * (value / ours[name] - 1):+6.1f} %"
            for name, value in theirs.items()))


def concerned(part: str, work: str) -> bool:
    """Whether a part has anything to do with a kind of work."""
    processes_only = {"start", "examples"}
    return work not in {"team": processes_only, "entries": processes_only, "layouts": {"start"}}.get(part, {"examples"})


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--work", default=",".join(WORK))
    parser.add_argument("--keep", type=Path, help="a folder for data and kernels that the next run takes up")
    args = parser.parse_args()
    parts, kinds = args.parts.split(","), args.work.split(",")
    unknown = {*parts} - {*PARTS} | {*kinds} - {*WORK}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temp:
        folder = args.keep or Path(temp)
        folder.mkdir(exist_ok=True)
        make_data(folder)
        for work in kinds:
            measure(folder, work, [part for part in parts if concerned(part, work)], args.threads, args.runs,
                    lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
