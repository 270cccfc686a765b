"""The kernels that come with the package: compiled when its wheel was built, for each kind of processor. Light.

A file says what it was made from, and is not used if that is not what is there: its sources, the processor, how Python
and numpy keep their objects. It need not have been made by the numba that is installed, or for this Python. As all
that is executed, it is only taken from where nobody else could have put it (``trusted_files.py``): it has to be as
safe as the package's Python files.
"""
from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path

from nnet3py.engine import code_bytes, interface
from nnet3py.engine.code_bytes import Code
from nnet3py.engine.code_keys import Key, sources_hash
from nnet3py.engine.processor import Processor, processor, set_name
from nnet3py.trusted_files import why_less_trusted

logger = logging.getLogger("nnet3py.ops")

VARIABLE = "NNET3PY_KERNELS"
COMPILED = "compiled"          # its value for those who want no kernels but what is compiled here
_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "kernels"  # has a folder for each set


def read(key: Key) -> Code | None:
    """The code that came with the package; None if there is none, or if it is not to be used, which is said once."""
    folder = usable_folder()
    if folder is None or not key.source.is_relative_to(_PACKAGE):
        return None
    path = folder / file_name(key)
    try:
        kept = path.read_bytes()
        untrusted = why_less_trusted(path, key.source)
    except OSError:
        return None
    if untrusted:
        _say_unused(untrusted)
        return None
    code = code_bytes.from_bytes(kept, belonging(key, processor()))
    if code is None:
        _say_unused(_difference(kept, key))
    return code


def file_name(key: Key) -> str:
    """The name of a kernel's file in the folder of a set."""
    module = ".".join(key.source.relative_to(_PACKAGE).with_suffix("").parts)
    return f"{module}.{key.name}.kernel"


def belonging(key: Key, made_for: Processor) -> str:
    """All that a file with such code must have been made for."""
    return "\n".join([file_name(key), f"sources {sources_hash(key.sources)}",
                      f"processor {made_for.kind} {made_for.triple} {made_for.target} {made_for.features}".rstrip(),
                      f"interface {interface.description()}"])


@cache
def usable_folder() -> Path | None:
    """The folder of the set for this processor; None if there is none, or if it is not to be used."""
    name = set_name(processor())
    if name is None or os.environ.get(VARIABLE, "").strip() == COMPILED:
        return None
    folder = FOLDER / name
    try:
        untrusted = why_less_trusted(FOLDER, _PACKAGE) or why_less_trusted(folder, _PACKAGE)
    except OSError:
        return None
    if untrusted:
        _say_unused(untrusted)
        return None
    return folder


def _difference(kept: bytes, key: Key) -> str:
    """In what a file is not for what is here."""
    owner = code_bytes.owner_in(kept)
    if owner is None:
        return f"{file_name(key)} is damaged"
    for made, needed in zip(owner.splitlines(), belonging(key, processor()).splitlines(), strict=False):
        if made != needed:
            return f"{file_name(key)} was made for {made}, here is {needed}"
    return f"{file_name(key)} is another version's"


def _say_unused(reason: str) -> None:
    if not _said:
        _said.append(reason)
        logger.warning("Kernels that came with nnet3py are not used, but compiled: %s", reason)


_said: list[str] = []
