"""Kaldi's own scripts that make features and change sound: they run with our launchers alone.

The scripts lie beside the checkout, or nothing is tried.
"""
from __future__ import annotations

from pathlib import Path

import feature_cases as cases
import numpy as np
import pytest
from io_samples import read_table
from kaldi_scripts import run, write_scripts

from nnet3py.formats.foreign_files import WAVE, Wave
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import write_table
from nnet3py.recognition.front_end import features

CONFS = {"mfcc": "--use-energy=false\n--dither=0\n", "fbank": "--num-mel-bins=40\n--dither=0\n", "plp": "--dither=0\n",
         "pitch": "--sample-frequency=16000\n",
         "online_pitch": "--frames-per-chunk=10\n--simulate-first-pass-online=true\n--normalization-right-context=25\n"}
# with the dimension of what they make
SCRIPTS = {"make_mfcc.sh": 13, "make_fbank.sh": 40, "make_plp.sh": 13, "make_mfcc_pitch.sh": 16,
           "make_fbank_pitch.sh": 43, "make_plp_pitch.sh": 16, "make_mfcc_pitch_online.sh": 16}
COMPRESSED = 0.02         # of the largest value: what compression leaves


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features")
    write_scripts(folder)
    (folder / "conf").mkdir()
    (folder / "tools").mkdir(exist_ok=True)
    sox = folder / "tools" / "sox"           # scripts ask whether it is there; nothing calls it here
    sox.write_text("#!/bin/sh\nexit 1\n")
    sox.chmod(0o755)
    for name, text in CONFS.items():
        (folder / "conf" / f"{name}.conf").write_text(text)
    samples, rate = cases.sound()
    for name, sounds in (("all", {"a": samples, "b": samples[::-1].copy()}), ("noises", {"n": samples[5000:9000]})):
        data = folder / "data" / name
        data.mkdir(parents=True)
        for key, sound in sounds.items():
            write_table(f"ark:{data}/{key}.ark", WAVE, {key: Wave(rate, sound[None])})
            run(folder, "wav-copy", f"{data}/{key}.ark:{len(key) + 1}", data / f"{key}.wav")
        (data / "wav.scp").write_text("".join(f"{key} {data}/{key}.wav\n" for key in sounds))
        (data / "utt2spk").write_text("".join(f"{key} {key}\n" for key in sounds))
        (data / "spk2utt").write_text("".join(f"{key} {key}\n" for key in sounds))
        (data / "text").write_text("".join(f"{key} words\n" for key in sounds))
        run(folder, "bash", "utils/data/get_utt2dur.sh", data)
        run(folder, "bash", "utils/data/get_reco2dur.sh", data)
    return folder


@pytest.mark.parametrize("script", SCRIPTS)
def test_features(work: Path, script: str) -> None:
    data = work / "data" / script
    run(work, "cp", "-r", "data/all", data)
    run(work, "bash", f"steps/{script}", "--nj", "2", "--cmd", "utils/run.pl", data)
    found = read_table(f"scp:{data}/feats.scp", FLOAT_MATRIX)
    assert list(found) == ["a", "b"] and {frames.shape[1] for frames in found.values()} == {SCRIPTS[script]}
    kind = script.removeprefix("make_").removesuffix(".sh").partition("_")[0]
    expected = features(cases.DATA / "utt2.wav", kind=kind, config=work / "conf" / f"{kind}.conf")
    base = found["a"][:, :expected.shape[1]]
    assert np.abs(base - expected[:len(base)]).max() <= COMPRESSED * np.abs(expected).max()


def test_augmentation(work: Path) -> None:
    """Noise in the background, one in the foreground; what the directories name is sound."""
    for name, words in (("background", ["--bg-snrs", "10", "--num-bg-noises", "1", "--bg-noise-dir", "data/noises"]),
                        ("foreground", ["--fg-interval", "1", "--fg-snrs", "5", "--fg-noise-dir", "data/noises"])):
        run(work, "python", "steps/data/augment_data_dir.py", "--utt-suffix", name, *words, "data/all", f"data/{name}")
        run(work, "wav-copy", f"scp:data/{name}/wav.scp", f"ark:{name}.ark")
        sounds = read_table(f"ark:{work}/{name}.ark", WAVE)
        assert list(sounds) == [f"a-{name}", f"b-{name}"]
        samples = cases.sound()[0]
        noisy = sounds[f"a-{name}"].samples[0]
        assert len(noisy) == len(samples) and np.corrcoef(noisy, samples)[0, 1] > 0.8
        assert np.abs(noisy - samples).max() > 10


def test_reverberation_and_speed(work: Path) -> None:
    """These directories call sox, as Kaldi's do: that they are made is all that is tried."""
    (work / "rirs").write_text("--rir-id r --room-id room data/noises/n.wav\n")
    run(work, "python", "steps/data/reverberate_data_dir.py", "--rir-set-parameters", "1.0, rirs",
        "--speech-rvb-probability", "1", "--pointsource-noise-addition-probability", "0",
        "--isotropic-noise-addition-probability", "0", "--num-replications", "1", "--source-sampling-rate", "16000",
        "data/all", "data/room")
    made = (work / "data/room/wav.scp").read_text()
    assert made.count("wav-reverberate --shift-output=true --impulse-response=") == 2
    run(work, "bash", "utils/data/perturb_data_dir_speed_3way.sh", "data/all", "data/speeds")
    run(work, "bash", "utils/data/perturb_data_dir_volume.sh", "data/speeds")
    assert len((work / "data/speeds/wav.scp").read_text().splitlines()) == 6
