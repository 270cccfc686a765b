"""vosk's Python interface, so that programs written for vosk run with nnet3py: ``from nnet3py.vosk import …``.

Or without a change: ``python -m nnet3py.vosk program.py``, where ``import vosk`` finds this package. Names are vosk's.
``recognizer.py`` has the recognizer, ``models.py`` what it is made of, ``answers.py`` its texts, letter by letter as
vosk writes them. What differs is in docs/from-vosk.md.
"""
from __future__ import annotations

from nnet3py.recognition import find_model
from nnet3py.vosk.batch import BatchModel, BatchRecognizer, GpuInit, GpuThreadInit
from nnet3py.vosk.models import Model, SetLogLevel, SpkModel
from nnet3py.vosk.processor import Processor
from nnet3py.vosk.recognizer import EndpointerMode, KaldiRecognizer

__all__ = ["BatchModel", "BatchRecognizer", "EndpointerMode", "GpuInit", "GpuThreadInit", "KaldiRecognizer", "Model",
           "Processor", "SetLogLevel", "SpkModel", "list_languages", "list_models"]


def list_models() -> None:
    """Print the names of the models that can be found by name; vosk prints those that could be downloaded."""
    for path in find_model.models():
        print(path.name)


def list_languages() -> None:
    """Print the languages of the models that can be found by language."""
    for language in find_model.languages():
        print(language)
