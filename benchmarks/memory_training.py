"""Peak memory of training, with the commands as Kaldi lists them, fused, and with shared places; and what that takes.

    python benchmarks/memory_training.py [--threads 2] [--runs 3] [--only tdnnf] [--utterances N]

Each line is nnet3-train over the data of benchmarks/cpu.py (13 minibatches of 32 x 60 frames) as a process of its own,
in turns; the first turn, in which kernels may be compiled, does not count. "Matrices" is what the runtime lays out for
them, as its log says; the process holds numpy, the kernels, the parameters and one minibatch of examples besides.
Processor time is of all threads: on a machine that does other work, too, it says more than seconds.
"""
from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from cpu_parts import data, processes

WITHOUT_PLACES = "omit-marks,omit-copies,fuse-sums,fuse-affine,fuse-backprop"
WAYS = {"as Kaldi lists them": "none", "fused": WITHOUT_PLACES, "fused, places shared": "all"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=(*data.LARGE, data.PRODUCTION, *data.RECIPES))
    parser.add_argument("--utterances", type=int, help="no more data than this, for a first look")
    options = parser.parse_args()
    nets = [options.only] if options.only else data.LARGE
    print(f"{'':32}{'matrices':>10}{'process':>10}{'processor time':>18}{'seconds':>10}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data.make(folder, nets, options.utterances)
        for net in nets:
            commands = {}
            for way, passes in WAYS.items():
                program, *words = data.train_command(folder, net, options.threads)
                commands[way] = [program, f"--optimization.fuse={passes}", *words]
            for way, runs in processes.take_turns(commands, options.runs, options.threads).items():
                found = re.findall(r"matrices of a minibatch take (\d+ MB)", runs.first.log)     # large ones
                matrices = max(found, key=lambda size: int(size.split()[0]), default="a few")
                print(f"{net + ', ' + way:32}{matrices:>10}{runs.peak() / 2**20:7.0f} MB"
                      f"{runs.median(lambda run: run.processor):16.2f} s{runs.median():8.2f} s", flush=True)
    print(processes.describe_machine(options.threads, [processes.sgemm_rate(options.threads)]))


if __name__ == "__main__":
    main()
