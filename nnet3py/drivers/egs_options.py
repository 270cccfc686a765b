"""The options of making examples: Kaldi's names, defaults and meanings, declared once."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nnet3py.drivers.egs_folder import is_chunk_width
from nnet3py.drivers.options import opt
from nnet3py.errors import UsageError

Self = TypeVar("Self", bound="EgsOptions")


@dataclass
class EgsOptions:
    """How examples are made. Names and defaults are Kaldi's."""

    frames_per_eg: str = opt("frames-per-eg", "8", "Labelled frames per example; several with commas between")
    left_context: int = opt("left-context", 4, "Input frames to the left")
    right_context: int = opt("right-context", 4, "Input frames to the right")
    left_context_initial: int = opt("left-context-initial", -1, "The same where an utterance begins; -1: no other")
    right_context_final: int = opt("right-context-final", -1, "The same where an utterance ends; -1: no other")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per label")
    compress: bool = opt("compress", True, "Store features compressed")
    num_utts_subset: int = opt("num-utts-subset", 300, "Utterances held out, and used for diagnostics; fewer if there "
                                                       "are few")
    num_valid_frames_combine: int = opt("num-valid-frames-combine", 0, "Held-out frames for combining models")
    num_train_frames_combine: int = opt("num-train-frames-combine", 60000, "Training frames for combining models")
    num_frames_diagnostic: int = opt("num-frames-diagnostic", 10000, "Frames for each of the diagnostics")
    samples_per_iter: int = opt("samples-per-iter", 400000, "Examples per archive, at most")
    nj: int = opt("nj", 6, "Jobs that make training examples")
    srand: int = opt("srand", 0, "Seed of the random choices")
    generate_egs_scp: bool = opt("generate-egs-scp", False, "Write a list (scp) beside every archive")
    online_ivector_dir: str | None = opt("online-ivector-dir", None, "Folder with ivector_online.scp")
    cmvn_opts: str | None = opt("cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    online_cmvn: bool = opt("online-cmvn", False, "Normalise frames with what came before, by apply-cmvn-online")
    length_tolerance: int = opt("length-tolerance", 2, "Frames by which targets may be longer or shorter")
    max_open_files: int = opt("max-open-files", 0, "Archives written at once, and some more; 0: as many as can be")
    stage: int = opt("stage", 0, "Steps of lower numbers count as complete")

    def check(self) -> None:
        """UsageError for a value that cannot be used."""
        if not is_chunk_width(self.frames_per_eg):
            raise UsageError(f"--frames-per-eg={self.frames_per_eg}: expected -1, or numbers above 0 with commas")
        least = {"left_context_initial": -1, "right_context_final": -1, "frame_subsampling_factor": 1,
                 "num_utts_subset": 1, "num_valid_frames_combine": 0, "num_train_frames_combine": 1,
                 "num_frames_diagnostic": 1, "samples_per_iter": 1, "nj": 1, "length_tolerance": 0, "max_open_files": 0}
        for field in dataclasses.fields(self):
            value, bound = getattr(self, field.name), least.get(field.name)
            if bound is not None and value < bound:
                raise UsageError(f"--{field.metadata['name']}={value}: expected {bound} or more")

    def with_words(self: Self, words: Sequence[str]) -> Self:
        """The options with some changed, as Kaldi's scripts take them: ``--nj 4`` or ``--nj=4``.

        UsageError for one that does not exist, and for a value that is none.
        """
        fields = {field.metadata["name"]: field for field in dataclasses.fields(self)}
        changed, left = {}, list(words)
        while left:
            name, equals, value = left.pop(0).partition("=")
            field = fields.get(name.removeprefix("--").replace("_", "-").lower()) if name.startswith("--") else None
            if field is None or (not equals and not left):
                raise UsageError(f"{name}: " + ("expected a value" if field else "no option of making examples"),
                                 "see make-egs --help")
            changed[field.name] = _converted(name, value if equals else left.pop(0), str(field.type))
        return dataclasses.replace(self, **changed)


def _converted(name: str, text: str, type_name: str) -> Any:
    if type_name.startswith("str"):
        return text if text or not type_name.endswith("None") else None
    if type_name == "bool":
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name}={text}: expected true or false")
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}={text}: expected a whole number") from None
