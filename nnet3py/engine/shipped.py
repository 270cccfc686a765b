"""The kernels that are in the package's wheel: compiled when it was built, for each kind of processor. Light.

A file contains the hash of its sources, the processor and the layout of Python's and numpy's objects for which it was
compiled, and is not used if these differ here. The versions of numba and Python may differ. Since the file is executed,
it must be as trustworthy as the package's Python files: no other user may have written it (``trusted_files.py``).
"""
from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path

from nnet3py.engine import interface, kernel_code
from nnet3py.engine.kernel_code import Code, Key, sources_hash
from nnet3py.engine.processor import Processor, processor, set_name
from nnet3py.trusted_files import why_less_trusted

logger = logging.getLogger("nnet3py.ops")

VARIABLE = "NNET3PY_KERNELS"
COMPILED = "compiled"          # value of the variable with which kernels of the wheel are not used
_PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = _PACKAGE / "kernels"  # with a folder for each kind of processor


def read(key: Key) -> Code | None:
    """Return the code in the wheel; None if there is none, or, with a warning, if it must not be used."""
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
        _warn_unused(untrusted)
        return None
    code = kernel_code.from_bytes(kept, belonging(key, processor()))
    if code is None:
        _warn_unused(_difference(kept, key))
    return code


def file_name(key: Key) -> str:
    """Return the name of a kernel's file in the folder of a kind of processor."""
    module = ".".join(key.source.relative_to(_PACKAGE).with_suffix("").parts)
    return f"{module}.{key.name}.kernel"


def belonging(key: Key, made_for: Processor) -> str:
    """Return the owner text that a kernel's file must have: names, sources, processor and object layouts."""
    return "\n".join([file_name(key), f"sources {sources_hash(key.sources)}",
                      f"processor {made_for.kind} {made_for.triple} {made_for.target} {made_for.features}".rstrip(),
                      f"interface {interface.description()}"])


@cache
def usable_folder() -> Path | None:
    """Return the folder of the wheel's kernels for this processor; None if there is none, or it must not be used."""
    name = set_name(processor())
    if name is None or os.environ.get(VARIABLE, "").strip() == COMPILED:
        return None
    folder = FOLDER / name
    try:
        untrusted = why_less_trusted(FOLDER, _PACKAGE) or why_less_trusted(folder, _PACKAGE)
    except OSError:
        return None
    if untrusted:
        _warn_unused(untrusted)
        return None
    return folder


def _difference(kept: bytes, key: Key) -> str:
    """Return the first difference between what a file was compiled for and this process, for a warning."""
    owner = kernel_code.owner_in(kept)
    if owner is None:
        return f"{file_name(key)} is damaged"
    for made, needed in zip(owner.splitlines(), belonging(key, processor()).splitlines(), strict=False):
        if made != needed:
            return f"{file_name(key)} was made for {made}, here is {needed}"
    return f"{file_name(key)} is another version's"


def _warn_unused(reason: str) -> None:
    if not _warned:
        _warned.append(reason)
        logger.warning("Kernels that came with nnet3py are not used, but compiled: %s", reason)


_warned: list[str] = []
