"""The closed list of commands, and what holds for all of them that exist."""
from __future__ import annotations

import re

import pytest
from paths import DATA

from nnet3py.cli.main import load
from nnet3py.cli.registry import COMMANDS, GROUPS, PERSON_NAMES


def listed() -> list[str]:
    lines = (DATA / "commands.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_command_is_in_the_list() -> None:
    assert not [name for name in COMMANDS if name not in listed()]


def test_the_list_has_every_name_once() -> None:
    names = listed()
    assert len(names) == len(set(names)) and all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


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
        assert entry.help.endswith(".") and "the same" not in entry.help.lower(), name
