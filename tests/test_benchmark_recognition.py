"""benchmarks/recognition.py: what it measures is what it says."""
from __future__ import annotations

from pathlib import Path

import pytest
from recognition_cases import PACKAGE, SOUNDS
from recognition_parts import measure, wide_model

import nnet3py

PATHS = [str(path) for path in SOUNDS]


def test_blocks_go_round_the_recordings() -> None:
    sound = measure.read_sound(PATHS)
    found = list(measure.blocks(sound, 20.0, offset=3))
    assert len(found) == 200 and {len(one) for one in found} == {3200}
    assert b"".join(found)[:5000] == sound[9600:14600]


@pytest.mark.parametrize("what", ["latency", "memory", "start"])
def test_measurements(what: str) -> None:
    sound = PATHS if what == "memory" else measure.read_sound(PATHS)
    found = getattr(measure, what)("nnet3py", str(PACKAGE), sound, 6.0)
    wanted = {"latency": {"p50", "p99", "max", "factor", "busy", "words"},
              "memory": {"early", "late", "most", "factor"},
              "start": {"loaded", "first_word", "busy", "word"}}[what]
    assert set(found) == wanted
    if what == "latency":
        assert "five two nine five" in found["words"] and 0 < found["p50"] <= found["p99"] <= found["max"]


def test_batches_are_measured() -> None:
    found = measure.batch("nnet3py", str(PACKAGE), b"", 0.0)
    assert list(found) == ["1", "2", "4", "8"] and min(found.values()) > 0


@pytest.mark.slow
def test_streams_are_all_recognized() -> None:
    found = measure.streams("nnet3py", str(PACKAGE), measure.read_sound(PATHS), 2.0, 2)
    assert len(found["words"].split()) >= 2 and found["p50"] <= found["max"]


def test_a_widened_model_has_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_model, "STRIDES", (1, 0, 3))
    for name, value in (("WIDTH", 64), ("BOTTLENECK", 8), ("PREFINAL", 16)):
        monkeypatch.setattr(wide_model, name, value)
    assert wide_model.make_wide_model(PACKAGE, tmp_path / "wide") > 5000
    words = [nnet3py.Recognizer(folder).transcribe(PATHS[0]).text for folder in (PACKAGE, tmp_path / "wide")]
    assert words[0] == words[1] == "five two nine five"
