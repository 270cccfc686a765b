"""The rules that hold for every file: import directions, no cycles, no print outside the command line, launchers."""
from __future__ import annotations

import ast
import configparser
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter  # its CycleError names the modules
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT, is_command, sources, tree

from nnet3py.cli.machine.bin_files import COMMON, common_text, launcher_names, launcher_text
from nnet3py.cli.registry import COMMANDS, PERSON_NAMES

PACKAGE = ROOT / "nnet3py"

# docs/architecture.md: a module imports from its own folder and from earlier stages.
STAGES = [
    {"errors", "cached_property", "provided", "_version"},
    {"system"},
    {"log", "trusted_files"},
    {"engine", "extras"},
    {"config_line", "option_file", "index", "io", "ops", "random_sequence"},
    {"formats", "transducers", "option_fields", "public_names", "advice"},
    {"hmm"},
    {"gaussians"},
    {"components", "feat", "graphs", "fst"},
    {"network", "lattices", "ivectors", "trees"},
    {"xconfig", "compiler"},
    {"acoustic_model"},
    {"runtime", "egs", "model_info"},
    {"chain", "decoding"},
    {"discriminative"},
    {"training", "report", "export"},
    {"rnnlm"},
    {"recognition"},
    {"drivers", "sklearn", "torch", "torch_data"},
    {"fine_tuning", "vosk"},
    {"inspection"},
    {"cli"},
    {"__main__"},
]
STAGE_OF = {name: stage for stage, names in enumerate(STAGES) for name in names}

WITHOUT_KERNELS = ("io", "formats", "transducers", "hmm", "index", "feat", "components", "network", "xconfig",
                   "compiler")
LIGHT = ("errors", "_version", "log", "provided", "cached_property", "system", "trusted_files",
         "engine/cache_folder", "extras", "option_file",
         "option_fields", "public_names", "advice",
         "config_line", "io/specifiers",
         "transducers/__init__",
         "feat/options", "feat/pitch_options", "chain/options", "egs/options",
         "gaussians/options", "runtime/options", "training/options", "trees/__init__", "ivectors/options",
         "lattices/determinize_options", "decoding/options",
         "recognition/options", "recognition/server/options",
         "recognition/server/protocol", "recognition/transcripts", "rnnlm/folder", "compiler/optimize_options",
         "export/export_options", "discriminative/options", "cli/")      # import no numpy
STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)      # in which an import can be
MAX_LINES = 600
LINES_WITHOUT_DOCSTRING = 5
MAX_ARGUMENTS = 12       # more take a described structure


@cache
def by_kind(path: Path) -> dict[type[ast.AST], list[Any]]:
    """The nodes of a file's syntax tree, which is walked through once for all rules."""
    kinds: dict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in ast.walk(tree(path)):
        kinds[type(node)].append(node)
    return kinds


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[Any]:
    return chain.from_iterable(by_kind(path).get(kind, ()) for kind in kinds)


def called(call: ast.Call) -> str:
    """``sys.exit`` for a call of it, and so on; empty for what has no name."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module: str) -> str:
    """``io`` for ``nnet3py.io.tokens``; an empty string for the package itself."""
    return module.split(".")[1] if "." in module else ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def import_nodes(node: ast.AST, inside_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif is_type_checking(child):
            continue
        elif isinstance(child, STATEMENTS) and (
                inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from import_nodes(child, inside_functions)


@cache
def imported(path: Path, inside_functions: bool) -> frozenset[str]:
    """The modules that a file imports; ``from nnet3py.engine import threads`` counts as both of its readings."""
    found: set[str] = set()
    for node in import_nodes(tree(path), inside_functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def imported_by_string(path: Path) -> frozenset[str]:
    """Return the modules that a file imports by a string: in ``import_module("nnet3py.x")``, and in tables of names.

    A file has such a table if it calls ``import_module`` with something that is no string, or ``give_names``. Of an
    f-string only the package in front counts: ``import_module(f"nnet3py.x.{name}")`` imports from ``nnet3py.x``.
    """
    calls = [node for node in nodes(path, ast.Call)
             if called(node).split(".")[-1] in ("import_module", "give_names", "__import__")]
    names: set[str] = set()
    for call in calls:
        argument = call.args[0]
        if isinstance(argument, ast.Constant):
            names.add(str(argument.value))
        elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
            names.add(str(argument.values[0].value).rpartition(".")[0])
        else:
            names |= {node.value for node in nodes(path, ast.Constant) if isinstance(node.value, str)}
    return frozenset(name for name in names if name.startswith("nnet3py.") and is_module(name))


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_part_has_its_stage() -> None:
    parts = {part(module_name(path)) for path in sources()} - {""}
    assert parts <= set(STAGE_OF), "name the new part in docs/architecture.md and here"


def test_imports_go_to_earlier_stages_only() -> None:
    wrong = []
    for path in sources():
        own = part(module_name(path))
        for name in imported(path, inside_functions=True) | imported_by_string(path):
            other = part(name) if name.startswith("nnet3py.") else ""
            if own and other and other != own and other in STAGE_OF and STAGE_OF[other] >= STAGE_OF[own]:
                wrong.append(f"{where(path)} imports {name}")
    assert not wrong


def test_no_circles() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        own = module_name(path)
        graph[own] = {name for name in imported(path, inside_functions=False)
                      if name.startswith("nnet3py.") and name != own and is_module(name)}
        # `from nnet3py.io import tokens` inside nnet3py.io needs the package only as a name
        graph[own] = {name for name in graph[own] if not own.startswith(name + ".")}
    TopologicalSorter(graph).prepare()


def test_no_circles_through_functions_and_types() -> None:
    """Nor through imports inside functions, by strings, and those that only mypy sees, which Python would allow."""
    graph: dict[str, set[str]] = {}
    for path in sources():
        own = module_name(path)
        names = {name for node in nodes(path, ast.ImportFrom)
                 for name in (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))}
        names |= imported_by_string(path)
        graph[own] = {name for name in names if is_module(name) and name != own and not own.startswith(name + ".")
                      and part(name) == part(own)}
    TopologicalSorter(graph).prepare()


def test_compiler_and_files_need_no_kernels() -> None:
    files = [path for path in sources() if part(module_name(path)) in WITHOUT_KERNELS]
    assert not [f"{where(path)} imports {name}" for path in files for name in imported(path, inside_functions=True)
                if name.startswith("nnet3py.ops")]
    assert not [f"{where(path)} imports {name}" for path in files for name in imported(path, inside_functions=False)
                if name.split(".")[0] in ("numba", "llvmlite")]


def test_light_modules_import_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "numba", "kaldi_io", "importlib.metadata", "threadpoolctl"}
    wrong = [f"{where(path)} imports {name}" for path in sources()
             if path.relative_to(PACKAGE).as_posix().startswith(LIGHT)
             for name in imported(path, inside_functions=False)
             if name in heavy or name.split(".")[0] in heavy]
    assert not wrong


def test_what_only_posix_has_has_one_door() -> None:
    """Other modules ask ``nnet3py/system.py``, which knows what takes the place of what is missing.

    But for the server of ``nnet3py resident``, which is Linux's alone: the command says so elsewhere.
    """
    modules = {"fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios", "tty"}
    names = {"os": {"fchmod", "fork", "geteuid", "getpgid", "getuid", "killpg", "mkfifo", "nice", "pread",
                    "sched_getaffinity", "setsid", "symlink", "sysconf", "uname", "O_CLOEXEC", "O_NOFOLLOW",
                    "O_NONBLOCK"},
             "signal": {"SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE"}}
    keywords = {"preexec_fn", "start_new_session", "creationflags", "add_signal_handler"}
    doors = ("nnet3py/system.py", "nnet3py/cli/process/resident_server.py")
    others = [path for path in sources() if where(path) not in doors]
    wrong = [f"{where(path)} imports {name}" for path in others for name in imported(path, inside_functions=True)
             if name.split(".")[0] in modules]
    wrong += [f"{where(path)} line {node.lineno}" for path in others
              for node in nodes(path, ast.Attribute, ast.keyword, ast.Constant)
              if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
              and node.attr in names.get(node.value.id, ())
              or isinstance(node, ast.Attribute) and node.attr == "add_signal_handler"
              or isinstance(node, ast.keyword) and node.arg in keywords
              or isinstance(node, ast.Constant) and isinstance(node.value, str)
              and node.value.startswith(("/proc/s", "/bin/"))]
    assert not wrong


@pytest.mark.parametrize(("package", "doors"), [
    ("functools.cached_property", []), ("numba.cuda", ["nnet3py/ops/device.py"]),
    ("kaldi_io", ["nnet3py/formats/kaldi_io_adapter.py"])])
def test_doors(package: str, doors: list[str]) -> None:
    """A cached_property has, before Python 3.12, a lock for a whole class: a forked child may wait for it for ever."""
    assert doors == [where(path) for path in sources() if any(
        f"{name}.".startswith(f"{package}.") for name in imported(path, inside_functions=True))]


def is_program(path: Path) -> bool:
    """Whether a file may print and exit: commands, ``python -m nnet3py.vosk``, and vosk's functions that print."""
    return part(module_name(path)) == "cli" or where(path) in ("nnet3py/vosk/__main__.py", "nnet3py/vosk/__init__.py")


@pytest.mark.parametrize("names", [("print",), ("sys.exit", "exit", "quit", "os._exit")])
def test_only_commands_print_and_exit(names: tuple[str, ...]) -> None:
    assert not [f"{where(path)}:{node.lineno}" for path in sources() if not is_program(path)
                for node in nodes(path, ast.Call) if called(node) in names]


def test_files_are_short() -> None:
    long = [f"{where(path)}: {count} lines" for path in sources()
            if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES]
    assert not long


def is_compiled(path: Path) -> bool:
    """Whether numba compiles what is in a file, whose functions take arrays and numbers one by one."""
    return path.name.endswith("_loops.py") or part(module_name(path)) in ("ops", "engine")


def test_functions_have_few_arguments() -> None:
    """But those that are compiled: they are entered with addresses and numbers only (``engine/loop.py``), and what
    they are given is declared with its types where they are called, or in the table of operations."""
    assert not [f"{where(path)}:{node.lineno} {node.name}" for path in sources() if not is_compiled(path)
                for node in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef)
                if sum(one.arg not in ("self", "cls") for one in [
                    *node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) > MAX_ARGUMENTS]


def test_names_say_which_thing() -> None:
    """Names that could be anything's. What a reader of files found is what its errors call so."""
    empty_names = {"found", "one", "known"}
    allowed = {("nnet3py/io/tokens.py", "found"), ("nnet3py/network/descriptor_parser.py", "found"),
               ("nnet3py/ops/cuda/store.py", "one")}                                        # 1 of an element's type
    bound = {(where(path), node.arg if isinstance(node, ast.arg) else node.id) for path in sources()
             for node in nodes(path, ast.arg, ast.Name) if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store)}
    assert {(path, name) for path, name in bound if name in empty_names} == allowed


def names_bound(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module binds; none for an overload or a registered function, which share one."""
    if isinstance(statement, ast.Assign):
        targets = chain.from_iterable(target.elts if isinstance(target, ast.Tuple) else [target]
                                      for target in statement.targets)
        return {target.id for target in targets if isinstance(target, ast.Name)}
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return {statement.target.id}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set() if statement.decorator_list else {statement.name}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    return set()


def test_no_module_binds_a_name_twice() -> None:
    """The second constant of a name silently takes the place of the first, as when two modules become one."""
    wrong = []
    for path in [*sources(), *sorted(ROOT.glob("tests/*.py")), *sorted(ROOT.glob("benchmarks/**/*.py"))]:
        counts = Counter(chain.from_iterable(map(names_bound, tree(path).body)))
        wrong += [f"{where(path)}: {name}" for name, count in counts.items() if count > 1 and name not in ("_", "*")]
    assert wrong == ["tests/test_xvectors.py: MEANS"]         # made in two steps


def test_modules_say_what_they_are() -> None:
    assert not [where(path) for path in sources() if tree(path).body and not ast.get_docstring(tree(path))]


def test_functions_say_what_they_do() -> None:
    """Public ones of more than five lines, but methods that a base class may have promised, commands, which have usage
    texts, and operations, whose documentation is that of the table (``ops/table.py``)."""
    wrong = []
    for path in sources():
        if path.parent.parent.name == "ops" or path.parent.name == "engine":
            continue
        owners = [tree(path), *(node for node in nodes(path, ast.ClassDef) if not node.bases)]
        wrong += [f"{where(path)}:{node.lineno} {node.name}" for owner in owners for node in owner.body
                  if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not is_command(node)
                  and (node.end_lineno or 0) - node.lineno >= LINES_WITHOUT_DOCSTRING and not ast.get_docstring(node)]
    assert not wrong


def test_launchers_match_the_registry() -> None:
    assert {path.name for path in (ROOT / "bin").iterdir()} == {*launcher_names(), COMMON}
    assert (ROOT / "bin" / COMMON).read_text(encoding="utf-8") == common_text(), "run: make launchers"
    assert set(launcher_names()) == {"nnet3py", *(name for name, entry in COMMANDS.items() if entry.launcher)}
    for name in launcher_names():
        path = ROOT / "bin" / name
        assert path.read_text(encoding="utf-8") == launcher_text(name), "run: make launchers"
        assert path.stat().st_mode & 0o111 == 0o111


def test_entry_points_match_the_registry() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"]["console_scripts"].split("\n")
    scripts = dict(line.split(" = ") for line in lines if line)
    assert scripts.pop("nnet3py") == "nnet3py.cli.main:main"
    assert scripts == {f"nnet3py-{name}": "nnet3py.cli.main:run_person_name" for name in PERSON_NAMES}
