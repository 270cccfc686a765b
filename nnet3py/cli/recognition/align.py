"""nnet3py align (forced alignment: times of words and phones), diarize (turns of speakers), listen (microphone)."""
from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET, device_for
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.cli.recognition.recognizers import (
    DEVICE,
    MODEL,
    NAMED_MODEL,
    USE_GPU,
    device,
    model_and_rest,
    single_model,
    warmed_recognizer,
    without_info_lines,
)
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.option_fields import settings_of
from nnet3py.recognition.options import DiarizationOptions
from nnet3py.recognition.transcripts import ALIGNMENT_ENDINGS, ALIGNMENT_FORMATS

if TYPE_CHECKING:
    from nnet3py.fine_tuning.plan import Utterance
    from nnet3py.recognition.aligning import Aligner

_SHORTEST, _LONGEST = 0.05, 1e9         # limits of a sound in a data folder, in seconds
_CHANNEL = option("channel", int, -1, "Channel to use, from 0 (-1: the mean of all)")
_OUT = option("out", str, "", "Folder for the results, a file for each sound (empty: standard output)")
_DIARIZATION_ENDINGS = {"rttm": ".rttm", "json": ".json"}


@kaldi_command("align", "Recognition",
               "Align a sound with its text: times of words and phones.", launcher=False, usage="""
Align a sound with its known text (forced alignment), and print the times of the words and phones: as a TextGrid for
Praat, JSON, CTM or subtitles. The model is a folder as for transcribe, which must have phones/word_boundary.int or
align_lexicon.int. The text is a file or, if there is no file of that name, the words themselves; punctuation is
ignored. A recording may be hours long.

<data> has several sounds with texts: a folder of sounds with a text file of the same name beside each, a Kaldi data
folder, or a table (csv, tsv, jsonl) with columns for file and text, optionally start and end. With --out each sound
gets a file in a folder. For a sound that cannot be aligned a warning is logged, and the exit status is 1.

Usage:  nnet3py align [options] <model> <sound> <text>
or:     nnet3py align [options] <model> <data>
or:     nnet3py align --demo [options] <sound> <text>

e.g.:
 nnet3py align vosk-model-small-ko-0.22 a.wav a.txt > a.TextGrid
 nnet3py align --format=ctm --demo a.wav "set a timer for ten minutes"
 nnet3py align --format=srt --out=subtitles vosk-model-small-ko-0.22 lectures/
""", arguments=(1, 3), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("format", str, "textgrid", "Output format: textgrid, json, ctm, srt or vtt",
           choices=tuple(ALIGNMENT_FORMATS)),
    _OUT,
    option("unknown-words", str, "similar", "Words that the model does not know: similar: align them as the words with "
           "the most similar spelling; leave-out: leave a gap; error: fail", choices=("similar", "leave-out", "error")),
    *NAMED_MODEL, *DEVICE,
    _CHANNEL, NUM_THREADS,
])
def align(args: list[str], options: Options) -> int:
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.recognition.aligning import Aligner

    model, rest = model_and_rest(args, options)
    if len(rest) not in (1, 2):
        raise UsageError("expected a sound and its text, or data with both" + (
            f", found {rest[0]} and {len(rest) - 1} more" if rest else ""), "nnet3py align MODEL SOUND TEXT")
    if len(rest) == 1 and not options.out and options.format != "ctm" and options.format != "json":
        raise UsageError(f"the results of several sounds cannot be in one {options.format} file",
                         "give a folder with --out")
    set_num_threads(options.num_threads)
    with without_info_lines():
        aligner = Aligner(model, device=device(options))
    tasks = _read_data(rest[0], aligner, options) if len(rest) == 1 else iter([_single_task(*rest)])
    done = failed = 0
    for task in tasks:
        log.show_status(f"{done + failed} aligned, now {task.name}")
        try:
            if task.problem:
                raise Nnet3Error(task.problem)
            aligned = aligner(task.sound, task.text, task.rate, channel=None if options.channel < 0 else
                              options.channel, unknown_words=options.unknown_words)
        except Nnet3Error as error:
            log.warning(f"{task.name} could not be aligned: {error}")
            failed += 1
            continue
        _write_result(ALIGNMENT_FORMATS[options.format](task.name, aligned), task.name, options)
        done += 1
    log.show_status("")
    log.log(f"Aligned {done} sound{'s' * (done != 1)}" + (f"; {failed} failed" if failed else ""))
    return 1 if failed or not done else 0


class _Task(NamedTuple):
    """Sound to align, with its name and text; ``problem``: the reason why it cannot be aligned, or ""."""

    name: str
    sound: Any
    text: str
    rate: float | None = None
    problem: str = ""


def _single_task(sound: str, text: str) -> _Task:
    from nnet3py.io.streams import read_text

    if not os.path.isfile(sound):
        raise UsageError(f"there is no file {sound}")
    if os.path.isfile(text):
        text = read_text(text)
    elif text.lower().endswith((".txt", ".lab", ".trn")) and len(text.split()) == 1:
        raise UsageError(f"there is no file {text}", "give a file with the text, or the words in quotes")
    return _Task(os.path.splitext(os.path.basename(sound))[0], sound, text)


def _read_data(data: str, aligner: Aligner, options: Options) -> Iterator[_Task]:
    """Yield the sounds and texts of a table or folder, one after the other, resampled to the model's rate."""
    from nnet3py.fine_tuning.speech_data import Limits, read_data, read_sounds

    if options.channel >= 0:
        raise UsageError("--channel is for a single sound, not for data", "leave it out: the channels are averaged")
    read = read_data(data)
    for problem in read.problems:
        log.warning(f"{problem.key}: {problem.kind}: {problem.message}")
    names = _result_names(read.utterances, is_kaldi=os.path.isfile(os.path.join(data, "wav.scp")))
    limits = Limits(aligner.sample_rate, _SHORTEST, _LONGEST, allow_upsample=True)
    for utterance, samples, problems in read_sounds(read.utterances, limits):
        reasons = "; ".join(f"{problem.kind}: {problem.message}" for problem in problems if problem.is_fatal)
        yield _Task(names[utterance.key], samples, " ".join(utterance.text), limits.rate,
                    "" if samples is not None else reasons or "it cannot be read")


def _result_names(utterances: Sequence[Utterance], is_kaldi: bool) -> dict[str, str]:
    """Return the name of each utterance's result: its sound file's name without extension, or its key.

    The key is used if several sounds have the same name, or ``is_kaldi``: the data come from a Kaldi data directory.
    """
    stems = {utterance.key: os.path.splitext(os.path.basename(utterance.sound))[0] for utterance in utterances}
    counts = Counter(stems.values())
    return {key: key if is_kaldi or counts[stem] > 1 else stem for key, stem in stems.items()}


def _write_result(text: str, name: str, options: Options) -> None:
    from nnet3py.io.streams import write_text

    if options.out:
        os.makedirs(options.out, exist_ok=True)
        write_text(os.path.join(options.out, name + ALIGNMENT_ENDINGS[options.format]), text)
    else:
        write_text("-", text)


@kaldi_command("diarize", "Recognition", "Find the turns of the speakers in sound files.", launcher=False, usage="""
Diarize sound files: find the turns of their speakers, and print them as RTTM or JSON. The model is a folder of a
speaker model as published for vosk (mfcc.conf, final.ext.raw, mean.vec, transform.mat); if it has a file plda, segments
are compared by PLDA scores, else by cosine similarity. With --out each sound gets a file in a folder. For a sound that
cannot be read a warning is logged, and the exit status is 1. With --reference print the diarization error rate.

Usage:  nnet3py diarize [options] --model=<speaker-model> <sound-or-folder> [<sound-or-folder> ...]

e.g.:
 nnet3py diarize --model=vosk-model-spk-0.4 meeting.wav > meeting.rttm
 nnet3py diarize --model=vosk-model-spk-0.4 --num-speakers=2 --out=turns calls/
See also: transcribe --speakers, agglomerative-cluster, ivector-plda-scoring-dense
""", arguments=(1, None), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("model", str, "", "Folder of the speaker model"),
    option("format", str, "rttm", "Output format: rttm or json", choices=tuple(_DIARIZATION_ENDINGS)),
    _OUT,
    *declared(settings_of(DiarizationOptions)),
    option("reference", str, "", "RTTM file of the true speaker turns, for the diarization error rate"),
    option("collar", float, 0.25, "Seconds around each boundary of the reference that are not scored", least=0,
           below=float("inf")),
    _CHANNEL, NUM_THREADS,
])
def diarize(args: list[str], options: Options) -> int:
    import json

    from nnet3py.engine.threads import set_num_threads
    from nnet3py.io.streams import read_text, write_text
    from nnet3py.recognition import diarization
    from nnet3py.recognition.sound import find_sounds, result_path
    from nnet3py.recognition.speaker import SpeakerModel

    diarization_options = fields_from(options, DiarizationOptions())
    diarization_options.check()
    if not options.model:
        raise UsageError("no speaker model was given", "give its folder with --model")
    set_num_threads(options.num_threads)
    sounds = find_sounds(args)
    reference = diarization.read_rttm(read_text(options.reference), options.reference) if options.reference else {}
    model = SpeakerModel.read(options.model)
    failed = 0
    errors = []
    for number, sound in enumerate(sounds):
        log.show_status(f"{number} of {len(sounds)} sounds done, now {sound.path}")
        try:
            turns = diarization.diarize(model, sound.path, options=diarization_options,
                                        channel=None if options.channel < 0 else options.channel)
            if reference:
                errors.append(diarization.diarization_errors(reference.get(sound.name, []), turns, options.collar))
        except Nnet3Error as error:
            log.warning(f"{sound.path}: {error}")
            failed += 1
            continue
        text = diarization.rttm(sound.name, turns) if options.format == "rttm" else json.dumps(
            {"name": sound.name, "turns": [turn._asdict() for turn in turns]}, ensure_ascii=False) + "\n"
        path = result_path(sound, options.out, _DIARIZATION_ENDINGS[options.format]) if options.out else "-"
        if options.out:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        if options.out or not reference:
            write_text(path, text)
    log.show_status("")
    if errors:
        every = diarization.DiarizationErrors(*map(sum, zip(*errors, strict=True)))
        shares = [100 * part / every.total for part in every[:3]]
        write_text("-", f"diarization error rate {100 * every.rate:.2f} % of {every.total:.0f} s in {len(errors)} "
                   f"sounds: missed {shares[0]:.2f}, false alarm {shares[1]:.2f}, confused {shares[2]:.2f}\n")
    return 1 if failed else 0


@kaldi_command("listen", "Recognition", "Recognize speech from a microphone.", launcher=False, usage="""
Recognize speech from a microphone: the words of the current utterance are shown on the terminal's last line, and
printed as a line when the utterance is over. Stop with Ctrl-C. Needs the extra listen, except with --file.

Usage:  nnet3py listen [options] <model-folder>
or:     nnet3py listen --demo [options]

e.g.:
 nnet3py listen --demo
 nnet3py listen vosk-model-small-ko-0.22
 nnet3py listen --file=a.wav --real-time=true vosk-model-small-ko-0.22
""", arguments=(0, 1), detached_values=True, options=[
    QUIET,
    option("file", str, "", "Sound file instead of a microphone (-: standard input)"),
    option("real-time", bool, False, "Read --file at the speed of speech"),
    option("device", str, "", "Microphone, by number or part of its name (empty: the system's default)"),
    option("list-devices", bool, False, "Print the available devices and exit"),
    *MODEL, USE_GPU,
])
def listen(args: list[str], options: Options) -> None:
    from nnet3py.recognition.listening import device_list, find_microphone, heard, opened, short_blocks

    if options.list_devices:
        print(device_list())
        return
    model = single_model(args, options)
    if options.file:
        from nnet3py.recognition.sound import open_sound

        sound = open_sound(options.file)
        recognizer = warmed_recognizer(model, options, device_for(options.use_gpu))
        show(heard(recognizer.stream(sound.rate), short_blocks(sound.blocks(), sound.rate, options.real_time)))
        return
    source = find_microphone(options.device)
    recognizer = warmed_recognizer(model, options, device_for(options.use_gpu))
    with opened(source, options.device), stopped_by_interrupt(source):
        log.log(f"Listening to {source.name}; Ctrl-C ends it.")
        show(heard(recognizer.stream(source.rate), source.blocks()))


def show(words: Iterable[Any]) -> None:
    """Print the text of completed segments, and show that of the current one on the terminal's last line."""
    import shutil

    try:
        for segment in words:
            if segment.is_over:
                log.show_status("")
                print(segment.text, flush=True)
            else:
                log.show_status(segment.text[-shutil.get_terminal_size().columns + 2:])
    finally:
        log.show_status("")


@contextmanager
def stopped_by_interrupt(source: Any) -> Iterator[None]:
    """Stop ``source`` at Ctrl-C, so that the sound recorded so far is recognized; a second Ctrl-C interrupts."""
    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        source.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
