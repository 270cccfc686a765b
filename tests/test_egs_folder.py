"""nnet3py/drivers/egs/egs_folder.py: folders of examples read, checked against a network, and removed."""
from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nnet3py.drivers.egs.egs_folder import EgsFolder
from nnet3py.errors import FormatError, Nnet3Error

INFO = {"feat_dim": "40", "ivector_dim": "0", "num_archives": "2", "num_frames": "1000", "frames_per_eg": "8",
        "egs_per_archive": "62", "left_context": "12", "right_context": "10"}
FITTING = {"feat_dim": 40, "ivector_dim": 0, "ivector_id": None, "left_context": 12, "right_context": 10}


def make(path: Path, kind: str = "egs", **info: str | None) -> Path:
    (path / "info").mkdir(parents=True)
    for name, value in {**INFO, **info}.items():
        if value is not None:
            (path / "info" / name).write_text(value + "\n")
    for name in (f"{kind}.1.ark", f"{kind}.2.ark", f"combine.{kind}", f"train_diagnostic.{kind}",
                 f"valid_diagnostic.{kind}"):
        (path / name).write_bytes(b"an example")
    return path


def test_what_a_folder_says_is_read(tmp_path: Path) -> None:
    folder = EgsFolder(make(tmp_path / "egs", frames_per_eg="150,110"))
    assert (folder.kind, folder.num_archives, folder.num_frames, folder.feat_dim) == ("egs", 2, 1000, 40)
    assert folder.frames_per_eg == "150,110"
    assert (folder.left_context, folder.right_context) == (12, 10)
    assert (folder.left_context_initial, folder.right_context_final, folder.frame_subsampling_factor) == (-1, -1, 1)
    assert folder.archive(2) == tmp_path / "egs" / "egs.2.ark"
    assert folder.training_rspecifier(1) == f"ark:{tmp_path}/egs/egs.1.ark"
    assert folder.diagnostic_rspecifier("combine") == f"ark:{tmp_path}/egs/combine.egs"
    assert folder.ivector_id is None


def test_chain_examples_have_names_of_their_own(tmp_path: Path) -> None:
    folder = EgsFolder(make(tmp_path / "egs", kind="cegs", frame_subsampling_factor="3"))
    assert (folder.kind, folder.frame_subsampling_factor) == ("cegs", 3)
    assert folder.valid_diagnostic.name == "valid_diagnostic.cegs"
    folder.verify(**FITTING)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("num_archives", None, "must say its num_archives"),
    ("num_archives", "0", "1 or more, found '0'"),
    ("left_context", "many", "found 'many'"),
    ("frames_per_eg", "8,", "found '8,'"),
])
def test_a_damaged_info_is_a_clear_error(tmp_path: Path, name: str, value: str | None, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        EgsFolder(make(tmp_path / "egs", **{name: value}))


def test_no_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no info/"):
        EgsFolder(tmp_path / "egs")


@pytest.mark.parametrize(("change", "message"), [
    ({"feat_dim": 13}, "feature dimension 40, expected 13"),
    ({"ivector_dim": 100}, "ivector dimension 0, expected 100"),
    ({"left_context": 13}, "expected at least"),
    ({"right_context": 11}, "expected at least"),
    ({"left_context_initial": 0}, "ends of utterances"),
    ({"chunk_width": "20"}, "frames per example 8, expected 20"),
])
def test_examples_for_another_network_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
        EgsFolder(make(tmp_path / "egs")).verify(**{**FITTING, **change})


def test_more_context_than_needed_and_an_unknown_dimension_are_accepted(tmp_path: Path) -> None:
    folder = EgsFolder(make(tmp_path / "egs"))
    folder.verify(**{**FITTING, "left_context": 3, "right_context": 0, "feat_dim": 0})
    folder.verify(**FITTING, chunk_width="8")


def test_the_extractor_must_be_the_same_if_both_are_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = EgsFolder(make(tmp_path / "egs", **{"final.ie.id": "abc"}))
    with pytest.raises(Nnet3Error, match="ivector extractor abc, expected def"):
        folder.verify(**{**FITTING, "ivector_id": "def"})
    with caplog.at_level(logging.WARNING):
        folder.verify(**FITTING)
    assert "known of the examples only; it was not checked" in caplog.text


def test_a_missing_archive_is_found(tmp_path: Path) -> None:
    folder = EgsFolder(make(tmp_path / "egs"))
    folder.archive(2).write_bytes(b"")
    with pytest.raises(FormatError, match=r"missing or empty.*egs\.2\.ark"):
        folder.verify(**FITTING)


def test_removing_follows_links_and_keeps_the_diagnostics(tmp_path: Path) -> None:
    folder = EgsFolder(make(tmp_path / "egs"))
    elsewhere = tmp_path / "storage.ark"
    folder.archive(1).rename(elsewhere)
    folder.archive(1).symlink_to(elsewhere)
    (folder.path / ".nodelete").touch()
    folder.remove()
    assert elsewhere.exists()
    (folder.path / ".nodelete").unlink()
    folder.remove()
    assert not elsewhere.exists() and not list(folder.path.glob("egs.*.ark"))
    assert folder.valid_diagnostic.exists() and (folder.path / "info" / "num_archives").exists()


def test_lists_into_other_folders_are_read_as_such(tmp_path: Path) -> None:
    path = make(tmp_path / "egs")
    (path / "valid_diagnostic.egs").unlink()
    for name in ("valid_diagnostic.scp", "egs.1.scp", "egs.2.scp", "egs.output.1.ark", "combine.weight.ark"):
        (path / name).write_text("u1 other.ark:3\n")
    folder = EgsFolder(path)
    assert folder.is_multitask
    assert folder.training_rspecifier(2) == f"scp:{path}/egs.2.scp"
    assert folder.multitask_options("egs", 1) == [f"--outputs=ark:{path}/egs.output.1.ark"]
    assert folder.multitask_options("combine") == [f"--weights=ark:{path}/combine.weight.ark"]
    folder.verify(**FITTING)
