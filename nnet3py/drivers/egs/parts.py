"""Steps of making examples, parts of the data, archives, and pipes of features and i-vectors.

A step may be killed at any moment and started again: it leaves a mark, an empty file, when it is complete. The command
of a job makes its mark itself, right after its output was renamed to the final name; so no work is done twice, nor
taken for complete when it is not.
"""
from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from nnet3py import system
from nnet3py.drivers.egs.data_folder import DataFolder, select, spk2utt, table_dim, write_list
from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.errors import FormatError, UsageError
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

MOST_OPEN_FILES = 512
_OTHER_FILES = 4                  # open files of a program besides its archives
_LEAST_PART = 10                  # of little data every N-th utterance is held out


# -- which utterances --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subsets:
    """Utterances by use, each sorted as the data is.

    Attributes
    ----------
    valid : held out from training
    train_diagnostic : some of ``training``, for diagnostics and for combining models
    training : all others than ``valid``
    """

    valid: list[str]
    train_diagnostic: list[str]
    training: list[str]


def choose_subsets(utterances: Sequence[str], utt2uniq: Mapping[str, str], size: int, seed: int,
                   held_out: Collection[str] = ()) -> Subsets:
    """Choose ``size`` utterances to hold out, and as many others for diagnostics; fewer if there are few.

    Perturbed copies (those with the same ``utt2uniq``) are held out together, and counted as one. ``held_out``: which
    ones to hold out, if that is given. UsageError for fewer than 3 utterances, and if ``held_out`` is none or all of
    them. Kaldi: valid_uttlist and train_subset_uttlist; it demands more than 4 times ``size``.
    """
    groups: dict[str, list[str]] = {}
    for utterance in utterances:
        groups.setdefault(utt2uniq.get(utterance, utterance), []).append(utterance)
    random = Random(seed)
    if held_out:
        chosen = {utt2uniq.get(utterance, utterance) for utterance in held_out} & set(groups)
        if not chosen or len(chosen) == len(groups):
            raise UsageError(f"the list of utterances to hold out has {len(chosen)} of {len(groups)}",
                             "it must have some of them, but not all")
    else:
        if size < 1 or len(groups) < 3:
            raise UsageError(f"{len(groups)} different utterances, of which {size} are to be held out: expected 3 or "
                             "more, of which 1 or more is held out")
        if len(groups) <= 4 * size:
            fewer = max(1, min(size, len(groups) // _LEAST_PART))
            logger.info("There are only %d different utterances: %d of them are held out, and %d used for "
                        "diagnostics, instead of %d each", len(groups), fewer, fewer, size)
            size = fewer
        chosen = set(random.sample(sorted(groups), size))
    valid = [utterance for name in chosen for utterance in groups[name]]
    training = sorted(set(utterances) - set(valid))
    diagnostic = random.sample(training, min(size, len(training)))

    def in_order(chosen: Sequence[str]) -> list[str]:
        wanted = set(chosen)
        return [utterance for utterance in utterances if utterance in wanted]

    return Subsets(in_order(valid), in_order(diagnostic), in_order(training))


def split(utterances: Sequence[str], utt2spk: Mapping[str, str], num_parts: int, by_speaker: bool) -> list[list[str]]:
    """Cut a list into at most ``num_parts`` parts of about the same length, at speakers' borders if there are enough.

    ``by_speaker``: cut only there, which may give fewer parts. Kaldi: split_data.sh.
    """
    groups = [list(group) for group in spk2utt(select(utt2spk, utterances)).values()]
    if not by_speaker and len(groups) < num_parts:
        groups = [[utterance] for utterance in utterances]
    parts: list[list[str]] = [[] for _ in range(min(num_parts, len(groups)))]
    done = 0
    for number, group in enumerate(groups):
        # Each part gets at least one group, and what follows must suffice for the parts that follow.
        part = min(max(done * len(parts) // len(utterances), len(parts) - len(groups) + number), number)
        parts[part] += group
        done += len(group)
    return [part for part in parts if part]


# -- archives ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArchivePlan:
    """Into how many archives examples go.

    Attributes
    ----------
    num_archives : in the end; ``num_intermediate`` × ``multiple``
    num_intermediate : that a job writes at once; each is later spread over ``multiple`` archives
    multiple : 1 if there are few enough archives that all can be open at once
    """

    num_archives: int
    num_intermediate: int
    multiple: int

    @property
    def intermediates(self) -> range:
        """The numbers of the intermediate archives."""
        return range(1, self.num_intermediate + 1)

    def finals(self, intermediate: int) -> list[int]:
        """Return the archives, from 1, over which intermediate archive ``intermediate``, from 1, is spread."""
        return list(range((intermediate - 1) * self.multiple + 1, intermediate * self.multiple + 1))


def plan_archives(wanted: int, most_open_files: int | None = None) -> ArchivePlan:
    """Plan at least ``wanted`` archives; ``most_open_files`` can be open at a time (None: the system's limit).

    UsageError if the limit is too low to write any.
    """
    limit = most_open_files or min(MOST_OPEN_FILES, system.open_file_limit() or MOST_OPEN_FILES)
    if limit < _OTHER_FILES + 2:
        raise UsageError(f"only {limit} files can be open at once: expected {_OTHER_FILES + 2} or more",
                         "raise the limit with ulimit -n")
    multiple, intermediate = 1, wanted
    while intermediate + _OTHER_FILES > limit:
        multiple += 1
        intermediate = wanted // multiple + 1
    return ArchivePlan(multiple * intermediate, intermediate, multiple)


# -- features ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ivectors:
    """Online iVectors: the folder that has ivector_online.scp, ivector_period and final.ie.id."""

    folder: Path
    dim: int
    period: int
    extractor_id: str | None

    @classmethod
    def read(cls, folder: str | Path) -> Ivectors:
        """Raise FormatError if something is missing or cannot be read."""
        check_plain("the folder", folder)
        path = Path(folder)
        for name in ("ivector_online.scp", "ivector_period"):
            if not (path / name).is_file():
                raise FormatError(f"expected a folder of online iVectors, but it has no {name}", path=str(folder))
        text = (path / "ivector_period").read_text(encoding="utf-8", errors="replace").strip()
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 1_000_000):
            raise FormatError(f"expected a number of frames, found {text[:40]!r}", path=str(path / "ivector_period"))
        identity = path / "final.ie.id"
        return cls(path, table_dim(f"scp:{path}/ivector_online.scp"), int(text),
                   identity.read_text(encoding="utf-8").strip() if identity.is_file() else None)

    @property
    def options(self) -> list[str]:
        """Options of the programs that make examples."""
        return [f"--online-ivectors=scp:{self.folder}/ivector_online.scp", f"--online-ivector-period={self.period}"]


@dataclass(frozen=True)
class Features:
    """Pipes that read the features of examples, normalized by speaker or online.

    Attributes
    ----------
    data : the data directory
    cmvn_opts : options of apply-cmvn, or apply-cmvn-online
    online_cmvn : whether frames are normalized with what came before them
    folder : of the examples, which gets lists for each part, and the global statistics
    """

    data: DataFolder
    cmvn_opts: str
    online_cmvn: bool
    folder: Path

    @property
    def need(self) -> list[str]:
        """Lists that the data directory must have."""
        needs_means = self.online_cmvn or "--norm-means=false" not in self.cmvn_opts.split()
        return ["cmvn.scp"] if needs_means else []

    @property
    def global_stats_command(self) -> str:
        """Command that sums the statistics of all speakers, for online normalization."""
        return (f"matrix-sum --binary=false scp:{self.data.path}/cmvn.scp {self.folder}/global_cmvn.stats")

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        """Write the lists of some utterances that :meth:`rspecifier` reads."""
        path = self.folder / "split" / name
        path.mkdir(parents=True, exist_ok=True)
        write_list(path / "feats.scp", select(self.data.feats, utterances))
        speakers = spk2utt(select(self.data.utt2spk, utterances))
        write_list(path / "spk2utt", {speaker: " ".join(keys) for speaker, keys in speakers.items()})

    def rspecifier(self, name: str) -> str:
        """Return the rspecifier of the features of a part that was written."""
        part, data = self.folder / "split" / name, self.data.path
        if self.online_cmvn:
            words = ["apply-cmvn-online", self.cmvn_opts, f"--spk2utt=ark:{part}/spk2utt",
                     f"{self.folder}/global_cmvn.stats"]
        else:
            words = ["apply-cmvn", self.cmvn_opts, f"--utt2spk=ark:{data}/utt2spk", f"scp:{data}/cmvn.scp"]
        return f"ark,s,cs:{' '.join(filter(None, words))} scp:{part}/feats.scp ark:- |"


_SETTINGS = "settings.json"


class Steps:
    """Marks of a folder in which something is made in steps.

    Parameters
    ----------
    folder : folder of the work; marks are in ``.steps`` in it
    settings : all values on which the result depends; with other ones everything is made again
    stage : steps of lower numbers count as complete, as with ``--stage`` of Kaldi's scripts
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], stage: int = 0) -> None:
        self.folder, self.stage = folder, stage
        self._marks = folder / ".steps"
        text = json.dumps(dict(settings), sort_keys=True, indent=1) + "\n"
        before = self._marks / _SETTINGS
        if self._marks.is_dir() and (not before.is_file() or before.read_text(encoding="utf-8") != text):
            if before.is_file():
                logger.info("%s was begun with other settings or data; it is made again", folder)
            self.clear()
        if not self._marks.is_dir():
            self._marks.mkdir(parents=True)
            write_text(str(before), text)

    def is_done(self, name: str) -> bool:
        """Return whether step ``name`` is complete."""
        return (self._marks / name).exists()

    def mark(self, name: str) -> None:
        """Mark step ``name`` as complete."""
        (self._marks / name).touch()

    def clear(self) -> None:
        """Remove all marks."""
        shutil.rmtree(self._marks, ignore_errors=True)

    def call(self, number: int, name: str, function: Callable[[], None]) -> None:
        """Do a step in this process, unless it is complete."""
        if number >= self.stage and not self.is_done(name):
            function()
            self.mark(name)

    def run(self, number: int, title: str, jobs: Iterable[tuple[str, Job]], executor: Executor) -> None:
        """Run the jobs of a step that are not complete, by name."""
        if number < self.stage:
            return
        left = [Job(f"{job.command} && touch {self._marks}/{name}", job.log) for name, job in jobs
                if not self.is_done(name)]
        if left:
            logger.info("%s", title)
            executor.run(left)


def check_plain(what: str, path: str | Path) -> None:
    """Raise UsageError if a path has characters with a meaning for the shell, as it stands in commands."""
    if set(str(path)) & set(" \t\n'\"\\$`|&;<>()*?[]{}!#"):
        raise UsageError(f"{what} {path} has a character with a meaning for the shell, and stands in commands",
                         "rename it, or use a link with a plain name")
