"""Networks on a device: what is taken from the host; tests/test_cuda_training.py compares what comes of it."""
from __future__ import annotations

import ast

import pytest
from paths import ROOT

from nnet3py.network.nnet import Nnet
from nnet3py.ops import get_ops
from nnet3py.runtime.parameter_store import host_of, on_device

WITH_STATE = {"OnlineNaturalGradient", "_Mask"}     # objects that a component and its copy on a device share


def test_on_the_cpu_a_store_has_the_network_s_own_components() -> None:
    nnet = Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n")
    store = on_device(nnet, get_ops("cpu"))
    assert store.components is nnet.components and (store.version, store.component_names) == (nnet.version, [])
    assert host_of(store) is host_of(nnet) is nnet
    assert on_device(store, get_ops("cpu")) is store


def test_on_the_cpu_nothing_is_waited_for() -> None:
    store, calls = on_device(Nnet.from_config("input-node name=input dim=2\noutput-node name=output input=input\n"),
                             get_ops("cpu")), []
    store.when_done(lambda: calls.append("done"))
    assert calls == ["done"] and store.num_reports() == 0
    store.run_reports()
    assert calls == ["done"]


@pytest.mark.parametrize("path", sorted((ROOT / "nnet3py" / "components").glob("*.py")), ids=lambda path: path.stem)
def test_what_runs_on_a_device_sets_no_attribute(path) -> None:
    """It would be one of a copy, which the host's settings overwrite before the next run."""
    classes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
               if isinstance(node, ast.ClassDef) and node.name not in WITH_STATE]
    wrong = [f"{kind.name}.{method.name}:{node.lineno}" for kind in classes for method in kind.body
             if isinstance(method, ast.FunctionDef) and method.name != "__init__"
             and "ops" in {argument.arg for argument in method.args.args} for node in ast.walk(method)
             if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
             and ast.unparse(node.value) == "self"]
    assert not wrong
