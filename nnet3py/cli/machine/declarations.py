"""The table of commands, made from their declarations in the sources, none of which is imported.

``python -m nnet3py.cli.machine.declarations``, a part of ``make launchers``, writes ``nnet3py/cli/registry_table.py``.
A command is declared by a call, usually a decorator, of ``kaldi_command`` or of a function that calls it. The first
argument is the command's name; ``group``, ``help`` and ``launcher`` are keywords. All of them are literals.
"""
from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CLI = Path(__file__).resolve().parent.parent
TABLE_FILE = CLI / "registry_table.py"

# The headings of lists of commands, in order, and the commands that stand first there; the others follow by name.
HEADINGS: dict[str, tuple[str, ...]] = {
    "Start here": ("nnet3-inspect", "nnet3-extras", "docs", "bin-path", "warmup"),
    "Recognition": ("nnet3-transcribe",),
    "Models": ("nnet3-init", "xconfig-to-configs", "nnet3-info", "nnet3-copy", "nnet3-export", "nnet3-import"),
    "Sound and features": ("compute-mfcc-feats", "compute-fbank-feats", "copy-feats"),
    "Transforming features": (),
    "Examples": ("make-egs",),
    "Training": ("train-dnn", "train-rnn", "train-raw-dnn", "train-raw-rnn", "nnet3-monitor", "nnet3-report"),
    "Chain training": ("train-chain", "make-chain-egs", "prepare-e2e"),
    "Discriminative training": ("train-discriminative", "make-denlats"),
    "Computing outputs": (),
    "Decoding": ("nnet3-latgen-faster",),
    "Scoring": (),
    "Lattices": ("lattice-best-path", "lattice-1best", "lattice-to-nbest", "lattice-scale"),
    "Graphs": ("prepare-lang", "make-graph"),
    "Parts of graphs": (),
    "FSTs (OpenFst's programs)": (),
    "Language models": ("arpa2fst",),
    "Alignments and posteriors": (),
    "Trees and topologies": ("nnet3-build-tree",),
    "Speakers and i-vectors": ("train-ivector-extractor", "extract-ivectors"),
    "Tables of matrices and vectors": (),
}


class Declaration(NamedTuple):
    """A command as its module declares it: Kaldi's name, heading, module below ``nnet3py.cli``, one line of help."""

    name: str
    group: str
    module: str
    help: str
    launcher: bool


def declarations(folder: Path = CLI) -> list[Declaration]:
    """Return the commands that the modules below ``folder`` declare, in the order of lists.

    Raises SystemExit, which says where, for a name that is declared twice, a heading that is not one of HEADINGS, and
    what is not a literal.
    """
    commands: dict[str, Declaration] = {}
    for path in sorted(folder.rglob("*.py")):
        for call in _declaring_calls(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            place = f"{path}, line {call.lineno}"
            command = _declaration(call, ".".join(path.relative_to(folder).with_suffix("").parts), place)
            if command.group not in HEADINGS:
                raise SystemExit(f"{place}: there is no heading '{command.group}' in HEADINGS of {__file__}")
            if command.name in commands:
                raise SystemExit(f"{place}: {command.name} is declared in {commands[command.name].module} as well")
            commands[command.name] = command
    headings = list(HEADINGS)

    def place_in_lists(command: Declaration) -> tuple[int, int, str]:
        first = HEADINGS[command.group]
        return (headings.index(command.group), first.index(command.name) if command.name in first else len(first),
                command.name.removeprefix("nnet3-"))

    return sorted(commands.values(), key=place_in_lists)


def _declaring_calls(module: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        # A first argument that is a variable: the call is in a function that declares commands.
        if (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
                and {"group", "help"} <= {word.arg for word in node.keywords}):
            yield node


def _declaration(call: ast.Call, module: str, place: str) -> Declaration:
    values = {word.arg: word.value for word in call.keywords if word.arg in ("group", "help", "launcher")}
    try:
        name, values_ = ast.literal_eval(call.args[0]), {key: ast.literal_eval(node) for key, node in values.items()}
    except ValueError:
        raise SystemExit(f"{place}: group, help and launcher of a command must be literals, since they are read "
                         "without running the module") from None
    return Declaration(name, values_["group"], module, values_["help"], values_.get("launcher", True))


def table_text(commands: list[Declaration]) -> str:
    """Return the source of ``registry_table.py`` for commands in the order of lists."""
    lines = ['"""The commands by heading: module, one line of help, whether there is a launcher.\n\n'
             'Written by "make launchers" from the declarations of the commands; do not edit.\n"""\n'
             "# ruff: noqa: E501\nfrom __future__ import annotations\n\n"
             "TABLE: dict[str, dict[str, tuple[str, str, bool]]] = {\n"]
    for heading in HEADINGS:
        lines.append(f"    {_quoted(heading)}: {{\n")
        lines += [f"        {_quoted(command.name)}: ({_quoted(command.module)}, {_quoted(command.help)}, "
                  f"{command.launcher}),\n" for command in commands if command.group == heading]
        lines.append("    },\n")
    return "".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Write the table."""
    commands = declarations()
    TABLE_FILE.write_text(table_text(commands), encoding="utf-8")
    sys.stdout.write(f"{len(commands)} commands written to {TABLE_FILE}\n")


if __name__ == "__main__":
    main()
