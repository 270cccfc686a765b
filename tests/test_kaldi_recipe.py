"""Scripts as users of Kaldi write them train models with nothing but bin/ and the system's programs on PATH."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from digits_cases import write_kaldi_dirs
from paths import DATA, ROOT

import nnet3py

RECIPES = DATA / "recipes"
UTTERANCES = {"train": 24, "test": 2}
HELD_OUT = 4
NUM_PDFS = 28
SUM_OF_PROBABILITIES = 1e-5     # of a few dozen float32 numbers
PRINTED = 1e-5                  # relative: six digits
COMPRESSED = 0.01               # of the range of a matrix: one byte for each element
DENOMINATOR = 1e-3              # posteriors of a forward-backward algorithm in float32

# As Kaldi's report scripts look for scores: the head of the line counts, too.
SCORE = (r"LOG .(nnet3.*compute-prob.*):PrintTotalStats..:nnet.*diagnostics.cc:[0-9]+. "
         r"Overall %s for 'output' is ([0-9.\-e]+)(?: \+ [0-9.\-e]+ = ([0-9.\-e]+))?")
# As training scripts look for the objective of a job.
OBJECTIVE = (r"LOG .* Overall average objective function for 'output' is "
             r"([0-9e.\-+= ]+) over ([0-9e.\-+]+) frames")
OF_AN_ITERATION = {"objective", "xent", "accuracy", "log-likelihood", "log-probability", "change"}
HEAD = r"^(LOG|WARNING|VLOG\[\d\]) \([a-z0-9-]+\[[0-9.~a-z-]+\]:\S+\(\):\S+:\d+\) "


class Trained:
    """The folder that a recipe left, and what it read from logs and programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary: dict[str, list[str]] = {}
        for line in (folder / "summary").read_text(encoding="utf-8").splitlines():
            words = line.split()
            length = 2 if words[0] in OF_AN_ITERATION else 1
            self.summary.setdefault(" ".join(words[:length]), []).extend(words[length:])

    def log(self, name: str) -> str:
        return (self.folder / "log" / f"{name}.log").read_text(encoding="utf-8")

    def numbers(self, name: str) -> list[float]:
        return [float(word) for word in self.summary[name]]


@pytest.fixture(scope="module")
def kaldi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kaldi")
    write_kaldi_dirs(folder, UTTERANCES)
    return folder


def train(script: str, *folders: Path) -> Trained:
    kept = {name: os.environ[name] for name in ("HOME", "NNET3PY_CACHE", "NUMBA_CACHE_DIR") if name in os.environ}
    environment = {**kept, "PATH": f"{ROOT / 'bin'}:/usr/bin:/bin", "NNET3PY_PYTHON": sys.executable,
                   "NNET3PY_NUM_THREADS": "1"}
    done = subprocess.run([RECIPES / script, *folders], cwd=folders[-1].parent, env=environment, capture_output=True,
                          text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{RECIPES / script}: done: {folders[-1]}/final.mdl\n"
    return Trained(folders[-1])


@pytest.fixture(scope="module")
def frames(kaldi: Path) -> Trained:
    return train("frames.sh", kaldi / "data" / "train", kaldi / "ali_train", kaldi / "frames")


@pytest.fixture(scope="module")
def chain(kaldi: Path) -> Trained:
    return train("chain.sh", kaldi / "data" / "train", kaldi / "ali_train", kaldi / "chain_tree", kaldi / "chain")


def check_every_log(trained: Trained) -> None:
    """Each log is of commands that ended well, echoed, with lines of Kaldi's form."""
    logs = sorted(trained.folder.glob("**/*.log"))
    assert len(logs) > 25
    for log in logs:
        text = log.read_text(encoding="utf-8")
        assert re.search(r"^# Accounting: time=\d+ threads=1\n# Ended \(code 0\) ", text, re.MULTILINE), log
        assert not re.search(r"^(ERROR|ASSERTION_FAILED|Traceback)", text, re.MULTILINE), log
        for line in text.splitlines():
            assert not line.startswith(("LOG", "WARNING", "VLOG")) or re.match(HEAD, line), f"{log}: {line}"


def check_objectives(trained: Trained, iterations: int, rise: float) -> None:
    """The script read what Kaldi's pattern finds, and training got on."""
    means = []
    for iteration in range(iterations):
        found = [re.findall(OBJECTIVE, trained.log(f"train.{iteration}.{job}"))[-1] for job in (1, 2)]
        assert trained.numbers(f"objective {iteration}") == [float(value.split()[-1]) for value, _ in found]
        assert all(float(frames) > 100 for _, frames in found)
        means.append(np.mean(trained.numbers(f"objective {iteration}")))
    assert np.all(np.diff(means) > rise), means


def check_scores(trained: Trained, key: str, names: str, rise: float) -> None:
    values = []
    for name in names.split():
        found = [re.search(SCORE % key, trained.log(f"compute_prob_{subset}.{name}")) for subset in ("train", "valid")]
        assert all(found)
        values.append(trained.numbers(f"{key} {name}"))
        assert values[-1] == [float(one[3] or one[2]) for one in found if one]
    assert np.all(np.subtract(values[-1], values[0]) > rise), values


def check_changes(trained: Trained, iteration: int, layers: list[str]) -> None:
    changes = dict(word.split(":") for word in trained.summary[f"change {iteration}"])
    assert list(changes) == layers and all(float(change) > 0 for change in changes.values())


@pytest.mark.slow
def test_frames_logs(frames: Trained) -> None:
    check_every_log(frames)
    assert "--optimization.min-deriv-time=-20 " in frames.log("train.0.1")           # the echo of the command
    assert "Set dropout proportions for 1 components." in frames.log("train.1.1")
    assert "[this line is to be parsed by a script:] log-prob-per-frame=-" in frames.log("train.1.2")
    assert re.search(r"Average objective function for 'output' for minibatches 0-9 is -[\d.]+ over \d+ frames\.\n",
                     frames.log("train.0.1"))
    assert "Overall per-dim accuracy vector for 'output' is  [ " in frames.log("compute_prob_train.1")
    assert re.search(r"^LOG .* 14=\{.*->\d+,d=\d+\}$", frames.log("train.1.2"), re.MULTILINE)
    assert "(it is normal to have some skipped.)" in frames.log("init_mdl")
    assert "Could not open cached computation" not in frames.log("train.1.1")
    assert "objective function using the last model is -" in frames.log("combine")


@pytest.mark.slow
def test_frames_values(frames: Trained) -> None:
    kept = UTTERANCES["train"]
    assert frames.numbers("copied") == frames.numbers("alignments") == frames.numbers("transitions") == [kept]
    assert frames.summary["feat_dim"] == ["40"] and frames.summary["num_pdfs"] == [str(NUM_PDFS)]
    lengths = [int(line.split()[1]) for line in
               (frames.folder.parent / "data/train/utt2num_frames").read_text(encoding="utf-8").splitlines()]
    assert frames.numbers("num_frames") == [sum(lengths)]
    assert frames.numbers("valid_subset") == [60, sum(-(-length // 8) for length in lengths[-HELD_OUT:])]
    assert frames.numbers("copied_egs")[2] == 0 and frames.numbers("shuffled")[0] > 400
    dimension, counted = frames.numbers("pdf_counts")
    assert dimension == NUM_PDFS and 0.99 * sum(lengths) < counted <= sum(lengths)       # one transition-id is lost
    assert frames.summary["lda_dim"] == ["120", "121"] and frames.summary["output_nodes"] == ["output"]
    assert [frames.summary[name] for name in ("left-context", "right-context", "modulus")] == [["3"], ["3"], ["1"]]
    assert frames.summary["num-parameters"] == frames.summary["parameters"] == ["6876"]


@pytest.mark.slow
def test_frames_training(frames: Trained) -> None:
    check_objectives(frames, 2, rise=0.1)
    check_scores(frames, "log-likelihood", "0 1 combined", rise=0.3)
    check_scores(frames, "accuracy", "0 1 combined", rise=0.1)
    assert frames.summary["averaged"] == ["2"]
    check_changes(frames, 1, ["affine1", "affine2", "affine3"])
    assert 0 < frames.numbers("saturation")[0] < 1
    models, before, after = frames.numbers("combine")
    assert 1 <= models <= 2 and before <= after < 0
    header, *lines = (frames.folder / "accuracy.report").read_text(encoding="utf-8").splitlines()
    assert header == "%Iter\tduration\ttrain_objective\tvalid_objective\tdifference"
    for iteration, line in enumerate(lines):
        number, seconds, *scores = line.split("\t")
        assert int(number) == iteration and int(seconds) >= 0
        expected = frames.numbers(f"accuracy {iteration}")
        assert [float(score) for score in scores[:2]] == pytest.approx(expected, rel=PRINTED)


@pytest.mark.slow
def test_frames_model(frames: Trained) -> None:
    model = nnet3py.read_model(str(frames.folder / "final.mdl"))
    assert model.priors.shape == (NUM_PDFS,) and model.priors.min() >= 0
    assert model.priors.sum() == pytest.approx(1, abs=SUM_OF_PROBABILITIES)
    assert frames.numbers("prior-sum") == [pytest.approx(1, abs=SUM_OF_PROBABILITIES)]
    assert 0 < frames.numbers("divergence")[0] < 1
    assert frames.numbers("computed") == [HELD_OUT, 0] and len(set(frames.numbers("rows"))) == 1
    posteriors = dict(nnet3py.read_matrices(f"scp:{frames.folder}/post.scp"))
    scaled = dict(nnet3py.read_matrices(f"ark:{frames.folder}/scaled.ark"))
    for key, posterior in posteriors.items():
        np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=SUM_OF_PROBABILITIES)
        expected = 0.1 * (np.log(posterior) - np.log(model.priors))
        np.testing.assert_allclose(scaled[key], expected, atol=COMPRESSED * np.ptp(expected))


def test_chain_logs(chain: Trained) -> None:
    check_every_log(chain)
    assert "--xent-regularize=0.1 " in chain.log("train.0.1")
    assert re.search(r"Overall average objective function for 'output' is -\S+ \+ -\S+ = -\S+ over",
                     chain.log("train.1.2"))
    assert "Recomputing stats on nnet (affects batch-norm)" in chain.log("combine")


def test_chain_training(chain: Trained) -> None:
    check_objectives(chain, 2, rise=0.1)
    check_scores(chain, "log-probability", "0 1 final", rise=0.1)
    assert chain.numbers("xent 1") > chain.numbers("xent 0")
    assert chain.numbers("supervisions") == [UTTERANCES["train"], 0]
    read, wrote, errors = chain.numbers("copied_egs")
    assert read == wrote == chain.numbers("shuffled")[0] > 50 and errors == 0
    check_changes(chain, 1, ["affine1", "affine2", "chain", "xent"])


def test_chain_model(chain: Trained) -> None:
    model = nnet3py.read_model(str(chain.folder / "final.mdl"))
    assert model.nnet.output_dim("output") == 2 * NUM_PDFS and model.priors.size == 0
    assert len(set(chain.numbers("rows"))) == 1
    for _, posterior in nnet3py.read_matrices(f"ark:{chain.folder}/post.ark"):
        np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=DENOMINATOR)
