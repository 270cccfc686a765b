"""Folders of examples: info/, archives, whether they fit a network; one folder made of several."""
from __future__ import annotations

import logging
from pathlib import Path

import pytest
from driver_chain_cases import NUM_EGS, write_chain_egs

from nnet3py.drivers.egs_folder import EgsFolder, Source, combine_egs
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.tables import write_table

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
    assert folder.diagnostic("valid_diagnostic").name == "valid_diagnostic.cegs"
    folder.verify(**FITTING)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("num_archives", None, "expected a file with the num_archives"),
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
    assert "Only the examples have the id of their ivector extractor" in caplog.text


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
    assert folder.diagnostic("valid_diagnostic").exists() and (folder.path / "info" / "num_archives").exists()


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


TRAINED = 15          # examples that write_chain_egs puts into archives


def with_lists(folder: Path, num_archives: int) -> Path:
    """A folder of examples with lists beside its archives."""
    write_chain_egs(folder, num_archives)
    for path in [*folder.glob("cegs.*.ark"), *folder.glob("*.cegs")]:
        examples = list(read_chain_egs(f"ark:{path}"))
        name = path.with_suffix(".scp")
        write_table(f"ark,scp:{path},{name}", CHAIN_EXAMPLE, examples)
    return folder


def test_languages_weights_and_copies(tmp_path: Path) -> None:
    first, second = with_lists(tmp_path / "a", 2), with_lists(tmp_path / "b", 1)
    made = combine_egs([Source(first, "en", 0.5), Source(second, "de", copies=2)], tmp_path / "egs", seed=3)
    assert made.kind == "cegs" and made.is_multitask and made.num_archives == 4
    keys = []
    for number in range(1, made.num_archives + 1):
        options = made.multitask_options("egs", number)
        assert options == [f"--weights=ark:{tmp_path}/egs/cegs.weight.{number}.ark"]
        lines = (tmp_path / "egs" / f"cegs.weight.{number}.ark").read_text().splitlines()
        weights = dict(line.split() for line in lines)
        for key, eg in read_chain_egs(made.training_rspecifier(number)):
            keys.append(key)
            assert eg.outputs and weights[key] == ("0.5" if key.endswith("?lang=en") else "1")
    assert len(keys) == 3 * TRAINED and sum(key.endswith("?lang=de") for key in keys) == 2 * TRAINED
    held = [key for key, _ in read_chain_egs(made.diagnostic_rspecifier("valid_diagnostic"))]
    assert len(held) == 2 * (NUM_EGS - TRAINED) and held[0].endswith("?lang=en") and held[-1].endswith("?lang=de")
    made.check_archives()
    assert made.num_frames == 3 * 1000 and made.egs_per_archive == 3 * TRAINED // 4


def test_plain_lists(tmp_path: Path) -> None:
    first, second = with_lists(tmp_path / "a", 1), with_lists(tmp_path / "b", 1)
    made = combine_egs([Source(first), Source(second)], tmp_path / "egs")
    assert made.multitask_options("egs", 1) == [] and made.multitask_options("combine") == []


def test_what_cannot_be_combined(tmp_path: Path) -> None:
    first, second = with_lists(tmp_path / "a", 1), write_chain_egs(tmp_path / "b")
    with pytest.raises(FormatError, match="beside the archive: No such file"):
        combine_egs([Source(first), Source(second)], tmp_path / "egs")
    (second / "info" / "left_context").write_text("9\n")
    with pytest.raises(Nnet3Error, match=r"a have the left_context 6, those in .*b 9"):
        combine_egs([Source(first), Source(second)], tmp_path / "egs")
    with pytest.raises(UsageError, match="has the weight 0 and 1 copies"):
        combine_egs([Source(first, weight=0.0)], tmp_path / "egs")
