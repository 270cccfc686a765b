"""What somebody types first who knows other libraries: it works, or one line says what to type."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime_cases import TDNN

import nnet3py

FEATS = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)


@pytest.fixture
def nnet() -> nnet3py.Nnet:
    return nnet3py.Nnet.from_config(TDNN)


@pytest.mark.parametrize("code", [
    "nnet", "nnet.summary()", "nnet(feats)", "nnet['t']", "list(nnet)", "'t' in nnet",
    "nnet.input_dim(), nnet.output_dim()",
    "nnet3py.compute(nnet, feats, output='t')", "nnet3py.compute(nnet, feats, output=['t', 'output'])",
    "nnet3py.compute(nnet, [feats, feats[:7]])", "nnet3py.compute(nnet, np.stack([feats, feats]))",
    "nnet3py.gradients(nnet, feats, targets=classes)", "nnet3py.train(nnet, feats, classes)",
    "nnet3py.train(nnet, (feats, classes))",
    "nnet3py.train(nnet, feats, np.eye(nnet.output_dim())[classes])", "nnet3py.summary(nnet)", "nnet3py.info(nnet)",
    "nnet.write('a.raw'), nnet3py.read_nnet('a.raw'), nnet3py.inspect('a.raw')", "nnet.copy()", "help(nnet3py.train)",
    "nnet3py.NnetTrainer(nnet)", "nnet3py.Trainer(nnet)", "nnet3py.Trainer(nnet).step(feats, classes)",
    "nnet3py.Loss(max)", "nnet3py.train(nnet, feats, classes, loss=lambda y, t: (0.0, 0 * y))",
    "nnet3py.UtteranceComputer(nnet)", "nnet3py.LoopedComputer(nnet)",
    "nnet3py.LoopedComputer(nnet).stream()", "nnet3py.Computer(nnet3py.compile(nnet, nnet3py.ComputationRequest("
    "[nnet3py.IoSpecification.frames('input', 1, -5, 9)], "
    "[nnet3py.IoSpecification.frames('output', 1, 0, 2)])), nnet)"])
def test_it_works(code: str, nnet: nnet3py.Nnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    classes = np.arange(len(FEATS)) % nnet.output_dim()
    value = eval(code, {"nnet": nnet, "nnet3py": nnet3py, "np": np, "feats": FEATS, "classes": classes})
    assert "object at 0x" not in repr(value)


@pytest.mark.parametrize(("code", "advice"), [
    ("nnet.forward(feats)", "nnet(feats)"), ("nnet.predict(feats)", "nnet(feats)"),
    ("nnet.fit(feats, feats)", "nnet3py.train"), ("nnet.step(feats)", "nnet3py.Trainer(nnet).step(feats, targets)"),
    ("nnet3py.train(nnet, feats, feats, loss='mse')", "expected a function (output, target)"),
    ("nnet3py.train(nnet, feats, feats, loss=lambda y, t: 1.0)", "returned float, expected (value, derivative)"),
    ("nnet.eval()", "computes in test mode"),
    ("nnet.to('cuda')", "device='cuda'"), ("nnet.save('x')", "nnet.write"), ("nnet.layers", "nnet.summary()"),
    ("nnet.context", "nnet3py.info(nnet)"),
    ("nnet.parameters()", "nnet[name].parameters()"), ("nnet.sumary()", "did you mean 'summary'"),
    ("nnet['tt']", "did you mean 't'"), ("nnet3py.load('x')", "nnet3py.read_nnet"),
    ("nnet3py.transcribe('a.wav')", "Recognizer"), ("nnet3py.Nnet3Classifier", "from nnet3py.sklearn import"),
    ("nnet3py.comput", "did you mean 'compute'"), ("nnet3py.compute(nnet, feats, output='o')", "no node 'o'"),
    ("nnet3py.compute(nnet, feats, ivector=np.zeros(5))", "give or leave out ivector="),
    ("nnet3py.compute(nnet, feats[:, :2])", "dimension 3 but you provided 2"),
    ("nnet3py.compute(nnet, feats[0])", "(frames, dim)"), ("nnet3py.train(nnet, feats)", "expected arrays"),
    ("nnet3py.train(nnet, feats, np.full(30, 99))", "99"), ("nnet3py.train(nnet, feats, np.zeros(7, int))", "30"),
    ("nnet3py.train(nnet, feats, np.zeros(30))", "expected integers (30,)"),
    ("nnet3py.train(nnet, feats, feats, feats)", "train(nnet, [(feats, targets, ivector)])"),
    ("nnet3py.gradients(nnet, feats)", "targets=classes"), ("nnet3py.inspect(nnet)", "nnet3py.summary(nnet)"),
    ("nnet3py.read_nnet('no.mdl')", "no.mdl")])
def test_it_says_what_to_type(code: str, advice: str, nnet: nnet3py.Nnet, tmp_path: Path,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((nnet3py.Nnet3Error, AttributeError), match=re.escape(advice)) as raised:
        eval(code, {"nnet": nnet, "nnet3py": nnet3py, "np": np, "feats": FEATS})
    assert "\n" not in str(raised.value).strip()


def test_every_public_class_shows_what_it_is() -> None:
    values = (getattr(nnet3py, name) for name in nnet3py._PUBLIC)
    assert [value.__name__ for value in values
            if isinstance(value, type) and value.__repr__ is object.__repr__] == []


def test_what_is_not_there_is_not_there(nnet: nnet3py.Nnet) -> None:
    assert not hasattr(nnet, "fit") and not hasattr(nnet, "__array__") and not hasattr(nnet3py, "load")


def test_importing_stays_light() -> None:
    code = ("import sys, nnet3py; from nnet3py import log; hasattr(nnet3py, 'load'); "
            "print([name for name in ('numpy', 'numba', 'sklearn', 'difflib') if name in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
