"""A folder of compiled computations: keys, entries, and processes that share it; damage there does no harm."""
from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import read_request
from component_configs import CONFIGS
from component_forms import make, row_patterns
from golden_cases import runnable_cases
from io_samples import damaged, reader_of, written
from paths import DATA, shared_golden
from random_cases import KINDS, case
from runtime_cases import LSTM, TDNN, training_request

import nnet3py
from nnet3py.compiler import cache as cache_module
from nnet3py.compiler import disk_cache as disk_cache_module
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.check import check_loaded
from nnet3py.compiler.computation import CommandType, Computation
from nnet3py.compiler.disk_cache import (
    ABANDONED_AFTER,
    ENVIRONMENT,
    KEY_LENGTH,
    SUFFIX,
    UNFINISHED,
    DiskCache,
    computation_key,
    default_folder,
    disk_cache,
    flags_of,
    from_bytes,
    request_digest,
    sources_digest,
    structure_of,
    to_bytes,
)
from nnet3py.compiler.optimize import OptimizeOptions
from nnet3py.compiler.request import ComputationRequest, IoSpecification
from nnet3py.components.base import Component
from nnet3py.errors import FormatError, Nnet3Error
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode, set_learning_rate
from nnet3py.runtime.binding import plan_memory

CASES = DATA / "cases"
KEYS = [f"{number:064x}" for number in range(6)]


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is known yet, and none is named by the environment."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    disk_cache_module._disk_cache.cache_clear()


def network_and_request(name: str = "affine") -> tuple[Nnet, ComputationRequest]:
    return nnet3py.read_nnet(str(CASES / name / "nnet.raw")), read_request(CASES / name / "request.txt")


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("generate_computation", "expand_computation", "optimize"):
        monkeypatch.setattr(cache_module, name, None)


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_a_second_process_compiles_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, request = network_and_request(name)
    first = CachingCompiler(nnet, cache_dir=tmp_path / "new" / "folder").compile(request)
    assert len(entries(tmp_path / "new" / "folder")) == 1
    forbid_compiling(monkeypatch)
    again, _ = network_and_request(name)
    compiler = CachingCompiler(again, cache_dir=tmp_path / "new" / "folder")
    found = compiler.compile(request)
    assert to_bytes(found, KEYS[0]) == to_bytes(first, KEYS[0])
    assert compiler.compile(request) is found
    assert compiler.seconds_io > 0.0 and not any(compiler.seconds.values())


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, request = network_and_request()
    assert disk_cache(None) is None
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    nnet3py.compile(nnet, request, cache_dir="")
    assert not entries(tmp_path)
    nnet3py.compile(nnet, request)
    assert len(entries(tmp_path)) == 1
    nnet3py.compile(nnet, request, cache_dir=tmp_path / "other")
    assert len(entries(tmp_path / "other")) == 1


def test_compute_takes_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config(TDNN)
    feats = np.random.default_rng(0).standard_normal((20, 3), dtype=np.float32)
    expected = nnet3py.compute(nnet, feats, cache_dir=tmp_path)
    forbid_compiling(monkeypatch)
    np.testing.assert_array_equal(nnet3py.compute(nnet, feats, cache_dir=tmp_path), expected)


def test_what_was_read_is_not_extended(tmp_path: Path) -> None:
    """Two sequences from disk, then many of that shape: compiled, and the same as ever."""
    nnet = Nnet.from_config(TDNN)
    CachingCompiler(nnet, cache_dir=tmp_path).compile(training_request(2))
    compiler = CachingCompiler(nnet, cache_dir=tmp_path)
    compiler.compile(training_request(2))
    assert compiler.seconds["compilation"] == 0.0
    found = compiler.compile(training_request(8))
    assert compiler.seconds["compilation"] > 0.0 and compiler.seconds["shortcut expansion"] > 0.0
    assert to_bytes(found, KEYS[0]) == to_bytes(nnet3py.compile(nnet, training_request(8)), KEYS[0])
    assert len(entries(tmp_path)) == 2


def test_a_changed_network_has_entries_of_its_own(tmp_path: Path) -> None:
    """A change in place, with a new version, and one without: a component put into test mode."""
    nnet = Nnet.from_config(TDNN)
    compiler = CachingCompiler(nnet, cache_dir=tmp_path)
    compiler.compile(training_request(2))
    nnet.set_node_input("b", "Append(Offset(t, -2), t)")
    compiler.compile(training_request(2))
    assert len(entries(tmp_path)) == 2
    nnet.components[0].learning_rate = 0.0
    CachingCompiler(nnet, cache_dir=tmp_path).compile(training_request(2))
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize("content", [b"", b"\0B<Nnet3> ", b"half"])
def test_a_damaged_entry_is_compiled_again(content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With one warning for all of them; then they are whole again."""
    nnet = Nnet.from_config(TDNN)
    requests = [training_request(n) for n in (1, 2, 3)]
    for request in requests:
        CachingCompiler(nnet, cache_dir=tmp_path).compile(request)
    whole = [path.read_bytes() for path in entries(tmp_path)]
    for path in entries(tmp_path):
        path.write_bytes(path.read_bytes()[:-40] if content == b"half" else content)
    with caplog.at_level(logging.WARNING):
        for request in requests:
            CachingCompiler(nnet, cache_dir=tmp_path).compile(request)
    assert caplog.text.count("cannot be used and will be compiled again: damaged entry of the computation cache") == 1
    assert [path.read_bytes() for path in entries(tmp_path)] == whole


def test_a_computation_of_another_network_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Even where somebody stored it under the key of this one."""
    nnet, request = network_and_request("affine")
    other, other_request = network_and_request("tdnn-component")
    compiler = CachingCompiler(nnet, cache_dir=tmp_path)
    key = compiler._disk_key(request)
    DiskCache(tmp_path).store(key, nnet3py.compile(other, other_request))
    with caplog.at_level(logging.WARNING):
        found = compiler.compile(request)
    assert "cannot be used and will be compiled again" in caplog.text
    assert to_bytes(found, key) == to_bytes(nnet3py.compile(nnet, request), key)
    (tmp_path / f"{KEYS[1]}{SUFFIX}").write_bytes((tmp_path / f"{key}{SUFFIX}").read_bytes())     # renamed
    assert DiskCache(tmp_path).load(KEYS[1], lambda computation: None) is None
    assert "the entry of another request or network" in caplog.text


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_is_one_warning(place: str, tmp_path: Path,
                                                        caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    nnet = Nnet.from_config(TDNN)
    with caplog.at_level(logging.WARNING):
        for n in (1, 2, 3):
            assert CachingCompiler(nnet, cache_dir=tmp_path / place).compile(training_request(n)).commands
    assert len(caplog.records) == 1
    assert "computations in" in caplog.text and "they are compiled in every process" in caplog.text
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    resource = pytest.importorskip("resource")
    store = DiskCache(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    with caplog.at_level(logging.WARNING):
        for key in KEYS:
            store.store(key, Computation())
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caplog.text.count("File too large") == 1
    assert not list(tmp_path.iterdir())


def open_to_all(path: Path) -> str:
    path.chmod(0o777)
    return "can be written by all users"


def make_anothers(path: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(path, 54321, 54321)
    return "belongs to another user"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
@pytest.mark.parametrize("spoil", [open_to_all, make_anothers])
def test_what_others_could_plant_is_not_taken(tmp_path: Path, spoil, caplog: pytest.LogCaptureFixture) -> None:
    nnet, folder = Nnet.from_config(TDNN), tmp_path / "folder"
    requests = [training_request(n) for n in (1, 2, 3)]
    for request in requests:
        CachingCompiler(nnet, cache_dir=folder).compile(request)
    (entry, *_) = entries(folder)
    fault = spoil(entry)
    for request in requests:
        CachingCompiler(nnet, cache_dir=folder).compile(request)
    assert len(caplog.records) == 1 and f"{entry} {fault}" in caplog.text
    assert entry.stat().st_mode & 0o777 == 0o600 and entry.stat().st_uid == os.geteuid(), "it was replaced"
    caplog.clear()
    spoil(folder)
    disk_cache_module._disk_cache.cache_clear()            # as in a new process
    entry.unlink()
    for request in requests:
        compiler = CachingCompiler(nnet, cache_dir=folder)
        compiler.compile(request)
        assert compiler.seconds["compilation"] > 0.0
    (said,) = (record.getMessage() for record in caplog.records)
    assert f"{folder} {fault}" in said and "neither taken from" in said and not entry.exists()


# -- its size ----------------------------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    size = len(to_bytes(Computation(), KEYS[0]))
    (tmp_path / "letter.txt").write_text("not an entry" * 1000)
    folder, now = DiskCache(tmp_path, max_bytes=4 * size), time.time()
    for age, key in enumerate(KEYS[:4]):
        folder.store(key, Computation())
        os.utime(tmp_path / f"{key}{SUFFIX}", (now - 100 + age, now - 100 + age))
    assert len(entries(tmp_path)) == 4
    assert folder.load(KEYS[0], lambda computation: None) is not None         # used now, so 1 is the oldest
    folder.store(KEYS[4], Computation())
    kept = [path.name[:KEY_LENGTH] for path in entries(tmp_path)]
    assert kept == [KEYS[0], KEYS[3], KEYS[4]] and (tmp_path / "letter.txt").exists()
    for _ in range(3):
        for key in KEYS:
            folder.store(key, Computation())
            assert sum(path.stat().st_size for path in entries(tmp_path)) <= 4 * size
    DiskCache(tmp_path, max_bytes=size - 1).store("f" * 64, Computation())    # larger than all that is allowed
    assert not (tmp_path / f"{'f' * 64}{SUFFIX}").exists()


def test_what_was_never_finished_is_removed_later(tmp_path: Path) -> None:
    old, young = tmp_path / f"old{UNFINISHED}", tmp_path / f"young{UNFINISHED}"
    for path in (old, young):
        path.write_bytes(b"half an entry")
    os.utime(old, (time.time() - 2 * ABANDONED_AFTER,) * 2)
    DiskCache(tmp_path).store(KEYS[0], Computation())
    assert not old.exists() and young.exists()


# -- processes ---------------------------------------------------------------------------------------------------------

_WORKER = """
import logging, sys
logging.basicConfig(level=logging.INFO)
sys.path.insert(0, sys.argv[1])
from runtime_cases import TDNN, training_request
from nnet3py.compiler import CachingCompiler
from nnet3py.compiler.disk_cache import to_bytes
from nnet3py.network.nnet import Nnet
import hashlib
digest, compiled = hashlib.sha256(), 0.0
for n in [*range(1, 9)] * 2:
    compiler = CachingCompiler(Nnet.from_config(TDNN))
    digest.update(to_bytes(compiler.compile(training_request(n)), "0" * 64))
    compiled += compiler.seconds["compilation"]
print(digest.hexdigest(), compiled > 0.0)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _WORKER, str(Path(__file__).parent)], text=True,
                            env={**os.environ, ENVIRONMENT: str(folder)}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def test_several_processes_at_once(tmp_path: Path) -> None:
    """All find the same, whoever compiled it, and one that comes later compiles nothing."""
    workers = [start(tmp_path) for _ in range(3)]
    results = [worker.communicate(timeout=120) for worker in workers]
    assert all(worker.returncode == 0 and err == "" for worker, (_, err) in zip(workers, results, strict=True)), results
    later, _ = start(tmp_path).communicate(timeout=120)
    digest, compiled = later.split()
    assert compiled == "False" and {out.split()[0] for out, _ in results} == {digest}
    assert len(entries(tmp_path)) == 8 and len(list(tmp_path.iterdir())) == 8


def test_where_computations_are_kept_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(default_folder()).name == "computations"
    for named in (str(tmp_path), ""):
        monkeypatch.setenv(ENVIRONMENT, named)
        assert default_folder() == named


# -- entries -----------------------------------------------------------------------------------------------------------


KEY = "ab" * 32


def loaded(name: str, folder: Path = CASES) -> tuple[Nnet, ComputationRequest, Computation]:
    nnet, request = nnet3py.read_nnet(str(folder / name / "nnet.raw")), read_request(folder / name / "request.txt")
    return nnet, request, nnet3py.compile(nnet, request)


def check_comes_back(nnet: Nnet, request: ComputationRequest, computation: Computation) -> None:
    """All parts are equal and of the same Python types; what is read passes the checker."""
    computation = computation.unfused()
    data = to_bytes(computation, KEY)
    again = from_bytes(data, KEY)
    assert to_bytes(again, KEY) == data
    assert again.describe(nnet) == computation.describe(nnet)
    for name in ("matrices", "submatrices", "commands", "need_model_derivative"):
        assert repr(getattr(again, name)) == repr(getattr(computation, name))
    for name in ("indexes", "indexes_multi", "indexes_ranges"):
        check_equal(getattr(again, name), getattr(computation, name))
    for mine, theirs in zip(again.precomputed_rows, computation.precomputed_rows, strict=True):
        check_equal(mine, theirs)
    for mine, theirs in zip(again.debug_info, computation.debug_info, strict=True):
        check_equal(mine[:2], theirs[:2])
        assert mine.is_deriv is theirs.is_deriv
    assert len(again.precomputed_indexes) == len(computation.precomputed_indexes)
    check_loaded(again, nnet, request)


def check_equal(mine, theirs) -> None:
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == np.int32 and one.flags.writeable
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_the_computation_of_a_case_comes_back(name: str) -> None:
    check_comes_back(*loaded(name))


def test_the_computation_of_every_golden_case_comes_back() -> None:
    folder = shared_golden() / "cases"
    names = runnable_cases(folder)
    for name in names:
        check_comes_back(*loaded(name, folder))
    assert names


@pytest.mark.parametrize("number", range(2 * len(KINDS)))
def test_the_computation_of_a_random_network_comes_back(number: int) -> None:
    one = case(number)
    check_comes_back(one.nnet, one.request, nnet3py.compile(one.nnet, one.request))


def test_equal_lists_are_stored_once() -> None:
    _, _, computation = loaded("tdnn-component")
    copies = computation.copy()
    copies.debug_info = [info._replace(indexes=info.indexes.copy()) for info in computation.debug_info]
    assert to_bytes(copies, KEY) == to_bytes(computation, KEY)
    again = from_bytes(to_bytes(copies, KEY), KEY)
    assert len({id(info.indexes) for info in again.debug_info}) < len(again.debug_info)


@pytest.mark.parametrize("change, message", [
    (lambda data: b"", "0 bytes are only a part of its beginning"),
    (lambda data: data[:50], "50 bytes are only a part"),
    (lambda data: b"\0B" + data, "another kind of file"), (lambda data: data[:-1], "damaged"),
    (lambda data: data.replace(KEY.encode(), b"cd" * 32), "another request or network"),
    (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "damaged"), (lambda data: data + b"\0", "damaged")])
def test_what_is_no_entry_is_refused(change, message: str) -> None:
    data = to_bytes(loaded("affine")[2], KEY)
    with pytest.raises(FormatError, match=message):
        from_bytes(change(data), KEY)


def signed(data: bytes) -> bytes:
    """The same with the checksum that belongs to it, as somebody would write it who means harm."""
    head = disk_cache_module._HEAD
    if len(data) < head.size:
        return data
    magic, key, _, count = head.unpack_from(data)
    return head.pack(magic, key, zlib.crc32(data[head.size:]), count) + data[head.size:]


def tampered(computation: Computation, count: int) -> Iterator[bytes]:
    """Entries with well-formed arrays, of which one has a number changed, or is longer or shorter."""
    rng = np.random.default_rng(7)
    arrays = disk_cache_module._to_arrays(computation)
    for _ in range(count):
        name = arrays._fields[rng.integers(len(arrays))]
        array = getattr(arrays, name).copy().reshape(-1)
        if array.size and rng.integers(4):
            array[rng.integers(array.size)] = rng.choice([-2, -1, 0, 1, 3, 100, 2**31 - 1]) if array.itemsize > 1 else 7
        else:
            array = array[:-1] if rng.integers(2) else np.concatenate((array, array[:1]))
        yield disk_cache_module._packed(arrays._replace(**{name: array}), KEY)


@pytest.mark.parametrize("name", ["affine", "tdnn-component", "statistics-pooling", "dropout-test-mode"])
def test_harm_is_refused_or_harmless(name: str) -> None:
    """Reading and checking raise Nnet3Error only; what passes can be run and stays within its matrices."""
    nnet, request, computation = loaded(name)
    data = to_bytes(computation, KEY)
    refused = 0
    for sample in (*map(signed, damaged(data, 100, seed=3)), *tampered(computation, 250)):
        try:
            again = from_bytes(sample, KEY)
            check_loaded(again, nnet, request)
        except Nnet3Error:
            refused += 1
            continue
        run(again, nnet, request)
    assert refused > 100


def run(computation: Computation, nnet: Nnet, request: ComputationRequest) -> None:
    """Forward and backward, on ones; results may be anything, and so may errors that are raised on purpose."""
    plan_memory(computation)
    with suppress(Nnet3Error):
        computer = nnet3py.Computer(computation, nnet, update=nnet.as_gradient())
        derivs = [spec for spec in request.outputs if spec.has_deriv]
        for specs, dim_of in ((request.inputs, nnet.input_dim), (derivs, nnet.output_dim)):
            for spec in specs:
                computer.accept_input(spec.name, np.ones((len(spec.indexes), dim_of(spec.name)), np.float32))
            computer.run()


@pytest.mark.parametrize("name, value, message", [
    ("command_types", [len(CommandType)], "command that does not exist"), ("command_types", [], "do not fit"),
    ("command_args", [0, 0], "another length"), ("submatrices", [-1] * 5, "negative"),
    ("indexes", [-2], "row number -2"), ("indexes_sizes", [1 << 30], "other lengths"),
    ("rows_t", [1], "different lengths"), ("debug_info", [0, 999, 0], "does not exist"),
    ("precomputed_rows", [999, 0], "does not exist"), ("need_model_derivative", [], "do not fit"),
    ("command_alphas", [1], "another type")])
def test_wrong_arrays_are_named(name: str, value: list[int], message: str) -> None:
    arrays = disk_cache_module._to_arrays(loaded("affine")[2])._replace(**{name: np.array(value, np.int32)})
    with pytest.raises(FormatError, match=message):
        from_bytes(disk_cache_module._packed(arrays, KEY), KEY)


def test_numbers_take_as_few_bytes_as_they_need() -> None:
    found = [disk_cache_module._narrow(np.array(values, np.int32)).dtype.itemsize
             for values in ([], [-128, 127], [128], [-129], [32767], [-32769], [2**31 - 1])]
    assert found == [1, 1, 2, 2, 2, 4, 4]


# -- keys --------------------------------------------------------------------------------------------------------------


EVERYTHING = """
input-node name=input dim=4
component name=t type=TdnnComponent input-dim=4 output-dim=4 time-offsets=-1,0,2
component name=r type=RectifiedLinearComponent dim=4
component name=b type=BatchNormComponent dim=4
component name=d type=GeneralDropoutComponent dim=4 time-period=2
component name=a type=NaturalGradientAffineComponent input-dim=8 output-dim=4
component-node name=t component=t input=input
component-node name=r component=r input=t
component-node name=b component=b input=r
component-node name=d component=d input=b
component-node name=a component=a input=Append(d, Scale(0.5, Offset(input, -3)))
output-node name=output input=a
"""


def identity(nnet: Nnet) -> tuple[bytes, bytes]:
    return structure_of(nnet), flags_of(nnet)


def scrambled(nnet: Nnet) -> Nnet:
    """A copy with other parameters and statistics."""
    other, rng = nnet.copy(), np.random.default_rng(0)
    other.scale(float(rng.random()))
    for component in other.components:
        for values in component.parameters().values():
            values += rng.standard_normal(values.shape).astype(np.float32)
    return other


@pytest.mark.parametrize("number", range(2 * len(KINDS)))
def test_parameters_play_no_part(number: int) -> None:
    """Networks that differ in numbers only have one key, and one computation."""
    one = case(number)
    other = scrambled(one.nnet)
    assert identity(other) == identity(one.nnet)
    first, second = (to_bytes(nnet3py.compile(nnet, one.request), "0" * 64) for nnet in (one.nnet, other))
    assert first == second


@pytest.mark.parametrize("text", [TDNN, LSTM, EVERYTHING])
@pytest.mark.parametrize("binary", [True, False])
def test_a_network_that_was_written_and_read_is_the_same(text: str, binary: bool) -> None:
    nnet = Nnet.from_config(text)
    again = Nnet.read(reader_of(written(lambda writer: nnet.write_to(writer), binary=binary), binary))
    assert identity(again) == identity(nnet)


def test_learning_rates_matter_only_where_they_are_zero() -> None:
    nnet = Nnet.from_config(EVERYTHING)
    before = identity(nnet)
    set_learning_rate(nnet, 0.0625)
    assert identity(nnet) == before
    set_learning_rate(nnet, 0.0)
    assert identity(nnet) != before


@pytest.mark.parametrize("old, new", [
    ("time-offsets=-1,0,2", "time-offsets=-1,0,3"), ("time-offsets=-1,0,2", "time-offsets=-1,0,2 use-bias=false"),
    ("time-period=2", "time-period=3"), ("time-period=2", "time-period=0"), ("time-period=2", "block-dim=2"),
    ("BatchNormComponent dim=4", "BatchNormComponent dim=4 block-dim=2"),
    ("type=BatchNormComponent", "type=NormalizeComponent"), ("type=RectifiedLinear", "type=Sigmoid"),
    ("Offset(input, -3)", "Offset(input, -2)"), ("Scale(0.5,", "Scale(0.5000001,"),
    ("Append(d, Scale(0.5, Offset(input, -3)))", "Append(Scale(0.5, Offset(input, -3)), d)"),
    ("output-node name=output", "output-node name=other"), ("component=b input=r", "component=b input=t"),
    ("output-node name=output input=a", "output-node name=output input=a objective=quadratic")])
def test_every_change_of_the_structure_matters(old: str, new: str) -> None:
    assert EVERYTHING.count(old) == 1
    assert identity(Nnet.from_config(EVERYTHING.replace(old, new))) != identity(Nnet.from_config(EVERYTHING))


def test_test_modes_matter() -> None:
    nnet = Nnet.from_config(EVERYTHING)
    found = [identity(nnet)]
    for change in (set_batchnorm_test_mode, set_dropout_test_mode):
        change(nnet, True)
        found.append(identity(nnet))
    assert len(set(found)) == 3


def behavior(component: Component) -> tuple[object, ...]:
    """Of a few patterns of rows, how many a component can compute of how many, and what it makes of them."""
    return tuple((rows.name, rows.num_inputs, rows.num_outputs,
                  b"" if rows.indexes is None else written(lambda writer, made: made.write(writer), rows.indexes,
                                                           binary=True)) for rows in row_patterns(component))


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_behaves_differently_has_a_key_of_its_own(kind: str) -> None:
    """Of all forms of a component."""
    found: dict[tuple[bytes, bytes], set[tuple[object, ...]]] = {}
    for line in CONFIGS[kind]:
        nnet = Nnet()
        nnet.components = [make(kind, line)]
        found.setdefault(identity(nnet), set()).add(behavior(nnet.components[0]))
    assert found and all(len(behaviors) == 1 for behaviors in found.values())


def request(**changes) -> ComputationRequest:
    values = {"name": "input", "times": (0, 1, 2), "deriv": False, "out": "output", "model": False, "stats": False,
              "given": True, **changes}
    return ComputationRequest([IoSpecification(values["name"], [(0, t, 0) for t in values["times"]], values["deriv"])],
                              [IoSpecification(values["out"], [(0, 1, 0)], values["given"])], values["model"],
                              values["stats"])


def test_all_of_the_request_matters() -> None:
    changes = [{}, {"name": "inpu"}, {"times": (0, 2, 1)}, {"times": (0, 1)}, {"deriv": True}, {"out": "o"},
               {"model": True}, {"stats": True}, {"given": False}]
    assert len({request_digest(request(**change)) for change in changes}) == len(changes)
    assert request_digest(request()) == request_digest(request())
    both = [IoSpecification(name, [(0, 0, 0)]) for name in ("a", "b")]
    out = [IoSpecification("output", [(0, 0, 0)])]
    swapped = ComputationRequest(both[::-1], out), ComputationRequest(both, out), ComputationRequest(both[:1], out)
    assert len(set(map(request_digest, swapped))) == 3


def test_options_sources_and_the_shortcut_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(options: OptimizeOptions | None = None, shortcut: bool = True) -> str:
        return computation_key(b"s", b"f", request(), options or OptimizeOptions(), shortcut)

    found = {key(), key(shortcut=False)}
    for field in dataclasses.fields(OptimizeOptions):
        value = getattr(OptimizeOptions(), field.name)
        changed = not value if isinstance(value, bool) else "fuse-sums" if isinstance(value, str) else 0
        found.add(key(dataclasses.replace(OptimizeOptions(), **{field.name: changed})))
    # Entries are not fused; but where nothing is to be fused at all, they have Kaldi's form.
    assert key(OptimizeOptions(fuse="none")) not in found
    assert len(found) == 2 + len(dataclasses.fields(OptimizeOptions)) - 1
    assert all(len(one) == 64 for one in found)
    monkeypatch.setattr("nnet3py.compiler.disk_cache.sources_digest", lambda: b"another version")
    assert key() not in found


def test_the_sources_of_the_compiler_are_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A changed, new or renamed file of compiler, components or network gives another digest; others do not."""
    for folder in ("compiler/optimize", "components", "network", "ops"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr("nnet3py.compiler.disk_cache._PACKAGE", tmp_path)
    found = [sources_digest.__wrapped__()]
    for name in ("compiler/a.py", "compiler/optimize/b.py", "components/c.py", "network/d.py", "index.py"):
        (tmp_path / name).write_text("one")
        found.append(sources_digest.__wrapped__())
    (tmp_path / "compiler/a.py").write_text("two")
    found.append(sources_digest.__wrapped__())
    (tmp_path / "compiler/a.py").rename(tmp_path / "compiler/e.py")
    found.append(sources_digest.__wrapped__())
    assert len(set(found)) == len(found)
    (tmp_path / "ops/kernel.py").write_text("one")
    assert sources_digest.__wrapped__() == found[-1]
