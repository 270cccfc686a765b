"""Where a folder has its model, and what the folder says of how the model's outputs are computed. Light."""
from __future__ import annotations

import os

from nnet3py.errors import FormatError, UsageError
from nnet3py.option_file import option_texts, read_option_lines, split

LARGEST_SUBSAMPLING = 1000
_SUBSAMPLING = "frame-subsampling-factor"
_SUBSAMPLING_FILE = "frame_subsampling_factor"       # which training leaves beside a chain model
_PUBLISHED = "am"                                    # the folder of the network in folders of published models
_MODELS = ("am/final.mdl", "final.mdl", "final.raw")
MODEL_CONFS = ("conf/model.conf", "model.conf")
ONLINE_CONF = "conf/online.conf"
OLD_PUBLISHED_SUBSAMPLING = 3                        # vosk's, for old models whose files lie in one folder


def model_in(path: str | os.PathLike[str]) -> str:
    """The acoustic model of a model folder, or else its raw network; a path of anything else is returned as it is.

    Raises UsageError for what is no path, or that of an ONNX file.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the path of a model, found {type(path).__name__}")
    path = os.fspath(path)
    if path.endswith(".onnx"):
        raise UsageError(f"{path} is by its name no model of Kaldi's", f"nnet3py.from_onnx({path!r})")
    if not os.path.isdir(path):
        return path
    candidates = (os.path.join(path, name) for name in _MODELS)
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), path)


def is_published(folder: str) -> bool:
    """Whether a folder has the layout in which models are published for vosk."""
    return os.path.isfile(os.path.join(folder, _PUBLISHED, "final.mdl"))


def is_old_published(folder: str) -> bool:
    """Whether a folder has the layout of old models of vosk, all files in one folder."""
    return _has(folder, "mfcc.conf") and _has(folder, "HCLG.fst", "HCLr.fst") and not (
        is_published(folder) or _has(folder, ONLINE_CONF))


def subsampling_of_folder(folder: str) -> int | None:
    """Frames of input for each row of output, as the folder of a model says; None if it says nothing.

    Options of decoding come first, in the order in which the recognizer takes them: ``conf/model.conf``, then
    ``conf/online.conf``; then the file ``frame_subsampling_factor``; then what old models of vosk mean.

    Raises
    ------
    FormatError : one of them holds anything but a number of 1 or more; UsageError for a conf file that holds no options
    """
    conf = next((name for name in MODEL_CONFS if _has(folder, name)), None)
    confs = [conf, None if is_published(folder) else ONLINE_CONF]
    for path in (os.path.join(folder, name) for name in confs if name and _has(folder, name)):
        values = dict(split(text) for line in read_option_lines(path) for text in option_texts(line.text))
        if _SUBSAMPLING in values:
            return _number(values[_SUBSAMPLING] or "", path)
    for path in (os.path.join(folder, name) for name in (_SUBSAMPLING_FILE, f"{_PUBLISHED}/{_SUBSAMPLING_FILE}")):
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                return _number(file.read(100).strip(), path)
    return OLD_PUBLISHED_SUBSAMPLING if is_old_published(folder) else None


def subsampling_beside(path: str | None) -> int:
    """Frames of input for each row of output, as the folder of a model says; 1 if it says nothing.

    Parameters
    ----------
    path : the model's file, or any other rxfilename, or None

    Raises as :func:`subsampling_of_folder`.
    """
    if path is None or not os.path.isfile(path):
        return 1
    folder = os.path.dirname(os.path.abspath(path))
    above, name = os.path.split(folder)
    return subsampling_of_folder(above if name == _PUBLISHED else folder) or 1


def _has(folder: str, *names: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


def _number(text: str, path: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= LARGEST_SUBSAMPLING):
        raise FormatError(f"expected a number of 1 or more, found {text[:40]!r}", path=path,
                          hint="give frame_subsampling_factor, or mend the file")
    return int(text)
