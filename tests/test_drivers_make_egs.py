"""Whole folders of examples by the real programs, and again after a kill."""
from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from egs_source import DIM, NAMES, NUM_UTTERANCES, length, make_source
from io_samples import read_table
from job_recorder import Recorder

from nnet3py.cli.main import load
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Job, JobsFailed
from nnet3py.drivers.executors import LocalExecutor, make_executor
from nnet3py.drivers.make_egs import make_egs, make_target_egs
from nnet3py.drivers.options import EgsOptions
from nnet3py.egs.example import EXAMPLE, NnetExample
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.io.object_files import read_object

FRAMES_PER_EG = 8
# Few archives, but more than may be written at once: 3 + 4 files are too many, so 2 × 2 are made of 2.
OPTIONS = {"left_context": 2, "right_context": 1, "nj": 2, "samples_per_iter": 60, "max_open_files": 6,
           "cmvn_opts": "--norm-means=false", "num_train_frames_combine": 80, "num_frames_diagnostic": 40}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory, alignments, and targets of both kinds."""
    return make_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def made(source: Path) -> EgsFolder:
    """Examples made undisturbed."""
    with make_executor("run.pl") as executor:
        return make_egs(source / "data", source / "ali", source / "egs", EgsOptions(**OPTIONS), executor)


def examples(path: Path) -> dict[str, NnetExample]:
    return read_table(f"ark:{path}", EXAMPLE)


def test_the_folder_is_complete(source: Path, made: EgsFolder) -> None:
    made.verify(DIM, 0, None, 2, 1)
    num_frames = sum(map(length, range(NUM_UTTERANCES)))
    assert (made.num_archives, made.num_frames, made.frames_per_eg) == (4, num_frames, "8")
    assert made.egs_per_archive == num_frames // (FRAMES_PER_EG * 4)
    assert (made.path / "cmvn_opts").read_text() == "--norm-means=false\n"
    assert {file.name for file in made.path.iterdir() if file.name[0] != "."} == {
        *(f"egs.{number}.ark" for number in (1, 2, 3, 4)), "combine.egs", "train_diagnostic.egs",
        "valid_diagnostic.egs", "valid_uttlist", "train_subset_uttlist", "cmvn_opts", "info", "log", "utt2num_frames"}


def test_every_frame_of_training_is_in_the_archives_with_its_label(source: Path, made: EgsFolder) -> None:
    valid = (made.path / "valid_uttlist").read_text().split()
    archives = [examples(made.archive(number)) for number in (1, 2, 3, 4)]
    everything = {key: eg for archive in archives for key, eg in archive.items()}
    assert len(everything) == sum(map(len, archives)) and min(map(len, archives)) > 10
    assert {key[:5] for key in everything} == set(NAMES) - set(valid)
    weights: Counter[int] = Counter()
    for eg in everything.values():
        assert [io.name for io in eg.io] == ["input", "output"]
        assert eg.io[0].features.shape == (2 + FRAMES_PER_EG + 1, DIM)
        labels = eg.io[1].features.to_dense()
        assert labels.shape == (FRAMES_PER_EG, 56)
        weights.update({pdf: float(labels[:, pdf].sum()) for pdf in range(56)})
    model = read_object(source / "ali" / "final.mdl", TransitionModel.read)
    expected: Counter[int] = Counter()
    for number in (1, 2):
        with gzip.open(source / "ali" / f"ali.{number}.gz", "rt") as stream:
            for name, *ids in map(str.split, stream):
                if name not in valid:
                    expected.update(model.transition_id_to_pdf[np.array(ids, dtype=np.int32)].tolist())
    # Chunks need not cover the last frames, so labels may lack; none may be of another pdf or count twice.
    assert all(weights[pdf] <= expected[pdf] for pdf in range(56))
    assert sum(weights.values()) > 0.9 * sum(expected.values())


def test_the_diagnostics_are_of_the_right_utterances(made: EgsFolder) -> None:
    valid, diagnostic = ((made.path / f"{name}_uttlist").read_text().split() for name in ("valid", "train_subset"))
    assert len(valid) == len(diagnostic) == NUM_UTTERANCES // 10 and not set(valid) & set(diagnostic)
    held, train, combine = (examples(made.diagnostic(name)) for name in ("valid_diagnostic", "train_diagnostic",
                                                                         "combine"))
    assert {key[:5] for key in held} <= set(valid) and {key[:5] for key in [*train, *combine]} <= set(diagnostic)
    assert len(held) == 5 and len(combine) == 10


class Failing(LocalExecutor):
    """Fails a job of each log in ``fails`` the first time, before or after it did its work."""

    fails: dict[str, str]

    def execute(self, job: Job, threads: int, background: bool) -> str | None:
        when = self.fails.pop(job.log.stem, None)
        if when == "before":
            return "exit status 1"
        command = job.command.rpartition(" && touch ")[0] if when else job.command
        return super().execute(Job(command, job.log), threads, background) or (when and "exit status 1")


def test_what_was_interrupted_ends_the_same(source: Path, made: EgsFolder, tmp_path: Path) -> None:
    folder = tmp_path / "egs"
    with Failing() as executor:
        executor.fails = {"create_train_subset": "before", "get_egs.2": "after", "shuffle.1": "before"}
        for failures_left in (2, 1, 0):
            with pytest.raises(JobsFailed):
                make_egs(source / "data", source / "ali", folder, EgsOptions(**OPTIONS), executor)
            assert len(executor.fails) == failures_left
            (folder / "egs_orig.2.1.ark").write_bytes(b"half an archi")
            (folder / ".egs.1.ark.77-1.tmp").write_bytes(b"half an archi")
            (folder / ".steps" / "get_egs.2").unlink(missing_ok=True)
        again = make_egs(source / "data", source / "ali", folder, EgsOptions(**OPTIONS), executor)
    for file in made.path.iterdir():
        if file.suffix in (".ark", ".egs") or file.name.endswith("uttlist"):
            assert (folder / file.name).read_bytes() == file.read_bytes(), file.name
    assert not list(folder.glob(".*.tmp")) and again.num_archives == made.num_archives


def test_complete_examples_are_left_as_they_are(source: Path, made: EgsFolder) -> None:
    times = {file: file.stat().st_mtime_ns for file in made.path.glob("*.ark")}
    recorder = Recorder()
    make_egs(source / "data", source / "ali", source / "egs", EgsOptions(**OPTIONS), recorder)
    assert not recorder.ran and times == {file: file.stat().st_mtime_ns for file in made.path.glob("*.ark")}


# -- commands ----------------------------------------------------------------------------------------------------------


def recorded(source: Path, folder: Path, **changed: object) -> Recorder:
    recorder = Recorder()
    make_target_egs(source / "cmvn", source / "labels.scp", folder, EgsOptions(**{**OPTIONS, **changed}), recorder,
                    "sparse", 3)
    return recorder


def test_the_commands_of_sparse_targets(source: Path, tmp_path: Path) -> None:
    egs = tmp_path / "egs"
    ran = recorded(source, egs, max_open_files=0, generate_egs_scp=True, left_context_initial=0).ran
    data = source / "cmvn"
    assert ran[0] == (
        "nnet3-get-egs --num-pdfs=3 --left-context=2 --right-context=1 --compress=true --num-frames=8 "
        f"--left-context-initial=0 --targets-length-tolerance=2 \"ark,s,cs:apply-cmvn --norm-means=false "
        f"--utt2spk=ark:{data}/utt2spk scp:{data}/cmvn.scp scp:{egs}/split/valid/feats.scp ark:- |\" "
        f'"ark,s,cs:ali-to-post scp:{egs}/split/valid/targets.scp ark:- |" ark:{egs}/valid_all.egs '
        f"&& touch {egs}/.steps/create_valid")
    training = next(command for command in ran if "copy-egs --random=true --srand=2" in command)
    assert f"ark:- {' '.join(f'ark:{egs}/egs_orig.2.{number}.ark' for number in (1, 2, 3, 4))[:20]}" in training
    assert (f'nnet3-shuffle-egs --srand=2 "ark:cat {egs}/egs_orig.1.2.ark {egs}/egs_orig.2.2.ark |" '
            f"ark,scp:{egs}/egs.2.ark,{egs}/egs.2.scp && touch {egs}/.steps/shuffle.2") in ran
    assert EgsFolder(egs).num_archives == 3 and (egs / "info" / "num_targets").read_text() == "3\n"


def test_the_commands_of_features_normalized_online_and_ivectors(source: Path, tmp_path: Path) -> None:
    ivectors = tmp_path / "iv"
    ivectors.mkdir()
    shutil.copyfile(source / "feats.scp", ivectors / "ivector_online.scp")
    (ivectors / "ivector_period").write_text("10\n")
    (ivectors / "final.ie.id").write_text("abc\n")
    egs = tmp_path / "egs"
    ran = recorded(source, egs, online_cmvn=True, cmvn_opts="", online_ivector_dir=str(ivectors)).ran
    assert ran[0].startswith(f"matrix-sum --binary=false scp:{source}/cmvn/cmvn.scp {egs}/global_cmvn.stats")
    assert (f'--online-ivectors=scp:{ivectors}/ivector_online.scp --online-ivector-period=10 '
            f'--targets-length-tolerance=2 "ark,s,cs:apply-cmvn-online --spk2utt=ark:{egs}/split/valid/spk2utt '
            f"{egs}/global_cmvn.stats scp:{egs}/split/valid/feats.scp ark:- |\"") in ran[1]
    folder = EgsFolder(egs)
    assert (folder.ivector_dim, folder.ivector_id) == (DIM, "abc") and (egs / "online_cmvn").exists()


def test_dense_targets_by_the_command(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--nj", "1", "--cmvn-opts=--norm-means=false", "--compress=false", "--left-context=2", "--right-context=1"]
    egs = tmp_path / "egs"
    assert load("make-egs").execute([*words, str(source / "data"), str(source / "targets.scp"), str(egs)]) == 0
    assert "only 24 different utterances" in capsys.readouterr().err
    folder = EgsFolder(egs)
    folder.verify(DIM, 0, None, 2, 1)
    key, eg = next(iter(examples(folder.archive(1)).items()))
    targets = read_table(f"scp:{source}/targets.scp", FLOAT_MATRIX)[key[:5]]
    first = int(key.split("-")[-1])
    assert np.array_equal(eg.io[1].features, targets[first:first + FRAMES_PER_EG])


# -- what cannot be done -----------------------------------------------------------------------------------------------


def test_data_and_labels_must_belong_together(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source / "ali", tmp_path / "ali")
    for number in (1, 2):
        with gzip.open(tmp_path / "ali" / f"ali.{number}.gz", "wt") as stream:
            stream.write(f"other{number} 1 1 1 1\n")
    with make_executor("run.pl") as executor, pytest.raises(FormatError, match="has an alignment.*belong to these"):
        make_egs(source / "data", tmp_path / "ali", tmp_path / "egs", EgsOptions(**OPTIONS), executor)
    with pytest.raises(FormatError, match=r"expected a list cmvn\.scp"):
        make_egs(source / "data", source / "ali", tmp_path / "egs2", EgsOptions(), Recorder())


def test_targets_that_do_not_fit(source: Path, tmp_path: Path) -> None:
    arguments = source / "data", source / "targets.scp", tmp_path / "egs", EgsOptions(**OPTIONS), Recorder()
    with pytest.raises(UsageError, match="have 2 columns, expected 5"):
        make_target_egs(*arguments, num_targets=5)
    with pytest.raises(UsageError, match="need --num-targets"):
        make_target_egs(*arguments, target_type="sparse")
    with pytest.raises(UsageError, match="expected dense or sparse"):
        make_target_egs(*arguments, target_type="soft")
