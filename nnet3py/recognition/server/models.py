"""The models of a server by name, which are read again when their files have changed."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.model_place import is_old_published, is_published
from nnet3py.recognition.model_folder import Stamp, language_of, stamp


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that is served."""

    name: str                   # name of its folder, by which clients ask for it
    recognizer: Any             # factory of streams, such as :class:`~nnet3py.recognition.recognizer.Recognizer`
    stamp: Stamp = frozenset()  # state of its files when they were read, to notice changes


@dataclass(frozen=True)
class ServedModels:
    """Models by name, from which clients choose; a client that names no model gets the first."""

    by_name: Mapping[str, ServedModel] = field(default_factory=dict)

    @property
    def default(self) -> ServedModel | None:
        """First model; None if there are none."""
        return next(iter(self.by_name.values()), None)

    def named(self, name: str) -> ServedModel | None:
        """Return the model with a name, or the first of a language, such as ``ko``, by vosk's names; None for none.

        If ``name`` is a path, as clients of vosk-server send it, its last part is the name.
        """
        name = name.rstrip("/").rpartition("/")[2]
        of_language = (model for model in self.by_name.values() if name and language_of(model.name) == name)
        return self.by_name.get(name) or next(of_language, None)


class Reloaded(NamedTuple):
    """The outcome of reading models again."""

    models: ServedModels  # those after reading
    changes: list[str]    # messages about changed models
    problems: list[str]   # messages about models that could not be read, which stay as they were


class ModelLoader:
    """A loader of the models of a server.

    Parameters
    ----------
    paths : model folders (or acoustic models in them), or folders that contain model folders
    read : function that reads the model of a folder, and raises Nnet3Error
    files : function that returns all files of a model, also those outside its folder
    default : name of the model for clients that name none; empty: the first model

    Attributes
    ----------
    models : ServedModels
    """

    def __init__(self, paths: Sequence[str], read: Callable[[str], Any],
                 files: Callable[[str], Iterable[str]], default: str = "") -> None:
        self._paths, self._read, self._files, self._default = tuple(paths), read, files, default
        self.models = ServedModels()

    def load(self) -> None:
        """Read all models. Raises Nnet3Error if a model cannot be read, or if two models have the same name."""
        places = model_places(self._paths)
        if self._default and self._default not in places:
            raise UsageError(f"--default-model={self._default}: expected one of {', '.join(places)}")
        self.models = self._in_order({name: self._served(name, path) for name, path in places.items()})

    def reload(self) -> Reloaded:
        """Read changed and new models, and drop models whose folders are gone.

        A model that cannot be read stays as it was. Nothing is raised.
        """
        before, after = self.models.by_name, {}
        changes: list[str] = []
        problems: list[str] = []
        try:
            places = model_places(self._paths, before)
        except (Nnet3Error, OSError) as error:
            return Reloaded(self.models, [], [str(error)])
        for name, path in places.items():
            try:
                after[name] = self._served(name, path, before.get(name))
            except Exception as error:         # a file that is half written can raise anything
                problem = str(error) if isinstance(error, Nnet3Error) else f"{type(error).__name__}: {error}"
                problems.append(f"model {name}: {problem}")
                if name in before:
                    after[name] = before[name]
        if self._default and self._default not in after:
            problems.append(f"model {self._default}, the default, is gone from {', '.join(self._paths)}")
            after[self._default] = before[self._default]
        for name in sorted({*before, *after}):
            if before.get(name) is not after.get(name):
                changes.append(f"model {name} is " + ("no longer there" if name not in after else "new"
                                                      if name not in before else "read again"))
        self.models = self._in_order(after)
        return Reloaded(self.models, changes, problems)

    def _served(self, name: str, path: str, before: ServedModel | None = None) -> ServedModel:
        """Return the model in a folder: ``before`` if its files have not changed, else read from its files."""
        now = stamp(self._files(path))
        if before is not None and now == before.stamp:
            return before
        return ServedModel(name, self._read(path), now)

    def _in_order(self, models: dict[str, ServedModel]) -> ServedModels:
        """Return ``models`` with the default model first."""
        first = {self._default: models[self._default]} if self._default else {}
        return ServedModels({**first, **models})


def model_places(paths: Sequence[str], expected: Iterable[str] = ()) -> dict[str, str]:
    """Find models; return their paths by name. A folder in ``paths`` that is no model stands for the models in it.

    ``paths``: folders, or acoustic models in model folders. ``expected``: names of models that were served before: a
    folder with such a name counts as a model in any case.

    Hidden folders are left out. Raises UsageError for two models of the same name.
    """
    places: dict[str, str] = {}
    for path in paths:
        inside = {} if _is_model(path) else {
            name: folder for name, folder in _folders_in(path).items() if _is_model(folder) or name in expected}
        for name, place in (inside or {_name(path): path}).items():
            if name in places:
                raise UsageError(f"two models have the name {name}, {places[name]} and {place}",
                                 "clients ask for them by the names of their folders")
            places[name] = place
    return places


def _is_model(path: str) -> bool:
    return os.path.isfile(path) or is_published(path) or is_old_published(path) or os.path.isfile(
        os.path.join(path, "final.mdl"))


def _folders_in(path: str) -> dict[str, str]:
    if not os.path.isdir(path):
        return {}
    names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    return {name: folder for name in names if os.path.isdir(folder := os.path.join(path, name))}


def _name(path: str) -> str:
    """Return the name of a model's folder: the last part of its path, without following links."""
    path = os.path.abspath(path)
    return os.path.basename(os.path.dirname(path) if os.path.isfile(path) else path)
