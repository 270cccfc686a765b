"""A disk that is full: one clear error, no damaged file, nothing left; with room again, the same model as ever."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver_cases import TDNN, write_alignments, write_configs, write_egs
from driver_fakes import write_programs
from paths import ROOT, TESTS
from process_faults import check_nobody_is_left, messages, start, unfinished

from nnet3py.network.nnet import Nnet

resource = pytest.importorskip("resource")

LONGEST_S = 300.0
DISK_BYTES = 2 << 20
FULL = re.compile(r"File too large|No space left on device")
TRAIN = ["nnet3-train", "--use-gpu=no", "--num-threads=1", "--srand=1", "--write-cache=cache", "init.raw",
         "ark:nnet3-copy-egs ark:egs/egs.1.ark ark:- | nnet3-merge-egs --minibatch-size=2 ark:- ark:- |", "out.raw"]


def files_of(most: int) -> Callable[[], None]:
    """Before a process starts: no file that it writes may be longer than that."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of DISK_BYTES, where this process may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)],
                          capture_output=True) if sys.platform == "linux" and os.geteuid() == 0 else None
    if made is None or made.returncode != 0:
        pytest.skip("only root can make a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Fill the file system of a folder but for some bytes; returns the file that does it."""
    path = folder / "filler"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    path.write_bytes(bytes(max(0, free - leave)))
    return path


def prepare_training(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    write_egs(folder / "egs", classes=10)
    write_alignments(folder / "ali")
    write_configs(folder / "exp", TDNN, (2, 2), 10, lda=True)
    return folder


def models(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "exp").iterdir()
            if re.fullmatch(r"(\d+|final|init)\.(raw|mdl)|lda\.mat|srand", path.name)}


def check_full(folder: Path, words: list[str], limit: Callable[[], None] | None) -> None:
    """A command fails and says why; nobody and nothing is left."""
    assert start(words, folder, limit).wait(LONGEST_S) not in (0, -25), messages(folder)      # -25: SIGXFSZ
    check_nobody_is_left(folder)
    said = messages(folder)
    assert FULL.search(said) and "internal error" not in said, said[-3000:]


@pytest.mark.parametrize("most", [1, 6000])
def test_a_training_command(tmp_path: Path, most: int) -> None:
    """By the cache or by the model, at its beginning or in the middle; what was there before stays."""
    folder = tmp_path / "work"
    write_egs(folder / "egs")
    Nnet.from_config(TDNN.format(classes=28)).write(str(folder / "init.raw"))
    for name in ("out.raw", "cache"):
        (folder / name).write_bytes(b"before")
    check_full(folder, TRAIN, files_of(most))
    assert unfinished(folder) == [] and (folder / "out.raw").read_bytes() == b"before"
    assert messages(folder).count("ERROR (nnet3-train") == 1
    assert sorted(os.listdir(folder)) == ["cache", "egs", "init.raw", "out.raw"]


def test_a_training_command_on_a_full_disk(small_disk: Path) -> None:
    write_egs(small_disk / "egs", num_archives=1)
    Nnet.from_config(TDNN.format(classes=28)).write(str(small_disk / "init.raw"))
    for leave in (0, 4096):
        filler = fill(small_disk, leave)
        check_full(small_disk, TRAIN, None)
        assert unfinished(small_disk) == [] and sorted(os.listdir(small_disk)) == ["egs", "filler", "init.raw"]
        filler.unlink()
    assert start(TRAIN, small_disk).wait(LONGEST_S) == 0, messages(small_disk)
    assert (small_disk / "out.raw").stat().st_size > 4096


def stand_ins(programs: Path) -> list[str]:
    return [sys.executable, str(TESTS / "driver_fakes.py"), str(programs), "exp"]


def check_goes_on(folder: Path, undisturbed: Path, words: list[str]) -> None:
    """With room again, the training ends as one that always had it."""
    assert start(words, folder).wait(LONGEST_S) == 0, messages(folder)[-3000:]
    assert models(folder) == models(undisturbed) and "final.mdl" in models(folder) or "final.raw" in models(folder)
    assert unfinished(folder) == []


def test_a_driver(tmp_path: Path) -> None:
    """Files may become longer and longer, so that it fails later and later."""
    words = stand_ins(write_programs(tmp_path / "programs"))
    undisturbed, folder = prepare_training(tmp_path / "undisturbed"), prepare_training(tmp_path / "work")
    assert start(words, undisturbed).wait(LONGEST_S) == 0, messages(undisturbed)
    for most in (60, 1000):
        check_full(folder, words, files_of(most))
    check_goes_on(folder, undisturbed, words)


@pytest.mark.slow
def test_a_driver_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    words = stand_ins(write_programs(tmp_path / "programs"))
    undisturbed, folder = prepare_training(tmp_path / "undisturbed"), prepare_training(small_disk / "work")
    assert start(words, undisturbed).wait(LONGEST_S) == 0, messages(undisturbed)
    for leave in (4096, 15 * 4096):
        filler = fill(small_disk, leave)
        check_full(folder, words, None)
        filler.unlink()
    check_goes_on(folder, undisturbed, words)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train-dnn", "train-raw-dnn"])
def test_a_driver_with_its_programs(tmp_path: Path, command: str) -> None:
    words = [str(ROOT / "bin" / command), "--dir=exp", "--egs.dir=egs", "--use-gpu=no", "--num-threads=1",
             "--trainer.srand=3", "--trainer.optimization.minibatch-size=2", "--trainer.num-epochs=0.2",
             "--trainer.optimization.num-jobs-final=2", *(["--ali-dir=ali"] if command == "train-dnn" else [])]
    undisturbed, folder = prepare_training(tmp_path / "undisturbed"), prepare_training(tmp_path / "work")
    assert start(words, undisturbed).wait(LONGEST_S) == 0, messages(undisturbed)
    for most in (0, 500, 2000, 4000, 6000):
        check_full(folder, words, files_of(most))
        assert "Traceback" not in messages(folder)
    check_goes_on(folder, undisturbed, words)
