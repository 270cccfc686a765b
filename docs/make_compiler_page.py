"""Writes the outputs in docs/compiler.md and its drawings anew: python docs/make_compiler_page.py

Every ```python block of the page is run, in order and in one namespace, and every ```sh block, which holds a command of
this package; what they print replaces the ```text block that follows directly. The rest of the page stays as it is.
"""
from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "compiler.md"
IMAGES = "images"
_BLOCK = re.compile(r"```(python|sh)\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)
_START = "import sys; from nnet3py.cli.main import main; main(sys.argv[1:])"


def run_page(text: str, folder: Path) -> str:
    """The page with outputs as they are now; its drawings are written into ``folder``/images."""
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)
    names: dict[str, Any] = {"__name__": "page"}
    with contextlib.chdir(folder) if hasattr(contextlib, "chdir") else _inside(folder):
        return _BLOCK.sub(lambda block: _renewed(block, names), text)


@contextlib.contextmanager
def _inside(folder: Path) -> Any:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _renewed(block: re.Match[str], names: dict[str, Any]) -> str:
    kind, code = block[1], block[2]
    output = _run_python(code, names) if kind == "python" else _run_commands(code)
    shown = f"\n```text\n{output.rstrip()}\n```\n" if output.strip() else ""
    return f"```{kind}\n{code}```\n{shown}"


def _run_python(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/compiler.md", "exec"), names)
    return printed.getvalue()


def _run_commands(code: str) -> str:
    """Each line is a command ``nnet3py NAME …``; standard output only."""
    printed = ""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[0] == "nnet3py", line
        done = subprocess.run([sys.executable, "-c", _START, *words[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr}")
        printed += done.stdout
    return printed


def main() -> None:
    """Write the page and its drawings."""
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(run_page(PAGE.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
        target = DOCS / IMAGES
        target.mkdir(exist_ok=True)
        for drawing in sorted((Path(folder) / IMAGES).iterdir()):
            (target / drawing.name).write_bytes(drawing.read_bytes())


if __name__ == "__main__":
    main()
