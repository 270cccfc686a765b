"""The table of commands is what their declarations in the sources say."""
from __future__ import annotations

from pathlib import Path

import pytest

from nnet3py.cli.machine.bin_files import HEADINGS, TABLE_FILE, declarations, table_text
from nnet3py.cli.process.command import kaldi_command, load
from nnet3py.cli.process.options import Options
from nnet3py.cli.registry import COMMANDS, GROUPS

AGAIN = "the declarations of commands have changed; run: make launchers"


def test_the_table_is_what_the_sources_declare() -> None:
    assert TABLE_FILE.read_text(encoding="utf-8") == table_text(declarations()), AGAIN


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_found_where_the_table_says(name: str) -> None:
    command = load(name)
    assert (command.name, command.short_help) == (name, COMMANDS[name].help)


def test_commands_that_stand_first_are_under_their_heading() -> None:
    assert list(GROUPS) == list(HEADINGS)
    for heading, first in HEADINGS.items():
        assert tuple(GROUPS[heading])[:len(first)] == first
        others = [name.removeprefix("nnet3-") for name in tuple(GROUPS[heading])[len(first):]]
        assert others == sorted(others)


def declared(folder: Path, text: str) -> list[tuple[object, ...]]:
    """The declarations in a module ``room/module.py`` with this text."""
    (folder / "room").mkdir()
    (folder / "room" / "module.py").write_text(text)
    return [tuple(declaration) for declaration in declarations(folder)]


def test_declarations_are_read_in_the_order_of_lists(tmp_path: Path) -> None:
    assert declared(tmp_path, """
raise AssertionError("this module must not be imported")

def _command(name, group, help):
    return kaldi_command(name, group, help, "")

@_command("zebra", "Models", "Z.")
@kaldi_command("nnet3-antelope", "Models", "A.", "", launcher=False)
def first(args, options): ...

second = kaldi_command("nnet3-copy", "Models", "C.", "")(first)
lion = kaldi_command("lion", "Start here", "Roar: "
                     '"R".')(first)
""") == [
        ("lion", "Start here", "room.module", 'Roar: "R".', True),
        ("nnet3-copy", "Models", "room.module", "C.", True),
        ("nnet3-antelope", "Models", "room.module", "A.", False),
        ("zebra", "Models", "room.module", "Z.", True),
    ]


def test_a_damaged_table_is_not_read(tmp_path: Path) -> None:
    (tmp_path / TABLE_FILE.name).write_text("<<<<<<< HEAD\n")
    assert declared(tmp_path, '@kaldi_command("a", "Models", "A.")\ndef a(): ...') == [
        ("a", "Models", "room.module", "A.", True)]


@pytest.mark.parametrize(("text", "message"), [
    ('@kaldi_command("a", "Modles", "A.")\ndef a(): ...', "module.py, line 1: there is no heading 'Modles'"),
    ('@kaldi_command("a", "Models", "A.")\n@kaldi_command("a", "Models", "B.")\ndef a(): ...',
     "line 2: a is declared in room.module as well"),
    ('@kaldi_command("a", "Models", HELP)\ndef a(): ...', "line 1: .* must be literals"),
])
def test_wrong_declarations(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        declared(tmp_path, text)


def test_a_function_with_two_names_is_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    @kaldi_command("one", "Models", "Count.", "Usage: one", arguments=(0, 0))
    @kaldi_command("two", "Models", "Count.", "Usage: two", arguments=(1, 1))
    def one(args: list[str], options: Options) -> int:
        return len(args)

    from nnet3py.cli.process.command import _DECLARED

    two = _DECLARED[__name__, "two"]
    assert one.execute([]) == 0 and two.execute(["x"]) == 1
    assert capsys.readouterr().err == "one \ntwo x \n"
