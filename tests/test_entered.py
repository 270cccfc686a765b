"""The plugin that says which functions no test entered."""
from __future__ import annotations

import ast
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
    assert list(entered.public_functions(tmp_path / "module.py")) == ["Shape.area", "double"]


def test_compiled_files_are_left_alone() -> None:
    assert entered.is_compiled("ops/cpu/rows.py") and entered.is_compiled("lattices/path_loops.py")
    assert not entered.is_compiled("lattices/best_path.py")
    missing = entered.not_entered(set())
    assert ("compiler/request.py", "IoSpecification") not in missing and ("index.py", "as_indexes") in missing
    assert ("index.py", "as_indexes") not in entered.not_entered({("index.py", "as_indexes")})


def test_the_report() -> None:
    everything = [("io/tokens.py", "read"), ("io/tokens.py", "write"), ("log.py", "log")]
    assert entered.report(everything, [("io/tokens.py", "write")]).splitlines() == [
        "    1 of     2  io", "    1 of     1  log.py", "io/tokens.py: write",
        "2 of 3 public functions were entered by a test"]
