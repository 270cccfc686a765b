"""egs/notebooks: every cell runs, from top to bottom, and no output is kept in the files."""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

FOLDER = ROOT / "egs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# What a notebook does: the value of a cell's last line is shown, as HTML where it can be.
RUN = """
import ast, json, sys
names = {"__name__": "__main__"}
for number, source in enumerate(json.load(sys.stdin)):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        if value is not None:
            print(value)
            assert not hasattr(value, "_repr_html_") or value._repr_html_()
"""


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run(path: Path, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "demo.wav", tmp_path)
    sources = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
    done = subprocess.run([sys.executable, "-c", RUN], input=json.dumps(sources), cwd=tmp_path, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and "Traceback" not in done.stderr and "object at 0x" not in done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_files_hold_no_outputs(path: Path) -> None:
    first, *others = cells(path)
    assert first["cell_type"] == "markdown" and first["source"][0].startswith("# ")
    assert len({cell["id"] for cell in (first, *others)}) == len(others) + 1
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in others
               if cell["cell_type"] == "code")


def test_every_notebook_is_listed() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 7 and all(f"]({path.name})" in text for path in NOTEBOOKS)
    assert (FOLDER / "demo.wav").read_bytes() == (ROOT / "tests" / "data" / "demo.wav").read_bytes()
