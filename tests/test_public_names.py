"""Packages with public names, of functions and not of modules: loaded at first use, described, in the reference."""
from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from described import faults
from paths import ROOT

import nnet3py

PACKAGES = ("feat", "chain", "lattices", "ivectors")
WITH_EXTRAS = {"torch": "torch", "torch_data": "torch", "sklearn": "sklearn"}        # and the package that they need


def names_of(package: str) -> list[str]:
    module = importlib.import_module(f"nnet3py.{package}" if package else "nnet3py")
    return list(getattr(module, "_PUBLIC", None) or module.__all__)


def after(statements: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", statements], capture_output=True, text=True, timeout=60,
                          check=True).stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_where_they_are_said_to_be(package: str) -> None:
    module = importlib.import_module(f"nnet3py.{package}")
    for name, place in module._PUBLIC.items():
        value = getattr(module, name)
        assert value is getattr(sys.modules[place], name) and not inspect.ismodule(value)
        assert value.__module__ == place
    assert dir(module) == sorted(module._PUBLIC)
    with pytest.raises(AttributeError, match=f"module 'nnet3py.{package}' has no attribute 'nobody'$"):
        _ = module.nobody


def test_advice() -> None:
    with pytest.raises(AttributeError, match="did you mean 'best_path'"):
        _ = nnet3py.lattices.best_pth
    assert not hasattr(nnet3py.lattices, "_nothing")


def test_a_function_keeps_its_name_when_its_module_is_imported() -> None:
    assert after("from nnet3py.lattices.determinize import determinize_pruned\n"
                 "import nnet3py.lattices.forward_backward\n"
                 "from nnet3py.lattices import determinize, forward_backward\n"
                 "print(determinize.__name__, forward_backward.__name__)\n"
                 "import nnet3py\nprint(nnet3py.feat.resample.__name__)") == "determinize forward_backward\nresample\n"


def test_importing_one_loads_no_other() -> None:
    """And the package without its submodules: they are loaded at first use, and need not be imported."""
    assert after("import sys, nnet3py\nprint([name for name in sys.modules if name.startswith('nnet3py.')])\n"
                 "nnet3py.lattices\nprint('numpy' in sys.modules)\nnnet3py.lattices.DeterminizeOptions()\n"
                 "print('numpy' in sys.modules, 'nnet3py.lattices.best_path' in sys.modules)"
                 ) == "[]\nFalse\nFalse False\n"


def test_a_submodule_that_lacks_a_package_says_what_to_install() -> None:
    assert "pip install" in after(
        "import sys\nsys.modules['torch'] = None\nimport nnet3py\nprint(hasattr(nnet3py, 'torch'))\n"
        "try:\n    nnet3py.torch.ChainLoss\nexcept AttributeError as error:\n    print(error)").replace("False\n", "")


@pytest.mark.parametrize("package", ["", *PACKAGES, *(
    name for name, needed in WITH_EXTRAS.items() if find_spec(needed))])
def test_docstrings_say_what_goes_in_and_what_comes_out(package: str) -> None:
    """With the type and shape of every array."""
    module = importlib.import_module(f"nnet3py.{package}" if package else "nnet3py")
    assert {name: wrong for name in names_of(package) if (wrong := faults(getattr(module, name)))} == {}


def test_faults_of_docstrings_are_found() -> None:
    def function(feats: np.ndarray, count: int) -> np.ndarray:      # type: ignore[name-defined] # noqa: F821
        """Something.

        Parameters
        ----------
        feats : some

        Returns
        -------
        float32 (frames, dim)
        """

    assert faults(function) == ["no type and shape of feats", "no parameter count"]


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_same_names(package: str) -> None:
    text = (ROOT / "nnet3py" / package / "__init__.py").read_text(encoding="utf-8")
    pairs = re.findall(r"^    from ([\w.]+) import (\w+) as \2$", text, re.MULTILINE)
    assert {name: module for module, name in pairs} == importlib.import_module(f"nnet3py.{package}")._PUBLIC


def test_the_page_of_python_lists_all_functions() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for package in PACKAGES:
        row, = re.findall(rf"^\| `nnet3py\.{package}` \| (.*) \|$", page, re.MULTILINE)
        module = importlib.import_module(f"nnet3py.{package}")
        functions, classes = (re.findall(r"`(\w+)`", cell) for cell in row.split(" | "))
        assert (functions, classes) == tuple(
            [name for name in module._PUBLIC if inspect.isclass(getattr(module, name)) is is_class]
            for is_class in (False, True))


# What people look for in the reference, besides functions.
LOOKED_FOR = ("Result", "Word", "Stream", "LoopedStream", "CompactLattice", "TransitionModel", "ExportOptions",
              "OnnxStream", "quantize", "apply_edits")


def test_the_reference_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="make docs installs it")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import site_hooks

    pages = site_hooks.reference_pages()
    for name in LOOKED_FOR:
        place = getattr(nnet3py, name).__module__
        page, = (text for text in pages.values() if f"::: {place}.{name}\n" in text)
        assert "are imported from `nnet3py`: `from nnet3py import" in page
    for package in PACKAGES:
        module = importlib.import_module(f"nnet3py.{package}")
        page, = (text for text in pages.values() if f"are imported from `nnet3py.{package}`" in text)
        listed = re.findall(r"^::: (.*)$", page, re.MULTILINE)
        assert listed == [f"{place}.{name}" for name, place in module._PUBLIC.items()]
