"""egs/english_digits_and_commands: its grammar and speech, what makes the model folder, a small whole run."""
from __future__ import annotations

import re
import shutil
import sys
import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from io_samples import read_table
from paths import DATA, ROOT
from scripts import load, run

from nnet3py.formats.foreign_files import WAVE
from nnet3py.recognition.model_folder import demo_folder

UTILS = ROOT / "egs" / "utils"
RECIPE = ROOT / "egs" / "english_digits_and_commands"
NUM_WORDS = 574
NUM_PARTS = 3            # of the corpus without flite
needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="the corpus is spoken by espeak-ng")


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(RECIPE / "local" / "make_corpus.py", monkeypatch)


def test_sentences(corpus: ModuleType) -> None:
    grammar = corpus.Grammar(RECIPE / "local" / "grammar.txt", 0)
    words = {word.lower() for word in grammar.words}
    assert len(words) == NUM_WORDS
    sentences = [corpus.transcript(grammar.sentence()) for _ in range(3000)]
    assert words.issuperset(" ".join(sentences).split())
    assert len(set(sentences)) > 1500 and 3 < np.mean([len(sentence.split()) for sentence in sentences]) < 6
    again = corpus.Grammar(RECIPE / "local" / "grammar.txt", 0)
    assert [corpus.transcript(again.sentence()) for _ in range(50)] == sentences[:50]
    assert all(re.fullmatch(r"[a-z']+", word) for word in words)


def test_a_rule_that_is_missing(corpus: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text("sentence = a | 3* $other b\n")
    with pytest.raises(SystemExit, match=r"no rule for \$other"):
        corpus.Grammar(tmp_path / "grammar", 0)
    (tmp_path / "grammar").write_text("# words\nsentence = a\n  | 3* $other b\nother = C\n")
    grammar = corpus.Grammar(tmp_path / "grammar", 0)
    sentences = [corpus.transcript(grammar.sentence()) for _ in range(400)]
    assert set(sentences) == {"a", "c b"} and 250 < sentences.count("c b") < 350        # three of four


def test_voices_of_test_are_in_no_other_part(corpus: ModuleType) -> None:
    voices = {part: {speaker.voice.rpartition("+")[2] for speaker in corpus.speakers(part, 200, 0, True)}
              for part in ("train", "dev", "test", "flite")}
    assert voices["flite"] == {"rms"} and not voices["test"] & voices["train"] and not voices["flite"] & voices["train"]
    assert voices["dev"] <= {*corpus.VARIANTS, *corpus.FLITE_VOICES} and len(voices["train"]) > 40
    names = [speaker.name for speaker in corpus.speakers("train", 200, 0, True)]
    assert names == sorted(set(names))


def test_rooms_and_noise(corpus: ModuleType) -> None:
    rng = np.random.default_rng(0)
    sound = 3000.0 * np.sin(np.arange(8000) / 5.0).astype(np.float32)
    assert abs(len(corpus.longer(sound, 1.1)) - 8800) <= 2          # what lies behind the last sample is not made
    made = [corpus.recorded([sound, sound], sound, rng) for _ in range(30)]
    assert all(sound.dtype == np.float32 and np.isfinite(sound).all() for sound in made)
    assert all(0.03 < np.abs(sound).max() / corpus.LARGEST <= 0.9001 for sound in made)
    assert any((sound == 0.0).sum() > 500 for sound in made) and any((sound != 0.0).all() for sound in made)


@needs_espeak
def test_a_lexicon(corpus: ModuleType) -> None:
    lines = corpus.lexicon(["A", "B", "the", "yes"])
    assert "a eI" in lines and "b b i:" in lines and "yes j E s" in lines
    assert {line.split()[0] for line in lines} >= {"a", "b", "the", "yes"}


def test_a_model_folder(tmp_path: Path) -> None:
    files = {"graph/HCLG.fst": "g", "graph/words.txt": "w", "lang/phones/silence.csl": "1:2", "lang/phones.txt": "p",
             "lang/phones/word_boundary.int": "1 nonword", "extractor/final.ie": "i", "extractor/final.dubm": "u",
             "extractor/final.mat": "m", "extractor/global_cmvn.stats": "s",
             "extractor/splice_opts": "--left-context=3 --right-context=3"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    made = run(RECIPE / "local/make_package.sh", "--model", tmp_path / "chain", "--graph", tmp_path / "graph",
               "--lang", tmp_path / "lang", "--extractor", tmp_path / "extractor", "--conf", RECIPE / "conf",
               "--dir", tmp_path / "model")
    assert made.returncode == 1 and "chain/final.mdl" in made.stderr


# -- codecs, telephones, rooms, noise ------------------------------------------------------------------------------


def speech_like(seconds: float = 2.0) -> np.ndarray:
    """float32 (samples,): noise of all frequencies that comes and goes."""
    rng = np.random.default_rng(0)
    times = np.arange(int(16000 * seconds)) / 16000
    return (1500.0 * np.sin(6.0 * times) ** 2 * rng.standard_normal(len(times))).astype(np.float32)


def band(sound: np.ndarray, low: float, high: float) -> float:
    """Decibels of the frequencies between two."""
    power = np.abs(np.fft.rfft(sound)) ** 2
    return float(10.0 * np.log10(power[int(len(power) * low / 8000):int(len(power) * high / 8000)].mean() + 1e-9))


def test_conditions_of_a_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions, sound, rng = load(UTILS / "sound_conditions.py", monkeypatch), speech_like(), np.random.default_rng(0)
    noise = conditions.noisy(sound, 10.0, rng) - sound
    assert 10.0 * np.log10(np.mean(np.square(sound)) / np.mean(np.square(noise))) == pytest.approx(10.0, abs=0.5)
    room = conditions.reverberant(sound, rng)
    assert room.shape == sound.shape and room.dtype == np.float32 and not np.array_equal(room, sound)
    line = conditions.mu_law(sound)
    assert line.shape == sound.shape and np.array_equal(line, np.round(line)) and np.abs(line).max() <= 32768.0
    assert abs(band(line, 300, 3000) - band(sound, 300, 3000)) < 0.5
    assert band(line, 4500, 7900) < band(sound, 4500, 7900) - 30.0
    # Of a loud tone of the telephone's band, coding by 8 bits leaves an error of more than 30 decibels below it.
    tone = np.round(8000.0 * np.sin(np.arange(16000) / 4.0)).astype(np.float32)[1000:-1000]
    error = (conditions.mu_law(tone) - tone)[1000:-1000]
    assert 30.0 < 10.0 * np.log10(np.mean(np.square(tone)) / np.mean(np.square(error))) < 45.0


def test_codecs_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av", reason="MP3 and Opus are coded by PyAV")
    pytest.importorskip("soundfile", reason="GSM is coded by soundfile")
    conditions, sound = load(UTILS / "sound_conditions.py", monkeypatch), speech_like()
    for made in (conditions.mp3(sound, 16), conditions.mp3(sound, 64, 44100), conditions.opus(sound, 12),
                 conditions.gsm(sound)):
        assert made.shape == sound.shape and made.dtype == np.float32
        envelopes = [np.abs(one).reshape(-1, 800).mean(axis=1) for one in (sound, made)]
        assert np.corrcoef(*envelopes)[0, 1] > 0.9                    # at the same time
        assert abs(band(made, 500, 3000) - band(sound, 500, 3000)) < 4.0
    assert band(conditions.gsm(sound), 4500, 7900) < band(sound, 4500, 7900) - 20.0
    assert band(conditions.mp3(sound, 16), 7000, 7900) < band(sound, 7000, 7900) - 30.0


def test_coded_copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("av", reason="MP3 and Opus are coded by PyAV")
    pytest.importorskip("soundfile", reason="GSM is coded by soundfile")
    speech = load(UTILS / "synthetic_speech.py", monkeypatch)
    count, sound = 30, np.round(speech_like(0.4))
    speech.write_data(tmp_path / "data", ((f"a-{number:02d}", "a", "one two", sound) for number in range(count)))
    copy = RECIPE / "local" / "make_coded_copies.py"
    for place, *options in (("both",), ("again",), ("copies", "--originals", "false")):
        done = run(sys.executable, copy, "--out", tmp_path / place, *options, tmp_path / "data")
        assert done.returncode == 0, done.stderr
    keys = [line.split()[0] for line in (tmp_path / "both" / "text").read_text().splitlines()]
    assert keys == sorted(keys) and len(keys) == 2 * count
    assert {key.rpartition("-")[2] for key in keys[1::2]} == {"mp3", "opus", "gsm", "mulaw", "none"}
    assert set((tmp_path / "both" / "utt2spk").read_text().splitlines()) == {f"{key} a" for key in keys}
    both, again, copies = (read_sounds(tmp_path / place) for place in ("both", "again", "copies"))
    assert list(copies) == keys[1::2] and all(np.array_equal(copies[key], both[key]) for key in copies)
    assert all(np.array_equal(both[key], again[key]) for key in keys)
    assert all(np.array_equal(both[key], sound) for key in keys[::2])
    assert not any(np.array_equal(made, sound) for made in copies.values())


def read_sounds(data: Path) -> dict[str, np.ndarray]:
    return {key: sound.samples[0].copy() for key, sound in read_table(f"scp:{data}/wav.scp", WAVE).items()}


def test_strings_of_recorded_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = load(RECIPE / "local" / "make_condition_test.py", monkeypatch)
    for digit in range(10):
        for number in range(made.NUM_RECORDINGS):
            with wave.open(str(tmp_path / f"{digit}_anna_{number}.wav"), "wb") as out:
                out.setparams((1, 2, 8000, 0, "NONE", ""))
                out.writeframes(np.full(800, 1000 + 100 * digit, "<i2").tobytes())
    strings = list(made.people(tmp_path, np.random.default_rng(0)))
    words = [word for _, _, text, _ in strings for word in text.split()]
    assert len(strings) == 10 * made.NUM_RECORDINGS // made.STRING
    assert {speaker for _, speaker, _, _ in strings} == {"anna"}
    assert all(words.count(digit) == made.NUM_RECORDINGS for digit in made.DIGITS)
    _, _, text, sound = strings[0]
    begins = np.flatnonzero(np.diff((np.abs(sound) > 500).astype(int)) == 1)
    levels = [np.mean(sound[begin + 400:begin + 1200]) for begin in begins]
    assert [made.DIGITS[round(level / 100) - 10] for level in levels] == text.split()
    with pytest.raises(SystemExit, match="no files such as"):
        list(made.people(tmp_path / "none", np.random.default_rng(0)))


def test_a_table_of_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    pytest.importorskip("av", reason="MP3 and Opus are coded by PyAV")
    pytest.importorskip("soundfile", reason="GSM is coded by soundfile")
    speech = load(UTILS / "synthetic_speech.py", monkeypatch)
    sound = speech.read_sound(DATA / "demo.wav")
    speech.write_data(tmp_path / "data", [("a", "a", "set a timer for ten minutes", sound)])
    done = run(sys.executable, RECIPE / "local" / "test_conditions.py", "--data", tmp_path / "data", demo_folder())
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", done.stdout, re.MULTILINE))
    assert len(rows) == 12 and rows["errors in 6 words of 1 recordings"] == demo_folder()
    assert {rows[name] for name in rows if name.startswith(("as it is", "MP3", "Opus, 24", "mu-law"))} == {"0 (0.0 %)"}


@pytest.mark.slow
def test_training_on_coded_copies(tmp_path: Path) -> None:
    """The stage alone, from the model that comes with the package."""
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    pytest.importorskip("av", reason="MP3 and Opus are coded by PyAV")
    pytest.importorskip("soundfile", reason="GSM is coded by soundfile")
    if not shutil.which("espeak-ng"):
        pytest.skip("the corpus is spoken by espeak-ng")
    made = run(sys.executable, RECIPE / "local" / "make_corpus.py", "--out", tmp_path / "corpus", "--num-speakers", 6,
               "--num-sentences", 4, "--num-start", 2, "--num-text", 10, "--flite", "false")
    assert made.returncode == 0, made.stderr
    shutil.copytree(demo_folder(), tmp_path / "model")
    done = run(RECIPE / "run.sh", "--stage", 14, "--dir", tmp_path, "--flite", "false", "--codecs-epochs", 0.5,
               timeout=1200.0)
    assert done.returncode == 0, done.stderr[-2000:]
    new, old = tmp_path / "model_codecs", tmp_path / "model"
    assert (new / "graph" / "HCLG.fst").read_bytes() == (old / "graph" / "HCLG.fst").read_bytes()
    assert 0 < (new / "am" / "final.mdl").stat().st_size < 1.2 * (old / "am" / "final.mdl").stat().st_size


@pytest.mark.slow
@needs_espeak
def test_the_whole_recipe(tmp_path: Path) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    small = ("--num-speakers", 6, "--num-sentences", 6, "--num-start", 5, "--start-epochs", 1, "--num-text", 500,
             "--flite", "false", "--e2e-width", 64, "--width", 64, "--e2e-bottleneck", 16, "--bottleneck", 16,
             "--e2e-epochs", 1, "--e2e-minibatch", "8,4,2,1", "--num-epochs", 1, "--minibatch", "8,4,2,1",
             "--codecs", "false", "--num-leaves", 60, "--num-gauss", 16, "--ivector-dim", 8,
             "--egs-opts", "--num-utts-subset 5 --num-egs-diagnostic 10 --num-train-egs-combine 10")
    done = run(RECIPE / "run.sh", "--dir", tmp_path / "exp", *small, timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.findall(r"^(dev|test|digits), small language model: %WER ([\d.]+) \[", done.stdout, re.MULTILINE)
    assert len(found) == NUM_PARTS and all(0.0 <= float(rate) <= 150.0 for _, rate in found)
    model = tmp_path / "exp" / "model"
    assert "--endpoint.silence-phones=1:2:3:4:5" in (model / "conf/model.conf").read_text().splitlines()
    assert (model / "am/final.mdl").stat().st_size > 0 and (model / "graph/phones/word_boundary.int").is_file()
