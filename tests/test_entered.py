"""The plugin that says which functions no test entered."""
from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import entered

SOURCE = '''
class Shape:
    """A shape."""

    def area(self):
        """Its area."""
        return self._side() ** 2

    def promised(self):
        raise NotImplementedError

    def _side(self):
        return 3


def double(x):
    def inner():
        return 2 * x
    return inner()
'''


def test_functions_note_that_they_were_entered() -> None:
    seen: list[str] = []
    module: dict = {entered.NOTE: seen.append}
    exec(compile(entered.Noting().visit(ast.parse(SOURCE)), "source", "exec"), module)
    assert module["double"](4) == 8 and module["Shape"]().area() == 9
    assert seen == ["double", "double.inner", "Shape.area", "Shape._side"]
    assert module["Shape"].area.__doc__ == "Its area."


def test_what_others_may_call_and_does_something(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    assert entered.public_functions(tmp_path / "module.py") == ["Shape.area", "double"]


def test_compiled_files_are_left_alone() -> None:
    assert entered.is_compiled("ops/cpu/rows.py") and entered.is_compiled("lattices/path_loops.py")
    assert not entered.is_compiled("lattices/best_path.py")
    missing = entered.not_entered()
    assert ("compiler/request.py", "IoSpecification") not in missing and ("index.py", "as_indexes") in missing
    assert ("index.py", "as_indexes") not in entered.not_entered({("index.py", "as_indexes")})


def test_what_entered_a_function() -> None:
    seen = {("log.py", "log"): {"", "tests/test_log.py", "tests/test_cli.py"}, ("log.py", "Log.close"): {""}}
    assert entered.by_function(seen) == {"log.py": {"Log.close": [], "log": ["tests/test_cli.py", "tests/test_log.py"]}}


def test_test_files_are_told_apart(tmp_path: Path) -> None:
    """In a process of pytest, and in several."""
    imports = "from nnet3py.io.specifiers import is_token\nfrom nnet3py.index import as_indexes\n"
    for name, assertion in (("blanks", "not is_token('a b')"), ("number", "as_indexes([[0, 0, 0]]).shape == (1, 3)")):
        (tmp_path / f"test_{name}.py").write_text(f"{imports}\ndef test():\n    assert {assertion}\n")
    for processes in ("0", "2"):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "entered", "--entered=report.txt",
                               "--entered-by=by.json", "-n", processes, "test_number.py", "test_blanks.py"],
                              cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(Path(entered.__file__).parent)},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads((tmp_path / "by.json").read_text())
        assert found["index.py"]["as_indexes"] == ["test_number.py"]
        assert found["io/specifiers.py"]["is_token"] == ["test_blanks.py"]


def test_the_report() -> None:
    everything = [("io/tokens.py", "read"), ("io/tokens.py", "write"), ("log.py", "log")]
    assert entered.report(everything, [("io/tokens.py", "write")]).splitlines() == [
        "    1 of     2  io", "    1 of     1  log.py", "io/tokens.py: write",
        "2 of 3 public functions were entered by a test"]
