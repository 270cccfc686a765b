"""nnet3py/engine/code_files.py: what is kept, when it is made anew, and what is not taken for it."""
from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from nnet3py.engine import code_files, kernel_code
from nnet3py.engine.cache_folder import private_folder
from nnet3py.engine.kernel_code import Code, hash_of, sources_hash

KERNELS = '''
from nnet3py.engine.jit import kernel
from nnet3py.ops.callee import double

@kernel("vec f32")
def scale(dst, factor):
    for j in range(dst.shape[0]):
        dst[j] = double(dst[j]) * factor
'''
CALLEE = '''
from nnet3py.engine.jit import inline

@inline
def double(x):
    return x + x
'''
RUN = '''
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import numpy as np
from nnet3py.ops.family import scale
x = np.ones(3, np.float32)
scale(x, 2.0)
print(x[0])
'''


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A copy of the package with one small kernel module that calls a function of another module, its cache, and what
    the process said that compiled it."""
    folder = tmp_path_factory.mktemp("compiled")
    root = folder / "site"
    for name in ("ops", "engine"):
        shutil.copytree(ROOT / "nnet3py" / name, root / "nnet3py" / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "errors.py", "log.py", "cached_property.py", "system.py", "trusted_files.py",
                 "_version.py"):
        shutil.copy(ROOT / "nnet3py" / name, root / "nnet3py" / name)
    (root / "nnet3py" / "ops" / "family.py").write_text(KERNELS)
    (root / "nnet3py" / "ops" / "callee.py").write_text(CALLEE)
    value, messages = run(root, NNET3PY_CACHE=folder / "cache")
    assert value == "4.0"
    return root, folder / "cache", messages


@pytest.fixture
def installed(compiled, tmp_path):
    """A copy of that package."""
    return shutil.copytree(compiled[0], tmp_path / "site")


@pytest.fixture
def cache(compiled, tmp_path):
    """A copy of the cache, in which the kernel is compiled."""
    return shutil.copytree(compiled[1], tmp_path / "cache")


def environment(root: Path, **variables: object) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NNET3PY_CACHE", "NUMBA_CACHE_DIR")}
    return kept | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"} | {k: str(v) for k, v in variables.items()}


def run(root: Path, **variables: object) -> tuple[str, str]:
    result = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, cwd=root,
                            env=environment(root, **variables))
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr


def test_second_process_compiles_nothing(installed, cache):
    files = sorted(cache.rglob("*.kernel"))
    assert files and not list(installed.rglob("*.kernel"))
    value, messages = run(installed, NNET3PY_CACHE=cache)
    assert value == "4.0" and "Compiling" not in messages
    assert sorted(cache.rglob("*.kernel")) == files


def test_first_miss_is_said_once(compiled):
    _, cache, messages = compiled
    assert messages.count("INFO Compiling kernels for this machine") == 1
    assert str(cache) in messages


def test_compiling_is_counted_on_a_terminal(installed, tmp_path):
    main, other = os.openpty()
    os.set_blocking(main, False)
    variables = environment(installed, NNET3PY_CACHE=tmp_path / "cache", NNET3PY_PROGRESS=os.ttyname(other))
    command = [sys.executable, "-c", RUN]
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=installed, env=variables, check=True)
        shown = os.read(main, 10000).decode()
        assert f"Compiling, once: [{'.' * 30}] 0 of at most 230 kernels, 0 s" in shown and shown.endswith("\x1b[K")
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=installed, env=variables, check=True)
        with pytest.raises(BlockingIOError):
            os.read(main, 1)
    finally:
        os.close(main)
        os.close(other)


def test_a_changed_callee_in_another_file_is_noticed(installed, cache):
    (installed / "nnet3py" / "ops" / "callee.py").write_text(CALLEE.replace("x + x", "x + x + x"))
    assert run(installed, NNET3PY_CACHE=cache)[0] == "6.0"


def test_numba_cache_dir_wins(installed, cache, tmp_path):
    messages = run(installed, NNET3PY_CACHE=tmp_path / "ours", NUMBA_CACHE_DIR=cache)[1]
    assert "Compiling" not in messages and not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_platform_folder(installed, tmp_path):
    run(installed, XDG_CACHE_HOME=tmp_path / "xdg", HOME=tmp_path / "home", LOCALAPPDATA=tmp_path / "xdg")
    assert list(tmp_path.glob("*/**/nnet3py/**/*.kernel"))


@pytest.mark.slow
def test_unwritable_folder_falls_back_with_one_warning(installed, tmp_path):
    (tmp_path / "file").write_text("")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    value, messages = run(installed, NNET3PY_CACHE=tmp_path / "file" / "below", TMPDIR=temporary)
    assert value == "4.0"
    assert messages.count("WARNING Compiled kernels are not kept in") == 1 and "NNET3PY_CACHE" in messages
    assert not list(temporary.rglob("*.kernel")), "the private folder goes with the process"


@pytest.fixture
def planted(installed, cache):
    """A cache with another kernel's code in the place of this one's; the file says that it is this one's."""
    family = installed / "nnet3py" / "ops" / "family.py"
    (kept,) = cache.rglob("family.scale.kernel")
    family.write_text(KERNELS.replace("* factor", "* factor * 100"))
    run(installed, NNET3PY_CACHE=cache)
    family.write_text(KERNELS)
    (other,) = set(cache.rglob("family.scale.kernel")) - {kept}
    content = other.read_bytes()[8:].replace(other.parent.name.encode(), kept.parent.name.encode())
    kept.write_bytes(hash_of(content) + content)
    assert run(installed, NNET3PY_CACHE=cache)[0] == "400.0", "planted well"
    return kept


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
@pytest.mark.slow
def test_a_folder_that_others_can_write_is_not_used(installed, planted):
    cache = planted.parent.parent
    cache.chmod(0o777)
    value, messages = run(installed, NNET3PY_CACHE=cache)
    assert value == "4.0" and messages.count("WARNING") == 1
    assert f"WARNING Compiled kernels are not kept in {cache}: {cache} can be written by all users" in messages


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
def test_what_others_could_plant_is_not_executed(installed, planted):
    cache = planted.parent.parent
    os.chown(planted, 54321, 54321) if os.geteuid() == 0 else planted.chmod(0o666)
    value, messages = run(installed, NNET3PY_CACHE=cache)
    assert value == "4.0" and messages.count("WARNING") == 1
    assert "WARNING Compiled code is not used but made again" in messages and "family.scale.kernel" in messages
    assert run(installed, NNET3PY_CACHE=cache) == ("4.0", ""), "it was replaced"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
def test_what_numba_keeps_is_not_taken_from_others(monkeypatch, tmp_path, caplog):
    """It is pickled: whoever writes it can have anything executed."""
    from numba.core import config
    monkeypatch.setattr(code_files, "cache_folder", lambda: tmp_path)
    with code_files.kept_on_disk(Path(__file__)):
        folder = Path(config.CACHE_DIR)
        (folder / "planted").mkdir()
        (folder / "planted" / "kernel.nbi").write_bytes(b"")
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    code_files._trusted.cache_clear()
    (folder / "planted" / "kernel.nbi").chmod(0o666)
    with code_files.kept_on_disk(Path(__file__)):
        assert Path(config.CACHE_DIR) == folder, "nobody else can come to it"
    code_files._trusted.cache_clear()
    folder.chmod(0o755)
    for _ in range(2):
        with code_files.kept_on_disk(Path(__file__)):
            assert Path(config.CACHE_DIR).parent == private_folder() and caplog.text.count("kernel.nbi can be") == 1


COUNT = '''
from nnet3py.engine import code_files
made, keep = [], code_files.keep
code_files.keep = lambda path, code: (made.append(path.name), keep(path, code))
'''


PROCESSES = 2


def test_processes_that_start_together_compile_everything_once(installed, tmp_path):
    programs = [COUNT + RUN + "print(*made)"] * PROCESSES
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=installed,
                                env=environment(installed, NNET3PY_CACHE=tmp_path / "cache")) for program in programs]
    results = [process.communicate()[0].split() for process in started]
    assert [value for value, *_ in results] == ["4.0"] * PROCESSES
    made = [name for _, *names in results for name in names]
    assert "family.scale.kernel" in made and len(made) == len(set(made))
    assert len(made) == len(list((tmp_path / "cache").rglob("*.kernel")))


def test_numbas_own_setting_is_left_alone(monkeypatch, tmp_path):
    from numba.core import config
    monkeypatch.setattr(code_files, "cache_folder", lambda: tmp_path)
    before = config.CACHE_DIR
    with code_files.kept_on_disk(Path(__file__), "another"):
        inside = config.CACHE_DIR
    assert config.CACHE_DIR == before
    assert Path(inside).parent == tmp_path and inside.endswith("another")


def test_hash_follows_imports():
    elementwise = ROOT / "nnet3py" / "ops" / "cpu" / "elementwise.py"
    reached = kernel_code._imported_sources(elementwise)
    assert elementwise.parents[1] / "formulas" / "elements.py" in reached
    sources = kernel_code.sources_of(elementwise)
    assert elementwise in sources != kernel_code.sources_of(elementwise.with_name("rows.py"))


@pytest.mark.slow
def test_compiling_does_not_load_all_of_scipy_but_functions_that_need_it_still_work(tmp_path: Path) -> None:
    program = """
import sys
import numba, numpy
from nnet3py.ops.cpu import load
load("set_const")
assert "scipy.linalg" not in sys.modules
product = numba.njit(lambda a, b: numpy.dot(a, b))(numpy.eye(2), numpy.ones((2, 2)))
assert product.sum() == 4.0 and "scipy.linalg" in sys.modules
"""
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_a_kernel_on_disk_needs_no_numba(tmp_path: Path) -> None:
    program = """
import sys
import numpy
from nnet3py.ops import get_ops
matrix = numpy.zeros((1, 3), numpy.float32)
get_ops("cpu").set_const(matrix, 2.0)
print(matrix.sum(), "numba" in sys.modules, "scipy.linalg" in sys.modules)
"""
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    found = [subprocess.run([sys.executable, "-c", program], check=True, env=environment, capture_output=True,
                            text=True).stdout.split() for _ in range(2)]
    assert found == [["6.0", "True", "False"], ["6.0", "False", "False"]]


@pytest.mark.parametrize("with_product", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_process_that_compiles_computes_what_later_ones_do(tmp_path: Path, with_product: bool) -> None:
    """Sums that LLVM may reorder, in a shared kernel, and many functions that a kernel calls: bit by bit the same."""
    program = """
import sys
import numpy as np
from nnet3py.ops import get_ops
ops, rows = get_ops("cpu"), np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
softmax, normalized = np.empty_like(rows), np.empty_like(rows)
ops.softmax(softmax, rows)
ops.normalize_rows(normalized, rows, 1.0)
product = np.empty_like(rows)
if sys.argv[1] == "True":
    ops.add_mat_mat(product, rows, rows, 1.0, 0.0, trans_b=True)
    print(product.tobytes().hex())
print(*(array.tobytes().hex() for array in (softmax, normalized)))
"""
    environment = {**os.environ, "NNET3PY_CACHE": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    found = [subprocess.run([sys.executable, "-c", program, str(with_product)], env=environment, capture_output=True,
                            text=True, check=True).stdout for _ in range(2)]
    assert found[0] and found[0] == found[1]


# -- files -------------------------------------------------------------------------------------------------------------


KERNEL = "5793113e90ea3f27"      # the hash of that word
CODE = Code("symbol", ("x", "y", "z", "w", "v"), (True, -3, 0.1, math.inf), ("a", "b"), b"one\0other")


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "name.kernel"
    assert code_files.read(path) is None
    code_files.keep(path, CODE)
    assert code_files.read(path) == CODE
    assert [found.name for found in path.parent.iterdir()] == ["name.kernel"]


def test_what_is_damaged_is_not(tmp_path: Path) -> None:
    path = tmp_path / "name.kernel"
    code_files.keep(path, CODE)
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:-1], whole + b"x", whole[:20] + b"?" + whole[21:]):
        path.write_bytes(damaged)
        assert code_files.read(path) is None


def test_what_cannot_be_kept_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    code_files.keep(tmp_path / "file" / "below" / "name.kernel", CODE)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_folder_depends_on_each_source(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    names = set()
    for contents in (("1", "2"), ("12", ""), ("1", "3")):
        for path, content in zip((one, other), contents, strict=True):
            path.write_text(content)
        for remembered in (sources_hash, kernel_code._content_hash):
            remembered.cache_clear()           # a process takes sources to stay as they are
        names.add(code_files.folder_name([one, other]))
        assert code_files.folder_name([other, one]) in names
    assert len(names) == 3


def test_hashes_are_the_same_for_all_pythons() -> None:
    """A wheel serves several: Python's own hash of sources would depend on its version."""
    from hashlib import blake2b

    from nnet3py.engine.kernel_code import hash_of

    assert hash_of(b"kernel") == blake2b(b"kernel", digest_size=8).digest() == bytes.fromhex(KERNEL)
