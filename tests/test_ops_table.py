"""The table of operations, and that both devices hold to it."""
from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys

import pytest
import reference

from nnet3py.engine import kinds
from nnet3py.engine.jit import Kernel
from nnet3py.ops import get_ops, table
from nnet3py.ops.cpu import plain
from nnet3py.ops.formulas import elements

DEVICES = ("cpu", "cuda")
SCALARS = ("f32", "f64", "int", "bool", "f32cell", "intcell")


def family_module(device: str, family: str):
    name = f"nnet3py.ops.{device}.{family}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def function_of(operation):
    return getattr(operation, "function", operation)


def test_names_are_declared_once():
    names = [operation.name for members in table.FAMILIES.values() for operation in members]
    assert len(names) == len(set(names)) == len(table.OPERATIONS)


def test_kinds_are_the_ones_kernels_know():
    assert {argument.kind for operation in table.OPERATIONS.values() for argument in operation.arguments} <= set(
        kinds.TYPES)
    with pytest.raises(ValueError, match="unknown argument kinds"):
        kinds.kinds_of("mat tensor")


def test_kinds_are_read_from_the_declaration():
    copy_rows = table.OPERATIONS["copy_rows"]
    assert [a.name for a in copy_rows.arguments] == ["dst", "src", "indexes", "alpha"]
    assert copy_rows.kinds == "mat mat ivec f32"


@pytest.mark.parametrize("name", sorted(table.OPERATIONS))
def test_an_operation_is_well_declared(name):
    operation = table.OPERATIONS[name]
    *written, returns = (text.startswith("Out[") or text for text in operation.declaration.__annotations__.values())
    written = [one is True for one in written]
    scalars = [argument.kind in SCALARS for argument in operation.arguments]
    assert operation.meaning[0].isupper() or operation.meaning[0] == "`", "a sentence, or a formula"
    assert returns in ("None", "float", "int")
    assert name in vars(reference), "each operation has a slow twin in tests/reference.py"
    assert any(written) or returns != "None"
    assert sorted(written, reverse=True) == written, "destinations come first"
    assert sorted(scalars) == scalars, "scalars come last"


@pytest.mark.parametrize("name", sorted(table.OPERATIONS))
def test_devices_hold_to_the_table(name):
    operation, family = table.OPERATIONS[name], table.FAMILY_OF[name]
    made = {device: getattr(family_module(device, family), name, None) for device in DEVICES}
    made["cpu"] = made["cpu"] or getattr(plain, name, None)
    for device, twin in made.items():
        assert twin is not None, f"{name} is missing in nnet3py/ops/{device}/{family}.py"
        _, *declared = inspect.signature(operation.declaration).parameters.values()
        parameters = inspect.signature(function_of(twin)).parameters.values()
        assert [(p.name, p.default) for p in parameters] == [(p.name, p.default) for p in declared], device
        if hasattr(twin, "kinds"):
            assert " ".join(twin.kinds) == operation.kinds, device
        assert inspect.getdoc(twin) == operation.meaning, device


@pytest.mark.parametrize("family", sorted(table.FAMILIES))
def test_public_kernels_are_declared(family):
    for device in DEVICES:
        module = family_module(device, family)
        declared = {operation.name for operation in table.FAMILIES[family]}
        assert module is not None or device != "cpu" or not declared, f"no module nnet3py/ops/cpu/{family}.py"
        kernels = {name for name, value in vars(module).items() if type(value).__name__ == Kernel.__name__
                   and value.function.__module__ == module.__name__} if module else set()
        assert {name for name in kernels if not name.startswith("_")} <= declared, device


def test_formulas_have_the_arguments_of_their_operations():
    for operation in table.FAMILIES["elementwise"]:
        parameters = inspect.signature(getattr(elements, operation.name)).parameters
        assert list(parameters) == [argument.name for argument in operation.arguments]
    assert set(elements.COSTS) <= {operation.name for operation in table.FAMILIES["elementwise"]}


def test_operations_become_attributes():
    ops = get_ops("cpu")
    assert ops is get_ops("cpu")
    first = ops.copy_rows
    assert vars(ops)["copy_rows"] is first
    with pytest.raises(AttributeError, match="no operation is called 'copy_columns'"):
        _ = ops.copy_columns


def test_importing_the_table_imports_no_numba():
    code = "import sys, nnet3py.ops, nnet3py.ops.table; print('numba' in sys.modules, 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
