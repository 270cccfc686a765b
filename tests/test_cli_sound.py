"""wav-reverberate, extend-wav-with-silence and wav-perturb."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_lines import run
from io_samples import read_table

from nnet3py.cli.main import load
from nnet3py.feat.options import RoomOptions, SilenceOptions
from nnet3py.feat.sound import AddedSignal, random_volume, reverberate, with_silence, with_speed
from nnet3py.formats.foreign_files import WAVE, Wave, read_wave, write_wave
from nnet3py.io.object_files import read_object, write_object
from nnet3py.io.tables import write_table

RATE = 16000.0
ROUNDED = 1.0001          # samples are written with 16 bits, and fractions cut off


@pytest.fixture
def sounds(here: Path) -> dict[str, np.ndarray]:
    """Samples of files in the current folder; two.wav and room.wav have two channels, noises.wav has three."""
    rng = np.random.default_rng(1)
    made = {"one": rng.normal(0, 900, (1, 2000)), "two": rng.normal(0, 900, (2, 2000)),
            "noise": rng.normal(0, 99, (1, 700)), "noises": rng.normal(0, 99, (3, 700)),
            "room": rng.normal(0, 3000, (2, 300)), "slow": rng.normal(0, 900, (1, 50))}
    made["room"][:, 17] = 32000
    for name, samples in made.items():
        made[name] = np.rint(samples).astype(np.float32)
        save(f"{name}.wav", made[name], 8000.0 if name == "slow" else RATE)
    return made


def save(name: str, samples: np.ndarray, rate: float = RATE) -> None:
    write_object(name, lambda writer: write_wave(writer, Wave(rate, samples)), binary=False)


def result(name: str = "out.wav") -> np.ndarray:
    return read_object(name, read_wave).samples


def test_room_and_noise(sounds: dict[str, np.ndarray]) -> None:
    run("wav-reverberate", "--impulse-response=room.wav", "--rir-channel=1", "--input-wave-channel=1",
        "--additive-signals=noise.wav,cat noises.wav |", "--noise-channel=0", "--snrs=10,5", "--start-times=0,0.05",
        "--shift-output=false", "--duration=0.3", "two.wav", "out.wav")
    added = [AddedSignal(sounds["noise"][0], 10.0, 0.0), AddedSignal(sounds["noises"][0], 5.0, 0.05)]
    expected = reverberate(sounds["two"][1], RATE, sounds["room"][1], added, RoomOptions(shift=False, duration=0.3))
    assert result().shape == (1, 4800)
    np.testing.assert_allclose(result()[0], expected, atol=ROUNDED)


def test_sound_as_it_is(sounds: dict[str, np.ndarray]) -> None:
    run("wav-reverberate", "--multi-channel-output=false", "two.wav", "out.wav")
    np.testing.assert_allclose(result(), sounds["two"][:1], atol=ROUNDED)
    run("wav-reverberate", "--volume=0.5", "one.wav", "out.wav")
    np.testing.assert_allclose(result(), sounds["one"] * 0.5, atol=ROUNDED)


@pytest.mark.parametrize("noise", ["", "noise", "two"])
def test_many_channels(sounds: dict[str, np.ndarray], noise: str) -> None:
    words = [f"--additive-signals={noise}.wav", "--snrs=3", "--start-times=0.01"] if noise else []
    run("wav-reverberate", "--multi-channel-output=true", "--impulse-response=room.wav", *words, "one.wav", "out.wav")
    assert result().shape == (2, 2000)
    for channel in range(2):
        added = [AddedSignal(sounds[noise][channel if noise == "two" else 0], 3.0, 0.01)] if noise else []
        np.testing.assert_allclose(result()[channel],
                                   reverberate(sounds["one"][0], RATE, sounds["room"][channel], added), atol=ROUNDED)


def test_channels_of_noise_without_a_room(sounds: dict[str, np.ndarray]) -> None:
    run("wav-reverberate", "--multi-channel-output=true", "--additive-signals=noises.wav,noise.wav", "--snrs=3,6",
        "--start-times=0,0", "one.wav", "out.wav")
    assert result().shape == (3, 2000)


@pytest.mark.parametrize("words, message", [
    (["--snrs=1", "one.wav"], "names 0 signals, --snrs has 1 numbers"),
    (["--additive-signals=noise.wav", "--snrs=1", "one.wav"], "--start-times 0"),
    (["--additive-signals=noise.wav", "--snrs=x", "--start-times=0", "one.wav"], "Invalid option --snrs=x"),
    (["--additive-signals=noise.wav", "--snrs=nan", "--start-times=0", "one.wav"], "NaN or infinity"),
    (["--additive-signals=noise.wav", "--snrs=1", "--start-times=-1", "one.wav"], "starts at -1 seconds"),
    (["--additive-signals=noise.wav", "--noise-channel=1", "--snrs=1", "--start-times=0", "one.wav"], "1 channels"),
    (["--impulse-response=slow.wav", "one.wav"], "slow.wav has 8000 samples per second, expected 16000"),
    (["--impulse-response=absent.wav", "one.wav"], "absent.wav"),
    (["--impulse-response=cat absent.wav |", "one.wav"], "absent.wav"),
    (["--input-wave-channel=1", "one.wav"], "--input-wave-channel=1: the file has 1 channels"),
    (["--rir-channel=-1", "--impulse-response=room.wav", "one.wav"], "--rir-channel=-1"),
    (["--duration=-2", "one.wav"], "--duration=-2: expected 0 or more"),
    (["--volume=1e308", "one.wav"], "NaN or infinity"),
    (["--multi-channel-output=true", "--impulse-response=room.wav", "--additive-signals=noises.wav", "--snrs=1",
      "--start-times=0", "one.wav"], "expected additive signals of 2 channels, or of one, found one of 3")])
def test_what_goes_wrong(sounds: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str], words: list[str],
                         message: str) -> None:
    run("wav-reverberate", *words, "out.wav", status=255)
    assert message in capfd.readouterr().err and not Path("out.wav").exists()


def test_silence_after_a_table_and_a_file(sounds: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    write_table("ark:in.ark", WAVE, {key: Wave(RATE, sounds[key]) for key in ("one", "two")})
    run("extend-wav-with-silence", "--extra-silence-length=0.25", "ark:in.ark", "ark:out.ark")
    run("extend-wav-with-silence", "--extra-silence-length=0.25", "two.wav", "out.wav")
    settings = SilenceOptions(length=0.25)
    extended = read_table("ark:out.ark", WAVE)
    assert list(extended) == ["one", "two"]
    for key, wave in extended.items():
        expected = np.stack([with_silence(channel, RATE, settings) for channel in sounds[key]])
        np.testing.assert_allclose(wave.samples, expected, atol=ROUNDED)
    np.testing.assert_array_equal(result(), extended["two"].samples)
    assert "Successfully extended 2 files." in capfd.readouterr().err


def test_silence_that_cannot_be(sounds: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    run("extend-wav-with-silence", "ark:/dev/null", "ark:out.ark", status=1)
    run("extend-wav-with-silence", "--silence-extract-length=1", "one.wav", "out.wav", status=255)
    said = capfd.readouterr().err
    assert "--silence-search-length=0.5 --silence-extract-length=1" in said and not Path("out.wav").exists()
    run("extend-wav-with-silence", "ark:in.ark", "out.wav", status=255)
    assert "Cannot mix archives with regular files" in capfd.readouterr().err


WAV_RATE = 16000
ROUNDED_TO_16_BITS = 0.5001        # samples are written with 16 bits


@pytest.fixture
def waves(here: Path) -> dict[str, Wave]:
    rng = np.random.default_rng(5)
    made = {key: Wave(WAV_RATE, np.rint(rng.normal(0, 1000, (channels, 4000))).astype(np.float32))
            for key, channels in (("a", 1), ("b", 2))}
    write_table("ark:wav.ark", WAVE, made)
    return made


def perturb(*words: str, status: int = 0) -> None:
    assert load("wav-perturb").execute([*words]) == status


def written(name: str) -> dict[str, Wave]:
    return read_table(f"ark:{name}", WAVE)


def test_one_speed_for_all(waves: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    perturb("--speed=1.1", "ark:wav.ark", "ark:out")
    found = written("out")
    for key, sound in waves.items():
        np.testing.assert_allclose(found[key].samples, with_speed(sound.samples, 1.1), atol=ROUNDED_TO_16_BITS)
        assert found[key].rate == WAV_RATE
    assert "Perturbed 2 wave files\n" in capfd.readouterr().err


def test_speeds_and_volumes_of_utterances(waves: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    Path("speeds").write_text("a 0.9\nc 1.0\n")
    perturb("--utt2speed=ark,t:speeds", "--min-volume=0.125", "--max-volume=2", "--srand=3", "ark:wav.ark", "ark:out")
    found = written("out")
    assert list(found) == ["a"]
    expected = random_volume(3, "a", 0.125, 2.0) * with_speed(waves["a"].samples, 0.9)
    np.testing.assert_allclose(found["a"].samples, expected, atol=ROUNDED_TO_16_BITS)
    messages = capfd.readouterr().err
    assert "No speed for utterance b" in messages and "Perturbed 1 wave files; 1 had no speed" in messages


def test_what_cannot_be_perturbed(waves: dict[str, Wave], capfd: pytest.CaptureFixture[str]) -> None:
    perturb("ark:/dev/null", "ark:out", status=1)
    for words, message in ((["--max-volume=0.5"], "--min-volume=1 is more than --max-volume=0.5"),
                           (["--min-volume=nan"], "nan"), (["--speed=0"], "between 0.1 and 10")):
        perturb(*words, "ark:wav.ark", "ark:new", status=255)
        assert message in capfd.readouterr().err and not Path("new").exists()
