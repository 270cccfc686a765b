"""Stage 1: the data are read, checked, split into training and held-out data, and written as data folders."""
from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnet3py import log
from nnet3py.decoding.lexicon import read_lexicon
from nnet3py.decoding.symbols import Spelling, SymbolTable, read_transcripts
from nnet3py.drivers.data_folder import spk2utt, write_list
from nnet3py.errors import Nnet3Error
from nnet3py.fine_tuning.plan import OLD_MARK, FineTuneOptions, Problem, SpeechData, Utterance, WorkFolder
from nnet3py.fine_tuning.speech_data import Limits, read_data, read_sounds
from nnet3py.formats.foreign_files import FULL_SCALE, WAVE, Wave
from nnet3py.io.archive import sort_key
from nnet3py.io.streams import read_lines, write_text
from nnet3py.io.tables import TableWriter
from nnet3py.recognition.model_folder import ModelFolder, read_model_folder

LEAST = 10                    # utterances that training and decisions need at least
_SEVERAL = 4                  # speakers from which on whole speakers are held out
_SHOWN = 20                   # unknown words in the list
_DEFAULT_RATE = 16000.0       # Kaldi's --sample-frequency

Write = Callable[[str, np.ndarray], None]


@dataclass
class Checked:
    """Result of checking the data."""

    utterances: list[Utterance] = field(default_factory=list)  # usable utterances
    problems: list[Problem] = field(default_factory=list)      # problems of all utterances
    # occurrences of each word that the model lacks, also in unusable utterances
    unknown: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)  # duration of each usable utterance

    def counts(self) -> Counter[str]:
        """Return the number of problems of each kind."""
        return Counter(problem.kind for problem in self.problems)


def run(work: WorkFolder, options: FineTuneOptions) -> None:
    """Write the data folders and the lists of problems and unknown words.

    Raises Nnet3Error for data that cannot be used, text of another language, or if too little is left, after writing
    the lists.
    """
    spelling, limits = spelling_and_limits(options)
    (work.path / "data").mkdir(parents=True, exist_ok=True)
    names = {"train": options.data, "held_out": options.held_out_data, "old_data": options.old_data,
             "old_test": options.old_test}
    parts = {part: _checked_into(work.data(part).with_suffix(".ark"), name, options, spelling, limits,
                                 OLD_MARK if part == "old_data" else "")
             for part, name in names.items() if name}
    checked = parts["train"].checked
    problems = [problem._asdict() for part in parts.values() for problem in part.checked.problems]
    write_text(str(work.problems), "\n".join(problems_text(part.checked) for part in parts.values()))
    write_text(str(work.problems_json), json.dumps(problems, ensure_ascii=False) + "\n")
    write_text(str(work.unknown_words), "".join(f"{count} {word}\n" for word, count in checked.unknown.most_common()))
    raise_if_unusable(checked, options.data, options, spelling, str(work.problems))
    for name, part in parts.items():
        if not part.checked.utterances:
            raise Nnet3Error(f"no utterance of {names[name]} can be used", f"{work.problems} has the reasons")
    learned, kept = split(checked.utterances, 0.0 if "held_out" in parts else options.held_out, options.srand)
    _write_folder(work.data("train"), learned, parts["train"])
    if "held_out" not in parts:
        _write_folder(work.data("held_out"), kept, parts["train"])
    for name in parts.keys() - {"train"}:
        _write_folder(work.data(name), parts[name].checked.utterances, parts[name])
    total = sum(checked.seconds.values())
    log.log(f"{len(checked.utterances)} utterances, {total / 60:.1f} minutes, of "
            f"{len({utterance.speaker for utterance in checked.utterances})} speakers can be used, "
            f"{len({problem.key for problem in checked.problems if problem.is_fatal})} cannot; "
            f"{len(checked.unknown)} unknown words; see {work.problems}")


def spelling_and_limits(options: FineTuneOptions) -> tuple[Spelling, Limits]:
    """Return the spelling of the model's words, and the limits for sound: its sample rate, and durations."""
    folder = read_model_folder(options.model)
    rate = float(folder.features.get("sample-frequency", _DEFAULT_RATE))
    return spelling_of(folder, options), Limits(rate, options.min_seconds, options.max_seconds, options.allow_upsample)


def spelling_of(folder: ModelFolder, options: FineTuneOptions) -> Spelling:
    """Return the spelling of the words of a model and of ``--lexicon``."""
    lexicon = read_lexicon(options.lexicon) if options.lexicon else []
    return Spelling(SymbolTable.read(folder.words), (entry.word for entry in lexicon))


def texts_of(work: WorkFolder) -> list[list[str]]:
    """Return the texts of training, held-out and old data."""
    return [text for part in ("train", "held_out", "old_data") if work.data(part).is_dir()
            for text in read_transcripts(f"{work.data(part)}/text").values()]


def more_text(folder: ModelFolder, options: FineTuneOptions) -> list[tuple[str, ...]]:
    """Return the sentences of ``--lm-text``, in the model's spelling."""
    if not options.lm_text:
        return []
    spelling = spelling_of(folder, options)
    return [text for line in read_lines(options.lm_text) if (text := spelling.written(line.split()))]


class _Part(NamedTuple):
    """Checked data of one part (training, held-out, ...), and the entry of each utterance in its new wav.scp."""

    checked: Checked
    places: dict[str, str]


def _checked_into(ark: Path, name: str, options: FineTuneOptions, spelling: Spelling, limits: Limits,
                  mark: str) -> _Part:
    """Check the data ``name``, a path, and write the sound of usable utterances into the archive ``ark``.

    ``mark`` : prefix that the names of utterances and speakers get
    """
    data = read_data(name, options.speaker_column)
    data.utterances = [each._replace(key=mark + each.key, speaker=mark + each.speaker) for each in data.utterances]
    data = with_model_spelling(data, spelling, options)
    index = ark.with_suffix(".scp")
    with TableWriter(f"ark,scp:{ark.absolute()},{index}", WAVE) as writer:
        def write(key: str, samples: np.ndarray) -> None:
            limit = FULL_SCALE - 1
            writer.write(key, Wave(limits.rate, np.clip(samples * FULL_SCALE, -limit, limit)[None]))
        checked = check_data(data, spelling, limits, write)
    lines = index.read_text(encoding="utf-8").splitlines()
    return _Part(checked, dict(line.split(" ", 1) for line in lines))   # type: ignore[misc]


def with_model_spelling(data: SpeechData, spelling: Spelling, options: FineTuneOptions) -> SpeechData:
    """Return the data with texts converted to the model's spelling; problems of texts are added to the others."""
    texts = [utterance._replace(text=spelling.written(utterance.text)) for utterance in data.utterances]
    problems = [problem for utterance in texts for problem in text_problems(
        utterance, spelling, options.unknown_words == "leave-out")]
    return SpeechData(texts, [*data.problems, *problems])


def check_data(data: SpeechData, spelling: Spelling, limits: Limits, write: Write | None = None) -> Checked:
    """Check the sound of all utterances with a usable text.

    ``write(key, samples)``, if given, is called with the sound of usable utterances, float32 (samples,) from -1 to 1.
    """
    checked = Checked(problems=list(data.problems), unknown=unknown_words(data.utterances, spelling.known))
    unusable = {problem.key for problem in data.problems if problem.is_fatal}
    pieces: set[tuple[str, float, float]] = set()
    waiting = []
    for utterance in data.utterances:
        piece = utterance.sound, utterance.start, utterance.end
        if piece in pieces:
            checked.problems.append(Problem(utterance.key, "twice", f"the same sound, {utterance.sound}, occurs before",
                                            True))
        elif utterance.key not in unusable:
            waiting.append(utterance)
        pieces.add(piece)
    for number, (utterance, samples, problems) in enumerate(read_sounds(waiting, limits), 1):
        log.show_status(f"{number} of {len(waiting)} utterances checked")
        checked.problems += problems
        if samples is None:
            continue
        checked.utterances.append(utterance)
        checked.seconds[utterance.key] = len(samples) / limits.rate
        if write is not None:
            write(utterance.key, samples)
    log.show_status("")
    checked.utterances.sort(key=lambda utterance: sort_key(utterance.key))
    return checked


def raise_if_unusable(checked: Checked, name: str, options: FineTuneOptions, spelling: Spelling, where: str) -> None:
    """Raise Nnet3Error for data of another language, or with too few usable utterances.

    ``where`` : file that lists the problems, for the message; empty if they are printed
    """
    where_to_look = f"{where} lists what is wrong" if where else "see the list"
    words = checked.counts()
    num_words = sum(len(utterance.text) for utterance in checked.utterances)
    num_unknown = sum(word not in spelling.known for utterance in checked.utterances for word in utterance.text)
    unusable = len({problem.key for problem in checked.problems if problem.is_fatal})
    if words["odd text"] and words["odd text"] > options.max_unknown * (len(checked.utterances) + unusable):
        raise Nnet3Error(f"{words['odd text']} texts of {name} have characters that no word of the model has",
                         f"is it another language than the model's? {where_to_look}")
    if num_unknown > options.max_unknown * max(1, num_words):
        most = ", ".join(word for word, _ in checked.unknown.most_common(5))
        raise Nnet3Error(f"the model does not know {num_unknown} of {num_words} words of {name}, such as {most}",
                         f"is it another language than the model's? --max-unknown takes more of them; {where_to_look}")
    if len(checked.utterances) < LEAST:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in words.most_common(5))
        raise Nnet3Error(f"only {len(checked.utterances)} of {len(checked.utterances) + unusable} utterances of {name} "
                         f"can be used, {LEAST} are needed" + (f"; what is wrong: {kinds}" if kinds else ""),
                         where_to_look)


def split(utterances: Sequence[Utterance], part: float, seed: int) -> tuple[list[Utterance], list[Utterance]]:
    """Return training and held-out utterances: whole speakers are held out if there are four or more.

    ``part`` : least fraction of the utterances to hold out, 0 to 1
    """
    chance = random.Random(seed)
    by_speaker: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        by_speaker.setdefault(utterance.speaker, []).append(utterance)
    groups = list(by_speaker.values()) if len(by_speaker) >= _SEVERAL else [[utterance] for utterance in utterances]
    chance.shuffle(groups)
    held: set[str] = set()
    for group in groups[:-1] if part > 0.0 else []:
        if len(held) >= part * len(utterances):
            break
        held |= {utterance.key for utterance in group}
    return ([utterance for utterance in utterances if utterance.key not in held],
            [utterance for utterance in utterances if utterance.key in held])


def _write_folder(path: Path, utterances: Iterable[Utterance], part: _Part) -> None:
    path.mkdir(parents=True, exist_ok=True)
    utterances = sorted(utterances, key=lambda utterance: sort_key(utterance.key))
    speakers = {utterance.key: utterance.speaker for utterance in utterances}
    write_list(path / "wav.scp", {utterance.key: part.places[utterance.key] for utterance in utterances})
    write_list(path / "text", {utterance.key: " ".join(utterance.text) for utterance in utterances})
    write_list(path / "utt2spk", speakers)
    write_list(path / "spk2utt", {speaker: " ".join(keys) for speaker, keys in spk2utt(speakers).items()})
    write_list(path / "utt2dur", {key: f"{part.checked.seconds[key]:.3f}" for key in speakers})


def problems_text(checked: Checked) -> str:
    """Format the problems as text: counts of each kind, then each problem, and the words that the model lacks."""
    total = sum(checked.seconds.values())
    fatal = {problem.key for problem in checked.problems if problem.is_fatal}
    lines = [f"{len(checked.utterances)} utterances can be used, {total / 60:.1f} minutes; {len(fatal)} cannot", ""]
    for kind, count in checked.counts().most_common():
        of_kind = [problem for problem in checked.problems if problem.kind == kind]
        set_aside = sum(problem.is_fatal for problem in of_kind)
        lines.append(f"{kind}: {count}" + (f", {set_aside} of them set aside" if set_aside else ""))
        lines += [f"  {problem.key}: {problem.message}" for problem in of_kind]
        lines.append("")
    if checked.unknown:
        words = checked.unknown.most_common()
        lines.append(f"{len(words)} words that the model lacks, with counts: " + ", ".join(
            f"{word} {count}" for word, count in words[:_SHOWN]) + (" …" if len(words) > _SHOWN else ""))
    return "\n".join(lines).rstrip() + "\n"


# -- texts -------------------------------------------------------------------------------------------------------------


def unknown_words(utterances: Iterable[Utterance], vocabulary: set[str]) -> Counter[str]:
    """Return counts of the words outside the vocabulary."""
    return Counter(word for utterance in utterances for word in utterance.text if word not in vocabulary)


def text_problems(utterance: Utterance, spelling: Spelling, leave_out: bool) -> list[Problem]:
    """Return the faults of a text in the model's spelling.

    ``leave_out`` : whether an unknown word makes the utterance unusable
    """
    if not utterance.text:
        return [Problem(utterance.key, "empty text", "it has no words", True)]
    unknown = sorted({word for word in utterance.text if word not in spelling.known})
    odd = [word for word in unknown if spelling.is_odd(word)]
    if odd:
        return [Problem(utterance.key, "odd text", f"{_listed(odd)}: characters that no word of the model has (write "
                        "numbers and signs as words, or give --lexicon)", True)]
    return [Problem(utterance.key, "unknown word", _listed(unknown), leave_out)] if unknown else []


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
