"""mutants.py: what is changed, which tests are asked, and that a caught mutant is told from a survivor."""
from __future__ import annotations

from pathlib import Path

import mutants
import pytest

pytest.importorskip("cosmic_ray", reason="make mutants installs cosmic-ray")

SOURCE = '''"""A module."""
from __future__ import annotations


def is_larger(a: int | None, b: int = 2) -> bool | None:
    if a is None:
        raise ValueError("a" * 3)
    return a > b
'''


def test_annotations_and_messages_are_left(tmp_path):
    (tmp_path / "module.py").write_text(SOURCE)
    found = list(mutants.mutants_of("module.py", tmp_path))
    assert {mutant.line for mutant in found} == {5, 6, 8}
    assert {mutant.operator for mutant in found if mutant.line == 8} >= {"core/ReplaceComparisonOperator_Gt_GtE"}
    changes = [mutant.change(SOURCE) for mutant in found if mutant.operator.endswith("Gt_GtE")]
    assert changes == ["-    return a > b\n+    return a >= b"]


@pytest.mark.parametrize(("body", "caught"), [("not is_larger(2)", True), ("is_larger(3)", False)])
def test_a_mutant_is_caught_by_a_test_that_fails(tmp_path, monkeypatch, body, caught):
    (tmp_path / "module.py").write_text(SOURCE)
    (tmp_path / "test_module.py").write_text(f"from module import is_larger\n\n\ndef test():\n    assert {body}\n")
    monkeypatch.setattr(mutants, "tests_of", lambda path: ["test_module.py"])
    mutant = next(mutant for mutant in mutants.mutants_of("module.py", tmp_path) if mutant.operator.endswith("Gt_GtE"))
    assert mutants.is_caught(mutant, tmp_path) is caught
    assert (tmp_path / "module.py").read_text() == SOURCE


def test_tests_of_a_module():
    assert mutants.tests_of("nnet3py/ops/cpu/rows.py")[0] == "tests/test_ops_rows.py"
    assert "tests/test_fuse_copies.py" in mutants.tests_of("nnet3py/compiler/fuse/copies.py")
    assert all(Path(mutants.ROOT, test).is_file() for test in mutants.tests_of("nnet3py/runtime/binding.py"))


def test_root_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(mutants.os, "geteuid", lambda: 0, raising=False)
    with pytest.raises(SystemExit):
        mutants.main(["--rooms", "io", "--number=1"])
    assert "another user than root" in capsys.readouterr().err
