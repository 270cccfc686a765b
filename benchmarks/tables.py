"""Tables and examples: commands that copy, shuffle, merge and compress, beside Kaldi's.

usage: python benchmarks/tables.py [--runs=9] [--data=egs/digits/data/train] [--megabytes=128] [--utterances=N]

Whole processes, their start included; every command takes turns with a bare interpreter that imports what some of
them cannot do without (numpy; llvmlite, which loads compiled loops), so that a busy machine slows all of them alike.
Kaldi's programs take turns with ours if they are on PATH; else the seconds that they took elsewhere stand beside ours,
and are named so (cpu_parts/kaldi.py). Then reading and writing inside one process, and last what the parts of the
commands take that are slower than Kaldi's.
"""
from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from cpu_parts import kaldi

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "egs" / "digits" / "data" / "train"
IMPORTS = {"python": "pass", "numpy": "import numpy", "llvmlite": "import llvmlite.binding",
           "numpy, llvmlite": "import numpy, llvmlite.binding", "numba": "import numba"}
STARTING = ("copy-feats", "ark:small.ark", "ark:out.tmp")
COPYING = "cp feats.ark (what the system itself takes)"
GET_EGS = ("nnet3-get-egs", "--num-pdfs=28", "--left-context=12", "--right-context=12", "--num-frames=8")
COMMANDS = [                                    # and Kaldi's seconds elsewhere; subset-egs was not measured there
    (("nnet3-copy-egs", "ark:egs.ark", "ark:out.tmp"), 0.17),
    (("nnet3-shuffle-egs", "--buffer-size=5000", "ark:egs.ark", "ark:out.tmp"), 0.24),
    (("nnet3-subset-egs", "--n=5000", "ark:egs.ark", "ark:out.tmp"), None),
    (("nnet3-merge-egs", "--minibatch-size=64", "ark:egs.ark", "ark:out.tmp"), 0.23),
    (("copy-feats", "ark:feats.ark", "ark:out.tmp"), 0.03),
    (("copy-feats", "--compress=true", "ark:feats.ark", "ark:out.tmp"), 1.0),
    (("copy-feats", "ark:compressed.ark", "ark:out.tmp"), 0.19),
]


def run(*words: str) -> float:
    """Seconds of one run of a command of ours or another; its output file is new, as replacing one takes time."""
    Path("out.tmp").unlink(missing_ok=True)
    own = ROOT / "bin" / words[0]
    program = [str(own), *words[1:]] if own.is_file() and words[0] != sys.executable else list(words)
    start = time.perf_counter()
    done = subprocess.run(program, env={**os.environ, "NNET3PY_PYTHON": sys.executable}, capture_output=True)
    taken = time.perf_counter() - start
    if done.returncode:
        raise click.ClickException(f"{' '.join(words)}: {done.stderr.decode()}")
    return taken


def make_inputs(data: Path, feature_bytes: int, utterances: int) -> str:
    """Write egs.ark, feats.ark and compressed.ark into the current folder; returns what they are.

    Examples are made of the first ``utterances`` utterances, features repeated until they are so many bytes.
    """
    sys.path.insert(0, str(ROOT))
    from nnet3py.formats.holders import FLOAT_MATRIX, read_matrices
    from nnet3py.io.tables import TableWriter

    run("subset-feats", f"--n={utterances}", f"ark:{data}/feats.ark", "ark:some.ark")
    run(*GET_EGS, "ark:some.ark", f"ark:{ROOT}/bin/ali-to-post ark:{data}/ali.txt ark:-|", "ark:egs.ark")
    matrices = [matrix for _, matrix in read_matrices(f"ark:{data}/feats.ark")]
    size = count = 0
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as writer:
        while size < feature_bytes:
            matrix = matrices[count % len(matrices)]
            writer.write(f"utt-{count:06d}", matrix)
            size, count = size + matrix.nbytes, count + 1
    with TableWriter("ark:small.ark", FLOAT_MATRIX) as writer:
        writer.write("one", matrices[0])
    run("copy-feats", "--compress=true", "ark:feats.ark", "ark:compressed.ark")
    megabytes = {name: Path(name).stat().st_size / 1e6 for name in ("egs.ark", "feats.ark", "compressed.ark")}
    return f"{count} matrices; " + ", ".join(f"{name}: {number:.1f} MB" for name, number in megabytes.items())


def measure_commands(runs: int) -> None:
    """Print the seconds of each command, and what its interpreter takes to start."""
    labels = {**{name: (sys.executable, "-c", program) for name, program in IMPORTS.items()},
              COPYING: ("cp", "feats.ark", "out.tmp"), " ".join(STARTING): STARTING,
              **{" ".join(words): words for words, _ in COMMANDS}}
    theirs = {" ".join(words): program for words, _ in COMMANDS if (program := kaldi.program(words[0])) is not None}
    labels |= {_kaldis(label): (str(program), *label.split()[1:]) for label, program in theirs.items()}
    taken: dict[str, list[float]] = {label: [] for label in labels}
    for turn in range(runs + 1):
        for label, words in labels.items():
            seconds = run(*words)
            if turn:                                        # the first one only warms caches
                taken[label].append(seconds)
    median = {label: statistics.median(values) for label, values in taken.items()}
    click.echo(f"{'seconds of whole processes':62} median    min {'Kaldi' if theirs else 'Kaldi*':>6}  ratio")
    for name in (*IMPORTS, COPYING, " ".join(STARTING)):
        what = "starting python" if name == "python" else f"importing {name}" if name in IMPORTS else name
        click.echo(f"{what:62} {median[name]:6.3f} {min(taken[name]):6.3f}")
    for words, there in COMMANDS:
        label = " ".join(words)
        reference = median.get(_kaldis(label), None if theirs else there)
        against = f"{reference:6.2f} {median[label] / reference:6.2f}" if reference else ""
        click.echo(f"{label:62} {median[label]:6.3f} {min(taken[label]):6.3f} {against}")


    if not theirs:
        click.echo(f"* {kaldi.WHERE}")


def _kaldis(label: str) -> str:
    """What Kaldi's runs of a command are called."""
    return f"Kaldi's {label}"


def rate(label: str, num_bytes: int, work: Callable[[], object], runs: int) -> None:
    """Print the median time of ``work``, and its speed if it is said how many bytes it handles."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    median = statistics.median(taken)
    speed = f" {num_bytes / median / 1e9:7.2f} GB/s" if num_bytes else ""
    click.echo(f"{label:62} {median:6.3f} {min(taken):6.3f}{speed}")


def measure_reading(runs: int, feature_bytes: int) -> None:
    """Print how fast tables are read in one process, after its first run, with numba loaded."""
    from nnet3py.egs.example import examples_ahead, read_egs
    from nnet3py.formats.holders import read_matrices

    run("nnet3-merge-egs", "--minibatch-size=64", "ark:egs.ark", "ark:merged.ark")
    block = np.ones(feature_bytes // 4, dtype=np.float32)
    target = np.empty_like(block)
    click.echo(f"\n{'in one process (bytes of float32 that come out)':62} median    min")
    rate("copying memory", feature_bytes, lambda: np.copyto(target, block), runs)

    def read(path: str) -> Callable[[], int]:
        return lambda: sum(matrix.size for _, matrix in read_matrices(f"ark:{path}"))

    read("compressed.ark")()                                # until compiled code decodes
    rate("read_matrices, floats", feature_bytes, read("feats.ark"), runs)
    rate("read_matrices, compressed", feature_bytes, read("compressed.ark"), runs)
    size = Path("merged.ark").stat().st_size
    rate("read_egs, merged minibatches", size, lambda: sum(1 for _ in read_egs("ark:merged.ark")), runs)
    for ahead in (False, True):
        waited = statistics.median(waiting(read_egs("ark:merged.ark"), examples_ahead if ahead else iter)
                                   for _ in range(3))
        click.echo(f"a minibatch of merged examples is waited for, {'read ahead' if ahead else 'read when needed':18} "
                   f"{1e3 * waited:11.2f} ms")


def measure_parts(runs: int) -> None:
    """Print what the parts of the commands take that are slower than Kaldi's, beside starting and loading libraries."""
    from nnet3py.egs.merger import ExampleMerger, MinibatchSizes
    from nnet3py.egs.packed_example import PACKED_EXAMPLE, merge_packed
    from nnet3py.egs.raw_example import RAW_EXAMPLE
    from nnet3py.formats.layouts import dense_runs
    from nnet3py.formats.matrix_bytes import RAW_MATRIX, decoded_matrix
    from nnet3py.io.skim import Skimmer
    from nnet3py.io.streams import open_input
    from nnet3py.io.tables import SequentialReader, TableWriter

    def read(path: str, holder: object) -> list:
        with SequentialReader(f"ark:{path}", holder) as reader:
            return list(reader)

    def find_runs() -> int:
        with open_input("feats.ark") as stream:
            return sum(len(run.entries) for run in dense_runs(stream))

    def write(entries: list, holder: object) -> None:
        Path("out.tmp").unlink(missing_ok=True)
        with TableWriter("ark:out.tmp", holder) as writer:
            for key, value in entries:
                writer.write(key, value)

    def groups() -> list:
        merger = ExampleMerger(MinibatchSizes("64"), merge=lambda group, compress: group)
        return list(merger.merge(example for _, example in examples))

    matrices, examples = read("feats.ark", RAW_MATRIX), read("egs.ark", PACKED_EXAMPLE)
    minibatches = [(key, merge_packed(group)) for key, group in groups()]
    click.echo(f"\n{'parts of commands':62} median    min")
    rate("copy-feats: finding dense matrices", 0, find_runs, runs)
    rate("uncompressing: finding matrices", 0, lambda: read("compressed.ark", RAW_MATRIX), runs)
    rate("uncompressing: finding and decoding, 2 threads", 0, lambda: read("compressed.ark", decoded_matrix(2)), runs)
    rate("uncompressing: writing", 0, lambda: write(matrices, RAW_MATRIX), runs)
    rate("copying: finding examples, by the layouts that are learned", 0, lambda: read("egs.ark", RAW_EXAMPLE), runs)
    learn, Skimmer._learn = Skimmer._learn, lambda *_: None  # type: ignore[method-assign]
    rate("copying: finding examples, walking over each", 0, lambda: read("egs.ark", RAW_EXAMPLE), runs)
    Skimmer._learn = learn  # type: ignore[method-assign]
    rate("merging: finding and checking examples", 0, lambda: read("egs.ark", PACKED_EXAMPLE), runs)
    rate("merging: grouping examples", 0, groups, runs)
    rate("merging: decoding and putting together", 0, lambda: [merge_packed(group) for _, group in groups()], runs)
    rate("merging: writing", 0, lambda: write(minibatches, PACKED_EXAMPLE), runs)


def waiting(entries: object, reading: Callable) -> float:
    """Mean seconds that training would wait for a minibatch, if each took 15 ms."""
    matrix = np.ones((500, 500), dtype=np.float32)
    waited = 0.0
    count = 0
    examples = reading(entries)
    while True:
        start = time.perf_counter()
        entry = next(examples, None)
        waited += time.perf_counter() - start
        if entry is None:
            return waited / count
        count += 1
        until = time.perf_counter() + 0.015
        while time.perf_counter() < until:
            matrix @ matrix


@click.command()
@click.option("--runs", default=9, show_default=True, help="Runs of each command.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DATA,
              show_default=True, help="The folder with feats.ark and ali.txt.")
@click.option("--megabytes", default=128, show_default=True, help="Of features.")
@click.option("--utterances", default=1_000_000, help="Make examples of so many at most.")
def main(runs: int, data: Path, megabytes: int, utterances: int) -> None:
    """Print the seconds of commands on tables, Kaldi's, and their ratio."""
    compileall.compile_dir(ROOT / "nnet3py", quiet=2)
    data = data.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        click.echo(make_inputs(data, megabytes * 1_000_000, utterances))
        measure_commands(runs)
        measure_reading(runs, megabytes * 1_000_000)
        measure_parts(runs)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
