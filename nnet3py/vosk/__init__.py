"""vosk's Python interface, so that programs written for vosk run with nnet3py: ``from nnet3py.vosk import ...``.

Programs run without any change by ``python -m nnet3py.vosk program.py``, where ``import vosk`` gives this package.
Names and signatures are vosk's. The most important classes are ``Model`` and ``KaldiRecognizer``, whose JSON equals
vosk's byte by byte (both in ``recognizer.py``); ``transcriber.py`` is the program vosk-transcriber.
docs/from-vosk.md lists the differences.

This package uses ``recognition/`` and must not import ``cli/`` or ``fine_tuning/``. The package ``vosk`` itself is
compiled Kaldi; tests compare with it where it is installed.
"""
from __future__ import annotations

from nnet3py.recognition.model_folder import published_languages, published_models
from nnet3py.vosk.recognizer import (
    BatchModel,
    BatchRecognizer,
    EndpointerMode,
    GpuInit,
    GpuThreadInit,
    KaldiRecognizer,
    Model,
    Processor,
    SetLogLevel,
    SpkModel,
)

__all__ = ["BatchModel", "BatchRecognizer", "EndpointerMode", "GpuInit", "GpuThreadInit", "KaldiRecognizer", "Model",
           "Processor", "SetLogLevel", "SpkModel", "list_languages", "list_models"]


def list_models() -> None:
    """Print the names of local models for ``Model(model_name=...)``, where vosk prints models for download."""
    for path in published_models():
        print(path.name)


def list_languages() -> None:
    """Print the languages of local models that ``Model(lang=...)`` accepts."""
    for language in published_languages():
        print(language)
