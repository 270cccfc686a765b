from __future__ import annotations

import inspect
import os
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module, util
from typing import ClassVar

import pytest

import nnet3py
from nnet3py.advice import NAMES, Advising, AdvisingType, arguments_elsewhere, elsewhere
from nnet3py.errors import UsageError


class Machine(Advising, metaclass=AdvisingType):
    _WHAT: ClassVar[str] = "a machine"
    _ELSEWHERE: ClassVar[Mapping[str, str]] = elsewhere(**{"fit learn_from": "machine.learn(data)"})
    _FROM_FILE: ClassVar[str] = "Machine.of(path) reads one"

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def learn(self) -> int:
        return self.size


@dataclass
class Settings:
    depth: int = 3


@arguments_elsewhere(Settings, width="size=", color_or_color="machines are gray")
def build(size: int, *, name: str = "", **settings: int) -> tuple[int, str, dict[str, int]]:
    """Build a machine."""
    return size, name, settings


def test_an_attribute_by_another_name_says_what_to_type() -> None:
    machine = Machine(3)
    for name, said in (("fit", "a machine has no 'fit': machine.learn(data)"), ("learn_from", "machine.learn(data)"),
                       ("LearnFrom", "machine.learn(data)"), ("lern", "did you mean 'learn'?"), ("Size", "'size'"),
                       ("xyzzy", "a machine has no 'xyzzy'")):
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(machine, name)
    assert not hasattr(machine, "fit") and not hasattr(machine, "__array__") and machine.learn() == 3
    with pytest.raises(AttributeError, match="a machine has no '_private'$"):
        machine._private                                                                       # noqa: B018
    assert pickle.loads(pickle.dumps(machine)).size == 3


def test_a_class_says_how_one_is_read() -> None:
    with pytest.raises(AttributeError, match=re.escape("Machine has no 'fit': machine.learn(data)")):
        Machine.fit                                                                            # noqa: B018
    with pytest.raises(UsageError, match=r"Machine\(\) does not take a path \(Machine.of\(path\) reads one\)"):
        Machine("final.raw")                                                                   # type: ignore[arg-type]
    assert str(inspect.signature(Machine)) == "(size: 'int' = 0)" and Machine(size=2).size == 2


def test_an_argument_by_another_name_says_what_to_type() -> None:
    assert build(1, name="a", depth=4) == (1, "a", {"depth": 4})
    assert build.__doc__ == "Build a machine." and "size" in inspect.signature(build).parameters
    for name, said in (("width", "build has no argument width= (did you mean size=?)"), ("color", "machines are gray"),
                       ("color", "machines are gray"), ("nam", "did you mean 'name'?"), ("dept", "'depth'"),
                       ("xyzzy", "it has size, name, depth")):
        with pytest.raises(UsageError, match=re.escape(said)):
            build(1, **{name: 1})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        build()                                                                                # type: ignore[call-arg]


def tables() -> Iterator[tuple[str, object, Mapping[str, str]]]:
    """Who lacks names, what has the others, and what to type instead."""
    yield "nnet3py", nnet3py, NAMES
    for name in nnet3py._SUBMODULES:
        if name in ("torch", "torch_data") and util.find_spec("torch") is None:
            continue
        if name == "sklearn" and util.find_spec("sklearn") is None:
            continue
        module = import_module(f"nnet3py.{name}")
        yield name, module, getattr(module, "_elsewhere", {})
    values = [getattr(nnet3py, name) for name in nnet3py._PUBLIC]
    waiting: list[type] = [value for value in values if isinstance(value, AdvisingType)] + [Advising]
    seen: set[type] = set()
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("nnet3py"):
            yield kind.__name__, kind, kind.__dict__.get("_ELSEWHERE", {})


def test_names_are_only_elsewhere_if_they_are_not_here() -> None:
    for where, owner, table in tables():
        here = set(nnet3py.__all__) | set(nnet3py._SUBMODULES) if owner is nnet3py else set(dir(owner))
        assert not here & table.keys(), where
    packages = {name.partition(".")[0] for name in os.listdir(os.path.dirname(nnet3py.__file__))}
    assert not packages & NAMES.keys(), "importing a module would hide the advice"


def test_what_to_type_exists() -> None:
    checked = 0
    for where, _, table in tables():
        for name, text in table.items():
            for attribute in re.findall(r"\bnnet3py\.([A-Za-z_]\w*)(?=[(. ]|$)", text):
                assert attribute in nnet3py.__all__ or attribute in nnet3py._SUBMODULES, (where, name, attribute)
                checked += 1
            for module, names in re.findall(r"from ([\w.]+) import ([\w, ]+)", text):
                if util.find_spec(module.partition(".")[0]) is None or (
                        "torch" in module and util.find_spec("torch") is None):
                    continue
                for each in names.split(", "):
                    assert hasattr(import_module(module), each), (where, name, each)
                    checked += 1
            for kind, attribute in re.findall(r"\b(nnet|model|recognizer|history|trainer)\.([a-z_]+)\b", text):
                owner = {"nnet": nnet3py.Nnet, "model": nnet3py.AcousticModel, "recognizer": nnet3py.Recognizer,
                         "history": nnet3py.History, "trainer": nnet3py.Trainer}[kind]
                instance = {"model": {"transition_model", "nnet", "priors"}, "history": set(),
                            "recognizer": {"words", "folder", "sample_rate"}}.get(kind, {"nnet"})
                assert hasattr(owner, attribute) or attribute in instance, (where, name, attribute)
                checked += 1
    assert checked > 150
