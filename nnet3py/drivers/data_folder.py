"""Kaldi's data directories and folders of alignments, checked; their parts for jobs, and pipes of features.

Kaldi: utils/validate_data_dir.sh, utils/subset_data_dir.sh, utils/utt2spk_to_spk2utt.pl.

A step of making examples may be killed at any moment and started again: it leaves a mark, an empty file, when it is
complete. The command of a job makes its mark itself, right after its output was renamed to the final name; so no work
is done twice, nor taken for complete when it is not.
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
from nnet3py.cached_property import cached_property
from nnet3py.decoding.symbols import SymbolTable
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.options import check_plain
from nnet3py.errors import FormatError, UsageError
from nnet3py.formats.holders import GENERAL_MATRIX
from nnet3py.hmm.transition_model import TransitionModel, read_transition_model
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.archive import sort_key
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import is_token
from nnet3py.io.streams import read_text, write_text
from nnet3py.io.tables import SequentialReader

logger = logging.getLogger(__name__)

MOST_OPEN_FILES = 512
_OTHER_FILES = 4    # open files of a program besides its archives
_LEAST_PART = 10    # with few utterances, one of every ten is held out
_SETTINGS = "settings.json"
_SORT_HINT = "sort it with LC_ALL=C sort -k1,1"
_SHOWN = 3          # names of utterances in a message

# Lists that a data directory may have, with the kind of key of their lines.
BY_UTTERANCE = ("feats.scp", "utt2spk", "text", "utt2num_frames", "utt2dur", "utt2uniq", "vad.scp", "segments")
BY_SPEAKER = ("spk2utt", "cmvn.scp", "spk2gender")


class DataFolder:
    """Kaldi's data directory, whose lists (feats.scp, utt2spk …) are read on first use.

    Attributes
    ----------
    path : the folder
    """

    def __init__(self, path: str | Path) -> None:
        """Raise FormatError if the folder has no feats.scp or utt2spk."""
        self.path = Path(path)
        for name in ("feats.scp", "utt2spk"):
            if not self.has(name):
                raise FormatError(f"expected a data directory, but it has no {name}", path=str(path),
                                  hint="is this a folder such as data/train of a Kaldi recipe?")

    def has(self, name: str) -> bool:
        """Return whether the folder has a file ``name``."""
        return (self.path / name).is_file()

    def lines(self, name: str) -> dict[str, str]:
        """Read a list such as ``text``; return the rest of each line by its key (the first word), in the file's order.

        Raises FormatError for a line without a key, a repeated key, and lines out of order.
        """
        return read_list(self.path / name)

    @cached_property
    def feats(self) -> dict[str, str]:
        """feats.scp: the rxfilename of each utterance's features."""
        return self.lines("feats.scp")

    @cached_property
    def utt2spk(self) -> dict[str, str]:
        """The speaker of each utterance."""
        return self.lines("utt2spk")

    @property
    def utterances(self) -> list[str]:
        """The utterances that have features, in the order of feats.scp."""
        return list(self.feats)

    @cached_property
    def spk2utt(self) -> dict[str, list[str]]:
        """The utterances of each speaker."""
        return spk2utt(self.utt2spk)

    @cached_property
    def utt2uniq(self) -> dict[str, str]:
        """For each utterance, the utterance of which it is a perturbed copy, from utt2uniq; else itself."""
        return self.lines("utt2uniq") if self.has("utt2uniq") else {utterance: utterance for utterance in self.feats}

    @cached_property
    def utt2num_frames(self) -> dict[str, int] | None:
        """The number of frames of each utterance; None without utt2num_frames."""
        return read_lengths(self.path / "utt2num_frames") if self.has("utt2num_frames") else None

    @cached_property
    def feat_dim(self) -> int:
        """The dimension of the first utterance's features. Kaldi: feat-to-dim."""
        return table_dim(f"scp:{self.path}/feats.scp")

    def check(self, need: Iterable[str] = ()) -> None:
        """Raise FormatError if the lists differ in their keys, or lack one of the lists ``need``.

        Every list that exists must be sorted, without repeated keys, and have the same utterances or speakers.
        Kaldi: validate_data_dir.sh.
        """
        for name in need:
            if not self.has(name):
                raise FormatError(f"expected a list {name} in the data directory", path=str(self.path))
        if not self.utt2spk:
            raise FormatError("expected utterances, found none", path=str(self.path / "utt2spk"))
        for name in filter(self.has, BY_UTTERANCE):
            self._check_keys(name, self.utt2spk)
        for utterance, speaker in self.utt2spk.items():
            if not is_token(speaker):
                raise FormatError(f"expected UTTERANCE SPEAKER, found {utterance} {speaker!r}",
                                  path=str(self.path / "utt2spk"))
        for name in filter(self.has, BY_SPEAKER):
            self._check_keys(name, self.spk2utt)
        if self.has("spk2utt"):
            self._check_spk2utt()

    def check_speaker_order(self) -> None:
        """Raise FormatError if sorting by utterance does not sort by speaker, too, as programs by speaker need."""
        speakers = list(self.utt2spk.values())
        if speakers != sorted(speakers, key=sort_key):
            raise FormatError("the utterances are not in the order of their speakers", path=str(self.path / "utt2spk"),
                              hint="make each utterance's name begin with its speaker's name, and sort again")

    def _check_keys(self, name: str, expected: Mapping[str, object]) -> None:
        keys = self.lines(name).keys()
        if keys != expected.keys():
            missing, extra = expected.keys() - keys, keys - expected.keys()
            fault = " and ".join(filter(None, [f"lacks {_some(missing)}" if missing else "",
                                               f"has besides {_some(extra)}" if extra else ""]))
            what = "speakers" if name in BY_SPEAKER else "utterances"
            raise FormatError(f"{name} and utt2spk are not about the same {what}: {name} {fault}", path=str(self.path),
                              hint="keep the keys that all lists have, as Kaldi's utils/fix_data_dir.sh does")

    def _check_spk2utt(self) -> None:
        for speaker, utterances in self.lines("spk2utt").items():
            if sorted(utterances.split()) != sorted(self.spk2utt[speaker]):
                raise FormatError(f"spk2utt and utt2spk have different utterances of speaker {speaker}",
                                  path=str(self.path))


def spk2utt(utt2spk: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the utterances of each speaker, both in sorted order. Kaldi: utt2spk_to_spk2utt.pl."""
    utterances: dict[str, list[str]] = {}
    for utterance, speaker in utt2spk.items():
        utterances.setdefault(speaker, []).append(utterance)
    return {speaker: sorted(utterances[speaker], key=sort_key) for speaker in sorted(utterances, key=sort_key)}


def read_list(path: Path) -> dict[str, str]:
    """Read a list; return the rest of each line by its key (the first word). FormatError if it is not sorted."""
    values: dict[str, str] = {}
    previous = b""
    for number, line in enumerate(_text_lines(path), 1):
        fields = line.split(None, 1)
        key, rest = fields[0] if fields else "", fields[1].strip() if len(fields) == 2 else ""
        if not is_token(key):
            raise FormatError(f"line {number} does not begin with a name: {line[:80]!r}", path=str(path))
        if key in values:
            raise FormatError(f"{key} occurs twice, the second time in line {number}", path=str(path))
        if sort_key(key) < previous:
            raise FormatError(f"line {number}: {key} is out of order", path=str(path), hint=_SORT_HINT)
        previous = sort_key(key)
        values[key] = rest
    return values


def read_lengths(path: Path) -> dict[str, int]:
    """Read utt2num_frames; return the number of frames of each utterance. FormatError for an invalid number."""
    lengths = {}
    for utterance, text in read_list(path).items():
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise FormatError(f"expected a number of frames for {utterance}, found {text[:40]!r}", path=str(path))
        lengths[utterance] = int(text)
    return lengths


def write_list(path: Path, entries: Mapping[str, str] | Sequence[str]) -> None:
    """Write lines of keys, or of keys with their entries; the file is renamed to ``path`` when it is complete."""
    lines = [f"{key} {value}" for key, value in entries.items()] if isinstance(entries, Mapping) else entries
    write_text(str(path), "".join(f"{line}\n" for line in lines))


def select(entries: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Return the entries with the given keys, in the order of ``entries``. Kaldi: filter_scp.pl."""
    wanted = set(keys)
    return {key: value for key, value in entries.items() if key in wanted}


def table_dim(rspecifier: str) -> int:
    """Return the number of columns of a table's first matrix; FormatError for an empty table. Kaldi: feat-to-dim."""
    reader = SequentialReader(rspecifier, GENERAL_MATRIX)
    for _, matrix in reader:
        reader.abandon()
        return int(matrix.shape[1])
    raise FormatError("expected matrices, found none", path=rspecifier)


def _text_lines(path: Path) -> list[str]:
    text = read_text(path)
    return text.removesuffix("\n").split("\n") if text else []


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class AliFolder:
    """Folder of alignments, as made by Kaldi's align scripts, or by make-mono-tree and phones-to-ali.

    Attributes
    ----------
    path : the folder
    num_jobs : int, number of archives ``ali.1.gz``, ``ali.2.gz`` …
    """

    def __init__(self, path: str | Path) -> None:
        """Raise FormatError if a file is missing."""
        self.path = Path(path)
        for name in ("num_jobs", "tree", "final.mdl"):
            if not (self.path / name).is_file():
                raise FormatError(f"expected a folder of alignments, but it has no {name}", path=str(path),
                                  hint="it needs num_jobs, tree, final.mdl and ali.1.gz, ali.2.gz …")
        text = (self.path / "num_jobs").read_text(encoding="utf-8", errors="replace").strip()
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 100_000):
            raise FormatError(f"expected the number of archives ali.*.gz, found {text[:40]!r}",
                              path=str(self.path / "num_jobs"))
        self.num_jobs = int(text)
        for number in range(1, self.num_jobs + 1):
            if not self.archive(number).is_file():
                raise FormatError(f"num_jobs is {self.num_jobs}, but there is no {self.archive(number).name}",
                                  path=str(path))

    @property
    def tree(self) -> Path:
        """Path of the tree."""
        return self.path / "tree"

    @property
    def model(self) -> Path:
        """Path of final.mdl, whose transition model is that of the alignments."""
        return self.path / "final.mdl"

    @property
    def phones(self) -> Path | None:
        """Path of phones.txt, or None if the folder has none."""
        path = self.path / "phones.txt"
        return path if path.is_file() else None

    def archive(self, number: int) -> Path:
        """Return the path of archive ``number``, from 1."""
        return self.path / f"ali.{number}.gz"

    def rspecifier(self, number: int) -> str:
        """Return the rspecifier of archive ``number``, from 1."""
        return f"ark:gunzip -c {self.archive(number)} |"

    @property
    def all_rspecifier(self) -> str:
        """Rspecifier of all archives in order."""
        return f"ark:gunzip -c {' '.join(str(self.archive(number)) for number in range(1, self.num_jobs + 1))} |"

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs of the tree, the output dimension of a network. Kaldi: tree-info."""
        return read_object(self.tree, ContextDependency.read).num_pdfs

    @cached_property
    def transition_model(self) -> TransitionModel:
        """The transition model of the alignments."""
        return read_transition_model(self.model)


def phone_lines(folder: Path) -> list[str]:
    """Return the lines of ``phones.txt``, without disambiguation symbols; empty if there is none."""
    path = folder / "phones.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


# -- choice of utterances ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subsets:
    """Sets of utterances for training and diagnostics, each in the order of the data."""

    valid: list[str]             # held out from training
    train_diagnostic: list[str]  # some of ``training``, for diagnostics and for combining models
    training: list[str]          # all except ``valid``


def choose_subsets(utterances: Sequence[str], utt2uniq: Mapping[str, str], size: int, seed: int,
                   held_out: Collection[str] = ()) -> Subsets:
    """Choose ``size`` utterances to hold out, and as many training utterances for diagnostics.

    Perturbed copies (utterances with the same ``utt2uniq``) are held out together, and counted as one. With at most 4
    times ``size`` utterances, only a tenth of them is held out (Kaldi raises an error). If ``held_out`` is not empty,
    its utterances are held out instead. Raises UsageError for fewer than 3 utterances, and if ``held_out`` has none or
    all of them. Kaldi: valid_uttlist and train_subset_uttlist.
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
    """Split utterances into at most ``num_parts`` parts of about the same size. Kaldi: split_data.sh.

    No speaker is in two parts, unless there are fewer speakers than parts; with ``by_speaker`` not even then, so that
    there may be fewer parts.
    """
    groups = [list(group) for group in spk2utt(select(utt2spk, utterances)).values()]
    if not by_speaker and len(groups) < num_parts:
        groups = [[utterance] for utterance in utterances]
    parts: list[list[str]] = [[] for _ in range(min(num_parts, len(groups)))]
    done = 0
    for number, group in enumerate(groups):
        # Each part gets at least one group, and enough groups are left for the parts that follow.
        part = min(max(done * len(parts) // len(utterances), len(parts) - len(groups) + number), number)
        parts[part] += group
        done += len(group)
    return [part for part in parts if part]


# -- archives ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArchivePlan:
    """Numbers of archives of examples, which jobs write at random to intermediate archives, then shuffle and split."""

    num_archives: int  # number of final archives, ``num_intermediate`` × ``multiple``
    num_intermediate: int  # number of intermediate archives; a job writes to all of them at the same time
    multiple: int  # number of final archives for each intermediate one; 1 if a job can have all archives open

    @property
    def intermediates(self) -> range:
        """The intermediate archives, numbered from 1."""
        return range(1, self.num_intermediate + 1)

    def finals(self, intermediate: int) -> list[int]:
        """Return the final archives into which an intermediate archive is split; both are numbered from 1."""
        return list(range((intermediate - 1) * self.multiple + 1, intermediate * self.multiple + 1))


def plan_archives(wanted: int, most_open_files: int | None = None) -> ArchivePlan:
    """Plan at least ``wanted`` archives; a job has at most ``most_open_files`` files open (None: the system's limit).

    Raises UsageError if the limit is too low for a single archive.
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
    """Folder of online i-vectors: ivector_online.scp, ivector_period (frames per i-vector), perhaps final.ie.id."""

    folder: Path
    dim: int
    period: int
    extractor_id: str | None

    @classmethod
    def read(cls, folder: str | Path) -> Ivectors:
        """Read the folder; raise FormatError if a file is missing or malformed."""
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
        """Options by which the programs that make examples read the i-vectors."""
        return [f"--online-ivectors=scp:{self.folder}/ivector_online.scp", f"--online-ivector-period={self.period}"]


def write_part(folder: Path, name: str, data: DataFolder, utt2spk: Mapping[str, str],
               utterances: Sequence[str]) -> None:
    """Write feats.scp and spk2utt of utterances to the folder ``split/NAME`` in ``folder``."""
    path = folder / "split" / name
    path.mkdir(parents=True, exist_ok=True)
    write_list(path / "feats.scp", select(data.feats, utterances))
    speakers = spk2utt(select(utt2spk, utterances))
    write_list(path / "spk2utt", {speaker: " ".join(keys) for speaker, keys in speakers.items()})


def write_int_text(folder: Path, name: str, lang: Path, transcripts: Mapping[str, Sequence[str]]) -> None:
    """Write transcripts as numbers of words, by ``words.txt`` of a lang folder, to the file ``split/NAME/text``.

    Words that it lacks are replaced by the word in ``oov.txt``, if there is one.
    """
    words, file = SymbolTable.read(str(lang / "words.txt")), lang / "oov.txt"
    unknown = read_text(file).strip() if file.is_file() else ""
    (folder / "split" / name).mkdir(parents=True, exist_ok=True)
    write_list(folder / "split" / name / "text", {
        utterance: " ".join(str(words[word if word in words or not unknown else unknown]) for word in line)
        for utterance, line in transcripts.items()})


@dataclass(frozen=True)
class Features:
    """Pipes of features for examples, normalized by speaker or online."""

    data: DataFolder   # the data directory
    cmvn_opts: str     # options of apply-cmvn, or apply-cmvn-online
    online_cmvn: bool  # whether frames are normalized with statistics of earlier frames
    folder: Path       # folder of the examples, with lists for each part and the global statistics

    @property
    def need(self) -> list[str]:
        """Names of the lists that the data directory must have."""
        needs_means = self.online_cmvn or "--norm-means=false" not in self.cmvn_opts.split()
        return ["cmvn.scp"] if needs_means else []

    @property
    def global_stats_command(self) -> str:
        """Command that sums the statistics of all speakers, for online normalization."""
        return (f"matrix-sum --binary=false scp:{self.data.path}/cmvn.scp {self.folder}/global_cmvn.stats")

    def write_part(self, name: str, utterances: Sequence[str]) -> None:
        """Write feats.scp and spk2utt of the part ``name``, which has the given utterances, for :meth:`rspecifier`."""
        write_part(self.folder, name, self.data, self.data.utt2spk, utterances)

    def rspecifier(self, name: str) -> str:
        """Return the rspecifier (a pipe) of the normalized features of a part that :meth:`write_part` has written."""
        part, data = self.folder / "split" / name, self.data.path
        if self.online_cmvn:
            words = ["apply-cmvn-online", self.cmvn_opts, f"--spk2utt=ark:{part}/spk2utt",
                     f"{self.folder}/global_cmvn.stats"]
        else:
            words = ["apply-cmvn", self.cmvn_opts, f"--utt2spk=ark:{data}/utt2spk", f"scp:{data}/cmvn.scp"]
        return f"ark,s,cs:{' '.join(filter(None, words))} scp:{part}/feats.scp ark:- |"


class Steps:
    """Record of the complete steps of making a folder: an empty file, a mark, for each.

    Parameters
    ----------
    folder : folder of the work; marks are in ``.steps`` in it
    settings : all values on which the result depends; if they change, all marks are removed
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
        """Call ``function`` and mark step ``name``, unless it is complete or ``number`` is below the stage."""
        if number >= self.stage and not self.is_done(name):
            function()
            self.mark(name)

    def run(self, number: int, title: str, jobs: Iterable[tuple[str, Job]], executor: Executor) -> None:
        """Run those of a step's named jobs that are not complete, unless ``number`` is below the stage."""
        if number < self.stage:
            return
        left = [Job(f"{job.command} && touch {self._marks}/{name}", job.log) for name, job in jobs
                if not self.is_done(name)]
        if left:
            logger.info("%s", title)
            executor.run(left)
