"""What a computation on disk is found by: all that it depends on, and nothing that training changes."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from component_configs import CONFIGS
from component_forms import make, row_patterns
from io_samples import reader_of, written
from random_cases import KINDS, case
from runtime_cases import LSTM, TDNN

import nnet3py
from nnet3py.compiler.cache_entry import to_bytes
from nnet3py.compiler.cache_key import computation_key, flags_of, request_digest, sources_digest, structure_of
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import Component
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode, set_learning_rate

EVERYTHING = """
input-node name=input dim=4
component name=t type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-1,0,2
component name=r type=RectifiedLinearComponent dim=4
component name=b type=BatchNormComponent dim=4
component name=d type=GeneralDropoutComponent dim=4 time-period=2
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component-node name=t component=t input=input
component-node name=r component=r input=t
component-node name=b component=b input=r
component-node name=d component=d input=b
component-node name=a component=a input=Append(d, Scale(0.5, Offset(input, -3)))
output-node name=output input=a
"""


def identity(nnet: Nnet) -> tuple[bytes, bytes]:
    return structure_of(nnet), flags_of(nnet)


def scrambled(nnet: Nnet) -> Nnet:
    """A copy with other parameters and statistics."""
    other, rng = nnet.copy(), np.random.default_rng(0)
    other.scale(float(rng.random()))
    for component in other.components:
        for values in component.parameters().values():
            values += rng.standard_normal(values.shape).astype(np.float32)
    return other


@pytest.mark.parametrize("number", range(2 * len(KINDS)))
def test_parameters_play_no_part(number: int) -> None:
    """Networks that differ in numbers only have one key, and one computation."""
    one = case(number)
    other = scrambled(one.nnet)
    assert identity(other) == identity(one.nnet)
    first, second = (to_bytes(nnet3py.compile(nnet, one.request), "0" * 64) for nnet in (one.nnet, other))
    assert first == second


@pytest.mark.parametrize("text", [TDNN, LSTM, EVERYTHING])
@pytest.mark.parametrize("binary", [True, False])
def test_a_network_that_was_written_and_read_is_the_same(text: str, binary: bool) -> None:
    nnet = Nnet.from_config(text)
    again = Nnet.read(reader_of(written(lambda writer: nnet.write_to(writer), binary=binary), binary))
    assert identity(again) == identity(nnet)


def test_learning_rates_matter_only_where_they_are_zero() -> None:
    nnet = Nnet.from_config(EVERYTHING)
    before = identity(nnet)
    set_learning_rate(nnet, 0.0625)
    assert identity(nnet) == before
    set_learning_rate(nnet, 0.0)
    assert identity(nnet) != before


@pytest.mark.parametrize("old, new", [
    ("time-offsets=-1,0,2", "time-offsets=-1,0,3"), ("time-offsets=-1,0,2", "time-offsets=-1,0,2 use-bias=false"),
    ("time-period=2", "time-period=3"), ("time-period=2", "time-period=0"), ("time-period=2", "block-dim=2"),
    ("BatchNormComponent dim=4", "BatchNormComponent dim=4 block-dim=2"),
    ("type=BatchNormComponent", "type=NormalizeComponent"), ("type=RectifiedLinear", "type=Sigmoid"),
    ("Offset(input, -3)", "Offset(input, -2)"), ("Scale(0.5,", "Scale(0.5000001,"),
    ("Append(d, Scale(0.5, Offset(input, -3)))", "Append(Scale(0.5, Offset(input, -3)), d)"),
    ("output-node name=output", "output-node name=other"), ("component=b input=r", "component=b input=t"),
    ("output-node name=output input=a", "output-node name=output input=a objective=quadratic")])
def test_every_change_of_the_structure_matters(old: str, new: str) -> None:
    assert EVERYTHING.count(old) == 1
    assert identity(Nnet.from_config(EVERYTHING.replace(old, new))) != identity(Nnet.from_config(EVERYTHING))


def test_test_modes_matter() -> None:
    nnet = Nnet.from_config(EVERYTHING)
    found = [identity(nnet)]
    for change in (set_batchnorm_test_mode, set_dropout_test_mode):
        change(nnet, True)
        found.append(identity(nnet))
    assert len(set(found)) == 3


def behavior(component: Component) -> tuple[object, ...]:
    """Of a few patterns of rows, how many a component can compute of how many, and what it makes of them."""
    return tuple((rows.name, rows.num_inputs, rows.num_outputs,
                  b"" if rows.indexes is None else written(lambda writer, made: made.write(writer), rows.indexes,
                                                           binary=True)) for rows in row_patterns(component))


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_behaves_differently_has_a_key_of_its_own(kind: str) -> None:
    """Of all forms of a component."""
    found: dict[tuple[bytes, bytes], set[tuple[object, ...]]] = {}
    for line in CONFIGS[kind]:
        nnet = Nnet()
        nnet.components = [make(kind, line)]
        found.setdefault(identity(nnet), set()).add(behavior(nnet.components[0]))
    assert found and all(len(behaviors) == 1 for behaviors in found.values())


def request(**changes) -> ComputationRequest:
    values = {"name": "input", "times": (0, 1, 2), "deriv": False, "out": "output", "model": False, "stats": False,
              "given": True, **changes}
    return ComputationRequest([IoSpecification(values["name"], [(0, t, 0) for t in values["times"]], values["deriv"])],
                              [IoSpecification(values["out"], [(0, 1, 0)], values["given"])], values["model"],
                              values["stats"])


def test_all_of_the_request_matters() -> None:
    changes = [{}, {"name": "inpu"}, {"times": (0, 2, 1)}, {"times": (0, 1)}, {"deriv": True}, {"out": "o"},
               {"model": True}, {"stats": True}, {"given": False}]
    assert len({request_digest(request(**change)) for change in changes}) == len(changes)
    assert request_digest(request()) == request_digest(request())
    both = [IoSpecification(name, [(0, 0, 0)]) for name in ("a", "b")]
    out = [IoSpecification("output", [(0, 0, 0)])]
    swapped = ComputationRequest(both[::-1], out), ComputationRequest(both, out), ComputationRequest(both[:1], out)
    assert len(set(map(request_digest, swapped))) == 3


def test_options_sources_and_the_shortcut_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(options: OptimizeOptions | None = None, shortcut: bool = True) -> str:
        return computation_key(b"s", b"f", request(), options or OptimizeOptions(), shortcut)

    found = {key(), key(shortcut=False)}
    for field in dataclasses.fields(OptimizeOptions):
        value = getattr(OptimizeOptions(), field.name)
        changed = not value if isinstance(value, bool) else "none" if isinstance(value, str) else 0
        found.add(key(dataclasses.replace(OptimizeOptions(), **{field.name: changed})))
    # What is fused is not a part of what is kept.
    assert len(found) == 2 + len(dataclasses.fields(OptimizeOptions)) - 1
    assert all(len(one) == 64 for one in found)
    monkeypatch.setattr("nnet3py.compiler.cache_key.sources_digest", lambda: b"another version")
    assert key() not in found


def test_the_sources_of_the_compiler_are_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A changed, new or renamed file of compiler, components or network gives another digest; others do not."""
    for folder in ("compiler/optimize", "components", "network", "ops"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr("nnet3py.compiler.cache_key._PACKAGE", tmp_path)
    found = [sources_digest.__wrapped__()]
    for name in ("compiler/a.py", "compiler/optimize/b.py", "components/c.py", "network/d.py", "index.py"):
        (tmp_path / name).write_text("one")
        found.append(sources_digest.__wrapped__())
    (tmp_path / "compiler/a.py").write_text("two")
    found.append(sources_digest.__wrapped__())
    (tmp_path / "compiler/a.py").rename(tmp_path / "compiler/e.py")
    found.append(sources_digest.__wrapped__())
    assert len(set(found)) == len(found)
    (tmp_path / "ops/kernel.py").write_text("one")
    assert sources_digest.__wrapped__() == found[-1]
