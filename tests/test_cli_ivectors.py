"""Commands about Gaussians, i-vectors and PLDA: from features to scores, Kaldi's own results where they are there."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_lines import run
from paths import shared_golden

from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.io.tables import SequentialReader, TableWriter, write_table

SINGLE = 1e-4          # of the largest value: single precision, and another order of sums


pytestmark = pytest.mark.usefixtures("here")


def write_speech(num_speakers: int = 6, each: int = 4) -> None:
    """Features of speakers, each with a sound of his own."""
    rng = np.random.default_rng(3)
    places = rng.standard_normal((4, 3)) * 4
    spk2utt, utt2spk = [], []
    with TableWriter("ark:feats", FLOAT_MATRIX) as feats:
        for speaker in range(num_speakers):
            own = rng.standard_normal((4, 3)) * 1.5
            names = [f"s{speaker}-{number}" for number in range(each)]
            spk2utt.append(f"s{speaker} {' '.join(names)}\n")
            for name in names:
                which = rng.integers(0, 4, 80)
                feats.write(name, ((places + own)[which] + rng.standard_normal((80, 3))).astype(np.float32))
                utt2spk.append(f"{name} s{speaker}\n")
    Path("spk2utt").write_text("".join(spk2utt))
    Path("utt2spk").write_text("".join(utt2spk))


def test_from_features_to_scores(capfd: pytest.CaptureFixture[str]) -> None:
    write_speech()
    run("gmm-global-init-from-feats", "--num-gauss=4", "--num-iters=4", "ark:feats", "0.dubm")
    run("gmm-gselect", "--n=3", "0.dubm", "ark:feats", "ark:gselect")
    run("gmm-global-acc-stats", "--gselect=ark:gselect", "0.dubm", "ark:feats", "1.acc")
    run("gmm-global-sum-accs", "2.acc", "1.acc", "1.acc")
    run("gmm-global-est", "0.dubm", "2.acc", "final.dubm")
    run("gmm-global-to-fgmm", "final.dubm", "0.fgmm")
    run("fgmm-global-acc-stats", "0.fgmm", "ark:feats", "f.acc")
    run("fgmm-global-est", "0.fgmm", "f.acc", "final.fgmm")
    run("fgmm-global-init-from-accs", "f.acc", "4", "alone.fgmm")
    assert Path("alone.fgmm").read_bytes() == Path("final.fgmm").read_bytes()       # all have data enough
    run("fgmm-global-init-from-accs", "f.acc", "5", "none.fgmm", status=255)
    run("fgmm-global-to-gmm", "final.fgmm", "diag")
    run("fgmm-gselect", "--n=2", "final.fgmm", "ark:feats", "ark:gselect2")
    run("fgmm-global-gselect-to-post", "final.fgmm", "ark:feats", "ark:gselect2", "ark:fpost")
    run("gmm-global-get-post", "--n=3", "--min-post=0.025", "final.dubm", "ark:feats", "ark:post")
    run("scale-post", "ark:post", "0.5", "ark:scaled")
    run("ivector-extractor-init", "--ivector-dim=4", "--use-weights=false", "0.fgmm", "0.ie")
    for number in range(2):
        run("ivector-extractor-acc-stats", "--num-threads=2", f"{number}.ie", "ark:feats", "ark:scaled", "ie.acc")
        run("ivector-extractor-sum-accs", "ie.acc", "ie.acc", "sum.acc")
        run("ivector-extractor-est", "--gaussian-min-count=10", f"{number}.ie", "ie.acc", f"{number + 1}.ie")
    run("ivector-extract", "2.ie", "ark:feats", "ark:scaled", "ark:vectors")
    run("ivector-extract", "--spk2utt=ark:spk2utt", "2.ie", "ark:feats", "ark:scaled", "ark:speakers")
    run("ivector-mean", "ark:spk2utt", "ark:vectors", "ark:means", "ark,t:counts")
    assert Path("counts").read_text().split() == [word for speaker in range(6) for word in (f"s{speaker}", "4")]
    run("ivector-compute-lda", "--dim=3", "ark:vectors", "ark:utt2spk", "lda.mat")
    run("ivector-transform", "lda.mat", "ark:vectors", "ark:moved")
    run("ivector-transform", "lda.mat", "ark:means", "ark:moved-means")
    run("ivector-compute-plda", "ark:spk2utt", "ark:moved", "plda")
    trials = [(f"s{one}", f"s{other}-{number}") for one in range(6) for other in range(6) for number in range(4)]
    Path("trials").write_text("".join(f"{one} {other}\n" for one, other in trials))
    run("ivector-plda-scoring", "--num-utts=ark:counts", "plda", "ark:moved-means", "ark:moved", "trials", "scores")
    scores = [line.split()[2] for line in Path("scores").read_text().splitlines()]
    Path("keyed").write_text("".join(f"{score} {'target' if other.startswith(one) else 'nontarget'}\n"
                                     for score, (one, other) in zip(scores, trials, strict=True)))
    capfd.readouterr()
    run("compute-eer", "keyed")
    out = capfd.readouterr()
    assert float(out.out) < 15.0 and "Equal error rate is" in out.err


def test_small_programs(capfd: pytest.CaptureFixture[str]) -> None:
    write_table("ark:vectors", FLOAT_VECTOR, {
        "a": np.array([3.0, 4.0], dtype=np.float32), "b": np.array([0.0, 2.0], dtype=np.float32)})
    run("ivector-normalize-length", "--scaleup=false", "ark:vectors", "ark,t:out")
    assert Path("out").read_text() == "a  [ 0.6 0.8 ]\nb  [ 0 1 ]\n"
    run("ivector-subtract-global-mean", "ark:vectors", "ark,t:out")
    assert Path("out").read_text() == "a  [ 1.5 1 ]\nb  [ -1.5 -1 ]\n"
    run("ivector-mean", "ark:vectors", "mean")
    assert Path("mean").read_text() == " [ 1.5 3 ]\n"
    run("ivector-subtract-global-mean", "mean", "ark:vectors", "ark,t:out")
    assert Path("out").read_text() == "a  [ 1.5 1 ]\nb  [ -1.5 -1 ]\n"
    Path("matrix").write_text("[ 0 1 5 ]\n")
    run("transform-vec", "matrix", "ark:vectors", "ark,t:out")
    assert Path("out").read_text() == "a  [ 9 ]\nb  [ 7 ]\n"
    Path("trials").write_text("a b\na c\n")
    run("ivector-compute-dot-products", "trials", "ark:vectors", "ark:vectors", "out")
    assert Path("out").read_text() == "a b 8\n" and "Processed 1 trials 1 had errors." in capfd.readouterr().err
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    write_table("ark:rows", FLOAT_MATRIX, {"u": rows})
    run("ivector-randomize", "ark:rows", "ark:changed")
    with SequentialReader("ark:changed", FLOAT_MATRIX) as table:
        ((_, changed),) = table
    assert (changed[:, 0] >= rows[:, 0]).all() and (changed[:, 0] != rows[:, 0]).any()
    run("est-pca", "--dim=1", "--normalize-mean=true", "ark:rows", "pca")
    run("transform-feats", "pca", "ark:rows", "ark:moved")
    with SequentialReader("ark:moved", FLOAT_MATRIX) as table:
        ((_, moved),) = table
    assert abs(float(moved.mean())) < SINGLE and moved.var() == pytest.approx(rows.var(0).sum(), rel=SINGLE)


@pytest.mark.parametrize("words", [
    ("ivector-extract-online2", "ark:spk2utt", "ark:feats", "ark:o"),
    ("gmm-gselect", "--n=0", "a", "ark:feats", "ark:o"),
    ("gmm-global-get-post", "missing", "ark:feats", "ark:o"),
    ("scale-post", "ark:post", "x", "ark:o"),
])
def test_faults_are_one_line(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    run(*words, status=255)
    err = capfd.readouterr().err
    assert err.count("ERROR (") == 1 and "internal error" not in err and "Traceback" not in err
    assert not Path("o").exists()


def test_online_ivectors_are_kaldis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    golden = shared_golden() / "recognition"
    features = golden.parent.parent / "data/digits/test/feats.ark"
    monkeypatch.chdir(golden / "online2-default")          # file names in the configuration are relative
    for step, words in (("online2-default", []), ("online2-max-count", ["--max-count=8"]),
                        ("online2-greedy", ["--greedy-ivector-extractor=true"])):
        run("ivector-extract-online2", "--config=../conf/ivector_extractor_pca.conf", *words,
            "ark:../lists/few.spk2utt", f"ark:{features}", f"ark:{tmp_path}/out")
        with (SequentialReader(f"ark:{tmp_path}/out", FLOAT_MATRIX) as found,
              SequentialReader(f"ark:{golden / step}/ivectors.ark", FLOAT_MATRIX) as expected):
            for (key, rows), (expected_key, expected_rows) in zip(found, expected, strict=True):
                assert key == expected_key
                np.testing.assert_allclose(rows, expected_rows, atol=SINGLE * np.abs(expected_rows).max())
