"""docs/commands.md is what the commands say of themselves, and explains every argument."""
from __future__ import annotations

import re
from types import ModuleType

import pytest
from paths import ROOT
from scripts import load

from nnet3py.cli.process.command import load as load_command
from nnet3py.cli.process.kaldi_programs import missing_programs
from nnet3py.cli.registry import COMMANDS

DOCS = ROOT / "docs"
PAGE = DOCS / "commands.md"
AGAIN = "the commands have changed; run: python docs/make_command_pages.py"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load(DOCS / "make_command_pages.py")


@pytest.fixture(scope="module")
def made(maker: ModuleType) -> str:
    return maker.make_page()


def test_the_page_is_as_the_commands_make_it(made: str) -> None:
    found, expected = PAGE.read_text(encoding="utf-8"), made
    for line, (one, other) in enumerate(zip(found.splitlines(), expected.splitlines(), strict=False), 1):
        assert one == other, f"line {line} of docs/commands.md: {AGAIN}"
    assert found == expected, AGAIN


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_section_with_all_that_a_user_needs(maker: ModuleType, made: str, name: str) -> None:
    assert made.count(f"\n### {name}\n") == 1
    section = re.split(r"\n##", made.split(f"\n### {name}\n")[1])[0]
    assert COMMANDS[name].help in section
    blocks = re.findall(r"```(text|sh)\n(.*?)\n```", section, re.DOTALL)
    assert any(kind == "text" and text.removeprefix("nnet3py ").startswith(name) for kind, text in blocks), "no usage"
    assert any(kind == "sh" and name in text for kind, text in blocks), "no example"
    assert "see above" not in section, "add the argument's name to ARGUMENTS in docs/make_command_pages.py"
    shared = [group for group in maker.SHARED if f"](#{maker._anchor(group.heading)})" in section]
    explained = set(re.findall(r"^\| `--([^`]+)` \|", section, re.MULTILINE))
    explained |= {one.name for group in shared for one in group.options}
    assert {one.name for one in load_command(name).declared} <= explained


def test_links_lead_somewhere_and_tables_are_whole(maker: ModuleType, made: str) -> None:
    headings = [maker._anchor(text) for text in re.findall(r"^##+ (.+)$", made, re.MULTILINE)]
    assert len(set(headings)) == len(headings)
    assert set(re.findall(r"\]\(#([^)]+)\)", made)) <= set(headings)
    for row in re.findall(r"^\| .*$", made, re.MULTILINE):
        assert len(re.findall(r"(?<!\\)\|", row)) in (3, 5), row


def test_what_is_missing_stands_there(made: str) -> None:
    shown = made.partition("\n## Not there\n")[2]
    assert set(re.findall(r"`([\w-]+)`", shown)) == set(missing_programs())


def test_usage_texts_are_taken_apart(maker: ModuleType) -> None:
    text = "\nAdd.\n\nUsage: add [options] (<a-rspecifier>|<a-rxfilename>) [--x=<v>] <in1> [<in2> ...] " \
           "<out-wspecifier>\n   or: add <in> <egs-0-out>\n" \
           " e.g.: add a \\\n b\n   or: add c\nSee also: sum,\n product\n"
    purpose, usage, example, see = maker._usage_parts(text)
    assert purpose == "Add." and example == "add a \\\n    b\nadd c" and see == "sum, product"
    assert usage.splitlines()[1] == "add <in> <egs-0-out>"
    assert maker.argument_names(usage) == ["a-rspecifier", "a-rxfilename", "in", "out-wspecifier", "egs-N-out"]
