"""A training command that is killed at any moment: its outputs are complete or not there, and nothing else is left."""
from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from driver_cases import TDNN, write_egs
from driver_chain_cases import CHAIN, write_chain_configs, write_chain_egs
from process_faults import SIGNALS, check_nobody_is_left, kill, messages, start, unfinished

from nnet3py.network.nnet import Nnet

SEED = 5
LONGEST_S = 120.0
STATUSES = {signal.SIGTERM: (-signal.SIGTERM,), signal.SIGINT: (130, -signal.SIGINT),
            signal.SIGKILL: (-signal.SIGKILL,)}

COMMANDS = {
    "nnet3-train": ["nnet3-train", "--use-gpu=no", "--num-threads=1", "--srand=1", "--write-cache=cache", "init.raw",
                    "ark,bg:nnet3-copy-egs ark:egs/egs.1.ark ark:- | nnet3-shuffle-egs --srand=2 ark:- ark:- | "
                    "nnet3-merge-egs --minibatch-size=2 ark:- ark:- |", "out.raw"],
    "nnet3-chain-train": ["nnet3-chain-train", "--use-gpu=no", "--num-threads=1", "--srand=1", "--write-cache=cache",
                          "init.raw", "den.fst", "ark,bg:nnet3-chain-copy-egs ark:egs/cegs.1.ark ark:- | "
                          "nnet3-chain-merge-egs --minibatch-size=4,2,1 ark:- ark:- |", "out.raw"],
}


def prepare(folder: Path, name: str) -> Path:
    """A network, and examples to train it with."""
    if name == "nnet3-train":
        write_egs(folder / "egs")
        Nnet.from_config(TDNN.format(classes=28)).write(str(folder / "init.raw"))
    else:
        write_chain_egs(folder / "egs")
        write_chain_configs(folder)
        Nnet.from_config((folder / "configs" / "final.config").read_text()).write(str(folder / "init.raw"))
        shutil.copyfile(CHAIN / "den.fst", folder / "den.fst")
    return folder


def outputs(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("out.raw", "cache") if (folder / name).exists()}


def check_killed(root: Path, name: str, times: int) -> None:
    """Kill a command after random parts of the time that it takes, by one signal after the other."""
    folder, choose = prepare(root / "work", name), random.Random(SEED)
    begun = time.monotonic()
    assert start(COMMANDS[name], folder).wait(LONGEST_S) == 0, messages(folder)
    seconds = time.monotonic() - begun
    expected = outputs(folder)
    assert set(expected) == {"out.raw", "cache"}
    before = sorted(path.name for path in folder.iterdir() if path.name not in expected)
    for number in (SIGNALS[i % len(SIGNALS)] for i in range(times)):
        for output in expected:
            (folder / output).unlink(missing_ok=True)
        process = start(COMMANDS[name], folder)
        try:
            status = process.wait(choose.uniform(0.05, 1.05) * seconds)
        except subprocess.TimeoutExpired:
            kill(process, number)
            status = process.wait(LONGEST_S)
        assert status in (0, *STATUSES[number]), messages(folder)
        check_nobody_is_left(folder)
        found = outputs(folder)
        assert found.items() <= expected.items() and (status or found == expected)
        if number != signal.SIGKILL:
            assert unfinished(folder) == []
    assert start(COMMANDS[name], folder).wait(LONGEST_S) == 0, messages(folder)
    assert outputs(folder) == expected
    assert sorted(path.name for path in folder.iterdir() if path.name not in expected) == before
    assert "Traceback" not in messages(folder) and "internal error" not in messages(folder)


def test_training_killed_at_any_moment(tmp_path: Path) -> None:
    check_killed(tmp_path, "nnet3-train", 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_killed_often(tmp_path: Path, name: str) -> None:
    check_killed(tmp_path, name, 60)
