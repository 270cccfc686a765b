"""gpu_steps.py and gpu_kit.py: a report after each step, whatever happens; a kit of what is missing, and no more."""
from __future__ import annotations

import os
import sys
import zipfile

import gpu_kit
import gpu_steps
import pytest
from gpu_steps import STEPS, Step

ENDED_IN = 30.0      # seconds in which a step that is over its limit must be gone, on a busy machine


def python(program: str, **named: object) -> Step:
    """A step that runs a program of one line."""
    return Step(**{"name": "step", "what": "", "command": ("{python}", "-S", "-c", program), "seconds": 60, **named})


def test_every_step_names_files_that_exist():
    for step in STEPS:
        for word in step.command:
            if word.endswith(".py"):
                assert (gpu_steps.ROOT / word).is_file(), word
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert {"tests/test_ops_rows.py", "tests/test_ops_chain.py"} <= set(gpu_steps.OPERATIONS)


def test_a_report_after_each_step_and_on_after_a_failure(tmp_path, capsys):
    report = tmp_path / "report" / "report.txt"
    steps = [python("print('first'); raise SystemExit(3)", name="first"),
             python(f"text = open({str(report)!r}).read(); assert 'with 3' in text; print('seen')", name="second"),
             python("", name="absent", needs="no-such-program")]
    assert gpu_steps.main(["--report", str(report.parent)], steps) == 1
    lines = report.read_text().splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["first", "FAILED"], ["second", "ok"], ["absent", "left"]]
    assert "seen" in lines and "seen" in (report.parent / "log.txt").read_text()
    assert capsys.readouterr().out.splitlines() == lines[:3]
    assert gpu_steps.main(["--report", str(report.parent), "absent"], steps) == 0


def test_a_step_over_its_limit_is_ended(tmp_path):
    result = gpu_steps.run(python("print('began', flush=True); import time; time.sleep(600)", seconds=1), os.environ,
                           tmp_path / "log")
    assert result.failed and "over its 1 s" in result.ended and result.output == "began\n"
    assert result.seconds < ENDED_IN


def test_what_needs_a_card_is_left_out_of_the_simulator(tmp_path):
    step = python("print(1)", in_simulator=False)
    result = gpu_steps.run(step, os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}, tmp_path / "log")
    assert result.ended == "left out: needs a card" and not result.failed
    assert gpu_steps.run(step, os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}, tmp_path / "log").output == "1\n"


def test_packages_of_a_kit_are_found(tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "shared").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "brought-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("brought.py", "WORD = 'brought'")
    step = python("import os, brought; print(brought.WORD, os.environ['NNET3PY_SHARED'])", name="use")
    assert gpu_steps.main(["--kit", str(tmp_path), "--report", str(tmp_path / "report")], [step]) == 0
    assert f"brought {tmp_path / 'shared'}" in (tmp_path / "report" / "report.txt").read_text()


@pytest.mark.parametrize(("args", "said"), [(["nothing"], "there is no step nothing"),
                                            (["--kit", "x"], "x is not a kit")])
def test_wrong_arguments(args, said, capsys):
    with pytest.raises(SystemExit):
        gpu_steps.main(args)
    assert said in capsys.readouterr().err


def test_a_kit_has_what_is_missing():
    requires = {"a": ["B_b>=2", "c; python_version < '3.11'", "d; extra == 'more'", "there>1"], "B_b": ["e"],
                "there": ["never"]}
    assert gpu_kit.needed(["a>1"], ["There"], "3.12", requires.get) == {"a": ">1", "b-b": ">=2", "e": ""}
    assert "c" in gpu_kit.needed(["a"], [], "3.10", requires.get)


def test_a_kit_for_this_machine_is_small():
    lacking = gpu_kit.needed(["nnet3py", *gpu_kit.BESIDES], gpu_kit.HAS, f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert {"kaldi-io", "hypothesis"} <= set(lacking) and not {"numpy", "numba", "llvmlite", "torch"} & set(lacking)
