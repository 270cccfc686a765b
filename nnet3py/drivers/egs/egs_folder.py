"""Folders of training examples: what ``info/`` says about them, their archives, and whether they fit a network.

Kaldi: what steps/nnet3/get_egs.sh writes; ``verify_egs_dir`` and ``remove_nnet3_egs`` of its Python library.
"""
from __future__ import annotations

import logging
import re
from pathlib import Path

from nnet3py.errors import FormatError, Nnet3Error

logger = logging.getLogger(__name__)

_CHUNK_WIDTH = re.compile(r"-1|[1-9][0-9]*(,[1-9][0-9]*)*")
_REMOVED = re.compile(r"(egs|degs|cegs)\..*\.ark")


class EgsFolder:
    """A folder of examples, frame-level (``egs.N.ark``) or chain (``cegs.N.ark``).

    Attributes
    ----------
    path : the folder
    kind : "egs" or "cegs", which begins or ends the names of its archives
    feat_dim, ivector_dim : of the examples; 0 for unknown and for no ivectors
    num_archives : archives of training examples, numbered from 1
    num_frames : of all training utterances, or -1 if unknown
    frames_per_eg : as given to get-egs: ``8``, ``150,110,90`` or ``-1`` for whole utterances
    egs_per_archive : roughly; -1 if unknown
    left_context, right_context : input frames on each side
    left_context_initial, right_context_final : the same at an utterance's ends; -1 for no other than elsewhere
    ivector_id : of the extractor, or None if the folder does not say
    frame_subsampling_factor : 1 unless the folder says otherwise
    """

    def __init__(self, path: str | Path) -> None:
        """FormatError if the folder, or what ``info/`` must have, is missing or cannot be read."""
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
            raise FormatError(f"expected -1 or numbers above 0 with commas between, found {self.frames_per_eg!r}",
                              path=str(self.path / "info" / "frames_per_eg"))
        self.left_context = self._integer("left_context")
        self.right_context = self._integer("right_context")
        self.left_context_initial = self._integer("left_context_initial", -1)
        self.right_context_final = self._integer("right_context_final", -1)
        self.frame_subsampling_factor = self._integer("frame_subsampling_factor", 1, least=1)
        self.ivector_id = self._text("final.ie.id") if (self.path / "info" / "final.ie.id").exists() else None

    def archive(self, number: int) -> Path:
        """The training archive ``number``, from 1."""
        return self.path / f"{self.kind}.{number}.ark"

    @property
    def combine(self) -> Path:
        """The examples that choose how models are combined."""
        return self._diagnostic("combine")

    @property
    def train_diagnostic(self) -> Path:
        """Examples of training utterances, for diagnostics."""
        return self._diagnostic("train_diagnostic")

    @property
    def valid_diagnostic(self) -> Path:
        """Examples of held-out utterances, for diagnostics."""
        return self._diagnostic("valid_diagnostic")

    @property
    def is_multitask(self) -> bool:
        """True if the folder has no archives of its own but lists that point into several others' archives."""
        return not self.valid_diagnostic.exists() and (self.path / "valid_diagnostic.scp").exists()

    def training_rspecifier(self, number: int) -> str:
        """What nnet3-copy-egs reads for training archive ``number``."""
        return f"scp:{self.path}/{self.kind}.{number}.scp" if self.is_multitask else f"ark:{self.archive(number)}"

    def diagnostic_rspecifier(self, name: str) -> str:
        """The same for ``combine``, ``train_diagnostic`` or ``valid_diagnostic``."""
        return f"scp:{self.path}/{name}.scp" if self.is_multitask else f"ark:{self._diagnostic(name)}"

    def multitask_options(self, name: str, number: int | None = None) -> list[str]:
        """Options of nnet3-copy-egs that choose each example's output and weight; none for ordinary folders.

        ``name`` is ``egs`` (also of chain examples), ``combine``, ``train_diagnostic`` or ``valid_diagnostic``.
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

        ``feat_dim`` 0: not checked. Contexts may be larger than asked for, but those at an utterance's ends must be
        the same. ``chunk_width``: what ``frames_per_eg`` must be, or None. Kaldi: verify_egs_dir.
        """
        if feat_dim and self.feat_dim and feat_dim != self.feat_dim:
            raise self._mismatch("feature dimension", self.feat_dim, feat_dim)
        if ivector_dim != self.ivector_dim:
            raise self._mismatch("ivector dimension", self.ivector_dim, ivector_dim)
        self._verify_ivector_id(ivector_id)
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
        """Delete the training archives, and what they are links to, unless there is a file ``.nodelete``.

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

    # -- inside ----------------------------------------------------------------------------------------------------

    def _diagnostic(self, name: str) -> Path:
        return self.path / f"{name}.{self.kind}"

    def _verify_ivector_id(self, ivector_id: str | None) -> None:
        if ivector_id is not None and self.ivector_id is not None and ivector_id != self.ivector_id:
            raise self._mismatch("id of the ivector extractor", self.ivector_id, ivector_id)
        if (ivector_id is None) != (self.ivector_id is None):
            logger.warning("The id of the ivector extractor is known of the %s only; it was not checked",
                           "examples" if ivector_id is None else "ivectors")

    def check_archives(self) -> None:
        """FormatError if an archive is missing or empty."""
        if self.is_multitask:
            names = [self.path / f"{self.kind}.{number}.scp" for number in range(1, self.num_archives + 1)]
        else:
            names = [self.archive(number) for number in range(1, self.num_archives + 1)]
            names += [self.combine, self.train_diagnostic, self.valid_diagnostic]
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
            raise FormatError(f"a folder of examples must say its {name}: {error_text(error)}", path=str(file),
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
    """Whether ``text`` is a number of frames per example: ``-1``, or numbers above 0 with commas between."""
    return _CHUNK_WIDTH.fullmatch(text) is not None


def error_text(error: Exception) -> str:
    """The text of an error; for an OSError only what went wrong, since the file is named elsewhere."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
