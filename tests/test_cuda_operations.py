"""The operations on the GPU, without one: the CPU's tests run on them in numba's simulator, and they compile to PTX."""
from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_checks import COMPUTE_CAPABILITIES, check_ptx

from nnet3py.ops import table

TESTS = Path(__file__).resolve().parent
# what of the CPU's test files runs in one process, whose operations it calls, and which of the elementwise ones
GROUPS = [("rows elementwise reductions random products", "rows reductions random products",
           "set_const copy_mat add_mat sum_mats mul_elements add_mat_elements add_vec_to_rows mul_cols_vec "
           "mul_rows_vec add_mat_diag_vec add_diag_vec_mat dropout_elements dropout_backprop "
           "binary_mask continuous_mask"),
          ("nonlinear structural", "nonlinear recurrent normalize structural",
           "sigmoid tanh relu sigmoid_backprop tanh_backprop relu_backprop"),
          ("per_element pooling convolution small_matrices natural_gradient numerators chain",
           "pooling convolution small_matrices natural_gradient numerators",
           "scale_and_offset scale_gradient_from_output")]
FAMILIES = [family for family in table.FAMILIES if family not in ("products", "chain")]
IN_DOUBLE = set("""_products _sigmoid_sums
    _tanh_sums _relu_sums _value_sums _square_sums _add_one _add_two low_slope_repair relu_repair batch_norm_store_stats
    _count_rows _clip_rows clip_gradient_repair _truncate _count_truncated lstm_self_repair lstm_store_stats
    specaugment_mask time_mask _add_weights _add_count orthogonalize natural_gradient_moments
    natural_gradient_directions preconditioned_size _sums_of_squares _put_sum _sums_of_rests _add_rests
    _put_factor output_deriv_stats_of_parts orthonormal_step _gru_sums _gru_repair chain_numerator
    chain_cyclic_numerator lattice_accuracies""".split())


def kernels(family: str) -> list[str]:
    from nnet3py.ops.cuda.launch import Kernel
    module = importlib.import_module(f"nnet3py.ops.cuda.{family}")
    return [name for name, value in vars(module).items()
            if isinstance(value, Kernel) and value.function.__module__ == module.__name__]


@pytest.mark.parametrize(("names", "families", "elementwise"), GROUPS)
def test_in_the_simulator(names, families, elementwise):
    files = [str(TESTS / f"test_ops_{name}.py") for name in names.split()]
    if "random" in names:
        files.append(str(TESTS / "test_resources.py"))
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1",
                                "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    command = [sys.executable, "-m", "pytest", "-p", "simulated_ops", "-p", "no:cacheprovider", "-x", "-q", *files]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS.parent)
    assert result.returncode == 0, result.stdout
    called = re.search(r"twins called: (.*)", result.stdout)
    assert called, result.stdout
    wanted = {operation.name for family in families.split() for operation in table.FAMILIES[family]}
    if "chain" in names:           # test_cuda_chain.py has the other operations of chain training
        wanted |= {"copy_from_sparse", "sum_product_sparse"}
    assert not (wanted | set(elementwise.split())) - set(called[1].split())


def test_every_family_is_tested():
    tested = " ".join(families for _, families, _ in GROUPS).split()
    elementwise = " ".join(names for _, _, names in GROUPS).split()
    assert sorted(elementwise) == sorted(operation.name for operation in table.FAMILIES["elementwise"])
    assert sorted([*tested, "elementwise", "chain"]) == sorted(table.FAMILIES)   # chain: more work space


@pytest.mark.parametrize("compute_capability", COMPUTE_CAPABILITIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_compiles_to_ptx(family, compute_capability):
    module, names = importlib.import_module(f"nnet3py.ops.cuda.{family}"), kernels(family)
    assert names
    for name in names:
        check_ptx(module, name, compute_capability, name in IN_DOUBLE)
