"""All that wants a GPU, in order: a program that leaves a report after each step and goes on after a failure.

    python tests/gpu_steps.py [--kit FOLDER] [--report FOLDER] [STEP ...]          (or: make test-gpu)

Each step is a process with a time limit of its own. FOLDER/report.txt, written anew after each step, says how they
ended and shows the last lines of each; FOLDER/log.txt has all of their output. The exit status is 0 if no step failed.
Without names all steps run; ``--list`` prints them. A kit (``make gpu-kit``) brings the packages and the reference
results that a machine without a network lacks; this program needs Python's own library only.
In numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) the same steps run on small sizes, without a card.
"""
from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SHOWN = 25                # lines of each step in the report
AFTER_THE_LIMIT = 5.0     # seconds that a step has to end by itself
SLOWER = 10               # times its limit that a step has in the simulator

COMPUTING = ("computer", "looped", "trainer", "chain_trainer", "diagnostics", "compute", "batch",
             "xvectors", "train_every_type")
PYTEST = ("{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs")
OPERATIONS = tuple(str(path.relative_to(ROOT)) for path in sorted(TESTS.glob("test_ops_*.py"))
                   if path.stem != "test_ops_table")


@dataclass(frozen=True)
class Step:
    """A process to run.

    Attributes
    ----------
    name, what : for the report
    command : ``{python}`` stands for the interpreter
    seconds : its limit
    needs : a program without which the step is left out
    in_simulator : whether it can do without a card
    """

    name: str
    what: str
    command: tuple[str, ...]
    seconds: int
    needs: str = ""
    in_simulator: bool = True


STEPS = (
    Step("driver", "the card, as its driver sees it", ("nvidia-smi",), 60, "nvidia-smi", False),
    Step("versions", "of Python and its packages", ("{python}", "-m", "nnet3py", "--version"), 120),
    Step("available", "a product on the card", ("{python}", "-m", "nnet3py", "cuda-gpu-available"), 120),
    Step("kernels", "every kernel is compiled", ("{python}", "-m", "nnet3py", "warmup", "--device=cuda"), 480,
         in_simulator=False),
    Step("operations", "every operation against its slow reference",
         (*PYTEST, "-p", "simulated_ops", *OPERATIONS, "tests/test_resources.py"), 540),
    Step("cases", "Kaldi's reference computations", (*PYTEST, "tests/gpu_cases.py"), 480),
    Step("runs", "training runs, step by step and to their end", (*PYTEST, "-s", "tests/gpu_runs.py"), 480),
    Step("commands", "commands against the CPU's", (*PYTEST, "tests/gpu_commands.py"), 300),
    Step("networks", "whatever computes networks, against Kaldi's numbers",
         (*PYTEST, "-p", "gpu_device", *(f"tests/test_{name}.py" for name in COMPUTING)), 540),
    Step("benchmark", "operations, training and computing, beside PyTorch",
         ("{python}", "benchmarks/gpu.py"), 540),
    Step("sanitizer", "memory accesses, by compute-sanitizer",
         ("compute-sanitizer", "--error-exitcode", "1", "--tool", "memcheck", "{python}", "tests/gpu_runs.py"), 540,
         "compute-sanitizer", False),
)


@dataclass(frozen=True)
class Result:
    """How a step ended, and what it printed."""

    step: Step
    ended: str
    seconds: float
    output: str
    failed: bool

    def line(self) -> str:
        """Of the table that begins the report."""
        return f"{self.step.name:12}{self.ended:32}{self.seconds:8.1f} s   {self.step.what}"


def is_simulated(environment: Mapping[str, str]) -> bool:
    """Whether the steps are to run in numba's simulator."""
    return environment.get("NUMBA_ENABLE_CUDASIM") == "1"


def run(step: Step, environment: Mapping[str, str], log: Path) -> Result:
    """Run a step, in at most its time; what it prints is added to ``log`` as it comes."""
    if step.needs and shutil.which(step.needs, path=environment.get("PATH")) is None:
        return Result(step, f"left out: no {step.needs}", 0.0, "", False)
    if is_simulated(environment) and not step.in_simulator:
        return Result(step, "left out: needs a card", 0.0, "", False)
    command = [part.format(python=sys.executable) for part in step.command]
    limit = step.seconds * (SLOWER if is_simulated(environment) else 1)
    began = time.monotonic()
    with log.open("ab") as output:
        output.write(f"\n==== {step.name}: {' '.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        process = subprocess.Popen(command, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = process.wait(limit)
            ended = "ok" if status == 0 else f"FAILED with {status}"
        except subprocess.TimeoutExpired:
            status, ended = -1, f"FAILED: over its {limit} s"
            _end(process)
    with log.open("rb") as output:
        output.seek(start)
        text = output.read().decode(errors="replace")
    return Result(step, ended, time.monotonic() - began, text, status != 0)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(AFTER_THE_LIMIT)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def unpack(kit: Path) -> None:
    """Unpack the wheels of a kit, which are zip files, into its folder ``site``."""
    for wheel in sorted((kit / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(kit / "site")


def environment_with(kit: Path | None, outside: Mapping[str, str]) -> dict[str, str]:
    """The environment of the steps: the checkout, its test helpers, and what the kit brings."""
    paths = [str(ROOT), str(TESTS)]
    environment = dict(outside)
    if kit is not None:
        kit = kit.resolve()
        paths.append(str(kit / "site"))
        if (kit / "shared").is_dir():
            environment.setdefault("NNET3PY_SHARED", str(kit / "shared"))
    environment["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [outside.get("PYTHONPATH")])])
    environment["PYTHONUNBUFFERED"] = "1"      # what a step printed is there, also if its time was over
    return environment


def write_report(results: Sequence[Result], folder: Path) -> None:
    """Write report.txt: a line for each step so far, then the last lines of each."""
    lines = [result.line() for result in results]
    for result in results:
        lines += ["", f"==== {result.step.name}: {result.ended}", *result.output.splitlines()[-SHOWN:]]
    (folder / "report.txt").write_text("\n".join(lines) + "\n")


def main(args: Sequence[str] | None = None, steps: Sequence[Step] = STEPS) -> int:
    """Run the steps that are named, or all; 0 if none failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="names of steps (all, if there are none)")
    parser.add_argument("--kit", type=Path, help="a folder made by make gpu-kit")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "gpu-report", help="where reports go")
    parser.add_argument("--list", action="store_true", help="print the steps, and run none")
    options = parser.parse_args(args)
    if unknown := sorted(set(options.steps) - {step.name for step in steps}):
        parser.error(f"there is no step {unknown[0]}; there are {', '.join(step.name for step in steps)}")
    if options.kit is not None and not (options.kit / "wheels").is_dir():
        parser.error(f"{options.kit} is not a kit: it has no folder wheels (make gpu-kit makes one)")
    if options.list:
        print("\n".join(f"{step.name:12}{step.seconds:5} s   {step.what}" for step in steps))
        return 0
    options.report.mkdir(parents=True, exist_ok=True)
    log = options.report / "log.txt"
    log.write_bytes(b"")
    if options.kit is not None:
        unpack(options.kit)
    environment = environment_with(options.kit, os.environ)
    results: list[Result] = []
    for step in steps:
        if not options.steps or step.name in options.steps:
            results.append(run(step, environment, log))
            write_report(results, options.report)
            print(results[-1].line(), flush=True)
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
