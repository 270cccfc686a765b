"""Folder of a training: models, lock, and the record of the options with which it was begun."""
from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from nnet3py import system
from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io import temporary_files
from nnet3py.io.streams import write_text
from nnet3py.report.training_logs import LOCK, RECORD


class FolderInUse(Nnet3Error):
    """Error: another driver trains in the folder."""


class FolderLock:
    """Lock on a folder against other drivers; a context manager.

    The system lets go of the lock when its holder dies, however it dies. Raises FolderInUse.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._stream: IO[str] | None = None

    def __enter__(self) -> FolderLock:
        stream = open(self.path, "a+", encoding="utf-8")
        if not system.lock_open_file(stream.fileno()):
            stream.seek(0)
            holder = stream.read().strip() or "an unknown process"
            stream.close()
            raise FolderInUse(f"{self.path.parent} is being trained in already, by {holder}",
                              "wait for it, or end it; a training goes on where it was ended")
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {system.host_name()}\n")
        stream.flush()
        self._stream = stream
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        assert self._stream is not None
        self._stream.truncate(0)
        self._stream.close()


class TrainingFolder:
    """Files of a training.

    Parameters
    ----------
    path : folder, as the user named it; commands name it the same way
    suffix : suffix of models, ``raw`` or ``mdl``
    """

    def __init__(self, path: str, suffix: str) -> None:
        self.path, self.suffix = Path(path), suffix

    def model(self, which: int | str) -> Path:
        """Return the file of model ``which``: a number, ``combined`` or ``final``."""
        return self.path / f"{which}.{self.suffix}"

    def log(self, name: str) -> Path:
        """Return the log ``name``, without ``.log``."""
        return self.path / "log" / f"{name}.log"

    @property
    def configs(self) -> Path:
        """Folder that xconfig-to-configs wrote."""
        return self.path / "configs"

    def has_model(self, which: int | str) -> bool:
        """Return whether a model exists and is not empty; it is complete then, as commands rename complete files."""
        try:
            return self.model(which).stat().st_size > 0
        except OSError:
            return False

    def last_model(self) -> int:
        """Return the greatest number of a model; -1 if there is none."""
        names = (re.fullmatch(rf"([0-9]+)\.{self.suffix}", file.name) for file in self.path.iterdir())
        return max((int(name_match[1]) for name_match in names if name_match and self.has_model(int(name_match[1]))),
                   default=-1)

    def remove_job_models(self, iteration: int) -> None:
        """Remove the networks that the jobs of an iteration wrote, after their average was made."""
        for file in self.path.glob(f"{iteration + 1}.*.raw"):
            if re.fullmatch(rf"{iteration + 1}\.([0-9]+|best)\.raw", file.name):
                file.unlink(missing_ok=True)
        (self.path / f"cache.{iteration}").unlink(missing_ok=True)

    def remove_temporary(self) -> None:
        """Remove temporary files of programs that were killed."""
        for file in self.path.iterdir():
            if temporary_files.NAME.fullmatch(file.name):
                file.unlink(missing_ok=True)

    # -- options -------------------------------------------------------------------------------------------------------

    def record(self, values: Mapping[str, Any]) -> None:
        """Record the options on which the models depend."""
        write_text(str(self.path / RECORD), json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False) + "\n")

    def recorded(self) -> dict[str, Any] | None:
        """Read the recorded options; None without a record, FormatError for an unreadable one."""
        try:
            text = (self.path / RECORD).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot be read: {error}", path=str(self.path / RECORD)) from error
        try:
            options = json.loads(text)
        except ValueError as error:
            raise FormatError(f"not what a driver wrote: {error}", path=str(self.path / RECORD),
                              hint="remove the file, and say with --stage where to go on") from error
        if not isinstance(options, dict):
            raise FormatError("expected the options of a training", path=str(self.path / RECORD))
        return options


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the differences between two records of options, as far as both have an option."""
    after = json.loads(json.dumps(dict(now)))       # tuples become lists, as in the record
    return [f"{name} was {_shown(before[name])} and is {_shown(after[name])}"
            for name in sorted(before) if name in after and before[name] != after[name]]


def _shown(value: Any) -> str:
    return "unset" if value is None or value == [] else " ".join(value) if isinstance(value, list) else str(value)


def read_vars(folder: TrainingFolder) -> dict[str, str]:
    """Read ``configs/vars``, lines of ``name=value``; names of contexts become those of today's xconfig-to-configs.

    Raises UsageError if there are no configs, FormatError if the file is malformed.
    """
    path = folder.configs / "vars"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", f"make the network's configs first: xconfig-to-configs "
                                                   f"--xconfig-file=… --config-dir={folder.configs}") from None
    values = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if line.strip():
            if not equals:
                raise FormatError(f"expected name=value, found {line!r}", path=str(path))
            values[name if name.startswith("model_") or "context" not in name else f"model_{name}"] = value
    if int(values.get("num_hidden_layers", "1") or 1) > 1:
        raise FormatError("num_hidden_layers above 1: networks that grow layer by layer are not trained any more",
                          path=str(path))
    return values


def context_from_vars(folder: TrainingFolder) -> tuple[int, int]:
    """Return the network's left and right context, in frames."""
    values = read_vars(folder)
    try:
        return int(values["model_left_context"]), int(values["model_right_context"])
    except (KeyError, ValueError) as error:
        raise FormatError(f"expected model_left_context and model_right_context, numbers ({error})",
                          path=str(folder.configs / "vars")) from None


__all__ = ["FolderInUse", "FolderLock", "TrainingFolder", "context_from_vars", "differences", "read_vars"]
