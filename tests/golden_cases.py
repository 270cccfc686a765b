"""Which of Kaldi's reference cases this version can run: those made of component types that exist here.

    python tests/golden_cases.py FOLDER [--without-recurrence]

prints their names, separated by commas, for ``cases.py --only``. Without recurrence: no node depends on itself at
another time (with one, natural gradient depends on how model updates are grouped).
"""
from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paths import ROOT, shared_folder

from nnet3py.components.registry import COMPONENT_MODULES

TIMEOUT = 300     # seconds; it takes about five on a CPU

_NODE = re.compile(r"(?:component|dim-range|output)-node name=(\S+).* (?:input|input-node)=(.*)")


def is_recurrent(config: str) -> bool:
    """Whether some node of the config lines depends on itself."""
    lines = [match for match in map(_NODE.match, config.splitlines()) if match]
    sources = {match[1]: set(re.findall(r"[A-Za-z_][\w.-]*", match[2])) for match in lines}
    reached = {name: set(wanted) & set(sources) for name, wanted in sources.items()}
    for _ in sources:   # transitive closure by as many rounds as there are nodes
        for wanted in reached.values():
            wanted.update(*(reached[other] for other in list(wanted)))
    return any(name in wanted for name, wanted in reached.items())


def config_section(binary: bytes) -> str:
    """The config lines of a raw network file."""
    return binary.split(b"<Nnet3>", 1)[1].split(b"\n\n", 1)[0].decode("utf-8", "replace")


def binary_types(binary: bytes) -> set[str]:
    """The component types in a binary network file."""
    return {name.decode() for name in re.findall(rb"<ComponentName> \S+ <(\w+)>", binary)}


def runnable_cases(folder: Path, without_recurrence: bool = False) -> list[str]:
    """Names of the cases in ``folder`` that this version can run."""
    names = []
    for case in sorted(path.parent for path in folder.glob("*/request.txt")):
        binary = (case / "nnet.raw").read_bytes()
        wanted = not without_recurrence or not is_recurrent(config_section(binary))
        if wanted and binary_types(binary) <= set(COMPONENT_MODULES):
            names.append(case.name)
    return names


def check_cases(flags: list[str], without_recurrence: bool = False, at_least: int = 46,
                python: Sequence[str] = (sys.executable,)) -> None:
    """Run the checker on the runnable cases; all must hold. At least those of the first components are there.

    ``python``: what runs a program, with its first arguments.
    """
    folder = shared_folder("golden") / "cases"
    checker = shared_folder("check") / "cases.py"
    names = runnable_cases(folder, without_recurrence)
    assert len(names) >= at_least
    result = subprocess.run([*python, str(checker), str(folder), *flags, "--only", ",".join(names)], cwd=ROOT,
                            capture_output=True, text=True, timeout=TIMEOUT)
    lines = result.stdout.splitlines()
    assert lines[-1:] == [f"{len(names)} of {len(names)} cases hold"], result.stdout + result.stderr[-2000:]
    assert result.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--without-recurrence", action="store_true")
    arguments = parser.parse_args()
    print(",".join(runnable_cases(arguments.folder, arguments.without_recurrence)))
