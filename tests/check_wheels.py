"""Checks the wheels of a folder, and says how large they are: ``python tests/check_wheels.py dist``."""
from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

from nnet3py.cli.machine.warmup import families, kernels_of
from nnet3py.engine import kernel_code, processor, shipped

MOST_BYTES = 12_000_000
MOST_SECONDS, MOST_TIMES = 3.0, 1.5       # until the first words; as many times as with a cache
TRIES = 5
SOUND = Path(__file__).resolve().parent / "data" / "demo.wav"


def problems_of(wheel: Path) -> list[str]:
    """What is wrong with a wheel, in words."""
    machine = next((name for name in processor.SETS if wheel.stem.endswith(name)), None)
    sets = processor.SETS[machine] if machine else {}
    problems = [f"{wheel.stat().st_size} bytes, more than {MOST_BYTES}"] if wheel.stat().st_size > MOST_BYTES else []
    with zipfile.ZipFile(wheel) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name.startswith("nnet3py/kernels/")}
    needed = {shipped.file_name(kernel.key): kernel.key for family in families("cpu") for kernel in
              kernels_of("cpu", family)}
    for kind, name in sets.items():
        made_for = processor.least_of(kind, processor.LINUX[machine])
        for file, key in needed.items():
            content = kept.pop(f"nnet3py/kernels/{name}/{file}", b"")
            if kernel_code.from_bytes(content, shipped.belonging(key, made_for)) is None:
                problems.append(f"{name}/{file} is missing, or not for this version")
    return problems + [f"{name} does not belong there" for name in kept]


def try_installed(wheel: Path) -> str:
    """Install a wheel for this machine in a new environment, and see how soon words come; what it was, in words."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "-q", f"{wheel.resolve()}[decode]"], check=True)

        def transcribe(cache: Path) -> float:
            start = time.perf_counter()
            subprocess.run([python, "-m", "nnet3py", "transcribe", "--demo", SOUND], check=True, capture_output=True,
                           cwd=folder, env={"PATH": "/usr/bin:/bin", "NNET3PY_CACHE": str(cache), "HOME": folder})
            return time.perf_counter() - start

        very_first = transcribe(Path(folder, "0"))
        first = statistics.median(transcribe(Path(folder, str(i))) for i in range(1, TRIES + 1))
        later = statistics.median(transcribe(Path(folder, "0")) for _ in range(TRIES))
        compiled = [path for i in range(TRIES + 1) for path in Path(folder, str(i)).rglob("*.kernel")]
    if compiled or very_first > MOST_SECONDS or first > MOST_TIMES * later:
        raise SystemExit(f"{wheel.name}: {len(compiled)} kernels compiled; words came after {very_first:.2f} s, then "
                         f"without a cache after {first:.2f} s, with one after {later:.2f} s")
    return (f"words after {very_first:.2f} s; when started again, {first:.2f} s without a cache, {later:.2f} s with "
            "one; no kernel was compiled")


def main(folder: Path) -> None:
    """Print a line for each wheel; ends with 1 if one has a problem."""
    wheels = sorted(folder.glob("*.whl"))
    all_problems = {wheel: problems_of(wheel) for wheel in wheels}
    for wheel, problems in all_problems.items():
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for problem in problems[:10]:
            print(f"  {problem}")
    expected = {"any", *processor.SETS}
    there = {tag for tag in expected for wheel in wheels if wheel.stem.endswith(tag)}
    if there != expected or any(all_problems.values()):
        raise SystemExit(f"wheels for {', '.join(sorted(expected - there)) or 'all'} are missing or have problems"
                         if there != expected else 1)
    mine = next((wheel for wheel in wheels if processor.processor().triple in processor.LINUX.values()
                 and wheel.stem.endswith(processor.processor().triple.partition("-")[0])), None)
    if mine is not None:
        print(f"transcribe --demo in a new environment: {try_installed(mine)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
