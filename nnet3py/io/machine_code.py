"""Loops as machine code that is kept on disk, and loaded from there without numba: in 0.05 s instead of 0.3 s.

Such a loop is a function of numbers and of addresses of numbers (``p[i]`` only), of a file beside this one that is
imported when it is compiled. It calls nothing, allocates nothing and raises nothing, so its object file refers to
nothing outside of itself and llvmlite alone can load it. Others may run while it works. Light.
"""
from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_NUMBA_TYPES = {"u1": "uint8", "u2": "uint16", "i4": "int32", "i8": "int64", "f4": "float32"}
_C_TYPES = {"i8": "c_int64", "f4": "c_float"}
_HASH = 8                               # bytes
_lock = threading.RLock()


class Loop:
    """The function ``name`` of the file ``source`` of this folder, compiled when it is first called.

    ``types`` names its arguments' types, such as ``"u1* f4 i8"``. For an address it takes bytes, or an integer.
    """

    def __init__(self, source: str, name: str, types: str) -> None:
        self._source, self._name, self._types = source, name, types.split()

    def __call__(self, *args: Any) -> None:
        self._function(*args)

    def prepare(self) -> None:
        """Load the machine code, and compile it if it is not on disk."""
        self._function  # noqa: B018

    @cached_property
    def _function(self) -> Callable[..., None]:
        import ctypes

        with _lock:
            name, code = self._kept()
            from llvmlite import binding

            engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
            _engines.append(engine)
            address = engine.get_function_address(name)
        kinds = [ctypes.c_void_p if kind.endswith("*") else getattr(ctypes, _C_TYPES[kind]) for kind in self._types]
        call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)(address)
        unused = ctypes.create_string_buffer(16)            # where numba's functions put a result, or an exception
        return lambda *args: call(unused, unused, *args)

    def _kept(self) -> tuple[str, bytes]:
        """The function's name in its object file, and that file, from the disk or made now."""
        from nnet3py.cache_folder import cache_folder

        name = f"{self._name}-{'-'.join(self._types)}.o".replace("*", "p")
        path = cache_folder() / f"files-{_source_hash(self._source)}" / name
        try:
            kept = path.read_bytes()
        except OSError:
            kept = b""
        code = kept[_HASH:]
        if _hash(code) != kept[:_HASH]:
            code = self._compiled()
            _keep(path, _hash(code) + code)
        function, _, content = code.partition(b"\n")
        return function.decode(), content

    def _compiled(self) -> bytes:
        """The function's name and its object file, with a newline between."""
        from importlib import import_module

        from numba import njit, types

        function = getattr(import_module(f"nnet3py.io.{self._source}"), self._name)
        kinds = [types.CPointer(getattr(types, _NUMBA_TYPES[kind[:-1]])) if kind.endswith("*")
                 else getattr(types, _NUMBA_TYPES[kind]) for kind in self._types]
        options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
        compiled: Any = njit(types.void(*kinds), error_model="numpy", **options)(function)
        result = compiled.overloads[compiled.signatures[0]]
        return result.fndesc.llvm_func_name.encode() + b"\n" + result.library._get_compiled_object()


_engines: list[Any] = []                # own the memory of the code


@cache
def _target_machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine()


@cache
def _source_hash(source: str) -> str:
    """A hash of all that decides the machine code of the functions of the file ``source``."""
    from pathlib import Path

    import llvmlite
    from llvmlite import binding

    here = Path(__file__)
    facts = f"{sys.version}\0{llvmlite.__version__}\0{binding.get_host_cpu_name()}\0".encode()
    return _hash(facts + here.read_bytes() + here.with_name(f"{source}.py").read_bytes()).hex()


def _hash(data: bytes) -> bytes:
    from importlib.util import source_hash  # what Python itself knows files by; hashlib takes 5 ms to load

    return source_hash(data)


def _keep(path: Path, data: bytes) -> None:
    """Write a file, if that is possible, which no other process sees unfinished."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
