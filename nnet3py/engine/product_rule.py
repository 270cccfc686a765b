"""Which products are computed by tiles and which by BLAS, as measured. Light: no numba.

The rule is a number with a bit for each class of products: by which matrices are to be transposed, and by whether all
three dimensions are large. A bit that is set stands for BLAS. Kernels read it from memory when they run, so that the
same machine code serves all rules; a process that does not need BLAS does not load it.

Built in: tiles where they were measured on such processors, BLAS elsewhere. ``nnet3py tune`` measures
both, and keeps what was faster in the cache folder.
"""
from __future__ import annotations

import json
import logging
from pathlib import Path

import llvmlite.binding

from nnet3py.engine import symbols
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.engine.processor import GENERIC, NEON, SSE4, processor
from nnet3py.engine.team_memory import lasting_words
from nnet3py.trusted_files import read_trusted, write_private

logger = logging.getLogger("nnet3py.ops")

FILE = "products.json"
LARGE = 128                 # of the least dimension
FORMS = ("plain", "right transposed", "left transposed", "both transposed")
NUM_CLASSES = 2 * len(FORMS)
NO_BLAS, ALL_BLAS = 0, (1 << NUM_CLASSES) - 1
RULE, SGEMM = range(2)      # words of the memory that kernels read

words = lasting_words(2)


def class_of(m: int, n: int, k: int, trans_a: bool, trans_b: bool) -> int:
    """The bit of a product of op(a) (m x k) and op(b) (k x n)."""
    return 2 * (2 * trans_a + trans_b) + (min(m, n, k) >= LARGE)


def rule() -> int:
    """The rule that holds in this process."""
    return int(words[RULE])


def set_rule(bits: int) -> None:
    """Let another rule hold in this process from now on; kernels that are running go on with the old one."""
    if bits:
        load_blas()
    words[RULE] = bits


def load_blas() -> None:
    """Let compiled code find BLAS; called before any code calls it. Raises DeviceError."""
    from nnet3py.engine.sgemm import sgemm_address

    words[SGEMM] = sgemm_address()


def built_in() -> int:
    """The rule for this kind of processor."""
    return ALL_BLAS if processor().kind in (NEON, SSE4, GENERIC) else NO_BLAS


def measured() -> int | None:
    """What ``nnet3py tune`` has found for this processor; None if it was not run, or its file is damaged."""
    path = rule_file()
    try:
        kept = json.loads(read_trusted(path))[_key()]
        bits = kept["rule"]
    except (FileNotFoundError, KeyError):
        return None
    except (OSError, ValueError, TypeError) as error:
        logger.warning("%s is not what nnet3py tune writes (%s): it is not used", path, error)
        return None
    if not isinstance(bits, int) or not 0 <= bits <= ALL_BLAS:
        logger.warning("%s: the rule is %r, expected a number up to %d: it is not used", path, bits, ALL_BLAS)
        return None
    return bits


def keep(bits: int) -> Path:
    """Write the rule for this processor beside those for others; returns the file. Raises OSError."""
    path = rule_file()
    try:
        kept = json.loads(read_trusted(path))
    except (OSError, ValueError):
        kept = {}
    kept = {**kept, _key(): {"rule": bits}} if isinstance(kept, dict) else {_key(): {"rule": bits}}
    write_private(path, json.dumps(kept, indent=1, sort_keys=True).encode() + b"\n")
    return path


def drop() -> bool:
    """Remove what was measured, for all processors; returns whether there was anything. Raises OSError."""
    try:
        rule_file().unlink()
    except FileNotFoundError:
        return False
    return True


def rule_file() -> Path:
    """Where measured rules are kept."""
    return cache_folder() / FILE


def _key() -> str:
    this = processor()
    return f"{this.model} {this.kind}"


def _begin() -> None:
    llvmlite.binding.add_symbol(symbols.PRODUCTS, words.ctypes.data)
    bits = measured()
    set_rule(built_in() if bits is None else bits)


_begin()
