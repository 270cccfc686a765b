"""Options that are fields of dataclasses: their tables, and what is made of values."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, field, replace
from inspect import signature
from typing import Any

import pytest
from command_lines import read

from nnet3py.cli.process.options import OptionError, declared, fields_from, option
from nnet3py.errors import UsageError
from nnet3py.option_fields import (
    CheckedOptions,
    Setting,
    check_limits,
    defaults,
    field_values,
    like,
    opt,
    options_class,
    settings_of,
    with_values,
)


@options_class(frozen=True)
class Width:
    beam: float = opt("beam", 16.0, "How wide")
    phones: Sequence[int] = opt("silence-phones", (), "Which")
    hidden: dict[str, int] = field(default_factory=dict)


def test_option_classes_are_dataclasses() -> None:
    width = Width(9.0, phones=(1,))
    assert repr(width) == "Width(beam=9.0, phones=(1,), hidden={})" and width == replace(Width(phones=(1,)), beam=9.0)
    assert hash(opaque := replace(width, hidden=None)) == hash(replace(opaque)) and width != opaque
    with pytest.raises(FrozenInstanceError, match=r"Width\.beam cannot be changed"):
        width.beam = 3.0                                                                        # type: ignore
    for arguments, values in (((1, 2, 3, 4), {}), ((1,), {"beam": 2}), ((), {"bean": 2})):
        with pytest.raises(TypeError, match="takes 3 values|got beam twice|has no field bean"):
            Width(*arguments, **values)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Search())
    assert str(signature(Width)) == ("(beam: 'float' = 16.0, phones: 'Sequence[int]' = (), "
                                     "hidden: 'dict[str, int]' = {})")


def test_fields_are_options() -> None:
    assert settings_of(Width) == (Setting("beam", 16.0, "How wide"), Setting("silence-phones", "", "Which"))
    assert defaults(settings_of(Width(9.0), "narrow.")) == {"narrow.beam": 9.0, "narrow.silence-phones": ""}


def test_values_become_fields() -> None:
    values = {"x.beam": 3.0, "x.silence-phones": "1:2,3:", "beam": 4.0, "hidden": 5}
    assert with_values(Width(9.0), values, "x.") == Width(3.0, [1, 2, 3])
    assert field_values(Width, {"silence-phones": [7], "other": 1}) == {"phones": [7]}
    with pytest.raises(UsageError, match="--silence-phones=a: expected whole numbers"):
        with_values(Width(), {"silence-phones": "a"})


def test_commands_have_the_same() -> None:
    beam, phones = declared(settings_of(Width, "x."))
    assert (beam.name, beam.type.name, beam.default, beam.help) == ("x.beam", "float", 16.0, "How wide")
    assert phones.type.name == "string" and phones.default == ""


@options_class
class Search(CheckedOptions):
    beam: float = like(Width, "beam", "decode.beam", 13.0, least=1.0)
    stage: int | None = opt("stage", None, "Where to begin", harmless=True)
    models: int = opt("most-models", 20, "How many", aliases=("models",))
    extra: tuple[str, ...] = opt("add", (), "More")
    frames: tuple[int, ...] = opt("num-frames", (1,), "Lengths", text="1")
    kind: str = opt("kind", "a", "Which", choices=("a", "b"))


def test_an_option_is_declared_again_with_another_name_and_default() -> None:
    assert settings_of(Search)[0] == Setting("decode.beam", 13.0, "How wide", limits={"least": 1.0})


def test_options_may_be_unset_repeated_and_have_two_names() -> None:
    options = declared(settings_of(Search))
    assert [(each.name, each.type.name, each.default) for each in options][1:] == [
        ("stage", "string", ""), ("most-models", "int", 20), ("models", "int", 20), ("add", "strings", ()),
        ("num-frames", "string", "1"), ("kind", "string", "a")]
    _, values = read(options, ["--stage=3", "--models=7", "--add=x", "--add=y"])
    assert fields_from(values, Search(beam=4.0, frames=(2,))) == Search(13.0, 3, 7, ("x", "y"), "1")  # type: ignore
    assert field_values(Search, {"stage": " "}) == {"stage": None}
    with pytest.raises(UsageError, match="--stage=x: expected a whole number, or a blank value"):
        field_values(Search, {"stage": "x"})
    with pytest.raises(OptionError, match="--kind=c.*expected one of a, b"):
        read(options, ["--kind=c"])


@pytest.mark.parametrize("limits, default, allowed, refused", [
    ({"least": 1}, 5, (1, math.inf), {0: "expected 1 or more", math.nan: "expected 1 or more"}),
    ({"above": 0, "below": 1}, 0.5, (0.1, 0.9), {0: "expected above 0 and below 1", 1: "expected above 0 and below 1"}),
    ({"least": 0, "most": 1}, 0.5, (0, 1), {-0.1: "expected 0 or more and at most 1", 1.1: "0 or more and at most 1"}),
    ({"least": 1}, -1, (1, -1), {0: "expected 1 or more, or -1", -2: "expected 1 or more, or -1"}),
    ({"least": 0, "below": math.inf}, 0.1, (0,), {math.inf: "=inf: expected 0 or more and finite"}),
    ({"above": -math.inf, "below": math.inf}, 0.1, (-1,), {-math.inf: "=-inf: expected a finite number"}),
    ({"above": 0}, (), ((), [1, 2]), {(1, 0): "--x=1:0: expected above 0"}),
    ({"above": 0}, None, (None, 1), {0: "--x=0: expected above 0$"}),
    ({"most": 65535}, 0, (65535,), {12345678: "--x=12345678: expected at most 65535"}),
    ({}, 3, (-1, "text"), {}),
])
def test_limits(limits: dict[str, float], default: Any, allowed: tuple[Any, ...], refused: dict[Any, str]) -> None:
    for value in allowed:
        check_limits("x", value, default, limits)
    for value, message in refused.items():
        with pytest.raises(UsageError, match=message):
            check_limits("x", value, default, limits)


def test_values_beyond_limits_are_refused_and_harmless_ones_bind_nothing() -> None:
    Search(stage=-5).check()
    with pytest.raises(UsageError, match="--decode.beam=0.5: expected 1 or more"):
        Search(beam=0.5).check()
    with pytest.raises(UsageError, match="--kind=c: expected a or b"):
        Search(kind="c").check()
    with pytest.raises(UsageError, match="--decode.beam=0.5: expected 1 or more"):
        read(declared(settings_of(Search)), ["--decode.beam=0.5"])
    with pytest.raises(UsageError, match="--period=0: expected 1 or more, or -1"):
        read([option("period", int, -1, "Frames", least=1).but(help="Frames")], ["--period=0"])
    assert Search().binding() == {"decode.beam": 13.0, "most-models": 20, "add": (), "num-frames": (1,), "kind": "a"}
