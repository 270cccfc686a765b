"""Options that are fields of dataclasses: their tables, and what is made of values."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from nnet3py.cli.process.options import declared
from nnet3py.errors import UsageError
from nnet3py.option_fields import Setting, defaults, field_values, opt, settings_of, with_values


@dataclass(frozen=True)
class Width:
    beam: float = opt("beam", 16.0, "How wide")
    phones: Sequence[int] = opt("silence-phones", (), "Which")
    hidden: dict[str, int] = field(default_factory=dict)


def test_fields_are_options() -> None:
    assert settings_of(Width) == (Setting("beam", 16.0, "How wide"), Setting("silence-phones", "", "Which"))
    assert defaults(settings_of(Width(9.0), "narrow.")) == {"narrow.beam": 9.0, "narrow.silence-phones": ""}


def test_values_become_fields() -> None:
    values = {"x.beam": 3.0, "x.silence-phones": "1:2,3:", "beam": 4.0, "hidden": 5}
    assert with_values(Width(9.0), values, "x.") == Width(3.0, [1, 2, 3])
    assert field_values(Width, {"silence-phones": [7], "other": 1}) == {"phones": [7]}
    with pytest.raises(UsageError, match="--silence-phones=a: expected numbers"):
        with_values(Width(), {"silence-phones": "a"})


def test_commands_have_the_same() -> None:
    beam, phones = declared(settings_of(Width, "x."))
    assert (beam.name, beam.type.name, beam.default, beam.help) == ("x.beam", "float", 16.0, "How wide")
    assert phones.type.name == "string" and phones.default == ""
