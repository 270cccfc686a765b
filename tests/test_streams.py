"""Files, pipes and offsets: what appears on disk, and what is said when something fails."""
from __future__ import annotations

import errno
import io
import logging
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from nnet3py.errors import Nnet3Error
from nnet3py.io.streams import ClosedOutput, open_input, open_output

PAYLOAD = bytes(range(256)) * 3000          # larger than the stream's buffer


def test_a_file_appears_when_complete(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with open_output(str(path)) as stream:
        stream.write(PAYLOAD)
        assert stream.tell() == len(PAYLOAD)
        assert path.read_bytes() == b"old"
        assert stream.name == str(path)
    assert path.read_bytes() == PAYLOAD
    assert os.listdir(tmp_path) == ["out"]
    with open_input(str(path)) as stream:
        assert stream.size == len(PAYLOAD) and stream.name == str(path)
        assert stream.read() == PAYLOAD


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(ValueError), open_output(str(tmp_path / "out")) as stream:
        stream.write(PAYLOAD)
        raise ValueError
    assert os.listdir(tmp_path) == []


def test_a_forgotten_stream_leaves_nothing(tmp_path):
    stream = open_output(str(tmp_path / "out"))
    stream.write(b"half")
    del stream
    assert os.listdir(tmp_path) == []


def test_mode_and_links_survive(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    os.chmod(tmp_path / "target", 0o640)
    os.symlink("target", tmp_path / "link")
    os.symlink("nothing-yet", tmp_path / "dangling")
    for name in ("link", "dangling"):
        with open_output(str(tmp_path / name)) as stream:
            stream.write(b"new")
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "target").read_bytes() == (tmp_path / "nothing-yet").read_bytes() == b"new"
    assert stat.S_IMODE(os.stat(tmp_path / "target").st_mode) == 0o640
    os.umask(mask := os.umask(0))
    assert stat.S_IMODE(os.stat(tmp_path / "nothing-yet").st_mode) == 0o666 & ~mask


def test_special_files_are_written_through(tmp_path):
    with open_output("/dev/null") as stream:
        stream.write(PAYLOAD)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    found = []
    thread = threading.Thread(target=lambda: found.append(fifo.read_bytes()))
    thread.start()
    with open_output(str(fifo)) as stream:
        stream.write(PAYLOAD)
    thread.join()
    assert found == [PAYLOAD] and stat.S_ISFIFO(os.stat(fifo).st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_is_an_error():
    with pytest.raises(Nnet3Error, match="/dev/full.*[Nn]o space"), open_output("/dev/full") as stream:
        stream.write(b"x")
    with pytest.raises(Nnet3Error, match="/dev/full"), open_output("/dev/full") as stream:
        stream.write(PAYLOAD)


def test_what_cannot_be_opened(tmp_path):
    for name in (tmp_path / "none" / "out", tmp_path):
        with pytest.raises(Nnet3Error, match="for writing"):
            open_output(str(name))
    for name in (tmp_path / "none", "a\0b"):
        with pytest.raises(Nnet3Error, match="for reading"):
            open_input(str(name))
    with pytest.raises(Nnet3Error):
        with open_input(str(tmp_path)) as stream:
            stream.read()


def test_offsets(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"0123456789")
    with open_input(f"{path}:7") as stream:
        assert stream.read() == b"789"
    with pytest.raises(Nnet3Error, match="beyond the end"):
        open_input(f"{path}:11")


def test_pipes(tmp_path, caplog):
    path = tmp_path / "x"
    with open_output(f"| cat > '{path}'") as stream:
        stream.write(PAYLOAD)
    with open_input(f"cat '{path}' |") as stream:
        assert stream.size is None
        assert stream.read() == PAYLOAD
    assert stream.status == 0 and not caplog.records


def test_failing_pipes(caplog):
    with open_input("printf abc; exit 3 |") as stream:
        assert stream.read() == b"abc"
    assert stream.status == 3
    with pytest.raises(Nnet3Error, match="failed with status 4"):
        with open_output("| cat >/dev/null; exit 4") as out:
            out.write(b"x")
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert messages == ["Pipe printf abc; exit 3 | had nonzero return status 3",
                        "Pipe | cat >/dev/null; exit 4 had nonzero return status 4"]


def test_stopping_early_is_not_the_commands_fault(caplog):
    start = time.monotonic()
    with open_input("yes |") as stream:
        assert stream.read(2) == b"y\n"
    assert stream.status == 0 and not caplog.records
    assert time.monotonic() - start < 30


def test_a_command_that_stops_reading_is_an_error(tmp_path):
    with pytest.raises(Nnet3Error, match="ended before all was written"):
        with open_output("| exit 0") as stream:
            for _ in range(100):
                stream.write(PAYLOAD)


def test_standard_input_is_shared_by_successive_opens(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"firstsecond")))
    with open_input("-") as stream:
        assert stream.read(5) == b"first"
    with open_input("") as stream:
        assert stream.read() == b"second"


def test_standard_input_that_changed_is_opened_anew(monkeypatch):
    for content in (b"first", b"second"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with open_input("-") as stream:
            assert stream.read() == content


def test_what_another_reader_has_fetched_of_standard_input_is_not_lost(monkeypatch, tmp_path):
    """Such as the lines that a program has read of it before, in Python."""
    (tmp_path / "x").write_bytes(b"first\nsecond\n")
    with (tmp_path / "x").open("rb") as buffer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
        assert buffer.readline() == b"first\n"
        with open_input("-") as stream:
            assert stream.read() == b"second\n"


def test_standard_streams_of_a_process():
    code = ("from nnet3py.io.streams import open_input, open_output\n"
            "with open_input('-') as i, open_output('-') as o: o.write(i.read())")
    done = subprocess.run([sys.executable, "-c", code], input=PAYLOAD, capture_output=True, check=True)
    assert done.stdout == PAYLOAD and done.stderr == b""


def test_a_reader_that_goes_away():
    code = ("import sys\nfrom nnet3py.io.streams import open_output, ClosedOutput\n"
            "try:\n  with open_output('-') as o:\n    while True: o.write(bytes(1 << 20))\n"
            "except ClosedOutput as e: sys.exit(e.exit_code)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == ClosedOutput.exit_code == 141


def test_a_command_that_a_pipe_breaks_is_excused_only_if_we_stopped_reading():
    with open_input("echo abc; kill -PIPE $$ |") as stream:
        assert stream.read() == b"abc\n"
    assert stream.status in (-13, 128 + 13)
    with open_input("yes; exit 141 |") as stream:
        assert stream.read(2) == b"y\n"
    assert stream.status == 0


def test_bytes_are_copied_where_the_system_does_not(tmp_path, monkeypatch):
    def refuse(*args):
        refusals.append(args)
        raise OSError(errno.EINVAL, "refused")

    refusals = []
    monkeypatch.setattr(os, "sendfile", refuse)
    (tmp_path / "source").write_bytes(PAYLOAD)
    with open_input(str(tmp_path / "source")) as source, open_output(str(tmp_path / "copy")) as stream:
        stream.copy_range(source, 5, 300_000)
        assert stream.tell() == 300_000
        with pytest.raises(Nnet3Error, match="became shorter"):
            stream.copy_range(source, len(PAYLOAD) - 3, 4)
    assert (tmp_path / "copy").read_bytes() == PAYLOAD[5:300_005] + PAYLOAD[-3:] and len(refusals) == 2


def test_what_may_not_be_written_stays(tmp_path, monkeypatch):
    """Root may write anything, so the system's answers are made up."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    forbidden = {str(path)}
    monkeypatch.setattr(os, "access", lambda asked, mode: str(asked) not in forbidden)
    with pytest.raises(Nnet3Error, match="cannot open '.*' for writing: Permission denied"):
        open_output(str(path))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["out"]
    forbidden = {str(tmp_path)}                        # a file that may be written in a folder that may not
    before = path.stat().st_ino
    with open_output(str(path)) as stream:
        stream.write(b"new")
        assert os.listdir(tmp_path) == ["out"]
    assert path.read_bytes() == b"new" and path.stat().st_ino == before
