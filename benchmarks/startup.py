"""How long commands take to start, as ratios to importing what they cannot do without.

usage: python benchmarks/startup.py [--runs=20] [--model=FILE]

Every command is measured against a bare interpreter that imports click (for help) or numpy and click (for a command
that reads a model). The package is compiled to bytecode first, as an installer does. The runs are interleaved, so that
a busy machine slows both sides alike; medians are compared.
"""
from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
IMPORT_CLICK = [sys.executable, "-c", "import click"]
IMPORT_NUMPY = [sys.executable, "-c", "import numpy, click"]


def seconds(command: list[str]) -> float:
    """The wall time of one run; the command must succeed."""
    environment = {**os.environ, "NNET3PY_PYTHON": sys.executable}
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def small_examples() -> Path | None:
    """Training examples among the tests' data, or None."""
    found = [path for path in (ROOT / "tests" / "data" / "egs").glob("*.ark") if b"<Nnet3Eg>" in path.read_bytes()[:99]]
    return min(found, key=lambda path: path.stat().st_size, default=None)


def small_model() -> Path | None:
    """A model among the tests' data, or None."""
    found = sorted((ROOT / "tests" / "data").rglob("*.raw"), key=lambda path: path.stat().st_size)
    return found[0] if found else None


def cases(model: Path | None, examples: Path | None) -> list[tuple[str, list[str], list[str], float]]:
    """(label, command, what it is compared with, the ratio it should stay under)."""
    launchers = ROOT / "bin"
    group = [sys.executable, "-c", "from nnet3py.cli.main import main; main()", "--help"]
    found = [("nnet3py --help", group, IMPORT_CLICK, 1.5),
             ("nnet3-train --help", [str(launchers / "nnet3-train"), "--help"], IMPORT_CLICK, 1.5),
             ("feat-to-len --help", [str(launchers / "feat-to-len"), "--help"], IMPORT_CLICK, 1.5)]
    if model is not None:
        found += [("nnet3-info MODEL", [str(launchers / "nnet3-info"), str(model)], IMPORT_NUMPY, 1.3),
                  ("nnet3-copy MODEL", [str(launchers / "nnet3-copy"), str(model), os.devnull], IMPORT_NUMPY, 1.3)]
    if examples is not None:
        found += [(f"{name} EGS", [str(launchers / name), f"ark:{examples}", f"ark:{os.devnull}"], IMPORT_NUMPY, 1.3)
                  for name in ("nnet3-copy-egs", "nnet3-shuffle-egs", "nnet3-subset-egs")]
    return found + [(name, [str(launchers / name), *words], IMPORT_NUMPY, 1.3) for name, *words in TOOLS]


# Small tools on small tables in the current folder; what they write goes nowhere.
MODEL = str(ROOT / "tests" / "data" / "network" / "trans.mdl")
TOOLS = [
    ("copy-feats", "ark:feats", "ark:/dev/null"), ("copy-vector", "ark:vecs", "ark:/dev/null"),
    ("vector-scale", "ark:vecs", "ark:/dev/null"), ("vector-sum", "ark:vecs", "/dev/null"),
    ("matrix-sum", "ark:feats", "/dev/null"), ("matrix-sum-rows", "ark:feats", "ark:/dev/null"),
    ("matrix-dim", "ark:feats"), ("compute-cmvn-stats", "ark:feats", "ark:/dev/null"),
    ("modify-cmvn-stats", "0", "ark:stats", "ark:/dev/null"), ("apply-cmvn", "stats:2", "ark:feats", "ark:/dev/null"),
    ("apply-cmvn-online", "stats:2", "ark:feats", "ark:/dev/null"), ("splice-feats", "ark:feats", "ark:/dev/null"),
    ("add-deltas", "ark:feats", "ark:/dev/null"), ("select-feats", "0", "ark:feats", "ark:/dev/null"),
    ("subset-feats", "ark:feats", "ark:/dev/null"), ("subsample-feats", "ark:feats", "ark:/dev/null"),
    ("shift-feats", "ark:feats", "ark:/dev/null"), ("paste-feats", "ark:feats", "ark:feats", "ark:/dev/null"),
    ("append-vector-to-feats", "ark:feats", "ark:vecs", "ark:/dev/null"),
    ("transform-feats", "matrix", "ark:feats", "ark:/dev/null"),
    ("ali-to-pdf", MODEL, "ark:ali", "ark:/dev/null"), ("ali-to-phones", MODEL, "ark:ali", "ark:/dev/null"),
    ("ali-to-post", "ark:ali", "ark:/dev/null"), ("copy-post", "ark:post", "ark:/dev/null"),
    ("post-to-smat", "--dim=21", "ark:post", "ark:/dev/null"), ("post-to-tacc", MODEL, "ark:post", "/dev/null"),
    ("copy-transition-model", MODEL, "/dev/null"), ("show-transitions", "phones", MODEL), ("am-info", MODEL),
    ("tree-info", str(ROOT / "tests" / "data" / "network" / "tree")),
    ("acc-lda", MODEL, "ark:feats", "ark:post", "/dev/null"), ("sum-lda-accs", "/dev/null", "lda"),
    ("est-lda", "--dim=2", "/dev/null", "lda"), ("nnet-get-feature-transform", "/dev/null", "lda"),
]


def write_tables(folder: Path) -> None:
    """The files that TOOLS name."""
    rows = "\n".join("0 1 2 3" if t % 2 else f"{t} 4 {t * t % 7} {t % 5}" for t in range(20))
    ids = [1, 2, 3, 4] * 5
    for name, text in {"feats": f"a [ {rows} ]\n", "vecs": "a [ 1 2 3 ]\n", "ali": f"a {' '.join(map(str, ids))}\n",
                       "stats": "a [ 9 9 9 9 20\n 30 40 50 60 0 ]\n", "matrix": "[ 1 0 0 0\n 0 1 0 1 ]\n",
                       "post": f"a {' '.join(f'[ {number} 1 ]' for number in ids)}\n",
                       "phones": "".join(f"p{number} {number}\n" for number in range(6))}.items():
        (folder / name).write_text(text)
    seconds([str(ROOT / "bin" / "acc-lda"), MODEL, "ark:feats", "ark:post", "lda"])


@click.command()
@click.option("--runs", default=20, show_default=True, help="Runs of each command.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A model for nnet3-info.")
def main(runs: int, model: Path | None) -> None:
    """Print the start-up time of commands, and its ratio to that of the imports they need."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tables(Path(folder))
        measure(runs, cases(model.resolve() if model else small_model(), small_examples()))


def measure(runs: int, table: list[tuple[str, list[str], list[str], float]]) -> None:
    """Print a line for each command."""
    for label, command, baseline, limit in table:
        seconds(command)   # once unmeasured: files come into the page cache
        ours, theirs = [], []
        for _ in range(runs):
            theirs.append(seconds(baseline))
            ours.append(seconds(command))
        ratio = statistics.median(ours) / statistics.median(theirs)
        click.echo(f"{label:26} {statistics.median(ours):.3f} s  {baseline[-1]:20} {statistics.median(theirs):.3f} s   "
                   f"ratio {ratio:.2f} (goal: {limit})")


if __name__ == "__main__":
    main()
