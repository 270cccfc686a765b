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


def checkout(folder: Path, monkeypatch: pytest.MonkeyPatch, *assertions: str) -> mutants.Mutant:
    """A module with a test file of each assertion, which is tried in this process; the mutant has >= for >."""
    (folder / "module.py").write_text(SOURCE)
    for number, assertion in enumerate(assertions):
        (folder / f"test_{number}.py").write_text(f"from module import is_larger\nassert {assertion}\n")

    def trial(test: str, copy: Path, processor_seconds: float, seconds: float) -> mutants.Trial:
        names: dict = {}
        exec((copy / "module.py").read_text(), names)
        passes = eval((copy / test).read_text().partition("assert ")[2], names)
        return mutants.Trial(0 if passes else 1, 1.0, 2.0)

    monkeypatch.setattr(mutants, "trial", trial)
    monkeypatch.setattr(mutants, "tests_of", lambda path: [f"test_{number}.py" for number in range(len(assertions))])
    return next(mutant for mutant in mutants.mutants_of("module.py", folder) if mutant.operator.endswith("Gt_GtE"))


@pytest.mark.parametrize(("assertions", "catcher"), [
    (["not is_larger(2)"], "test_0.py"),
    (["is_larger(3)"], ""),
    (["is_larger(3)", "not is_larger(2)"], "test_1.py"),
    ([], ""),
])
def test_a_mutant_is_caught_by_a_test_that_fails(tmp_path, monkeypatch, assertions, catcher):
    mutant = checkout(tmp_path, monkeypatch, *assertions)
    assert mutants.catcher(mutant, tmp_path, mutants.Unchanged(), {}) == catcher
    assert (tmp_path / "module.py").read_text() == SOURCE


def test_a_test_that_fails_on_the_unchanged_code_catches_nothing(tmp_path, monkeypatch, capsys):
    mutant = checkout(tmp_path, monkeypatch, "not is_larger(3)", "is_larger(3)")
    unchanged = mutants.Unchanged()
    assert mutants.catcher(mutant, tmp_path, unchanged, {}) == ""
    assert [fault.split(" after")[0] for fault in unchanged.faults()] == ["test_0.py fails on the unchanged code"]
    assert capsys.readouterr().out.startswith("error: test_0.py fails on the unchanged code")
    monkeypatch.setattr(mutants, "tests_of", lambda path: ["test_0.py"])
    assert mutants.catcher(mutant, tmp_path, unchanged, {}) is None
    assert capsys.readouterr().out == ""


def test_a_test_that_takes_too_long_on_the_unchanged_code_catches_nothing(tmp_path, monkeypatch, capsys):
    mutant = checkout(tmp_path, monkeypatch, "not is_larger(2)")
    monkeypatch.setattr(mutants, "MOST_SECONDS", 0.5)
    assert mutants.catcher(mutant, tmp_path, mutants.Unchanged(), {}) is None
    assert "test_0.py ends on the unchanged code after 1 s" in capsys.readouterr().out


def test_the_unchanged_code_is_tested_once(tmp_path, monkeypatch):
    mutant = checkout(tmp_path, monkeypatch, "is_larger(3)")
    sources, unchanged = [], mutants.Unchanged()

    def trial(test, copy, processor_seconds, seconds):
        sources.append((copy / "module.py").read_text())
        return mutants.Trial(0, 1.0, 2.0)

    monkeypatch.setattr(mutants, "trial", trial)
    for _ in range(2):
        mutants.catcher(mutant, tmp_path, unchanged, {})
    assert sources == [SOURCE, mutant.code(SOURCE), mutant.code(SOURCE)]


@pytest.mark.parametrize(("body", "status"), [
    ("assert is_larger(3)", 0), ("assert is_larger(2)", 1), ("while True: pass", -9), ("time.sleep(60)", None)])
def test_how_tests_end(tmp_path, body, status):
    (tmp_path / "module.py").write_text(SOURCE)
    (tmp_path / "test_body.py").write_text(f"import time\nfrom module import is_larger\ndef test():\n    {body}\n")
    limits = {-9: (2, 600), None: (60, 2)}.get(status, (60, 600))
    done = mutants.trial("test_body.py", tmp_path, *limits)
    assert done.status == status
    assert 0.0 < done.processor_seconds < 30.0 and done.seconds > 0.0


def test_waiting_is_tried_a_second_time_computing_is_not(tmp_path, monkeypatch):
    mutant = checkout(tmp_path, monkeypatch, "is_larger(3)")
    ends = {"waits twice": [0, None, 0, None], "was stopped": [0, None, 0, 0], "computes": [0, -9]}
    caught = {}
    for name, statuses in ends.items():
        left = iter(statuses)
        monkeypatch.setattr(mutants, "trial", lambda *args, left=left: mutants.Trial(next(left), 1.0, 1.0))
        caught[name] = mutants.catcher(mutant, tmp_path, mutants.Unchanged(), {})
        assert next(left, "none") == "none"
    assert caught == {"waits twice": "test_0.py", "was stopped": "", "computes": "test_0.py"}


def test_tests_of_a_module():
    assert mutants.tests_of("nnet3py/ops/cpu/rows.py")[0] == "tests/test_ops_rows.py"
    assert mutants.tests_of("nnet3py/ops/cpu/normalize.py")[0].startswith("tests/test_ops_")
    assert "tests/test_fuse_matrices.py" in mutants.tests_of("nnet3py/compiler/fuse/passes.py")
    assert (mutants.tests_of("nnet3py/ops/cuda/small_matrices.py")[0]
            == "tests/test_ops_small_matrices.py in the simulator")
    assert all(Path(mutants.ROOT, test).is_file() for test in mutants.tests_of("nnet3py/runtime/binding.py"))
    of_commands = mutants.tests_of("nnet3py/cli/chain/examples.py")
    assert of_commands[0] == mutants.OF_OPTIONS and "tests/test_cli_chain_egs.py" in of_commands


def test_tests_that_enter_a_function(tmp_path):
    (tmp_path / "module.py").write_text("def a():\n    if True:\n        def b():\n            return 1\n"
                                        "class C:\n    x = 1\n    def d(self):\n        return [2 for _ in 'a']\n")
    source = (tmp_path / "module.py").read_text()
    assert [mutants.function_at(source, line) for line in range(1, 9)] == [
        "a", "a", "a.b", "a.b", "", "", "C.d", "C.d"]
    entered_by = {"module.py": {"a": ["tests/test_all.py", "tests/test_a.py", "tests/test_mutants.py"], "a.b": []},
                  "other.py": {"f": ["tests/test_all.py"]}}
    assert mutants.tests_that_enter("module.py", 2, entered_by, tmp_path) == ["tests/test_a.py", "tests/test_all.py"]
    assert mutants.tests_that_enter("module.py", 4, entered_by, tmp_path) == []
    assert mutants.tests_that_enter("module.py", 6, entered_by, tmp_path) == []


def test_tests_that_enter_are_asked_after_those_of_the_module(tmp_path, monkeypatch):
    mutant = checkout(tmp_path, monkeypatch, "is_larger(3)", "not is_larger(2)")
    monkeypatch.setattr(mutants, "tests_of", lambda path: ["test_0.py"])
    assert mutants.catcher(mutant, tmp_path, mutants.Unchanged(), {}) == ""
    entered_by = {"module.py": {"is_larger": ["test_0.py", "test_1.py"]}}
    assert mutants.catcher(mutant, tmp_path, mutants.Unchanged(), entered_by) == "test_1.py"


def test_the_same_number_in_other_words_is_no_mutant():
    larger = mutants.Mutant("module.py", "core/NumberReplacer", 0, 1)
    assert not larger.is_another_program("x = 1.0e38\n") and larger.is_another_program("x = 1\n")


def test_what_is_no_program_is_no_mutant():
    plus = mutants.Mutant("module.py", "core/ReplaceBinaryOperator_Mul_Add", 0, 1)
    assert not plus.is_another_program("def step(x, *, y): ...\n")
    assert plus.is_another_program("y = x * x\n")


def results_of(monkeypatch: pytest.MonkeyPatch, *tests: str | None, interrupted: bool = False) -> int:
    """The exit status if mutants of two rooms, in turns, end so."""
    made = {room: [mutants.Mutant(f"nnet3py/{room}/__init__.py", "core/AddNot", k, 1) for k in range(2)]
            for room in ("io", "ops")}

    def run(drawn, processes, unchanged, entered_by):
        assert [mutant.path.split("/")[1] for mutant in drawn] == ["io", "ops", "io", "ops"]
        yield from zip(drawn, tests, strict=False)
        if interrupted:
            raise KeyboardInterrupt

    monkeypatch.setattr(mutants, "drawn", lambda paths, number, seed: made[paths[0].split("/")[1]])
    monkeypatch.setattr(mutants, "run", run)
    monkeypatch.setattr(mutants.Mutant, "change", lambda mutant, source: "")
    return mutants.main(["--rooms", "io", "ops", "--at-least=0.5", "--as-root"])


@pytest.mark.parametrize(("user", "words", "may"), [(0, [], False), (0, ["--as-root"], True), (1000, [], True)])
def test_who_may_run_it(monkeypatch, user, words, may):
    monkeypatch.setattr("os.geteuid", lambda: user)
    if may:
        assert mutants.main(["--check-user", *words]) == 0
    else:
        with pytest.raises(SystemExit, match="2"):
            mutants.main(["--check-user", *words])


def test_what_is_counted(monkeypatch, capsys):
    assert results_of(monkeypatch, "test_x.py", "", "test_x.py", "") == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "io: 2 of 2 mutants caught", "ops: 0 of 2 mutants caught",
        "2 of 4 mutants caught (0 could not be tested) in 0 minutes"]
    assert results_of(monkeypatch, "test_x.py", "", "", "") == 1
    assert results_of(monkeypatch, "test_x.py", "test_x.py", "test_x.py", None) == 1
    assert "ops: 1 of 1 mutants caught" in capsys.readouterr().out
    assert results_of(monkeypatch, "test_x.py", "test_x.py", "", interrupted=True) == 0
    assert "io: 1 of 2 mutants caught\nops: 1 of 1 mutants caught\n" in capsys.readouterr().out


def test_root_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(mutants.os, "geteuid", lambda: 0, raising=False)
    with pytest.raises(SystemExit):
        mutants.main(["--rooms", "io", "--number=1"])
    assert "another user than root" in capsys.readouterr().err
