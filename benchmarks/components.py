"""How far every component type is from Kaldi, measured on Kaldi's reference computations.

    python benchmarks/components.py [FOLDER] [--device=cpu|cuda]

FOLDER holds a folder per case, as tests/data/cases (the default) does. Prints a row for each type: the cases, and the
largest differences of output, derivative at the input, gradient of the parameters and change by one training step with
natural gradient, each as a fraction of the largest value. A type that no case is about is measured by the networks that
contain it, gradients and changes then being those of all their components. Outputs and derivatives at inputs are those
of the whole network of the case. A dash: there is no such number, or it is constant and so tells nothing. The rows are
those of the table in docs/components.md; benchmarks/results/components.txt holds what all of the reference material
gave.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from case_runs import Differences, differences  # noqa: E402

from nnet3py.components.registry import COMPONENT_MODULES  # noqa: E402

SUBJECT = "c"        # the component that a small case is about


def largest(values: Iterable[float | None]) -> str:
    """The largest of those that are known, or a dash."""
    known = [value for value in values if value is not None]
    return f"{max(known):.1e}" if known else "–"


def test_file(kind: str) -> str:
    """The tests of a type against its definition."""
    return f"tests/test_components_{COMPONENT_MODULES[kind].rpartition('.')[2]}.py"


def rows(cases: dict[str, Differences]) -> list[str]:
    """A row of a Markdown table for each component type."""
    found = []
    for kind in sorted(COMPONENT_MODULES):
        chosen = {name: case for name, case in cases.items() if case.types.get(SUBJECT) == kind}
        own = bool(chosen)
        chosen = chosen or {name: case for name, case in cases.items() if kind in case.types.values()}
        measured = {name: [c for c in case.types if case.types[c] == kind or not own] for name, case in chosen.items()}
        cells = [", ".join(sorted(chosen)) or f"none, but {test_file(kind)}",
                 largest(case.output for case in chosen.values()),
                 largest(case.input_deriv for case in chosen.values()),
                 largest(case.gradient.get(c) for name, case in chosen.items() for c in measured[name]),
                 largest(case.update.get(c) for name, case in chosen.items() for c in measured[name])]
        found.append(f"| {kind} | " + " | ".join(cells) + " |")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=TESTS / "data" / "cases")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    cases = {path.parent.name: differences(path.parent, arguments.device)
             for path in sorted(arguments.folder.glob("*/request.txt"))}
    print("| type | cases | output | input derivative | parameter gradient | update |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows(cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
