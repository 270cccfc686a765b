"""What holds for all commands of the registry."""
from __future__ import annotations

import re

import pytest

from nnet3py.cli.main import load
from nnet3py.cli.registry import COMMANDS, GROUPS, PERSON_NAMES


def test_a_shared_person_name_is_the_networks_command() -> None:
    assert PERSON_NAMES["am-info"] == "nnet3-am-info" and PERSON_NAMES["copy-feats"] == "copy-feats"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_how_to_use_it_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(name).execute(["--help"]) == 0
    text = capsys.readouterr().err
    usage, _, options = text.partition("\nStandard options:")
    assert re.search(rf"Usage: +{'' if COMMANDS[name].launcher else 'nnet3py '}{re.escape(name)}\b", usage)
    example = usage[usage.index("Usage:"):].split("\n", 1)[1]
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", example), "no example"
    assert "--print-args" in options


def test_every_command_is_in_one_group_and_its_line_stands_alone() -> None:
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    for name, entry in COMMANDS.items():
        assert entry.help.endswith(".") and not entry.help.lower().startswith(("the same", "as ")), name
