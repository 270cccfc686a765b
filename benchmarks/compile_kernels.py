"""Where the time goes when all kernels are compiled: processor seconds of one process, by what numba and LLVM do.

    python benchmarks/compile_kernels.py [--only FAMILY ...]

Each part's own time, without that of the parts that it calls. Kernels are compiled into a folder of their own.
"""
from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any


class Clock:
    """Processor seconds of functions, each without what was spent in others that are timed."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inside: list[float] = []

    def time(self, owner: Any, name: str, part: str) -> None:
        """Have a function of a class or module timed as ``part``."""
        setattr(owner, name, self.timed(getattr(owner, name), part))

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """A function that is timed as ``part``."""
        def call(*args: Any, **named: Any) -> Any:
            start = time.process_time()
            self._inside.append(0.0)
            try:
                return function(*args, **named)
            finally:
                taken = time.process_time() - start
                self.seconds[part] += taken - self._inside.pop()
                if self._inside:
                    self._inside[-1] += taken

        return call


def time_all(clock: Clock) -> None:
    """Have all parts of compiling timed."""
    import llvmlite.binding as binding
    from llvmlite import ir
    from numba.core import codegen, compiler_machinery, lowering, postproc, typeinfer

    from nnet3py.engine import compiling, numba_target

    clock.time(compiler_machinery.PassManager, "_runPass", "numba: bytecode, rewriting, and its other passes")
    clock.time(typeinfer.TypeInferer, "propagate", "numba: types")
    clock.time(postproc.PostProcessor, "run", "numba: lifetimes of variables")
    clock.time(lowering.BaseLower, "lower", "numba: writing LLVM's language (lowering)")
    clock.time(compiling, "_python_entry", "entries: taking arguments apart")
    clock.time(ir.Module, "__repr__", "LLVM's language as text")
    clock.time(codegen.CPUCodeLibrary, "add_ir_module", "LLVM: reading and linking")
    clock.time(codegen.CPUCodeLibrary, "finalize", "LLVM: reading and linking")
    clock.time(numba_target._Library, "_optimize_functions", "LLVM: cleaning before linking")
    clock.time(numba_target._Library, "_optimize_final_module", "LLVM: optimizing")
    clock.time(binding.TargetMachine, "emit_object", "LLVM: machine code")


def main() -> None:
    """Compile, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a family of kernels, such as rows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(NNET3PY_CACHE=folder, NNET3PY_KERNELS="compiled")
        from nnet3py.cli.machine.warmup import warm_up

        clock = Clock()
        def compile_all() -> int:
            return sum(part.num_compiled for part in warm_up(["cpu"], options.only, 1))

        start = time.process_time()
        time_all(clock)
        loaded = time.process_time() - start
        count = clock.timed(compile_all, "the rest")()
    total = sum(clock.seconds.values())
    import numba

    print(f"machine: {platform.processor() or platform.machine()}, {os.cpu_count()} cores; Python "
          f"{platform.python_version()}, numba {numba.__version__}")
    for part, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        print(f"{part:55} {seconds:7.2f} s {100 * seconds / total:5.1f} %")
    print(f"{f'{count} kernels (besides {loaded:.1f} s for importing numba)':55} {total:7.2f} s")


if __name__ == "__main__":
    main()
