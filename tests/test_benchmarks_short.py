"""Every benchmark in a short form, from end to end: the lines that it prints, with figures that can be true."""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from paths import DATA, ROOT, TESTS

from nnet3py.components.registry import COMPONENT_MODULES

BENCHMARKS = ROOT / "benchmarks"
MOST = 1e5            # seconds, milliseconds, megabytes and rates alike: no short form comes near
TIMEOUT = 300         # seconds, in which a busy machine may also compile kernels

# What is run from end to end, or piece by piece, in a file of its own.
ELSEWHERE = {"discriminative": "test_benchmark_discriminative.py", "export": "test_benchmarks_export.py",
             "gpu": "test_benchmarks_gpu.py", "ivectors": "test_benchmark_ivectors.py",
             "products": "test_benchmarks_products.py", "quantized": "test_export_quantize.py",
             "startup_commands": "test_startup.py", "vosk_agreement": "test_published.py"}
NUM_CASES = len(list((DATA / "cases").glob("*/computation.txt")))
NUMBER = r"(\d+(?:\.\d+)?)"
TORCH = importlib.util.find_spec("torch") is not None


class Short(NamedTuple):
    """Words of a command line, and the lines it prints: how many match each pattern; groups are positive numbers."""

    benchmark: str
    words: tuple[str, ...]
    lines: dict[str, int]
    is_slow: bool = False


FORMS = [
    Short("chain", ("--states=50", "--arcs=4", "--pdfs=20", "--sequences=4", "--frames=8", "--runs=2"),
          {r"graph: 50 states, 200 arcs, 100 pairs .* 4 sequences of 8 frames": 1, r"denominator, \d threads: .*": 2,
           rf"numpy: \S+ s; ratio {NUMBER}": 1,
           rf"training step of the TDNN-F: {NUMBER} s, of it the denominator \d\.\d+ s: \d+%": 1}),
    Short("chain_loss", ("--states=50", "--arcs=4", "--pdfs=20", "--sequences=4", "--frames=8", "--runs=2"),
          {rf"objective: trainer -?{NUMBER}, loss -?{NUMBER} per frame; derivatives differ by \d\.\de.\d\d of .*": 1,
           rf"trainer: \d\.\d+ s; loss: forward \d\.\d+ s, backward \d\.\d+ s; ratio {NUMBER}": 1} if TORCH else
          {"PyTorch is not installed, so there is no loss to compare: .*": 1}),
    Short("compile_cache", ("--runs=1", "--only=tdnnf training"),
          {rf"tdnnf +training +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}   1 entries, {NUMBER} MB": 1}),
    Short("compiling", ("--runs=1", "--only=tdnn-lstm 16 sequences"),
          {rf"tdnn-lstm +16 +{NUMBER} +{NUMBER} +{NUMBER}": 1}),
    Short("compiling", ("--runs=1", "--only=tdnnf shortcut"),
          {rf"tdnnf +shortcut +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}   compilation {NUMBER}, .*": 1}),
    Short("components", (str(DATA / "cases"),), {r"\| \w+Component \| .* \|": len(COMPONENT_MODULES)}, is_slow=True),
    Short("computing_batch", ("--runs=1", "--utterances=10", "--nets=tdnn"),
          {r"machine: .* 10 utterances, \d+ frames, 2 threads": 1,
           rf"tdnn: nnet3-compute {NUMBER} s .*, nnet3-compute-batch {NUMBER} s .*: {NUMBER} times as fast": 1}),
    Short("computing_calls", ("--runs=2", "--only=LSTM", "20"),
          {rf"LSTM of the digits recipe +20 +{NUMBER} ms +{NUMBER} ms +{NUMBER} ms +\d+\.\d+ ms  (?:met|missed)": 1}),
    Short("cpu", ("--runs=1", "--utterances=12", "--only=start"),
          {rf"importing numpy, a whole process: {NUMBER} s": 1, rf"machine: .* sgemm {NUMBER} GFLOP/s .*": 1,
           rf"\| first result, one short utterance \| {NUMBER} s \| target: 1.0 s \| {NUMBER} \| .* \|": 1},
          is_slow=True),
    Short("cuda_kernels", ("--only=rows.copy_rows_multi",),
          {rf"rows.copy_rows_multi +\d+ +0 +0 +0 +{NUMBER} +\d+ +0 +0 +0 +{NUMBER}": 1, "1 kernels, 0 with spills": 1}),
    Short("decoding", ("--words=50", "--frames=40", "--runs=1"),
          {rf"lexicon tree: {NUMBER} states, {NUMBER} arcs, 40 frames, {NUMBER} active .* lattices": 1,
           rf"  decoding \S+ s, {NUMBER} frames/s, {NUMBER} M tokens/s; determinizing \S+ s": 1,
           r"  memory: \d+ MiB for decoding": 1}),
    Short("driver_jobs", ("--runs=1", "--utterances=20", "--minibatches=3"),
          {rf"machine|.*sgemm {NUMBER} GFLOP/s .*": 1,
           rf"(?:one job|sharing|all cores).* \d jobs, \d threads each: {NUMBER} s \({NUMBER} to {NUMBER}\)": 3,
           rf"sharing takes {NUMBER} of the time of contending": 1}),
    Short("engine", ("--runs=1", "--parts=layouts", "--work=examples"),
          {rf"examples   as it is    wall +{NUMBER} ms   processor +{NUMBER} ms": 1,
           rf"examples   without layouts +wall +{NUMBER} ms, gain +\S+ %   processor +{NUMBER} ms, gain .* %": 1},
          is_slow=True),
    Short("engine", ("--runs=1", "--parts=loading", "--work=start"),
          {rf"start      without loading +wall +{NUMBER} ms, gain +\S+ %   processor +{NUMBER} ms, gain .* %": 1},
          is_slow=True),
    Short("kaldi_script", ("--scripts=none", "--utterances=48", "--epochs=1"),
          {rf"machine|.*sgemm {NUMBER} GFLOP/s .*": 1,
           rf"train-raw-dnn +(?:one by one|copies in pipes|resident) +{NUMBER} s .*, processor +{NUMBER} s, .*": 3},
          is_slow=True),
    Short("fuzz", ("--files=20", "--batch=20", "--without-memory"),
          {rf"20 damaged files \({NUMBER} different\) of {NUMBER} good ones in .*: nothing but Nnet3Error, no hang": 1},
          is_slow=True),
    Short("graphs", ("--words=30", "--ngrams=100"),
          {r"30 words, \d+ n-grams": 1, rf"(?:\w+-?)+ +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}": 16,
           rf"all +{NUMBER} +{NUMBER} +{NUMBER}": 1}, is_slow=True),
    Short("growth", ("--quick", "--rounds=1"),
          {r"(?:computing|training): .* seconds +ms each +growth +MB": 9, rf" +\d+ +{NUMBER} +{NUMBER} +{NUMBER}": 9,
           rf" +\d+ +{NUMBER} +{NUMBER} +-?\d+\.\d\d +{NUMBER}": 9, "Worse than linear .*": 1}, is_slow=True),
    Short("large_networks", ("--kind=chain", "60", "120"),
          {r"chain +\d+ nodes  config +\d.* s  write .* s  read .* s  compile .* s  prepare .* s": 2,
           rf"chain +60 to 120, beside n log n:  config {NUMBER}  write {NUMBER}  .*": 1}),
    Short("listing", (str(DATA / "cases"),),
          {rf"[\w-]+ +{NUMBER}/{NUMBER} +{NUMBER}/{NUMBER} .*": NUM_CASES,
           f"{NUM_CASES} cases. More commands than Kaldi: none. More memory: none.": 1}, is_slow=True),
    Short("memory_computing", ("--utterances=20", "--longest=30"),
          {r"machine: .* 20 utterances of 1 to 30 frames, \d+ altogether, tdnn": 1,
           r"nnet3-compute(?:-batch)?: MB in use after each 2 utterances:(?: \d+){10}; the second half .* MB .*": 2}),
    Short("memory_training", ("--runs=1", "--utterances=20", "--only=tdnn"),
          {rf"tdnn, (?:as Kaldi lists them|fused|fused, places shared) +(?:\d+ MB|a few) +{NUMBER} MB .*": 3,
           rf".*sgemm {NUMBER} GFLOP/s .*": 1}, is_slow=True),
    Short("ops", ("--quick", "--runs=1", "--rounds=1", "--threads=2"),
          {r"cpu \(\S+, \w+, 2 threads\); microseconds, medians of 1 rounds": 1,
           rf"\S+ .* +{NUMBER} +{NUMBER} +{NUMBER} +\d+\.\d G(?:FLOP|B)/s": 2 * 2 + 10}),
    Short("compile_kernels", ("--only=small_matrices",),
          {rf"(?:LLVM: optimizing|LLVM: machine code|numba: types) +{NUMBER} s +{NUMBER} %": 3,
           rf"1 kernels .besides {NUMBER} s for importing numba. +{NUMBER} s": 1}),
    Short("front_end", ("--seconds=2", "--runs=1"),
          {rf"\w+ +nnet3py +{NUMBER} s for an hour, +{NUMBER} times real time.*": 6}),
    Short("recognition", ("--seconds=1", "--hours=0", "--no-wide", "--no-rival", "--runs=1", "--only=start",
                          "--only=loading", "--only=latency"),
          {rf"  loading  nnet3py  +{NUMBER} s, +{NUMBER} MB, +{NUMBER} of them mapped files, at most .*": 1,
           rf"  start    nnet3py  first word +{NUMBER} s, model loaded +{NUMBER} s, processor time {NUMBER} s .*": 1,
           rf"  latency  nnet3py  p50 +{NUMBER}  p99 +{NUMBER}  max +{NUMBER} ms, factor {NUMBER}, .*": 1}),
    Short("serving", ("--seconds=2", "--streams=2", "--num-processes=2"),
          {rf"  streams    nnet3py(?: x 2)? +2 (?:NOT )?in real time: p50 {NUMBER}  p99 {NUMBER}  max {NUMBER} .*": 2,
           rf"  processes  nnet3py(?: x 2)? +one {NUMBER} MB \({NUMBER} resident\), two {NUMBER} MB; .* {NUMBER} MB .*":
           2}),
    Short("transcribing", ("--files=3", "--longest=8", "--compared=2"),
          {rf"  files      3 of {NUMBER} to {NUMBER} s, {NUMBER} s in all; load {NUMBER}": 1,
           rf"  [12] jobs?  .* {NUMBER} s, real-time factor \d\.\d+, at most {NUMBER} MB; load .*": 2,
           rf"  compared   2 files in [12] (?:jobs?|streams), .* processor time {NUMBER} \(at most {NUMBER}\), "
           rf"time {NUMBER} \(at most {NUMBER}\); load .*": 3}),
    Short("rnnlm", ("--lattices=2", "--only=small"),
          {rf"small: 20,000 words, 200 dimensions; 2 lattices, {NUMBER} s of sound, {NUMBER} arcs a second": 1,
           rf"  (?:vosk's|script's|program's|all).* \d+\.\d s, {NUMBER} of the sound \((?:within|above) 0.1\); "
           rf"{NUMBER} histories a second, {NUMBER} at a time; {NUMBER} arcs a second are left": 4}),
    Short("startup", ("--runs=1", "--only=nnet3-info"),
          {rf"nnet3-info(?: --help)? +{NUMBER} +{NUMBER}   import [\w, ]+ +{NUMBER} +{NUMBER}   {NUMBER} {NUMBER}.*": 2,
           "Above the goal: .*": 1}),
    Short("tables", ("--runs=1", "--megabytes=1", "--utterances=3"),
          {r"\d+ matrices; egs.ark: \S+ MB, feats.ark: 1.0 MB, compressed.ark: 0.3 MB": 1,
           rf"(?:starting|importing) [\w, ]+ +{NUMBER} +{NUMBER}": 5,
           rf"(?:nnet3-|copy-)\S+ .*ark:out.tmp +{NUMBER} +{NUMBER}(?: .*)?": 8,
           rf"a minibatch of merged examples is waited for, .* +{NUMBER} ms": 2,
           r"(?:copying|merging): .* +\d\.\d+ .*": 6},
          is_slow=True),
    Short("torch_tdnnf", ("train", "--steps=1", "--way=rows"),
          {rf"rows +{NUMBER} s" if TORCH else "PyTorch is not installed, so there is nothing to compare with: .*": 1},
          is_slow=TORCH),
]


def test_none_is_forgotten() -> None:
    """Each program of benchmarks/ has a short form here, or in the file that ELSEWHERE names."""
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {form.benchmark for form in FORMS} | set(ELSEWHERE)
    for name, file in ELSEWHERE.items():
        assert re.search(rf"\b{name}\b", (TESTS / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", [
    pytest.param(form, id=f"{form.benchmark} {' '.join(form.words)[:30]}", marks=[pytest.mark.slow] * form.is_slow)
    for form in FORMS])
def test_short_form(form: Short, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "NNET3PY_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, str(BENCHMARKS / f"{form.benchmark}.py"), *form.words], cwd=ROOT,
                          env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    if form.benchmark == "cuda_kernels" and done.returncode and "nvvm" in done.stderr.lower():
        pytest.skip(f"NVVM is not installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    for pattern, count in form.lines.items():
        found = [match for match in (re.fullmatch(pattern, line.rstrip()) for line in printed) if match]
        assert len(found) == count, f"{pattern}\n{done.stdout}{done.stderr}"
        for match in found:
            assert all(0 < float(number) < MOST for number in match.groups()), match[0]
    assert not re.search(r"\bnan\b", done.stdout), done.stdout

