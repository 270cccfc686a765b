"""Files of options, and what their texts mean."""
from __future__ import annotations

from pathlib import Path

import pytest

from nnet3py import option_file
from nnet3py.cli.speech_feats import compute_fbank_feats, compute_mfcc_feats
from nnet3py.errors import UsageError
from nnet3py.features.speech import FRAME_OPTIONS, KIND_OPTIONS, MEL_OPTIONS, speech_options
from nnet3py.option_file import OptionLine, read_option_lines


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "mfcc.conf"
    path.write_text("# a comment\n\n  --use-energy=false   # why not\n--num_ceps = 40\n--flag\n")
    lines = read_option_lines(str(path))
    assert lines == [OptionLine(3, "--use-energy=false"), OptionLine(4, "--num_ceps = 40"), OptionLine(5, "--flag")]
    assert [option_file.split(line.text) for line in lines] == [
        ("use-energy", "false"), ("num-ceps ", "40"), ("flag", None)]


def test_other_lines_and_missing_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "vars"
    path.write_text("beam=12\n")
    with pytest.raises(UsageError, match="line 1 does not look like"):
        read_option_lines(str(path))
    with pytest.raises(UsageError, match="Cannot open config file"):
        read_option_lines(str(tmp_path / "none"))


@pytest.mark.parametrize(("text", "value"), [("T", True), ("0", False), ("yes", None), ("", None)])
def test_booleans(text: str, value: bool | None) -> None:
    assert option_file.boolean(text) is value


@pytest.mark.parametrize(("text", "whole", "number"), [
    ("-12", -12, -12.0), ("1e3", None, 1000.0), ("1_0", None, None), ("nan", None, None),
    ("9999999999", None, 1e10 - 1)])
def test_numbers(text: str, whole: int | None, number: float | None) -> None:
    assert option_file.integer(text) == whole
    assert option_file.real(text) == number


@pytest.mark.parametrize(("kind", "command"), [("mfcc", compute_mfcc_feats), ("fbank", compute_fbank_feats)])
def test_defaults_of_features_are_those_of_the_commands(kind: str, command: object) -> None:
    declared = {option.name: option.default for option in command.declared}     # type: ignore[attr-defined]
    for name, (_, default) in {**FRAME_OPTIONS, **MEL_OPTIONS, **KIND_OPTIONS[kind]}.items():
        assert declared[name] == default, name
    assert speech_options(kind, {"num-mel-bins": 40}).mel["num_bins"] == 40
