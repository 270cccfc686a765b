"""vosk's recognizers of many streams on one GPU, which there are none of here."""
from __future__ import annotations

import warnings
from typing import Any, NoReturn

_INSTEAD = ("vosk's batch recognizer, which decodes many streams on one GPU, is not part of nnet3py.vosk; use Model "
            "and KaldiRecognizer (streams in several threads compute the network together), or nnet3py.Recognizer with "
            "device='cuda', for the network on a GPU")


class BatchModel:
    """Raises an error that says what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


class BatchRecognizer:
    """Raises an error that says what to use instead."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(_INSTEAD)


def GpuInit() -> None:      # noqa: N802 - vosk's name
    """Do nothing: recognizers compute on the CPU. vosk without a GPU does the same."""
    warnings.warn(_INSTEAD, stacklevel=2)


def GpuThreadInit() -> None:      # noqa: N802 - vosk's name
    """Do nothing: no thread needs a preparation."""
