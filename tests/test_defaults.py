"""Defaults of options are an interface: those of Kaldi's programs, or of ours.

data/defaults.txt has those of all classes of options, with limits and which are harmless, data/command_options.txt
those of all commands, and data/layer_options.txt those of all layers of xconfig files. A default that is changed on
purpose is changed there, too (``python tests/test_defaults.py`` writes the files anew).
"""
from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from paths import DATA, ROOT, sources, tree

from nnet3py.cli.process.command import load
from nnet3py.cli.process.options import STANDARD_OPTIONS
from nnet3py.cli.registry import COMMANDS
from nnet3py.option_fields import limits_of
from nnet3py.xconfig import LAYER_MODULES, layer_class

TABLE = DATA / "defaults.txt"
OF_COMMANDS = DATA / "command_options.txt"
OF_LAYERS = DATA / "layer_options.txt"


def option_classes() -> list[str]:
    """All dataclasses of the package whose names end with Options, with their modules."""
    found = []
    for path in sources():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Options") and not node.name.startswith("_") \
                    and any(ast.unparse(decorator).startswith(("dataclass", "options_class"))
                            for decorator in node.decorator_list):
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.append(".".join([*(part for part in parts if part != "__init__"), node.name]))
    return found


def limits(own: Mapping[str, float]) -> str:
    """The limits of an option's values in brackets, or nothing."""
    return own and "[{}]".format(",".join(f"{kind}={limit:g}" for kind, limit in own.items())) or ""


def own_defaults(name: str) -> Iterator[str]:
    """Lines for the options that a class adds to those of its bases, or gives another default."""
    module, _, class_name = name.rpartition(".")
    cls = getattr(importlib.import_module(module), class_name)
    inherited = {field.name: field.default for base in cls.__mro__[1:] if dataclasses.is_dataclass(base)
                 for field in dataclasses.fields(base)}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING and not (
                field.name in inherited and inherited[field.name] == field.default):
            yield (f"{field.name} = {field.default!r}{limits(limits_of(field.metadata))}"
                   f"{' harmless' * field.metadata.get('harmless', False)}")


def table() -> dict[str, list[str]]:
    """The lines of each class in the file."""
    found: dict[str, list[str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("nnet3py."):
            lines = found[line] = []
        elif line:
            lines.append(line.strip())
    return found


def test_every_class_of_options_is_in_the_table() -> None:
    assert list(table()) == option_classes()


@pytest.mark.parametrize("name", table())
def test_defaults(name: str) -> None:
    assert list(own_defaults(name)) == table()[name]


def command_options(name: str) -> str:
    """A line: the command's name, its numbers of arguments, and its own options with their types and defaults."""
    command = load(name)
    own = [*command.declared, *(option for option in command.standard if option not in STANDARD_OPTIONS)]
    return " ".join([name, "{}-{}".format(*command.bounds),
                     *(f"{option.name}:{option.type.name}={option.type.shown(option.default)}{limits(option.limits)}"
                       for option in own)])


def test_options_of_commands() -> None:
    assert [command_options(name) for name in sorted(COMMANDS)] == OF_COMMANDS.read_text(encoding="utf-8").splitlines()


def layer_options(name: str) -> str:
    """A line with the layer's type and its options with their defaults."""
    return " ".join([name, *(f"{option}={default!r}" for option, default in layer_class(name).OPTIONS.items())])


def test_options_of_layers() -> None:
    assert list(map(layer_options, sorted(LAYER_MODULES))) == OF_LAYERS.read_text(encoding="utf-8").splitlines()


def write() -> None:
    """Write the tables anew."""
    blocks = ["\n".join([name, *(f"    {line}" for line in own_defaults(name))]) for name in option_classes()]
    TABLE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    OF_LAYERS.write_text("".join(f"{layer_options(name)}\n" for name in sorted(LAYER_MODULES)), encoding="utf-8")
    OF_COMMANDS.write_text("".join(f"{command_options(name)}\n" for name in sorted(COMMANDS)), encoding="utf-8")


if __name__ == "__main__":
    assert Path.cwd() == ROOT
    write()
