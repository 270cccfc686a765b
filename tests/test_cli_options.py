"""Kaldi's option manners."""
from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.exceptions import Exit
from command_lines import read
from hypothesis import given
from hypothesis import strategies as st

from nnet3py.cli.egs import options as egs_options
from nnet3py.cli.nnet import utterances
from nnet3py.cli.process import option_groups
from nnet3py.cli.process.options import INT_MAX, INT_MIN, OptionError, command_echo, option, quote, usage_text

DECLARED = [
    option("srand", int, 0, "Seed"),
    option("binary", bool, True, "Binary"),
    option("scale", float, 1.0, "Scale"),
    option("edits", str, "", "Edits"),
    option("count", "uint", 3, "Count"),
    option("use-gpu", str, "no", "GPU", choices=("yes", "no")),
    option("optimization.min-deriv-time", int, INT_MIN, "Earliest"),
]


def values(*words: str) -> tuple[list[str], dict]:
    args, options = read(DECLARED, words)
    return args, {one.name: options[one.name] for one in DECLARED if options.given(one.name)}


@pytest.mark.parametrize("words, args, expected", [
    (["--srand=3", "in", "out"], ["in", "out"], {"srand": 3}),
    (["--SRand=-3", "in"], ["in"], {"srand": -3}),
    (["--optimization.Min_Deriv_Time=5"], [], {"optimization.min-deriv-time": 5}),
    (["--edits= a b "], [], {"edits": "a b"}),
    (["--edits=x=y"], [], {"edits": "x=y"}),
    (["--edits="], [], {"edits": ""}),
    (["--srand=1", "--srand=2"], [], {"srand": 2}),
    (["--srand=+7"], [], {"srand": 7}),
    (["in", "--srand=2"], ["in", "--srand=2"], {}),
    (["-", "--srand=2"], ["-", "--srand=2"], {}),
    (["-x"], ["-x"], {}),
    (["--srand=1", "--", "--srand=2"], ["--srand=2"], {"srand": 1}),
    (["in", "--", "out"], ["in", "out"], {}),
    (["--", "in", "--", "out"], ["in", "--", "out"], {}),
    (["--scale=1e-3"], [], {"scale": 1e-3}),
    (["--scale=inf"], [], {"scale": float("inf")}),
    (["--use-gpu=yes"], [], {"use-gpu": "yes"}),
])
def test_command_lines(words: list[str], args: list[str], expected: dict) -> None:
    if words[:1] == ["--"]:   # the marker that ends the options is swallowed, a second one is not
        assert values(*words)[0] == args
    else:
        assert values(*words) == (args, expected)


@pytest.mark.parametrize("word, value", [("--binary", True), ("--binary=T", True), ("--binary=1", True),
                                         ("--binary=false", False), ("--binary=F", False), ("--binary=0", False)])
def test_booleans(word: str, value: bool) -> None:
    assert values(word)[1] == {"binary": value}


@pytest.mark.parametrize("word, message, with_usage", [
    ("--binary=", "Invalid option --binary=", False),
    ("--binary=yes", "expected true or false", True),
    ("--srand=1.0", 'Invalid integer option "1.0"', False),
    ("--srand=", 'Invalid integer option ""', False),
    ("--srand", 'Invalid integer option ""', False),
    ("--srand=1_0", "Invalid integer option", False),
    ("--srand=2147483648", "Invalid integer option", False),
    ("--count=-1", "Invalid integer option", False),
    ("--scale=1x", 'Invalid floating-point option "1x"', False),
    ("--scale=1_0", "Invalid floating-point option", False),
    ("--edits", "Invalid option --edits", False),
    ("--use-gpu=maybe", "expected one of yes, no", False),
    ("--=3", "Invalid option (no key)", True),
    ("--Binry=f", "Invalid option --Binry=f (did you mean --binary?)", True),
])
def test_bad_options(word: str, message: str, with_usage: bool) -> None:
    with pytest.raises(OptionError, match=".*") as caught:
        read(DECLARED, [word, "in"])
    assert message in str(caught.value)
    assert caught.value.show_usage == with_usage
    assert caught.value.exit_code == 255


def test_help_anywhere_before_the_marker() -> None:
    for words in (["in", "out", "--help"], ["--help", "--srand=x"]):
        with pytest.raises(Exit) as caught:
            read(DECLARED, words)
        assert caught.value.exit_code == 0
    assert read(DECLARED, ["in", "--", "--help"])[0] == ["in", "--help"]


def test_config_file_gives_way_to_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "train.conf"
    config.write_text("# all comments\n\n  --srand=5 # seed\n--binary\n--scale=2\n--config=/does/not/exist\n")
    args, options = read(DECLARED, ["--scale=3", f"--config={config}", "in"])
    assert (args, options.srand, options.scale, options.binary) == (["in"], 5, 3.0, True)
    assert options.given("srand") and options.given("scale") and not options.given("edits")


@pytest.mark.parametrize("text, message", [
    ("srand=5\n", "line 1"), ("\n--nothing=5\n", "line 2"), ("--srand=x", "integer")])
def test_bad_config_file(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "bad.conf"
    config.write_text(text)
    with pytest.raises(OptionError) as caught:
        read(DECLARED, [f"--config={config}"])
    assert message in str(caught.value)


def test_missing_config_file() -> None:
    with pytest.raises(OptionError, match="Cannot open config file: /does/not/exist"):
        read(DECLARED, ["--config=/does/not/exist"])


@pytest.mark.parametrize("argument, shown", [
    ("a/b.scp", "a/b.scp"), ("", "''"), ("ark:copy-feats ark:- |", "'ark:copy-feats ark:- |'"),
    ("it's", '"it\'s"'), ("it's $x", "'it'\\''s $x'"), ("[]~#^_-+=:.,/", "[]~#^_-+=:.,/"), ("é", "'é'"),
])
def test_quoting(argument: str, shown: str) -> None:
    assert quote(argument) == shown


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_echo_can_be_pasted_into_a_shell(args: list[str]) -> None:
    # '#' and '~' stand unquoted in Kaldi's echo; no shell sees a comment or a home folder in the middle of a word
    assert shlex.split(command_echo("nnet3-copy", args), comments=False) == ["nnet3-copy", *args]


def test_usage_text() -> None:
    text = usage_text("Copy it.\nUsage: nnet3-copy <in> <out>", DECLARED)
    lines = text.splitlines()
    assert text.startswith("\nCopy it.\nUsage:") and text.endswith("\n\n")
    assert "  --binary                    : Binary (bool, default = true)" in lines
    assert "  --scale                     : Scale (float, default = 1)" in lines
    assert '  --edits                     : Edits (string, default = "")' in lines
    assert f"  --optimization.min-deriv-time : Earliest (int, default = {INT_MIN})" in lines
    names = [line.split()[0] for line in lines if line.startswith("  --")]
    assert names[:-4] == sorted(names[:-4])
    assert names[-4:] == ["--config", "--help", "--print-args", "--verbose"]
    assert lines.index("Options:") < lines.index("Standard options:")


def test_options_object() -> None:
    options = read(DECLARED, ["--optimization.min-deriv-time=4"])[1]
    assert options["Optimization.min_deriv_time"] == 4
    assert options.group("optimization") == {"min_deriv_time": 4}
    assert options.use_gpu == "no" and "use_gpu" in options and "nothing" not in options
    with pytest.raises(AttributeError, match="no option --nothing"):
        _ = options.nothing


def test_group_defaults_are_kaldis() -> None:
    simple = {one.name: one.default for one in utterances.SIMPLE}
    assert simple["acoustic-scale"] == 0.1 and simple["frames-per-chunk"] == 50
    assert simple["extra-left-context-initial"] == -1 and "compiler.use-shortcut" not in simple
    optim = {one.name: one.default for one in option_groups.OPTIM}
    assert optim.pop("optimization.fuse") == "all"      # ours
    assert len(optim) == 19 and sum(value is True for value in optim.values()) == 15
    assert optim["optimization.max-deriv-time-relative"] == INT_MAX
    assert {one.name: one.default for one in option_groups.COMPILER} == {
        "compiler.use-shortcut": True, "compiler.cache-capacity": 64}


def test_groups_can_be_varied() -> None:
    changed = option_groups.with_default(egs_options.MERGE, "minibatch-size", "64")
    assert {one.name: one.default for one in changed}["minibatch-size"] == "64"
    assert {one.name: one.default for one in egs_options.MERGE}["minibatch-size"] == "256"
    assert "compress" not in [one.name for one in option_groups.without(egs_options.MERGE, "compress")]
    with pytest.raises(ValueError, match="no option nothing"):
        option_groups.with_default(egs_options.MERGE, "nothing", 1)
