"""What machine code is kept by: the function, and the sources that it is made from. Light."""
from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from nnet3py.engine.code_bytes import hash_of


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
    files = (*_engine(), *sorted(sources))
    return hash_of(b"".join(hash_of(path.name.encode()) + _content_hash(path) for path in files)).hex()


@cache
def _engine() -> tuple[Path, ...]:
    return tuple(sorted(Path(__file__).parent.glob("*.py")))


@cache
def _content_hash(path: Path) -> bytes:
    return hash_of(path.read_bytes())
