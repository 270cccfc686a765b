"""nnet3py/machine_code/objects.py: what is kept, and what is not taken for it."""
from __future__ import annotations

import math
from pathlib import Path

from nnet3py.machine_code import objects
from nnet3py.machine_code.objects import Code

CODE = Code("symbol", ("x", "y", "z", "w", "v"), (True, -3, 0.1, math.inf), ("a", "b"), (b"one", b"other\0"))


def test_what_was_kept_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "name.kernel"
    assert objects.read(path) is None
    objects.keep(path, CODE)
    assert objects.read(path) == CODE
    assert [found.name for found in path.parent.iterdir()] == ["name.kernel"]


def test_what_is_damaged_is_not(tmp_path: Path) -> None:
    path = tmp_path / "name.kernel"
    objects.keep(path, CODE)
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:-1], whole + b"x", whole[:20] + b"?" + whole[21:]):
        path.write_bytes(damaged)
        assert objects.read(path) is None


def test_what_cannot_be_kept_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    objects.keep(tmp_path / "file" / "below" / "name.kernel", CODE)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_folder_depends_on_each_source(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    names = set()
    for contents in (("1", "2"), ("12", ""), ("1", "3")):
        for path, content in zip((one, other), contents, strict=True):
            path.write_text(content)
        names.add(objects.folder_name([one, other]))
        assert objects.folder_name([other, one]) in names
    assert len(names) == 3
