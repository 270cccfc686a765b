"""Folders of training examples: ``info/``, archives, checks against a network; and combination of several folders.

Kaldi: steps/nnet3/get_egs.sh; ``verify_egs_dir`` and ``remove_nnet3_egs`` of its Python library;
steps/nnet3/chain/multilingual/combine_egs.sh, steps/nnet3/chain2/combine_egs.sh.
"""
from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nnet3py.errors import FormatError, Nnet3Error, UsageError
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

_CHUNK_WIDTH = re.compile(r"-1|[1-9][0-9]*(,[1-9][0-9]*)*")
_REMOVED = re.compile(r"(egs|degs|cegs)\..*\.ark")
_DIAGNOSTICS = ("combine", "train_diagnostic", "valid_diagnostic")


class EgsFolder:
    """Folder of examples, frame-level (``egs.N.ark``) or chain (``cegs.N.ark``).

    Attributes
    ----------
    path : the folder
    kind : "egs" or "cegs", prefix of the names of training archives, suffix of the others
    feat_dim, ivector_dim : int, dimensions of features (0: unknown) and i-vectors (0: none)
    num_archives : int, archives of training examples, numbered from 1
    num_frames : int, frames of all training utterances (-1: unknown)
    frames_per_eg : str, as given to get-egs: ``8``, ``150,110,90``, or ``-1`` for whole utterances
    egs_per_archive : int, approximate number of examples (-1: unknown)
    left_context, right_context : input frames on each side
    left_context_initial, right_context_final : input frames at an utterance's ends (-1: as elsewhere)
    ivector_id : id of the i-vector extractor; None without ``info/final.ie.id``
    frame_subsampling_factor : int, 1 without ``info/frame_subsampling_factor``
    """

    def __init__(self, path: str | Path) -> None:
        """Raise FormatError if the folder, or a file of ``info/``, is missing or malformed."""
        self.path = Path(path)
        if not (self.path / "info").is_dir():
            raise FormatError("expected a folder of examples, but it has no info/", path=str(path),
                              hint="was making the examples interrupted? Make them again")
        is_chain = any((self.path / name).exists() for name in ("combine.cegs", "cegs.1.scp"))
        self.kind = "cegs" if is_chain else "egs"
        self.num_archives = self._integer("num_archives", least=1)
        self.feat_dim = self._integer("feat_dim", 0)
        self.ivector_dim = self._integer("ivector_dim", 0)
        self.num_frames = self._integer("num_frames", -1)
        self.egs_per_archive = self._integer("egs_per_archive", -1)
        self.frames_per_eg = self._text("frames_per_eg")
        if not is_chunk_width(self.frames_per_eg):
            raise FormatError(f"expected -1 or positive integers with commas between, found {self.frames_per_eg!r}",
                              path=str(self.path / "info" / "frames_per_eg"))
        self.left_context = self._integer("left_context")
        self.right_context = self._integer("right_context")
        self.left_context_initial = self._integer("left_context_initial", -1)
        self.right_context_final = self._integer("right_context_final", -1)
        self.frame_subsampling_factor = self._integer("frame_subsampling_factor", 1, least=1)
        self.ivector_id = self._text("final.ie.id") if (self.path / "info" / "final.ie.id").exists() else None

    def archive(self, number: int) -> Path:
        """Return the training archive ``number``, from 1."""
        return self.path / f"{self.kind}.{number}.ark"

    def diagnostic(self, name: str) -> Path:
        """Return the archive ``combine``, ``train_diagnostic`` or ``valid_diagnostic``.

        The first has the examples on which combined models are compared, the others those for diagnostics, of training
        and of held-out utterances.
        """
        return self.path / f"{name}.{self.kind}"

    @property
    def is_multitask(self) -> bool:
        """True if the folder has no archives, but lists (scp) of examples in other folders' archives."""
        return not self.diagnostic("valid_diagnostic").exists() and (self.path / "valid_diagnostic.scp").exists()

    def training_rspecifier(self, number: int) -> str:
        """Return the rspecifier of training archive ``number``."""
        return f"scp:{self.path}/{self.kind}.{number}.scp" if self.is_multitask else f"ark:{self.archive(number)}"

    def diagnostic_rspecifier(self, name: str) -> str:
        """Return the rspecifier of the examples ``name``, as for :meth:`diagnostic`."""
        return f"scp:{self.path}/{name}.scp" if self.is_multitask else f"ark:{self.diagnostic(name)}"

    def multitask_options(self, name: str, number: int | None = None) -> list[str]:
        """Return the options --outputs and --weights of nnet3-copy-egs, which set each example's output and weight.

        ``name`` is ``egs`` for training archive ``number``, else as for :meth:`diagnostic`. Empty for a folder that is
        not multitask.
        """
        if not self.is_multitask:
            return []
        name = self.kind if name == "egs" else name
        suffix = "" if number is None else f".{number}"
        files = {f"{what}s": self.path / f"{name}.{what}{suffix}.ark" for what in ("output", "weight")}
        return [f"--{option}=ark:{file}" for option, file in files.items() if file.exists()]

    def verify(self, feat_dim: int, ivector_dim: int, ivector_id: str | None, left_context: int, right_context: int,
               left_context_initial: int = -1, right_context_final: int = -1, chunk_width: str | None = None) -> None:
        """Raise Nnet3Error if the examples cannot train a network of these dimensions and contexts.

        ``feat_dim`` 0: not checked. Contexts may be larger than those given, but contexts at an utterance's ends must
        be the same. ``chunk_width``: expected ``frames_per_eg``; None: not checked. Kaldi: verify_egs_dir.
        """
        if feat_dim and self.feat_dim and feat_dim != self.feat_dim:
            raise self._mismatch("feature dimension", self.feat_dim, feat_dim)
        if ivector_dim != self.ivector_dim:
            raise self._mismatch("ivector dimension", self.ivector_dim, ivector_dim)
        if ivector_id is not None and self.ivector_id is not None and ivector_id != self.ivector_id:
            raise self._mismatch("id of the ivector extractor", self.ivector_id, ivector_id)
        if (ivector_id is None) != (self.ivector_id is None):
            logger.warning("Only the %s have the id of their ivector extractor: whether examples and ivectors are of "
                           "the same extractor was not checked", "examples" if ivector_id is None else "ivectors")
        if self.left_context < left_context or self.right_context < right_context:
            raise self._mismatch("left and right context", (self.left_context, self.right_context),
                                 (left_context, right_context), "at least ")
        ends = (self.left_context_initial, self.right_context_final)
        if ends != (left_context_initial, right_context_final):
            raise self._mismatch("contexts at the ends of utterances (initial, final)", ends,
                                 (left_context_initial, right_context_final))
        if chunk_width is not None and chunk_width != self.frames_per_eg:
            raise self._mismatch("frames per example", self.frames_per_eg, chunk_width)
        self.check_archives()

    def remove(self) -> None:
        """Delete the training archives, and the files that links stand for, unless there is a file ``.nodelete``.

        Kaldi: remove_nnet3_egs, steps/nnet2/remove_egs.sh.
        """
        if (self.path / ".nodelete").exists():
            logger.info("Not deleting the examples in %s since there is a file .nodelete", self.path)
            return
        for file in sorted(self.path.iterdir()):
            if _REMOVED.fullmatch(file.name):
                file.resolve().unlink(missing_ok=True)
                file.unlink(missing_ok=True)
        logger.info("Removed the examples in %s", self.path)

    # -- checks, files of info/ ------------------------------------------------------------------------------------

    def check_archives(self) -> None:
        """Raise FormatError if an archive is missing or empty."""
        if self.is_multitask:
            names = [self.path / f"{self.kind}.{number}.scp" for number in range(1, self.num_archives + 1)]
        else:
            names = [self.archive(number) for number in range(1, self.num_archives + 1)]
            names += map(self.diagnostic, _DIAGNOSTICS)
        for name in names:
            if not name.exists() or not name.stat().st_size:
                raise FormatError("expected examples, but the file is missing or empty", path=str(name),
                                  hint="were the examples removed after a training? Make them again")

    def _mismatch(self, what: str, measured: object, expected: object, relation: str = "") -> Nnet3Error:
        return Nnet3Error(f"the examples in {self.path} have the {what} {measured}, expected {relation}{expected}",
                          "make examples for this network and these features")

    def _text(self, name: str) -> str:
        file = self.path / "info" / name
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"expected a file with the {name} of the examples: "
                              f"{getattr(error, 'strerror', None) or error}", path=str(file),
                              hint="was making the examples interrupted? Make them again") from error

    def _integer(self, name: str, default: int | None = None, least: int = -1) -> int:
        if default is not None and not (self.path / "info" / name).exists():
            return default
        text = self._text(name)
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
            raise FormatError(f"expected a whole number, {least} or more, found {text[:40]!r}",
                              path=str(self.path / "info" / name))
        return int(text)


def is_chunk_width(text: str) -> bool:
    """Return whether ``text`` is ``-1``, or positive integers with commas between: frames per example."""
    return _CHUNK_WIDTH.fullmatch(text) is not None


BLOCK = 256              # examples that stay in sequence, in which archives are read fastest
LEAST_BLOCKS = 8         # least number of blocks in an archive, so that few examples are mixed, too
_SAME = ("feat_dim", "ivector_dim", "left_context", "right_context", "left_context_initial", "right_context_final",
         "frames_per_eg", "frame_subsampling_factor", "kind")


@dataclass(frozen=True)
class Source:
    """Folder of examples to combine, with a list (scp) beside each archive, as made with ``--generate-egs-scp=true``.
    """

    folder: Path         # folder of chain examples
    language: str = ""   # language that is appended to keys, as ``?lang=LANGUAGE`` ("": none)
    weight: float = 1.0  # weight of the examples
    copies: int = 1      # copies of each example in an epoch


def combine_egs(sources: Sequence[Source], folder: str | Path, seed: int = 0) -> EgsFolder:
    """Make a folder of lists, ``cegs.N.scp``, of the examples of all sources, in blocks in random order.

    In lists of diagnostic examples the sources follow each other. Raises FormatError for a folder without lists,
    Nnet3Error for examples with different dimensions or contexts, UsageError for invalid weights and copies.
    """
    target = Path(folder)
    for source in sources:
        if not (source.weight > 0.0 and source.weight < float("inf")) or source.copies < 1:
            raise UsageError(f"{source.folder} has the weight {source.weight:g} and {source.copies} copies: expected a "
                             "weight above 0, and 1 copy or more")
    folders = [EgsFolder(source.folder) for source in sources]
    _check_same(folders)
    first = folders[0]
    lines_of = [[line for number in range(1, egs.num_archives + 1)
                 for line in _lines(source, f"{egs.kind}.{number}.scp")]
                for source, egs in zip(sources, folders, strict=True)]
    num_archives = sum(source.copies * egs.num_archives for source, egs in zip(sources, folders, strict=True))
    total = sum(source.copies * len(lines) for source, lines in zip(sources, lines_of, strict=True))
    size = max(1, min(BLOCK, total // (LEAST_BLOCKS * num_archives)))
    blocks = [block for source, lines in zip(sources, lines_of, strict=True)
              for block in [lines[begin:begin + size] for begin in range(0, len(lines), size)] * source.copies]
    Random(seed).shuffle(blocks)
    (target / "info").mkdir(parents=True, exist_ok=True)
    (target / "info" / "num_archives").unlink(missing_ok=True)
    weighted = any(source.weight != 1.0 for source in sources)
    for number in range(num_archives):
        lines = [line for block in blocks[number::num_archives] for line in block]
        _write(target, f"{first.kind}.{number + 1}.scp", f"{first.kind}.weight.{number + 1}.ark", lines, weighted)
    for name in _DIAGNOSTICS:
        lines = [line for source in sources for line in _lines(source, f"{name}.scp")]
        _write(target, f"{name}.scp", f"{name}.weight.ark", lines, weighted)
    info: dict[str, object] = {name: getattr(first, name) for name in _SAME[:-1]}
    info["num_frames"] = sum(source.copies * egs.num_frames for source, egs in zip(sources, folders, strict=True))
    info["egs_per_archive"] = total // num_archives
    if first.ivector_id is not None:
        info["final.ie.id"] = first.ivector_id
    for name, value in (*info.items(), ("num_archives", num_archives)):     # the last: the folder is complete
        write_text(str(target / "info" / name), f"{value}\n")
    for name in ("cmvn_opts", "online_cmvn"):
        if (first.path / name).is_file():
            write_text(str(target / name), (first.path / name).read_text(encoding="utf-8"))
    logger.info("Combined %d folders of examples: %d examples in %d archives", len(sources), total, num_archives)
    return EgsFolder(target)


def _check_same(folders: Sequence[EgsFolder]) -> None:
    for name in _SAME:
        values = {getattr(egs, name): egs.path for egs in folders}
        if len(values) > 1:
            (first, where), (second, there) = list(values.items())[:2]
            raise Nnet3Error(f"the examples in {where} have the {name} {first}, those in {there} {second}",
                             "make the examples of all folders with the same options")


def _lines(source: Source, name: str) -> list[tuple[str, float]]:
    """Return (line, weight) for each line of a source's list; the language is appended to the keys."""
    path = source.folder / name
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise FormatError(f"expected a list of examples beside the archive: {error.strerror}", path=str(path),
                          hint="make the examples with --generate-egs-scp=true") from error
    fields = (line.split(None, 1) for line in text.splitlines())
    ending = f"?lang={source.language}" if source.language else ""
    return [(f"{key}{ending} {place}", source.weight) for key, place in fields]


def _write(folder: Path, name: str, weights: str, lines: Sequence[tuple[str, float]], weighted: bool) -> None:
    write_text(str(folder / name), "".join(f"{line}\n" for line, _ in lines))
    if weighted:        # a key that occurs twice has one weight
        by_key = {line.split(None, 1)[0]: weight for line, weight in lines}
        write_text(str(folder / weights), "".join(f"{key} {weight:g}\n" for key, weight in by_key.items()))
