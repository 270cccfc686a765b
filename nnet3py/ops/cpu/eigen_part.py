"""Makes the function of ``eigen.py`` that finds eigenvalues known to LLVM. Light: no numba.

It is compiled by itself. As a part of a kernel it would be compiled with what is around it, and round otherwise; then
training can go other ways (see there).
"""
from __future__ import annotations

from pathlib import Path

import llvmlite.binding

from nnet3py.engine import kernel_files, symbols
from nnet3py.engine.code_files import Code


def _make() -> Code:
    from nnet3py.ops.cpu import eigen

    return eigen.make_part()


llvmlite.binding.add_symbol(symbols.EIGEN, kernel_files.address_of(Path(__file__).resolve().with_name("eigen.py"),
                                                               "decompose", _make))
