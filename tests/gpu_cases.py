"""Kaldi's reference computations on the GPU: ``pytest tests/gpu_cases.py``; part of ``make test-gpu``."""
from __future__ import annotations

import pytest
from golden_cases import check_cases


@pytest.mark.parametrize("flags", [["--no-optimize", "--no-shortcut"], ["--updated"]], ids=["plain", "updated"])
def test_every_case_holds(flags: list[str]) -> None:
    check_cases([*flags, "--device", "cuda"])
