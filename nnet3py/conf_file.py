"""The conf files of model folders: options with their values, and the files that they name.

An option that nothing here knows is refused by name; one that is known has a value of the type of its default.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from nnet3py import option_file
from nnet3py.errors import Nnet3Error, UsageError

_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}


def read_conf(path: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a file gives, by name. A line may hold more than one, as in ``splice_opts``.

    Parameters
    ----------
    defaults : the options that there are, with their defaults

    Raises UsageError for another option or a value of another type, saying where.
    """
    values = {}
    for number, line in option_file.read_option_lines(path):
        for text in option_file.option_texts(line):
            name, value = option_file.split(text)
            try:
                values[name] = checked_value(name, value, defaults)
            except UsageError as error:
                raise UsageError(f"{error.message} [{path}, line {number}]", error.hint) from None
    return values


def checked_value(name: str, text: str | None, defaults: Mapping[str, Any]) -> Any:
    """Return the value of one option. UsageError for one that is not known, or a value of another type than its default."""
    if name not in defaults:
        close = get_close_matches(name, defaults, 1)
        raise UsageError(f"--{name} is not an option here",
                         f"did you mean --{close[0]}?" if close else "remove it if the model works without")
    kind = type(defaults[name])
    if kind is str:
        return text or ""
    value = (option_file.boolean("true" if text is None else text) if kind is bool
             else option_file.integer(text or "") if kind is int else option_file.real(text or ""))
    if value is None:
        raise UsageError(f"--{name}={text or ''}: expected {_KINDS[kind]}")
    return value


def find_file(name: str, folder: str) -> str:
    """Return the file that a conf file of a model folder names.

    Kaldi takes such names as relative to the working directory; where that has no such file, it is looked for in the
    model folder: under the whole name, then without its first folders one after the other. So a model that was moved,
    or copied from another machine, still works. Raises Nnet3Error if there is none.
    """
    if os.path.isfile(name):
        return name
    parts = os.path.normpath(name).lstrip(os.sep).split(os.sep)
    for first in range(len(parts)):
        candidate = os.path.join(folder, *parts[first:])
        if parts[first] != os.pardir and os.path.isfile(candidate):
            return candidate
    raise Nnet3Error(f"there is no file {name}, neither from the working directory nor in {folder}",
                     "names in conf files are relative to the working directory, or to the model folder")
