"""nnet3-transcribe: files of sound become text, subtitles or words with times."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.recognition.recognizers import (
    DEVICE,
    MODEL,
    device,
    model_and_rest,
    read_recognizer,
    warmed_recognizer,
)
from nnet3py.cli.recognition.transcribe_progress import Progress, count_of_sounds, size_of
from nnet3py.errors import UsageError
from nnet3py.recognition.transcripts import ENDINGS, FORMATS

if TYPE_CHECKING:
    from nnet3py.recognition.batch import ResultsFile, Runner
    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.recognition.results import Word
    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import Transcript

KEPT = ".kept"      # what is done of long sounds: the folder in that of --out, the end of its name beside --results


@kaldi_command("nnet3-transcribe", usage="""
Recognize what is said in sound files (WAVE; others with the extra "sound"), in all those in folders, or in standard
input (-), and print it: as text, JSON, subtitles (srt, vtt) or CTM. The model is a folder as published for vosk, as
Kaldi's training or prepare_online_decoding.sh leaves it, or an acoustic model with --graph; nnet3-inspect says what it
is. Sound of any rate is resampled, channels are averaged.

With --out each sound gets a file for its result in a folder, written when it is complete; with --results each sound
gets a line of JSON in one file, appended when it is complete. Sounds that have their result are left out, and a long
one goes on at most two minutes before where it was: so whatever has ended the command, run it again, and it does the
rest. --num-jobs shares sounds among processes, which have the model in memory once; --scheduler among the workers of
dask.distributed. For a sound that cannot be read there is a warning, and the exit status is 1.

Usage:  nnet3-transcribe [options] <model> <sound-or-folder> [<sound-or-folder> ...]
or:     nnet3-transcribe --demo [options] <sound-or-folder> [<sound-or-folder> ...]

e.g.:
 nnet3-transcribe vosk-model-small-ko-0.22 a.wav
 nnet3-transcribe --lang=ko a.wav
 nnet3-transcribe --results=results.jsonl --num-jobs=4 vosk-model-small-ko-0.22 recordings/
 find . -name '*.wav' | nnet3-transcribe --results=results.jsonl --files-from=- vosk-model-small-ko-0.22
 nnet3-transcribe --format=srt --out=subtitles --num-jobs=4 exp/chain/tdnn1a_online lectures/
 nnet3-transcribe --graph=exp/chain/tree/graph_tg --model-option=beam=13 exp/chain/tdnn1a a.flac
""", arguments=(0, None), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("format", str, "text", "What to write: text, json, srt, vtt or ctm", choices=tuple(FORMATS)),
    option("out", str, "", "Folder for the results, a file for each sound; empty: standard output"),
    option("results", str, "", "File to which results are appended, a line of JSON for each sound, as they are done"),
    option("files-from", str, "", "File with the names of sounds, a line each, besides those of the command line; "
           "-: standard input"),
    *MODEL, *DEVICE,
    option("channel", int, -1, "Channel to take, from 0; -1: the mean of all"),
    option("speakers", bool, False, "Tell apart who spoke when, by --speaker-model: lines and subtitles begin with the "
           "speaker; see diarize"),
    option("num-speakers", int, 0, "How many speakers there are; 0: as many as are heard"),
    option("endpointing", bool, True, "Begin a new segment where an utterance is over, by the model's rules"),
    option("phrases", str, "", "File of phrases, one per line: only these are recognized; for models with HCLr.fst "
           "and Gr.fst"),
    option("boost-words", str, "", "File of lines WORD COST: how much less words cost; for such models, too"),
    option("num-jobs", int, 1, "Processes that share the sounds; each computes with its share of the cores"),
    option("scheduler", str, "", "Address of a dask scheduler whose workers run the jobs; needs --out, in a folder "
           "that they see"),
    option("sound-list", str, "", "File of sounds and names, for the command's own jobs, instead of arguments"),
    NUM_THREADS,
])
def transcribe(args: list[str], options: Options) -> int:
    """Write results; 1 if a sound could not be transcribed."""
    model, sounds = _arguments(args, options)
    _check(sounds, options)
    if options.scheduler:
        return _run_jobs(model, sounds, options, options.out)
    return _transcribe(model, sounds, options)


def _check(sounds: list[Listed], options: Options) -> None:
    """Raise UsageError for options that cannot be used together, or with these sounds."""
    reads_standard_input = any(sound.path == "-" for sound in sounds)
    if options.speakers and not options.speaker_model:
        raise UsageError("--speakers needs --speaker-model, the folder of a model that tells speakers apart")
    if options.speakers and reads_standard_input:
        raise UsageError("--speakers looks at a sound twice, and standard input can be read once", "give a file")
    if options.num_jobs < 1:
        raise UsageError(f"--num-jobs={options.num_jobs}: expected 1 or more")
    if options.scheduler and not options.out:
        raise UsageError("--scheduler needs --out, a folder for results that the workers see")
    if options.out and options.results:
        raise UsageError("--out and --results are two places for the same results", "give one of them")
    if options.results and options.format not in ("text", "json"):        # text: the option was not given
        raise UsageError(f"--results is a file of JSON, and --format={options.format} was given",
                         "--out=FOLDER --format=" + options.format)
    if (options.out or options.results or options.num_jobs > 1) and reads_standard_input and len(sounds) > 1:
        raise UsageError("standard input cannot be one of several sounds here")
    if options.format in ("srt", "vtt") and len(sounds) > 1 and not options.out:
        raise UsageError(f"{len(sounds)} sounds cannot have their subtitles in one file", "give a folder with --out")


def _arguments(args: list[str], options: Options) -> tuple[str, list[Listed]]:
    """The model and the sounds."""
    from nnet3py.recognition.sound import find_sounds, listed_sounds, read_list

    model, paths = model_and_rest(args, options)
    if options.sound_list:
        return model, read_list(options.sound_list)
    if options.files_from:
        from nnet3py.io.streams import read_lines

        if "-" in paths and options.files_from == "-":
            raise UsageError("standard input cannot be both a sound and the list of sounds")
        named = listed_sounds(read_lines(options.files_from))
        return model, named + (find_sounds(paths) if paths else [])
    if not paths:
        raise UsageError("no file of sound was given", "nnet3-transcribe MODEL SOUND, or --demo SOUND")
    return model, find_sounds(paths, names_differ=bool(options.out))


def _transcribe(model: str, sounds: list[Listed], options: Options) -> int:
    """Transcribe on this machine."""
    from contextlib import nullcontext

    from nnet3py.recognition.batch import ResultsFile

    ending = ENDINGS[options.format]
    place = os.path.dirname(os.path.abspath(model)) if os.path.isfile(model) else os.path.abspath(model)
    with ResultsFile(options.results, os.path.basename(place)) if options.results else nullcontext() as results:
        if results is not None:
            waiting = results.waiting(sounds)
            _say_how_many(len(sounds) - len(waiting), len(sounds), options.results)
        else:
            waiting = _without_results(sounds, options.out, ending) if options.out else sounds
        if not waiting:
            return 0
        if options.out or results is not None:        # the longest first, so that jobs end at about the same time
            waiting = sorted(waiting, key=lambda sound: -size_of(sound))
        progress = Progress(waiting)
        try:
            for sound, transcript in _transcripts(model, waiting, options, progress):
                if transcript.error:
                    log.warning(f"{sound.path} could not be transcribed: {transcript.error}")
                else:
                    _write(sound, transcript, options, results, len(sounds))
                progress.done(sound, transcript)
        except KeyboardInterrupt:
            progress.interrupted(bool(options.out or options.results))
            raise
        return progress.end()


def _transcripts(model: str, sounds: list[Listed], options: Options,
                 progress: Progress) -> Iterable[tuple[Listed, Transcript]]:
    """The transcripts of sounds as they are to be written: in order, if that is to standard output."""
    from functools import partial

    from nnet3py.cli.recognition.transcribe_processes import can_copy, in_processes
    from nnet3py.engine.threads import num_threads, set_num_threads
    from nnet3py.recognition.batch import here, in_order, in_threads
    from nnet3py.recognition.transcribing import SoundOptions, transcribe_sound

    count = min(options.num_jobs, len(sounds))
    set_num_threads(options.num_threads)
    where = device(options)
    read = warmed_recognizer if count > 1 else read_recognizer           # what is warm, copies need not do
    recognizer = read(model, options, where)
    kept = options.results + KEPT if options.results else os.path.join(
        options.out, KEPT) if options.out else ""
    wanted = SoundOptions(
        None if options.channel < 0 else options.channel, options.endpointing,
        tuple(_lines(options.phrases)) if options.phrases else (),
        _boosts(options.boost_words) if options.boost_words else {},
        _speakers(recognizer, options) if options.speakers else None, kept)
    recognizer.stream(phrases=wanted.phrases, boost=wanted.boost)        # what is wrong with them stops the command
    run: Runner = here
    if count > 1:
        threads = options.num_threads or max(1, num_threads() // count)
        run = in_processes(count, threads) if where == "cpu" and can_copy() else in_threads(count)
    done = run(partial(transcribe_sound, recognizer, wanted), sounds, progress)
    return done if kept else in_order(sounds, done)


def _speakers(recognizer: Recognizer, options: Options) -> Callable[[str], Callable[[Word], str]]:
    """What tells apart the speakers of a file: of its path, a function that names the speaker of a word."""
    from nnet3py.recognition.diarization import diarize, speaker_of
    from nnet3py.recognition.options import DiarizationOptions

    model = recognizer.speaker_model
    assert model is not None                           # the options were checked
    wanted = DiarizationOptions(num_speakers=options.num_speakers)

    def speakers_of(path: str) -> Callable[[Word], str]:
        turns = diarize(model, path, options=wanted, channel=None if options.channel < 0 else options.channel)
        return lambda word: speaker_of(word, turns)

    return speakers_of


def _write(sound: Listed, transcript: Transcript, options: Options, results: ResultsFile | None,
           num_sounds: int) -> None:
    """Write a transcript to its place."""
    from nnet3py.io.streams import write_text
    from nnet3py.recognition.sound import result_path
    from nnet3py.recognition.transcribing import forget_kept

    if results is not None:
        results.add(sound, transcript)
        return
    text = FORMATS[options.format](sound.name, transcript)
    if options.out:
        path = result_path(sound, options.out, ENDINGS[options.format])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_text(path, text)
        forget_kept(os.path.join(options.out, KEPT), sound)
    elif options.format == "text" and num_sounds > 1:
        write_text("-", " ".join([sound.path, *text.split()]) + "\n")
    else:
        write_text("-", text)


def _without_results(sounds: list[Listed], folder: str, ending: str) -> list[Listed]:
    """The sounds that have no result in a folder; how many others there are is logged."""
    from nnet3py.recognition.sound import to_do

    waiting = to_do(sounds, folder, ending)
    _say_how_many(len(sounds) - len(waiting), len(sounds), folder)
    return waiting


def _say_how_many(done: int, total: int, place: str) -> None:
    if done:
        log.log(f"{done} of {total} sounds have results in {place} already")


def _run_jobs(model: str, sounds: list[Listed], options: Options, folder: str) -> int:
    """Run the jobs that write results into a folder."""
    from pathlib import Path

    from nnet3py.drivers.jobs.executor import JobsFailed
    from nnet3py.drivers.jobs.executors import make_executor
    from nnet3py.recognition.sound import split, to_do

    ending = ENDINGS[options.format]
    waiting = _without_results(sounds, folder, ending)
    if not waiting:
        return 0
    logs = Path(folder) / "log"
    logs.mkdir(parents=True, exist_ok=True)
    parts = split(waiting, options.num_jobs)
    jobs = [_job(model, part, number, options, folder, logs) for number, part in enumerate(parts, 1)]
    executor = make_executor("run.pl", options.scheduler or None, options.num_jobs, options.num_threads or None)
    with executor, _Watch(waiting, folder, ending):
        try:
            executor.run(jobs)
        except JobsFailed as error:
            log.warning(error.message)
    missing = to_do(waiting, folder, ending)
    log.log(f"Transcribed {count_of_sounds(len(waiting) - len(missing))} with {len(jobs)} job{'s' * (len(jobs) != 1)}"
            + (f"; {len(missing)} failed: {', '.join(sound.path for sound in missing[:3])}" if missing else ""))
    return 1 if missing else 0


def _job(model: str, part: list[Listed], number: int, options: Options, folder: str, logs: Any) -> Any:
    """The job of a part of the sounds."""
    from shlex import quote

    from nnet3py.drivers.jobs.executor import Job
    from nnet3py.recognition.sound import write_list

    sounds = logs / f"sounds.{number}.list"
    write_list(part, str(sounds))
    names = ("format", "graph", "speaker-model", "channel", "phrases", "boost-words", "use-gpu", "device",
             "num-speakers")
    values = {name: str(options[name]) for name in names} | {
        name: str(options[name]).lower() for name in ("endpointing", "speakers")}
    words = ["nnet3-transcribe", *(f"--{name}={value}" for name, value in values.items()),
             *(f"--model-option={value}" for value in options.model_option), f"--out={folder}",
             f"--sound-list={sounds}", model]
    return Job(" ".join(map(quote, words)), logs / f"transcribe.{number}.log")


class _Watch:
    """Shows how many results there are, while jobs run."""

    def __init__(self, sounds: list[Listed], folder: str, ending: str) -> None:
        from threading import Event, Thread

        self._sounds, self._folder, self._ending = sounds, folder, ending
        self._is_over = Event()
        self._thread = Thread(target=self._show, daemon=True)

    def __enter__(self) -> None:
        if log.show_status(f"0 of {len(self._sounds)} sounds done"):
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        log.show_status("")

    def _show(self) -> None:
        from nnet3py.recognition.sound import to_do

        left = self._sounds
        while not self._is_over.wait(1.0):
            left = to_do(left, self._folder, self._ending)
            log.show_status(f"{len(self._sounds) - len(left)} of {len(self._sounds)} sounds done")


def _lines(path: str) -> list[str]:
    from nnet3py.io.streams import read_lines

    lines = [" ".join(line.split()) for line in read_lines(path) if line.strip()]
    if not lines:
        raise UsageError(f"expected phrases or words in {path}, found nothing")
    return lines


def _boosts(path: str) -> dict[str, float]:
    boosts = {}
    for line in _lines(path):
        try:
            word, cost = line.split()
            boosts[word] = float(cost)
        except ValueError:
            raise UsageError(f"expected lines 'WORD COST' in {path}, found '{line[:40]}'") from None
    return boosts
