"""Folders of alignments: ``ali.*.gz`` in ``num_jobs`` pieces, with the tree and the model that they belong to."""
from __future__ import annotations

from pathlib import Path

from nnet3py.cached_property import cached_property
from nnet3py.errors import FormatError
from nnet3py.hmm.transition_model import TransitionModel
from nnet3py.hmm.tree import ContextDependency
from nnet3py.io.object_files import read_object


class AliFolder:
    """A folder of alignments, as Kaldi's align scripts, or make-mono-tree and phones-to-ali, make it.

    Attributes
    ----------
    path : the folder
    num_jobs : how many pieces there are, ``ali.1.gz`` and so on
    """

    def __init__(self, path: str | Path) -> None:
        """FormatError if something of a folder of alignments is missing."""
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
        """Piece ``number``, from 1."""
        return self.path / f"ali.{number}.gz"

    def rspecifier(self, number: int) -> str:
        """What reads piece ``number``."""
        return f"ark:gunzip -c {self.archive(number)} |"

    @property
    def all_rspecifier(self) -> str:
        """What reads all pieces, in order."""
        return f"ark:gunzip -c {' '.join(str(self.archive(number)) for number in range(1, self.num_jobs + 1))} |"

    @cached_property
    def num_pdfs(self) -> int:
        """Pdfs of the tree: the output dimension of a network. Kaldi: tree-info."""
        return read_object(self.tree, ContextDependency.read).num_pdfs

    @cached_property
    def transition_model(self) -> TransitionModel:
        """The transition model of the alignments."""
        return read_object(self.model, TransitionModel.read)


def phone_lines(folder: Path) -> list[str]:
    """The lines of ``phones.txt``, without disambiguation symbols; empty if there is none."""
    path = folder / "phones.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for line in lines if line.strip() and not line.startswith("#")]
