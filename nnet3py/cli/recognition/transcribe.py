"""nnet3-transcribe: files of sound become text, subtitles or words with times."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.recognition.recognizers import DEVICE, MODEL, device, model_and_rest, read_recognizer
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition.transcripts import ENDINGS, FORMATS

if TYPE_CHECKING:
    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.recognition.sound_list import Listed


@kaldi_command("nnet3-transcribe", usage="""
Recognize what is said in sound files (WAVE; others with the extra "sound"), in all those in folders, or in standard
input (-), and print it: as text, JSON, subtitles (srt, vtt) or CTM. The model is a folder as published for vosk, as
Kaldi's training or prepare_online_decoding.sh leaves it, or an acoustic model with --graph; nnet3-inspect says what it
is. Sound of any rate is resampled, channels are averaged.

With --out each sound gets a file for its result in a folder, written when it is complete; sounds that have one already
are left out, so that the command goes on where it was interrupted. --num-jobs shares sounds among processes,
--scheduler among the workers of dask.distributed. For a sound that cannot be read there is a warning, and the exit
status is 1.

Usage:  nnet3-transcribe [options] <model> <sound-or-folder> [<sound-or-folder> ...]
or:     nnet3-transcribe --demo [options] <sound-or-folder> [<sound-or-folder> ...]

e.g.:
 nnet3-transcribe vosk-model-small-ko-0.22 a.wav
 nnet3-transcribe --lang=ko a.wav
 nnet3-transcribe --format=srt --out=subtitles --num-jobs=4 exp/chain/tdnn1a_online lectures/
 nnet3-transcribe --graph=exp/chain/tree/graph_tg --model-option=beam=13 exp/chain/tdnn1a a.flac
""", arguments=(1, None), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("format", str, "text", "What to write: text, json, srt, vtt or ctm", choices=tuple(FORMATS)),
    option("out", str, "", "Folder for the results, a file for each sound; empty: standard output"),
    *MODEL, *DEVICE,
    option("channel", int, -1, "Channel to take, from 0; -1: the mean of all"),
    option("speakers", bool, False, "Tell apart who spoke when, by --speaker-model: lines and subtitles begin with the "
           "speaker; see diarize"),
    option("num-speakers", int, 0, "How many speakers there are; 0: as many as are heard"),
    option("endpointing", bool, True, "Begin a new segment where an utterance is over, by the model's rules"),
    option("phrases", str, "", "File of phrases, one per line: only these are recognized; for models with HCLr.fst "
           "and Gr.fst"),
    option("boost-words", str, "", "File of lines WORD COST: how much less words cost; for such models, too"),
    option("num-jobs", int, 1, "Processes that share the sounds, each with the model and a thread or more"),
    option("scheduler", str, "", "Address of a dask scheduler whose workers run the jobs; needs --out, in a folder "
           "that they see"),
    option("sound-list", str, "", "File of sounds and names, for the command's own jobs, instead of arguments"),
    NUM_THREADS,
])
def transcribe(args: list[str], options: Options) -> int:
    """Write results; 1 if a sound could not be transcribed."""
    model, sounds = _arguments(args, options)
    if options.speakers and not options.speaker_model:
        raise UsageError("--speakers needs --speaker-model, the folder of a model that tells speakers apart")
    if options.speakers and any(sound.path == "-" for sound in sounds):
        raise UsageError("--speakers looks at a sound twice, and standard input can be read once", "give a file")
    if options.num_jobs < 1:
        raise UsageError(f"--num-jobs={options.num_jobs}: expected 1 or more")
    if options.scheduler and not options.out:
        raise UsageError("--scheduler needs --out, a folder for results that the workers see")
    if (options.out or options.num_jobs > 1) and any(sound.path == "-" for sound in sounds) and len(sounds) > 1:
        raise UsageError("standard input cannot be one of several sounds here")
    if options.format in ("srt", "vtt") and len(sounds) > 1 and not options.out:
        raise UsageError(f"{len(sounds)} sounds cannot have their subtitles in one file", "give a folder with --out")
    if (options.num_jobs > 1 and len(sounds) > 1) or options.scheduler:
        return _in_jobs(model, sounds, options)
    return _here(model, sounds, options)


def _arguments(args: list[str], options: Options) -> tuple[str, list[Listed]]:
    """The model and the sounds."""
    from nnet3py.recognition.sound_list import find_sounds, read_list

    model, paths = model_and_rest(args, options)
    if options.sound_list:
        return model, read_list(options.sound_list)
    if not paths:
        raise UsageError("no file of sound was given", "nnet3-transcribe MODEL SOUND, or --demo SOUND")
    return model, find_sounds(paths)


def _here(model: str, sounds: list[Listed], options: Options) -> int:
    """Transcribe in this process."""
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.io.streams import write_text
    from nnet3py.recognition.sound_list import result_path

    set_num_threads(options.num_threads)
    ending, form = ENDINGS[options.format], FORMATS[options.format]
    waiting = _without_results(sounds, options.out, ending) if options.out else sounds
    if not waiting:
        return 0
    work = _Work(read_recognizer(model, options, device(options)), options, len(waiting))
    for sound in waiting:
        result = work.result(sound)
        if result is None:
            continue
        if options.out:
            path = result_path(sound, options.out, ending)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_text(path, form(sound.name, result))
        else:
            write_text("-", _printed(form(sound.name, result), sound, options, len(sounds)))
    return work.status()


def _without_results(sounds: list[Listed], folder: str, ending: str) -> list[Listed]:
    """The sounds that have no result in a folder; how many others there are is logged."""
    from nnet3py.recognition.sound_list import to_do

    waiting = to_do(sounds, folder, ending)
    if len(waiting) < len(sounds):
        log.log(f"{len(sounds) - len(waiting)} of {len(sounds)} sounds have results in {folder} already")
    return waiting


def _printed(text: str, sound: Listed, options: Options, num_sounds: int) -> str:
    """What is printed of a result: as text, if there are several, a line with the file's name and the words."""
    if options.format != "text" or num_sounds == 1:
        return text
    return " ".join([sound.path, *text.split()]) + "\n"


class _Work:
    """The work and its progress."""

    def __init__(self, recognizer: Recognizer, options: Options, total: int) -> None:
        from time import monotonic

        self._recognizer, self._options, self._total, self._now = recognizer, options, total, monotonic
        self._phrases = tuple(_lines(options.phrases)) if options.phrases else ()
        self._boost = _boosts(options.boost_words) if options.boost_words else {}
        recognizer.stream(phrases=self._phrases, boost=self._boost)       # what is wrong with them stops the command
        self._begun, self._seconds, self._done, self._failed = monotonic(), 0.0, 0, 0

    def result(self, listed: Listed) -> Any:
        """The result for a sound; None, with a warning, if it cannot be transcribed."""
        from nnet3py.recognition.sound import open_sound

        options, before = self._options, self._seconds
        try:
            sound = open_sound(listed.path, None if options.channel < 0 else options.channel)
            sound.on_block = lambda seconds: self._show(listed, before, seconds, sound.seconds)
            result = self._recognizer.transcribe(sound, endpointing=options.endpointing, phrases=self._phrases,
                                                 boost=self._boost)
            if options.speakers:
                result = self._with_speakers(listed, result)
        except Nnet3Error as error:
            log.warning(f"{listed.path} could not be transcribed: {error}")
            self._failed += 1
            return None
        self._done += 1
        return result

    def _with_speakers(self, listed: Listed, result: Any) -> Any:
        """The result with the names of speakers, who are told apart in the whole sound."""
        from nnet3py.recognition.diarization import diarize, with_speakers
        from nnet3py.recognition.stream_options import DiarizationOptions

        options = self._options
        assert self._recognizer.speaker_model is not None           # the options were checked
        turns = diarize(self._recognizer.speaker_model, listed.path,
                        options=DiarizationOptions(num_speakers=options.num_speakers),
                        channel=None if options.channel < 0 else options.channel)
        return with_speakers(result, turns)

    def _show(self, listed: Listed, before: float, seconds: float, length: float) -> None:
        self._seconds = before + seconds
        speed = self._seconds / max(self._now() - self._begun, 1e-3)
        part = f" ({100 * min(1.0, seconds / length):.0f} %)" if length else ""
        log.show_status(f"{self._done + self._failed} of {self._total} sounds done, {speed:.1f} times real time: "
                        f"{listed.path}{part}")

    def status(self) -> int:
        """Log what was done; the exit status."""
        log.show_status("")
        taken = max(self._now() - self._begun, 1e-3)
        log.log(f"Transcribed {_sounds(self._done)}, {self._seconds:.1f} s, in {taken:.1f} s"
                + (f"; {self._failed} failed" if self._failed else ""))
        return 1 if self._failed else 0


def _sounds(count: int) -> str:
    return f"{count} sound{'s' * (count != 1)}"


def _in_jobs(model: str, sounds: list[Listed], options: Options) -> int:
    """Share the sounds among processes, or among workers of dask."""
    from tempfile import TemporaryDirectory

    from nnet3py.io.streams import read_text, write_text
    from nnet3py.recognition.sound_list import result_path

    ending = ENDINGS[options.format]
    if options.out:
        return _run_jobs(model, sounds, options, options.out)
    with TemporaryDirectory(prefix="nnet3py-transcribe-") as folder:
        status = _run_jobs(model, sounds, options, folder)
        for sound in sounds:
            path = result_path(sound, folder, ending)
            if os.path.isfile(path):
                write_text("-", _printed(read_text(path), sound, options, len(sounds)))
    return status


def _run_jobs(model: str, sounds: list[Listed], options: Options, folder: str) -> int:
    """Run the jobs that write results into a folder."""
    from pathlib import Path

    from nnet3py.drivers.jobs.executor import JobsFailed
    from nnet3py.drivers.jobs.executors import make_executor
    from nnet3py.recognition.sound_list import split, to_do

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
    log.log(f"Transcribed {_sounds(len(waiting) - len(missing))} with {len(jobs)} job{'s' * (len(jobs) != 1)}"
            + (f"; {len(missing)} failed: {', '.join(sound.path for sound in missing[:3])}" if missing else ""))
    return 1 if missing else 0


def _job(model: str, part: list[Listed], number: int, options: Options, folder: str, logs: Any) -> Any:
    """The job of a part of the sounds."""
    from shlex import quote

    from nnet3py.drivers.jobs.executor import Job
    from nnet3py.recognition.sound_list import write_list

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
        from nnet3py.recognition.sound_list import to_do

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
