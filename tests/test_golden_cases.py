"""Kaldi's reference computations, by the checker that comes with the reference material."""
from __future__ import annotations

import subprocess
import sys

import pytest
from golden_cases import is_recurrent, runnable_cases
from paths import ROOT, shared_folder

TIMEOUT = 300     # seconds; it takes about five


@pytest.mark.parametrize(("without_recurrence", "flags"), [
    (False, ["--no-shortcut", "--no-optimize", "--files", "--listing"]),
    # With a recurrence, natural gradient depends on how updates are grouped, and so on optimisation.
    (True, ["--no-shortcut", "--no-optimize", "--updated"]),
    (False, ["--updated"]),
], ids=["plain", "updated", "optimized"])
def test_every_case_that_can_run_holds(without_recurrence, flags):
    folder = shared_folder("golden") / "cases"
    checker = shared_folder("check") / "cases.py"
    names = runnable_cases(folder, without_recurrence)
    assert len(names) >= (40 if without_recurrence else 46)      # those of the first components; more may follow
    result = subprocess.run([sys.executable, str(checker), str(folder), *flags, "--only", ",".join(names)], cwd=ROOT,
                            capture_output=True, text=True, timeout=TIMEOUT)
    lines = result.stdout.splitlines()
    assert lines[-1:] == [f"{len(names)} of {len(names)} cases hold"], result.stdout + result.stderr[-2000:]
    assert result.returncode == 0


def test_what_is_recurrent():
    nodes = ("component-node name=a component=a input=Append(input, IfDefined(Offset(b, -1)))\n"
             "component-node name=b component=b input=a\noutput-node name=output input=b objective=linear\n")
    assert is_recurrent(nodes)
    assert not is_recurrent(nodes.replace("IfDefined(Offset(b, -1))", "Offset(input, -1)"))
    assert is_recurrent("component-node name=m component=m input=Sum(input, IfDefined(Offset(c, 3)))\n"
                        "dim-range-node name=c input-node=m dim-offset=0 dim=2\n")
