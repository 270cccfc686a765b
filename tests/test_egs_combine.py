"""nnet3py/drivers/egs/egs_folder.py: lists of several folders' examples."""
from __future__ import annotations

from pathlib import Path

import pytest
from driver_chain_cases import NUM_EGS, write_chain_egs

from nnet3py.drivers.egs.egs_folder import Source, combine_egs
from nnet3py.egs.chain_example import CHAIN_EXAMPLE, read_chain_egs
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.tables import TableWriter

TRAINED = 15          # examples that write_chain_egs puts into archives


def with_lists(folder: Path, num_archives: int) -> Path:
    """A folder of examples with lists beside its archives."""
    write_chain_egs(folder, num_archives)
    for path in [*folder.glob("cegs.*.ark"), *folder.glob("*.cegs")]:
        examples = list(read_chain_egs(f"ark:{path}"))
        name = path.with_suffix(".scp")
        with TableWriter(f"ark,scp:{path},{name}", CHAIN_EXAMPLE) as writer:
            for key, eg in examples:
                writer.write(key, eg)
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
