"""nnet3py listen: what a microphone hears, as words while someone speaks."""
from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.recognition.recognizers import MODEL, USE_GPU, single_model, warmed_recognizer


@kaldi_command("listen", group="Recognition", help="Recognize what a microphone hears, while someone speaks.",
               launcher=False, usage="""
Recognize what a microphone hears: words are shown while someone speaks, and printed, a line for each utterance, when
it is over. Ctrl-C ends it. Needs the extra listen, except for files.

Usage:  nnet3py listen [options] <model-folder>
or:     nnet3py listen --demo [options]

e.g.:
 nnet3py listen --demo
 nnet3py listen vosk-model-small-ko-0.22
 nnet3py listen --file=a.wav --real-time=true vosk-model-small-ko-0.22
""", arguments=(0, 1), detached_values=True, options=[
    QUIET,
    option("file", str, "", "File of sound in place of a microphone; - for standard input"),
    option("real-time", bool, False, "Take the file's sound as fast as it was spoken, not as fast as it is recognized"),
    option("device", str, "", "Microphone, by number or part of its name; the system's default if empty"),
    option("list-devices", bool, False, "Print the available devices and exit"),
    *MODEL, USE_GPU,
])
def listen(args: list[str], options: Options) -> None:
    """Print what is heard."""
    from nnet3py.cli.process.compute_setup import device_for
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
    with opened(source, options.device), ending(source):
        log.log(f"Listening to {source.name}; Ctrl-C ends it.")
        show(heard(recognizer.stream(source.rate), source.blocks()))


def show(words: Iterable[Any]) -> None:
    """Print segments that are over; others stand on the terminal's last line until then."""
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
def ending(source: Any) -> Iterator[None]:
    """Ctrl-C lets what was heard until then be recognized; a second one interrupts."""
    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        source.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
