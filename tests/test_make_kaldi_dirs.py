"""egs/digits/local/make_kaldi_dirs.sh: the digits data as Kaldi's directories, with the phones of the golden data."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from io_samples import read_table
from paths import DATA

from nnet3py.drivers.data_folder import AliFolder, DataFolder
from nnet3py.formats.holders import INT_VECTOR
from nnet3py.hmm.alignment import phone_starts, read_symbol_table

SCRIPT = Path(__file__).resolve().parent.parent / "egs" / "digits" / "local" / "make_kaldi_dirs.sh"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exp")
    for _ in range(2):      # what is complete is left as it is
        said = subprocess.run([SCRIPT, "--dir", path, "--nj", "2"], check=True, capture_output=True, text=True).stdout
    assert said == ""
    return path


def test_data_directories(folder: Path) -> None:
    for part, utterances in (("train", 480), ("test", 120)):
        data = DataFolder(folder / "data" / part)
        data.check(["cmvn.scp", "text", "spk2utt"])
        data.check_speaker_order()
        assert len(data.utterances) == utterances and data.feat_dim == 40


def phones(ali: AliFolder, utterance: str) -> list[int]:
    ids = read_table(ali.all_rspecifier, INT_VECTOR)[utterance]
    starts, complete = phone_starts(ali.transition_model, ids)
    assert complete
    return ali.transition_model.transition_id_to_phone[ids[starts]].tolist()


def test_alignments_have_kaldis_phones(folder: Path) -> None:
    full, chain = AliFolder(folder / "ali_train"), AliFolder(folder / "chain_tree")
    assert (full.num_jobs, full.num_pdfs, chain.num_pdfs) == (2, 28, 56)
    assert chain.tree.read_bytes() == (DATA / "chain" / "tree").read_bytes()
    for line in (DATA / "chain" / "phones.seq").read_text().splitlines()[:400:100]:
        utterance, *expected = line.split()
        assert phones(full, utterance) == phones(chain, utterance) == [int(phone) for phone in expected]


def test_phones_are_numbered_from_1(folder: Path) -> None:
    names = read_symbol_table((folder / "lang" / "phones.txt").read_text())
    assert names[0] == "<eps>" and names[1] == "SIL" and len(names) == 29
    assert (folder / "lang" / "phones" / "silence.csl").read_text() == "1\n"
