"""Types of what public functions take and give: programs of users pass mypy's strictest checks, and run."""
from __future__ import annotations

import importlib
import inspect
import re
import runpy
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ForwardRef

import pytest
from paths import ROOT

import nnet3py
from nnet3py import log
from nnet3py.export.export_options import ExportSettings
from nnet3py.runtime.compute import ComputeSettings
from nnet3py.training.options import TrainerSettings

SCRIPTS = {"user_script": "numpy", "user_script_torch": "torch", "user_script_sklearn": "sklearn"}    # what they need
HERE = [name for name, package in SCRIPTS.items() if find_spec(package)]

# What a call gives is known: nothing of it is Any, but the shapes of arrays.
GIVEN = """
import numpy as np
import nnet3py
nnet = nnet3py.read_nnet("a.raw")
model = nnet3py.read_model("final.mdl")
feats = np.zeros((9, 3), np.float32)
recognizer = nnet3py.Recognizer("folder")
stream = recognizer.stream()
looped = nnet3py.LoopedComputer(nnet)
onnx = nnet3py.OnnxStream("a.onnx")
history = nnet3py.train(nnet, feats, [1, 2])
"""
CALLS = [
    "nnet(feats)", "nnet(feats, output=['a'])", "nnet([feats])", "nnet({'a': feats})", "nnet([feats], output=['a'])",
    "nnet({'a': feats}, output=['a'])", "model(feats)", "nnet3py.compute('a', feats)", "nnet['a']",
    "nnet['a'].parameters()", "list(nnet)", "nnet.summary()", "model.summary()", "nnet3py.summary(nnet).rows",
    "nnet3py.info(nnet)",
    "nnet3py.inspect('a')", "nnet3py.inspect('a').as_dict()", "nnet3py.compare(nnet, 'a').different",
    "nnet3py.gradients(nnet, feats)", "nnet3py.gradients(nnet, feats).input", "nnet3py.gradients(nnet, feats)[1]",
    "history['objective']", "history.epochs[0]", "nnet3py.freeze(nnet, '*')", "nnet3py.unfreeze(nnet)",
    "nnet3py.wer('a', 'b')", "nnet3py.wer('a', 'b').wer", "nnet3py.features('a.wav')", "nnet3py.vad(feats)",
    "nnet3py.xvector('a', 'a.wav')", "nnet3py.front_end('a')('a.wav')", "nnet3py.decode('a', feats)",
    "nnet3py.decode('a', feats).lattice.weights", "nnet3py.align('a', 'a.wav', 'text').words[0].phones",
    "recognizer.transcribe('a.wav')", "recognizer.transcribe('a.wav').words[0]", "recognizer.words", "stream.partial",
    "stream.accept_waveform(b'')", "stream.finish().nbest", "stream.result().lattice", "stream.adaptation",
    "looped.stream().accept(feats)", "onnx.accept(feats)", "nnet3py.quantize('a', 'b', 'int8', [feats])",
    "nnet3py.export_onnx(nnet, 'a')", "nnet3py.from_torch({}, nnet)", "dict(nnet3py.read_matrices('ark:a'))",
    "dict(nnet3py.read_egs('ark:a'))['a'].io", "dict(nnet3py.read_chain_egs('ark:a'))['a'].outputs",
    "dict(nnet3py.read_lattices('ark:a'))", "dict(nnet3py.read_alignments('ark:a'))", "model.priors",
    "model.transition_model", "nnet3py.read_model_folder('a').options", "nnet3py.fine_tune('a', 'b', 'c').scores",
    "nnet3py.compile(nnet, nnet3py.ComputationRequest([], [])).describe(nnet)", "nnet3py.from_onnx('a')",
    "nnet3py.from_onnx('a', model)", "nnet3py.decode_phones('a', feats).phones[0]", "nnet3py.diarize('a', 'a.wav')",
    "nnet3py.RnnLanguageModel('a').log_probs('text')", "recognizer(b'', 16000)", "model['a']", "list(model)",
    "nnet['a']['bias_params']", "history[0]", "recognizer.words[0]", "recognizer.words['a']", "looped(feats)",
    "float(nnet3py.wer('a', 'b'))", "nnet3py.decode(recognizer, feats)"]
WRONG = {        # calls that a type checker refuses
    "nnet3py.no_such_name": 'Module has no attribute "no_such_name"',
    "nnet(feats, frames=3)": "No overload variant",
    "nnet3py.export_onnx(nnet, 'a', streamed=True)": 'Unexpected keyword argument "streamed"',
    "nnet3py.train(nnet, feats, 3)": "has incompatible type",
    "nnet3py.wer(3, 4)": "has incompatible type"}


@pytest.mark.parametrize("script", HERE)
def test_programs_of_users_run(script: str, here: Path) -> None:
    try:
        runpy.run_path(str(ROOT / "tests" / f"{script}.py"), run_name="__main__")
    finally:
        log.show_log(None)


def test_type_checkers_know_what_there_is_what_goes_in_and_what_comes_out(tmp_path: Path) -> None:
    """Of programs in the scripts, which have no errors; and of ``CALLS``."""
    api = pytest.importorskip("mypy.api")
    calls, wrong = tmp_path / "calls.py", tmp_path / "wrong.py"
    calls.write_text(GIVEN + "".join(f"reveal_type({call})\n" for call in CALLS), encoding="utf-8")
    wrong.write_text(GIVEN + "".join(f"{call}\n" for call in WRONG), encoding="utf-8")
    said, problem, _ = api.run(["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary",
                                "--cache-dir", str(tmp_path / "cache"), str(calls), str(wrong),
                                *(str(ROOT / "tests" / f"{script}.py") for script in HERE)])
    lines, first = said.splitlines(), GIVEN.count("\n") + 1
    assert not problem
    assert [line for line in lines if "error:" in line and "wrong.py" not in line] == []
    for place, call in enumerate(CALLS, first):
        revealed = next(line for line in lines if f"calls.py:{place}: " in line)
        assert "Any" not in revealed.replace("tuple[Any, ...]", "shape").replace("builtins.tuple[shape]", "shape"), call
    for place, (call, wanted) in enumerate(WRONG.items(), first):
        assert any(f"wrong.py:{place}: error:" in line and wanted in line for line in lines), (call, said)


def test_settings_have_names_and_types_of_what_they_stand_for() -> None:
    for settings, whole in ((ExportSettings, nnet3py.ExportOptions), (TrainerSettings, nnet3py.TrainerOptions)):
        assert inspect.get_annotations(settings) == {name: ForwardRef(str(field.type), module=settings.__module__)
                                                     for name, field in whole.__dataclass_fields__.items()}
    parameters = inspect.signature(nnet3py.compute).parameters
    others = {"model", "feats", "ivector", "output"}
    assert inspect.get_annotations(ComputeSettings).keys() == parameters.keys() - others
    for name, given in inspect.get_annotations(ComputeSettings).items():
        assert given.__forward_arg__ == parameters[name].annotation


def public_values() -> Iterator[object]:
    """All public functions and classes, of the package and of its public submodules that can be loaded here."""
    yield from (getattr(nnet3py, name) for name in nnet3py._PUBLIC)
    for name in ("feat", "chain", "lattices", "ivectors"):
        package = importlib.import_module(f"nnet3py.{name}")
        yield from (getattr(package, each) for each in package._PUBLIC)
    for name, needed in (("torch", "torch"), ("torch_data", "torch"), ("sklearn", "sklearn")):
        if find_spec(needed):
            module = importlib.import_module(f"nnet3py.{name}")
            yield from (getattr(module, each) for each in module.__all__)


# What Python and scikit-learn call with anything.
ANYTHING = {"__eq__", "__contains__", "__getattr__", "__getnewargs__", "__getstate__", "__setstate__",
            "__sklearn_tags__"}


# What only a loss of one's own looks into.
OPAQUE = {"Loss.__call__: target", "Trainer.step: target"}


def test_public_functions_neither_take_nor_give_just_anything() -> None:
    wrong = set()
    for value in public_values():
        owners = value.__mro__ if isinstance(value, type) else ()
        members = [(f"{owner.__name__}.{name}", getattr(member, "fget", None) or getattr(member, "__func__", member))
                   for owner in owners if owner.__module__.startswith("nnet3py") for name, member in vars(owner).items()
                   if name.startswith("__") or not name.startswith("_")]
        members += [(owner.__name__, owner) for owner in owners if owner.__module__.startswith("nnet3py")]
        for name, function in members if owners else [(value.__name__, inspect.unwrap(value))]:      # type: ignore
            if name.rpartition(".")[2] in ANYTHING or not (inspect.isfunction(function) or inspect.isclass(function)) \
                    or function.__module__ == "nnet3py.option_fields":       # which type checkers see as a dataclass's
                continue
            wrong |= {f"{name}: {argument}" for argument, given in inspect.get_annotations(function).items()
                      if not argument.startswith("_") and re.search(r"\b(Any|object)\b", str(given))}
    assert wrong == OPAQUE
