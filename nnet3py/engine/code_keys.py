"""What machine code is kept by: the function, and the sources that it is made from. Light."""
from __future__ import annotations

from functools import cache
from importlib.util import source_hash  # the hash that Python itself knows files by; quickly loaded
from pathlib import Path
from typing import NamedTuple


class Key(NamedTuple):
    """What code is kept by: the source file and the name of its function, and all the files that it is made from."""

    source: Path
    name: str
    sources: frozenset[Path]

    @property
    def file_name(self) -> str:
        """The name of a file with such code, in a folder that is for these sources alone."""
        return f"{self.source.stem}.{self.name}.kernel"


@cache
def sources_hash(sources: frozenset[Path]) -> str:
    """A hash of source files, and of all of this folder's, which count for every function."""
    parts = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    for source in sorted(sources):
        parts += [source.name.encode(), source.read_bytes()]
    return source_hash(b"\0".join(parts)).hex()
