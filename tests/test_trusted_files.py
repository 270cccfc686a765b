"""nnet3py/trusted_files.py: whose files are executed. As root, files of other users are made for it."""
from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nnet3py import system
from nnet3py.trusted_files import UntrustedFile, make_private, read_trusted, why_any_untrusted, why_untrusted

ANOTHER = 54321            # a user whom no system has
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, both the caller's own."""
    made = tmp_path / "folder"
    make_private(made)
    (made / "file").write_bytes(b"content")
    (made / "file").chmod(0o600)
    return made


def test_ones_own_is_trusted(folder: Path) -> None:
    assert why_untrusted(folder) is None and why_any_untrusted(folder) is None
    assert read_trusted(folder / "file") == b"content"
    folder.chmod(0o755)
    (folder / "file").chmod(0o644)
    assert why_any_untrusted(folder) is None and read_trusted(folder / "file") == b"content"


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
def test_a_folder_that_all_can_write_is_not(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert why_untrusted(folder) == f"{folder} can be written by all users"
    assert why_any_untrusted(folder) == why_untrusted(folder)


def test_what_lies_in_one_that_all_can_write_is_not_either(folder: Path) -> None:
    """Another could rename it; not so in /tmp, where the sticky bit forbids that."""
    below = folder / "a" / "b"
    make_private(below)
    folder.chmod(0o777)
    assert why_untrusted(below) == f"{folder} can be written by all users"
    folder.chmod(0o1777)
    assert why_untrusted(below) is None


def test_a_file_that_all_can_write_is_not(folder: Path) -> None:
    (folder / "file").chmod(0o602)
    with pytest.raises(UntrustedFile, match="file can be written by all users"):
        read_trusted(folder / "file")
    assert why_any_untrusted(folder) is None, "nobody else can come to it"
    folder.chmod(0o711)
    assert why_any_untrusted(folder) == f"{folder / 'file'} can be written by all users"


def test_links_and_pipes_are_not(folder: Path) -> None:
    (folder / "link").symlink_to("file")
    os.mkfifo(folder / "fifo")
    with pytest.raises(OSError, match="symbolic link"):
        read_trusted(folder / "link")
    with pytest.raises(UntrustedFile, match="is not a plain file"):      # and is not waited for
        read_trusted(folder / "fifo")
    assert why_any_untrusted(folder) == f"{folder / 'link'} is a symbolic link"


def test_a_group_counts_by_its_members(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own group, which many systems have, is nobody else's."""
    import grp
    import pwd

    folder.chmod(0o770)
    group = folder.stat().st_gid
    user = pwd.struct_passwd(("me", "x", os.geteuid(), group, "", "/", ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user)
    for name, members, is_private in (("me", [], True), ("me", ["me"], True), ("me", ["you"], False),
                                      ("users", [], group == 0), ("users", ["you"], False)):
        monkeypatch.setattr(grp, "getgrgid", lambda gid, n=name, m=members: grp.struct_group((n, "x", group, m)))
        assert (why_untrusted(folder) is None) == is_private
        assert is_private or why_untrusted(folder) == f"{folder} can be written by a group (gid {group})"


def test_folders_are_made_for_oneself(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        make_private(tmp_path / "file" / "below")


@as_root
def test_what_is_anothers_is_not(folder: Path) -> None:
    os.chown(folder / "file", ANOTHER, ANOTHER)
    with pytest.raises(UntrustedFile, match=f"file belongs to another user \\(uid {ANOTHER}\\)"):
        read_trusted(folder / "file")
    assert why_untrusted(folder) is None
    assert why_any_untrusted(folder) == f"{folder / 'file'} belongs to another user (uid {ANOTHER})"
    os.chown(folder, ANOTHER, ANOTHER)
    assert why_untrusted(folder) == f"{folder} belongs to another user (uid {ANOTHER})"
    make_private(folder / "below")
    assert why_untrusted(folder / "below") == why_untrusted(folder)


@as_root
def test_roots_is_trusted_by_others(tmp_path: Path) -> None:
    """And other users' is not: another process looks, which is that user's."""
    program = ("import os, sys; from pathlib import Path; from nnet3py.trusted_files import why_untrusted\n"
               f"os.setgid({ANOTHER}); os.setuid({ANOTHER})\n"
               "for name in sys.argv[1:]: print(why_untrusted(Path(name)))")
    places = []
    for name, owner in (("roots", 0), ("own", ANOTHER), ("anothers", ANOTHER + 1)):
        places.append(tmp_path / name)
        places[-1].mkdir(mode=0o755)
        os.chown(places[-1], owner, owner)
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest", "popen")):       # the latter of processes side by side
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", program, *map(str, places)], capture_output=True, text=True,
                          check=True)
    assert done.stdout.splitlines() == ["None", "None", f"{places[2]} belongs to another user (uid {ANOTHER + 1})"]


def test_without_owners_all_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    folder.chmod(0o777)
    (folder / "file").chmod(0o666)
    monkeypatch.setattr(system, "HAS_OWNERS", False)
    assert why_untrusted(folder) is None and why_any_untrusted(folder) is None
    assert read_trusted(folder / "file") == b"content"
