"""wav-perturb: what it writes, what it says."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_lines import read_table, write_table

from nnet3py.cli.main import load
from nnet3py.feat.sound import random_volume, with_speed
from nnet3py.formats.foreign_files import WAVE, Wave

RATE = 16000
ROUNDED = 0.5001        # samples are written with 16 bits


@pytest.fixture
def sounds(here: Path) -> dict[str, Wave]:
    rng = np.random.default_rng(5)
    made = {key: Wave(RATE, np.rint(rng.normal(0, 1000, (channels, 4000))).astype(np.float32))
            for key, channels in (("a", 1), ("b", 2))}
    write_table("ark:wav.ark", WAVE, made)
    return made


def run(*words: str, status: int = 0) -> None:
    assert load("wav-perturb").execute([*words]) == status


def written(name: str) -> dict[str, Wave]:
    return read_table(f"ark:{name}", WAVE)


def test_one_speed_for_all(sounds: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    run("--speed=1.1", "ark:wav.ark", "ark:out")
    found = written("out")
    for key, sound in sounds.items():
        np.testing.assert_allclose(found[key].samples, with_speed(sound.samples, 1.1), atol=ROUNDED)
        assert found[key].rate == RATE
    assert "Perturbed 2 wave files\n" in capfd.readouterr().err


def test_speeds_and_volumes_of_utterances(sounds: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    Path("speeds").write_text("a 0.9\nc 1.0\n")
    run("--utt2speed=ark,t:speeds", "--min-volume=0.125", "--max-volume=2", "--srand=3", "ark:wav.ark", "ark:out")
    found = written("out")
    assert list(found) == ["a"]
    expected = random_volume(3, "a", 0.125, 2.0) * with_speed(sounds["a"].samples, 0.9)
    np.testing.assert_allclose(found["a"].samples, expected, atol=ROUNDED)
    messages = capfd.readouterr().err
    assert "No speed for utterance b" in messages and "Perturbed 1 wave files; 1 had no speed" in messages


def test_what_goes_wrong(sounds: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    run("ark:/dev/null", "ark:out", status=1)
    for words, message in ((["--min-volume=0"], "expected factors above 0"), (["--max-volume=0.5"], "ascending"),
                           (["--min-volume=nan"], "nan"), (["--speed=0"], "between 0.1 and 10")):
        run(*words, "ark:wav.ark", "ark:new", status=255)
        assert message in capfd.readouterr().err and not Path("new").exists()
