"""Paths of model files in model folders, and the frame subsampling factor stored in a folder. Light."""
from __future__ import annotations

import os

from nnet3py.errors import FormatError, UsageError
from nnet3py.option_file import option_texts, read_option_lines, split

LARGEST_SUBSAMPLING = 1000
_SUBSAMPLING = "frame-subsampling-factor"
_SUBSAMPLING_FILE = "frame_subsampling_factor"       # written beside a chain model in training
_PUBLISHED = "am"                                    # folder of the network in models published for vosk
_MODELS = ("am/final.mdl", "final.mdl", "final.raw")
MODEL_CONFS = ("conf/model.conf", "model.conf")
ONLINE_CONF = "conf/online.conf"
OLD_PUBLISHED_SUBSAMPLING = 3                        # vosk's, for old models whose files lie in one folder


def model_in(path: str | os.PathLike[str]) -> str:
    """Return the path of the acoustic model in a model folder, or else of its raw network; other paths are unchanged.

    Raises UsageError for something other than a path, or the path of an ONNX file.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the path of a model, found {type(path).__name__}")
    path = os.fspath(path)
    if path.endswith(".onnx"):
        raise UsageError(f"{path} has the name of an ONNX file, expected a Kaldi model", f"nnet3py.from_onnx({path!r})")
    if not os.path.isdir(path):
        return path
    candidates = (os.path.join(path, name) for name in _MODELS)
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), path)


def is_published(folder: str) -> bool:
    """Return whether a folder has the layout in which models are published for vosk."""
    return os.path.isfile(os.path.join(folder, _PUBLISHED, "final.mdl"))


def is_old_published(folder: str) -> bool:
    """Return whether a folder has the layout of vosk's old models, with all files in one folder."""
    return _has(folder, "mfcc.conf") and _has(folder, "HCLG.fst", "HCLr.fst") and not (
        is_published(folder) or _has(folder, ONLINE_CONF))


def subsampling_of_folder(folder: str) -> int | None:
    """Return the frame subsampling factor of a model folder, input frames per output row; None if it is not stored.

    It is looked up in the options of decoding, ``conf/model.conf``, then ``conf/online.conf``; then in the file
    ``frame_subsampling_factor``; vosk's old models have the factor 3. Raises FormatError for a factor that is not a
    number of 1 or more, and UsageError for a conf file with lines that are no options.
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
    """Return the frame subsampling factor of the folder that a model file is in; 1 if it is not stored.

    ``path`` may be any rxfilename, or None. Raises as :func:`subsampling_of_folder`.
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
                          hint="give frame_subsampling_factor, or correct the file")
    return int(text)
