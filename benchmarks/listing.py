"""Our optimized command lists beside Kaldi's: commands by kind, and the most memory held at any command.

usage: listing.py [FOLDER]

FOLDER has a folder per case, each with nnet.raw (or config.txt), request.txt and Kaldi's computation.txt (default: the
cases in tests/data that have them). The exit status is 1 if ours is larger anywhere.
"""
from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import nnet3py
from nnet3py.compiler.optimize import OptimizeOptions

KINDS = (
    (re.compile(r"\.Propagate\("), "propagate"), (re.compile(r"\.Backprop\w*\("), "backprop"),
    (re.compile(r"\.set\("), "set"), (re.compile(r"\.swap\("), "swap"), (re.compile(r"= undefined\("), "alloc"),
    (re.compile(r"= \[\]"), "dealloc"), (re.compile(r"= user input"), "accept"), (re.compile(r"^output "), "provide"),
    (re.compile(r"\.\w*Rows\w*\(|RowRanges\("), "rows"), (re.compile(r"ompressMatrix|compress"), "compress"),
    (re.compile(r"\+= "), "add"), (re.compile(r"^m\d+(\([^)]*\))? = "), "copy"))
COLUMNS = (*(kind for _, kind in KINDS), "other")
FLOAT_BYTES = 4


def read_request(path: Path) -> nnet3py.ComputationRequest:
    """A request.txt: a line for each input and output, then flags."""
    ios: dict[str, list[nnet3py.IoSpecification]] = {"input": [], "output": []}
    flags = {}
    for line in path.read_text().splitlines():
        if line.startswith(("input ", "output ")):
            kind, name, deriv, *rows = line.split()
            indexes = np.array([row.split(",") for row in rows]).astype(np.int32)
            ios[kind].append(nnet3py.IoSpecification(name, indexes, deriv.endswith("1")))
        elif "=" in line:
            name, value = line.split("=")
            flags[name] = value == "1"
    return nnet3py.ComputationRequest(ios["input"], ios["output"], **flags)


def command_lines(text: str) -> list[str]:
    """The commands of a printed computation, without their numbers."""
    return re.findall(r"^c\d+: (.*)$", text, re.MULTILINE)


def kinds(text: str) -> Counter[str]:
    """How many commands of each kind a printed computation has."""
    return Counter(next((kind for pattern, kind in KINDS if pattern.search(line)), "other")
                   for line in command_lines(text))


def peak_memory(text: str) -> int:
    """The most bytes that the matrices of a printed computation hold at any command."""
    sizes = {name: int(rows) * int(columns) * FLOAT_BYTES
             for name, rows, columns in re.findall(r"\b(m\d+)\((\d+), (\d+)\)", text.split("\n", 1)[0])}
    held: set[str] = set()
    peak = 0
    for line in command_lines(text):
        name = line.split(" ", 1)[0].split("(")[0]
        if "= undefined(" in line or "= user input" in line:
            held.add(name)
        elif "= []" in line:
            held.discard(name)
        elif ".swap(" in line:
            taker, giver = re.findall(r"m\d+", line)[:2]
            held.add(taker)
            held.discard(giver)
        peak = max(peak, sum(sizes[one] for one in held))
    return peak


def read_network(folder: Path) -> nnet3py.Nnet:
    """The network of a case."""
    if (folder / "nnet.raw").exists():
        return nnet3py.read_nnet(str(folder / "nnet.raw"))
    return nnet3py.Nnet.from_config((folder / "config.txt").read_text())


def cases(root: Path) -> list[Path]:
    """The folders below ``root`` that are cases, each name once."""
    folders = {path.parent.name: path.parent for path in sorted(root.rglob("computation.txt"), reverse=True)
               if (path.parent / "request.txt").exists()}
    return [folders[name] for name in sorted(folders)]


def compare(folder: Path) -> tuple[tuple[int, int], tuple[int, int], tuple[Counter[str], Counter[str]]]:
    """Of a case, ours and Kaldi's: number of commands, most memory held, commands by kind."""
    nnet = read_network(folder)
    ours = nnet3py.compile(nnet, read_request(folder / "request.txt"), OptimizeOptions(fuse="none")).describe(nnet)
    theirs = (folder / "computation.txt").read_text()
    counts = kinds(ours), kinds(theirs)
    return (counts[0].total(), counts[1].total()), (peak_memory(ours), peak_memory(theirs)), counts


def main() -> int:
    logging.disable(logging.WARNING)
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "tests" / "data"
    folders = cases(root)
    print(f"{'':34}{'total':>9} {'peak bytes':>19} " + " ".join(f"{kind:>9}" for kind in COLUMNS) + "   (ours/Kaldi's)")
    more_commands, more_memory = [], []
    for folder in folders:
        totals, peaks, counts = compare(folder)
        more_commands += [folder.name] * (totals[0] > totals[1])
        more_memory += [folder.name] * (peaks[0] > peaks[1])
        cells = " ".join(f"{f'{counts[0][kind]}/{counts[1][kind]}':>9}" for kind in COLUMNS)
        mark = " *" if totals[0] > totals[1] or peaks[0] > peaks[1] else ""
        print(f"{folder.name:34}{f'{totals[0]}/{totals[1]}':>9} {f'{peaks[0]}/{peaks[1]}':>19} {cells}{mark}")
    print(f"{len(folders)} cases. More commands than Kaldi: {', '.join(more_commands) or 'none'}. "
          f"More memory: {', '.join(more_memory) or 'none'}.")
    return 1 if more_commands or more_memory else 0


if __name__ == "__main__":
    sys.exit(main())
