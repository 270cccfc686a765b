"""Makes the function of ``eigen.py`` that finds eigenvalues known to LLVM. Light: no numba.

It is compiled by itself. As a part of a kernel it would be compiled with what is around it, and round otherwise; then
training can go other ways (see there).
"""
from __future__ import annotations

from pathlib import Path

import llvmlite.binding

from nnet3py.machine_code.objects import Code
from nnet3py.ops.cpu import compiled, symbols


def _make() -> Code:
    from nnet3py.ops.cpu import eigen

    return eigen.make_part()


llvmlite.binding.add_symbol(symbols.EIGEN, compiled.address_of(Path(__file__).resolve().with_name("eigen.py"),
                                                               "decompose", _make))
