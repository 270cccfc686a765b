"""nnet3py: Kaldi's nnet3 neural networks in Python, compiled with numba.

Importing the package imports nothing heavy: every public name loads its module on first use.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Nnet": "nnet3py.network.nnet",
    "read_nnet": "nnet3py.network.model_file",
    "read_model": "nnet3py.acoustic_model",
    "AcousticModel": "nnet3py.acoustic_model",
    "info": "nnet3py.model_info",
    "summary": "nnet3py.inspection.summary",
    "inspect": "nnet3py.inspection",
    "IoSpecification": "nnet3py.compiler.request",
    "ComputationRequest": "nnet3py.compiler.request",
    "compile": "nnet3py.compiler",
    "Computer": "nnet3py.runtime.computer",
    "compute": "nnet3py.runtime.compute",
    "LoopedComputer": "nnet3py.runtime.looped",
    "gradients": "nnet3py.training.gradients",
    "train": "nnet3py.training.train",
    "Recognizer": "nnet3py.recognition.recognizer",
    "fine_tune": "nnet3py.fine_tuning.fine_tuning",
    "export_onnx": "nnet3py.export.onnx_file",
    "to_torch": "nnet3py.export.torch_module",
    "from_torch": "nnet3py.export.torch_module",
    "read_matrices": "nnet3py.formats.matrix_files",
    "read_egs": "nnet3py.egs.example",
    "Component": "nnet3py.components.base",
    "Properties": "nnet3py.components.base",
    "register_component": "nnet3py.components.registry",
    "Nnet3Error": "nnet3py.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'nnet3py' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
