"""Model folders recognize as the public vosk does, whatever their layout, the sizes of blocks, and other streams."""
from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from recognition_cases import (
    CHUNK,
    DATA,
    PACKAGE,
    RATE,
    SILENCE,
    SOUNDS,
    dialogue,
    kaldi_folder,
    online_folder,
    recognized,
    recognizer,
    samples_of,
)
from rnnlm_cases import rnnlm_folder
from test_recognition_beside_vosk import rescored
from vosk_results import vosk_results

from nnet3py.errors import Nnet3Error, NumericError, UsageError
from nnet3py.recognition.recognizer import Recognizer
from nnet3py.recognition.results import Result
from nnet3py.recognition.stream import Stream

PIECE = 2880                # samples, 0.18 seconds: the piece that vosk was given, and the one that streams decode
SECONDS = 1.0e-3             # times are means over paths, by their probabilities
CONFIDENCE = 1.0e-3         # probabilities of sums of costs, which i-vectors that agree to 4e-6 change so much
KALDI_OPTIONS = {"chunk-length": CHUNK, "beam": 12, "lattice-beam": 4, "min-active": 10,
                 "endpoint.rule2.min-trailing-silence": 0.2, "frames-per-chunk": 24, "max-active": 2147483647,
                 "ivector-silence-weighting.silence-phones": "1",
                 "ivector-silence-weighting.silence-weight": 0.001, "endpoint.silence-phones": "1"}


def answers(stream: Stream, samples: np.ndarray, piece: int = PIECE) -> list[tuple[str, object]]:
    """What a program hears that prints partial results and those of segments."""
    found: list[tuple[str, object]] = []
    for first in range(0, len(samples), piece):
        if stream.accept_waveform(samples[first:first + piece].tobytes()):
            found.append(("result", stream.result()))
        else:
            found.append(("partial", stream.partial))
    return [*found, ("final", stream.finish())]


def check_equal(found: Iterable[tuple[str, object]], expected: Iterable[tuple[str, str]]) -> None:
    for (kind, answer), (expected_kind, text) in zip(found, expected, strict=True):
        assert kind == expected_kind
        if not isinstance(answer, Result):
            assert answer == text
            continue
        theirs = json.loads(text)
        assert answer.text == theirs["text"]
        for word, other in zip(answer.words, theirs.get("result", []), strict=True):
            assert word.word == other["word"]
            assert (word.start, word.end) == pytest.approx((other["start"], other["end"]), abs=SECONDS)
            assert word.confidence == pytest.approx(other["conf"], abs=CONFIDENCE)


def expected_answers() -> list[tuple[str, str]]:
    return [(kind, text) for kind, _, text in
            (line.partition(" ") for line in (DATA / "results.txt").read_text().splitlines())]


def segments(stream: Stream, samples: np.ndarray, piece: int) -> list[Result]:
    found = []
    for first in range(0, len(samples), piece):
        stream.accept_waveform(samples[first:first + piece])
        while stream.endpoint:
            found.append(stream.result())
    return [*found, stream.finish()]


def test_partial_and_final_results_are_vosks() -> None:
    """results.txt is what vosk 0.3.45 made of the same files."""
    check_equal(answers(recognizer().stream(), dialogue()), expected_answers())


def test_beside_vosk() -> None:
    samples = np.concatenate([samples_of(SOUNDS[number]) for number in (1, 0, 2, 1)])
    *theirs, (_, last) = vosk_results(PACKAGE, samples, RATE, PIECE)
    expected = [("result", json.dumps(found)) if ended else ("partial", found["partial"]) for ended, found in theirs]
    expected.append(("final", json.dumps(last)))
    check_equal(answers(recognizer().stream(), samples), expected)


def test_words_do_not_depend_on_the_sizes_of_blocks() -> None:
    samples = dialogue()
    expected = segments(recognizer().stream(), samples, PIECE)
    assert [result.text for result in expected[:2]] == ["five two nine five", "seven zero three"]
    for piece in (RATE // 100, 7001, len(samples)):
        assert [result.words for result in segments(recognizer().stream(), samples, piece)] == [
            result.words for result in expected]
    whole = recognized()
    assert [result.words for result in whole.segments] == [result.words for result in expected]
    assert whole.text == " ".join(result.text for result in expected if result.words)
    assert whole.nbest[0].text == " ".join(result.nbest[0].text for result in expected if result.words)


def test_who_asks_for_no_results_gets_one_segment() -> None:
    samples = dialogue()
    expected = recognizer().transcribe(samples, endpointing=False)
    assert len(expected.segments) == 1 and expected.end == pytest.approx(len(samples) / RATE, abs=0.05)
    for piece in (4001, len(samples)):
        stream = recognizer().stream()
        for first in range(0, len(samples), piece):
            stream.accept_waveform(samples[first:first + piece])
        assert stream.finish().words == expected.words


def test_streams_in_threads_share_a_model() -> None:
    parts = np.array_split(dialogue(), 3)
    expected = [recognizer().transcribe(part).words for part in parts]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda part: recognizer().transcribe(part).words, parts))
    assert found == expected


def test_files_arrays_and_bytes_say_the_same() -> None:
    samples = samples_of(SOUNDS[0])
    of_file = recognizer().transcribe(SOUNDS[0])
    for sound in (samples, samples.tobytes(), samples.astype(np.float32) / 32768, samples / 32768.0):
        assert recognizer().transcribe(sound).words == of_file.words


@pytest.mark.parametrize("prefix", ["exp/chain/tdnn_online", "/another/machine/online"])
def test_folders_of_kaldis_recognize_the_same(tmp_path: Path, prefix: str) -> None:
    expected = [result.words for result in recognized().segments]
    (tmp_path / "online").mkdir()
    online = Recognizer(online_folder(tmp_path / "online", prefix), options=KALDI_OPTIONS)
    assert [result.words for result in online.transcribe(dialogue()).segments] == expected
    assert online.folder.layout == "online"


def test_folder_of_a_training_and_model_by_name(tmp_path: Path) -> None:
    folder = kaldi_folder(tmp_path)
    expected = [result.words for result in recognized().segments]
    for path, graph in ((folder, None), (folder / "final.mdl", folder / "graph" / "HCLG.fst")):
        found = Recognizer(path, graph, options=KALDI_OPTIONS)
        assert [result.words for result in found.transcribe(dialogue()).segments] == expected


def test_speaker_state_is_carried_over() -> None:
    first = recognizer().stream()
    first.accept_waveform(dialogue())
    first.finish()
    state = first.adaptation
    fresh, later = (recognizer().stream(adaptation=one) for one in (None, state))
    ivectors = []
    for stream in (fresh, later):
        stream.accept_waveform(dialogue()[:RATE])
        ivectors.append(stream._decoder.pipeline.ivector(10))
    assert np.abs(ivectors[0] - ivectors[1]).max() > 0.1


def test_another_rate_is_resampled() -> None:
    slow = dialogue()[::2]
    stream = recognizer().stream(RATE / 2)
    stream.accept_waveform(slow)
    result = stream.finish()
    assert result.end == pytest.approx(len(slow) / (RATE / 2), abs=0.1)


def test_nothing_and_too_little_say_nothing() -> None:
    for samples in (b"", np.zeros(0, np.float32), np.zeros(100, np.int16)):
        result = recognizer().transcribe(samples)
        assert result.text == "" and result.words == () and result.nbest == []


def test_what_is_no_sound() -> None:
    stream = recognizer().stream()
    with pytest.raises(NumericError, match="sample 1"):
        stream.accept_waveform(np.array([0.0, np.nan], np.float32))
    with pytest.raises(Nnet3Error, match="one channel"):
        stream.accept_waveform(np.zeros((100, 2), np.int16))
    with pytest.raises(UsageError, match="from -1 to 1"):
        stream.accept_waveform(np.full(10, 3000.0, np.float32))
    for wrong in (np.zeros(10, np.int32), "text", [1, 2]):
        with pytest.raises(UsageError, match="expected bytes of 16-bit samples"):
            stream.accept_waveform(wrong)       # type: ignore[arg-type]
    stream.finish()
    with pytest.raises(UsageError, match="finished"):
        stream.accept_waveform(b"")
    with pytest.raises(UsageError, match="sample_rate"):
        recognizer().stream(float("nan"))


def test_half_samples_wait() -> None:
    data = dialogue()[:RATE].tobytes()
    stream = recognizer().stream()
    for first in range(0, len(data), 3333):
        stream.accept_waveform(data[first:first + 3333])
    assert stream.finish().words == recognizer().transcribe(dialogue()[:RATE]).words


def test_phrases_need_a_lookahead_graph() -> None:
    with pytest.raises(UsageError, match="composed while decoding"):
        recognizer().stream(phrases=["one two"])


@pytest.mark.parametrize("name", ["am/final.mdl", "graph/HCLG.fst", "ivector/final.ie", "ivector/final.mat",
                                  "graph/words.txt", "conf/mfcc.conf"])
def test_damaged_files_are_one_error(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(PACKAGE, folder)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:len(data) // 2] + b"\xff\x00\x7f" * 5)
    with pytest.raises(Nnet3Error):
        Recognizer(folder)


def test_an_rnn_language_model_of_other_words_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(PACKAGE, folder)
    rescored(folder)
    rnnlm_folder(folder / "rnnlm", "tdnn")
    with pytest.raises(Nnet3Error, match=r"does not have the word 'zero' of .*graph/words.txt with its number, 1 "):
        Recognizer(folder)
    (folder / "rnnlm" / "words.txt").unlink()
    with_rnn = Recognizer(folder).transcribe(dialogue())
    without = Recognizer(folder, options={"rnnlm": False}).transcribe(dialogue())
    assert with_rnn.segments[0].nbest != without.segments[0].nbest
    words = folder / "graph" / "words.txt"
    words.write_text(words.read_text() + "#0 18\neleven 19\n")
    with pytest.raises(Nnet3Error, match="does not have the word 'eleven' of .* with its number, 19"):
        Recognizer(folder)
    assert Recognizer(folder, options={"rnnlm": "false"}).transcribe(dialogue()).text == without.text


def test_dither_is_the_same_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(PACKAGE, folder)
    conf = folder / "conf" / "mfcc.conf"
    conf.write_text(conf.read_text().replace("--dither=0\n", ""))
    noisy = Recognizer(folder)
    stream = noisy.stream()
    assert stream._dither == 1.0
    results = [[result.words for result in segments(noisy.stream(), dialogue(), piece)] for piece in (PIECE, 999)]
    assert results[0] == results[1]
    quiet = recognizer().transcribe(np.zeros(SILENCE, np.int16))
    assert quiet.end == noisy.transcribe(np.zeros(SILENCE, np.int16)).end
