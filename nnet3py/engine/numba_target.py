"""A compilation target of numba for kernels: object files for the chosen processor, which numba does not load.

numba's own target "cpu" compiles for this machine's processor, loads the code into the process, and links it with
numba's runtime. This module defines a second target, so that functions which a user compiles in the same process are
not affected. It leaves out steps that take half of numba's time and are not needed for code that is stored on disk:
machine code and a Python wrapper for functions that are inlined anyway, their separate optimization, and reference
counts.

Functions compiled for the CPU are decorated with :func:`njit` of this module.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
import numba
from numba.core import codegen, compiler_lock, cpu, fastmathpass, registry, target_extension, typing
from numba.core.runtime.context import NRTContext

from nnet3py.engine.processor import processor

NAME = "nnet3py"
_CHOOSES_PASSES = hasattr(codegen.CPUCodegen, "_pass_builder")      # numba 0.62 and newer


class _Token(target_extension.CPU):
    """Class that stands for the target in numba's registries; it inherits what numba declares for CPUs."""


class _Library(codegen.AOTCodeLibrary):
    """Code of a function. Only a function with an entry is optimized, together with all functions that it calls."""

    _codegen: Any
    _entry = ""

    def object_file(self, entry: Any) -> bytes:
        """Return an object file with an entry (an LLVM function in its own module) and the function that it calls."""
        self._entry = entry.name
        with compiler_lock.global_compiler_lock:
            self.add_ir_module(entry.module)
            content: bytes = self.emit_native_object()
        return content

    def _optimize_functions(self, ll_module: Any) -> None:
        if not _CHOOSES_PASSES:
            super()._optimize_functions(ll_module)
            return
        ll_module.data_layout = self._codegen.data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                self._codegen.clean(function)

    def _optimize_final_module(self) -> None:
        if not self._entry:
            return
        for function in self._final_module.functions:
            if not function.is_declaration and function.name != self._entry:
                function.linkage = "internal"        # so that LLVM drops functions of which all calls are inlined
        self._codegen.optimize(self._final_module)


class _Codegen(codegen.CPUCodegen):
    """LLVM's compiler, set up for the chosen processor, without an execution engine."""

    _library_class = _Library
    _engine: Any
    _data_layout: Any

    def _init(self, llvm_module: Any) -> None:
        self._tm = target_machine()
        self._tm_features = processor().features
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)
        self._loopvect, self._opt_level = False, 0      # of numba's cheap passes, which come before the others
        self._engine = None

    @property
    def data_layout(self) -> str:
        """LLVM's data layout (sizes and alignments of types) of the processor."""
        return str(self._data_layout)

    def clean(self, function: Any) -> None:
        """Move variables from the stack to registers, so that LLVM knows the size of functions when it inlines them."""
        builder = self._pass_builder(opt=1)
        passes = llvmlite.binding.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.run(function, builder)

    def optimize(self, module: Any) -> None:
        """Run LLVM's optimizations once; numba runs some of them twice to remove reference counts."""
        made = self._module_pass_manager()
        passes, *builder = made if _CHOOSES_PASSES else (made,)
        passes.run(module, *builder)

    def _create_empty_module(self, name: str) -> Any:
        module = super()._create_empty_module(name)
        module.triple = processor().triple
        return module

    def _add_module(self, module: Any) -> None:
        """Do nothing: numba's own target loads the module into the process here."""


class _NoCounts(NRTContext):
    """numba's runtime without reference counts: the caller keeps the arrays, and a kernel allocates none."""

    def incref(self, builder: Any, typ: Any, value: Any) -> None:
        pass

    def decref(self, builder: Any, typ: Any, value: Any) -> None:
        pass


class _Context(cpu.CPUContext):
    """numba's target context, which lowers functions to LLVM code."""

    _internal_codegen: Any

    def init(self) -> None:
        self.is32bit = False
        self._internal_codegen = _Codegen("nnet3py")

    def load_additional_registries(self) -> None:
        # without initializing numba's runtime, which numba's own target does
        if self._registries:
            for declared in list(self._registries):
                self.install_registry(declared)         # with functions declared since the last call
        else:
            registry.cpu_target.target_context.refresh()
            super().load_additional_registries()

    @property
    def nrt(self) -> Any:
        return _NoCounts(self, True)

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Apply fast-math flags to a module, as numba does, and do not link it with numba's runtime."""
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Callable[[], None]:
        """Return some built-in function, since numba needs one for a compiled function; it is never called."""
        return [].clear


@cache
def _typing_context() -> Any:
    return typing.Context()


@cache
def context() -> Any:
    """Return the target context for this target."""
    return _Context(_typing_context(), NAME)


class _Target(registry.CPUTarget):
    @property
    def _toplevel_target_context(self) -> Any:
        return context()

    @property
    def _toplevel_typing_context(self) -> Any:
        return _typing_context()


class _Dispatcher(registry.CPUDispatcher):
    targetdescr = _Target(NAME)


def target_machine() -> Any:
    """Return LLVM's target machine for the chosen processor, with the settings that numba uses for JIT code."""
    made_for = processor()
    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    target = llvmlite.binding.Target.from_triple(made_for.triple)
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(cpu=made_for.target, features=made_for.features, opt=3, reloc=reloc,
                                        codemodel="jitdefault", jit=True)


def _jit(*args: Any, **options: Any) -> Any:
    jit: Any = numba.jit
    return jit(*args, _target=NAME, **options)


target_extension.target_registry[NAME] = _Token
target_extension.dispatcher_registry[_Token] = _Dispatcher
target_extension.jit_registry[_Token] = _jit


def njit(*args: Any, **options: Any) -> Any:
    """Apply ``numba.njit`` for this target, with numpy's rules for errors (1/0 is inf)."""
    return _jit(*args, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True, **options)
