"""nnet3py: Kaldi's nnet3 neural networks in Python, compiled with numba.

Importing the package is fast: the module of a public name is imported when the name is first used. The list of public
names is ``_PUBLIC``; docs/python.md describes each of them. These submodules are public as well, and are imported on
first use:
``nnet3py.feat`` (features), ``nnet3py.chain`` (graphs and supervision of LF-MMI), ``nnet3py.lattices``,
``nnet3py.ivectors``; ``nnet3py.sklearn`` (estimators), ``nnet3py.torch`` (LF-MMI, natural gradient),
``nnet3py.torch_data`` (data sets of examples); ``nnet3py.vosk`` (vosk's interface).
"""
from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:      # for editors and type checkers, which do not run __getattr__
    from nnet3py._version import __version__ as __version__
    from nnet3py.acoustic_model import AcousticModel as AcousticModel
    from nnet3py.acoustic_model import read_model as read_model
    from nnet3py.compiler import compile as compile
    from nnet3py.compiler.request import ComputationRequest as ComputationRequest
    from nnet3py.compiler.request import IoSpecification as IoSpecification
    from nnet3py.components.base import Component as Component
    from nnet3py.components.base import Properties as Properties
    from nnet3py.components.nonlinear import FunctionComponent as FunctionComponent
    from nnet3py.components.registry import register_component as register_component
    from nnet3py.decoding.decoding_graph import DecodingGraph as DecodingGraph
    from nnet3py.decoding.lattice_decoder import LatticeDecoder as LatticeDecoder
    from nnet3py.decoding.options import DecoderOptions as DecoderOptions
    from nnet3py.decoding.word_errors import WordErrors as WordErrors
    from nnet3py.decoding.word_errors import wer as wer
    from nnet3py.egs.chain_example import read_chain_egs as read_chain_egs
    from nnet3py.egs.example import NnetExample as NnetExample
    from nnet3py.egs.example import NnetIo as NnetIo
    from nnet3py.egs.example import read_egs as read_egs
    from nnet3py.egs.example import write_egs as write_egs
    from nnet3py.errors import Nnet3Error as Nnet3Error
    from nnet3py.export.export_onnx import export_onnx as export_onnx
    from nnet3py.export.export_options import ExportOptions as ExportOptions
    from nnet3py.export.from_onnx import from_onnx as from_onnx
    from nnet3py.export.onnx_stream import OnnxStream as OnnxStream
    from nnet3py.export.quantize import quantize as quantize
    from nnet3py.export.torch_module import from_torch as from_torch
    from nnet3py.export.torch_module import to_torch as to_torch
    from nnet3py.fine_tuning.fine_tuning import fine_tune as fine_tune
    from nnet3py.formats.holders import read_alignments as read_alignments
    from nnet3py.formats.holders import read_matrices as read_matrices
    from nnet3py.formats.holders import write_matrices as write_matrices
    from nnet3py.hmm.transition_model import TransitionModel as TransitionModel
    from nnet3py.hmm.transition_model import read_transition_model as read_transition_model
    from nnet3py.inspection.inspect import inspect as inspect
    from nnet3py.inspection.summary import compare as compare
    from nnet3py.inspection.summary import summary as summary
    from nnet3py.log import show_log as show_log
    from nnet3py.model_info import info as info
    from nnet3py.network.edits import apply_edits as apply_edits
    from nnet3py.network.inference import for_inference as for_inference
    from nnet3py.network.model_file import read_nnet as read_nnet
    from nnet3py.network.nnet import Nnet as Nnet
    from nnet3py.network.whole_model import freeze as freeze
    from nnet3py.network.whole_model import set_batchnorm_test_mode as set_batchnorm_test_mode
    from nnet3py.network.whole_model import set_dropout_test_mode as set_dropout_test_mode
    from nnet3py.network.whole_model import set_learning_rate as set_learning_rate
    from nnet3py.network.whole_model import unfreeze as unfreeze
    from nnet3py.recognition.aligning import Aligner as Aligner
    from nnet3py.recognition.aligning import align as align
    from nnet3py.recognition.decode_arrays import DecodedPhones as DecodedPhones
    from nnet3py.recognition.decode_arrays import DecodedText as DecodedText
    from nnet3py.recognition.decode_arrays import decode as decode
    from nnet3py.recognition.decode_arrays import decode_phones as decode_phones
    from nnet3py.recognition.diarization import Turn as Turn
    from nnet3py.recognition.diarization import diarize as diarize
    from nnet3py.recognition.front_end import features as features
    from nnet3py.recognition.front_end import front_end as front_end
    from nnet3py.recognition.front_end import vad as vad
    from nnet3py.recognition.front_end import xvector as xvector
    from nnet3py.recognition.model_folder import ModelFolder as ModelFolder
    from nnet3py.recognition.model_folder import read_model_folder as read_model_folder
    from nnet3py.recognition.options import DiarizationOptions as DiarizationOptions
    from nnet3py.recognition.recognizer import Recognizer as Recognizer
    from nnet3py.recognition.results import AlignedText as AlignedText
    from nnet3py.recognition.results import Result as Result
    from nnet3py.recognition.results import Word as Word
    from nnet3py.recognition.stream import Stream as Stream
    from nnet3py.recognition.stream_decoder import StreamDecoder as StreamDecoder
    from nnet3py.rnnlm.model import RnnLanguageModel as RnnLanguageModel
    from nnet3py.rnnlm.training.run import train_rnnlm as train_rnnlm
    from nnet3py.runtime.batch import Utterance as Utterance
    from nnet3py.runtime.compute import UtteranceComputer as UtteranceComputer
    from nnet3py.runtime.compute import compute as compute
    from nnet3py.runtime.computer import Computer as Computer
    from nnet3py.runtime.looped import LoopedComputer as LoopedComputer
    from nnet3py.runtime.looped import LoopedStream as LoopedStream
    from nnet3py.runtime.options import ComputeOptions as ComputeOptions
    from nnet3py.training.array_trainer import Trainer as Trainer
    from nnet3py.training.gradients import Gradients as Gradients
    from nnet3py.training.gradients import gradients as gradients
    from nnet3py.training.loss_function import Loss as Loss
    from nnet3py.training.options import MinibatchOptions as MinibatchOptions
    from nnet3py.training.options import TrainerOptions as TrainerOptions
    from nnet3py.training.train import History as History
    from nnet3py.training.train import train as train
    from nnet3py.training.trainer import NnetTrainer as NnetTrainer
    from nnet3py.transducers.compact_lattice import CompactLattice as CompactLattice
    from nnet3py.transducers.lattice import read_lattices as read_lattices
    from nnet3py.transducers.lattice import write_lattices as write_lattices

_PUBLIC = {
    # networks and model files
    "Nnet": "nnet3py.network.nnet",
    "read_nnet": "nnet3py.network.model_file",
    "read_model": "nnet3py.acoustic_model",
    "AcousticModel": "nnet3py.acoustic_model",
    "read_transition_model": "nnet3py.hmm.transition_model",
    "TransitionModel": "nnet3py.hmm.transition_model",
    "info": "nnet3py.model_info",
    "summary": "nnet3py.inspection.summary",
    "inspect": "nnet3py.inspection",
    "compare": "nnet3py.inspection.summary",
    "for_inference": "nnet3py.network.inference",
    "set_batchnorm_test_mode": "nnet3py.network.whole_model",
    "set_dropout_test_mode": "nnet3py.network.whole_model",
    "set_learning_rate": "nnet3py.network.whole_model",
    "freeze": "nnet3py.network.whole_model",
    "unfreeze": "nnet3py.network.whole_model",
    "apply_edits": "nnet3py.network.edits",
    # computing
    "compute": "nnet3py.runtime.compute",
    "UtteranceComputer": "nnet3py.runtime.compute",
    "ComputeOptions": "nnet3py.runtime.options",
    "Utterance": "nnet3py.runtime.batch",
    "LoopedComputer": "nnet3py.runtime.looped",
    "LoopedStream": "nnet3py.runtime.looped",
    "gradients": "nnet3py.training.gradients",
    "Gradients": "nnet3py.training.gradients",
    # training
    "train": "nnet3py.training.train",
    "History": "nnet3py.training.train",
    "Loss": "nnet3py.training.loss_function",
    "Trainer": "nnet3py.training.array_trainer",
    "NnetTrainer": "nnet3py.training.trainer",
    "TrainerOptions": "nnet3py.training.options",
    "MinibatchOptions": "nnet3py.training.options",
    "fine_tune": "nnet3py.fine_tuning.fine_tuning",
    # examples and tables
    "NnetExample": "nnet3py.egs.example",
    "NnetIo": "nnet3py.egs.example",
    "read_egs": "nnet3py.egs.example",
    "write_egs": "nnet3py.egs.example",
    "read_chain_egs": "nnet3py.egs.chain_example",
    "read_matrices": "nnet3py.formats.holders",
    "write_matrices": "nnet3py.formats.holders",
    "read_alignments": "nnet3py.formats.holders",
    "read_lattices": "nnet3py.transducers.lattice",
    "write_lattices": "nnet3py.transducers.lattice",
    # the compiler
    "IoSpecification": "nnet3py.compiler.request",
    "ComputationRequest": "nnet3py.compiler.request",
    "compile": "nnet3py.compiler",
    "Computer": "nnet3py.runtime.computer",
    # from sound to words
    "features": "nnet3py.recognition.front_end",
    "front_end": "nnet3py.recognition.front_end",
    "vad": "nnet3py.recognition.front_end",
    "xvector": "nnet3py.recognition.front_end",
    "decode": "nnet3py.recognition.decode_arrays",
    "DecodedText": "nnet3py.recognition.decode_arrays",
    "decode_phones": "nnet3py.recognition.decode_arrays",
    "DecodedPhones": "nnet3py.recognition.decode_arrays",
    "align": "nnet3py.recognition.aligning",
    "diarize": "nnet3py.recognition.diarization",
    "DiarizationOptions": "nnet3py.recognition.options",
    "Turn": "nnet3py.recognition.diarization",
    "Aligner": "nnet3py.recognition.aligning",
    "AlignedText": "nnet3py.recognition.results",
    "Recognizer": "nnet3py.recognition.recognizer",
    "Stream": "nnet3py.recognition.stream",
    "Result": "nnet3py.recognition.results",
    "Word": "nnet3py.recognition.results",
    "CompactLattice": "nnet3py.transducers.compact_lattice",
    "ModelFolder": "nnet3py.recognition.model_folder",
    "read_model_folder": "nnet3py.recognition.model_folder",
    "StreamDecoder": "nnet3py.recognition.stream_decoder",
    "LatticeDecoder": "nnet3py.decoding.lattice_decoder",
    "DecoderOptions": "nnet3py.decoding.options",
    "DecodingGraph": "nnet3py.decoding.decoding_graph",
    "wer": "nnet3py.decoding.word_errors",
    "WordErrors": "nnet3py.decoding.word_errors",
    # language models
    "RnnLanguageModel": "nnet3py.rnnlm.model",
    "train_rnnlm": "nnet3py.rnnlm.training.run",
    # other programs
    "export_onnx": "nnet3py.export.export_onnx",
    "ExportOptions": "nnet3py.export.export_options",
    "OnnxStream": "nnet3py.export.onnx_stream",
    "quantize": "nnet3py.export.quantize",
    "from_onnx": "nnet3py.export.from_onnx",
    "to_torch": "nnet3py.export.torch_module",
    "from_torch": "nnet3py.export.torch_module",
    # components of one's own
    "Component": "nnet3py.components.base",
    "Properties": "nnet3py.components.base",
    "FunctionComponent": "nnet3py.components.nonlinear",
    "register_component": "nnet3py.components.registry",
    # errors and the log
    "Nnet3Error": "nnet3py.errors",
    "show_log": "nnet3py.log",
}

# Submodules with public names of their own.
_SUBMODULES = ("chain", "feat", "ivectors", "lattices", "sklearn", "torch", "torch_data", "vosk")

__all__ = ["__version__", *_PUBLIC]

# Functions of later stages that methods of earlier ones call, by nnet3py/provided.py: nnet(feats), nnet.summary(), and
# displays of notebooks.
_PROVIDED = {"compute": _PUBLIC["compute"], "summary": _PUBLIC["summary"], "html_of": "nnet3py.inspection.notebook"}


def _advice(name: str) -> str | None:
    """Return the hint for a name that the package does not have; None if there is no hint."""
    if name.startswith("_"):
        return None
    from nnet3py.advice import NAMES
    from nnet3py.config_line import did_you_mean

    return NAMES.get(name) or did_you_mean(name, list(_PUBLIC))


def _submodule(name: str) -> ModuleType:
    """Import a public submodule. Raises AttributeError if a package that it needs is not installed.

    The message has the command that installs the package.
    """
    from nnet3py.errors import Nnet3Error

    try:
        return import_module(f"nnet3py.{name}")
    except Nnet3Error as error:
        raise AttributeError(f"nnet3py.{name} cannot be loaded: {error}") from None


if not TYPE_CHECKING:        # with this function, a type checker would accept any name
    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return _submodule(name)
        module = "nnet3py._version" if name == "__version__" else _PUBLIC.get(name)
        if module is None:
            from nnet3py.errors import NoSuchAttribute

            raise NoSuchAttribute(f"module 'nnet3py' has no attribute {name!r}", lambda: _advice(name))
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


if hasattr(sys, "ps1"):      # at a prompt
    import_module("nnet3py.log").show_log_if_interactive()
