"""Compiles every GPU kernel for two generations of GPUs and prints what ptxas makes of it; needs no GPU.

    python benchmarks/cuda_kernels.py [--write] [--only rows.copy_rows]

For each kernel: registers of a thread, bytes spilled to local memory (stores and loads), bytes of a thread's stack, and
bytes of shared memory of a block. With ``--write`` the table goes to benchmarks/results/cuda-kernels.txt. NVVM and
ptxas are taken from the CUDA toolkit or from the wheels that the extra ``test-ptx`` brings; without ptxas only sizes of
PTX are shown.
"""
from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))   # nnet3py, where it is not installed
RESULTS = ROOT / "benchmarks" / "results" / "cuda-kernels.txt"
COMPUTE_CAPABILITIES = ((7, 5), (9, 0))
_FACTS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "spilled": re.compile(r"(\d+) bytes spill stores"),
    "reloaded": re.compile(r"(\d+) bytes spill loads"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


def kernels() -> Iterator[tuple[str, str, Any]]:
    """Module, name and kernel of all kernels of the package."""
    import nnet3py.ops.cuda
    from nnet3py.ops.cuda.launch import Kernel

    for info in sorted(pkgutil.iter_modules(nnet3py.ops.cuda.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"nnet3py.ops.cuda.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, Kernel) and value.function.__module__ == module.__name__:
                yield info.name, name, value


def ptxas() -> str | None:
    """The path of ptxas: on PATH, in the toolkit or in a wheel; None if there is none."""
    from nnet3py.ops.device import toolkit_folders

    found = shutil.which("ptxas")
    return found or next((str(path) for folder in toolkit_folders()
                          if (path := folder / "bin" / "ptxas").is_file()), None)


def facts(assembler: str, ptx: str, compute_capability: tuple[int, int]) -> dict[str, int]:
    """What ptxas says of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        target = f"-arch=sm_{compute_capability[0]}{compute_capability[1]}"
        result = subprocess.run([assembler, "-v", target, str(source), "-o", str(source.with_suffix(".cubin"))],
                                capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"ptxas does not take the kernel: {result.stderr}")
    return parse(result.stderr)


def parse(text: str) -> dict[str, int]:
    """The numbers in ptxas' report on a kernel; the last of each, which belongs to the entry; 0 where it is silent."""
    return {name: int((pattern.findall(text) or ["0"])[-1]) for name, pattern in _FACTS.items()}


def version(assembler: str) -> str:
    """ptxas' own version."""
    text = subprocess.run([assembler, "--version"], capture_output=True, text=True, check=True).stdout
    return text.strip().splitlines()[-1]


def table(only: str = "") -> list[str]:
    """The lines of the table, with totals below; of kernels whose names contain ``only``."""
    import numba

    assembler = ptxas()
    lines = [f"GPU kernels of nnet3py, compiled by numba {numba.__version__}"
             + (f" and ptxas ({version(assembler)})" if assembler else "; ptxas is not installed"),
             "a thread: registers, bytes spilled+reloaded, bytes of stack; a block: bytes of shared memory; PTX lines",
             ""]
    targets = [f"sm_{major}{minor}" for major, minor in COMPUTE_CAPABILITIES]
    head = "".join(f"{target:>8} regs  spill  stack shared    ptx" for target in targets)
    lines.append(f"{'kernel':<44}{head}")
    count = spilling = 0
    for family, name, kernel in kernels():
        if only not in f"{family}.{name}":
            continue
        row, spills = f"{family + '.' + name:<44}", False
        for compute_capability in COMPUTE_CAPABILITIES:
            ptx = kernel.ptx(compute_capability)
            found = facts(assembler, ptx, compute_capability) if assembler else parse("")
            spill = f"{found['spilled']}+{found['reloaded']}" if found["spilled"] or found["reloaded"] else "0"
            row += (f"{found['registers']:>13}{spill:>7}{found['stack']:>7}{found['shared']:>7}"
                    f"{len(ptx.splitlines()):>7}")
            spills |= spill != "0"
        lines.append(row)
        count, spilling = count + 1, spilling + spills
    return [*lines, "", f"{count} kernels, {spilling} with spills"]


def main() -> None:
    """Print the table, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only kernels whose names contain this")
    parser.add_argument("--write", action="store_true", help="keep the table of all kernels")
    options = parser.parse_args()
    if options.only and options.write:
        parser.error("--write keeps the table of all kernels: leave out --only")
    text = "\n".join(table(options.only)) + "\n"
    print(text, end="")
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
