"""Data for fine-tuning: what forms they may have, and that wrong data of every kind end in a list."""
import json
import os
import wave
from pathlib import Path

import numpy as np
import pytest

from nnet3py.decoding.symbols import Spelling, SymbolTable
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning import check
from nnet3py.fine_tuning.plan import FineTuneOptions, Problem, SpeechData, Utterance, WorkFolder
from nnet3py.fine_tuning.speech_data import Limits, read_data, read_sounds
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


def utterances_of(*texts: str) -> list[Utterance]:
    return [Utterance(f"u{number}", f"s{number}", f"{number}.wav", 0.0, -1.0, tuple(text.split()))
            for number, text in enumerate(texts)]


def test_problems_are_listed_by_their_kind() -> None:
    letters = [first + second for first in "abcdefg" for second in "xyz"]
    checked = check.Checked(utterances_of("a", "b"), [
        Problem("u3", "rate", "8000", True), Problem("u4", "unknown word", "x, y", False),
        Problem("u5", "unknown word", "x", True), Problem("u5", "rate", "too low", True)],
        check.Counter({"aa": 3, **dict.fromkeys(letters, 1)}), {"u0": 100.0, "u1": 80.0})
    text = ("2 utterances can be used, 3.0 minutes; 2 cannot\n\nrate: 2, 2 of them set aside\n  u3: 8000\n  u5: too low"
            "\n\nunknown word: 2, 1 of them set aside\n  u4: x, y\n  u5: x\n\n")
    assert check.problems_text(checked) == (
        f"{text}22 words that the model lacks, with counts: aa 3, {' 1, '.join(letters[:19])} 1 …\n")
    checked.unknown = check.Counter(letters[:20])
    assert check.problems_text(checked) == (
        f"{text}20 words that the model lacks, with counts: {' 1, '.join(letters[:20])} 1\n")
    assert check.problems_text(check.Checked(problems=[Problem("u", "clipped", "1 %", False)])) == (
        "0 utterances can be used, 0.0 minutes; 0 cannot\n\nclipped: 1\n  u: 1 %\n")


def test_faults_of_texts() -> None:
    spelling = Spelling(SymbolTable.of(["set", "timer"]))
    faults = {"set timer": None, "": ("empty text", "it has no words", True), "rest set mist rest": (
        "unknown word", "mist, rest", False), "я set t1 rest": (
        "odd text", "t1, я: characters that no word of the model has (write numbers and signs as words, or give "
        "--lexicon)", True), "mi se te ti re": ("unknown word", "mi, re, se, te, ti", False),
        "mi se te ti re rest it": ("unknown word", "it, mi, re, rest, se and 2 more", False)}
    for text, fault in faults.items():
        utterance, = utterances_of(text)
        assert check.text_problems(utterance, spelling, False) == ([] if fault is None else [Problem("u0", *fault)])
    assert check.text_problems(utterance, spelling, True)[0].is_fatal


@pytest.mark.parametrize("texts, faults, message", [
    (["set timer set"] * 10, 0, None),
    (["set timer set"] * 9, 2, "only 9 of 11 utterances of DATA can be used, 10 are needed; what is wrong: rate (2) "
                               "(see the list)"),
    (["set timer set"] * 9, 0, "only 9 of 9 utterances of DATA can be used, 10 are needed (see the list)"),
    (["set timer set"] * 7 + ["rest mist mist"] * 3, 0, None),
    (["set timer set"] * 6 + ["rest mist mist"] * 3 + ["set timer rest"], 0,
     "the model does not know 10 of 30 words of DATA, such as mist, rest (is it another language than the model's? "
     "--max-unknown takes more of them; see the list)"),
    (["set"] * 14, -6, None),
    (["set"] * 13, -6, "6 texts of DATA have characters that no word of the model has (is it another language than the "
                       "model's? see the list)")])
def test_too_little_is_left_or_it_is_of_another_language(texts: list[str], faults: int, message: str | None) -> None:
    spelling = Spelling(SymbolTable.of(["set", "timer"]))
    utterances = utterances_of(*texts)
    problems = [Problem(f"x{number}", "rate" if faults > 0 else "odd text", "", True) for number in range(abs(faults))]
    checked = check.Checked(utterances, problems, check.unknown_words(utterances, spelling.known))
    if message is None:
        check.raise_if_unusable(checked, "DATA", FineTuneOptions(), spelling, "")
        return
    for where, end in (("", "see the list"), ("FILE", "FILE lists what is wrong")):
        with pytest.raises(Nnet3Error) as error:
            check.raise_if_unusable(checked, "DATA", FineTuneOptions(), spelling, where)
        assert str(error.value) == message.replace("see the list", end)


def test_the_same_sound_is_used_once(tmp_path: Path) -> None:
    name = write_samples(tmp_path / "s.wav", PLAIN * 2000)
    times = [(0.0, 2.0), (1.0, 2.0), (0.0, 2.0), (0.0, 1.0), (0.0, 9.0)]
    data = SpeechData([Utterance(f"u{number}", "s", name, *its, ("set", "it")) for number, its in enumerate(times)],
                      [Problem("u1", "odd text", "", True), Problem("u3", "unknown word", "it", False)])
    written: dict[str, int] = {}
    checked = check.check_data(data, Spelling(SymbolTable.of(["set"])), Limits(LOW_RATE),
                               lambda key, samples: written.update({key: len(samples)}))
    assert [utterance.key for utterance in checked.utterances] == ["u0", "u3"]
    assert checked.seconds == {"u0": 2.0, "u3": 1.0} and written == {"u0": 2000, "u3": 1000}
    assert checked.problems == [*data.problems, Problem("u2", "twice", f"the same sound, {name}, occurs before", True),
                                Problem("u4", "damaged sound", f"{name} ends before 9 seconds", True)]
    assert checked.unknown == {"it": 5}


@pytest.mark.parametrize("speakers, part, sizes", [
    (3, 0.25, {3}), (3, 0.26, {4}), (4, 0.25, {3}), (4, 0.26, {6}), (4, 1.0, {9}), (3, 1.0, {11}), (4, 0.0, {0})])
def test_so_much_is_held_out(speakers: int, part: float, sizes: set[int]) -> None:
    utterances = [each._replace(speaker=f"s{number % speakers}") for number, each in
                  enumerate(utterances_of(*["set"] * 12))]
    learned, held = check.split(utterances, part, 0)
    assert {len(held)} == sizes and sorted(learned + held) == sorted(utterances)
    assert learned == sorted(learned, key=utterances.index) and held == sorted(held, key=utterances.index)
    assert bool({each.speaker for each in learned} & {each.speaker for each in held}) == (speakers == 3)


# -- sounds of few samples, on each side of every limit ----------------------------------------------------------------

LOW_RATE = 1000               # Hz; a sample is a millisecond
PLAIN = [3000, -3000]         # repeated: loud, and not clipped
CUT_OFF = "of its samples are cut off"


def write_samples(path: Path, samples: list[int], rate: int = LOW_RATE) -> str:
    with wave.open(str(path), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(rate)
        stream.writeframes(np.array(samples, dtype="<i2").tobytes())
    return str(path)


def loud(peaks: list[int], count: int) -> list[int]:
    """So many samples, among them these successive ones."""
    return (PLAIN * count)[:count - len(peaks)] + peaks


@pytest.mark.parametrize("samples, letters, problem", [
    (PLAIN * 150, 5, None),
    ((PLAIN * 150)[1:], 5, ("too short", "0.30 seconds, less than 0.3", True)),
    (PLAIN * 2000, 5, None),
    (loud([0], 4001), 5, ("too long", "4.0 seconds, more than 4: cut it into sentences, or give start and end of each",
                          True)),
    ([59, -59] * 500, 5, None),
    ([58, -58] * 500, 5, ("silence", "its peak is 0.00177 of full scale", True)),
    ([1000, 1058] * 500, 5, ("silence", "its peak is 0.03229 of full scale", True)),
    ([1000, 1059] * 500, 5, None),
    (loud([20000] * 2, 1000), 5, None),
    (loud([20000] * 3, 1002), 5, None),
    (loud([20000] * 3, 1001), 5, ("clipped", f"0.1 % {CUT_OFF}", False)),
    (loud([-20000, 19985, -19985], 1001), 5, ("clipped", f"0.1 % {CUT_OFF}", False)),
    (loud([20000, 19970, 20000], 1001), 5, None),
    (loud([20000] * 52, 1002), 5, ("clipped", f"5.0 % {CUT_OFF}", False)),
    (loud([20000] * 53, 1002), 5, ("clipped", f"5.1 % {CUT_OFF}", True)),
    (loud([9831] * 52, 1002), 5, ("clipped", f"5.0 % {CUT_OFF}", False)),
    (loud([9830] * 52, 1002), 5, None),
    (PLAIN * 500, 35, None),
    (PLAIN * 500, 36, ("too much text", "36 letters in 1.0 seconds", True)),
    (PLAIN * 1000, 1, None),
    (loud([0], 2001), 1, ("too little text", "1 letters in 2.0 seconds", True))])
def test_limits_of_sounds(samples: list[int], letters: int, problem: tuple[str, str, bool] | None,
                          tmp_path: Path) -> None:
    utterance = Utterance("u", "s", write_samples(tmp_path / "u.wav", samples), 0.0, -1.0, ("a",) * letters)
    (same, sound, problems), = read_sounds([utterance], Limits(LOW_RATE, 0.3, 4.0))
    assert (same, problems) == (utterance, [] if problem is None else [Problem("u", *problem)])
    if problem is not None and problem[2]:
        assert sound is None
    else:
        assert sound is not None and sound.dtype == np.float32
        np.testing.assert_array_equal(sound * 32768, samples)


@pytest.mark.parametrize("start, end, problem", [
    (0.0, 0.0, ("odd time", "from 0 to 0 seconds")), (0.5, 0.5, ("odd time", "from 0.5 to 0.5 seconds")),
    (-0.001, 1.0, ("odd time", "from -0.001 to 1 seconds")), (-0.001, -1.0, ("odd time", "from -0.001 to -1 seconds")),
    (0.0, 1.0, None), (0.0, 0.3, None), (0.5, 1.5, None), (0.5, -1.0, None),
    (0.5, 1.501, ("damaged sound", "{sound} ends before 1.501 seconds")),
    (1.0, 1.5, ("empty sound", "it has no samples")),
    (0.5, 2.501, ("too long", "2.0 seconds, more than 2: cut it into sentences, or give start and end of each"))])
def test_limits_of_segments(start: float, end: float, problem: tuple[str, str] | None, tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-9000, 9000, 1000)
    name = write_samples(tmp_path / "s.wav", samples.tolist())
    (_, sound, problems), = read_sounds([Utterance("u", "s", name, start, end, ("word",))], Limits(LOW_RATE, 0.3, 2.0))
    if problem is None:
        assert sound is not None and not problems
        np.testing.assert_array_equal(sound * 32768, samples[int(start * 1000):int(end * 1000) if end >= 0 else None])
    else:
        assert sound is None and problems == [Problem("u", problem[0], problem[1].format(sound=name), True)]


def test_segments_of_a_long_sound_are_cut_where_they_are(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).integers(-9000, 9000, 400_000)
    name = write_samples(tmp_path / "s.wav", samples.tolist())
    times = [(300.0, 399.999), (0.001, 1.0), (10.0, 200.0), (15.0, 20.0), (150.0, 151.0), (399.0, -1.0)]
    utterances = [Utterance(f"u{first}", "s", name, first, last, ("a",) * max(10, round(last - first)))
                  for first, last in [*times, (5.0, 399.0)]]
    cut = {utterance.start: sound for utterance, sound, _ in read_sounds(utterances, Limits(LOW_RATE, 0.3, 200.0))}
    assert list(cut) == sorted(cut), "the file is read once"
    assert cut[5.0] is None, "longer than 200 seconds"
    for first, last in times:
        end = None if last < 0 else round(last * 1000)
        np.testing.assert_array_equal(cut[first] * 32768, samples[round(first * 1000):end])


def test_sample_rates_of_sounds(tmp_path: Path) -> None:
    def result(rate: int, limits: Limits) -> tuple[int | None, list[Problem]]:
        name = write_samples(tmp_path / "s.wav", PLAIN * rate, rate)
        (_, sound, problems), = read_sounds([Utterance("u", "s", name, 0.0, -1.0, ("word",))], limits)
        return None if sound is None else len(sound), problems

    assert result(LOW_RATE, Limits(LOW_RATE)) == (2000, []) == result(3000, Limits(LOW_RATE))
    assert result(999, Limits(900.0)) == (None, [Problem(
        "u", "damaged sound", f"{tmp_path}/s.wav has 999 samples a second; expected 1000 or more", True)])
    assert result(LOW_RATE, Limits(1001.0)) == (None, [Problem(
        "u", "rate", "1000 samples a second, but the model is for 1001: it lacks high frequencies (--allow-upsample "
        "takes it)", True)])
    assert result(LOW_RATE, Limits(2000.0, allow_upsample=True)) == (4000, [])


# -- tables and lists, line by line ------------------------------------------------------------------------------------


def test_each_line_of_a_table_is_an_utterance_or_a_problem(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio" / "b.flac").touch()
    table = tmp_path / "t.jsonl"
    rows = (
        {"path": "x/a.wav", "text": " two  words "}, {"path": "a.wav", "Text": "again", "speaker": "s t/"},
        {"path": "a.wav", "text": "again", "spk": "s_t"}, {"path": "b", "text": "b", "offset": 1, "duration": 2.5},
        {"path": "b", "text": "b", "start": "1", "stop": 3, "duration": 9}, {"path": "b", "text": "b", "end": "inf"},
        {"path": "b", "text": "b", "duration": 2}, {"path": "b", "text": "b", "begin": "x"}, ["b", "b"])
    table.write_text("\n\n".join(map(json.dumps, rows)) + "\n{\n")
    sound = str(tmp_path / "audio" / "b.flac")
    data = read_data(str(table))
    assert data.utterances == [
        Utterance("s_t-a", "s_t", "a.wav", 0.0, -1.0, ("again",)),
        Utterance("s_t-a-2", "s_t", "a.wav", 0.0, -1.0, ("again",)),
        Utterance("speaker-a", "speaker", "x/a.wav", 0.0, -1.0, ("two", "words")),
        Utterance("speaker-b", "speaker", sound, 1.0, 3.5, ("b",)),
        Utterance("speaker-b-2", "speaker", sound, 1.0, 3.0, ("b",)),
        Utterance("speaker-b-3", "speaker", sound, 0.0, -1.0, ("b",))]
    assert [(problem.key, problem.kind, problem.is_fatal) for problem in data.problems] == [
        (f"line {number} of {table}", kind, True) for number, kind in (
            (11, "odd time"), (15, "odd time"), (17, "no JSON"), (18, "no JSON"))]


@pytest.mark.parametrize("name, text", [
    ("t.csv", 'file;text\n\na.wav;"x; y"\n ; \nlonely\n'), ("t.csv", "a.wav|x; y\n\n\n\nlonely\n"),
    ("t.tsv", "text\tfile\nx; y\ta.wav\n\n\nlonely\n"), ("t.csv", "a.wav\tx; y\n\n\n\nlonely\n"),
    ("T.CSV", 'FILE, Text \n"a.wav","x; y",,\n\n\nlonely\n')])
def test_separators_of_tables(name: str, text: str, tmp_path: Path) -> None:
    table = tmp_path / name
    table.write_text(text)
    assert read_data(str(table)) == SpeechData(
        [Utterance("speaker-a", "speaker", "a.wav", 0.0, -1.0, ("x;", "y"))],
        [Problem(f"line 5 of {table}", "no text", "it has one column only", True)])


def test_a_table_without_columns_of_these_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('\n{"path": "a", "texte": "b"}\n')
    with pytest.raises(Nnet3Error) as error:
        read_data(str(tmp_path / "t.json"))
    assert ("line 2: expected columns for the file (file, path, audio, audio_filepath …) and the text (text, sentence, "
            "transcript, transcription …), found path, texte") in str(error.value)


def test_lists_of_a_kaldi_folder_may_disagree(tmp_path: Path) -> None:
    (tmp_path / "wav.scp").write_text("r1 r1.wav\n\nr2\tcat r2.wav |\nr3 r3.wav\nr1 other.wav\n")
    (tmp_path / "text").write_text("r2 two\nr1  one  word\nr9 nine\n")
    (tmp_path / "utt2spk").write_text("r1 s\n")
    utterances = [Utterance("r1", "s", "r1.wav", 0.0, -1.0, ("one", "word")),
                  Utterance("r2", "r2", "cat r2.wav |", 0.0, -1.0, ("two",))]
    twice = Problem("r1", "twice", f"line 5 of {tmp_path}/wav.scp is left out", False)
    assert read_data(str(tmp_path)) == SpeechData(utterances, [
        twice, Problem("r9", "no sound", "wav.scp has no line for r9", True),
        Problem("r3", "no text", "it has sound, but no line in the file text", True)])
    (tmp_path / "segments").write_text("r1 r2 1.5 2\nr2 r1 3\nr9 r9 0 1\nr8 r1 0 1 x\n")
    assert read_data(str(tmp_path)) == SpeechData(
        [Utterance("r1", "s", "cat r2.wav |", 1.5, 2.0, ("one", "word"))], [
            twice, Problem("r2", "no segment", "segments has no times for this utterance", True),
            Problem("r9", "no sound", "wav.scp has no line for r9", True),
            Problem("r8", "no text", "it has sound, but no line in the file text", True)])
