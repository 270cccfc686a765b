"""Finding published models by name or language in the folders where vosk looks. Nothing is downloaded. Light."""
from __future__ import annotations

import os
import re
from pathlib import Path

from nnet3py.errors import Nnet3Error

_VARIABLE = "VOSK_MODEL_PATH"
_PREFIX = "vosk-model"
_LIST = "https://alphacephei.com/vosk/models"
_LANGUAGE = re.compile(r"vosk-model(?:-small)?-([a-z]{2}(?:-[a-z]{2})?)(?:-|$)")


def model_places() -> list[Path]:
    """The folders that models lie in: ``$VOSK_MODEL_PATH``, the system's, the user's; those that there are."""
    given = os.environ.get(_VARIABLE)
    places = [Path(given)] if given else []
    places += [Path("/usr/share/vosk"), Path.home() / "AppData/Local/vosk", Path.home() / ".cache/vosk"]
    return [place for place in places if place.is_dir()]


def models() -> list[Path]:
    """All model folders in those places; small ones before others of the same place, then by name."""
    folders: list[Path] = []
    for place in model_places():
        inside = [path for path in place.iterdir() if path.name.startswith(_PREFIX) and path.is_dir()]
        folders += sorted(inside, key=lambda path: (not path.name.startswith(f"{_PREFIX}-small"), path.name))
    return folders


def languages() -> list[str]:
    """The languages of these models, such as ``ko`` or ``en-us``."""
    return sorted(filter(None, {language_of(path.name) for path in models()}))


def language_of(name: str) -> str:
    """The language that a published model's name says, such as ``ko``; empty for another name."""
    match = _LANGUAGE.match(name)
    return match[1] if match else ""


def find_model(lang: str | None = None, name: str | None = None) -> str:
    """The folder of a model.

    Parameters
    ----------
    lang : a language, such as ``ko`` or ``en-us``: the first model of it, a small one if there is one
    name : a name, such as ``vosk-model-small-ko-0.22``, which wins over ``lang``

    Raises Nnet3Error that says what to fetch and where to put it. vosk: Model.get_model_path.
    """
    for place in model_places():
        if name is not None and (place / name).is_dir():
            return str(place / name)
    pattern = re.compile(rf"vosk-model(-small)?-{re.escape(lang or '')}")
    of_language = [str(path) for path in models() if name is None and lang and pattern.match(path.name)]
    if of_language:
        return of_language[0]
    what = f"named {name}" if name is not None else f"of the language '{lang}'"
    there = ", ".join(path.name for path in models()) or "none"
    target = os.environ.get(_VARIABLE) or str(Path.home() / ".cache" / "vosk")
    raise Nnet3Error(
        f"there is no model {what}; found {there}, in {', '.join(map(str, model_places())) or 'no folder'}",
        f"fetch {name or f'vosk-model-small-{lang}'} from {_LIST} and unpack it in {target}: nothing is downloaded")
