"""The texts that a recognizer answers with: vosk's JSON and XML, letter by letter."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nnet3py.recognition.results import Result, TimedAlternative, Word

EMPTY = '{"text": ""}'
EMPTY_ALTERNATIVES = '{"alternatives" : [{"text": "", "confidence" : 1.0}] }'
EMPTY_NLSML = """<?xml version="1.0"?>
<result grammar="default">
<interpretation confidence="1.0">
<instance/>
<input><noinput/></input>
</interpretation>
</result>
"""
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def dump(value: Any, depth: int = 1) -> str:
    """JSON in vosk's layout: keys in alphabetical order, six decimals, two blanks of indentation for each level."""
    if isinstance(value, dict):
        inside = ",\n".join(f'{"  " * depth}"{key}" : {dump(value[key], depth + 1)}' for key in sorted(value))
        return "{\n" + inside + "\n" + "  " * (depth - 1) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(dump(each, depth + 1) for each in value) + "]"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def _timed(words: Iterable[Word], offset: float, with_confidence: bool) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for word in words:
        entries.append({"word": word.word, "start": word.start + offset, "end": word.end + offset})
        if with_confidence:
            entries[-1]["conf"] = word.confidence
    return entries


def result_text(result: Result, offset: float, with_words: bool) -> str:
    """A result; ``offset``: what is added to times, in seconds."""
    answer: dict[str, Any] = {"text": result.text}
    if with_words and result.words:
        answer["result"] = _timed(result.words, offset, True)
    return dump({**answer, **_speaker(result)})


def alternatives_text(result: Result, count: int, offset: float, with_words: bool) -> str:
    """The likeliest paths of a result."""
    alternatives = []
    for alternative in result.alternatives(count):
        entry: dict[str, Any] = {"text": alternative.text, "confidence": alternative.confidence}
        if with_words and alternative.words:
            entry["result"] = _timed(alternative.words, offset, False)
        alternatives.append(entry)
    return dump({"alternatives": alternatives, **_speaker(result)})


def nlsml_text(alternatives: Sequence[TimedAlternative]) -> str:
    """The same as XML, in the Natural Language Semantics Markup Language."""
    parts = ['<?xml version="1.0"?>\n<result grammar="default">\n']
    for alternative in alternatives:
        parts.append(f'<interpretation grammar="default" confidence="{np.float32(alternative.confidence):.6g}">\n'
                     f'<input mode="speech">{alternative.text}</input>\n<instance>{alternative.text}</instance>\n'
                     "</interpretation>\n")
    return "".join([*parts, "</result>\n"])


def partial_text(text: str) -> str:
    """The words so far."""
    return dump({"partial": text})


def partial_words_text(words: Sequence[Word], offset: float) -> str:
    """The words so far, with times and confidences."""
    answer: dict[str, Any] = {"partial": " ".join(word.word for word in words)}
    return dump({**answer, "partial_result": _timed(words, offset, True)} if words else answer)


def _speaker(result: Result) -> dict[str, Any]:
    return {} if result.speaker is None else {"spk": result.speaker.tolist(), "spk_frames": result.speaker_frames}
