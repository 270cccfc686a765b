"""Which sounds are to be transcribed, and where their results go."""
from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nnet3py.errors import UsageError
from nnet3py.io.streams import read_lines
from nnet3py.recognition.sound import ENDINGS, STANDARD_INPUT

logger = logging.getLogger(__name__)


class Listed(NamedTuple):
    """A file of sound, and the name of its result, without ending: of a folder's files with the folders below it."""

    path: str
    name: str


def find_sounds(paths: Iterable[str], names_differ: bool = True) -> list[Listed]:
    """Return files, and all files of sound in folders and below, by their endings; each once, in order.

    What is passed over in a folder is logged: how many files of each ending, and files that are listed already.
    UsageError for what is not there, for folders without sounds, and, if ``names_differ``, where two results would have
    the same name.
    """
    sounds: dict[str, Listed] = {}
    for path in paths:
        for listed in _in_folder(path) if os.path.isdir(path) else [_file(path)]:
            first = sounds.setdefault(os.path.realpath(listed.path) if listed.path != STANDARD_INPUT else "", listed)
            if first.path != listed.path:
                logger.info("%s is passed over: it is the same file as %s", listed.path, first.path)
    return _with_own_names(list(sounds.values())) if names_differ else list(sounds.values())


def listed_sounds(lines: Iterable[str]) -> list[Listed]:
    """Return the files that a list names, a line each, in order; each once, empty lines left out.

    Results have the names of the files with their folders, as the list has them, so that files of the same name in
    different folders differ. UsageError for an empty list, and if two results would have the same name all the same. A
    file that is not there is noticed when its turn comes.
    """
    paths = list(dict.fromkeys(line.rstrip("\r") for line in lines if line.strip()))
    if not paths:
        raise UsageError("the list of files of sound is empty")
    if STANDARD_INPUT in paths:
        raise UsageError("a list of files of sound names standard input (-)", "name files")
    return _with_own_names([Listed(path, _stem(_within(path))) for path in paths])


def _within(path: str) -> str:
    """A path without what leads out of a folder that it is joined to."""
    parts = os.path.splitdrive(os.path.normpath(path))[1].split(os.sep)
    return os.path.join(*(part for part in parts if part not in ("", os.pardir)))


def _file(path: str) -> Listed:
    if path == STANDARD_INPUT:
        return Listed(path, "standard-input")
    if not os.path.isfile(path):
        raise UsageError(f"there is no file or folder {path}")
    return Listed(path, _stem(os.path.basename(path)))


def _in_folder(folder: str) -> list[Listed]:
    sounds = []
    skipped: Counter[str] = Counter()
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if not os.path.isfile(path):
                skipped["not plain files, or links to nothing"] += 1
            elif name.lower().endswith(ENDINGS):
                sounds.append(Listed(path, _stem(os.path.relpath(path, folder))))
            else:
                ending = os.path.splitext(name)[1].lower()
                skipped[f"with the ending {ending}" if ending else "without an ending"] += 1
    if skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
        logger.info("Files in %s that are passed over, since they are not sound by their names: %s", folder, kinds)
    if not sounds:
        raise UsageError(f"the folder {folder} has no files of sound", f"they end in {', '.join(ENDINGS)}")
    return sounds


def _stem(name: str) -> str:
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in ENDINGS else name


def _with_own_names(sounds: list[Listed]) -> list[Listed]:
    of_name: dict[str, str] = {}
    for path, name in sounds:
        if name in of_name:
            raise UsageError(f"the results of {of_name[name]} and {path} would have the same name, {name}",
                             "rename one of them, or transcribe them into different folders")
        of_name[name] = path
    return sounds


def to_do(sounds: Sequence[Listed], folder: str, ending: str) -> list[Listed]:
    """Those that have no result in a folder that is as new as the sound."""
    def is_done(sound: Listed) -> bool:
        try:
            return os.path.getmtime(result_path(sound, folder, ending)) >= os.path.getmtime(sound.path)
        except OSError:
            return False

    return [sound for sound in sounds if not is_done(sound)]


def result_path(sound: Listed, folder: str, ending: str) -> str:
    """The file for a result."""
    return os.path.join(folder, sound.name + ending)


def split(sounds: Sequence[Listed], count: int) -> list[list[Listed]]:
    """At most ``count`` lists of about the same number of bytes, none of them empty."""
    sizes = [0] * count
    lists: list[list[Listed]] = [[] for _ in range(count)]
    for sound in sorted(sounds, key=lambda sound: -os.path.getsize(sound.path)):
        least = min(range(count), key=sizes.__getitem__)
        lists[least].append(sound)
        sizes[least] += max(1, os.path.getsize(sound.path))
    return [part for part in lists if part]


def write_list(sounds: Sequence[Listed], path: str) -> None:
    """Write a list of sounds for another process. UsageError for a name with a line end in it."""
    lines = [field for sound in sounds for field in sound]
    if any("\n" in field or "\r" in field for field in lines):
        raise UsageError("a file of sound has a line end in its name", "rename it, or use one job")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write("".join(f"{field}\n" for field in lines))


def read_list(path: str) -> list[Listed]:
    """What :func:`write_list` wrote."""
    lines = read_lines(path)
    if len(lines) % 2:
        raise UsageError(f"{path} is not a list of sounds with names: it has {len(lines)} lines")
    return [Listed(*pair) for pair in zip(lines[::2], lines[1::2], strict=True)]
