"""The protocol of vosk-server: what text messages mean, and what answers look like."""
from __future__ import annotations

import json

import pytest
from fake_recognition import FakeResult, fake_models

from nnet3py.recognition.server.models import ServedModels
from nnet3py.recognition.server.protocol import (
    CloseCode,
    Control,
    ProtocolError,
    StreamSettings,
    error_message,
    partial_message,
    read_text_message,
    result_message,
)

USUAL, NONE = StreamSettings(8000.0), ServedModels()
RESULT = FakeResult("ja nö", [("ja", 0.0, 0.33, 1.0), ("nö", 0.33, 0.5382261, 0.9707949)],
                    [("ja nö", 1.5), ("ja", 2.0)])


def test_what_clients_ask_for() -> None:
    assert read_text_message('{"eof" : 1}', USUAL, NONE) is Control.EOF
    assert read_text_message('{"reset": 1}', USUAL, NONE) is Control.RESET
    assert read_text_message('{"config": {}}', USUAL, NONE) == USUAL
    wanted = read_text_message('{"config": {"sample_rate": 44100, "words": false, "max_alternatives": 3, "other": 1,'
                               ' "phrase_list": ["turn on", "[unk]"]}}', USUAL, NONE)
    assert wanted == StreamSettings(44100.0, False, 3, ("turn on", "[unk]"))
    assert isinstance(wanted, StreamSettings)
    changed = read_text_message('{"config": {"words": 1, "phrase_list": null}}', wanted, NONE)
    assert changed == StreamSettings(44100.0, True, 3)


@pytest.mark.parametrize("text, code, what", [
    ("five", CloseCode.UNSUPPORTED, "'five'"), ('{"eof": false}', CloseCode.UNSUPPORTED, "binary messages"),
    ("x" * 1000, CloseCode.UNSUPPORTED, "'" + "x" * 40 + "...'"),
    ('{"config": {"sample_rate": NaN}}', CloseCode.POLICY, "sample_rate 'NaN': expected a number from 1000 to 384000"),
    ('{"config": {"sample_rate": true}}', CloseCode.POLICY, "sample_rate"),
    ('{"config": {"max_alternatives": 2.5}}', CloseCode.POLICY, "max_alternatives '2.5': expected a whole number"),
    (json.dumps({"config": {"phrase_list": ["on and on"] * 4000}}), CloseCode.POLICY, "at most 10000 words"),
    ('{"config": {"model": "german"}}', CloseCode.POLICY, "model '\"german\"': expected none"),
])
def test_what_is_refused(text: str, code: CloseCode, what: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_text_message(text, USUAL, NONE)
    assert caught.value.code is code and what in str(caught.value) and len(str(caught.value)) < 200


def test_a_model_is_asked_for_by_name_language_or_path() -> None:
    models = fake_models(**{"vosk-model-small-ko-0.22": 0, "vosk-model-en-us-0.15": 1, "de": 2})
    for asked, name in (("vosk-model-en-us-0.15", "vosk-model-en-us-0.15"), ("ko", "vosk-model-small-ko-0.22"),
                        ("en-us", "vosk-model-en-us-0.15"), ("de", "de"), ("/opt/models/de/", "de")):
        wanted = read_text_message(json.dumps({"config": {"model": asked}}), USUAL, models)
        assert isinstance(wanted, StreamSettings) and wanted.model is models.by_name[name]
    assert read_text_message('{"config": {"model": ""}}', USUAL, models) == USUAL
    for asked in ("fr", "en", "/", ["de"], 7):
        with pytest.raises(ProtocolError, match="expected one of vosk-model-small-ko-0.22, vosk-model-en-us-0.15, de"):
            read_text_message(json.dumps({"config": {"model": asked}}), USUAL, models)


def test_answers() -> None:
    assert json.loads(partial_message('a "b"')) == {"partial": 'a "b"'}
    assert json.loads(error_message("no")) == {"error": "no"}
    words = [{"conf": 1.0, "end": 0.33, "start": 0.0, "word": "ja"},
             {"conf": 0.970795, "end": 0.538226, "start": 0.33, "word": "nö"}]
    assert json.loads(result_message(RESULT, USUAL)) == {"result": words, "text": "ja nö"}
    assert json.loads(result_message(RESULT, StreamSettings(8000.0, words=False))) == {"text": "ja nö"}
    assert json.loads(result_message(None, USUAL)) == {"text": ""}
    timed = [{key: word[key] for key in ("end", "start", "word")} for word in words]
    assert json.loads(result_message(RESULT, StreamSettings(8000.0, max_alternatives=5)))["alternatives"] == [
        {"result": timed, "text": "ja nö", "confidence": -1.5}, {"result": timed, "text": "ja", "confidence": -2.0}]
    assert json.loads(result_message(RESULT, StreamSettings(8000.0, False, 1)))["alternatives"] == [
        {"text": "ja nö", "confidence": -1.5}]
    assert len(json.loads(result_message(RESULT, StreamSettings(8000.0, max_alternatives=1)))["alternatives"]) == 1
    assert json.loads(result_message(None, StreamSettings(8000.0, max_alternatives=1)))["alternatives"][0]["text"] == ""
