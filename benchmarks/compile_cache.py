"""How much the folder of compiled computations saves a second process, and how large it is.

usage: python benchmarks/compile_cache.py [--runs=9] [--only=NAME]

Every run is a process of its own, which compiles the requests of benchmarks/compiling.py: that of a training
minibatch, or all that nnet3-compute asks for in 120 utterances; without any folder (none), with an empty one (first),
and with what was left there (second). Medians of the time for compiling, reading, checking and writing; importing, and
making the network, do not count.
"""
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
_PROCESS = """
import logging, sys
logging.getLogger('nnet3py.components').setLevel(logging.ERROR)      # these networks have no statistics
sys.path.insert(0, sys.argv[1])
from compiling import CAPACITY, CONTEXT, NETS, chunk_requests, training_request
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler import check, disk_cache, shortcut    # not to be counted
from nnet3py.network.inference import prepare_for_test
from nnet3py.network.nnet import Nnet
name, kind, folder = sys.argv[2:]
nnet = Nnet.from_config((NETS / f"{name}.config").read_text(encoding="utf-8"))
if kind == "training":
    requests = [training_request(CONTEXT[name])]
else:
    nnet = prepare_for_test(nnet)
    requests = chunk_requests(nnet)
compiler = CachingCompiler(nnet, capacity=CAPACITY, cache_dir=folder)
for request in requests:
    compiler.compile(request)
print(compiler.seconds_total + compiler.seconds_io)
"""


def seconds(name: str, kind: str, folder: str) -> float:
    """What a process needs; ``folder`` may be empty, for none."""
    done = subprocess.run([sys.executable, "-c", _PROCESS, str(HERE), name, kind, folder], check=True, text=True,
                          stdout=subprocess.PIPE)
    return float(done.stdout)


def size(folder: Path) -> tuple[int, float]:
    """How many entries there are, and of how many megabytes."""
    entries = list(folder.iterdir())
    return len(entries), sum(entry.stat().st_size for entry in entries) / 1e6


@click.command()
@click.option("--runs", default=9, show_default=True, help="Runs of each row.")
@click.option("--only", default="", help="Only rows whose network and request contain this.")
def main(runs: int, only: str) -> None:
    """Print the seconds without a folder, of the first process and of the second."""
    click.echo(f"{'network':10} {'request':14} {'none':>7} {'first':>7} {'second':>7}   second/none   folder")
    for name in ("tdnnf", "tdnn-lstm"):
        for kind in ("training", "nnet3-compute"):
            if only not in f"{name} {kind}":
                continue
            found: dict[str, list[float]] = {"none": [], "first": [], "second": []}
            for _ in range(runs):
                with tempfile.TemporaryDirectory() as folder:
                    for which, place in (("none", ""), ("first", folder), ("second", folder)):
                        found[which].append(seconds(name, kind, place))
                    count, megabytes = size(Path(folder))
            none, first, second = (statistics.median(found[which]) for which in found)
            click.echo(f"{name:10} {kind:14} {none:7.3f} {first:7.3f} {second:7.3f} {second / none:13.2f}   "
                       f"{count} entries, {megabytes:.1f} MB")


if __name__ == "__main__":
    os.environ.pop("NNET3PY_COMPUTATION_CACHE", None)
    main()
