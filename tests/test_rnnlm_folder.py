"""Folders of language models: their files, what is missing; options."""
from __future__ import annotations

from pathlib import Path

import pytest
from rnnlm_cases import rnnlm_folder

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.rnnlm.folder import RnnlmOptions, find_rnnlm_files


def test_files_of_a_folder(tmp_path: Path) -> None:
    folder = rnnlm_folder(tmp_path / "rnnlm")
    files = find_rnnlm_files(folder)
    assert files == (str(folder / "final.raw"), str(folder / "feat_embedding.final.mat"),
                     str(folder / "word_feats.txt"), str(folder / "special_symbol_opts.txt"),
                     str(folder / "words.txt"), "")
    (folder / "special_symbol_opts.conf").write_text("--bos-symbol=1\n")
    (folder / "config").mkdir()
    (folder / "config" / "oov.txt").write_text("oh\n")
    (folder / "word_embedding.final.mat").write_text("")
    files = find_rnnlm_files(str(folder))
    assert files.options.endswith(".conf") and files.unknown.endswith("config/oov.txt")
    assert files.embedding.endswith("word_embedding.final.mat") and files.features is None


@pytest.mark.parametrize("place", ["rnnlm/config/words.txt", "graph/words.txt", "words.txt"])
def test_words_may_be_nearby(tmp_path: Path, place: str) -> None:
    folder = rnnlm_folder(tmp_path / "rnnlm")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (folder / "words.txt").rename(tmp_path / place)
    assert find_rnnlm_files(folder).words == str(tmp_path / place)
    (tmp_path / place).unlink()
    assert find_rnnlm_files(folder).words == ""


def test_all_that_is_missing_is_said(tmp_path: Path) -> None:
    folder = rnnlm_folder(tmp_path / "rnnlm")
    for name in ("word_feats.txt", "special_symbol_opts.txt"):
        (folder / name).unlink()
    with pytest.raises(Nnet3Error, match="no word_feats.txt, no special_symbol_opts.conf or special_symbol_opts.txt"):
        find_rnnlm_files(folder)
    (folder / "feat_embedding.final.mat").unlink()
    with pytest.raises(Nnet3Error, match="no feat_embedding.final.mat or word_embedding.final.mat, no word_feats.txt"):
        find_rnnlm_files(folder)
    with pytest.raises(Nnet3Error, match="there is no folder .*nowhere"):
        find_rnnlm_files(tmp_path / "nowhere")


def test_ends_of_sentences_are_checked() -> None:
    RnnlmOptions(1, 2).check(3)
    for options, message in ((RnnlmOptions(), "--bos-symbol is not given"), (RnnlmOptions(1), "--eos-symbol is not"),
                             (RnnlmOptions(1, 3), "--eos-symbol=3: .* from 1 to 2"),
                             (RnnlmOptions(-7, 1), "--bos-symbol=-7")):
        with pytest.raises(UsageError, match=message):
            options.check(3)
