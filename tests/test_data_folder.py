"""nnet3py/drivers/data_folder.py and ali_folder.py: Kaldi's folders read and checked."""
from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from nnet3py.drivers.data_folder import AliFolder, DataFolder, read_list, spk2utt, table_dim
from nnet3py.errors import FormatError, Nnet3Error
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
