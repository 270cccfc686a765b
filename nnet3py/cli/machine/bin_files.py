"""The launchers, with Kaldi's names and ``nnet3py`` itself: their texts, and where they are.

``python -m nnet3py.cli.machine.bin_files`` writes ``bin/`` of a checkout, and the entry points in ``setup.cfg``, from
the registry; a wheel gets the same files as ``nnet3py/launchers`` when it is built. A launcher is a line of sh that
runs ``launcher.sh`` beside it, because a shell starts in a millisecond. That runs the package that it belongs to, with
``$NNET3PY_PYTHON``, else the checkout's ``.venv`` (in an installed package: the environment around it), else the first
``python3`` on PATH that has what the package needs.
"""
from __future__ import annotations

from pathlib import Path

from nnet3py.cli.registry import COMMANDS, PERSON_NAMES
from nnet3py.drivers.executor import CHECKOUT_FOLDER

LAUNCHERS = (*(name for name, entry in COMMANDS.items() if entry.launcher), "nnet3py")

# Up from the launcher: where the package lies, and where its own Python may be.
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


def launcher_text(name: str) -> str:
    """Return the script that starts the command of Kaldi's name ``name``, or ``nnet3py``."""
    return _LAUNCHER.format(name=name)


def common_text(installed: bool = False) -> str:
    """Return what all launchers read, of a checkout or inside a wheel (``installed``)."""
    package, python = INSTALLED_PLACES if installed else CHECKOUT_PLACES
    return _COMMON.format(package=package, python=python)


def write_launchers(folder: Path, installed: bool = False) -> list[Path]:
    """Write all launchers into ``folder`` and remove those of commands that are gone; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in (*LAUNCHERS, COMMON) and "machine.bin_files" in path.read_text(encoding="utf-8"):
            path.unlink()
    (folder / COMMON).write_text(common_text(installed), encoding="utf-8")
    written = []
    for name in LAUNCHERS:
        path = folder / name
        path.write_text(launcher_text(name), encoding="utf-8")
        path.chmod(0o755)
        written.append(path)
    return written


def write_entry_points(path: Path) -> None:
    """Write the package's own names of all commands into ``setup.cfg``; the rest of the file stays."""
    text = path.read_text(encoding="utf-8")
    scripts = ["nnet3py = nnet3py.cli.main:main",
               *(f"nnet3py-{name} = nnet3py.cli.main:run_person_name"
                 for name in sorted(PERSON_NAMES, key=lambda name: list(COMMANDS).index(PERSON_NAMES[name])))]
    before, start, rest = text.partition(_ENTRY_POINTS)
    lines = "".join(f"    {script}\n" for script in scripts)
    path.write_text(before + start + lines + rest[rest.index("\n["):], encoding="utf-8")


def main() -> None:
    """Write ``bin/`` and the entry points of the checkout."""
    print(f"{len(write_launchers(CHECKOUT_FOLDER))} launchers written to {CHECKOUT_FOLDER}")
    write_entry_points(CHECKOUT_FOLDER.parent / "setup.cfg")


if __name__ == "__main__":
    main()
