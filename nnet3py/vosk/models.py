"""Models of the interface of vosk: recognition, speakers, text processing; the log level; what vosk does on GPUs."""
from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from nnet3py.errors import Nnet3Error
from nnet3py.fst.openfst import compose, from_openfst, shortest_path
from nnet3py.log import show_log
from nnet3py.recognition.model_folder import find_model
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.transducers.fst import NO_WEIGHT, Fst
from nnet3py.transducers.fst_text import read_fst_file

if TYPE_CHECKING:
    from nnet3py.recognition.speaker import SpeakerModel

logger = logging.getLogger(__name__)


def SetLogLevel(level: int) -> None:      # noqa: N802 - vosk's name
    """Set the level of the logger ``nnet3py``; -1 for no messages, 0 for INFO, 1 and more for DEBUG."""
    nnet3py = logging.getLogger("nnet3py")
    if level >= 0:
        show_log()
    nnet3py.setLevel(logging.CRITICAL + 1 if level < 0 else logging.INFO if level == 0 else logging.DEBUG)


class Model:
    """Model for recognition, shared by any number of recognizers.

    Parameters
    ----------
    model_path : folder of the model
    model_name, lang : name or language of a model in the folders that ``recognition/model_folder.py`` searches; nothing
        is downloaded

    Raises
    ------
    Exception : no such model, or an unusable one, as in vosk; the reason is logged as an error
    """

    def __init__(self, model_path: str | None = None, model_name: str | None = None, lang: str | None = None) -> None:
        try:
            path = model_path if model_path is not None else self.get_model_path(model_name, lang)
            self.recognizer = Recognizer(path)
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a model") from error

    @classmethod
    def of(cls, recognizer: Recognizer) -> Model:
        """Wrap a recognizer that is loaded already."""
        model = cls.__new__(cls)
        model.recognizer = recognizer
        return model

    def vosk_model_find_word(self, word: str) -> int:
        """Return the number of a word in ``words.txt``; -1 for an unknown word."""
        words = self.recognizer.words
        return words[word] if word in words else -1

    def get_model_path(self, model_name: str | None, lang: str | None) -> str:
        """Return the folder of a model by name or language. Raises Nnet3Error if there is none."""
        return find_model(lang, model_name)

    def get_model_by_name(self, model_name: str) -> str:
        """Return the folder of a model by name. Raises Nnet3Error if there is none."""
        return find_model(name=model_name)

    def get_model_by_lang(self, lang: str) -> str:
        """Return the folder of a model by language. Raises Nnet3Error if there is none."""
        return find_model(lang)


class SpkModel:
    """Model of speaker vectors (x-vectors). Raises Exception for an unusable folder; the reason is logged."""

    def __init__(self, model_path: str) -> None:
        from nnet3py.recognition.speaker import SpeakerModel

        try:
            self.speaker_model: SpeakerModel = SpeakerModel.read(model_path)
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a speaker model") from error


# -- text processing ---------------------------------------------------------------------------------------------------


class Processor:
    """Text processor that rewrites texts by two transducers of bytes, such as words for numbers as digits.

    The project WeTextProcessing makes such transducers. Needs the extra ``decode``.

    Parameters
    ----------
    tagger_path : transducer that marks tokens in the text
    verbalizer_path : transducer that writes the marked tokens

    Raises
    ------
    Exception : a file that is not a transducer; the reason is logged as an error
    """

    def __init__(self, tagger_path: str, verbalizer_path: str) -> None:
        try:
            self._steps = [read_fst_file(path) for path in (tagger_path, verbalizer_path)]
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create processor") from error

    def process(self, text: str) -> str:
        """Rewrite a text; empty if the transducers do not accept it. Raises Nnet3Error if kaldifst is missing."""
        content = text.encode()
        for transducer in self._steps:
            content = _best_output(content, transducer) if content else content
        return content.replace(b"\0", b"").decode("utf-8", "replace")


def _best_output(content: bytes, transducer: Fst) -> bytes:
    """Return the output labels of the cheapest path for the input bytes, as bytes; b"" if there is no path."""
    labels, states = np.frombuffer(content, dtype=np.uint8).astype(np.int32), np.arange(len(content) + 1)
    finals = np.where(states == len(content), np.float32(0.0), NO_WEIGHT)
    line = Fst.from_arcs(0, finals, states[:-1], labels, labels, np.zeros(len(labels)), states[1:])
    best = from_openfst(shortest_path(from_openfst(compose(line, transducer))))
    output, state = bytearray(), best.start
    while state >= 0 and best.arc_starts[state] < best.arc_starts[state + 1]:
        arc = int(best.arc_starts[state])
        output += bytes([best.output_labels[arc]]) if best.output_labels[arc] else b""
        state = int(best.next_states[arc])
    return bytes(output)


# -- batch recognition on GPUs: not supported -------------------------------------------------------------------------

_INSTEAD = ("vosk's batch recognizer, which decodes many streams on one GPU, is not part of nnet3py.vosk; use Model "
            "and KaldiRecognizer (streams in several threads compute the network together), or nnet3py.Recognizer with "
            "device='cuda', for the network on a GPU")


class BatchModel:
    """Name that only raises NotImplementedError, with advice what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


class BatchRecognizer:
    """Name that only raises NotImplementedError, with advice what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


def GpuInit() -> None:      # noqa: N802 - vosk's name
    """Warn that recognizers compute on the CPU; otherwise do nothing, as vosk does without a GPU."""
    warnings.warn(_INSTEAD, stacklevel=2)


def GpuThreadInit() -> None:      # noqa: N802 - vosk's name
    """Do nothing: threads need no preparation."""
