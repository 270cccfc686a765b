"""docs/coming-from-kaldi.md: its links lead somewhere, its figures were measured, its commands and variables exist."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py.cli.machine.bin_files import common_text, launcher_names
from nnet3py.ops.table import OPERATIONS

DOCS = ROOT / "docs"
PAGE = (DOCS / "coming-from-kaldi.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results"


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(first_cell: str, text: str = PAGE) -> list[list[str]]:
    """The rows of the table whose head begins so."""
    body = re.search(rf"^\| {first_cell} \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", text, re.MULTILINE)
    assert body is not None
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body[1].splitlines()]


@pytest.mark.parametrize("name", ["coming-from-kaldi.md", "tutorial.md", "training.md", "commands.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)]*)\)", (DOCS / name).read_text(encoding="utf-8"))
    assert links
    for link in links:
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (DOCS / path).resolve() if path else DOCS / name
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_the_commands_on_the_page_exist() -> None:
    named = set(re.findall(r"`(nnet3-[a-z0-9-]+)", PAGE))
    assert len(named) > 10 and named <= set(launcher_names())


def test_training_times_are_the_measured_ones() -> None:
    measured = re.findall(r"^digits (\w+), one pass +([\d.]+) s +Kaldi elsewhere, scaled, one thread +([\d.]+) +"
                          r"ratio +(\S+)",
                          (RESULTS / "cpu.txt").read_text(encoding="utf-8"), re.MULTILINE)
    speed = PAGE.split("\n## How fast\n")[1]
    assert measured
    assert rows("network", speed) == [[name, f"{float(ours):.1f} s", f"{float(kaldi):.1f} s", ratio]
                                      for name, ours, kaldi, ratio in measured], \
        "write the figures of benchmarks/results/cpu.txt into the table"


def test_readme_shows_the_measured_targets() -> None:
    table = [line for line in (RESULTS / "cpu.txt").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert len(table) > 10
    assert "\n".join(table) in (ROOT / "README.md").read_text(encoding="utf-8"), \
        "put the table at the end of benchmarks/results/cpu.txt into README.md"


def test_environment_variables_are_those_that_the_code_reads() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "nnet3py").rglob("*.py"))
    code += common_text() + (ROOT / "egs" / "digits" / "path.sh").read_text(encoding="utf-8")
    named = {row[0].strip("`") for row in rows("variable")}
    assert {name for name in named if name.startswith("NNET3PY_")} == set(re.findall(r"\bNNET3PY_[A-Z0-9_]+", code))


def test_what_is_said_of_the_gpu() -> None:
    kernels = [operation.name for operation in OPERATIONS.values()
               if any(f"\ndef {operation.name}(" in path.read_text(encoding="utf-8")
                      for path in (ROOT / "nnet3py" / "ops" / "cuda").glob("*.py"))]
    assert ("One operation has a CUDA kernel" in PAGE) == (len(kernels) == 1)
