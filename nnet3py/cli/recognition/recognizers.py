"""The model of commands that recognize speech: its options, and the recognizer that they and the arguments name."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import UsageError

if TYPE_CHECKING:
    from nnet3py.recognition.recognizer import Recognizer

NAMED_MODEL = (
    option("demo", bool, False, "Take the small model of English digits and commands that comes with the package"),
    option("lang", str, "", "Take a published model of this language, such as ko or en-us, from where vosk looks: "
           "$VOSK_MODEL_PATH, /usr/share/vosk, ~/.cache/vosk"),
    option("model-name", str, "", "The same by its name, such as vosk-model-small-ko-0.22"),
)
MODEL = (
    *NAMED_MODEL,
    option("graph", str, "", "Graph (HCLG.fst, or HCLr.fst with Gr.fst beside it), or a folder with one; empty: the "
           "model folder's"),
    option("speaker-model", str, "", "Folder of a model that tells speakers apart; results get vectors of speakers"),
    option("model-option", "strings", (), "NAME=VALUE: an option by Kaldi's name, such as beam=13, that wins over the "
           "model folder's; may be given more than once"),
)
USE_GPU = option("use-gpu", str, "no", "yes|no|optional|wait: compute the network on a GPU, which pays for a large one "
                 "and many streams at once; without one yes fails, wait warns",
                 choices=("yes", "no", "optional", "wait"))
DEVICE = (USE_GPU, option("device", str, "", "cpu or cuda; wins over --use-gpu", choices=("", "cpu", "cuda")))
_WARM_SECONDS = 2


def model_and_rest(args: list[str], options: Options) -> tuple[str, list[str]]:
    """The model folder, and the other arguments; UsageError if there is no model."""
    if options.demo:
        from nnet3py.recognition.model_folder import demo_folder

        return demo_folder(), args
    if options.lang or options.model_name:
        from nnet3py.recognition.model_folder import find_model

        return find_model(options.lang or None, options.model_name or None), args
    if not args:
        raise UsageError("no model folder was given", "--demo takes the model that comes with the package, --lang one "
                         "of a language")
    return args[0], args[1:]


def single_model(args: list[str], options: Options) -> str:
    """The model folder of a command that takes nothing else."""
    model, rest = model_and_rest(args, options)
    if rest:
        raise UsageError(f"--demo, --lang and --model-name take the place of a model folder, but {rest[0]} was given, "
                         "too")
    return model


def models_of(args: list[str], options: Options) -> list[str]:
    """The model folders of a command that takes several, and nothing else."""
    is_named = options.demo or options.lang or options.model_name
    return [single_model(args, options)] if is_named or not args else args


def model_options(options: Options) -> dict[str, str]:
    """Options by Kaldi's names."""
    pairs = [text.partition("=") for text in options.model_option]
    wrong = [name for name, equals, _ in pairs if not equals or not name]
    if wrong:
        raise UsageError(f"--model-option={wrong[0]}: expected NAME=VALUE, such as beam=13")
    return {name.removeprefix("--"): value for name, _, value in pairs}


def device(options: Options) -> str:
    """The device that the ``DEVICE`` group asks for."""
    from nnet3py.cli.process.compute_setup import device_for

    return device_for({"": options.use_gpu, "cuda": "yes", "cpu": "no"}[options.device])


@contextmanager
def without_remarks() -> Iterator[None]:
    """Do not log how a network is prepared, which does not interest people, unless with --verbose."""
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
    """The model, with the options of the ``MODEL`` group, and its network on a device."""
    from nnet3py.recognition.recognizer import Recognizer

    with without_remarks():
        return Recognizer(model, options.graph or None, options=model_options(options), device=device,
                          speaker_model=options.speaker_model or None)


def warmed_recognizer(model: str, options: Options, device: str) -> Recognizer:
    """The same, after a stream of silence: whatever must be compiled is compiled then, not while someone speaks."""
    import numpy as np

    recognizer = read_recognizer(model, options, device)
    with without_remarks():
        recognizer.transcribe(np.zeros(int(_WARM_SECONDS * recognizer.sample_rate), dtype=np.int16))
    return recognizer
