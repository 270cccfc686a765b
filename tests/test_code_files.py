"""nnet3py/engine/code_files.py: what is kept, and what is not taken for it."""
from __future__ import annotations

import math
from pathlib import Path

from nnet3py.engine import code_files, code_keys
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.code_keys import sources_hash

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
        for remembered in (sources_hash, code_keys._content_hash):
            remembered.cache_clear()           # a process takes sources to stay as they are
        names.add(code_files.folder_name([one, other]))
        assert code_files.folder_name([other, one]) in names
    assert len(names) == 3


def test_hashes_are_the_same_for_all_pythons() -> None:
    """A wheel serves several: Python's own hash of sources would depend on its version."""
    from hashlib import blake2b

    from nnet3py.engine.code_bytes import hash_of

    assert hash_of(b"kernel") == blake2b(b"kernel", digest_size=8).digest() == bytes.fromhex(KERNEL)
