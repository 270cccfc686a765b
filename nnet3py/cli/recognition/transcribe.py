"""Recognition of sound files: nnet3-transcribe, and vosk-transcriber with the options of vosk's program."""
from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
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
    without_info_lines,
)
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition.transcripts import ENDINGS, FORMATS

if TYPE_CHECKING:
    from nnet3py.recognition.batch import ResultsFile, Runner
    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.recognition.results import Word
    from nnet3py.recognition.sound import Listed
    from nnet3py.recognition.transcribing import Transcript

_PARTIAL = ".kept"           # folder of partial results of long sounds: in --out, or beside --results with this suffix
_STATUS_SECONDS = 0.2        # between two changes of a terminal's last line
_LOG_SECONDS = 30.0          # between two lines of a log, without a terminal
_SERVER = "ws://localhost:2700"


@kaldi_command("nnet3-transcribe", "Recognition",
               "Recognize speech in sound files: text, subtitles, words with times.", """
Recognize speech in sound files (WAVE; other formats with the extra "sound"), in all files of folders, or in standard
input (-), and print it as text, JSON, subtitles (srt, vtt) or CTM. The model is a folder as published for vosk, or as
Kaldi's training or prepare_online_decoding.sh leaves it, or an acoustic model with --graph; nnet3-inspect describes it.
Sound of any sampling rate is resampled, channels are averaged.

With --out each sound gets a file in a folder; with --results each sound gets a line of JSON, appended to one file.
Sounds with a complete result are skipped, and a long sound is continued at most two minutes before the point of
interruption: whatever has ended the command, run it again to finish. --num-jobs distributes sounds over processes that
share the model in memory; --scheduler over workers of dask.distributed. For a sound that cannot be read a warning is
logged, and the exit status is 1.

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
    option("format", str, "text", "Output format: text, json, srt, vtt or ctm", choices=tuple(FORMATS)),
    option("out", str, "", "Folder for the results, a file for each sound (empty: standard output)"),
    option("results", str, "", "File to which a line of JSON is appended for each sound"),
    option("files-from", str, "", "File with names of sounds, one on each line, besides the arguments (-: standard "
           "input)"),
    *MODEL, *DEVICE,
    option("channel", int, -1, "Channel to use, from 0 (-1: the mean of all)"),
    option("speakers", bool, False, "Diarize with --speaker-model: lines and subtitles begin with the speaker; see "
           "diarize"),
    option("num-speakers", int, 0, "Number of speakers (0: estimated)"),
    option("endpointing", bool, True, "Start a new segment at endpoints, by the model's rules"),
    option("phrases", str, "", "File of phrases, one on each line: recognize only these; for models with HCLr.fst and "
           "Gr.fst"),
    option("boost-words", str, "", "File with lines WORD COST: subtract COST from the word's graph cost; for models "
           "with HCLr.fst and Gr.fst"),
    option("num-jobs", int, 1, "Number of processes, each with its share of the cores", least=1),
    option("scheduler", str, "", "Address of a dask scheduler whose workers run the jobs; needs --out, a folder that "
           "they see"),
    option("sound-list", str, "", "File of sounds and names in place of arguments, for jobs of --scheduler"),
    NUM_THREADS,
])
def transcribe(args: list[str], options: Options) -> int:
    model, sounds = _arguments(args, options)
    _check(sounds, options)
    if options.scheduler:
        return _run_jobs(model, sounds, options, options.out)
    return _transcribe(model, sounds, options)


def _check(sounds: list[Listed], options: Options) -> None:
    """Raise UsageError for options that cannot be used together, or not with these sounds."""
    reads_standard_input = any(sound.path == "-" for sound in sounds)
    if options.speakers and not options.speaker_model:
        raise UsageError("--speakers needs --speaker-model, the folder of a speaker model")
    if options.speakers and reads_standard_input:
        raise UsageError("--speakers reads a sound twice, which standard input does not allow", "give a file")
    if options.scheduler and not options.out:
        raise UsageError("--scheduler needs --out, a folder that all workers can write to")
    if options.out and options.results:
        raise UsageError("--out and --results cannot both be given")
    if options.results and options.format not in ("text", "json"):        # "text" is the default
        raise UsageError(f"--results writes JSON, but --format={options.format} was given",
                         f"give --out=FOLDER --format={options.format} instead of --results")
    if (options.out or options.results or options.num_jobs > 1) and reads_standard_input and len(sounds) > 1:
        raise UsageError("standard input (-) cannot be one of several sounds with --out, --results or --num-jobs")
    if options.format in ("srt", "vtt") and len(sounds) > 1 and not options.out:
        raise UsageError(f"the subtitles of {len(sounds)} sounds cannot be in one file", "give a folder with --out")


def _arguments(args: list[str], options: Options) -> tuple[str, list[Listed]]:
    """Return the model folder and the sounds that arguments and options name."""
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
        raise UsageError("no sound file was given", "nnet3-transcribe MODEL SOUND, or --demo SOUND")
    return model, find_sounds(paths, names_differ=bool(options.out))


def _transcribe(model: str, sounds: list[Listed], options: Options) -> int:
    """Transcribe sounds in this process and its forks; return the exit status."""
    from nnet3py.recognition.batch import ResultsFile

    ending = ENDINGS[options.format]
    place = os.path.dirname(os.path.abspath(model)) if os.path.isfile(model) else os.path.abspath(model)
    with ResultsFile(options.results, os.path.basename(place)) if options.results else nullcontext() as results:
        if results is not None:
            waiting = results.waiting(sounds)
            _log_skipped(len(sounds) - len(waiting), len(sounds), options.results)
        else:
            waiting = _without_results(sounds, options.out, ending) if options.out else sounds
        if not waiting:
            return 0
        if options.out or results is not None:        # the longest first, so that jobs end at about the same time
            waiting = sorted(waiting, key=lambda sound: -_file_size(sound))
        progress = _Progress(waiting)
        try:
            for sound, transcript in _transcripts(model, waiting, options, progress):
                if transcript.error:
                    log.warning(f"{sound.path} could not be transcribed: {transcript.error}")
                else:
                    _write_transcript(sound, transcript, options, results, len(sounds))
                progress.done(sound, transcript)
        except KeyboardInterrupt:
            progress.interrupted(bool(options.out or options.results))
            raise
        return progress.end()


def _transcripts(model: str, sounds: list[Listed], options: Options,
                 progress: _Progress) -> Iterable[tuple[Listed, Transcript]]:
    """Yield sounds with their transcripts; in the order of ``sounds`` if they are written to standard output."""
    from nnet3py.cli.recognition.processes import can_copy, in_processes
    from nnet3py.engine.threads import num_threads, set_num_threads
    from nnet3py.recognition.batch import here, in_order, in_threads
    from nnet3py.recognition.transcribing import SoundOptions, transcribe_sound

    count = min(options.num_jobs, len(sounds))
    set_num_threads(options.num_threads)
    where = device(options)
    read = warmed_recognizer if count > 1 else read_recognizer           # copies inherit compiled kernels
    recognizer = read(model, options, where)
    partial_folder = options.results + _PARTIAL if options.results else os.path.join(
        options.out, _PARTIAL) if options.out else ""
    wanted = SoundOptions(
        None if options.channel < 0 else options.channel, options.endpointing,
        tuple(_read_phrases(options.phrases)) if options.phrases else (),
        _read_boosts(options.boost_words) if options.boost_words else {},
        _speakers(recognizer, options) if options.speakers else None, partial_folder)
    recognizer.stream(phrases=wanted.phrases, boost=wanted.boost)        # raises errors of phrases and words now
    run: Runner = here
    if count > 1:
        threads = options.num_threads or max(1, num_threads() // count)
        run = in_processes(count, threads) if where == "cpu" and can_copy() else in_threads(count)
    done = run(partial(transcribe_sound, recognizer, wanted), sounds, progress)
    return done if partial_folder else in_order(sounds, done)


def _speakers(recognizer: Recognizer, options: Options) -> Callable[[str], Callable[[Word], str]]:
    """Return a function that diarizes the sound of a path, and returns a function from a word to its speaker."""
    from nnet3py.recognition.diarization import diarize, speaker_of
    from nnet3py.recognition.options import DiarizationOptions

    model = recognizer.speaker_model
    assert model is not None                           # the options were checked
    wanted = DiarizationOptions(num_speakers=options.num_speakers)

    def speakers_of(path: str) -> Callable[[Word], str]:
        turns = diarize(model, path, options=wanted, channel=None if options.channel < 0 else options.channel)
        return lambda word: speaker_of(word, turns)

    return speakers_of


def _write_transcript(sound: Listed, transcript: Transcript, options: Options, results: ResultsFile | None,
           num_sounds: int) -> None:
    """Write a transcript to --results, to --out or to standard output."""
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
        forget_kept(os.path.join(options.out, _PARTIAL), sound)
    elif options.format == "text" and num_sounds > 1:
        write_text("-", " ".join([sound.path, *text.split()]) + "\n")
    else:
        write_text("-", text)


def _without_results(sounds: list[Listed], folder: str, ending: str) -> list[Listed]:
    """Return the sounds that have no result in ``folder``; log how many have."""
    from nnet3py.recognition.sound import to_do

    waiting = to_do(sounds, folder, ending)
    _log_skipped(len(sounds) - len(waiting), len(sounds), folder)
    return waiting


def _log_skipped(done: int, total: int, place: str) -> None:
    if done:
        log.log(f"{done} of {total} sounds have results in {place} already")


def _run_jobs(model: str, sounds: list[Listed], options: Options, folder: str) -> int:
    """Transcribe sounds by jobs, which write results into ``folder``; return 1 if a sound could not be transcribed."""
    from pathlib import Path

    from nnet3py.drivers.executor import JobsFailed
    from nnet3py.drivers.executors import make_executor
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
    with executor, _ResultsStatus(waiting, folder, ending):
        try:
            executor.run(jobs)
        except JobsFailed as error:
            log.warning(error.message)
    missing = to_do(waiting, folder, ending)
    log.log(f"Transcribed {_sounds(len(waiting) - len(missing))} with {len(jobs)} job{'s' * (len(jobs) != 1)}"
            + (f"; {len(missing)} failed: {', '.join(sound.path for sound in missing[:3])}" if missing else ""))
    return 1 if missing else 0


def _job(model: str, part: list[Listed], number: int, options: Options, folder: str, logs: Any) -> Any:
    """Return job ``number``, which transcribes the sounds ``part``."""
    from shlex import quote

    from nnet3py.drivers.executor import Job
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


class _ResultsStatus:
    """Context manager that shows the number of results in a folder on the terminal's last line, while jobs run."""

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


def _read_phrases(path: str) -> list[str]:
    from nnet3py.io.streams import read_lines

    lines = [" ".join(line.split()) for line in read_lines(path) if line.strip()]
    if not lines:
        raise UsageError(f"expected lines of phrases or words in {path}, found none")
    return lines


def _read_boosts(path: str) -> dict[str, float]:
    boosts = {}
    for line in _read_phrases(path):
        try:
            word, cost = line.split()
            boosts[word] = float(cost)
        except ValueError:
            raise UsageError(f"expected lines 'WORD COST' in {path}, found '{line[:40]}'") from None
    return boosts


class _Progress:
    """Progress of transcribing sounds, shown on a terminal's last line or, every 30 s, in the log.

    A sound's duration is known once it is opened; until then it is estimated from its size in bytes, with the bytes
    per second of other sounds that have the same file name extension.
    """

    def __init__(self, sounds: Sequence[Listed]) -> None:
        self._bytes = {sound: _file_size(sound) for sound in sounds}
        self._durations: dict[Listed, float] = {}
        self._running: dict[Listed, float] = {}          # seconds that were decoded
        self._num_done = self._num_failed = 0
        self._seconds = 0.0                              # of sounds that are done
        self._begun = self._shown = self._logged = time.monotonic()

    def __call__(self, sound: Listed, seconds: float, duration: float) -> None:
        """Record that the first ``seconds`` of a sound were decoded; ``duration``: its seconds, 0 if unknown."""
        self._running[sound] = seconds
        if duration:
            self._durations[sound] = max(duration, seconds)
        now = time.monotonic()
        if now - self._shown < _STATUS_SECONDS:
            return
        self._shown = now
        text = self._status_text()
        length = self._durations.get(sound, 0.0)
        part = f" ({100 * min(1.0, seconds / length):.0f} %)" if length else ""
        if not log.show_status(f"{text}: {sound.path}{part}") and now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.log(text)

    def done(self, sound: Listed, transcript: Transcript) -> None:
        """Record that a sound is finished, with its transcript or an error."""
        self._running.pop(sound, None)
        if transcript.error:
            self._num_failed += 1
            self._bytes.pop(sound, None)
            self._durations.pop(sound, None)
        else:
            self._num_done += 1
            self._durations[sound] = transcript.duration
            self._seconds += transcript.duration

    def interrupted(self, can_continue: bool) -> None:
        """Log an interruption; ``can_continue``: whether results are kept, so that the same command continues."""
        log.show_status("")
        log.log(f"Interrupted: {self._num_done} of {len(self._bytes) + self._num_failed} sounds are done"
                + ("; the same command does the rest" if can_continue else ""))

    def end(self) -> int:
        """Log the totals; return the exit status, 1 if a sound failed."""
        log.show_status("")
        taken = max(time.monotonic() - self._begun, 1e-3)
        log.log(f"Transcribed {_sounds(self._num_done)}, {self._seconds:.1f} s, in {taken:.1f} s"
                + (f"; {self._num_failed} failed" if self._num_failed else ""))
        return 1 if self._num_failed else 0

    def _status_text(self) -> str:
        decoded = self._seconds + sum(self._running.values())
        taken = max(time.monotonic() - self._begun, 1e-3)
        left = max(0.0, self._total_seconds() - decoded) * taken / decoded if decoded else 0.0
        return (f"{self._num_done + self._num_failed} of {len(self._bytes) + self._num_failed} sounds, "
                f"{log.clock_time(decoded)} of sound, {decoded / taken:.1f} times real time, "
                f"{log.clock_time(left)} left")

    def _total_seconds(self) -> float:
        """Return the total duration of all sounds in seconds, estimated where it is unknown."""
        seconds: defaultdict[str, float] = defaultdict(float)
        sizes, unknown = Counter[str](), Counter[str]()
        for sound, duration in self._durations.items():
            for kind in (_extension(sound), ""):
                seconds[kind] += duration
                sizes[kind] += self._bytes.get(sound, 0)
        for sound, size in self._bytes.items():
            if sound not in self._durations:
                unknown[_extension(sound)] += size
        total = seconds[""]
        for ending, size in unknown.items():
            kind = ending if sizes[ending] else ""
            total += size * seconds[kind] / sizes[kind] if sizes[kind] else 0.0
        return total


def _extension(sound: Listed) -> str:
    return os.path.splitext(sound.path)[1].lower() or "."


def _file_size(sound: Listed) -> int:
    """Return the size of a sound file in bytes; 0 if it does not exist."""
    try:
        return os.path.getsize(sound.path)
    except OSError:
        return 0


def _sounds(count: int) -> str:
    return f"{count} sound{'s' * (count != 1)}"


# -- vosk-transcriber --------------------------------------------------------------------------------------------------


@kaldi_command("vosk-transcriber", "Recognition",
               "Recognize sound files, with the options of vosk's program of that name.", launcher=False, usage="""
Recognize speech in a sound file, or in all files of a folder, with the options of vosk's program vosk-transcriber.
nnet3-transcribe has more options.

Usage:  nnet3py vosk-transcriber [options] -i <sound-or-folder> [-o <file-or-folder>]

e.g.:
 nnet3py vosk-transcriber -l ko -i a.wav -t srt -o a.srt
 nnet3py vosk-transcriber -m model-folder -i sounds -o texts
 nnet3py vosk-transcriber -s -i a.wav
""", arguments=(0, 0), detached_values=True, short_names={
    "-m": "--model", "-s": f"--server={_SERVER}", "-n": "--model-name", "-l": "--lang", "-i": "--input",
    "-o": "--output", "-t": "--output-type", "-ts": "--tasks"}, options=[
    QUIET,
    option("model", str, "", "Model folder (-m)"),
    option("server", str, "", f"Address of a recognition server to use (-s: {_SERVER})"),
    option("list-models", bool, False, "Print the names of published models"),
    option("list-languages", bool, False, "Print the languages of published models"),
    option("model-name", str, "", "Name of a published model, in vosk's folders (-n)"),
    option("lang", str, "en-us", "Language of a published model, without --model and --model-name (-l)"),
    option("input", str, "", "Sound file, or folder of sound files (-i)"),
    option("output", str, "", "File for the text, or folder for texts (-o; empty: standard output)"),
    option("output-type", str, "txt", "Output format: txt, srt or json (-t)", choices=("txt", "srt", "json")),
    option("tasks", int, 10, "Number of files recognized at the same time (-ts)"),
    option("log-level", str, "INFO", "INFO or DEBUG: log each file; other levels: errors only"),
])
def vosk_transcriber(args: list[str], options: Options) -> int:
    from pathlib import Path

    import nnet3py.vosk
    from nnet3py.recognition.model_folder import find_model
    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.vosk.transcriber import Results, Task, recognized, recognized_by_server, tasks, transcribe

    if options.list_models or options.list_languages:
        (nnet3py.vosk.list_models if options.list_models else nnet3py.vosk.list_languages)()
        return 0
    if not options.input:
        raise UsageError("no sound file or folder was given", "give one with -i FILE")
    work = tasks(options.input, options.output, options.output_type)
    if Path(options.input).is_dir():
        if not options.output:
            raise UsageError("a folder of sounds needs a folder for the texts", "give one with -o FOLDER")
        os.makedirs(options.output, exist_ok=True)
    failed: list[Task] = []

    def report(task: Task, error: Nnet3Error | None) -> None:
        if error is not None:
            failed.append(task)
            log.warning(f"{task.sound}: {error}")
        elif options.log_level.upper() in ("INFO", "DEBUG"):
            log.log(f"File {task.sound} processing complete")

    if options.server:
        address = options.server

        def recognize(path: Path) -> Results:
            return recognized_by_server(address, path)
    else:
        with without_info_lines():
            model = nnet3py.vosk.Model.of(Recognizer(options.model or find_model(
                options.lang, options.model_name or None)))

        def recognize(path: Path) -> Results:
            return recognized(model, path)

    transcribe(work, recognize, options.output_type, options.tasks, report)
    return 1 if failed else 0
