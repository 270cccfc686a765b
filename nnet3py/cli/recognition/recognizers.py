"""Shared by the recognition commands: options that name a model, and the recognizer made of it."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError
from nnet3py.option_fields import GPU_CHOICES

if TYPE_CHECKING:
    from nnet3py.recognition.recognizer import Recognizer

NAMED_MODEL = (
    option("demo", bool, False, "Use the package's small model of English digits and commands"),
    option("lang", str, "", "Use a published model of this language, such as ko or en-us, from vosk's folders: "
           "$VOSK_MODEL_PATH, /usr/share/vosk, ~/.cache/vosk"),
    option("model-name", str, "", "Use a published model by its name, such as vosk-model-small-ko-0.22"),
)
MODEL = (
    *NAMED_MODEL,
    option("graph", str, "", "Decoding graph (HCLG.fst, or HCLr.fst with Gr.fst beside it), or its folder (empty: the "
           "model folder's)"),
    option("speaker-model", str, "", "Folder of a speaker model (x-vectors); results get speaker vectors"),
    option("model-option", "strings", (), "NAME=VALUE: an option by Kaldi's name, such as beam=13, that overrides the "
           "model folder's; may be repeated"),
)
USE_GPU = option("use-gpu", str, "no", "yes|no|optional|wait: compute the network on a GPU, which is worth it for "
                 "large networks and many streams at once; without a GPU yes fails, wait "
                 "warns", choices=GPU_CHOICES)
DEVICE = (USE_GPU, option("device", str, "", "cpu or cuda; overrides --use-gpu", choices=("", "cpu", "cuda")))
_WARM_SECONDS = 2


def model_and_rest(args: list[str], options: Options) -> tuple[str, list[str]]:
    """Return the model folder and the arguments after it; raise UsageError if no model is named."""
    if options.demo:
        from nnet3py.recognition.model_folder import demo_folder

        return demo_folder(), args
    if options.lang or options.model_name:
        from nnet3py.recognition.model_folder import find_model

        return find_model(options.lang or None, options.model_name or None), args
    if not args:
        raise UsageError("no model folder was given", "give it first, or --demo for the package's model, or --lang for "
                         "a published one")
    return args[0], args[1:]


def single_model(args: list[str], options: Options) -> str:
    """Return the model folder of a command that has no other arguments."""
    model, rest = model_and_rest(args, options)
    if rest:
        raise UsageError(f"--demo, --lang and --model-name name the model, but {rest[0]} was given, too")
    return model


def models_of(args: list[str], options: Options) -> list[str]:
    """Return the model folders of a command that has only these as arguments."""
    is_named = options.demo or options.lang or options.model_name
    return [single_model(args, options)] if is_named or not args else args


def model_options(options: Options) -> dict[str, str]:
    """Return the values of --model-option, by the names of Kaldi's options."""
    pairs = [text.partition("=") for text in options.model_option]
    wrong = [name for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise UsageError(f"--model-option={wrong[0]}: expected NAME=VALUE, such as beam=13")
    return {name.removeprefix("--"): value for name, _, value in pairs}


def device(options: Options) -> str:
    """Return the device, "cpu" or "cuda", of the ``DEVICE`` options."""
    from nnet3py.cli.process.option_groups import device_for

    return device_for({"": options.use_gpu, "cuda": "yes", "cpu": "no"}[options.device])


@contextmanager
def without_info_lines() -> Iterator[None]:
    """Log only warnings and errors of the package in this context, unless --verbose is given."""
    import logging

    logger = logging.getLogger("nnet3py")
    level = logger.level
    if not log.verbose():
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_recognizer(model: str, options: Options, device: str) -> Recognizer:
    """Return the recognizer of a model folder, with the ``MODEL`` options, on a device."""
    from nnet3py.recognition.recognizer import Recognizer

    with without_info_lines():
        return Recognizer(model, options.graph or None, options=model_options(options), device=device,
                          speaker_model=options.speaker_model or None)


def warmed_recognizer(model: str, options: Options, device: str) -> Recognizer:
    """Return the recognizer of a model folder after recognizing silence, which compiles all kernels."""
    import numpy as np

    recognizer = read_recognizer(model, options, device)
    with without_info_lines():
        recognizer.transcribe(np.zeros(int(_WARM_SECONDS * recognizer.sample_rate), dtype=np.int16))
    return recognizer
