"""A whole training of many short iterations: Kaldi's own script and our driver, with each way of starting programs.

    python benchmarks/kaldi_script.py [--scripts FOLDER] [--runs 1] [--only TEXT] [--epochs 2] [--utterances N]

``steps/nnet3/train_raw_dnn.py`` as it is (``--scripts``: the folder that has Kaldi's ``steps`` and ``utils``; without
it only ours is run) trains the TDNN of the digits recipe frame by frame in 42 iterations of one to two jobs, each of
2,900 examples; our ``train-raw-dnn`` does the same. Programs are started one by one, as copies in pipes (the default),
and as copies of the process of ``nnet3py resident``. Kaldi's scripts sleep for 9 seconds of it. The objectives of
all ways are compared: they must be equal.
"""
from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cpu_parts.processes import describe_machine, sgemm_rate

from nnet3py.system import available_cores

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "egs" / "digits"
NUM_UTTERANCES = 480
# A user's value of the second has BLAS's threads wait as they do by themselves.
ONE_BY_ONE = {"NNET3PY_FORK": "no", "OPENBLAS_THREAD_TIMEOUT": "26"}
WAYS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one by one": (ONE_BY_ONE, []), "copies in pipes": ({}, []), "resident": ({}, ["nnet3py", "resident"])}
PREPARE = """
{recipe}/local/make_kaldi_dirs.sh --data {data} --dir $PWD/exp --nj 2
mkdir -p exp/first/configs exp/targets
sed "s|CONFIGS|exp/first/configs|" {recipe}/conf/tdnn.xconfig > exp/first/configs/network.xconfig
xconfig-to-configs --xconfig-file exp/first/configs/network.xconfig --config-dir exp/first/configs
echo num_targets=28 >> exp/first/configs/vars
ali-to-pdf exp/ali_train/final.mdl "ark:gunzip -c exp/ali_train/ali.*.gz |" \\
  ark,scp:exp/targets/all.ark,exp/targets/pdf.scp
"""
OPTIONS = """--stage=-10 --cmd=run.pl --use-gpu=false --nj=2 --feat-dir=exp/data/train --targets-scp=exp/targets/pdf.scp
--use-dense-targets=false --egs.frames-per-eg=8 --trainer.max-param-change=2.0
--trainer.optimization.minibatch-size=128 --trainer.optimization.num-jobs-initial=1
--trainer.optimization.num-jobs-final=2 --trainer.optimization.initial-effective-lrate=0.0015
--trainer.optimization.final-effective-lrate=0.00015""".split()


def write_data(folder: Path, utterances: int | None) -> Path:
    """The digits data, or its first utterances; their folder."""
    data = RECIPE / "data"
    if utterances is None:
        return data
    shutil.copytree(data, folder / "data")
    part = folder / "data" / "train"
    for name in ("ali.txt", "text", "utt2num_frames", "utt2spk"):
        lines = sorted((part / name).read_text().splitlines(keepends=True))[:utterances]
        (part / name).write_text("".join(lines))
    subprocess.run([ROOT / "bin" / "copy-feats", f"ark:{data}/train/feats.ark", f"ark:{part}/all.ark"], check=True,
                   stderr=subprocess.DEVNULL)
    subprocess.run([ROOT / "bin" / "subset-feats", f"--include={part}/utt2spk", f"ark:{part}/all.ark",
                    f"ark:{part}/feats.ark"], check=True, stderr=subprocess.DEVNULL)
    return folder / "data"


def environment(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """What the programs see: our launchers first, Kaldi's utils, ``python`` with the launchers' own Python."""
    path = os.pathsep.join([str(folder / "utils"), str(ROOT / "bin"), str(folder / "tools"), os.environ["PATH"]])
    return {**os.environ, "LC_ALL": "C", "NNET3PY_PYTHON": sys.executable, "PATH": path, **variables}


def train(folder: Path, program: str, way: str, epochs: float, share: float) -> tuple[float, float, list[str]]:
    """Wall and processor seconds of a training with a share of the data, and its report's lines of accuracies."""
    variables, before = WAYS[way]
    work = folder / "exp" / "now"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder / "exp" / "first", work)
    for path in (work / "configs").glob("*.config"):
        path.write_text(path.read_text().replace("exp/first/", "exp/now/"))
    words = [*before, program, *OPTIONS, f"--egs.opts=--nj 2 --num-utts-subset {round(24 * share)}",
             f"--trainer.samples-per-iter={round(3000 * share)}",
             "--feat.cmvn-opts=--norm-means=false --norm-vars=false", f"--trainer.num-epochs={epochs:g}",
             "--dir=exp/now"]
    if not program.endswith(".py"):
        words.remove("--cmd=run.pl")
    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=environment(folder, variables), capture_output=True, text=True)
    seconds, ended = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{program} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    report = next(work.glob("accuracy*report")).read_text().splitlines()
    processor = ended.ru_utime + ended.ru_stime - used.ru_utime - used.ru_stime
    return seconds, processor, [re.sub(r"^(\S+)\t\S+", r"\1", line) for line in report if re.match(r"\d+\t", line)]


def main() -> None:
    """Print the seconds of each program and way, and what they are of the first way's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=Path, default=ROOT.parent / "shared" / "kaldi-scripts",
                        help="the folder with Kaldi's steps and utils")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="", help="ways with this in their name, such as 'resident'")
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--utterances", type=int, help="no more data than this, for a first look")
    options = parser.parse_args()
    programs, share = ["train-raw-dnn"], (options.utterances or NUM_UTTERANCES) / NUM_UTTERANCES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools").mkdir()
        (folder / "tools" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore "$@"\n')
        (folder / "tools" / "python").chmod(0o755)
        (folder / "path.sh").write_text("export LC_ALL=C\n")
        if (options.scripts / "steps").is_dir():
            sys.path.insert(0, str(ROOT / "tests"))
            from kaldi_scripts import copy_scripts

            copy_scripts(folder, options.scripts)
            programs.insert(0, "steps/nnet3/train_raw_dnn.py")
        data = write_data(folder, options.utterances)
        prepared = subprocess.run(["bash", "-euc", PREPARE.format(recipe=RECIPE, data=data)], cwd=folder,
                                  env=environment(folder, {}), capture_output=True, text=True)
        if prepared.returncode:
            raise SystemExit(f"preparing failed:\n{prepared.stderr[-3000:]}")
        print(describe_machine(available_cores(), [sgemm_rate(available_cores())]))
        for program in programs:
            measured: dict[str, list[tuple[float, float, list[str]]]] = {
                way: [] for way in WAYS if options.only in way}
            for _ in range(options.runs):
                for way in measured:
                    measured[way].append(train(folder, program, way, options.epochs, share))
            first = None
            for way, results in measured.items():
                wall, processor = (statistics.median(result[place] for result in results) for place in (0, 1))
                first = first or wall
                least, most = (choose(result[0] for result in results) for choose in (min, max))
                print(f"{Path(program).name:17} {way:16} {wall:7.1f} s ({least:.1f} to {most:.1f}), processor "
                      f"{processor:6.1f} s, ratio {wall / first:.2f}")
            if len({tuple(result[2]) for results in measured.values() for result in results}) > 1:
                raise SystemExit("the ways differ in their objectives")


if __name__ == "__main__":
    main()
