"""Models, by path, name or language; speaker models; how much is logged."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nnet3py.errors import Nnet3Error
from nnet3py.log import show_log
from nnet3py.recognition.find_model import find_model
from nnet3py.recognition.recognizer import Recognizer

if TYPE_CHECKING:
    from nnet3py.recognition.speaker import SpeakerModel

logger = logging.getLogger(__name__)


def SetLogLevel(level: int) -> None:      # noqa: N802 - vosk's name
    """-1: nothing is logged; 0: what is of interest; 1 and more: details."""
    nnet3py = logging.getLogger("nnet3py")
    if level >= 0:
        show_log()
    nnet3py.setLevel(logging.CRITICAL + 1 if level < 0 else logging.INFO if level == 0 else logging.DEBUG)


class Model:
    """A model that recognizers share. Raises Exception, after the reason was logged, if there is none, as vosk does.

    Parameters
    ----------
    model_path : its folder
    model_name, lang : its name or language, by which it is looked for (``find_model.py``); nothing is downloaded
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
        """A model that is loaded already."""
        model = cls.__new__(cls)
        model.recognizer = recognizer
        return model

    def vosk_model_find_word(self, word: str) -> int:
        """The number of a word; -1 if the model does not know it."""
        words = self.recognizer.words
        return words[word] if word in words else -1

    def get_model_path(self, model_name: str | None, lang: str | None) -> str:
        """The folder of a model by name or language. Nnet3Error that says what to fetch."""
        return find_model(lang, model_name)

    def get_model_by_name(self, model_name: str) -> str:
        """The same by name."""
        return find_model(name=model_name)

    def get_model_by_lang(self, lang: str) -> str:
        """The same by language."""
        return find_model(lang)


class SpkModel:
    """A model that tells speakers apart. Raises Exception, after the reason was logged, if there is none."""

    def __init__(self, model_path: str) -> None:
        from nnet3py.recognition.speaker import SpeakerModel

        try:
            self.speaker_model: SpeakerModel = SpeakerModel.read(model_path)
        except Nnet3Error as error:
            logger.error("%s", error)
            raise Exception("Failed to create a speaker model") from error
