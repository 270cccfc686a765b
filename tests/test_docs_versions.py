"""docs/versions.md: what is public is what the package offers, and the version is the same everywhere."""
from __future__ import annotations

import re
import subprocess
import sys

from paths import ROOT

import nnet3py

PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")


def test_public_submodules_are_those_of_the_package() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| names in Python"))
    assert re.findall(r"`nnet3py\.([a-z_]+)`", row) == list(nnet3py._SUBMODULES)


def test_one_version() -> None:
    version = nnet3py.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[0] == version
    shown = subprocess.run([sys.executable, "-m", "nnet3py", "--version"], capture_output=True, text=True, check=True,
                           cwd=ROOT)
    assert shown.stdout.startswith(f"nnet3py {version} ")
    assert f"To {version} from" in PAGE or f"To {version.rpartition('.')[0]}" in PAGE
