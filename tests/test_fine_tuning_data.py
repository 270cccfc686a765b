"""Data for fine-tuning: what forms they may have, and that wrong data of every kind end in a list."""
import json
import os
import wave
from pathlib import Path

import numpy as np
import pytest

from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning import check
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.speech_data import read_data
from nnet3py.recognition.model_folder import demo_folder

RATE = 16000
TEXT = "set a timer for ten minutes"
TEN_HOURS = 36000


def write_sound(path: Path, seconds: float = 2.0, rate: int = RATE, level: float = 0.1, claimed: int = 0) -> None:
    """A WAVE file of noise; ``claimed``: seconds that it lasts instead, the rest being zeros."""
    samples = np.random.default_rng(0).standard_normal(int(seconds * rate)) * level
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(rate)
        stream.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    if claimed:
        content = bytearray(path.read_bytes())
        content[40:44] = (claimed * rate * 2).to_bytes(4, "little")
        content[4:8] = (claimed * rate * 2 + 36).to_bytes(4, "little")
        path.write_bytes(content)
        os.truncate(path, 44 + claimed * rate * 2)                 # a hole: it takes no room on disk


def folder_with(path: Path, count: int = 10) -> Path:
    """A folder of ``count`` good sounds with their texts."""
    for number in range(count):
        write_sound(path / f"good{number}.wav")
        (path / f"good{number}.txt").write_text(f"{TEXT}\n")
    return path


def checked(path: Path, tmp_path: Path, **options: object) -> tuple[WorkFolder, dict[str, str]]:
    """The data, checked; and the kind of problem of each utterance that has one."""
    values = FineTuneOptions(model=demo_folder(), data=str(path), out=str(tmp_path / "new"), **options)
    values.check()
    work = WorkFolder(values.dir)
    check.run(work, values)
    return work, {problem["key"]: problem["kind"] for problem in json.loads(work.problems_json.read_text())}


def test_forms_of_data(tmp_path: Path) -> None:
    folder_with(tmp_path / "clips", 2)
    write_sound(tmp_path / "kaldi" / "long.wav", 5.0)
    tables = {"a.csv": f'path,sentence,client_id\ngood0,"{TEXT}",anna\nmissing,{TEXT},bob\n',
              "a.tsv": f"client_id\tpath\tsentence\nanna\tgood0.wav\t{TEXT}\nbob\tmissing\t{TEXT}\n",
              "plain.csv": f"clips/good0.wav|{TEXT}|anna\nmissing|{TEXT}|bob\n",
              "a.jsonl": f'{{"audio_filepath": "clips/good0.wav", "text": "{TEXT}", "speaker": "anna"}}\n'
                         f'{{"audio": {{"path": "missing"}}, "text": "{TEXT}", "speaker": "bob"}}\n'}
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
        one, other = read_data(str(tmp_path / name)).utterances
        assert (one.key, one.speaker, Path(one.sound).name, one.text) == (
            "anna-good0", "anna", "good0.wav", tuple(TEXT.split())), name
        assert other.key == "bob-missing"
    one, other = read_data(str(tmp_path / "clips")).utterances
    assert (one.key, one.speaker, one.end) == ("speaker-good0", "speaker", -1.0)
    (tmp_path / "kaldi" / "wav.scp").write_text(f"long {tmp_path}/kaldi/long.wav\n")
    (tmp_path / "kaldi" / "segments").write_text("u1 long 0.5 2.5\nu2 long 3 x\n")
    (tmp_path / "kaldi" / "text").write_text(f"u1 {TEXT}\nu2 {TEXT}\n")
    (tmp_path / "kaldi" / "utt2spk").write_text("u1 anna\nu2 anna\n")
    data = read_data(str(tmp_path / "kaldi"))
    assert [(one.key, one.speaker, one.start, one.end) for one in data.utterances] == [("u1", "anna", 0.5, 2.5)]
    assert [problem.kind for problem in data.problems] == ["no segment"]
    for wrong in ("nothing", "kaldi/long.wav"):
        with pytest.raises(Nnet3Error):
            read_data(str(tmp_path / wrong))


def test_wrong_data_end_in_a_list(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "data", 20)
    write_sound(folder / "silence.wav", level=0.0)
    write_sound(folder / "narrow.wav", rate=8000)
    write_sound(folder / "wide.wav", rate=32000)
    write_sound(folder / "loud.wav", level=30.0)
    write_sound(folder / "short.wav", 0.1)
    write_sound(folder / "day.wav", claimed=TEN_HOURS)
    write_sound(folder / "fast.wav", 0.5)
    write_sound(folder / "letters.wav")
    write_sound(folder / "wordless.wav")
    write_sound(folder / "textless.wav")
    write_sound(folder / "nobody.wav")
    (folder / "empty.wav").touch()
    (folder / "text.wav").write_text("this is not sound")
    for sound in folder.glob("*.wav"):
        if not sound.with_suffix(".txt").exists() and sound.stem != "textless":
            sound.with_suffix(".txt").write_text(TEXT)
    (folder / "letters.txt").write_text("включи свет")
    (folder / "wordless.txt").write_text(" ... ")
    (folder / "fast.txt").write_text(f"{TEXT} {TEXT} {TEXT}")
    (folder / "nobody.txt").write_text("Set a timer, for Zebediah!")
    work, kinds = checked(folder, tmp_path)
    assert kinds == {
        "speaker-silence": "silence", "speaker-narrow": "rate", "speaker-loud": "clipped", "speaker-short": "too short",
        "speaker-day": "too long", "speaker-fast": "too much text", "speaker-letters": "odd text",
        "speaker-wordless": "empty text", str(folder / "textless.wav"): "no text", "speaker-empty": "damaged sound",
        "speaker-text": "damaged sound", "speaker-nobody": "unknown word"}
    used = {line.split()[0] for part in ("train", "held_out") for line in
            (work.data(part) / "wav.scp").read_text().splitlines()}
    assert used == {"speaker-wide", "speaker-nobody", *(f"speaker-good{number}" for number in range(20))}
    texts = "".join((work.data(part) / "text").read_text() for part in ("train", "held_out"))
    assert "speaker-nobody set a timer for zebediah\n" in texts
    assert "1 zebediah" in work.unknown_words.read_text()
    seconds = dict(line.split() for part in ("train", "held_out") for line in
                   (work.data(part) / "utt2dur").read_text().splitlines())
    assert float(seconds["speaker-wide"]) == 2.0         # resampled


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "data", 12)
    for number in range(12):
        (folder / f"good{number}.txt").write_text("das ist eine andere sprache als die des modells")
    with pytest.raises(Nnet3Error, match="does not know .* another language"):
        checked(folder, tmp_path)
    assert "words that the model lacks" in (tmp_path / "new.work" / "problems.txt").read_text()
    with pytest.raises(Nnet3Error, match="only 0 of 12 utterances"):
        checked(folder, tmp_path, unknown_words="leave-out", max_unknown=1.0)


def test_data_of_the_old_domain_have_names_of_their_own(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "data", 12)
    work, _ = checked(folder, tmp_path, old_data=str(folder))
    for name in ("wav.scp", "text", "utt2spk", "utt2dur"):
        assert {line.split()[0] for line in (work.data("old_data") / name).read_text().splitlines()} == {
            f"old-speaker-good{number}" for number in range(12)}
    assert (work.data("old_data") / "utt2spk").read_text().splitlines()[0] == "old-speaker-good0 old-speaker"


def test_whole_speakers_are_held_out(tmp_path: Path) -> None:
    for speaker in range(5):
        folder_with(tmp_path / "data" / f"s{speaker}", 4)
    work, _ = checked(tmp_path / "data", tmp_path)
    speakers = [{line.split()[1] for line in (work.data(part) / "utt2spk").read_text().splitlines()}
                for part in ("train", "held_out")]
    assert not speakers[0] & speakers[1] and [len(part) for part in speakers] == [4, 1]
