"""Folders that cannot be written: what is only read is read, what would be written there is one clear error."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_cases import TDNN, write_alignments, write_configs, write_egs
from driver_fakes import write_programs
from paths import ROOT, TESTS
from process_faults import environment, obey_modes

from nnet3py.network.nnet import Nnet

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes do not forbid writing on this system")

TRAIN = ["nnet3-train", "--use-gpu=no", "--num-threads=1", "data/init.raw",
         "ark:nnet3-copy-egs ark:data/egs/egs.1.ark ark:- | nnet3-merge-egs --minibatch-size=4 ark:- ark:- |"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with ``data`` (a network, examples), which cannot be written, nor can ``closed``, which holds a file."""
    data, closed = tmp_path / "data", tmp_path / "closed"
    write_egs(data / "egs", num_archives=1)
    Nnet.from_config(TDNN.format(classes=28)).write(str(data / "init.raw"))
    closed.mkdir()
    (closed / "old.raw").write_bytes(b"before")
    close(tmp_path / "data", closed)
    yield tmp_path
    for path in tmp_path.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def close(*folders: Path) -> None:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)


def run(words: list[str], folder: Path, **variables: str) -> tuple[int, str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, preexec_fn=obey_modes,
                          env=environment(**variables))
    return done.returncode, done.stderr


def warnings(err: str) -> list[str]:
    """The warnings of a training, but for one of its numbers."""
    return [line for line in err.splitlines() if line.startswith("WARNING") and "natural gradient" not in line]


def test_only_outputs_need_folders_that_can_be_written(folder: Path) -> None:
    status, err = run([*TRAIN, "out.raw"], folder)
    assert status == 0 and warnings(err) == [], err
    assert sorted(os.listdir(folder)) == ["closed", "data", "out.raw"]


@pytest.mark.parametrize("name", ["closed/new.raw", "closed/old.raw"])
def test_an_output_that_cannot_be_written(folder: Path, name: str) -> None:
    status, err = run([*TRAIN, name], folder)
    assert status == 255 and err.count("ERROR (nnet3-train") == 1 and "internal error" not in err
    assert f"cannot open '{name}' for writing: Permission denied" in err
    assert os.listdir(folder / "closed") == ["old.raw"] and (folder / "closed" / "old.raw").read_bytes() == b"before"


def test_a_cache_that_cannot_be_written_is_read(folder: Path) -> None:
    """Compiled computations are read; kernels are compiled in a private folder, with one warning each."""
    cache = folder / "cache"
    variables = {"NNET3PY_COMPUTATION_CACHE": str(cache)}
    assert run([*TRAIN, "1.raw"], folder, **variables)[0] == 0 and len(os.listdir(cache)) == 1
    close(cache)
    status, err = run([*TRAIN, "2.raw"], folder, **variables)
    assert status == 0 and warnings(err) == [] and "breakdown: 0 compilation" in err, err
    status, err = run([*TRAIN[:-1], TRAIN[-1].replace("size=4", "size=3"), "3.raw"], folder, **variables)
    assert status == 0 and len(warnings(err)) == 1 and "cannot write computations" in warnings(err)[0], err
    (folder / "kernels").mkdir(mode=0o500)
    status, err = run(["nnet3-info", "data/init.raw"], folder, NNET3PY_CACHE=str(folder / "kernels"))
    assert status == 0 and err.count("WARNING") == 0, "which needs none"
    program = "from nnet3py.formats.compressed_code import LOOPS; [loop.prepare() for loop in LOOPS[:1]]"
    status, err = run([sys.executable, "-c", program], folder, NNET3PY_CACHE=str(folder / "kernels"),
                      NUMBA_CACHE_DIR="")
    assert status == 0 and err.count("Compiled kernels are not kept in") == 1 and os.listdir(folder / "kernels") == []


def test_a_driver(folder: Path) -> None:
    """It reads examples and alignments where it cannot write, and says so if it is to train there."""
    words = [sys.executable, str(TESTS / "driver_fakes.py"), str(write_programs(folder / "programs")), "exp"]
    write_egs(folder / "egs", classes=10)
    write_alignments(folder / "ali")
    write_configs(folder / "exp", TDNN, (2, 2), 10, lda=True)
    close(folder / "egs", folder / "ali")
    (folder / "exp").chmod(0o555)
    status, err = run(words, folder)
    assert status != 0 and "Permission denied" in err.splitlines()[-1], err
    assert os.listdir(folder / "exp") == ["configs"]
    (folder / "exp").chmod(0o755)
    status, err = run(words, folder)
    assert status == 0 and (folder / "exp" / "final.raw").exists(), err


@pytest.mark.slow
def test_a_driver_with_its_programs(folder: Path) -> None:
    words = [str(ROOT / "bin" / "train-raw-dnn"), "--dir=exp", "--egs.dir=egs", "--use-gpu=no", "--num-threads=1",
             "--trainer.optimization.minibatch-size=2", "--trainer.num-epochs=0.2",
             "--trainer.optimization.num-jobs-final=2"]
    write_egs(folder / "egs", classes=10)
    write_configs(folder / "exp", TDNN, (2, 2), 10, lda=True)
    close(folder / "egs", folder / "exp")
    for name in ("exp", "exp/configs"):
        status, err = run(words, folder)
        assert status == 255 and err.count("ERROR") == 1 and "internal" not in err, err
        assert "Permission denied" in err and f"{name}/" in err.partition("ERROR")[2]
        (folder / name).chmod(0o755)
    status, err = run(words, folder)
    assert status == 0 and (folder / "exp" / "final.raw").exists(), err
