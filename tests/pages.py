"""Code on the pages of the documentation, and running it as a reader would."""
from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paths import ROOT

Block = tuple[str, str]      # its kind (python, sh, text) and what stands in it


def blocks(text: str | Path, *kinds: str) -> list[Block]:
    """The blocks of a page or of a part of one, all of them or those of some kinds."""
    text = text.read_text(encoding="utf-8") if isinstance(text, Path) else text
    return [block for block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
            if not kinds or block[0] in kinds]


def shell(code: str, folder: Path | None = None, timeout: float | None = None) -> str:
    """Run commands in bash, with those of this checkout; what they print."""
    done = subprocess.run(["bash", "-e", "-c", code], cwd=folder, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, "NNET3PY_PYTHON": sys.executable,
                                                "PATH": f"{ROOT / 'bin'}{os.pathsep}{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_blocks(page: Iterable[Block], names: dict[str, Any], folder: Path | None = None) -> list[str]:
    """Run a page from top to bottom, its Python in one namespace; what each block of code printed.

    A block of text is what the block before it must have printed.
    """
    printed: list[str] = []
    for kind, text in page:
        if kind == "text":
            assert text == printed[-1]
        elif kind == "sh":
            printed.append(shell(text, folder))
        else:
            assert kind == "python", kind
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, "page", "exec"), names)
            printed.append(output.getvalue())
    return printed
