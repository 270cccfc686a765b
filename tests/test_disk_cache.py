"""A folder of compiled computations: the next process compiles nothing, and whatever is wrong there does no harm."""
from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from case_runs import read_request
from paths import DATA
from runtime_cases import TDNN, training_request

import nnet3py
from nnet3py.compiler import cache as cache_module
from nnet3py.compiler import disk_cache as disk_cache_module
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.compiler.cache_entry import KEY_LENGTH, to_bytes
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.disk_cache import (
    ABANDONED_AFTER,
    ENVIRONMENT,
    SUFFIX,
    UNFINISHED,
    DiskCache,
    default_folder,
    disk_cache,
)
from nnet3py.compiler.request import ComputationRequest
from nnet3py.network.nnet import Nnet

CASES = DATA / "cases"
KEYS = [f"{number:064x}" for number in range(6)]


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is known yet, and none is named by the environment."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    disk_cache_module._disk_cache.cache_clear()


def case(name: str = "affine") -> tuple[Nnet, ComputationRequest]:
    return nnet3py.read_nnet(str(CASES / name / "nnet.raw")), read_request(CASES / name / "request.txt")[0]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("generate_computation", "expand_computation", "optimize"):
        monkeypatch.setattr(cache_module, name, None)


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_a_second_process_compiles_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, request = case(name)
    first = CachingCompiler(nnet, cache_dir=tmp_path / "new" / "folder").compile(request)
    assert len(entries(tmp_path / "new" / "folder")) == 1
    forbid_compiling(monkeypatch)
    again, _ = case(name)
    compiler = CachingCompiler(again, cache_dir=tmp_path / "new" / "folder")
    found = compiler.compile(request)
    assert to_bytes(found, KEYS[0]) == to_bytes(first, KEYS[0])
    assert compiler.compile(request) is found
    assert compiler.seconds_io > 0.0 and not any(compiler.seconds.values())


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, request = case()
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
    assert caplog.text.count("cannot be used and will be compiled again: not a computation as it was stored") == 1
    assert [path.read_bytes() for path in entries(tmp_path)] == whole


def test_a_computation_of_another_network_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Even where somebody stored it under the key of this one."""
    nnet, request = case("affine")
    other, other_request = case("tdnn-component")
    compiler = CachingCompiler(nnet, cache_dir=tmp_path)
    key = compiler._disk_key(request)
    DiskCache(tmp_path).store(key, nnet3py.compile(other, other_request))
    with caplog.at_level(logging.WARNING):
        found = compiler.compile(request)
    assert "cannot be used and will be compiled again" in caplog.text
    assert to_bytes(found, key) == to_bytes(nnet3py.compile(nnet, request), key)
    (tmp_path / f"{KEYS[1]}{SUFFIX}").write_bytes((tmp_path / f"{key}{SUFFIX}").read_bytes())     # renamed
    assert DiskCache(tmp_path).load(KEYS[1], lambda computation: None) is None
    assert "that of another request or network" in caplog.text


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
from nnet3py.compiler.cache_entry import to_bytes
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
