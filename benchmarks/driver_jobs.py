"""Two training jobs of a driver side by side: sharing the cores, against each taking all of them.

    python benchmarks/driver_jobs.py [--jobs 2] [--runs 5] [--minibatches 60] [--utterances N]

Drivers give each of J jobs cores // J threads. The same two jobs (a pass of nnet3-train over a third of the digits
recipe's examples, its TDNN) run in this way, then each with as many threads as there are cores, as programs would that
know nothing of each other; the runs are interleaved. One job alone with all cores shows what a second one costs.
"""
from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from cpu_parts import data
from cpu_parts.processes import describe_machine, program, sgemm_rate

from nnet3py.drivers.executor import Job
from nnet3py.drivers.executors import LocalExecutor
from nnet3py.system import available_cores


def seconds(folder: Path, num_jobs: int, threads_each: int) -> float:
    """The wall time of ``num_jobs`` jobs side by side."""
    command = "nnet3-train --max-param-change=2.0 {0}/tdnn.raw ark:{0}/part.ark {0}/out.{1}.raw"
    with LocalExecutor(slots=num_jobs, threads=threads_each) as executor:
        jobs = [Job(command.format(folder, number), folder / f"{number}.log") for number in range(num_jobs)]
        start = time.perf_counter()
        executor.run(jobs)
        return time.perf_counter() - start


def main() -> None:
    """Print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minibatches", type=int, default=60, help="of each job")
    parser.add_argument("--utterances", type=int, help="no more data than this, for a first look")
    options = parser.parse_args()
    cores = available_cores()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data.make(folder, ["tdnn"], options.utterances)
        program("nnet3-subset-egs", f"--n={options.minibatches}", f"ark:{folder}/recipe.ark", f"ark:{folder}/part.ark",
                threads=1)
        ways = {"one job, all cores": (1, cores), "sharing the cores": (options.jobs, max(1, cores // options.jobs)),
                "all cores for each": (options.jobs, cores)}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for way in ways:
            seconds(folder, *ways[way])            # compiled kernels come into the cache
        for _ in range(options.runs):
            for way, arguments in ways.items():
                times[way].append(seconds(folder, *arguments))
    print(describe_machine(cores, [sgemm_rate(cores)]))
    for way, values in times.items():
        print(f"{way:20} {ways[way][0]} jobs, {ways[way][1]} threads each: {statistics.median(values):.2f} s "
              f"({min(values):.2f} to {max(values):.2f})")
    shared, contended = (statistics.median(times[way]) for way in ("sharing the cores", "all cores for each"))
    print(f"sharing takes {shared / contended:.2f} of the time of contending")


if __name__ == "__main__":
    main()
