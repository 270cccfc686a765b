"""The kernels that a wheel would bring for this processor, made of what is compiled here already."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nnet3py.cli.machine.warmup import families, kernels_of
from nnet3py.engine import code_files, kernel_code, shipped
from nnet3py.engine.processor import processor


def write_set(folder: Path, only: Iterable[str] = ()) -> list[Any]:
    """Write the set for this processor below a folder; kernels that are not on disk are compiled. Its kernels."""
    target = folder / "set"
    target.mkdir(parents=True)
    kernels = [kernel for family in only or families("cpu") for kernel in kernels_of("cpu", family)]
    for kernel in kernels:
        code = code_files.find_or_make(kernel.key, kernel.make_code)
        (target / shipped.file_name(kernel.key)).write_bytes(
            kernel_code.to_bytes(code, shipped.belonging(kernel.key, processor())))
    return kernels


# What a process runs first that has these kernels and no others: it cannot compile, and says which it loads.
NO_COMPILER = """
import sys
from pathlib import Path

import llvmlite.binding as binding
from nnet3py.engine import processor, shipped


def refuse(*args, **options):
    raise SystemExit("the compiler was entered")


sys.modules["numba"] = None
binding.TargetMachine.emit_object = binding.TargetMachine.emit_assembly = refuse
binding.create_pass_builder = refuse
binding.ExecutionEngine.add_module = refuse
parse = binding.parse_assembly
binding.parse_assembly = lambda text, *args: parse(text, *args) if not text else refuse()
shipped.FOLDER = Path(sys.argv[1])
shipped.set_name = lambda made_for: "set"
"""
