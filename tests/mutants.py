"""Mutation testing: small changes to the code, of which the tests are to catch most: ``make mutants``.

    python tests/mutants.py [--rooms compiler runtime ...] [--files FILE ...] [--number 12] [--seed 0] [--processes 2]

Of each room (folder of nnet3py) a number of mutants is drawn: a comparison, an operator, a number, a condition or a
loop is replaced in one place (the operators are cosmic-ray's). In a copy of the checkout the test files of the changed
file run one after the other, until one fails: those of its name, those that import it, then, if ``--entered-by`` says
so, those that enter the changed function (``make mutants`` runs all tests before, to know them). Each has run on the
unchanged copy before, once: one that fails there, or takes too long, catches nothing, and is printed as an error. The
time that it took there decides when a mutant's tests are taken to be endless: processor time, so a busy machine catches
nothing; tests that wait for something that does not come are started a second time, and may then wait for as long as
the unchanged ones need at that time.

A mutant whose tests pass has survived, and is printed with its line; it may also be one that changes nothing that can
be seen, which no program can tell. The exit status is 1 if fewer than ``--at-least`` (a share) were caught, or if there
were errors.

Compiled kernels are kept in a folder that begins as a copy of the user's and goes with the run. A change in ``ops`` has
those kernels compiled anew that are made of the changed file and that a test calls.
"""
from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = tuple(sorted(path.parent.name for path in (ROOT / "nnet3py").glob("*/__init__.py")))
COPIED = ("nnet3py", "tests", "bin", "docs", "egs", "benchmarks", "setup.cfg", "setup.py", "pyproject.toml", "Makefile",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "MANIFEST.in")
ALSO = {"cli": ("tests/test_cli_bin_files.py",),
        "compiler": ("tests/test_computer.py", "tests/test_compile.py", "tests/test_equivalence.py"),
        "runtime": ("tests/test_computer.py", "tests/test_case_runs.py"),
        "components": ("tests/test_case_runs.py", "tests/test_component_files.py", "tests/test_older_files.py",
                       "tests/test_derivatives.py")}
OF_OPTIONS = "tests/test_defaults.py"      # of each file that declares options
LEFT_OUT = ("test_cuda_operations.py", "test_mutants.py")     # runs other test files; has sources in it
MOST_TEST_FILES = 4       # of a module, besides those of its name
MOST_OF_ROOM = 6          # of a module without test files of its name: those of its room's name
MOST_OF_COMMANDS = 6      # of a module of commands: files that name them
MOST_ENTERING = 16        # of a function, besides those of its module
# A test file may take so much processor time on the unchanged copy.
MOST_SECONDS = 150.0
# A mutant's tests may take so many times what the unchanged ones took, and so many seconds more: for each kernel that
# is compiled anew it is up to half a minute, and a test file calls some.
TIMES = 5.0
MORE_SECONDS, MORE_SECONDS_FOR_KERNELS = 20.0, 300.0
OF_OPERATIONS = ("tests/test_ops_", "tests/test_resources.py")
SIMULATED = " in the simulator"      # after the name of a test file of operations
TICK = 0.1                # seconds
PASSED = (0, 5)           # exit statuses of pytest; 5: all tests of the file are slow ones
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

    def is_another_program(self, source: str) -> bool:
        """Whether anything but spelling changes."""
        try:
            return ast.dump(ast.parse(source)) != ast.dump(ast.parse(self.code(source)))
        except SyntaxError:                 # as of a star before arguments that must be named, replaced by a plus
            return False

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

    def nodes(node: object) -> Iterator[object]:
        yield node
        for child in getattr(node, "children", ()):
            yield from nodes(child)

    every_node = list(nodes(get_ast(source)))
    for name in filter(OPERATORS.match, operator_names()):
        operator, occurrence = get_operator(name)(), 0
        for node in every_node:
            for start, end in operator.mutation_positions(node):
                if not any(first <= start and end <= last for first, last in spans):
                    yield Mutant(path, name, occurrence, start[0])
                occurrence += 1


@cache
def tests_of(path: str, root: Path = ROOT) -> list[str]:
    """The test files of a module, the likeliest to notice a change first.

    Those of its name; of a file of operations, those that name its operations; those that import it, the shortest
    first; those of the modules that import it. A kernel for GPUs is tested in numba's simulator.
    """
    module = module_name(path)
    tests = sorted((test for test in (root / "tests").glob("test_*.py") if test.name not in LEFT_OUT),
                   key=lambda test: test.stat().st_size)
    users = [user for user in sorted((root / "nnet3py").rglob("*.py")) if imports(user, module)]
    named = list(dict.fromkeys([*own_tests(root / path, tests, root), *named_tests(module, root, shorter=True)]))
    if not named:
        named = [test for test in tests if f"{test.stem}_".startswith(f"test_{module.split('.')[-2]}_")][:MOST_OF_ROOM]
    others = [*(test for test in tests if imports(test, module)),
              *(test for user in users for test in own_tests(user, tests, root))]
    if not named and not others:
        others = [test for user in users for test in tests if imports(test, module_name(str(user.relative_to(root))))]
    others = [test for test in dict.fromkeys(others) if test not in named][:MOST_TEST_FILES]
    names = [str(test.relative_to(root)) for test in [*named, *others]]
    declares_options = re.search(r"\bopt(ion)?\(|class \w+Options\b|\bOPTIONS = ", text_of(root / path))
    of_options = [OF_OPTIONS] if declares_options else []
    names = list(dict.fromkeys([*of_options, *names, *ALSO.get(module.split(".")[1], ())]))
    if path.startswith("nnet3py/ops/cuda/"):
        names = [name + SIMULATED if name.startswith(OF_OPERATIONS) else name for name in names]
    return names


def tests_that_enter(path: str, line: int, entered_by: Mapping[str, Mapping[str, Sequence[str]]],
                     root: Path = ROOT) -> list[str]:
    """The test files that enter the function in which a line stands, those first that enter little else.

    ``entered_by``: of each file below the package, of each function, the test files; as ``entered.py`` writes it.
    """
    functions = entered_by.get(path.removeprefix("nnet3py/"), {})
    tests = [test for test in functions.get(function_at((root / path).read_text(), line), ())
             if Path(test).name not in LEFT_OUT]
    here, anywhere = (Counter(test for names in files for tests in names.values() for test in tests)
                      for files in ([functions], entered_by.values()))
    return sorted(tests, key=lambda test: -here[test] / anywhere[test])[:MOST_ENTERING]


def function_at(source: str, line: int) -> str:
    """The qualified name of the innermost function around a line; "" if it is in none."""
    def inside(node: ast.AST, names: tuple[str, ...]) -> str:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.lineno <= line <= (child.end_lineno or 0):
                own = (*names, child.name)
                return inside(child, own) or (".".join(own) if isinstance(child, ast.FunctionDef) else "")
            if not isinstance(child, ast.expr) and (found := inside(child, names)):
                return found
        return ""
    return inside(ast.parse(source), ())


def own_tests(path: Path, tests: Sequence[Path], root: Path) -> list[Path]:
    """The tests of a module's name, and those that name most of its operations or of its commands."""
    operations = {node.name for node in ast.walk(ast.parse(text_of(path))) if isinstance(node, ast.FunctionDef)
                  and any("operation" in ast.unparse(decorator) for decorator in node.decorator_list)}
    commands = set(re.findall(r'@kaldi_command\("([^"]+)', text_of(path)))
    return list(dict.fromkeys([
        *named_tests(module_name(str(path.relative_to(root))), root),
        *_naming(operations, [test for test in tests if str(test.relative_to(root)).startswith(OF_OPERATIONS)])[:2],
        *_naming(commands, tests)[:MOST_OF_COMMANDS]]))


def _naming(names: Set[str], tests: Sequence[Path]) -> list[Path]:
    """The tests in which some of the names stand, those with most of them first, and of these the shortest."""
    counts = {test: len(names & set(re.findall(r"[\w-]+", text_of(test)))) for test in tests if names}
    return sorted(filter(counts.get, counts), key=lambda test: -counts[test])


def module_name(path: str) -> str:
    """The module of a file of the package, with dots."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imports(path: Path, module: str) -> bool:
    """Whether the file imports the module."""
    package, _, name = module.rpartition(".")
    text = text_of(path)
    names = rf"from {re.escape(package)} import (?:\([^)]*|[^\n]*)\b{name}\b|\b{re.escape(module)}\b"
    return name in text and re.search(names, text) is not None


@cache
def text_of(path: Path) -> str:
    """What stands in a file."""
    return path.read_text()


def named_tests(module: str, root: Path, shorter: bool = False) -> list[Path]:
    """The test files of a module's name, with some of its rooms before it or without.

    ``shorter``: and of its first words: ``check_components`` is tested by ``test_check.py``.
    """
    *rooms, stem = module.split(".")
    words = stem.split("_")
    stems = ["_".join(words[:number]) for number in range(len(words), 0 if shorter else len(words) - 1, -1)]
    prefixes = sorted({tuple(rooms[first:last]) for first in range(len(rooms) + 1)
                       for last in range(first, len(rooms) + 1)})
    names = dict.fromkeys("_".join([*prefix, part]) for part in stems for prefix in prefixes)
    return [path for path in (root / "tests" / f"test_{name}.py" for name in names) if path.is_file()]


@dataclass(frozen=True)
class Trial:
    """How the tests of a file ended: pytest's ``status`` (None: they were ended), and the time they took."""

    status: int | None
    processor_seconds: float
    seconds: float


_running: set[subprocess.Popen] = set()


def trial(test: str, copy: Path, processor_seconds: float, seconds: float) -> Trial:
    """Run the tests of a file in a copy of the checkout, until one fails or a limit is reached.

    ``processor_seconds`` limits each process; ``seconds`` counts only while this program runs as well.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(copy), str(copy / "tests")]),
                                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}      # half of the time of a small file
    file, simulated = test.removesuffix(SIMULATED), test.endswith(SIMULATED)
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", file]
    if simulated:
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
        pytest += ["-p", "simulated_ops"]
    limited = ["sh", "-c", 'ulimit -t "$0" && exec "$@"', str(int(processor_seconds)), *pytest]
    start, ticks = time.monotonic(), 0
    process = subprocess.Popen(limited, cwd=copy, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    _running.add(process)
    while True:
        is_over = ticks * TICK > seconds
        if is_over:
            os.killpg(process.pid, signal.SIGKILL)
        pid, status, usage = os.wait4(process.pid, 0 if is_over else os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            _running.discard(process)
            with suppress(ProcessLookupError):      # what the tests have left running
                os.killpg(process.pid, signal.SIGKILL)
            return Trial(None if is_over else process.returncode, usage.ru_utime + usage.ru_stime,
                         time.monotonic() - start)
        time.sleep(TICK)
        ticks += 1


class Unchanged:
    """What the tests do on unchanged code: each file of them runs once, whichever copy asks first."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def of(self, test: str, copy: Path) -> Trial:
        """How the tests of a file end in the copy, which must be unchanged."""
        with self._locks[test]:
            if test not in self._trials:
                self._trials[test] = trial(test, copy, MOST_SECONDS, 10 * MOST_SECONDS)
                if fault := self.fault(test):
                    print(f"error: {fault}; it catches nothing", flush=True)
            return self._trials[test]

    def fault(self, test: str) -> str | None:
        """Why the tests of a file, which ran, cannot tell a mutant from the unchanged code; None if they can."""
        done = self._trials[test]
        if done.status in PASSED and done.processor_seconds <= MOST_SECONDS:
            return None
        what = "ends" if done.status in PASSED else "is ended" if done.status is None or done.status < 0 else "fails"
        return f"{test} {what} on the unchanged code after {done.processor_seconds:.0f} s of processor time"

    def faults(self) -> list[str]:
        """All of them."""
        return [fault for test in sorted(self._trials) if (fault := self.fault(test))]


@contextmanager
def changed(mutant: Mutant, copy: Path) -> Iterator[None]:
    """Inside, the copy of the checkout has the mutant's change."""
    path = copy / mutant.path
    original = path.read_text()
    path.write_text(mutant.code(original))
    try:
        yield
    finally:
        path.write_text(original)


def catcher(mutant: Mutant, copy: Path, unchanged: Unchanged,
            entered_by: Mapping[str, Mapping[str, Sequence[str]]]) -> str | None:
    """The test file that fails on the mutant, or does not end; "" if none does; None if all are faulty.

    ``copy`` is an unchanged checkout, and is one afterwards. ``entered_by`` as in ``tests_that_enter``.
    """
    more = MORE_SECONDS_FOR_KERNELS if mutant.path.startswith("nnet3py/ops/") else MORE_SECONDS
    tests = list(dict.fromkeys([*tests_of(mutant.path), *tests_that_enter(mutant.path, mutant.line, entered_by, copy)]))
    num_faulty = 0
    for test in tests:
        before = unchanged.of(test, copy)
        if unchanged.fault(test):
            num_faulty += 1
            continue
        processor_seconds = TIMES * before.processor_seconds + more
        with changed(mutant, copy):
            after = trial(test, copy, processor_seconds, processor_seconds + TIMES * before.seconds)
        if after.status is None:      # they waited, or the machine made them wait
            before = trial(test, copy, MOST_SECONDS, 10 * MOST_SECONDS)
            with changed(mutant, copy):
                after = trial(test, copy, processor_seconds, 2 * (processor_seconds + TIMES * before.seconds))
        if after.status not in PASSED:
            return test
    return None if tests and num_faulty == len(tests) else ""


def copy_of_checkout(into: Path) -> Path:
    """What the tests need of the checkout, without what was made in it.

    Its bytecode goes by what the sources say, not by when they were written: some mutants are as long, and as old.
    """
    into.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__", "exp", "build"))
        elif source.exists():
            shutil.copy(source, into / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "nnet3py"],
                   cwd=into, check=True)
    return into


@contextmanager
def own_folders(folder: Path) -> Iterator[None]:
    """Inside, temporary files and compiled kernels of the tests go to the folder, and two threads compute in each."""
    from nnet3py.engine.cache_folder import cache_folder
    from nnet3py.engine.threads import VARIABLE

    shutil.copytree(cache_folder(), folder / "kernels")
    (folder / "tmp").mkdir()
    before = dict(os.environ)
    os.environ.update({"NNET3PY_CACHE": str(folder / "kernels"), "NUMBA_CACHE_DIR": "", VARIABLE: "2",
                       "TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "", "NNET3PY_PYTHON": sys.executable})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def drawn(paths: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Some mutants of some files: files by their number of mutants, as if all were written in one list.

    Those that are the same program are left out: 1e38 and one more are the same number.
    """
    everything = [mutant for path in paths for mutant in mutants_of(path)]
    random.Random(seed).shuffle(everything)
    sources = {path: (ROOT / path).read_text() for path in paths}
    return list(islice((mutant for mutant in everything if mutant.is_another_program(sources[mutant.path])), number))


def run(mutants: Sequence[Mutant], processes: int, unchanged: Unchanged,
        entered_by: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[tuple[Mutant, str | None]]:
    """Each mutant, and what ``catcher`` says of it, in the order in which this is known."""
    pending: queue.SimpleQueue[Mutant | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Mutant, str | None] | BaseException] = queue.SimpleQueue()
    for mutant in (*mutants, *[None] * processes):
        pending.put(mutant)

    def work(copy: Path) -> None:
        try:
            while (mutant := pending.get()) is not None:
                done.put((mutant, catcher(mutant, copy, unchanged, entered_by)))
        except BaseException as error:
            done.put(error)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, own_folders(Path(folder)):
        copies = [copy_of_checkout(Path(folder) / "0")]
        copies += [shutil.copytree(copies[0], Path(folder) / str(number)) for number in range(1, processes)]
        for copy in copies:
            threading.Thread(target=work, args=(copy,), daemon=True).start()
        try:
            for _ in mutants:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            for process in list(_running):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--files", nargs="*", default=[], help="these files instead of rooms")
    parser.add_argument("--number", type=int, default=12, help="mutants of each room, or of the files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at-least", type=float, default=0.85, help="the share that has to be caught")
    parser.add_argument("--entered-by", type=Path, help="which test files enter which function: written by pytest "
                        "with -p entered --entered=FILE --entered-by=FILE")
    parser.add_argument("--verbose", action="store_true", help="print those that are caught as well, and by what")
    parser.add_argument("--as-root", action="store_true", help="all the same: in a container that may be thrown away")
    parser.add_argument("--check-user", action="store_true", help="only say, by the exit status, who may run this")
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Draw mutants, test them and print the survivors; 1 if too many survive, or if some could not be tested."""
    options = parser().parse_args(args)
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not options.as_root:
        parser().error("mutants of what writes files may write anywhere, such as over /dev/null: be another user than "
                       "root, or use --as-root in a container that may be thrown away")
    if options.check_user:
        return 0
    places = {"files": options.files} if options.files else {
        room: [str(path.relative_to(ROOT)) for path in sorted((ROOT / "nnet3py" / room).rglob("*.py"))]
        for room in options.rooms}
    draws = [[(mutant, place) for mutant in drawn(paths, options.number, options.seed)]
             for place, paths in places.items()]
    place_of = dict(pair for turn in zip_longest(*draws) for pair in turn if pair is not None)     # rooms in turns
    caught: dict[str, list[bool]] = {place: [] for place in places}
    entered_by = json.loads(options.entered_by.read_text()) if options.entered_by else {}
    start, unchanged, num_errors = time.monotonic(), Unchanged(), 0
    try:
        for mutant, test in run(list(place_of), options.processes, unchanged, entered_by):
            if test is None:
                num_errors += 1
            else:
                caught[place_of[mutant]].append(test != "")
            if not test or options.verbose:
                what = f"caught by {test}" if test else "survived" if test == "" else "could not be tested"
                print(f"{mutant.path}:{mutant.line}: {mutant.operator} {mutant.occurrence} {what}\n"
                      f"{mutant.change((ROOT / mutant.path).read_text())}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; of those that were tested by then:")
    for place, results in caught.items():
        print(f"{place}: {sum(results)} of {len(results)} mutants caught")
    num_caught, num_mutants = (sum(map(count, caught.values())) for count in (sum, len))
    minutes = (time.monotonic() - start) / 60
    print(f"{num_caught} of {num_mutants} mutants caught ({num_errors} could not be tested) in {minutes:.0f} minutes")
    return int(num_caught < options.at_least * num_mutants or num_errors > 0 or unchanged.faults() != [])


if __name__ == "__main__":
    sys.exit(main())
