"""Kaldi's folders read and checked; what is held out, how lists are cut, what is done."""
from __future__ import annotations

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest
from job_recorder import Recorder
from paths import DATA

from nnet3py.drivers.data_folder import (
    AliFolder,
    ArchivePlan,
    DataFolder,
    Steps,
    choose_subsets,
    plan_archives,
    read_list,
    spk2utt,
    split,
    table_dim,
)
from nnet3py.drivers.executor import Job, JobsFailed
from nnet3py.drivers.options import EgsOptions, check_plain
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import write_table

UTTERANCES = ("a-1", "a-2", "b-1", "b-2")


def make(path: Path, **lists: str | None) -> Path:
    """A data directory of two speakers; ``lists`` replaces its lists, with dots for the underscores."""
    path.mkdir()
    write_table(f"ark,scp:{path}/feats.ark,{path}/feats.scp", FLOAT_MATRIX,
                ((utterance, np.ones((number, 3), dtype=np.float32)) for number, utterance in enumerate(UTTERANCES, 5)))
    texts: dict[str, str | None] = {
        "utt2spk": "".join(f"{utterance} {utterance[0]}\n" for utterance in UTTERANCES),
        "spk2utt": "a a-1 a-2\nb b-1 b-2\n", "text": "".join(f"{utterance} some words\n" for utterance in UTTERANCES),
        "cmvn.scp": "a x:1\nb x:2\n", "utt2num_frames": "a-1 5\na-2 6 \nb-1 7\nb-2 8\n"}
    texts |= {name.replace("__", "."): text for name, text in lists.items()}
    for name, text in texts.items():
        if text is None:
            (path / name).unlink(missing_ok=True)
        else:
            (path / name).write_text(text)
    return path


def test_what_a_data_directory_says(tmp_path: Path) -> None:
    data = DataFolder(make(tmp_path / "data"))
    data.check(["cmvn.scp", "text"])
    data.check_speaker_order()
    assert data.utterances == list(UTTERANCES) and data.feat_dim == 3
    assert data.utt2num_frames == {"a-1": 5, "a-2": 6, "b-1": 7, "b-2": 8}
    assert data.spk2utt == {"a": ["a-1", "a-2"], "b": ["b-1", "b-2"]}
    assert data.utt2uniq["a-2"] == "a-2" and data.lines("text")["b-1"] == "some words"


def test_lists_that_may_be_missing(tmp_path: Path) -> None:
    data = DataFolder(make(tmp_path / "data", utt2num_frames=None, text=None, cmvn__scp=None, spk2utt=None))
    data.check()
    assert data.utt2num_frames is None
    with pytest.raises(FormatError, match=r"expected a list cmvn\.scp"):
        data.check(["cmvn.scp"])


@pytest.mark.parametrize(("name", "text", "message"), [
    ("utt2spk", "a-1 a\nb-1 b\na-2 a\nb-2 b\n", "line 3: a-2 is out of order.*sort it"),
    ("utt2spk", "a-1 a\na-1 a\n", "a-1 occurs twice, the second time in line 2"),
    ("utt2spk", "a-1 a\na-2\nb-1 b\nb-2 b\n", "expected UTTERANCE SPEAKER, found a-2"),
    ("utt2spk", "a-1 a\n\nb-1 b\n", "line 2 does not begin with a name"),
    ("utt2spk", "", "expected utterances, found none"),
    ("utt2spk", "a-1 a\na-2 a\nb-1 b\n", "feats.scp has besides b-2"),
    ("text", "a-1 x\n", "lacks a-2, b-1, b-2"),
    ("cmvn.scp", "a x:1\n", r"not about the same speakers: cmvn\.scp lacks b"),
    ("spk2utt", "a a-1\nb a-2 b-1 b-2\n", "have different utterances of speaker a"),
])
def test_lists_that_do_not_belong_together(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        DataFolder(make(tmp_path / "data", **{name.replace(".", "__"): text})).check()


def test_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"it has no feats\.scp"):
        DataFolder(tmp_path)
    path = make(tmp_path / "data", utt2num_frames="a-1 many\n")
    with pytest.raises(FormatError, match="number of frames for a-1, found 'many'"):
        assert DataFolder(path).utt2num_frames
    with pytest.raises(Nnet3Error, match="cannot open"):
        read_list(tmp_path / "nothing")


def test_the_order_of_speakers(tmp_path: Path) -> None:
    data = DataFolder(make(tmp_path / "data", utt2spk="a-1 b\na-2 a\nb-1 a\nb-2 b\n", spk2utt=None))
    data.check()
    with pytest.raises(FormatError, match="not in the order of their speakers"):
        data.check_speaker_order()


def test_tables_without_a_matrix_have_no_dimension(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected matrices, found none"):
        table_dim("ark:/dev/null")
    assert spk2utt({"u2": "s", "u1": "s"}) == {"s": ["u1", "u2"]}


# -- alignments --------------------------------------------------------------------------------------------------------


def make_ali(path: Path, num_jobs: str = "2") -> Path:
    path.mkdir()
    (path / "num_jobs").write_text(num_jobs + "\n")
    (path / "tree").write_bytes((DATA / "chain" / "tree").read_bytes())
    (path / "final.mdl").write_bytes((DATA / "chain" / "0.trans_mdl").read_bytes())
    for number in (1, 2):
        with gzip.open(path / f"ali.{number}.gz", "wt") as stream:
            stream.write("u1 1 \n")
    return path


def test_a_folder_of_alignments(tmp_path: Path) -> None:
    ali = AliFolder(make_ali(tmp_path / "ali"))
    assert (ali.num_jobs, ali.num_pdfs, ali.phones, ali.transition_model.num_pdfs) == (2, 56, None, 56)
    assert ali.rspecifier(2) == f"ark:gunzip -c {tmp_path}/ali/ali.2.gz |"
    assert ali.all_rspecifier == f"ark:gunzip -c {tmp_path}/ali/ali.1.gz {tmp_path}/ali/ali.2.gz |"
    (ali.path / "phones.txt").touch()
    assert ali.phones == ali.path / "phones.txt"


@pytest.mark.parametrize(("num_jobs", "message"), [("3", r"there is no ali\.3\.gz"), ("x", "found 'x'"),
                                                   ("0", "found '0'")])
def test_a_folder_that_lacks_alignments(tmp_path: Path, num_jobs: str, message: str) -> None:
    path = make_ali(tmp_path / "ali", num_jobs)
    with pytest.raises(FormatError, match=message):
        AliFolder(path)
    (path / "final.mdl").unlink()
    with pytest.raises(FormatError, match=r"it has no final\.mdl"):
        AliFolder(path)


NAMES = [f"s{number // 10:02d}-u{number % 10}" for number in range(200)]
SPEAKERS = {name: name[:3] for name in NAMES}


def test_the_choice_is_seeded_and_sorted() -> None:
    first, again, other = (choose_subsets(NAMES, {}, 20, seed) for seed in (0, 0, 1))
    assert first == again and first.valid != other.valid
    assert len(first.valid) == len(first.train_diagnostic) == 20 and first.valid == sorted(first.valid)
    assert not set(first.valid) & set(first.training)
    assert sorted(first.valid + first.training) == NAMES and set(first.train_diagnostic) <= set(first.training)


def test_little_data_gives_small_subsets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        subsets = choose_subsets(NAMES, {}, 50, 0)
    assert len(subsets.valid) == len(subsets.train_diagnostic) == 20
    assert "only 200 different utterances: 20 of them are held out" in caplog.text
    tiny = choose_subsets(["a", "b", "c"], {}, 300, 0)
    assert (len(tiny.valid), len(tiny.train_diagnostic), len(tiny.training)) == (1, 1, 2)
    with pytest.raises(UsageError, match="2 different utterances"):
        choose_subsets(["a", "b"], {}, 300, 0)


def test_perturbed_copies_stay_together() -> None:
    copies = sorted(f"{speed}-{name}" for name in NAMES[:50] for speed in ("sp0.9", "sp1.0", "sp1.1"))
    uniq = {name: name[6:] for name in copies}
    subsets = choose_subsets(copies, uniq, 5, 0)
    held_out = {uniq[name] for name in subsets.valid}
    assert len(held_out) == 5 and len(subsets.valid) == 15
    assert not held_out & {uniq[name] for name in subsets.training}


@pytest.mark.parametrize(("num_parts", "by_speaker", "sizes"), [
    (4, False, [50] * 4), (3, True, [70, 70, 60]), (20, True, [10] * 20), (25, True, [10] * 20), (25, False, [8] * 25),
    (1, False, [200])])
def test_lists_are_cut_at_speakers(num_parts: int, by_speaker: bool, sizes: list[int]) -> None:
    parts = split(NAMES, SPEAKERS, num_parts, by_speaker)
    assert [len(part) for part in parts] == sizes
    assert [name for part in parts for name in part] == NAMES


def test_one_large_speaker() -> None:
    speakers = {name: "s" if number > 2 else name for number, name in enumerate(NAMES)}
    parts = split(NAMES, speakers, 3, True)
    assert all(parts) and sorted(name for part in parts for name in part) == NAMES


@pytest.mark.parametrize(("wanted", "limit", "plan"), [
    (1, None, ArchivePlan(1, 1, 1)), (10, 14, ArchivePlan(10, 10, 1)), (11, 14, ArchivePlan(12, 6, 2)),
    (100, 14, ArchivePlan(110, 10, 11))])
def test_archives_that_can_be_open_at_once(wanted: int, limit: int | None, plan: ArchivePlan) -> None:
    assert plan_archives(wanted, limit) == plan
    assert plan.num_archives >= wanted and plan.num_intermediate + 4 <= (limit or 512)
    finals = [number for one in plan.intermediates for number in plan.finals(one)]
    assert finals == list(range(1, plan.num_archives + 1))


def test_too_few_files() -> None:
    with pytest.raises(UsageError, match="only 5 files can be open"):
        plan_archives(3, 5)


# -- options -----------------------------------------------------------------------------------------------------------


def test_options_as_words() -> None:
    words = ["--nj", "3", "--compress=false", "--cmvn_opts", "--norm-means=false --norm-vars=false"]
    options = EgsOptions().with_words(words)
    assert (options.nj, options.compress, options.cmvn_opts) == (3, False, "--norm-means=false --norm-vars=false")
    assert EgsOptions(cmvn_opts="x").with_words(["--cmvn-opts="]).cmvn_opts is None
    options.check()


@pytest.mark.parametrize(("words", "message"), [
    (["--nj"], "--nj: expected a value"), (["nj", "3"], "nj: expected an option"),
    (["--jobs=3"], "--jobs is not an option"),
    (["--nj=x"], "--nj=x: expected a whole number"), (["--compress", "2"], "expected true or false")])
def test_words_that_are_no_options(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        EgsOptions().with_words(words)


def test_frames_of_examples_are_checked() -> None:
    with pytest.raises(UsageError, match="--frames-per-eg=0"):
        EgsOptions(frames_per_eg="0").check()


# -- steps -------------------------------------------------------------------------------------------------------------


def jobs(folder: Path) -> list[tuple[str, Job]]:
    return [(f"step.{number}", Job(f"command {number}", folder / "log" / f"step.{number}.log")) for number in (1, 2, 3)]


def test_what_is_complete_is_not_done_again(tmp_path: Path) -> None:
    executor = Recorder()
    executor.fails = {"step.2"}
    with pytest.raises(JobsFailed):
        Steps(tmp_path, {"a": 1}).run(1, "title", jobs(tmp_path), executor)
    executor.fails = set()
    Steps(tmp_path, {"a": 1}).run(1, "title", jobs(tmp_path), executor)
    assert [command.split(" && ")[0] for command in executor.ran] == ["command 1", "command 3", "command 2"]
    Steps(tmp_path, {"a": 1}).run(1, "title", jobs(tmp_path), executor)
    assert len(executor.ran) == 3


def test_other_settings_begin_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    for value in (1, 1, 2):
        with caplog.at_level(logging.INFO):
            Steps(tmp_path, {"a": value}).call(1, "step", lambda: calls.append(1))
    assert len(calls) == 2 and caplog.text.count("made again") == 1


def test_a_later_stage_leaves_steps_out(tmp_path: Path) -> None:
    executor = Recorder()
    steps = Steps(tmp_path, {}, stage=2)
    steps.run(1, "title", jobs(tmp_path), executor)
    assert not executor.ran
    steps.run(2, "title", jobs(tmp_path), executor)
    assert len(executor.ran) == 3


def test_paths_stand_in_commands() -> None:
    check_plain("the folder", "exp/tdnn-1.a/egs")
    with pytest.raises(UsageError, match="meaning for the shell"):
        check_plain("the folder", "my exp/egs")


def test_a_list_says_what_is_held_out() -> None:
    copies = [f"{speed}-{name}" for speed in ("sp0.9", "sp1.1") for name in NAMES[:9]]
    uniq = {name: name[6:] for name in copies}
    subsets = choose_subsets(copies, uniq, 5, 0, ["sp0.9-s00-u3", "elsewhere"])
    assert subsets.valid == ["sp0.9-s00-u3", "sp1.1-s00-u3"] and len(subsets.training) == 16
    for wrong in (["elsewhere"], copies):
        with pytest.raises(UsageError, match="some of them, but not all"):
            choose_subsets(copies, uniq, 5, 0, wrong)
