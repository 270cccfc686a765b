"""formats/layouts.py and matrix_bytes.py: copy-feats writes, and says, what it does when it reads every value."""
from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

from nnet3py.cli.feat.copy_feats import copy_feats
from nnet3py.formats import compressed_code, layouts, matrix_bytes
from nnet3py.formats.compressed import CompressedMatrix
from nnet3py.formats.general import write_general_matrix
from nnet3py.formats.matrix_bytes import RAW_MATRIX
from nnet3py.io.tables import SequentialReader
from nnet3py.io.tokens import TokenWriter

RNG = np.random.default_rng(5)
DENSE = [RNG.normal(size=(rows, 4)).astype(np.float32) for rows in (3, 1, 60, 500)]
COMPRESSED = [CompressedMatrix.compress(one, method) for one in DENSE[2:] for method in (2, 3, 5)]


def entry(key: bytes, value: Any, binary: bool = True) -> bytes:
    stream = io.BytesIO()
    stream.write(key + (b" \0B" if binary else b" "))
    write_general_matrix(TokenWriter(stream, binary), value)
    return stream.getvalue()


def entries(values: list[Any], name: bytes = b"key") -> bytes:
    return b"".join(entry(name + b"-%d" % number, value) for number, value in enumerate(values))


PLAIN = entries(DENSE)
ARCHIVES = {
    "nothing": b"", "plain": PLAIN, "one": entry(b"k", DENSE[0]),
    "compressed": entries(COMPRESSED), "compressed behind": PLAIN + entries(COMPRESSED, b"c"),
    "compressed in front": entries(COMPRESSED, b"c") + PLAIN,
    "doubles between": PLAIN + entry(b"double", DENSE[0].astype(np.float64)) + entries(DENSE, b"more"),
    "text between": PLAIN + entry(b"text", DENSE[0], binary=False) + entries(DENSE, b"more"),
    "all text": entry(b"text", DENSE[0], binary=False),
    "empty matrices": PLAIN + entry(b"empty", DENSE[0][:0]) + entries(DENSE, b"more"),
    "odd keys": entry(b"\xff\xfe\x80", DENSE[0]) + entry("ключ".encode(), DENSE[1]) + entry(b"k\xc2\xa0", DENSE[0]),
    "long key": PLAIN + entry(b"k" * 700, DENSE[0]) + PLAIN,
    "equal keys": PLAIN + PLAIN,
    "blanks between": PLAIN + b" \n" + PLAIN,
    "two blanks": entry(b"k ", DENSE[0]) + PLAIN,
    "a vector": PLAIN + b"v \0BFV \4\2\0\0\0" + bytes(8) + PLAIN,
    "no header": PLAIN + entry(b"k", DENSE[0]).replace(b"\0B", b"") + PLAIN,
    "negative": PLAIN + b"k \0BFM \4\xff\xff\xff\xff\4\xff\xff\xff\xff" + PLAIN,
    "huge": PLAIN + b"k \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f" + PLAIN,
    "wrong sizes": PLAIN + b"k \0BFM \4\1\0\0\0\x08\1\0\0\0" + PLAIN,
    "damaged first": b"k \0BFM \4\1\0\0\0\x08\1\0\0\0" + PLAIN,
    "key only": PLAIN + b"key-x", "key and blank": PLAIN + b"key-x ", "half a head": PLAIN + b"key-x \0BFM \4\1",
    "cut": PLAIN[:-5], "cut compressed": entries(COMPRESSED)[:-5], "no archive": b"\0\1\2 what",
}


def outcome(words: list[str], folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[Any, ...]:
    """Exit status, what was said, and the files that are there, with their bytes."""
    for path in folder.glob("out*"):
        path.unlink()
    status = copy_feats.execute(words)
    return status, capfd.readouterr().err, {path.name: path.read_bytes() for path in sorted(folder.glob("*out*"))}


@pytest.fixture
def read_everything(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def switch() -> None:
        monkeypatch.setattr(SequentialReader, "runs", lambda self, find: iter(()))
        monkeypatch.setattr(RAW_MATRIX, "skimmer", None)
        monkeypatch.setattr(matrix_bytes, "decoded_matrix", lambda num_threads: RAW_MATRIX)
    return switch


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("small_runs", [False, True])
def test_tables(name: str, small_runs: bool, here: Path, monkeypatch: pytest.MonkeyPatch,
                capfd: pytest.CaptureFixture[str], read_everything: Callable[[], None]) -> None:
    Path("in").write_bytes(ARCHIVES[name])
    if small_runs:
        monkeypatch.setattr(layouts, "_RUN", 1)
        monkeypatch.setattr(compressed_code, "COST_OF_LOADING", -1.0)
        monkeypatch.setattr(compressed_code, "COST_IF_LOADED", -1.0)
    commands = [["ark:in", "ark,scp:out,out.scp"], ["--write-num-frames=ark,t:out.len", "ark:in", "ark:out"],
                ["ark,p:in", "ark,f:out"], ["ark:in", "ark,t:out"], ["--compress=true", "ark:in", "ark:out"]]
    found = [outcome(words, here, capfd) for words in commands]
    read_everything()
    assert found == [outcome(words, here, capfd) for words in commands]


def test_bytes_are_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_bytes(PLAIN)
    monkeypatch.setattr(SequentialReader, "__iter__", lambda self: pytest.fail("values were read")
                        if self.stream.peek(1) else iter(()))
    assert copy_feats.execute([f"ark:{tmp_path}/in", f"ark:{tmp_path}/out"]) == 0
    assert (tmp_path / "out").read_bytes() == PLAIN


def run_command(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = f"'{sys.executable}' -c 'from nnet3py.cli.main import run; run(\"copy-feats\")'"
    script = f"set -o pipefail; copy() {{ {command} --print-args=false \"$@\"; }}; {words}"
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("words", [
    "copy ark:in ark:- >out", "copy ark:in ark:- >>out", "copy ark:- ark:- <in >out", "cat in | copy ark:- ark:- >out",
    "copy 'ark:cat in|' 'ark:|cat >out'", "copy ark:in ark:- | cat >out"])
def test_pipes_and_standard_streams(words: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(PLAIN)
    done = run_command(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes() == PLAIN


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(entries([np.ones((100_000, 4), dtype=np.float32)] * 3))
    done = run_command("copy ark:in ark:- | head -c 10 >out; exit ${PIPESTATUS[0]}", tmp_path)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(PLAIN)
    done = run_command("copy ark:in ark:/dev/full", tmp_path)
    assert done.returncode == 255 and "No space left on device" in done.stderr


VALUES = {
    **{f"dense {number}": entry(b"", value)[1:] for number, value in enumerate(DENSE)},
    **{f"compressed {number}": entry(b"", value)[1:] for number, value in enumerate(COMPRESSED)},
    "large": entry(b"", np.ones((9000, 3), dtype=np.float32))[1:],
    "double": entry(b"", DENSE[0].astype(np.float64))[1:], "text": entry(b"", DENSE[0], binary=False)[1:],
    "empty": entry(b"", DENSE[0][:0])[1:], "vector": b"\0BFV \4\2\0\0\0" + bytes(8),
    "negative": b"\0BFM \4\xff\xff\xff\xff\4\xff\xff\xff\xff", "huge": b"\0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f",
    "wrong sizes": b"\0BFM \4\1\0\0\0\x08\1\0\0\0", "cut": entry(b"", DENSE[3])[1:-9],
}


@pytest.mark.parametrize("name", VALUES)
def test_scripts(name: str, here: Path, capfd: pytest.CaptureFixture[str], read_everything: Callable[[], None]) -> None:
    good = VALUES["dense 2"] + VALUES["compressed 0"]
    Path("in").write_bytes(good + VALUES[name])
    Path("other").write_bytes(good)
    places = ["in:0", f"other:{len(VALUES['dense 2'])}", f"in:{len(good)}", "in:0"]
    last = {"missing": "in-no-folder/in:0", "far": "in:99999999", "range": f"in:{len(VALUES['dense 2'])}[1:3]",
            "plain": "other", "negative": "in:-1"}
    commands = [["scp:in.scp", "ark:out"], ["scp,p:in.scp", "ark:out"], ["--compress=true", "scp:in.scp", "ark:out"]]

    def outcomes() -> list[Any]:
        results = []
        for ending in last.values():
            lines = [f"key-{number} {place}\n" for number, place in enumerate([*places, ending])]
            Path("in.scp").write_text("".join(lines))
            results += [outcome(one, here, capfd) for one in commands]
        return results

    found = outcomes()
    read_everything()
    assert found == outcomes()
