"""Finding component classes by Kaldi's type names."""
from __future__ import annotations

import subprocess
import sys

import pytest
from paths import DATA

from nnet3py.components.base import Component
from nnet3py.components.registry import (
    COMPONENT_MODULES,
    PRECOMPUTED_MODULES,
    component_class,
    precomputed_indexes_class,
)
from nnet3py.errors import ConfigError, FormatError


def test_every_type_of_kaldi_is_there_and_no_other():
    assert sorted(COMPONENT_MODULES) == (DATA / "component-types.txt").read_text().split()


@pytest.mark.parametrize("name", sorted(COMPONENT_MODULES))
def test_every_type_has_its_class(name):
    found = component_class(name)
    assert issubclass(found, Component) and found.__name__ == name


@pytest.mark.parametrize("name, hint", [("AfineComponent", "did you mean AffineComponent?"), ("Xyzzy", None)])
def test_an_unknown_type_is_named_with_its_neighbor(name, hint):
    with pytest.raises(ConfigError) as error:
        component_class(name)
    assert error.value.message == (f"Unknown component-type '{name}' in config file.  "
                                   "Check your code version and config.")
    assert error.value.hint == hint


def test_only_what_is_used_is_imported():
    code = ("import sys; from nnet3py.components.registry import component_class; "
            "component_class('AffineComponent'); "
            "sys.exit('numba' in sys.modules or 'nnet3py.components.tdnn' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", sorted(PRECOMPUTED_MODULES))
def test_precomputed_indexes_have_their_class(name):
    found = precomputed_indexes_class(name)
    assert found.__name__ == name and callable(found.read) and callable(found.write)


def test_unknown_precomputed_indexes():
    with pytest.raises(FormatError, match="unknown precomputed indexes 'XPrecomputedIndexes'"):
        precomputed_indexes_class("XPrecomputedIndexes")
