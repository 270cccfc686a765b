"""Messages between clients and the server: the public protocol of vosk-server, over a WebSocket.

A client may first send the text ``{"config": {"sample_rate": 8000, "words": true, "max_alternatives": 0,
"phrase_list": [...], "model": "ko"}}``, then sends sound in binary messages (16-bit samples, little-endian, one
channel), and at last the text ``{"eof": 1}``. Each binary message is answered by ``{"partial": "..."}`` or, at the end
of a segment, by its result; ``{"eof": 1}`` by the last result, after which the server closes. ``{"reset": 1}`` is
answered by a result, too, and begins a new stream.
"""
from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, replace
from typing import Any

from nnet3py.errors import Nnet3Error
from nnet3py.recognition.results import Result
from nnet3py.recognition.server.models import ServedModel, ServedModels
from nnet3py.recognition.server.options import SAMPLE_RATES

BYTES_PER_SAMPLE = 2
MOST_ALTERNATIVES = 100
MOST_PHRASE_WORDS = 10_000              # words in a client's phrase list, of which a graph is made


class CloseCode(enum.IntEnum):
    """Reasons for closing a connection, with the numbers of RFC 6455."""

    GOING_AWAY = 1001
    UNSUPPORTED = 1003         # unknown text
    POLICY = 1008              # a limit, or a setting that the model does not allow
    INTERNAL = 1011
    TRY_LATER = 1013


class Control(enum.Enum):
    """Text messages without values."""

    EOF = "eof"
    RESET = "reset"


class ProtocolError(Nnet3Error):
    """An error of a client, which ends its connection.

    ``message``: text for the client. ``code``: close code of the connection. ``kind``: label by which such errors are
    counted.
    """

    def __init__(self, message: str, code: CloseCode, kind: str) -> None:
        super().__init__(message)
        self.code, self.kind = code, kind


@dataclass(frozen=True)
class StreamSettings:
    """The settings of a client's stream."""

    sample_rate: float                # samples a second of the client's sound
    words: bool = True                # whether results have a list of words with times and confidences
    max_alternatives: int = 0         # number of alternatives in place of one result; 0: one result
    phrases: tuple[str, ...] = ()     # phrase list, for a model with a lookahead graph; empty: the model's grammar
    model: ServedModel | None = None  # None for a service without a choice of models


def read_text_message(text: str, settings: StreamSettings, models: ServedModels) -> StreamSettings | Control:
    """Read a client's text message: changed settings, or a control.

    Raises :class:`ProtocolError` for anything but ``config``, ``eof`` and ``reset``. Unknown keys of ``config`` are
    ignored, as by the public server; an unknown model is refused, since words in the wrong language help nobody.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if isinstance(message, dict):
        if "config" in message:
            return _changed(settings, message["config"], models)
        for control in Control:
            if message.get(control.value):
                return control
    raise ProtocolError(f"text message {_shown(text)}: expected {{\"config\": {{...}}}}, {{\"reset\": 1}} or "
                        "{\"eof\": 1}; sound is sent in binary messages", CloseCode.UNSUPPORTED, "text")


def _changed(settings: StreamSettings, config: Any, models: ServedModels) -> StreamSettings:
    if not isinstance(config, dict):
        raise _wrong("config", config, "an object")
    changed: dict[str, Any] = {}
    if config.get("model"):
        asked = config["model"]
        changed["model"] = models.named(asked) if isinstance(asked, str) else None
        if changed["model"] is None:
            raise _wrong("model", asked, f"one of {', '.join(models.by_name)}" if models.by_name else "none")
    if "sample_rate" in config:
        rate = config["sample_rate"]
        if not _is_number(rate) or not SAMPLE_RATES[0] <= rate <= SAMPLE_RATES[1]:
            raise _wrong("sample_rate", rate, f"a number from {SAMPLE_RATES[0]:g} to {SAMPLE_RATES[1]:g}")
        changed["sample_rate"] = float(rate)
    if "words" in config:
        if not isinstance(config["words"], bool | int):
            raise _wrong("words", config["words"], "true or false")
        changed["words"] = bool(config["words"])
    if "max_alternatives" in config:
        count = config["max_alternatives"]
        if not _is_number(count) or count != int(count) or not 0 <= count <= MOST_ALTERNATIVES:
            raise _wrong("max_alternatives", count, f"a whole number from 0 to {MOST_ALTERNATIVES}")
        changed["max_alternatives"] = int(count)
    if "phrase_list" in config:
        phrases = config["phrase_list"] or []
        if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
            raise _wrong("phrase_list", phrases, "a list of texts")
        if sum(len(phrase.split()) for phrase in phrases) > MOST_PHRASE_WORDS:
            raise _wrong("phrase_list", phrases, f"at most {MOST_PHRASE_WORDS} words")
        changed["phrases"] = tuple(phrases)
    return replace(settings, **changed)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _wrong(name: str, value: Any, expected: str) -> ProtocolError:
    return ProtocolError(f"{name} {_shown(json.dumps(value))}: expected {expected}", CloseCode.POLICY, "config")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def partial_message(text: str) -> str:
    """Return the answer to sound within a segment."""
    return json.dumps({"partial": text}, ensure_ascii=False)


def error_message(text: str) -> str:
    """Return the message before a connection is closed because of an error. The public server sends nothing."""
    return json.dumps({"error": text}, ensure_ascii=False)


def result_message(result: Result | None, settings: StreamSettings) -> str:
    """Return the answer at the end of a segment; ``result`` is None for a stream without sound."""
    if settings.max_alternatives > 0:
        alternatives: list[dict[str, Any]] = []
        for text, confidence, words in result.alternatives(settings.max_alternatives) if result is not None else []:
            timed = [{key: word[key] for key in ("end", "start", "word")} for word in _words(words)]
            alternatives.append({"confidence": round(float(confidence), 6),
                                 **({"result": timed} if settings.words and timed else {}), "text": text})
        alternatives = alternatives or [{"text": "", "confidence": 1.0}]
        return json.dumps({"alternatives": alternatives, **_speaker(result)}, ensure_ascii=False)
    timed = _words(result.words) if settings.words and result is not None else []
    return json.dumps({**({"result": timed} if timed else {}), **_speaker(result),
                       "text": result.text if result is not None else ""}, ensure_ascii=False)


def _speaker(result: Result | None) -> dict[str, Any]:
    if result is None or result.speaker is None:
        return {}
    return {"spk": [round(float(value), 6) for value in result.speaker], "spk_frames": result.speaker_frames}


def _words(words: Any) -> list[dict[str, Any]]:
    return [{"conf": round(float(confidence), 6), "end": round(float(end), 6), "start": round(float(start), 6),
             "word": word} for word, start, end, confidence in words]
