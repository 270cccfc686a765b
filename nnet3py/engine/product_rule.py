"""The rule which products tiles compute and which BLAS computes; the address of BLAS's ``sgemm``. Light: no numba.

The rule is an integer with a bit for each class of products; a class is given by which factors are transposed, and by
whether all three dimensions are large. A bit is 1 for BLAS. Kernels read the rule from memory when they run, so that
the same machine code serves all rules; a process that does not need BLAS does not load it.

The built-in rule is tiles on kinds of processors where they have been measured, BLAS on others. ``nnet3py tune``
measures both, and stores the faster one for each class in the cache folder.
"""
from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import json
import logging
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite.binding

from nnet3py.engine import interface
from nnet3py.engine.cache_folder import cache_folder
from nnet3py.engine.processor import GENERIC, NEON, SSE4, processor
from nnet3py.engine.team import lasting_words
from nnet3py.engine.threads import limit_blas
from nnet3py.errors import DeviceError
from nnet3py.trusted_files import read_trusted, write_private

# -- BLAS: ``scipy.linalg.cython_blas`` exports the address of ``sgemm``. Only that extension module is imported, in
# 2 ms: importing all of ``scipy.linalg`` takes a tenth of a second and more.

def _load_cython_blas() -> ModuleType:
    """Import ``scipy.linalg.cython_blas``, if possible without the rest of ``scipy.linalg``."""
    import scipy  # sets up the search path of its libraries on Windows

    folder = Path(scipy.__file__).parent / "linalg"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"cython_blas{suffix}"
        if path.is_file():
            spec = importlib.util.spec_from_file_location("scipy.linalg.cython_blas", path)
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
    return importlib.import_module("scipy.linalg.cython_blas")


@cache
def _sgemm() -> tuple[int, int]:
    """Return the address of ``sgemm``, and the width of BLAS's integers in bits."""
    capsule = _load_cython_blas().__pyx_capi__["sgemm"]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = get_name(capsule)
    argument_types = re.findall(r"[\w ]+\*", signature.decode())
    if len(argument_types) != 13:
        raise DeviceError(f"scipy's sgemm takes {signature.decode()}, expected 13 pointers", "install another scipy")
    limit_blas()       # ops/cpu/products.py cuts products and shares their parts
    return get_pointer(capsule, signature), 32 if argument_types[2].strip() == "int *" else 64


def sgemm_address() -> int:
    """Return the address of ``sgemm``; limit BLAS to one thread in commands. Raises DeviceError if it is not usable."""
    return _sgemm()[0]


def integer_bits() -> int:
    """Return the size of BLAS's integers in bits. Raises DeviceError if scipy's BLAS is not usable."""
    return _sgemm()[1]


# -- the rule ----------------------------------------------------------------------------------------------------------


logger = logging.getLogger("nnet3py.ops")

FILE = "products.json"
LARGE = 128                 # a product is large if all of its dimensions are at least this
FORMS = ("plain", "right transposed", "left transposed", "both transposed")
NUM_CLASSES = 2 * len(FORMS)
NO_BLAS, ALL_BLAS = 0, (1 << NUM_CLASSES) - 1
RULE, SGEMM = range(2)      # indexes into ``words``, the memory that kernels read

words = lasting_words(2)


def class_of(m: int, n: int, k: int, trans_a: bool, trans_b: bool) -> int:
    """Return the class of a product of op(a) (m x k) and op(b) (k x n): the number of its bit in the rule."""
    return 2 * (2 * trans_a + trans_b) + (min(m, n, k) >= LARGE)


def rule() -> int:
    """Return the current rule of this process."""
    return int(words[RULE])


def set_rule(bits: int) -> None:
    """Set the rule of this process, for products that begin from now on."""
    if bits:
        load_blas()
    words[RULE] = bits


def load_blas() -> None:
    """Store the address of BLAS's ``sgemm`` where kernels read it. Raises DeviceError if it is not usable."""
    words[SGEMM] = sgemm_address()


def built_in() -> int:
    """Return the built-in rule for this kind of processor."""
    return ALL_BLAS if processor().kind in (NEON, SSE4, GENERIC) else NO_BLAS


def measured() -> int | None:
    """Return the rule that ``nnet3py tune`` has stored for this processor; None if there is none."""
    path = rule_file()
    try:
        kept = json.loads(read_trusted(path))[_key()]
        bits = kept["rule"]
    except (FileNotFoundError, KeyError):
        return None
    except (OSError, ValueError, TypeError) as error:
        logger.warning("%s cannot be used (%s); nnet3py tune writes a new one", path, error)
        return None
    if not isinstance(bits, int) or not 0 <= bits <= ALL_BLAS:
        logger.warning("%s: the rule for products is %r, expected a number from 0 to %d: it is not used (nnet3py tune "
                       "writes a new one)", path, bits, ALL_BLAS)
        return None
    return bits


def keep(bits: int) -> Path:
    """Store a rule for this processor in the file of measured rules; return the file. Raises OSError."""
    path = rule_file()
    try:
        kept = json.loads(read_trusted(path))
    except (OSError, ValueError):
        kept = {}
    kept = {**kept, _key(): {"rule": bits}} if isinstance(kept, dict) else {_key(): {"rule": bits}}
    write_private(path, json.dumps(kept, indent=1, sort_keys=True).encode() + b"\n")
    return path


def drop() -> bool:
    """Remove the measured rules for all processors; return whether there were any. Raises OSError."""
    try:
        rule_file().unlink()
    except FileNotFoundError:
        return False
    return True


def rule_file() -> Path:
    """Return the path of the file of measured rules."""
    return cache_folder() / FILE


def _key() -> str:
    this = processor()
    return f"{this.model} {this.kind}"


def _begin() -> None:
    llvmlite.binding.add_symbol(interface.PRODUCTS, words.ctypes.data)
    bits = measured()
    set_rule(built_in() if bits is None else bits)


_begin()
