"""Kaldi's reference computations, by the checker that comes with the reference material."""
from __future__ import annotations

import pytest
from golden_cases import check_cases, is_recurrent


@pytest.mark.parametrize(("without_recurrence", "flags"), [
    (False, ["--no-shortcut", "--no-optimize", "--files", "--listing"]),
    # With a recurrence, natural gradient depends on how updates are grouped, and so on optimization.
    (True, ["--no-shortcut", "--no-optimize", "--updated"]),
    (False, ["--updated"]),
], ids=["plain", "updated", "optimized"])
def test_every_case_that_can_run_holds(without_recurrence, flags):
    check_cases(flags, without_recurrence, 40 if without_recurrence else 46)


def test_what_is_recurrent():
    nodes = ("component-node name=a component=a input=Append(input, IfDefined(Offset(b, -1)))\n"
             "component-node name=b component=b input=a\noutput-node name=output input=b objective=linear\n")
    assert is_recurrent(nodes)
    assert not is_recurrent(nodes.replace("IfDefined(Offset(b, -1))", "Offset(input, -1)"))
    assert is_recurrent("component-node name=m component=m input=Sum(input, IfDefined(Offset(c, 3)))\n"
                        "dim-range-node name=c input-node=m dim-offset=0 dim=2\n")
