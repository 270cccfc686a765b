"""The Python interface that outside programs call: every line of it, for real, on a small network."""
from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
from paths import DATA, ROOT
from runtime_cases import ROUNDING, TDNN, assert_close, class_example, matrices_for, parameters, training_request

import nnet3py
from nnet3py.egs.example import EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX
from nnet3py.io.tables import TableWriter


@pytest.fixture
def nnet(here):
    """A network read from final.mdl in the current folder."""
    nnet3py.Nnet.from_config(TDNN, seed=3).write("final.mdl")
    return nnet3py.read_nnet("final.mdl")


def test_networks_from_files_and_config_text(nnet):
    made = nnet3py.Nnet.from_config(TDNN, seed=3)
    for name, value in parameters(made).items():
        np.testing.assert_array_equal(parameters(nnet)[name], value)
    assert any(not np.array_equal(value, parameters(nnet)[name])
               for name, value in parameters(nnet3py.Nnet.from_config(TDNN, seed=4)).items())
    for name, value in parameters(nnet3py.Nnet.from_config(TDNN)).items():      # seed 0
        np.testing.assert_array_equal(parameters(nnet3py.Nnet.from_config(TDNN, seed=0))[name], value)


@pytest.mark.parametrize("binary", [True, False])
def test_writing(nnet, binary):
    nnet.write("final.raw", binary=binary)
    again = nnet3py.read_nnet("final.raw")
    for name, value in parameters(nnet).items():
        np.testing.assert_allclose(parameters(again)[name], value, rtol=1e-5)      # text has seven digits
    nnet.write("default.raw")
    with open("default.raw", "rb") as file:
        assert file.read(2) == b"\0B"


def test_compute(nnet):
    feats = np.random.default_rng(0).standard_normal((30, 3))
    y = nnet3py.compute(nnet, feats, ivector=None, frames_per_chunk=50, device="cpu")
    assert y.dtype == np.float32 and y.shape == (30, 4)
    np.testing.assert_array_equal(nnet3py.compute(nnet, feats), y)


def test_a_training_computation(nnet):
    indexes, out_indexes = (io.indexes for io in (training_request().inputs + training_request().outputs))
    request = nnet3py.ComputationRequest(
        inputs=[nnet3py.IoSpecification("input", indexes, has_deriv=True)],
        outputs=[nnet3py.IoSpecification("output", out_indexes, has_deriv=True)],
        need_model_derivative=True, store_component_stats=False)
    computation = nnet3py.compile(nnet, request, optimize=True, shortcut=True)
    text = computation.describe(nnet)
    assert "a.Propagate(" in text and "begin backward commands" in text
    gradient = nnet.as_gradient()
    assert all(not value.any() for value in parameters(gradient).values())
    computer = nnet3py.Computer(computation, nnet, update=gradient, device="cpu")
    given = matrices_for(nnet, request)
    x, dy = given["input"], given["output"]
    computer.accept_input("input", x)
    computer.run()
    y = computer.output("output")
    computer.accept_input("output", dy)
    computer.run()
    dx = computer.output("input")
    assert y.shape == dy.shape and dx.shape == x.shape and y.dtype == dx.dtype == np.float32
    # The bias before a log-softmax: the derivatives' sum, less each row's total spread by the softmax.
    slope = (dy - np.exp(y) * dy.sum(axis=1, keepdims=True)).sum(axis=0)
    assert_close(gradient.component("c").parameters()["bias_params"], slope)

    before = parameters(nnet)
    trained = nnet3py.Computer(nnet3py.compile(nnet, request), nnet, update=nnet)      # trains in place
    trained.accept_input("input", x)
    trained.run()
    trained.accept_input("output", dy)
    trained.run()
    rate = 0.1
    assert_close(parameters(nnet)["c.bias_params"] - before["c.bias_params"], rate * slope, 10 * ROUNDING)


def test_lists_in_the_file_s_order(nnet):
    assert nnet.component_names == ["a", "t", "b", "s", "c", "l"]
    assert nnet.node_names[0] == "input" and nnet.node_names[-1] == "output"
    assert [name for name in nnet.node_names if name in nnet.component_names] == nnet.component_names
    assert type(nnet.component("t")).__name__ == "TanhComponent"


def test_parameters_are_views(nnet):
    values = nnet.component("c").parameters()
    assert list(values) == ["linear_params", "bias_params"] and nnet.component("t").parameters() == {}
    assert all(value.dtype == np.float32 for value in values.values())
    feats = np.random.default_rng(0).standard_normal((5, 3))
    computed = nnet3py.compute(nnet, feats)
    values["linear_params"][:] = 0
    values["bias_params"][:] = np.log([0.1, 0.2, 0.3, 0.4])
    assert np.abs(nnet3py.compute(nnet, feats) - np.log([0.1, 0.2, 0.3, 0.4])).max() < 1e-6
    assert not np.allclose(computed, nnet3py.compute(nnet, feats))
    nnet.write("edited.raw")
    assert not nnet3py.read_nnet("edited.raw").component("c").parameters()["linear_params"].any()


def test_info(nnet):
    text = nnet3py.info(nnet)
    assert "left-context: 5\n" in text and "right-context: 3\n" in text
    assert "component name=a type=AffineComponent, input-dim=9, output-dim=5" in text


def test_acoustic_models(tmp_path):
    path = DATA / "network" / "am-priors.mdl"
    model = nnet3py.read_model(str(path))
    assert isinstance(model, nnet3py.AcousticModel)
    assert model.priors.dtype == np.float32 and model.priors.sum() == pytest.approx(1.0, abs=1e-4)
    assert model.nnet.output_dim("output") == len(model.priors)
    assert model.transition_model is not None
    model.write(str(tmp_path / "again.mdl"))
    assert (tmp_path / "again.mdl").read_bytes() == path.read_bytes()
    again = nnet3py.read_model(tmp_path / "again.mdl")
    assert again == model and again.transition_model == nnet3py.read_transition_model(path) and again != model.nnet
    again.priors[0] *= 2
    assert again != model and len({again, model}) == 2
    again = nnet3py.read_model(path)
    again.transition_model.set_log_probs(again.transition_model.log_probs - np.float32(0.5))
    assert again != model and "10 pdfs" in repr(again)
    assert nnet3py.read_nnet(str(path)).component_names == model.nnet.component_names


def test_tables(nnet):
    feats, eg = np.arange(6, dtype=np.float32).reshape(2, 3), class_example()
    with TableWriter("ark:feats.ark", FLOAT_MATRIX) as matrices, TableWriter("ark:egs.ark", EXAMPLE) as examples:
        matrices.write("utt", feats)
        examples.write("eg", eg)
    found = {}
    for key, m in nnet3py.read_matrices("ark:feats.ark"):
        found[key] = m
    np.testing.assert_array_equal(found["utt"], feats)
    for key, example in nnet3py.read_egs("ark:egs.ark"):
        found[key] = example
    assert [io.name for io in found["eg"].io] == ["input", "output"]
    np.testing.assert_array_equal(found["eg"].io[0].indexes, eg.io[0].indexes)


def test_errors_have_one_base(nnet):
    for wrong in (lambda: nnet3py.read_nnet("missing"), lambda: nnet3py.Nnet.from_config("nonsense"),
                  lambda: nnet3py.compute(nnet, np.zeros((5, 9))), lambda: nnet.component("nobody"),
                  lambda: list(nnet3py.read_egs("ark:missing")), lambda: list(nnet3py.read_matrices("nonsense"))):
        with pytest.raises(nnet3py.Nnet3Error):
            wrong()


def test_names(nnet):
    assert set(nnet3py.__all__) <= set(dir(nnet3py))
    for name in nnet3py.__all__:
        assert getattr(nnet3py, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        _ = nnet3py.nobody


def heavy_modules_after(statement: str) -> set[str]:
    """Which of numpy, numba and scipy a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in ('numpy', 'numba', 'scipy') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(result.stdout.split())


def test_imports_are_lazy(nnet):
    assert heavy_modules_after("import nnet3py") == set()
    compile_ = ("import nnet3py\nnnet = nnet3py.read_nnet('final.mdl')\nio = nnet3py.IoSpecification\n"
                "r = nnet3py.ComputationRequest([io('input', [(0, t, 0) for t in range(-6, 8)])], "
                "[io('output', [(0, 0, 0)])])\nnnet3py.compile(nnet, r).describe(nnet)\nnnet3py.info(nnet)")
    assert heavy_modules_after(compile_) == {"numpy"}


def test_every_public_name_is_documented():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for name in set(nnet3py.__all__) - {"__version__"}:
        value = getattr(nnet3py, name)
        assert value.__doc__ and value.__doc__.strip(), name
        assert len(re.findall(rf"^\| `{name}` \| .{{15,}} \|$", page, re.MULTILINE)) == 1, f"{name} in the table"
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(set(nnet3py.__all__) - {"__version__"})


def test_type_checkers_see_every_public_name():
    tree = ast.parse((ROOT / "nnet3py" / "__init__.py").read_text(encoding="utf-8"))
    block, = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name
            seen[alias.name] = node.module
    assert seen.keys() == set(nnet3py.__all__)
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(nnet3py, name)


def test_dir_shows_names_only() -> None:
    assert dir(nnet3py) == sorted(nnet3py.__all__)


def test_folders_of_the_package_do_not_take_the_place_of_others() -> None:
    """``import torch`` or ``import vosk`` must not find ours, whatever of the package was imported before."""
    program = ("import sys; before = list(sys.path); import nnet3py.drivers, nnet3py.drivers.executor\n"
               "assert sys.path == before, sys.path")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
