"""A stream's state: what follows is the same to the bit; states that are damaged, or of other things, are refused."""
from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import PACKAGE, RATE, dialogue, recognizer

from nnet3py.errors import Nnet3Error
from nnet3py.recognition import stream_decoder
from nnet3py.recognition.model_folder import demo_folder
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Word
from nnet3py.recognition.stream import Stream
from nnet3py.recognition.transcribing import state_of, stream_from

BLOCK = RATE // 10
TURNS = 4                # of the dialogue


@pytest.fixture(autouse=True)
def searches_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_decoder, "_KEPT_SECONDS", 3.0)


def words_from(stream: Stream) -> tuple[list[tuple[Word, ...]], list[tuple[int, int, bytes]]]:
    """The words of the segments from where the stream stands, and its states: segments before, samples, bytes."""
    sound = np.tile(dialogue(), TURNS)
    segments: list[tuple[Word, ...]] = []
    states = []
    for first in range(stream.num_samples, len(sound), BLOCK):
        stream.accept_waveform(sound[first:first + BLOCK])
        while stream.endpoint:
            segments.append(stream.result().words)
            if stream.can_be_kept:
                states.append((len(segments), stream.num_samples, state_of(stream)))
    return [*segments, stream.finish().words], states


@pytest.mark.parametrize(("model", "rate"), [(PACKAGE, RATE), (PACKAGE, 22050), (None, RATE), (None, 8000)])
def test_a_stream_goes_on_as_if_nothing_had_been(model: Path | None, rate: float) -> None:
    its = Recognizer(model or demo_folder())
    whole, states = words_from(its.stream(rate))
    assert len(states) >= 2
    for before, num_samples, state in states:
        stream = stream_from(state, Recognizer(model or demo_folder()).stream(rate))
        assert stream.num_samples == num_samples and stream.can_be_kept
        assert words_from(stream)[0] == whole[before:]


def test_states_of_others_and_damaged_ones_are_refused() -> None:
    state = words_from(recognizer().stream())[1][0][2]
    with pytest.raises(Nnet3Error, match="cannot be read"):
        stream_from(state, Recognizer(demo_folder()).stream())
    for wrong in (b"", state[:1000], state[:-1], b"x" + state):
        with pytest.raises(Nnet3Error, match="cannot be read"):
            stream_from(wrong, recognizer().stream())
    with pytest.raises(Nnet3Error, match="expected the state of a stream, found int"):
        stream_from(pickle.dumps(3), recognizer().stream())


def test_a_state_runs_no_code(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "harm"),)

    with pytest.raises(Nnet3Error, match=r"mkdir is not part of a stream"):
        stream_from(pickle.dumps(Harm()), recognizer().stream())
    assert not (tmp_path / "harm").exists()
    for name in ("nnet3py.recognition.recognizer\nRecognizer", "nnet3py.recognition.stream\nsamples_of",
                 "numpy\nload", "builtins\neval"):
        with pytest.raises(Nnet3Error, match="is not part of a stream"):
            stream_from(f"c{name}\n.".encode(), recognizer().stream())


def test_within_a_segment_nothing_is_kept() -> None:
    stream = recognizer().stream()
    assert stream.can_be_kept
    stream.accept_waveform(dialogue()[:RATE])
    assert not stream.can_be_kept
    with pytest.raises(Nnet3Error, match="between two segments"):
        state_of(stream)
