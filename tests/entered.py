"""A plugin of pytest that says which functions of the package no test entered: ``-p entered --entered=FILE``.

With ``--entered-by=FILE`` it also writes, as JSON, which test files entered each function: ``tests/mutants.py`` chooses
tests by it.

Each function notes, as its first act, that it was entered, which costs less than tracing every line: a tenth of the
time of all tests. ``make coverage`` does it and shows the report. Only what runs in pytest's own processes is seen, not
commands that tests start as processes. What numba compiles is left as it is: the tests of operations go through the
table of operations.
"""
from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from paths import sources

PACKAGE = Path(__file__).resolve().parent.parent / "nnet3py"
COMPILED = ("ops/cpu/", "ops/cuda/", "ops/formulas/", "engine/", "components/nonlinear.py")     # and modules of loops
LOOPS = ("_loops.py",)
NOTE = "_note_entered"
Place = tuple[str, str]      # file below the package, qualified name

entered: defaultdict[Place, set[str]] = defaultdict(set)      # by which test files; "" is what ran before all tests
running: list[str] = [""]                                     # the test file


def is_compiled(file: str) -> bool:
    """Whether numba compiles functions of this file."""
    return file.startswith(COMPILED) or file.endswith(LOOPS)


class Noting(ast.NodeTransformer):
    """Puts a call of ``NOTE`` in front of every function's body, after its docstring."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._inside(node)
        first = 1 if ast.get_docstring(node, clean=False) is not None else 0
        line = node.body[min(first, len(node.body) - 1)]
        name = ".".join([*self._names, node.name])
        call = ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(name)], []))
        node.body.insert(first, ast.fix_missing_locations(ast.copy_location(call, line)))
        return node

    def _inside(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node


class NotingLoader(SourceFileLoader):
    """Loads a module of the package from its source, with notes."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data, path, *, _optimize=-1) -> CodeType:      # type: ignore[no-untyped-def, override]
        return compile(Noting().visit(ast.parse(data, str(path))), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        file = Path(self.path).relative_to(PACKAGE).as_posix()
        setattr(module, NOTE, lambda name: entered[file, name].add(running[0]))
        super().exec_module(module)


class NotingFinder:
    """Finds the package's modules before Python's own finders do."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        place = Path(spec.loader.path).resolve()
        if PACKAGE in place.parents and not is_compiled(place.relative_to(PACKAGE).as_posix()):
            spec.loader = NotingLoader(name, str(place))
        return spec


@cache
def public_functions(file: Path) -> list[str]:
    """The qualified names of functions and methods that others may call and that do something."""
    def inside(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
        for child in node.body:
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                if not any(ast.unparse(base).startswith("Protocol") for base in child.bases):
                    yield from inside(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_") and not is_only_promise(child):
                yield prefix + child.name
    return list(inside(ast.parse(file.read_text(encoding="utf-8")), ""))


def is_only_promise(function: ast.FunctionDef) -> bool:
    """Whether the body is nothing but ``...``, a docstring, or an error that says that subclasses have to do it."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return not body or ast.unparse(body[0]) in ("...", "raise NotImplementedError", "pass") \
        or any("overload" in ast.unparse(decorator) for decorator in function.decorator_list)


def not_entered(seen: Container[Place] = ()) -> list[Place]:
    """The public functions of the package that are not among ``seen``."""
    places = ((path.relative_to(PACKAGE).as_posix(), path) for path in sources())
    return [(file, name) for file, path in places if not is_compiled(file)
            for name in public_functions(path) if (file, name) not in seen]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--entered", metavar="FILE", help="write to FILE which public functions no test entered")
    parser.addoption("--entered-by", metavar="FILE", help="write to FILE which test files entered which functions")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if early_config.known_args_namespace.entered:
        assert not any(name.partition(".")[0] == PACKAGE.name for name in sys.modules), "the plugin comes too late"
        sys.meta_path.insert(0, NotingFinder())      # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("entered"):
        config.pluginmanager.register(Report())


class Report:
    """Collects from all of pytest's processes what was entered, and says what was not."""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins, in this process or in one that this one started."""
        running[0] = nodeid.partition("::")[0]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A process that another one started hands over what it has seen."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["entered"] = [(*place, sorted(tests)) for place, tests in entered.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A process has ended."""
        for file, name, tests in getattr(node, "workeroutput", {}).get("entered", ()):
            entered[file, name].update(tests)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """The report goes to a file, its last line to the terminal."""
        text = report(not_entered(), not_entered(entered))
        path = Path(config.getoption("entered"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if by := config.getoption("entered_by"):
            Path(by).write_text(json.dumps(by_function(entered), indent=0), encoding="utf-8")
        terminalreporter.write_line(f"{text.splitlines()[-1]}; {path} names the others")


def by_function(seen: Mapping[Place, set[str]]) -> dict[str, dict[str, list[str]]]:
    """Of each file below the package, of each function the test files that entered it."""
    result: dict[str, dict[str, list[str]]] = {}
    for (file, name), tests in sorted(seen.items()):
        result.setdefault(file, {})[name] = sorted(tests - {""})
    return result


def report(everything: Sequence[Place], missing: Sequence[Place]) -> str:
    """How many functions of each part of the package were entered, and which were not, a line a file; then the sum."""
    parts, lacking = (Counter(file.split("/")[0] for file, _ in places) for places in (everything, missing))
    lines = [f"{count - lacking[part]:5} of {count:5}  {part}" for part, count in sorted(parts.items())]
    for file in sorted({file for file, _ in missing}):
        lines.append(f"{file}: {' '.join(name for place, name in missing if place == file)}")
    total = len(everything)
    return "\n".join([*lines, f"{total - len(missing)} of {total} public functions were entered by a test"]) + "\n"
