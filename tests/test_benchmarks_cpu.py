"""benchmarks/cpu.py: what could be wrong there without being seen."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cpu
import numpy as np
import pytest
import torch_tdnnf
from cpu_parts import clock, kaldi, processes
from paths import ROOT

from nnet3py.compiler.request import ComputationRequest
from nnet3py.network.nnet import Nnet

CONFIG = ROOT / "benchmarks" / "nets" / "tdnnf.config"
PARAMETERS = 3_942_172                  # the config's, as Kaldi counts them
TRAINING, COMPUTING = 860e9, 245e9      # useful operations, as counted of Kaldi's command lists
COUNT_TOLERANCE = 0.01                  # those are rounded to three digits at most
OUTPUT_TOLERANCE = 1e-3                 # of log-probabilities, by different orders of float32 sums over 15 layers


@pytest.fixture(scope="module")
def nnet() -> Nnet:
    return Nnet.from_config(CONFIG.read_text(encoding="utf-8"))


def count(request: ComputationRequest, nnet: Nnet) -> int:
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.report.tables import Costs

    return int(Costs.of(CachingCompiler(nnet).compile(request), nnet).operations.sum())


def test_useful_operations_of_training(nnet: Nnet) -> None:
    """13 minibatches of 32 sequences of 60 frames."""
    from nnet3py.report.requests import natural_request

    request = natural_request(nnet, 60, 32, train=True, store_stats=True)
    assert 13 * count(request, nnet) == pytest.approx(TRAINING, rel=COUNT_TOLERANCE)


@pytest.mark.slow
def test_useful_operations_of_computing(tmp_path: Path, nnet: Nnet, capsys: pytest.CaptureFixture[str]) -> None:
    """All chunks of the 120 utterances; the benchmark's own way to count them."""
    from cpu_parts import data, operations

    from nnet3py.formats.holders import FLOAT_MATRIX
    from nnet3py.io.tables import SequentialReader, TableWriter

    nnet.write(str(tmp_path / "tdnnf.raw"))
    with SequentialReader(f"ark:{data.TRAIN / 'feats.ark'}", FLOAT_MATRIX) as features, \
            TableWriter(f"ark:{tmp_path / 'some.ark'}", FLOAT_MATRIX) as some:
        for _, (key, matrix) in zip(range(data.UTTERANCES), features, strict=False):
            some.write(key, matrix)
    found = operations.of_computing(str(tmp_path / "tdnnf.raw"), f"ark:{tmp_path / 'some.ark'}")
    assert found == pytest.approx(COMPUTING, rel=COUNT_TOLERANCE)


def test_pytorch_has_the_configs_layers(nnet: Nnet) -> None:
    layers = torch_tdnnf.read_layers(CONFIG)
    weights = sum(layer.dims[0] * layer.dims[1] * len(layer.offsets) + layer.bias * layer.dims[1]
                  for layer in layers if layer.kind == "affine")
    assert weights == nnet.num_parameters() == PARAMETERS
    assert torch_tdnnf.context(layers) == (28, 28)
    steps = [max(layer.offsets) - min(layer.offsets) for layer in layers if layer.name.endswith(".linear")]
    assert steps == [1, 1, 1, 0, *[3] * 8, 0]
    assert sum(len(layer.sources) == 2 for layer in layers) == 12


def test_pytorch_computes_the_same_in_each_way() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; the benchmark can do without")
    layers = torch_tdnnf.read_layers(CONFIG)
    outputs = []
    for way in torch_tdnnf.WAYS["compute"]:
        model = torch_tdnnf.Model(layers, way)
        assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS
        torch.manual_seed(1)
        with torch.inference_mode():
            output = model(model.input(2, 56 + 5))
        outputs.append(in_conv1d_layout(output, way).numpy())
        assert outputs[-1].shape == (2, 28, 5)
        np.testing.assert_allclose(outputs[-1], outputs[0], atol=OUTPUT_TOLERANCE)


def in_conv1d_layout(output: Any, way: str) -> Any:
    return output.permute(1, 2, 0) if way == "rows" else output.squeeze(2) if way == "channels-last" else output


def test_pytorch_computes_what_we_do(nnet: Nnet) -> None:
    """Its output with our parameters is ours, batch normalization by the moments of the minibatch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; the benchmark can do without")
    from nnet3py import Computer
    from nnet3py import compile as compile_request
    from nnet3py.report.requests import natural_request

    layers, sequences, frames = torch_tdnnf.read_layers(CONFIG), 2, 6
    model = torch_tdnnf.Model(layers, "conv1d")
    nnet, rng = nnet.copy(), np.random.default_rng(0)
    nnet.component("output.affine").parameters()["linear_params"][:] = rng.standard_normal((28, 192))    # it was 0
    with torch.no_grad():
        for name, weight in model.weights.items():
            ours = nnet.component(name).parameters()
            matrix = next(value for value in ours.values() if value.ndim == 2)
            weight.copy_(torch.from_numpy(matrix.reshape(weight.shape[0], weight.shape[2], -1)).permute(0, 2, 1))
            if name in model.biases:
                model.biases[name].copy_(torch.from_numpy(ours["bias_params"]))
    features = rng.standard_normal((sequences, 56 + frames, 40)).astype(np.float32)
    computer = Computer(compile_request(nnet, natural_request(nnet, frames, sequences)), nnet)
    computer.accept_input("input", features.reshape(-1, 40))
    computer.run()
    with torch.inference_mode():
        theirs = model(torch.from_numpy(features).permute(0, 2, 1)).permute(0, 2, 1).numpy()
    assert theirs.std() > 1
    np.testing.assert_allclose(computer.output("output").reshape(theirs.shape), theirs, atol=OUTPUT_TOLERANCE)


@pytest.mark.parametrize("module, path", [(module, path) for module, path, _ in (*clock.PLACES, *clock.ITERATED)]
                         + [clock.GRADIENT])
def test_what_the_profile_times_exists(module: str, path: str) -> None:
    assert callable(clock.find(module, path)[2])


def test_times_are_exclusive() -> None:
    """An inner timer's seconds are not counted again outside; a product's operations are 2mnk."""
    timer = clock.Clock()
    product = timer.operation("add_mat_mat", clock.PRODUCTS, lambda *args, **named: burn())
    outer = timer.timed(lambda: [product(np.empty((3, 5)), np.empty((3, 4)), np.empty((5, 4)), 1.0, 0.0, trans_b=True)
                                 for _ in range(3)], lambda: ("outer", "whole", 0.0))
    outer()
    calls, seconds, work = timer.records["products", "add_mat_mat 3 x 4 x 5 NT"]
    assert (calls, work) == (3, 3 * 2 * 3 * 4 * 5)
    assert seconds >= 3 * BURNT > timer.records["outer", "whole"][1]


BURNT = 0.01   # seconds


def burn() -> None:
    import time

    end = time.perf_counter() + BURNT
    while time.perf_counter() < end:
        pass


def test_peak_memory_is_of_the_child() -> None:
    """Measured from a small process, as the benchmark is one: a child's peak begins with its parent's memory."""
    held = 200_000_000
    child = f"held = bytearray(b'1') * {held}"
    code = ("import sys; from cpu_parts import processes; "
            f"print(processes.run([sys.executable, '-c', {child!r}], 1).peak_bytes)")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert held < int(done.stdout) < held + 50_000_000, done.stderr


# -- beside Kaldi ------------------------------------------------------------------------------------------------------


def test_a_kaldi_on_path_is_found_and_is_none_of_our_launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ROOT / 'bin'}:{tmp_path}")
    ours = [ROOT / "bin" / "nnet3-train", "--num-threads=2", "a.raw", "ark:x", "b.raw"]
    assert kaldi.same_command(ours, 1) is None
    (tmp_path / "nnet3-train").write_text("#!/bin/sh\n")
    (tmp_path / "nnet3-train").chmod(0o755)
    found = kaldi.same_command(ours, 1)
    assert found is not None and found[0] == "env" and "OPENBLAS_NUM_THREADS=1" in found
    assert found[-4:] == [tmp_path / "nnet3-train", "a.raw", "ark:x", "b.raw"]


def runs(seconds: float, megabytes: float) -> processes.Runs:
    return processes.Runs(processes.Run(seconds, int(megabytes * 1e6), "", ""))


def test_figures_of_a_kaldi_that_is_not_there_are_named_so(capsys: pytest.CaptureFixture[str]) -> None:
    bench = cpu.Bench(Path(), 2, 1, rate=cpu.RATE_THERE / 2)
    cpu.against_kaldi(bench, "a pass", {"ours": runs(4.0, 300)}, 5.0, 0.5, "one thread")
    cpu.memory(bench, "tdnnf", runs(4.0, 545), None)
    assert bench.rows == ["| a pass | 4.0 s | Kaldi elsewhere, scaled, one thread: 10.0 s | 0.40 | at most 0.50: met |",
                          "| TDNN-F training, peak memory | 545 MB | Kaldi elsewhere: 545 MB | 1.00 | "
                          "at most 1.00: met |"]


def test_a_kaldi_that_is_there_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    bench = cpu.Bench(Path(), 2, 1, rate=1.0)
    found = {"ours": runs(4.0, 300), cpu.KALDI: runs(5.0, 200)}
    cpu.against_kaldi(bench, "a pass", found, 99.0, 0.5)
    cpu.memory(bench, "tdnnf", found["ours"], found[cpu.KALDI])
    assert bench.rows == ["| a pass | 4.0 s | Kaldi: 5.0 s | 0.80 | at most 0.50: missed |",
                          "| TDNN-F training, peak memory | 300 MB | Kaldi: 200 MB | 1.50 | at most 1.00: missed |"]


def test_the_tables_name_no_interpreter_and_no_negative_time() -> None:
    """A process is measured whole, its interpreter included."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.search(r"\|.*(met|missed) \|", line)]
    assert len(rows) > 5 and not any(re.search(r"interpreter|[ (]-\d", row) for row in rows)
    assert not any("Kaldi" in row and "elsewhere" not in row for row in rows), "none of these is run by a clone"


def test_the_benchmark_itself_stays_small() -> None:
    code = "import sys, cpu; print(*sorted({'numpy', 'nnet3py', 'torch', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
