"""egs/mini_librispeech/run.sh and its local scripts: the corpus that espeak-ng speaks, data, a small whole run."""
from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from io_samples import read_table
from paths import ROOT
from scripts import load, run

from nnet3py.formats.foreign_files import WAVE

RECIPE = ROOT / "egs" / "mini_librispeech"
LOCAL = RECIPE / "local"
NUM_WORDS, NUM_VOICES = 1000, 8

needs_espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="the corpus is spoken by espeak-ng")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


# -- the corpus ----------------------------------------------------------------------------------------------------


def test_the_vocabulary_and_the_sentences() -> None:
    corpus = load(LOCAL / "make_corpus.py")
    words = corpus.read_words(LOCAL / "words.txt")
    every = {word for members in words.values() for word in members}
    assert len(every) == sum(map(len, words.values())) == NUM_WORDS
    seen: set[tuple[str, ...]] = set()
    sentences = list(corpus.Grammar(words, 0).different(2000, seen))
    assert len(seen) == 2000 and every.issuperset(word for sentence in sentences for word in sentence)
    assert 5 < np.mean([len(sentence) for sentence in sentences]) < 10
    assert len({word for sentence in sentences for word in sentence}) > 0.9 * NUM_WORDS
    assert sentences[:50] == list(corpus.Grammar(words, 0).different(50, set()))
    assert sentences[:50] != list(corpus.Grammar(words, 1).different(50, set()))


def test_voices_of_test_are_in_no_other_part() -> None:
    corpus = load(LOCAL / "make_corpus.py")
    assert len(set(corpus.VOICES)) == NUM_VOICES
    voices = {part: {voice for its_part, voice in corpus.parts(2000) if its_part == part}
              for part in ("train", "dev", "test")}
    assert voices["train"] == voices["dev"] and not voices["train"] & voices["test"] and len(voices["test"]) == 2
    assert [sum(part == name for part, _ in corpus.parts(2000)) for name in voices] == [1650, 150, 200]


def test_phones_have_no_marks() -> None:
    plain = load(ROOT / "egs" / "utils" / "synthetic_speech.py").plain
    assert [plain(name) for name in ("'i:", "a#", "t#", "@-", "I2", ",3:", "3", "?", "aI3", "0")] == [
        "i:", "@", "t", "@", "I", "3:", "3", "", "aI@", "0"]


@needs_espeak
def test_a_small_corpus(tmp_path: Path) -> None:
    made = run(sys.executable, LOCAL / "make_corpus.py", "--out", tmp_path, "--num-sentences", 16, "--num-text", 30)
    assert made.returncode == 0, made.stderr
    lexicon = (tmp_path / "lexicon.txt").read_text().splitlines()
    words = {line.split()[0] for line in lexicon}
    assert len(words) == NUM_WORDS and all(len(line.split()) > 1 for line in lexicon)
    assert 40 <= len({phone for line in lexicon for phone in line.split()[1:]}) <= 60
    assert len((tmp_path / "lm.txt").read_text().splitlines()) == 30
    for part, count in (("train", 13), ("dev", 1), ("test", 2)):
        transcripts = [line.split() for line in (tmp_path / part / "text").read_text().splitlines()]
        assert len(transcripts) == count and transcripts == sorted(transcripts)
        assert all(words.issuperset(said) for _, *said in transcripts)
        sounds = read_table(f"scp:{tmp_path}/{part}/wav.scp", WAVE)
        assert list(sounds) == [key for key, *_ in transcripts]
        for key, *said in transcripts:       # at 165 to 215 words a minute, and pauses
            assert 0.1 * len(said) < sounds[key].duration < 1.0 * len(said) + 1.0 and sounds[key].rate == 16000
            assert np.abs(sounds[key].samples).max() > 3000


# -- data ----------------------------------------------------------------------------------------------------------


def test_lengths_and_speeds() -> None:
    lengths = load(LOCAL / "allowed_lengths.py")
    few = lengths.geometric(101, 730, 1.12)
    assert few[0] <= 101 and few[-1] >= 730 and all(length % 3 == 0 for length in few)
    for frames in range(101, 731):
        for speed in lengths.speeds(frames, few):
            assert 1 / 1.16 < speed < 1.16           # a length may be rounded by 1.5 frames
            samples = 160 * frames + 240
            assert min(abs((round(samples / speed) - 400) // 160 + 1 - length) for length in few) <= 1
        assert lengths.speeds(frames, few, 1)[0] in lengths.speeds(frames, few)
    near = lengths.spaced(101, 730)
    assert all(length % 3 == 0 for length in near)
    assert all(min(abs(frames - length) for length in near) <= lengths.TOLERANCE for frames in range(101, 731))


def test_copies_of_a_data_directory(tmp_path: Path) -> None:
    data = write(tmp_path / "from", text="b-2 two\na-1 one\n", utt2spk="b-2 b\na-1 a\n",
                 wav__scp="a-1 x.wav\nb-2 y |\n")
    copied = run(LOCAL / "prepare_data.sh", "--from", data, "--to", tmp_path / "to", "--speeds", "0.9 1.0")
    assert copied.returncode == 0, copied.stderr
    found = {name: (tmp_path / "to" / name).read_text().splitlines()
             for name in ("text", "utt2spk", "wav.scp", "utt2speed", "spk2utt")}
    assert found["text"] == ["sp0.9-a-1 one", "sp0.9-b-2 two", "sp1.0-a-1 one", "sp1.0-b-2 two"]
    assert found["utt2spk"][0] == "sp0.9-a-1 sp0.9-a" and found["wav.scp"][3] == "sp1.0-b-2 y |"
    assert found["utt2speed"][:2] == ["sp0.9-a-1 0.9", "sp0.9-b-2 0.9"] and found["spk2utt"][0] == "sp0.9-a sp0.9-a-1"

    write(data, segments="a-1 r 0 1\nb-2 r 1 2\n", wav__scp="r z.wav\n")
    assert run(LOCAL / "prepare_data.sh", "--from", data, "--to", tmp_path / "cut", "--speeds", "1.1").returncode == 0
    assert (tmp_path / "cut/wav.scp").read_text() == "r z.wav\n"
    assert (tmp_path / "cut/segments").read_text() == "sp1.1-a-1 r 0 1\nsp1.1-b-2 r 1 2\n"


def test_words_to_numbers(tmp_path: Path) -> None:
    lang = write(tmp_path, words__txt="<eps> 0\na 1\nb 2\n<UNK> 3\n", text="u a b c\nv b\n")
    known = run(LOCAL / "words_to_numbers.sh", lang, lang / "text")
    assert known.stdout == "v 2\n" and "u: c is not in words.txt" in known.stderr
    write(tmp_path, oov__int="3\n")
    assert run(LOCAL / "words_to_numbers.sh", lang, lang / "text").stdout == "u 1 2 3\nv 2\n"


def test_arpa_of_numbers(tmp_path: Path) -> None:
    write(tmp_path, words__txt="<eps> 0\na 1\nb 2\n<s> 3\n</s> 4\n", lexicon="a A\nb B\n", text="a b\nb\na c\n")
    made = run(sys.executable, LOCAL / "make_lm.py", "--order", 3, tmp_path / "lexicon", tmp_path / "text",
               tmp_path / "arpa")
    assert made.returncode == 0 and "of 2 of 3 sentences" in made.stdout
    (tmp_path / "arpa").write_text((tmp_path / "arpa").read_text().replace("\ta b", "\ta unheard"))
    lines = run(LOCAL / "arpa_to_numbers.awk", tmp_path / "words.txt", tmp_path / "arpa").stdout.splitlines()
    assert lines[:4] == ["\\data\\", "ngram 1=4", "ngram 2=3", "ngram 3=2"] and lines[-1] == "\\end\\"
    grams = [line.split("\t") for line in lines if "\t" in line]
    assert {gram for _, gram, *_ in grams} == {"1", "2", "3", "4", "2 4", "3 1", "3 2", "3 1 2", "3 2 4"}
    assert sorted(10 ** float(log10) for log10, gram, *_ in grams if gram in ("3 1", "3 2"))[0] > 0.3


# -- the recipe ----------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for words, message in ((("run.sh",), "--data is needed"), (("run.sh", "--date", "x"), "unknown option --date"),
                           (("run_librispeech.sh",), "--corpus and --lm-dir are needed"),
                           (("local/librispeech_data.sh", "--dir", tmp_path),
                            "is not a folder" if shutil.which("flac") else "flac")):
        failed = run(RECIPE / words[0], *words[1:])
        assert failed.returncode == 1 and message in failed.stderr, words


@pytest.mark.slow
@needs_espeak
def test_the_whole_recipe(tmp_path: Path) -> None:
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    small = ("--num-sentences", 40, "--num-text", 500, "--num-text-small", 200, "--e2e-width", 64, "--width", 64,
             "--e2e-bottleneck", 16, "--bottleneck", 16, "--e2e-epochs", 1, "--num-leaves", 60, "--num-gauss", 16,
             "--ivector-dim", 8,
             "--e2e-minibatch", "4,2,1", "--minibatch", "4,2,1",
             "--egs-opts", "--num-utts-subset 5 --num-egs-diagnostic 10 --num-train-egs-combine 10")
    done = run(RECIPE / "run_synthetic.sh", "--dir", tmp_path / "exp", *small, timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.findall(r"^(dev|test), (small|large) language model: %WER ([\d.]+) \[", done.stdout, re.MULTILINE)
    assert len(found) == 4       # so small a training recognizes next to nothing
    assert all(0.0 <= float(rate) <= 150.0 for *_, rate in found)


@pytest.mark.slow
@needs_espeak
def test_digits_in_noise(tmp_path: Path) -> None:
    """With pitch, which i-vectors do not see; trained without and with noise."""
    pytest.importorskip("kaldifst", reason="words are decoded with the extra 'decode'")
    small = ("--num-train", 48, "--num-test", 4, "--e2e-epochs", 1, "--num-epochs", 1, "--num-leaves", 40,
             "--e2e-minibatch", "4,2,1", "--minibatch", "4,2,1", "--ivector-dim", 8,
             "--egs-opts", "--num-utts-subset 5 --num-egs-diagnostic 10 --num-train-egs-combine 10")
    done = run(RECIPE / "run_noisy_digits.sh", "--dir", tmp_path / "exp", *small, timeout=1800.0)
    assert done.returncode == 0, done.stderr[-2000:]
    results = r"^test (?:clean|noisy), trained with(?:out)? noise: %WER [\d.]+ \["
    assert len(re.findall(results, done.stdout, re.MULTILINE)) == 4
    made = tmp_path / "exp"
    assert {(made / "data" / name / "pitch_dim").read_text().strip() for name in ("train_sp", "train_noisy")} == {"3"}
    assert "dim=43 name=input" in (made / "chain" / "configs" / "network.xconfig").read_text()


def test_sounds_in_rooms_and_noise(tmp_path: Path) -> None:
    """Lengths stay; a share of the sounds stays as it is; commands in wav.scp, too."""
    sound = ROOT / "tests" / "data" / "features" / "utt2.wav"
    for name in ("noises", "rirs"):
        (tmp_path / f"{name}.scp").write_text(f"x {sound}\n")
    table = tmp_path / "wav.scp"
    table.write_text("".join(f"u{number:02d} {f'cat {sound} |' if number % 2 else sound}\n" for number in range(12)))
    done = run(RECIPE / "local/augment.py", "--noises", tmp_path / "noises.scp", "--rirs", tmp_path / "rirs.scp", table)
    assert done.returncode == 0, done.stderr
    lines = table.read_text().splitlines()
    changed = [line for line in lines if "wav-reverberate" in line]
    assert len(lines) == 12 and 5 <= len(changed) <= 11
    assert any("--impulse-response=" in line for line in changed) and all("--snrs=" in line for line in changed)
    sounds = tmp_path / "wav.ark"
    done = run("bash", "-c", f"PATH={ROOT}/bin:$PATH wav-copy scp:{table} ark:{sounds}")
    assert done.returncode == 0, done.stderr
    assert [wave.samples.shape for wave in read_table(f"ark:{sounds}", WAVE).values()] == 12 * [(1, 22460)]
