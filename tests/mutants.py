"""Mutation testing: small changes to the code, of which the tests are to catch most: ``make mutants``.

    python tests/mutants.py [--rooms compiler runtime ...] [--files FILE ...] [--number 40] [--seed 0] [--processes 2]

Of each room (folder of nnet3py) a number of mutants is drawn: a comparison, an operator, a number, a condition or a
loop is replaced in one place (the operators are cosmic-ray's). In a copy of the checkout the tests of the changed file
run: those of its name, and those that import it. A mutant whose tests pass has survived, and is printed with its line;
it may also be one that changes nothing that can be seen, which no program can tell. The exit status is 1 if fewer than
``--at-least`` (a share) were caught.
"""
from __future__ import annotations

import argparse
import ast
import difflib
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("compiler", "runtime", "ops", "training", "io")
COPIED = ("nnet3py", "tests", "bin", "docs", "egs", "benchmarks", "setup.cfg", "setup.py", "pyproject.toml", "Makefile",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "MANIFEST.in")
ALSO = {"compiler": ("tests/test_computer.py", "tests/test_compile.py"), "runtime": ("tests/test_computer.py",)}
MOST_TEST_FILES = 8       # of a module
SECONDS = 300             # that the tests of a mutant may take; a mutant that never ends is caught
# of cosmic-ray's operators those whose mutants are mostly still programs
OPERATORS = re.compile(
    r"core/(ReplaceComparisonOperator_(Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|Lt_Gt|GtE_LtE)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_FloorDiv|BitAnd_BitOr|BitOr_BitAnd)"
    r"|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue"
    r"|ReplaceContinueWithBreak|ReplaceUnaryOperator_Delete_(USub|Not)|NumberReplacer|ZeroIterationForLoop)$")


@dataclass(frozen=True)
class Mutant:
    """A small change of a file: ``path`` is relative to the checkout, ``line`` begins with 1.

    ``occurrence``: at which of the places that the operator could change.
    """

    path: str
    operator: str
    occurrence: int
    line: int

    def code(self, source: str) -> str:
        """The changed file."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return mutate_code(source, get_operator(self.operator)(), self.occurrence) or source

    def change(self, source: str) -> str:
        """The changed lines, before and after."""
        diff = difflib.unified_diff(source.splitlines(), self.code(source).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in diff if re.match(r"[+-](?![+-])", line))


def ignored_spans(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where no change counts: annotations, decorators, what is said or logged, ``strict`` of zip."""
    nodes: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes += node.decorator_list
            nodes += filter(None, [getattr(node, "returns", None)])
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            nodes.append(node.value)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            nodes.append(node.annotation)
        elif isinstance(node, ast.Raise) and node.exc:
            nodes.append(node.exc)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("logger.", "logging.")):
            nodes.append(node)
    return [((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)) for node in nodes]


def mutants_of(path: str, root: Path = ROOT) -> Iterator[Mutant]:
    """All mutants of a file."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = (root / path).read_text()
    spans = ignored_spans(source)
    tree = get_ast(source)

    def nodes(node: object) -> Iterator[object]:
        yield node
        for child in getattr(node, "children", ()):
            yield from nodes(child)

    for name in filter(OPERATORS.match, operator_names()):
        operator, occurrence = get_operator(name)(), 0
        for node in nodes(tree):
            for start, end in operator.mutation_positions(node):
                if not any(first <= start and end <= last for first, last in spans):
                    yield Mutant(path, name, occurrence, start[0])
                occurrence += 1


def tests_of(path: str, root: Path = ROOT) -> list[str]:
    """The test files of a module: of its name; those that import it; of the names of the modules that import it."""
    module = module_name(path)
    tests = sorted((root / "tests").glob("test_*.py"), key=lambda test: test.stat().st_size)
    users = [str(user.relative_to(root)) for user in sorted((root / "nnet3py").rglob("*.py")) if imports(user, module)]
    files = [*named_tests(module, root), *[test for test in tests if imports(test, module)],
             *(test for user in users for test in named_tests(module_name(user), root))]
    names = [str(test.relative_to(root)) for test in dict.fromkeys(files)][:MOST_TEST_FILES]
    return list(dict.fromkeys([*names, *ALSO.get(module.split(".")[1], ())]))


def module_name(path: str) -> str:
    """The module of a file of the package, with dots."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imports(path: Path, module: str) -> bool:
    """Whether the file imports the module."""
    package, _, name = module.rpartition(".")
    return re.search(rf"from {re.escape(package)} import [^\n]*\b{name}\b|\b{re.escape(module)}\b",
                     path.read_text()) is not None


def named_tests(module: str, root: Path) -> list[Path]:
    """The test files of a module's name, with the names of some of its rooms before it or without."""
    *rooms, stem = module.split(".")
    names = {"_".join([*rooms[first:last], stem]) for first in range(len(rooms) + 1)
             for last in range(first, len(rooms) + 1)}
    return [path for path in (root / "tests" / f"test_{name}.py" for name in sorted(names)) if path.is_file()]


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails on the mutant, or does not end; ``copy`` is a checkout that is as it was afterwards."""
    path = copy / mutant.path
    original = path.read_text()
    path.write_text(mutant.code(original))
    try:
        return not passes(tests_of(mutant.path), copy)
    finally:
        path.write_text(original)


def passes(tests: Sequence[str], copy: Path) -> bool:
    """Whether these tests pass in a copy; a change without any test is not caught."""
    if not tests:
        return True
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(copy), str(copy / "tests")]),
                                "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(command, cwd=copy, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(SECONDS) in (0, 5)      # 5: all of them are slow ones
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


def copy_of_checkout(into: Path) -> Path:
    """What the tests need of the checkout, without what was made in it."""
    into.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__", "exp", "build"))
        elif source.exists():
            shutil.copy(source, into / name)
    return into


def drawn(paths: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Some mutants of some files: files by their number of mutants, as if all were written in one list."""
    everything = [mutant for path in paths for mutant in mutants_of(path)]
    return random.Random(seed).sample(everything, min(number, len(everything)))


def run(mutants: Sequence[Mutant], processes: int) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether it was caught, in the order in which this is known."""
    pending: queue.SimpleQueue[Mutant | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Mutant, bool]] = queue.SimpleQueue()
    for mutant in (*mutants, *[None] * processes):
        pending.put(mutant)

    def work(copy: Path) -> None:
        while (mutant := pending.get()) is not None:
            done.put((mutant, is_caught(mutant, copy)))

    with tempfile.TemporaryDirectory() as folder:
        for number in range(processes):
            copy = copy_of_checkout(Path(folder) / str(number))
            threading.Thread(target=work, args=(copy,), daemon=True).start()
        for _ in mutants:
            yield done.get()


def main(args: Sequence[str] | None = None) -> int:
    """Draw mutants, test them and print the survivors; 1 if too many survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--files", nargs="*", default=[], help="these files instead of rooms")
    parser.add_argument("--number", type=int, default=40, help="mutants of each room, or of the files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at-least", type=float, default=0.85, help="the share that has to be caught")
    parser.add_argument("--as-root", action="store_true", help="all the same: in a container that may be thrown away")
    options = parser.parse_args(args)
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not options.as_root:
        parser.error("mutants of what writes files may write anywhere, such as over /dev/null: be another user than "
                     "root, or use --as-root in a container that may be thrown away")
    places = {"files": options.files} if options.files else {
        room: [str(path.relative_to(ROOT)) for path in sorted((ROOT / "nnet3py" / room).rglob("*.py"))]
        for room in options.rooms}
    num_caught = num_mutants = 0
    for place, paths in places.items():
        mutants = drawn(paths, options.number, options.seed)
        caught = 0
        for mutant, is_dead in run(mutants, options.processes):
            caught += is_dead
            if not is_dead:
                change = mutant.change((ROOT / mutant.path).read_text())
                print(f"{mutant.path}:{mutant.line}: {mutant.operator} survived\n{change}", flush=True)
        print(f"{place}: {caught} of {len(mutants)} mutants caught", flush=True)
        num_caught, num_mutants = num_caught + caught, num_mutants + len(mutants)
    print(f"{num_caught} of {num_mutants} mutants caught")
    return int(num_caught < options.at_least * num_mutants)


if __name__ == "__main__":
    sys.exit(main())
