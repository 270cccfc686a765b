"""The models of a server: which there are by name, and reading them again when their files have changed. Light."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.network.model_place import is_old_published, is_published
from nnet3py.recognition.find_model import language_of

_Stamp = frozenset[tuple[str, int, int, int]]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model that is served.

    Attributes
    ----------
    name : by which clients ask for it: that of its folder
    recognizer : what begins streams, such as a :class:`~nnet3py.recognition.recognizer.Recognizer`
    stamp : what its files were when they were read; by it changes are noticed
    """

    name: str
    recognizer: Any
    stamp: _Stamp = frozenset()


@dataclass(frozen=True)
class ServedModels:
    """The models that clients may choose from, by name; the first is that of clients that name none."""

    by_name: Mapping[str, ServedModel] = field(default_factory=dict)

    @property
    def default(self) -> ServedModel | None:
        """The first; None if there are none."""
        return next(iter(self.by_name.values()), None)

    def named(self, name: str) -> ServedModel | None:
        """The model of a name; else the first published one of a language, such as ``ko``; None if there is none.

        Clients of vosk-server give the path of a folder, of which the last part counts: nothing else is looked at.
        """
        name = name.rstrip("/").rpartition("/")[2]
        of_language = (model for model in self.by_name.values() if name and language_of(model.name) == name)
        return self.by_name.get(name) or next(of_language, None)


class Reloaded(NamedTuple):
    """What came of reading models again.

    Attributes
    ----------
    models : those to be served from now on
    changes : what is different, a line each
    problems : why models could not be read, a line each; where they were served before, they still are
    """

    models: ServedModels
    changes: list[str]
    problems: list[str]


class ModelLoader:
    """Reads the models of a server.

    Parameters
    ----------
    paths : model folders (or acoustic models in them), or folders that have model folders in them
    read : reads the model of a folder. Raises Nnet3Error
    files : names all the files that it is read from, also such as are elsewhere
    default : the name of the model of clients that name none; empty: the first

    Attributes
    ----------
    models : those that were read
    """

    def __init__(self, paths: Sequence[str], read: Callable[[str], Any],
                 files: Callable[[str], Iterable[str]], default: str = "") -> None:
        self._paths, self._read, self._files, self._default = tuple(paths), read, files, default
        self.models = ServedModels()

    def load(self) -> None:
        """Read all of them. Nnet3Error if one cannot be read, or if two have the same name."""
        places = model_places(self._paths)
        if self._default and self._default not in places:
            raise UsageError(f"--default-model={self._default}: expected one of {', '.join(places)}")
        self.models = self._in_order({name: self._served(name, path) for name, path in places.items()})

    def reload(self) -> Reloaded:
        """Read those again whose files have changed, read new ones, drop those whose folders are gone.

        What cannot be read is served as it was before. Nothing is raised.
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
            except Exception as error:         # a file that is half written can be anything
                what = str(error) if isinstance(error, Nnet3Error) else f"{type(error).__name__}: {error}"
                problems.append(f"model {name}: {what}")
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
        """The model of a folder, or the one from before if its files are the same."""
        now = stamp(self._files(path))
        if before is not None and now == before.stamp:
            return before
        return ServedModel(name, self._read(path), now)

    def _in_order(self, models: dict[str, ServedModel]) -> ServedModels:
        """The default first."""
        first = {self._default: models[self._default]} if self._default else {}
        return ServedModels({**first, **models})


def model_places(paths: Sequence[str], expected: Iterable[str] = ()) -> dict[str, str]:
    """Names of models and where they are: for each path itself or, if it is no model, for the folders in it.

    Parameters
    ----------
    paths : folders, or acoustic models in model folders
    expected : names of models that were there before: folders of these names count as models whatever is in them

    Hidden folders are passed over. UsageError if two models have the same name.
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
    """The name of a model's folder, as it was given: a link has its own."""
    path = os.path.abspath(path)
    return os.path.basename(os.path.dirname(path) if os.path.isfile(path) else path)


def stamp(files: Iterable[str]) -> _Stamp:
    """Return what changes if a file is written or replaced. OSError if one is not there."""
    states = []
    for file in files:
        state = os.stat(file)
        states.append((file, state.st_size, state.st_mtime_ns, state.st_ino))
    return frozenset(states)
