"""nnet3py align: where each word and each phone of a known text is in a sound."""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import NUM_THREADS, QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.recognition.recognizers import DEVICE, NAMED_MODEL, device, model_and_rest, without_remarks
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.recognition.transcripts import ALIGNMENT_ENDINGS, ALIGNMENT_FORMATS

if TYPE_CHECKING:
    from nnet3py.fine_tuning.plan import Utterance
    from nnet3py.recognition.aligning import Aligner

_NO_LIMIT = 1e9             # seconds
_SHORTEST = 0.05


@kaldi_command("align", usage="""
Find out when each word, and each phone, of a known text is said in a sound (forced alignment), and print it: as a
TextGrid for Praat, JSON, CTM or subtitles. The model is a folder as for transcribe, with a chain model or another one;
what it needs beside what recognition needs is phones/word_boundary.int or align_lexicon.int. The text is a file or, if
there is none of that name, the words themselves; punctuation is passed over. A recording may be hours long.

Instead of a sound and its text, data with several: a folder of sounds with a text file of the same name beside each, a
data folder of Kaldi, or a table (csv, tsv, jsonl) of file and text, perhaps with start and end. With --out each gets a
file in a folder. For what cannot be aligned there is a warning, and the exit status is 1.

Usage:  nnet3py align [options] <model> <sound> <text>
or:     nnet3py align [options] <model> <data>
or:     nnet3py align --demo [options] <sound> <text>

e.g.:
 nnet3py align vosk-model-small-ko-0.22 a.wav a.txt > a.TextGrid
 nnet3py align --format=ctm --demo a.wav "set a timer for ten minutes"
 nnet3py align --format=srt --out=subtitles vosk-model-small-ko-0.22 lectures/
""", arguments=(1, 3), detached_values=True, options_anywhere=True, options=[
    QUIET,
    option("format", str, "textgrid", "What to write: textgrid, json, ctm, srt or vtt",
           choices=tuple(ALIGNMENT_FORMATS)),
    option("out", str, "", "Folder for the results, a file for each sound; empty: standard output"),
    option("unknown-words", str, "similar", "What to do with words that the model does not know: similar: align them "
           "as words spelled alike; leave-out: leave a gap; error", choices=("similar", "leave-out", "error")),
    *NAMED_MODEL, *DEVICE,
    option("channel", int, -1, "Channel to take, from 0; -1: the mean of all"),
    NUM_THREADS,
])
def align(args: list[str], options: Options) -> int:
    """Write alignments; 1 if a sound could not be aligned."""
    from nnet3py.engine.threads import set_num_threads
    from nnet3py.recognition.aligning import Aligner

    model, rest = model_and_rest(args, options)
    if len(rest) not in (1, 2):
        raise UsageError("expected a sound and its text, or data with both" + (
            f", found {rest[0]} and {len(rest) - 1} more" if rest else ""), "nnet3py align MODEL SOUND TEXT")
    if len(rest) == 1 and not options.out and options.format != "ctm" and options.format != "json":
        raise UsageError(f"several sounds cannot have one {options.format}", "give a folder with --out")
    set_num_threads(options.num_threads)
    with without_remarks():
        aligner = Aligner(model, device=device(options))
    tasks = _of_data(rest[0], aligner, options) if len(rest) == 1 else iter([_of_files(*rest)])
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
        _write(ALIGNMENT_FORMATS[options.format](task.name, aligned), task.name, options)
        done += 1
    log.show_status("")
    log.log(f"Aligned {done} sound{'s' * (done != 1)}" + (f"; {failed} failed" if failed else ""))
    return 1 if failed or not done else 0


class _Task(NamedTuple):
    """A sound with its name and text; ``problem``: why it cannot be used, or empty."""

    name: str
    sound: Any
    text: str
    rate: float | None = None
    problem: str = ""


def _of_files(sound: str, text: str) -> _Task:
    from nnet3py.io.streams import read_text

    if not os.path.isfile(sound):
        raise UsageError(f"there is no file {sound}")
    if os.path.isfile(text):
        text = read_text(text)
    elif text.lower().endswith((".txt", ".lab", ".trn")) and len(text.split()) == 1:
        raise UsageError(f"there is no file {text}", "give a file with the text, or the words in quotes")
    return _Task(os.path.splitext(os.path.basename(sound))[0], sound, text)


def _of_data(data: str, aligner: Aligner, options: Options) -> Iterator[_Task]:
    """The sounds of a table or of a folder, read one after the other, at the model's rate."""
    from nnet3py.fine_tuning.speech_data import Limits, read_data, read_sounds

    if options.channel >= 0:
        raise UsageError("--channel is for a single sound", "its channels are averaged where data are given")
    read = read_data(data)
    for problem in read.problems:
        log.warning(f"{problem.key}: {problem.kind}: {problem.message}")
    names = _names(read.utterances, is_kaldi=os.path.isfile(os.path.join(data, "wav.scp")))
    limits = Limits(aligner.sample_rate, _SHORTEST, _NO_LIMIT, allow_upsample=True)
    for utterance, samples, problems in read_sounds(read.utterances, limits):
        why = "; ".join(f"{problem.kind}: {problem.message}" for problem in problems if problem.is_fatal)
        yield _Task(names[utterance.key], samples, " ".join(utterance.text), limits.rate,
                    "" if samples is not None else why or "it cannot be read")


def _names(utterances: Sequence[Utterance], is_kaldi: bool) -> dict[str, str]:
    """How results are called: as their file of sound, or by the key where that is of several, or of Kaldi."""
    stems = {utterance.key: os.path.splitext(os.path.basename(utterance.sound))[0] for utterance in utterances}
    counts = Counter(stems.values())
    return {key: key if is_kaldi or counts[stem] > 1 else stem for key, stem in stems.items()}


def _write(text: str, name: str, options: Options) -> None:
    from nnet3py.io.streams import write_text

    if options.out:
        os.makedirs(options.out, exist_ok=True)
        write_text(os.path.join(options.out, name + ALIGNMENT_ENDINGS[options.format]), text)
    else:
        write_text("-", text)
