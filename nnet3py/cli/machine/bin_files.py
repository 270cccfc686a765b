"""Files made from the declarations of commands: the table of commands, launchers, entry points.

``python -m nnet3py.cli.machine.bin_files``, a part of ``make launchers``, writes the table
``nnet3py/cli/registry_table.py``, ``bin/`` of a checkout and the entry points in ``setup.cfg``; a wheel gets the
launchers as ``nnet3py/launchers`` when it is built.

A command is declared by a call, usually a decorator, of ``kaldi_command`` or of a function that calls it and whose
name ends in ``command``, too. The first three arguments, the command's name, group and help, and the keyword
``launcher`` are literals, which are read from the sources without importing them.

A launcher is a line of sh that runs ``launcher.sh`` beside it, because a shell starts in a millisecond. ``launcher.sh``
runs the package that it belongs to, with ``$NNET3PY_PYTHON``, else the checkout's ``.venv`` (in an installed package:
the environment around it), else the first ``python3`` on PATH that has numba.
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

# Relative to a launcher: the folder of the package, and the Python interpreter of its environment.
CHECKOUT_PLACES = ("..", "../.venv/bin/python")
INSTALLED_PLACES = ("../..", "../../../../../bin/python3")

COMMON = "launcher.sh"

_ENTRY_POINTS = "[options.entry_points]\nconsole_scripts =\n"

_LAUNCHER = """\
#!/bin/sh
# Starts {name} of nnet3py. Written by "python -m nnet3py.cli.machine.bin_files"; do not edit.
name={name} self=$0
[ ! -h "$self" ] || self=$(readlink -f "$self")
case $self in */*) here=${{self%/*}} ;; *) here=. ;; esac
. "$here/launcher.sh"
"""

_COMMON = """\
# Read by the launchers in this folder, which set name, self and here. Written by
# "python -m nnet3py.cli.machine.bin_files"; do not edit.
here=$(CDPATH= cd -P -- "$here" && pwd)    # the folder itself may be a link: Python takes ".." out of names by letter
python=${{NNET3PY_PYTHON:-$here/{python}}}
if [ -z "$NNET3PY_PYTHON" ] && [ ! -x "$python" ]; then
  exists() {{ [ -e "$1" ]; }}
  able='import sys, importlib.util as u; sys.exit(sys.version_info < (3, 10) or not u.find_spec("numba"))'
  python= IFS=:
  for folder in $PATH; do
    [ -x "$folder/python3" ] || continue
    if exists "$folder"/../lib/python3*/*-packages/numba/__init__.py || "$folder/python3" -c "$able" 2>/dev/null; then
      python=$folder/python3
      break
    fi
  done
  unset IFS
  if [ -z "$python" ]; then
    echo "$name: no python3 on PATH has numba; run 'make' in the checkout of nnet3py, or set NNET3PY_PYTHON" >&2
    exit 255
  fi
fi
package=$here/{package}
[ -z "$NNET3PY_RESIDENT" ] ||
  exec "$python" -I -S "$package/nnet3py/cli/process/resident_client.py" "$self" "$name" "$@"
exec "$python" -c 'import _signal as s       # Ctrl-C just ends it until somebody reports that
s.getsignal(s.SIGINT) is s.default_int_handler and s.signal(s.SIGINT, s.SIG_DFL)
import os, sys; sys.path[:sys.path[0] == ""] = [os.path.realpath(sys.argv.pop(1))]
from nnet3py.cli.main import launch; launch(sys.argv.pop(1))' "$package" "$name" "$@"
"""


class Declaration(NamedTuple):
    """Declaration of a command: the arguments of ``kaldi_command``, and its module."""

    name: str            # Kaldi's name
    group: str           # heading in lists of commands
    module: str          # below nnet3py.cli, such as "nnet.networks"
    help: str            # one line for lists of commands
    launcher: bool       # whether bin/ has a program of that name


def declarations(folder: Path = CLI) -> list[Declaration]:
    """Return the commands that modules below ``folder`` declare, by heading, in the order of the lists of commands.

    Raises SystemExit, with file and line, for a name that is declared twice, a heading that is not one of HEADINGS, and
    values that are not literals.
    """
    commands: dict[str, Declaration] = {}
    for path in sorted(set(folder.rglob("*.py")) - {folder / TABLE_FILE.name}):     # a merge may have damaged the table
        for call in _declaring_calls(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            place = f"{path}, line {call.lineno}"
            command = _declaration(call, ".".join(path.relative_to(folder).with_suffix("").parts), place)
            if command.group not in HEADINGS:
                raise SystemExit(f"{place}: there is no heading '{command.group}' in HEADINGS of {__file__}")
            if command.name in commands:
                raise SystemExit(f"{place}: {command.name} is declared in {commands[command.name].module} as well")
            commands[command.name] = command
    headings = list(HEADINGS)

    def place_in_lists(command: Declaration) -> tuple[int, int, str, str]:
        first = HEADINGS[command.group]
        return (headings.index(command.group), first.index(command.name) if command.name in first else len(first),
                command.name.removeprefix("nnet3-"), command.name)

    return sorted(commands.values(), key=place_in_lists)


def _declaring_calls(module: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        # A first argument that is a variable: the call is in a function that declares commands.
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("command")
                and len(node.args) > 2 and isinstance(node.args[0], ast.Constant)):
            yield node


def _declaration(call: ast.Call, module: str, place: str) -> Declaration:
    nodes = [*call.args[:3], *(word.value for word in call.keywords if word.arg == "launcher")]
    try:
        name, group, help_line, *launcher = map(ast.literal_eval, nodes)
    except ValueError:
        raise SystemExit(f"{place}: group, help and launcher of a command must be literals, since they are read "
                         "without running the module") from None
    return Declaration(name, group, module, help_line, launcher != [False])


def table_text(commands: list[Declaration]) -> str:
    """Return the source of ``registry_table.py``, a table of ``commands`` by heading."""
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


def launcher_names() -> tuple[str, ...]:
    """Return the names of all launchers: commands with Kaldi's names, and ``nnet3py``."""
    from nnet3py.cli.registry import COMMANDS  # the table may be missing, or damaged, before it is written here

    return (*(name for name, entry in COMMANDS.items() if entry.launcher), "nnet3py")


def launcher_text(name: str) -> str:
    """Return the shell script of the launcher ``name``: a command of Kaldi's name, or ``nnet3py``."""
    return _LAUNCHER.format(name=name)


def common_text(installed: bool = False) -> str:
    """Return the text of ``launcher.sh`` for a checkout or, if ``installed``, for a wheel."""
    package, python = INSTALLED_PLACES if installed else CHECKOUT_PLACES
    return _COMMON.format(package=package, python=python)


def write_launchers(folder: Path, installed: bool = False) -> list[Path]:
    """Write all launchers into ``folder``, remove launchers of commands that no longer exist, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    names = launcher_names()
    for path in folder.iterdir():
        if path.name not in (*names, COMMON) and "machine.bin_files" in path.read_text(encoding="utf-8"):
            path.unlink()
    (folder / COMMON).write_text(common_text(installed), encoding="utf-8")
    written = []
    for name in names:
        path = folder / name
        path.write_text(launcher_text(name), encoding="utf-8")
        path.chmod(0o755)
        written.append(path)
    return written


def write_entry_points(path: Path) -> None:
    """Replace the entry points ``nnet3py`` and ``nnet3py-NAME`` in the ``setup.cfg`` at ``path``."""
    from nnet3py.cli.registry import COMMANDS, PERSON_NAMES

    text = path.read_text(encoding="utf-8")
    scripts = ["nnet3py = nnet3py.cli.main:main",
               *(f"nnet3py-{name} = nnet3py.cli.main:run_person_name"
                 for name in sorted(PERSON_NAMES, key=lambda name: list(COMMANDS).index(PERSON_NAMES[name])))]
    before, start, rest = text.partition(_ENTRY_POINTS)
    lines = "".join(f"    {script}\n" for script in scripts)
    path.write_text(before + start + lines + rest[rest.index("\n["):], encoding="utf-8")


def main() -> None:
    """Write the table of commands, ``bin/`` and the entry points of the checkout."""
    from nnet3py.drivers.executor import CHECKOUT_FOLDER

    commands = declarations()
    TABLE_FILE.write_text(table_text(commands), encoding="utf-8")
    sys.stdout.write(f"{len(commands)} commands written to {TABLE_FILE}\n")
    sys.stdout.write(f"{len(write_launchers(CHECKOUT_FOLDER))} launchers written to {CHECKOUT_FOLDER}\n")
    write_entry_points(CHECKOUT_FOLDER.parent / "setup.cfg")


if __name__ == "__main__":
    main()
