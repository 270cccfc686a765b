"""The kernels that come with the package: used without a compiler, and never where anything else is there."""
from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT
from shipped_kernels import NO_COMPILER, write_set

from nnet3py.cli.machine.warmup import kernels_of
from nnet3py.engine import code_files, interface, kernel_code, kernel_files, shipped
from nnet3py.engine.processor import LINUX, possible_kinds, processor

FEW = ("engine", "small_matrices", "rows")


@pytest.fixture(scope="module")
def all_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    write_set(folder)
    return folder


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with a few kernels, which is the package's, for functions of this process."""
    kernels = write_set(tmp_path / "kernels", FEW)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "kernels")
    monkeypatch.setattr(shipped, "set_name", lambda made_for: "set")
    monkeypatch.setattr(shipped, "_warned", [])
    monkeypatch.delenv(shipped.VARIABLE, raising=False)
    shipped.usable_folder.cache_clear()
    yield kernels
    monkeypatch.undo()
    shipped.usable_folder.cache_clear()


def run(program: str, kernels: Path, cache: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, str(kernels), *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
                          env={**os.environ, "NNET3PY_CACHE": str(cache), **environment})


COMMAND = NO_COMPILER + """
from nnet3py.cli.main import main
sys.argv = ["nnet3py", *sys.argv[2:]]
main()
"""


def test_words_without_a_compiler(all_kernels: Path, tmp_path: Path) -> None:
    done = run(COMMAND, all_kernels, tmp_path, "transcribe", "--demo", "tests/data/demo.wav")
    assert done.returncode == 0 and "ten minutes" in done.stdout, done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.kernel"))


def test_a_compiler_would_be_noticed(all_kernels: Path, tmp_path: Path) -> None:
    """Without one of the kernels that it needs, the same command ends."""
    shutil.copytree(all_kernels, tmp_path / "kernels")
    for path in (tmp_path / "kernels" / "set").glob("decoding.*"):
        path.unlink()
    done = run(COMMAND, tmp_path / "kernels", tmp_path / "cache", "transcribe", "--demo", "tests/data/demo.wav")
    assert done.returncode != 0


TRAINING = NO_COMPILER + '''
import numpy as np
import nnet3py
nnet = nnet3py.Nnet()
nnet.read_config("""
input-node name=input dim=4
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=8
component name=r type=RectifiedLinearComponent dim=8
component name=b type=BatchNormComponent dim=8
component name=o type=NaturalGradientAffineComponent input-dim=8 output-dim=3
component name=s type=LogSoftmaxComponent dim=3
component-node name=a component=a input=Append(Offset(input, -1), input)
component-node name=r component=r input=a
component-node name=b component=b input=r
component-node name=o component=o input=b
component-node name=s component=s input=o
output-node name=output input=s
""")
rng = np.random.default_rng(1)
data = [(rng.standard_normal((20, 4)).astype(np.float32), rng.integers(0, 3, 20)) for _ in range(8)]
nnet3py.train(nnet, data, num_epochs=1)
print(nnet3py.compute(nnet, data[0][0]).tobytes().hex())
'''


def test_training_without_a_compiler_gives_the_same_bytes(all_kernels: Path, tmp_path: Path) -> None:
    shipped_results = run(TRAINING, all_kernels, tmp_path / "a")
    program = TRAINING.replace(NO_COMPILER, "import sys\n")
    own = run(program, all_kernels, Path(os.environ.get("NNET3PY_CACHE", tmp_path / "b")), NNET3PY_KERNELS="compiled")
    assert shipped_results.returncode == 0 == own.returncode, shipped_results.stderr + own.stderr
    assert re.fullmatch(r"[0-9a-f]{400,}\n", own.stdout) and shipped_results.stdout == own.stdout


def test_all_is_found(few) -> None:
    for kernel in few:
        assert shipped.read(kernel.key) is not None, kernel.key
        assert code_files.find(kernel.key) is not None
    other = kernels_of("cpu", "pooling")[0]
    assert shipped.read(other.key) is None and not shipped._warned


def test_those_who_want_none_get_none(few, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shipped.VARIABLE, shipped.COMPILED)
    shipped.usable_folder.cache_clear()
    assert shipped.usable_folder() is None and shipped.read(few[0].key) is None


@pytest.mark.parametrize("change, message", [
    (lambda text: text.replace("sources ", "sources 0"), "was made for sources 0"),
    (lambda text: text.replace(f"processor {processor().kind} ", "processor 486 "), "was made for processor 486 "),
    (lambda text: text.replace("interface ", "interface of numpy 9"), "was made for interface of numpy 9"),
    (lambda text: "rows" + text, "was made for rows"),
])
def test_what_was_made_for_something_else_is_not_used(few, change, message: str, caplog) -> None:
    kernels = kernels_of("cpu", "rows")
    for kernel in kernels:
        path = shipped.FOLDER / "set" / shipped.file_name(kernel.key)
        belongs = change(shipped.belonging(kernel.key, processor()))
        path.write_bytes(kernel_code.to_bytes(code_files.find(kernel.key), belongs))     # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "nnet3py.ops"):
        assert [shipped.read(kernel.key) for kernel in kernels] == [None] * len(kernels) and len(kernels) > 1
    assert len(caplog.records) == 1, "it is said once"
    assert message in caplog.text and "are not used, but compiled" in caplog.text and "here is" in caplog.text


def test_a_damaged_file_is_not_used(few, caplog) -> None:
    path = shipped.FOLDER / "set" / shipped.file_name(few[0].key)
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100], b"", content[:200] + b"x" + content[201:]):
        path.write_bytes(damaged)
        assert shipped.read(few[0].key) is None
    assert "is damaged" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
def test_what_others_can_write_is_not_used(few, caplog) -> None:
    path = shipped.FOLDER / "set" / shipped.file_name(few[0].key)
    path.chmod(0o666)
    assert shipped.read(few[0].key) is None
    assert "can be written by all users, unlike" in caplog.text
    path.chmod(0o644)
    assert shipped.read(few[0].key) is not None
    shipped.FOLDER.chmod(0o777)
    shipped.usable_folder.cache_clear()
    assert shipped.usable_folder() is None and shipped.read(few[0].key) is None
    shipped.FOLDER.chmod(0o755)


SUM = """
from pathlib import Path
from nnet3py.engine import shipped
shipped.set_name = lambda made_for: "set"
import numpy as np
from nnet3py.ops import get_ops
target = np.zeros((2, 3), dtype=np.float32)
get_ops("cpu").add_mat(target, np.ones((2, 3), dtype=np.float32), 1.0)
print(target.sum(), Path(shipped.__file__).parent)
"""


def test_kernels_of_an_old_wheel_with_changed_sources_are_never_used(tmp_path: Path) -> None:
    """As if a file of an installed package had been changed: what it computes changes, though the kernels are there."""
    package = tmp_path / "nnet3py"
    shutil.copytree(ROOT / "nnet3py", package, ignore=shutil.ignore_patterns("__pycache__", "demo_model"))
    write_set(package / "kernels", ("engine", "elementwise"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NNET3PY_CACHE": str(tmp_path / "cache")}

    def compute() -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-c", SUM], capture_output=True, text=True, env=environment,
                              cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0 and str(package) in done.stdout, done.stdout + done.stderr
        return done

    first = compute()
    assert first.stdout.startswith("6.0") and not list((tmp_path / "cache").rglob("*.kernel"))
    source = package / "ops" / "formulas" / "elements.py"
    text = source.read_text(encoding="utf-8")
    changed = re.sub(r"(def add_mat\([^)]*\):(?:\n.*?)*?return )(.*)", r"\1 2 * (\2)", text, count=1)
    assert changed != text
    source.write_text(changed, encoding="utf-8")
    second = compute()
    assert second.stdout.startswith("12.0") and list((tmp_path / "cache").rglob("*add_mat*.kernel"))
    assert second.stderr.count("are not used, but compiled") == 1 and "was made for sources" in second.stderr


def test_the_interface_is_what_this_numpy_has() -> None:
    interface.check_arrays()
    text = interface.description()
    assert sys.platform in text and str(object.__basicsize__) in text


def test_another_numpy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from nnet3py.errors import Nnet3Error

    for field in ("DATA", "SHAPE", "DTYPE", "TYPE_NUMBER"):
        monkeypatch.setattr(interface, field, getattr(interface, field) + 8)
        interface.check_arrays.cache_clear()
        with pytest.raises(Nnet3Error, match="lays out arrays in another way"):
            interface.check_arrays()
        monkeypatch.undo()
    interface.check_arrays.cache_clear()


def test_arrays_are_taken_apart() -> None:
    """As the entries of kernels do it, for every dtype that kernels have."""
    from nnet3py.engine import compiling
    from nnet3py.engine.kinds import TYPES

    bodies = {1: lambda x: x.shape[0] * 100 + x.strides[0], 2: lambda x: x.shape[0] * 100 + x.shape[1] + x.strides[0]}
    for name, kind in {str(kind): (name, kind) for name, kind in TYPES.items() if hasattr(kind, "ndim")}.values():
        function = kernel_files.function_of(compiling.make(bodies[kind.ndim], (kind,)), name)
        array = np.zeros((3, 5)[:kind.ndim], dtype=str(kind.dtype))
        assert function(array) == 300 + array.strides[0] + (5 if kind.ndim == 2 else 0), name
        wrong = {"expected a .* (vector|matrix)$": [np.zeros((2, 2, 2), dtype=array.dtype), array.astype(np.complex64)]}
        if array.itemsize > 1:
            wrong["in the machine's byte order"] = [array.astype(array.dtype.newbyteorder())]
        unwritable = array.copy()
        unwritable.flags.writeable = False
        wrong["that can be written"] = [unwritable]
        if kind.layout == "C":
            wrong["and is contiguous"] = [np.zeros((6, 10)[:kind.ndim], dtype=array.dtype)[::2]]
        for message, arrays in wrong.items():
            for given in arrays:
                with pytest.raises(TypeError, match=message):
                    function(given)


def test_the_bar_knows_how_many_there_are() -> None:
    from nnet3py.cli.machine.warmup import families
    from nnet3py.engine import compiling

    count = sum(len(kernels_of("cpu", family)) for family in families("cpu"))
    assert 0.85 * compiling.MOST_KERNELS < count <= compiling.MOST_KERNELS


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sets of wheels for this machine."""
    machine = processor().triple.partition("-")[0]
    if processor().triple not in LINUX.values():
        pytest.skip("wheels carry no kernels for this system")
    folder = tmp_path_factory.mktemp("sets")
    subprocess.run([sys.executable, "-m", "nnet3py.cli.machine.warmup", machine, folder], check=True, cwd=ROOT)
    return folder


WITH_SET = """
import sys
from pathlib import Path
from nnet3py.engine import shipped
shipped.FOLDER = Path(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", possible_kinds()[:-1])
def test_results_of_each_set_are_those_of_kernels_compiled_here(kind: str, sets: Path, tmp_path: Path) -> None:
    """Words, their confidences, and the results of a training, to the last bit."""
    for program, args in ((COMMAND, ("transcribe", "--demo", "--format=json", "tests/data/demo.wav")), (TRAINING, ())):
        program = program.replace(NO_COMPILER, WITH_SET)
        of_set = run(program, sets, tmp_path / "none", *args, NNET3PY_CPU=kind)
        assert of_set.returncode == 0 and not list((tmp_path / "none").rglob("*.kernel")), of_set.stderr
        here = run(program, sets, tmp_path / "cache", *args, NNET3PY_CPU=kind, NNET3PY_KERNELS="compiled")
        assert here.returncode == 0 and list((tmp_path / "cache").rglob("*.kernel")), here.stderr
        assert of_set.stdout and of_set.stdout == here.stdout
