"""nnet3py compile: its report, its options, and what it refuses."""
from __future__ import annotations

from pathlib import Path

import pytest
from compiler_cases import CASES, RNN, TDNN, read_request

from nnet3py import compile as compile_request
from nnet3py.cli.main import load
from nnet3py.compiler.generate import generate_computation
from nnet3py.network.nnet import Nnet

COMMAND = load("nnet3-compile")


@pytest.fixture
def model(here: Path) -> str:
    Nnet.from_config(TDNN).write("tdnn.raw")
    return "tdnn.raw"


def report(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert COMMAND.execute(words) == 0
    return capfd.readouterr().out


def test_the_natural_request(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = report(["--frames=6", "--frame-subsampling-factor=3", "--num-sequences=2", "--train", model], capfd)
    assert "input-0: name=input, has-deriv=false, indexes=[(0,-4:7), (1,-4:7)]" in text
    assert "output-0: name=output, has-deriv=true, indexes=[(0,0), (0,3), (1,0), (1,3)]" in text
    for heading in ("# Passes", "# Commands by kind", "# Listing: optimized", "# Matrices", "# Peak memory",
                    "# Operations"):
        assert f"\n{heading}" in text
    assert "need-model-derivative: true" in text and "\nmove-sizing-commands " in text
    short = report(["--summary", "--frames=6", model], capfd)
    assert "# Passes" in short and "# Listing" not in short and "# Matrices" not in short


def test_recorded_requests(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nnet = Nnet.from_config((CASES / "rnn-simple" / "config.txt").read_text())
    nnet.write(str(tmp_path / "raw"))
    asked = CASES / "rnn-simple" / "request.txt"
    text = report(["--passes=unoptimized", f"--request={asked}", str(tmp_path / "raw")], capfd)
    assert generate_computation(nnet, read_request(asked)).describe(nnet) in text
    assert compile_request(nnet, read_request(asked), shortcut=False).describe(nnet) in text


def test_ranges_passes_and_drawings(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--input=input:-4:4", "--output=output:0:2", "--input-derivs=input", "--svg=drawn"]
    text = report([*words, "--passes=convert-addition,unoptimized", model], capfd)
    assert "# Listing: unoptimized\n" in text and "# Listing: convert-addition\n" in text
    assert "name=input, has-deriv=true" in text and "need-model-derivative: false" in text
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["graph.svg", "memory.svg", "network.svg"]
    COMMAND.execute([*words, "--summary", model])
    said = capfd.readouterr().err
    assert all(f"Wrote drawn/{name}.svg\n" in said for name in ("network", "graph", "memory"))
    everything = report([*words, "--verbose-passes", model], capfd)
    assert everything.count("# Listing: ") > text.count("# Listing: ") and "(it changed nothing)" in everything


def test_passes_can_be_switched_off(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = report(["--train", "--optimization.convert-addition=false", model], capfd)
    assert "convert-addition" not in text and "optimize-row-ops" in text
    assert "optimize-row-ops" not in report(["--optimization.optimize=false", model], capfd)


def test_statistics_are_asked_for(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert "store-component-stats: true" in report(["--store-stats", model], capfd)


@pytest.mark.parametrize("words, message", [
    (["--passes=nonsense"], "no pass 'nonsense' ran"), (["--input=input:0:5"], "give --output"),
    (["--input=input:5:0", "--output=output:0"], "holds no times"), (["--frames=0"], "1 is the least"),
    (["--output=output:0"], "has a range of frames, but --input was not given"), (["--request=nowhere"], "nowhere"),
    (["--request=tdnn.raw"], "line 1 of the request is not understood"),
    (["--request=nowhere", "--frames=3"], "--frames has no effect with --request"),
    (["--input=input:0:9", "--output=output:4", "--frames=3"], "--frames has no effect with --input"),
    (["--input=x:0", "--output=output:0"], "no input with name x"), (["--output=x"], "no output with name x"),
    (["--input=input:0:3", "--output=output:0:5"], "output(0,0) needs b(0,0) needs r(0,-3) needs a(0,-3) needs input"),
    (["--train", "--input-derivs=x"], "is not an input of the request"), (["--num-sequences=0"], "1 is the least"),
    (["--num-sequences=2000000000"], "are the most"), (["--frames=2000000000"], "are the most"),
    (["--svg=tdnn.raw/x"], "cannot be made"), (["--svg=tdnn.raw"], "cannot be made"),
    (["--extra-left-context=-1"], "--extra-right-context=0: expected 0 or more")])
def test_what_is_refused(model: str, words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.execute([*words, model]) == 255
    captured = capfd.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1 and message in errors[0] and "Traceback" not in captured.err and not captured.out


def test_files_that_are_no_model(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text("hello\n")
    for name in ("text", "nowhere"):
        assert COMMAND.execute([name]) == 255
    assert COMMAND.execute([]) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_recurrent_networks(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    Nnet.from_config(RNN).write("rnn.raw")
    text = report(["--frames=4", "--extra-left-context=3", "--train", "rnn.raw"], capfd)
    assert "indexes=[(0,-3:3)]" in text and "kBackpropNoModelUpdate" in text
