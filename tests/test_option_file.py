"""Conf files: lines, values and their types, options refused by name, and the files that they name."""
from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nnet3py import option_file
from nnet3py.decoding.options import DecoderOptions
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.feat.speech import SpeechFeatures, speech_options
from nnet3py.option_fields import with_values
from nnet3py.option_file import OptionLine, find_file, read_conf, read_option_lines
from nnet3py.recognition import options as tables


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


def test_values_have_the_types_of_defaults(tmp_path: Path) -> None:
    path = tmp_path / "model.conf"
    path.write_text("--beam=10.0 --max_active=3000  # two in a line\n--phone-determinize=f\n"
                    "--endpoint.silence-phones=1:2\n")
    assert read_conf(str(path), tables.DECODING) == {
        "beam": 10.0, "max-active": 3000, "phone-determinize": False, "endpoint.silence-phones": "1:2"}


@pytest.mark.parametrize(("line", "message"), [
    ("--baem=10", "--baem is not an option .*line 2.*did you mean --beam"),
    ("--max-active=3e3", "--max-active=3e3: expected a whole number"),
    ("--beam=", "--beam=: expected a number"),
    ("--minimize=perhaps", "expected true or false"),
    ("beam=10", "line 2 does not look like"),
    ("--add-pitch=true", "--add-pitch is not an option"),
])
def test_what_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "model.conf"
    path.write_text(f"# of decoding\n{line}\n")
    with pytest.raises(UsageError, match=message):
        read_conf(str(path), tables.DECODING)


def test_files_are_relative_to_the_working_directory_or_the_folder(here: Path) -> None:
    model = here / "model"
    (model / "conf").mkdir(parents=True)
    inside = model / "conf" / "splice.conf"
    inside.write_text("")
    for name in ("conf/splice.conf", "exp/nnet3_online/conf/splice.conf", "/home/her/model/conf/splice.conf",
                 "../exp/conf/splice.conf"):
        assert Path(find_file(name, "model")).resolve() == inside
    (here / "conf").mkdir()
    (here / "conf" / "splice.conf").write_text("")
    assert find_file("conf/splice.conf", "model") == "conf/splice.conf"
    with pytest.raises(Nnet3Error, match="there is no file conf/mfcc.conf"):
        find_file("conf/mfcc.conf", "model")


def test_what_is_made_of_values() -> None:
    values = {"beam": 9.0, "max-active": 30, "endpoint.rule2.min-trailing-silence": 0.25,
              "endpoint.silence-phones": "1:2", "ivector-silence-weighting.silence-weight": 0.5,
              "ivector-silence-weighting.silence-phones": "3"}
    assert with_values(DecoderOptions(), values) == dataclasses.replace(DecoderOptions(), beam=9.0, max_active=30)
    endpoints = tables.endpoint_options(values)
    assert list(endpoints.silence_phones) == [1, 2]
    assert endpoints.rules["rule2"].min_trailing_silence == 0.25 and endpoints.rules["rule3"].min_trailing_silence == 1
    weighting = tables.weighting_options(values)
    assert weighting.is_active and weighting.silence_weight == 0.5 and list(weighting.silence_phones) == [3]
    assert list(tables.cmvn_options({"skip-dims": "0:3,4", "norm-vars": True}).skip_dims) == [0, 3, 4]
    with pytest.raises(UsageError, match="--skip-dims=0:b"):
        tables.cmvn_options({"skip-dims": "0:b"})
