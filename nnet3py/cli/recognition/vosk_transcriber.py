"""nnet3py vosk-transcriber: vosk's program of that name."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, option
from nnet3py.cli.recognition.recognizers import without_remarks
from nnet3py.errors import Nnet3Error, UsageError

_SERVER = "ws://localhost:2700"


@kaldi_command("vosk-transcriber", usage="""
Recognize what is said in a file of sound, or in all files of a folder, with the options of vosk's program of that name.
nnet3-transcribe does more.

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
    option("server", str, "", f"Address of a server that recognizes (-s: {_SERVER})"),
    option("list-models", bool, False, "Print the models that can be found by name"),
    option("list-languages", bool, False, "Print the languages of these models"),
    option("model-name", str, "", "Name of a model, which is looked for where vosk does (-n)"),
    option("lang", str, "en-us", "Language of a model, if neither folder nor name is given (-l)"),
    option("input", str, "", "File of sound, or folder of such files (-i)"),
    option("output", str, "", "File for the text, or folder for texts; empty: standard output (-o)"),
    option("output-type", str, "txt", "What to write: txt, srt or json (-t)", choices=("txt", "srt", "json")),
    option("tasks", int, 10, "Files that are recognized at a time (-ts)"),
    option("log-level", str, "INFO", "INFO or DEBUG also tells of each file; other levels only what went wrong"),
])
def vosk_transcriber(args: list[str], options: Options) -> int:
    """Write texts; 1 if a file could not be recognized."""
    import os
    from pathlib import Path

    import nnet3py.vosk
    from nnet3py.recognition.model_folder import find_model
    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.vosk.transcriber import Results, Task, recognized, recognized_by_server, tasks, transcribe

    if options.list_models or options.list_languages:
        (nnet3py.vosk.list_models if options.list_models else nnet3py.vosk.list_languages)()
        return 0
    if not options.input:
        raise UsageError("no file or folder of sound was given", "-i FILE")
    work = tasks(options.input, options.output, options.output_type)
    if Path(options.input).is_dir():
        if not options.output:
            raise UsageError("a folder of sounds needs a folder for their texts", "-o FOLDER")
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
        with without_remarks():
            model = nnet3py.vosk.Model.of(Recognizer(options.model or find_model(
                options.lang, options.model_name or None)))

        def recognize(path: Path) -> Results:
            return recognized(model, path)

    transcribe(work, recognize, options.output_type, options.tasks, report)
    return 1 if failed else 0
