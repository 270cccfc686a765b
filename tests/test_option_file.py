"""Files of options, and what their texts mean."""
from __future__ import annotations

from pathlib import Path

import pytest

from nnet3py import option_file
from nnet3py.errors import UsageError
from nnet3py.feat.speech import SpeechFeatures, speech_options
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


@pytest.mark.parametrize(("text", "numbers"), [
    ("", []), ("13:14:15", [13, 14, 15]), ("1:", None), ("-1", None), ("1,2", None), ("1234567890", None)])
def test_lists_of_numbers(text: str, numbers: list[int] | None) -> None:
    assert option_file.integers(text) == numbers


def test_what_is_not_given_of_features_has_its_default() -> None:
    options = speech_options("fbank", {"num-mel-bins": 40})
    assert options.mel == {"num_bins": 40} and not options.frame and not options.allow_downsample
    assert SpeechFeatures(options).dim == 40 and SpeechFeatures(options).frame_options.dither == 1.0
