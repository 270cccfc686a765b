"""Collects what a machine with a GPU, but without a network, lacks for the steps of ``gpu_steps.py``: ``make gpu-kit``.

    python tests/gpu_kit.py [--has NAME ...] [--python 3.12] [--out build/gpu-kit]

The kit is a folder with the wheels of the packages that the steps need and the machine does not have (``--has`` names
those it has, with what they need themselves), and with Kaldi's reference results, if they are beside this checkout.
On that machine, in the checkout: ``python3 tests/gpu_steps.py --kit build/gpu-kit``. Exit status 1 if the kit is too
large.
"""
from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
BESIDES = ("pytest", "hypothesis")       # what the steps need, and the package itself does not
HAS = ("click", "colorama", "llvmlite", "numba", "numba-cuda", "numpy", "pytest", "scipy", "torch")
REFERENCE = ("check", "golden/cases", "golden/chain", "golden/data", "golden/train", "golden/xconfig")
GLIBC = (39, 36, 35, 34, 31, 28, 27, 24, 17)       # pip wants each named that may be in a wheel's name
MOST_MEGABYTES = 60


def needed(names: Iterable[str], has: Iterable[str], python: str,
           requirements_of: Callable[[str], list[str] | None] = metadata.requires) -> dict[str, str]:
    """The packages that ``names`` need, themselves included, and that the machine lacks: name to version bounds.

    What is installed here says what a package needs; packages of ``has``, and what these need, are there already.
    """
    there = {canonicalize_name(name) for name in has}
    bounds: dict[str, str] = {}
    pending = [Requirement(name) for name in names]
    environment = {"python_version": python, "python_full_version": python + ".0", "sys_platform": "linux", "extra": "",
                   "platform_system": "Linux", "os_name": "posix", "platform_machine": platform.machine()}
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in there or name in bounds or (requirement.marker and not requirement.marker.evaluate(environment)):
            continue
        bounds[name] = str(requirement.specifier)
        pending += [Requirement(line) for line in requirements_of(requirement.name) or ()]
    return bounds


def download(bounds: dict[str, str], python: str, into: Path) -> None:
    """Have pip fetch the wheels for that Python on Linux."""
    machine = platform.machine()
    platforms = [*(f"manylinux_2_{number}_{machine}" for number in GLIBC), f"manylinux2014_{machine}"]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "--implementation", "cp", "--python-version", python,
                    *(word for name in platforms for word in ("--platform", name)), "--dest", str(into),
                    *(name + bound for name, bound in sorted(bounds.items()))], check=True)


def main(args: Sequence[str] | None = None) -> int:
    """Make the kit; 1 if it is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--has", nargs="*", default=list(HAS), help="packages that the machine has")
    parser.add_argument("--python", default="3.12", help="the machine's Python, such as 3.12")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu-kit")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="Kaldi's reference results")
    options = parser.parse_args(args)
    shutil.rmtree(options.out, ignore_errors=True)
    (options.out / "wheels").mkdir(parents=True)
    package = [line for line in metadata.requires("nnet3py") or () if "extra ==" not in line]
    bounds = needed([*package, *BESIDES], options.has, options.python)
    download(bounds, options.python, options.out / "wheels")
    for name in REFERENCE:
        if (options.shared / name).is_dir():
            shutil.copytree(options.shared / name, options.out / "shared" / name)
    for folder in (options.out / "shared").rglob("*/"):
        folder.chmod(0o755)         # of folders that may not be changed, the copies may not be, either
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file()) / 2**20
    reference = "with" if (options.out / "shared").is_dir() else "without"
    print(f"{options.out}: {size:.1f} MB, {', '.join(sorted(bounds))}; {reference} Kaldi's reference results")
    if size > MOST_MEGABYTES:
        print(f"the kit is over {MOST_MEGABYTES} MB: name with --has what the machine has", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
