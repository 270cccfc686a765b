"""The model of a command that recognises speech: its options, and the recogniser that these and the arguments name."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.recognition.recognizer import Recognizer

MODEL = (
    option("demo", bool, False, "Take the small model of English digits and commands that comes with the package"),
    option("graph", str, "", "Graph (HCLG.fst, or HCLr.fst with Gr.fst beside it), or a folder with one; empty: the "
           "model folder's"),
    option("model-option", "strings", (), "NAME=VALUE: an option by Kaldi's name, such as beam=13, that wins over the "
           "model folder's; may be given more than once"),
)
_WARM_SECONDS = 2


def model_and_rest(args: list[str], options: Options) -> tuple[str, list[str]]:
    """The model folder, and the other arguments; UsageError if there is no model."""
    if options.demo:
        from nnet3py.recognition.model_folder import demo_folder

        return demo_folder(), args
    if not args:
        raise UsageError("no model folder was given", "--demo takes the model that comes with the package")
    return args[0], args[1:]


def single_model(args: list[str], options: Options) -> str:
    """The model folder of a command that takes nothing else."""
    model, rest = model_and_rest(args, options)
    if rest:
        raise UsageError(f"--demo takes the place of a model folder, but {rest[0]} was given, too")
    return model


def model_options(options: Options) -> dict[str, str]:
    """Options by Kaldi's names."""
    pairs = [text.partition("=") for text in options.model_option]
    wrong = [name for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise UsageError(f"--model-option={wrong[0]}: expected NAME=VALUE, such as beam=13")
    return {name.removeprefix("--"): value for name, _, value in pairs}


def warmed_recognizer(model: str, options: Options) -> Recognizer:
    """The model, after a stream of silence: whatever must be compiled is, so that nobody who speaks waits for it."""
    import logging

    import numpy as np

    from nnet3py.recognition.recognizer import Recognizer

    logger = logging.getLogger("nnet3py")
    level = logger.level
    if not log.verbose():
        logger.setLevel(logging.WARNING)           # how a network is prepared is nothing that a person asked for
    try:
        recognizer = Recognizer(model, options.graph or None, options=model_options(options))
        recognizer.transcribe(np.zeros(int(_WARM_SECONDS * recognizer.sample_rate), dtype=np.int16))
    finally:
        logger.setLevel(level)
    return recognizer
