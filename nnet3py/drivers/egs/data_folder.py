"""Kaldi's data directories and folders of alignments, checked before they are used.

Kaldi: utils/validate_data_dir.sh, utils/subset_data_dir.sh, utils/utt2spk_to_spk2utt.pl.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError
from nnet3py.formats.holders import GENERAL_MATRIX
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.archive import sort_key
from nnet3py.io.object_files import read_object
from nnet3py.io.specifiers import is_token
from nnet3py.io.streams import read_text, write_text
from nnet3py.io.tables import SequentialReader

_SORT_HINT = "sort it with LC_ALL=C sort -k1,1"
_SHOWN = 3          # utterances that a message names

# Lists that a data directory may have, with the kind of key of their lines.
BY_UTTERANCE = ("feats.scp", "utt2spk", "text", "utt2num_frames", "utt2dur", "utt2uniq", "vad.scp", "segments")
BY_SPEAKER = ("spk2utt", "cmvn.scp", "spk2gender")


class DataFolder:
    """Data directory, whose lists are read on first use.

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
        """Return whether the folder has a list ``name``."""
        return (self.path / name).is_file()

    def lines(self, name: str) -> dict[str, str]:
        """Return a list of the folder: what follows the key in each line, by key, in the file's order.

        FormatError for a line without a key, a key that occurs twice, and lines out of order.
        """
        return read_list(self.path / name)

    @cached_property
    def feats(self) -> dict[str, str]:
        """feats.scp: where each utterance's features are."""
        return self.lines("feats.scp")

    @cached_property
    def utt2spk(self) -> dict[str, str]:
        """The speaker of each utterance."""
        return self.lines("utt2spk")

    @property
    def utterances(self) -> list[str]:
        """The utterances that have features, sorted by their bytes."""
        return list(self.feats)

    @cached_property
    def spk2utt(self) -> dict[str, list[str]]:
        """The utterances of each speaker."""
        return spk2utt(self.utt2spk)

    @cached_property
    def utt2uniq(self) -> dict[str, str]:
        """Original of each utterance that is a perturbed copy; the utterance itself, if the folder does not say."""
        return self.lines("utt2uniq") if self.has("utt2uniq") else {utterance: utterance for utterance in self.feats}

    @cached_property
    def utt2num_frames(self) -> dict[str, int] | None:
        """The number of frames of each utterance, or None if the folder does not say."""
        return read_lengths(self.path / "utt2num_frames") if self.has("utt2num_frames") else None

    @cached_property
    def feat_dim(self) -> int:
        """The dimension of the first utterance's features. Kaldi: feat-to-dim."""
        return table_dim(f"scp:{self.path}/feats.scp")

    def check(self, need: Iterable[str] = ()) -> None:
        """Raise FormatError if the lists do not belong together, or one of those that are needed is missing.

        Every list that is there must be sorted, without a key twice, and about the same utterances or speakers.
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
        """Raise FormatError if utterances are not in the order of their speakers, as reading by speaker needs."""
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
                              hint="keep what all lists have, as Kaldi's utils/fix_data_dir.sh does")

    def _check_spk2utt(self) -> None:
        for speaker, utterances in self.lines("spk2utt").items():
            if sorted(utterances.split()) != sorted(self.spk2utt[speaker]):
                raise FormatError(f"spk2utt and utt2spk give speaker {speaker} other utterances", path=str(self.path))


def spk2utt(utt2spk: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the utterances of each speaker, both in sorted order. Kaldi: utt2spk_to_spk2utt.pl."""
    utterances: dict[str, list[str]] = {}
    for utterance, speaker in utt2spk.items():
        utterances.setdefault(speaker, []).append(utterance)
    return {speaker: sorted(utterances[speaker], key=sort_key) for speaker in sorted(utterances, key=sort_key)}


def read_list(path: Path) -> dict[str, str]:
    """Read a list: the rest of each line by its key; FormatError for a file that is no sorted list."""
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
    """Read numbers of frames by utterance; FormatError for other text than a number."""
    lengths = {}
    for utterance, text in read_list(path).items():
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise FormatError(f"expected a number of frames for {utterance}, found {text[:40]!r}", path=str(path))
        lengths[utterance] = int(text)
    return lengths


def write_list(path: Path, entries: Mapping[str, str] | Sequence[str]) -> None:
    """Write a list of keys, or of keys with their entries; the file appears when it is complete."""
    lines = [f"{key} {value}" for key, value in entries.items()] if isinstance(entries, Mapping) else entries
    write_text(str(path), "".join(f"{line}\n" for line in lines))


def select(entries: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Return the entries with some of the keys, in their order. Kaldi: filter_scp.pl."""
    wanted = set(keys)
    return {key: value for key, value in entries.items() if key in wanted}


def table_dim(rspecifier: str) -> int:
    """Return the columns of the first matrix of a table. Kaldi: feat-to-dim. FormatError for an empty table."""
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
    """Folder of alignments, as Kaldi's align scripts, or make-mono-tree and phones-to-ali, make it.

    Attributes
    ----------
    path : the folder
    num_jobs : how many pieces there are, ``ali.1.gz`` and so on
    """

    def __init__(self, path: str | Path) -> None:
        """Raise FormatError if something of a folder of alignments is missing."""
        self.path = Path(path)
        for name in ("num_jobs", "tree", "final.mdl"):
            if not (self.path / name).is_file():
                raise FormatError(f"expected a folder of alignments, but it has no {name}", path=str(path),
                                  hint="it needs num_jobs, tree, final.mdl and ali.1.gz, ali.2.gz …")
        text = (self.path / "num_jobs").read_text(encoding="utf-8", errors="replace").strip()
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 100_000):
            raise FormatError(f"expected how many ali.*.gz there are, found {text[:40]!r}",
                              path=str(self.path / "num_jobs"))
        self.num_jobs = int(text)
        for number in range(1, self.num_jobs + 1):
            if not self.archive(number).is_file():
                raise FormatError(f"num_jobs is {self.num_jobs}, but there is no {self.archive(number).name}",
                                  path=str(path))

    @property
    def tree(self) -> Path:
        """The tree."""
        return self.path / "tree"

    @property
    def model(self) -> Path:
        """The model that begins with the transition model of the alignments."""
        return self.path / "final.mdl"

    @property
    def phones(self) -> Path | None:
        """The names of phones, or None if the folder has none."""
        path = self.path / "phones.txt"
        return path if path.is_file() else None

    def archive(self, number: int) -> Path:
        """Return the path of piece ``number``, from 1."""
        return self.path / f"ali.{number}.gz"

    def rspecifier(self, number: int) -> str:
        """Return the rspecifier of piece ``number``."""
        return f"ark:gunzip -c {self.archive(number)} |"

    @property
    def all_rspecifier(self) -> str:
        """Rspecifier of all pieces in order."""
        return f"ark:gunzip -c {' '.join(str(self.archive(number)) for number in range(1, self.num_jobs + 1))} |"

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs of the tree, the output dimension of a network. Kaldi: tree-info."""
        return read_object(self.tree, ContextDependency.read).num_pdfs

    @cached_property
    def transition_model(self) -> TransitionModel:
        """The transition model of the alignments."""
        return read_object(self.model, TransitionModel.read)


def phone_lines(folder: Path) -> list[str]:
    """Return the lines of ``phones.txt``, without disambiguation symbols; empty if there is none."""
    path = folder / "phones.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]
