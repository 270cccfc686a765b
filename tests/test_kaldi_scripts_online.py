"""Kaldi's own scripts of steps/online and steps/nnet3, but for training: what they call is here, and they run.

The scripts lie beside the checkout, or nothing is tried.
"""
from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from driver_cases import TDNN, write_alignments, write_configs, write_egs
from io_samples import read_table
from kaldi_scripts import (
    NO_NORMALIZATION,
    NUM_PDFS,
    called_scripts,
    copy_scripts,
    named_programs,
    run,
    write_work_folder,
)
from online_cases import KEYS, PACKAGE
from paths import ROOT, shared_folder, shared_golden
from test_cli_online import write_inputs

import nnet3py
from nnet3py.cli.process.kaldi_programs import missing_programs
from nnet3py.cli.registry import COMMANDS
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR, INT_VECTOR
from nnet3py.io.tables import SequentialReader

PAGE = (ROOT / "docs" / "coming-from-kaldi.md").read_text(encoding="utf-8")
UTTERANCES = {"train": 40, "test": 4}
JOBS = 1             # the first utterances of the test are of one speaker, and Kaldi splits by speakers
DIM, PERIOD = 4, 10
# Of scripts that run: what only an option asks for.
ON_REQUEST = {"decode.sh": {"compress-uncompress-speex"},          # steps/online/nnet3: --do-speex-compressing true
              "adjust_priors.sh": {"nnet3-discriminative-compute-from-egs"}}      # --egs-type degs
EDITS = {"rename-node", "remove-output-nodes", "set-learning-rate"}               # --edits of nnet3-copy, not programs
POSTERIORS = 1e-5    # sums of 28 probabilities in float32
CONFIG = f"""
input-node name=input dim=40
input-node name=ivector dim={DIM}
component name=affine1 type=AffineComponent input-dim={40 + DIM} output-dim=16
component name=relu type=RectifiedLinearComponent dim=16
component name=affine2 type=AffineComponent input-dim=16 output-dim={NUM_PDFS}
component name=softmax type=LogSoftmaxComponent dim={NUM_PDFS}
component-node name=affine1 component=affine1 input=Append(input, ReplaceIndex(ivector, t, 0))
component-node name=bottleneck component=relu input=affine1
component-node name=affine2 component=affine2 input=bottleneck
component-node name=softmax component=softmax input=affine2
output-node name=output input=softmax
"""


def rows() -> dict[str, str]:
    """What came of each script, as the page says."""
    found: dict[str, str] = {}
    for folder, table in re.findall(r"^\| script of (steps/\w+) \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", PAGE, re.MULTILINE):
        for line in table.splitlines():
            name, _, result = (cell.strip() for cell in line.split("|")[1:-1])
            path = f"{folder}/{name.strip('`')}"
            assert path not in found, path
            found[path] = result
    return found


def scripts() -> dict[str, str]:
    """The texts of all of Kaldi's scripts."""
    folder = shared_folder("kaldi-scripts")
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for name in ("steps", "utils")
            for path in (folder / name).rglob("*.*") if path.suffix in (".sh", ".py", ".pl")}


def test_every_script_has_a_row() -> None:
    assert set(rows()) == {name for name in scripts() if name.startswith(("steps/nnet3/", "steps/online/"))}
    assert all(rows().values())


def test_programs_are_here_or_known_to_be_missing() -> None:
    texts = scripts()
    called = set(rows())
    waiting = [*called]
    while waiting:
        more = (called_scripts(texts[waiting.pop()]) & set(texts)) - called
        called |= more
        waiting += more
    named = {name: named_programs(texts[name], name.endswith(".py")) for name in called if not name.endswith(".pl")}
    assert sum(one in COMMANDS for one in set().union(*named.values())) > 120
    missing = missing_programs()
    for name, programs in named.items():
        assert not programs - set(COMMANDS) - set(missing) - EDITS, name
        if rows().get(name, "").startswith("runs"):
            assert not programs & set(missing) - ON_REQUEST.get(Path(name).name, set()), name


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with an extractor of i-vectors and a model that takes them, its parameters random."""
    folder = write_work_folder(tmp_path_factory.mktemp("work"), UTTERANCES, JOBS, CONFIG)
    (folder / "conf").mkdir()
    (folder / "conf" / "mfcc.conf").write_text("--use-energy=false\n")
    (folder / "conf" / "online_cmvn.conf").write_text("# configuration file for apply-cmvn-online\n")
    train, online = "kaldi/data/train", "steps/online/nnet2/"
    run(folder, f"{online}get_pca_transform.sh", "--dim", "20", "--splice-opts", "--left-context=3 --right-context=3",
        train, "exp/pca")
    run(folder, f"{online}train_diag_ubm.sh", "--nj", "2", "--num-iters", "1", "--num-iters-init", "2", "--num-threads",
        "1", "--num-gselect", "4", train, "4", "exp/pca", "exp/ubm")
    run(folder, f"{online}train_ivector_extractor.sh", "--nj", "1", "--num-processes", "2", "--num-threads", "1",
        "--num-iters", "1", "--ivector-dim", str(DIM), train, "exp/ubm", "exp/extractor")
    run(folder, f"{online}extract_ivectors_online.sh", "--nj", str(JOBS), "--ivector-period", str(PERIOD),
        "kaldi/data/test", "exp/extractor", "exp/ivectors")
    (folder / "exp" / "tdnn" / "final.ie.id").write_text((folder / "exp" / "ivectors" / "final.ie.id").read_text())
    return folder


def lengths(work: Path, part: str = "test") -> dict[str, int]:
    lines = (work / "kaldi" / "data" / part / "utt2num_frames").read_text().splitlines()
    return {name: int(count) for name, count in (line.split() for line in lines)}


def read(rspecifier: str) -> dict[str, np.ndarray]:
    return read_table(rspecifier, FLOAT_MATRIX)


@pytest.mark.slow
def test_online_ivectors(work: Path) -> None:
    found = read(f"scp:{work}/exp/ivectors/ivector_online.scp")
    assert {name: len(rows) for name, rows in found.items()} == \
        {name: -(-count // PERIOD) for name, count in lengths(work).items()}
    assert all(rows.shape[1] == DIM and np.isfinite(rows).all() for rows in found.values())
    assert np.ptp(np.concatenate([*found.values()]), axis=0).min() > 0


@pytest.mark.slow
def test_ivectors_of_weighted_frames(work: Path) -> None:
    """steps/online/nnet2/extract_ivectors.sh, with the frames of alignments to silence left out."""
    run(work, "steps/online/nnet2/extract_ivectors.sh", "--nj", "1", "kaldi/data/train", "lang", "exp/extractor",
        "kaldi/ali_train", "exp/ivectors_train")
    weights = read_table(f"ark:gunzip -c {work}/exp/ivectors_train/weights.gz |", FLOAT_VECTOR)
    assert {name: len(one) for name, one in weights.items()} == lengths(work, "train")
    assert {0.0, 1.0} == set(np.concatenate([*weights.values()]).tolist())
    found = read(f"scp:{work}/exp/ivectors_train/ivector_online.scp")
    assert set(found) == set(weights) and all(rows.shape[1] == DIM for rows in found.values())


@pytest.mark.slow
def test_alignments_and_lattices(work: Path) -> None:
    shared = ("--nj", JOBS, "--use-gpu", "false", "--online-ivector-dir", "exp/ivectors")
    done = run(work, "steps/nnet3/align.sh", *map(str, shared), "kaldi/data/test", "lang", "exp/tdnn", "exp/ali")
    assert "done aligning data." in done.stdout
    with SequentialReader(f"ark:gunzip -c {work}/exp/ali/ali.*.gz |", INT_VECTOR) as alignments:
        assert {name: len(one) for name, one in alignments} == lengths(work)
    narrow = ("--nj", JOBS, "--beam", 6, "--lattice-beam", 2, "--max-active", 200, "--skip-scoring", "true",
              "--online-ivector-dir", "exp/ivectors", "exp/tdnn/graph", "kaldi/data/test")
    for script, options in (("decode.sh", ("--use-gpu", "false", "--skip-diagnostics", "true")),
                            ("decode_looped.sh", ())):
        folder = work / "exp" / "tdnn" / script.removesuffix(".sh")
        run(work, f"steps/nnet3/{script}", *options, *map(str, narrow), folder)
        log = (folder / "log" / "decode.1.log").read_text()
        assert re.search(rf"Done {UTTERANCES['test']} utterances, failed for 0", log)
        assert gzip.decompress((folder / "lat.1.gz").read_bytes())
    assert "Overall, lattice depth (10,50,90-percentile)=" in (
        work / "exp/tdnn/decode_looped/log/analyze_lattice_depth_stats.log").read_text()


@pytest.mark.slow
def test_outputs_of_nodes(work: Path) -> None:
    run(work, "steps/nnet3/make_bottleneck_features.sh", "--nj", str(JOBS), "--cmd", "run.pl", "--ivector-dir",
        "exp/ivectors", "bottleneck", "kaldi/data/test", work / "data" / "bottleneck", "exp/tdnn")
    found = read(f"scp:{work}/data/bottleneck/feats.scp")
    assert {name: rows.shape for name, rows in found.items()} == {name: (n, 16) for name, n in lengths(work).items()}
    assert min(rows.min() for rows in found.values()) >= 0 and (work / "data/bottleneck/cmvn.scp").stat().st_size
    run(work, "steps/nnet3/compute_output.sh", "--nj", str(JOBS), "--apply-exp", "true", "--compress", "false",
        "--online-ivector-dir", "exp/ivectors", "kaldi/data/test", "exp/tdnn", work / "exp" / "tdnn" / "output")
    for rows in read(f"scp:{work}/exp/tdnn/output/output.scp").values():
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=POSTERIORS)


@pytest.mark.slow
def test_priors(work: Path) -> None:
    """steps/nnet3/get_egs.sh and adjust_priors.sh."""
    run(work, "steps/online/nnet2/extract_ivectors_online.sh", "--nj", "2", "kaldi/data/train", "exp/extractor",
        "exp/ivectors_egs")
    run(work, "steps/nnet3/get_egs.sh", "--nj", "2", "--cmd", "run.pl", "--num-utts-subset", "4", "--left-context", "0",
        "--right-context", "0", "--samples-per-iter", "5000", "--cmvn-opts", NO_NORMALIZATION, "--online-ivector-dir",
        "exp/ivectors_egs", "kaldi/data/train", "kaldi/ali_train", "exp/egs")
    run(work, "steps/nnet3/adjust_priors.sh", "exp/tdnn", "exp/egs")
    priors = nnet3py.read_model(str(work / "exp/tdnn/final_adj.mdl")).priors
    assert priors.sum() == pytest.approx(1.0, abs=POSTERIORS) and np.ptp(priors) > 0


@pytest.mark.slow
def test_folder_for_online_decoding(work: Path) -> None:
    """The configuration files are those that Kaldi's machine got."""
    golden, normalized = shared_golden() / "trees", work / "exp" / "normalized"
    shutil.copytree(work / "exp" / "tdnn", normalized, ignore=shutil.ignore_patterns("graph", "decode*"))
    shutil.copy(work / "exp" / "ubm" / "global_cmvn.stats", normalized)
    (normalized / "online_cmvn").touch()
    for folder, words in (("online-nnet3", ("exp/extractor", "exp/tdnn")), ("online-nnet3-plain", ("exp/normalized",))):
        run(work, "steps/online/nnet3/prepare_online_decoding.sh", "lang", *words, f"exp/{folder}")
        expected = sorted((golden / folder / "conf").iterdir())
        made = work / "exp" / folder / "conf"
        assert [path.name for path in expected] == sorted(path.name for path in made.iterdir())
        for path in expected:
            text = (made / path.name).read_text().replace(str(work / "exp" / folder), "DIR")
            assert text == path.read_text(), path


@pytest.mark.slow
def test_drawing_of_a_network(work: Path) -> None:
    """The last line of nnet3_to_dot.sh needs GraphViz, which need not be here."""
    done = run(work, "bash", "-c", "steps/nnet3/nnet3_to_dot.sh exp/tdnn/final.mdl tdnn.dot tdnn.pdf || true")
    assert "Generated the dot file tdnn.dot" in done.stdout
    text = (work / "tdnn.dot").read_text()
    assert text.startswith("digraph nnet3graph {")
    for line in (f'ivector [ label="ivector\\ndim={DIM}"]', 'bottleneck [ label="bottleneck", shape=box ]',
                 'affine2 -> softmax'):
        assert line in text, line


@pytest.mark.slow
def test_reports_of_a_training(work: Path) -> None:
    """generate_plots.py and nnet3_dir_info.pl read what train-dnn logs; figures need matplotlib, tables do not."""
    write_configs(work / "exp" / "trained", TDNN, (2, 2), classes=10)
    write_egs(work / "exp" / "trained_egs", classes=10)
    write_alignments(work / "exp" / "trained_ali")
    run(work, "train-dnn", "--dir", "exp/trained", "--egs.dir", "exp/trained_egs", "--ali-dir", "exp/trained_ali",
        "--feat-dir", "kaldi/data/train", "--feat.cmvn-opts", NO_NORMALIZATION, "--use-gpu", "no",
        "--trainer.num-epochs", "0.25", "--trainer.optimization.num-jobs-initial", "1",
        "--trainer.optimization.num-jobs-final", "1", "--trainer.optimization.minibatch-size", "4")
    run(work, "steps/nnet3/report/generate_plots.py", "exp/trained", "exp/report")
    header, *lines = (work / "exp/report/accuracy.log").read_text().splitlines()
    assert header.split() == ["%Iter", "duration", "train_objective", "valid_objective", "difference"]
    assert len(lines) > 1
    for name in ("loglikelihood.log", "parameter.diff", "nonlinstats_sigmoid1.log"):
        assert (work / "exp" / "report" / name).stat().st_size, name
    assert re.match(r"exp/trained: num-iters=\d+ nj=1..1 .* loglike:train/valid\[", run(
        work, "steps/info/nnet3_dir_info.pl", "exp/trained").stdout)


@pytest.mark.slow
def test_where_the_time_went(work: Path) -> None:
    """summarize_compute_debug_timing.py reads what --computation.debug logs."""
    compute = ("nnet3-compute --computation.debug=true --online-ivectors=scp:exp/ivectors/ivector_online.scp "
               f"--online-ivector-period={PERIOD} exp/tdnn/final.mdl scp:kaldi/data/test/feats.scp ark:/dev/null")
    done = run(work, "bash", "-c", f"{compute} 2>&1 | steps/nnet3/report/summarize_compute_debug_timing.py")
    shares = dict(re.findall(r"^(.+) : time \S+ : fraction (\S+)$", done.stdout, re.MULTILINE))
    assert "affine2.Propagate" in shares
    assert any(re.fullmatch(r"fuse-affine \{ affine1\.Propagate.*relu\.Propagate.* \}", name) for name in shares)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "expected"), [
    (("--silence-weight", "0.001"), "eight five six two one"), (("--online", "false", "--per-utt", "true"), "")])
def test_online_decoding(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    """steps/online/nnet3/decode.sh, with the small recognizer of tests/data/recognition."""
    copy_scripts(tmp_path)
    (tmp_path / "path.sh").write_text(f"export LC_ALL=C\nexport PATH={tmp_path}/utils:{ROOT}/bin:/usr/bin:/bin\n")
    data, online, graph = tmp_path / "data", tmp_path / "online", tmp_path / "graph"
    shutil.copytree(PACKAGE / "graph", graph)
    (graph / "phones").mkdir()
    (graph / "phones" / "silence.csl").write_text("1\n")
    for folder in (data, online / "conf"):
        folder.mkdir(parents=True)
    conf = write_inputs(data)
    (data / "utt2spk").write_text("".join(f"{key} spk1\n" for key in KEYS))
    shutil.copy(data / "wav.scp", data / "feats.scp")
    shutil.copy(PACKAGE / "am" / "final.mdl", online)
    (online / "frame_subsampling_factor").write_text("3\n")
    (online / "conf" / "online.conf").write_text("\n".join(
        option.replace("=ivector.conf", f"={data}/ivector.conf") for option in conf
        if option.startswith(("--mfcc", "--ivector", "--endpoint"))) + "\n")
    run(tmp_path, "steps/online/nnet3/decode.sh", "--nj", "1", "--acwt", "1.0", "--post-decode-acwt", "10.0",
        "--skip-scoring", "true", *options, graph, data, online / "decode")
    log = (online / "decode" / "log" / "decode.1.log").read_text()
    assert "Decoded 3 utterances, 0 with errors." in log and f"utt3 {expected}" in log
    assert gzip.decompress((online / "decode" / "lat.1.gz").read_bytes())
