"""The profile of one command as text: where its time goes by kind and by operation, and what the limits are."""
from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cpu_parts.processes import run

KINDS = {
    "products": "matrix products of the command list; GFLOP/s",
    "natural gradient": "what its steps add to those products, their Python and host algebra included; GFLOP/s",
    "elementwise": "all other operations; GB/s of the matrices named in their arguments",
    "overhead": "Python around the operations of the command list, in microseconds a command",
    "background": "operations in other threads (not part of the sum)",
    "compile": "making the command lists", "bind": "making calls of them",
    "kernels": "finding operations and loading their compiled code", "imports": "modules imported by then",
    "start": "the launch of Python, up to the first line of ours",
    "input and output": "copies of features and outputs", "reading and writing": "tables, examples; waiting for them",
    "model files": "reading and writing models, test mode", "objective": "objective function and its derivative",
    "max-change": "limits of the parameters' change, applying it", "orthonormal": "orthonormal constraint",
    "l2": "l2 regularization", "other": "Python that no timer stands around"}
SHOWN_OPERATIONS, SHOWN_PRODUCTS = 24, 20
MANY = 500         # rows


def profile(command: Sequence[str | Path], threads: int, folder: Path) -> dict[str, Any]:
    """Run the command of a launcher with timers, twice, since the first run may compile kernels; what they counted."""
    result = folder / "profile.json"
    for _ in range(2):
        run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); "
             "from cpu_parts.clock import main; main()", Path(__file__).parent.parent, result, repr(time.time()),
             Path(command[0]).name, *command[1:]], threads)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def describe(title: str, found: dict[str, Any], operations: float, rate: float) -> str:
    """The profile as lines of text.

    Parameters
    ----------
    found : what :func:`profile` gave
    operations : useful operations of the run
    rate : GFLOP/s of sgemm in the same session
    """
    rows = [*found["rows"], ("start", "Python", 1, found["start"], 0.0)]
    timers = found["timers"] * found["cost"]
    kinds: dict[str, list[float]] = {}
    for kind, _, calls, seconds, work in rows:
        record = kinds.setdefault(kind, [0, 0.0, 0.0])
        for i, value in enumerate((calls, seconds, work)):
            record[i] += value
    kinds["other"] = [1, found["total"] - timers - sum(r[1] for kind, r in kinds.items() if kind != "background"), 0.0]
    least = operations / 1e9 / rate
    lines = [f"== {title}: {found['total']:.2f} s, of which the timers took about {timers:.2f} s",
             f"The useful products, {operations / 1e9:.0f} GFLOP, take {least:.2f} s at the {rate:.0f} GFLOP/s of "
             f"sgemm: {least / (found['total'] - timers):.0%} of the time.", _memory(found["memory"]), "",
             f"{'kind':20} {'seconds':>8} {'share':>6} {'calls':>8}"]
    for kind, (calls, seconds, work) in sorted(kinds.items(), key=lambda item: -item[1][1]):
        note = _rate(kind, seconds, work)
        if kind == "overhead" and found["commands"]:
            calls = found["commands"]
            note = f"{seconds / calls * 1e6:.1f} us a command"
        lines.append(f"{kind:20} {seconds:8.3f} {seconds / found['total']:6.1%} {calls:8.0f}  {note:>18}  "
                     f"{KINDS.get(kind, '')}".rstrip())
    lines += ["", *_operations(rows), "", *_products(rows)]
    return "\n".join(lines) + "\n"


def _memory(peak: dict[str, int]) -> str:
    megabytes = {name: value / 1e6 for name, value in peak.items()}
    return (f"Peak memory {megabytes['end']:.0f} MB: {megabytes['before']:.0f} before the first run (Python, modules, "
            f"models), {megabytes['arena']:.0f} for the "
            "arena\nof all matrices, the rest for scratch space and examples.")


def _rate(kind: str, seconds: float, work: float) -> str:
    unit = {"products": "GFLOP/s", "natural gradient": "GFLOP/s", "elementwise": "GB/s"}.get(kind)
    return f"{work / seconds / 1e9:.0f} {unit}" if unit and seconds and work else ""


def _operations(rows: list[Any]) -> list[str]:
    """A line for each operation (products of all shapes together) and other timed place, the slowest first."""
    merged: dict[tuple[str, str], list[float]] = {}
    for kind, name, calls, seconds, work in rows:
        record = merged.setdefault((kind, name.split(" ")[0] if " x " in name else name), [0, 0.0, 0.0])
        for i, value in enumerate((calls, seconds, work)):
            record[i] += value
    lines = [f"{'operation':34} {'kind':20} {'calls':>7} {'seconds':>8} {'us a call':>10}"]
    slowest = sorted(merged.items(), key=lambda item: -item[1][1])
    for (kind, name), (calls, seconds, work) in slowest[:SHOWN_OPERATIONS]:
        lines.append(f"{name[:34]:34} {kind:20} {calls:7.0f} {seconds:8.3f} {seconds / calls * 1e6:10.1f}  "
                     f"{_rate(kind, seconds, work)}".rstrip())
    return lines


def _products(rows: list[Any]) -> list[str]:
    """A line for each kind of product, the slowest first: rows x inner dim x columns, which factor is transposed.

    "many" stands for any number of rows of activations from ``MANY`` on.
    """
    merged: dict[tuple[str, str], list[float]] = {}
    for kind, name, calls, seconds, work in rows:
        if " x " in name:
            record = merged.setdefault((_without_rows(name), kind), [0, 0.0, 0.0])
            for i, value in enumerate((calls, seconds, work)):
                record[i] += value
    lines = [f"{'product':42} {'kind':20} {'calls':>7} {'seconds':>8} {'us a call':>10}"]
    for (name, kind), (calls, seconds, work) in sorted(merged.items(), key=lambda item: -item[1][1])[:SHOWN_PRODUCTS]:
        lines.append(f"{name:42} {kind:20} {calls:7.0f} {seconds:8.3f} {seconds / calls * 1e6:10.1f}  "
                     f"{_rate(kind, seconds, work)}".rstrip())
    return lines


def _without_rows(name: str) -> str:
    """The name of a product whose number of activations' rows, if it is large, is not spelled out."""
    operation, m, _, k, _, n, flags = name.split(" ")
    if flags == "TN":          # a gradient or a moment: the inner dimension goes over rows
        k = "many" if int(k) >= MANY else k
    else:
        m = "many" if int(m) >= MANY else m
    return f"{operation} {m} x {k} x {n} {flags}"
