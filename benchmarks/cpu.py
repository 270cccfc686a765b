"""Training and computing on the CPU beside PyTorch and Kaldi; one line for each target.

    python benchmarks/cpu.py [--threads 2] [--runs 5] [--only tdnnf,lstm,recipes,start,production] [--profile]

Whole processes are timed, as a user sees them, in turns with what they are compared with; the first turn is not
counted (kernels may be compiled in it), and of the others the median is shown. The nets are those of benchmarks/nets
and of egs/digits, the data egs/digits/data: 120 utterances in 13 minibatches of 32 x 60 frames for the large nets, all
training utterances in 181 minibatches of 64 x 8 frames for the small ones. The production TDNN-F (16 layers of 1536
with bottlenecks of 160, 3,000 outputs, 17.4 million parameters) has the features of the large nets.

PyTorch's times are those of its steps alone (see torch_tdnnf.py). Kaldi's programs take part if they are on PATH: with
as many threads for the large nets, with one, which is its fastest, for the small ones. What is not there is replaced by
what it took elsewhere, on two cores of an AMD EPYC whose sgemm did 182 GFLOP/s, scaled by this machine's sgemm rate,
which is measured in each turn; such figures are named so. A rate of useful operations counts 2mnk for each matrix
product in the optimized command lists, natural gradient not included.

With --profile each large run is run once more with timers inside: where its time goes, by kind and by operation.
"""
from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cpu_parts import data, kaldi, processes, profile_text
from cpu_parts.processes import Run, Runs

HERE = Path(__file__).resolve().parent
RATE_THERE = 182.0                      # GFLOP/s of sgemm where the seconds below were measured, with two threads
TORCH_THERE = {"train": 9.2, "compute": 4.8}        # PyTorch's seconds there
KALDI_THERE = {("tdnn-lstm", "training"): 15.4, ("tdnn-lstm", "computing"): 12.0,   # Kaldi's seconds there
               ("tdnn", "training"): 5.1, ("lstm", "training"): 7.5,
               # 95.8 and 14.4 s where sgemm did 160 GFLOP/s, as RATE_THERE would have made of it
               (data.PRODUCTION, "training"): 84.2, (data.PRODUCTION, "computing"): 12.7}
LSTM_LIMITS = {"training": 1 / 2, "computing": 1 / 3}                               # of Kaldi's seconds
PRODUCTION_LIMITS = {"training": 1 / 2.4, "computing": 1 / 2.2}
RECIPE_LIMIT = 1 / 2
MEMORY_THERE = {"tdnnf": 545, "tdnn-lstm": 285}     # MB, Kaldi's training
BUSY = 1.25                                         # greatest over least sgemm rate, on a machine at rest less
START_LIMIT = 1.0                                   # seconds to a first result
PRODUCTS = "rows"                                   # PyTorch's way that is no convolution
NAMES = {"tdnnf": "TDNN-F", "tdnn-lstm": "TDNN-LSTM", data.PRODUCTION: "production TDNN-F"}
PARTS = ("tdnnf", "lstm", "recipes", "start", "production")


@dataclass
class Bench:
    """What all measurements share, and the lines that they made."""

    folder: Path
    threads: int
    runs: int
    rates: list[float] = field(default_factory=list)     # of sgemm, in all turns
    rate: float = 0.0                                    # of sgemm, GFLOP/s: the median of the last measurement's turns
    missed: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)        # of the table for README.md

    def turns(self, commands: dict[str, list[str | Path]]) -> dict[str, Runs]:
        """Run the commands in turns, a measurement of the sgemm rate with each."""
        rate = [sys.executable, "-c", processes.SGEMM]
        found = processes.take_turns({**commands, "sgemm": rate}, self.runs, self.threads)
        rates = [float(run.output) for run in found.pop("sgemm").counted]
        self.rate = statistics.median(rates)
        self.rates += rates
        return found

    def scaled(self, seconds: float) -> float:
        """What would take ``seconds`` at 182 GFLOP/s, at this machine's rate."""
        return seconds * RATE_THERE / self.rate

    def target(self, what: str, ours: float, unit: str, reference: float, named: str, limit: float,
               at_least: bool = False) -> None:
        """Print a target: ours, the reference, their ratio, its limit, and whether it is met."""
        ratio = ours / reference
        met = ratio >= limit if at_least else ratio <= limit
        if not met:
            self.missed.append(what)
        bound = f"{'at least' if at_least else 'at most'} {limit:.2f}"
        self.rows.append(f"| {what} | {shown(ours)} {unit} | {named}: {shown(reference)} {unit} | {ratio:.2f} | "
                         f"{bound}: {'met' if met else 'missed'} |")
        print(f"{what:48} {ours:8.2f} {unit:8} {named:38} {reference:8.2f}   ratio {ratio:5.2f}  "
              f"({bound}): {'met' if met else 'MISSED'}", flush=True)


def shown(value: float) -> str:
    """A number as a table shows it."""
    return f"{value:.1f}" if value < 20 else f"{value:.0f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure, with commas")
    parser.add_argument("--profile", action="store_true", help="also say where the time of the large runs goes")
    parser.add_argument("--profile-to", type=Path, help="a file for the profiles, instead of standard output")
    parser.add_argument("--data", type=Path, help="a folder that keeps the data for another run")
    parser.add_argument("--utterances", type=int, help="no more data than this, for a first look")
    args = parser.parse_args()
    chosen = args.only.split(",")
    if not set(chosen) <= set(PARTS):
        parser.error(f"--only={args.only}: the parts are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        data.make(folder, utterances=args.utterances)
        bench = Bench(folder, args.threads, args.runs)
        for part in chosen:
            MEASURES[part](bench)
        print(f"machine: {processes.describe_machine(args.threads, bench.rates)}")
        if max(bench.rates) > BUSY * min(bench.rates):
            print("the rate of sgemm varied: other work was on the machine, and these figures say little")
        if any(kaldi.ELSEWHERE in row for row in bench.rows):
            print(kaldi.WHERE)
        print(f"targets missed: {', '.join(bench.missed) or 'none'}")
        print("", f"| {args.threads} threads | nnet3py | compared with | ratio | target |", "|---|---|---|---|---|",
              *bench.rows, sep="\n")
        if args.profile or args.profile_to:
            text = "\n".join(profiles(bench, chosen))
            if args.profile_to:
                args.profile_to.write_text(text, encoding="utf-8")
            else:
                print(f"\n{text}")


# -- PyTorch -----------------------------------------------------------------------------------------------------------

def torch_ways(bench: Bench, task: str) -> dict[str, list[str | Path]]:
    """The commands of PyTorch's ways to do a task; none without PyTorch."""
    import torch_tdnnf

    from nnet3py.extras import install_command

    if not torch_tdnnf.is_installed():
        print(f"PyTorch is not installed ({install_command('bench')}): its times on another machine stand in, scaled")
        return {}
    return {way: [sys.executable, HERE / "torch_tdnnf.py", task, f"--threads={bench.threads}", "--json", f"--way={way}"]
            for way in torch_tdnnf.WAYS[task]}


def torch_seconds(run: Run) -> float:
    """The seconds that torch_tdnnf.py measured of its own steps."""
    return float(next(iter(json.loads(run.output)["seconds"].values())))


def against_torch(bench: Bench, what: str, task: str, ours: float, found: dict[str, Runs], limit: float) -> None:
    """Print the targets of a TDNN-F run: against PyTorch's fastest convolutions, and its matrix products."""
    ways = {way: runs.median(torch_seconds) for way, runs in found.items() if way != "ours"}
    if not ways:
        bench.target(what, ours, "s", bench.scaled(TORCH_THERE[task]), "PyTorch elsewhere, scaled", limit)
        return
    version = json.loads(found[PRODUCTS].first.output)["version"]
    print(f"PyTorch {version}, TDNN-F {task}: " + ", ".join(
        f"{way} {seconds:.2f} s ({found[way].spread(torch_seconds)})" for way, seconds in ways.items()))
    fastest = min((way for way in ways if way != PRODUCTS), key=ways.__getitem__)
    bench.target(what, ours, "s", ways[fastest], f"PyTorch's convolutions, {fastest}", limit)
    bench.target(f"{what}, by products", ours, "s", ways[PRODUCTS], "PyTorch's products, by hand", limit)


# -- Kaldi -------------------------------------------------------------------------------------------------------------

KALDI = "Kaldi"


def kaldis(command: list[str | Path], threads: int) -> dict[str, list[str | Path]]:
    """The same command of Kaldi; nothing if it is not on PATH."""
    theirs = kaldi.same_command(command, threads)
    return {} if theirs is None else {KALDI: theirs}


def against_kaldi(bench: Bench, what: str, found: dict[str, Runs], there: float, limit: float, how: str = "") -> None:
    """Print a target of a run: a part of Kaldi's seconds, here, or ``there`` scaled by the rate of sgemm."""
    if KALDI in found:
        seconds, named = found[KALDI].median(), KALDI
        print(f"Kaldi, {what}: {seconds:.2f} s ({found[KALDI].spread()})")
    else:
        seconds, named = bench.scaled(there), f"{kaldi.ELSEWHERE}, scaled"
    bench.target(what, found["ours"].median(), "s", seconds, f"{named}, {how}" if how else named, limit)


# -- the parts ---------------------------------------------------------------------------------------------------------

def compile_seconds(run: Run) -> float:
    """The seconds of compilation that a command logged."""
    match = re.search(r"([\d.e+-]+) seconds taken in nnet3 compilation total", run.log)
    return float(match[1]) if match else 0.0


def useful_operations(bench: Bench, net: str, task: str) -> float:
    """Useful operations of training or computing a large net, counted in another process."""
    file = data.examples(bench.folder, net) if task == "train" else bench.folder / "features.ark"
    return float(processes.run([sys.executable, HERE / "cpu_parts" / "operations.py", task, bench.folder / f"{net}.raw",
                                f"ark:{file}"], bench.threads).output)


def show_run(what: str, runs: Runs) -> None:
    """Print a line about whole processes."""
    print(f"{what}: whole process {runs.median():.2f} s ({runs.spread()}, {len(runs.counted)} runs, first "
          f"{runs.first.seconds:.2f}), of which {runs.median(compile_seconds):.2f} s compiling; peak memory "
          f"{runs.peak() / 1e6:.0f} MB", flush=True)


def tdnnf(bench: Bench) -> None:
    """Targets 1, 2 and 5 for the TDNN-F."""
    command = data.train_command(bench.folder, "tdnnf", bench.threads)
    found = bench.turns({"ours": command, **torch_ways(bench, "train"), **kaldis(command, bench.threads)})
    theirs = found.pop(KALDI, None)
    show_run("TDNN-F training", found["ours"])
    seconds = found["ours"].median()
    against_torch(bench, "TDNN-F training", "train", seconds, found, 1.0)
    rate = useful_operations(bench, "tdnnf", "train") / seconds / 1e9
    bench.target("TDNN-F training, useful operations", rate, "GFLOP/s", bench.rate, "sgemm", 0.5, at_least=True)
    memory(bench, "tdnnf", found["ours"], theirs)
    found = bench.turns({"ours": data.compute_command(bench.folder, "tdnnf", bench.threads),
                         **torch_ways(bench, "compute")})
    show_run("TDNN-F computing", found["ours"])
    seconds = found["ours"].median(lambda run: run.seconds - compile_seconds(run))
    against_torch(bench, "TDNN-F computing, compiled before", "compute", seconds, found, 0.5)
    rate = useful_operations(bench, "tdnnf", "compute") / seconds / 1e9
    print(f"TDNN-F computing: {rate:.0f} GFLOP/s of useful operations, {rate / bench.rate:.2f} of sgemm's")


def lstm(bench: Bench) -> None:
    """Targets 3 and 5 for the TDNN-LSTM."""
    train_and_compute(bench, "tdnn-lstm", LSTM_LIMITS)


def production(bench: Bench) -> None:
    """The TDNN-F of 17.4 million parameters."""
    train_and_compute(bench, data.PRODUCTION, PRODUCTION_LIMITS)


def train_and_compute(bench: Bench, net: str, limits: dict[str, float]) -> None:
    """Training and computing of a large net beside Kaldi's, and peak memory where Kaldi's is known."""
    commands = {"training": data.train_command(bench.folder, net, bench.threads),
                "computing": data.compute_command(bench.folder, net, bench.threads)}
    for task, command in commands.items():
        found = bench.turns({"ours": command, **kaldis(command, bench.threads)})
        show_run(f"{NAMES[net]} {task}", found["ours"])
        against_kaldi(bench, f"{NAMES[net]} {task}", found, KALDI_THERE[net, task], limits[task])
        if task == "training" and (net in MEMORY_THERE or KALDI in found):
            memory(bench, net, found["ours"], found.get(KALDI))


def recipes(bench: Bench) -> None:
    """Target 4: one pass of the digits recipe's nets."""
    for net in data.RECIPES:
        command = data.train_command(bench.folder, net, bench.threads)
        found = bench.turns({"ours": command, **kaldis(command, 1)})
        what = f"digits {net.upper()}, one pass"
        show_run(what, found["ours"])
        against_kaldi(bench, what, found, KALDI_THERE[net, "training"], RECIPE_LIMIT, "one thread")


def memory(bench: Bench, net: str, ours: Runs, theirs: Runs | None) -> None:
    """Target 5: peak memory against Kaldi's."""
    reference, named = (theirs.peak() / 1e6, KALDI) if theirs else (MEMORY_THERE[net], kaldi.ELSEWHERE)
    bench.target(f"{NAMES[net]} training, peak memory", ours.peak() / 1e6, "MB", reference, named, 1.0)


def start(bench: Bench) -> None:
    """Time to the first result: a whole process that computes one short utterance."""
    found = bench.turns({"ours": data.compute_command(bench.folder, "tdnnf", bench.threads, "short"),
                         "imports": processes.IMPORTS})
    show_run("TDNN-F computing of one short utterance", found["ours"])
    print(f"importing numpy, a whole process: {found['imports'].median():.2f} s")
    bench.target("first result, one short utterance", found["ours"].median(), "s", START_LIMIT, "target", 1.0)


MEASURES: dict[str, Callable[[Bench], None]] = {"tdnnf": tdnnf, "lstm": lstm, "recipes": recipes, "start": start,
                                                 "production": production}


def profiles(bench: Bench, chosen: list[str]) -> Iterator[str]:
    """The profiles of the large runs of the chosen parts."""
    yield f"machine: {processes.describe_machine(bench.threads, bench.rates)}\n"
    for part, net in (("tdnnf", "tdnnf"), ("lstm", "tdnn-lstm"), ("production", data.PRODUCTION)):
        if part in chosen:
            for task, command in (("train", data.train_command), ("compute", data.compute_command)):
                found = profile_text.profile(command(bench.folder, net, bench.threads), bench.threads, bench.folder)
                yield profile_text.describe(f"{net} {task}, {bench.threads} threads", found,
                                            useful_operations(bench, net, task), statistics.median(bench.rates))


if __name__ == "__main__":
    main()
