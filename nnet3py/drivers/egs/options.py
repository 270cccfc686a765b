"""The options of making examples: Kaldi's names, defaults and meanings, declared once."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nnet3py.drivers.options import Declared, opt
from nnet3py.errors import UsageError

Self = TypeVar("Self", bound="CommonEgsOptions")


_LEAST = {"left_context_initial": -1, "right_context_final": -1, "frame_subsampling_factor": 1, "num_utts_subset": 1,
          "num_valid_frames_combine": 0, "num_train_frames_combine": 1, "num_frames_diagnostic": 1,
          "samples_per_iter": 1, "nj": 1, "length_tolerance": 0, "max_open_files": 0,
          "alignment_subsampling_factor": 1, "frames_per_iter": 1, "num_valid_egs_combine": 0,
          "num_train_egs_combine": 1, "num_egs_diagnostic": 1, "left_tolerance": 0, "right_tolerance": 0}


@dataclass(init=False, repr=False, eq=False)
class CommonEgsOptions(Declared):
    """How examples of any kind are made. Names and defaults are Kaldi's."""

    frames_per_eg: str = opt("frames-per-eg", "8", "Labeled frames per example; several with commas between")
    left_context: int = opt("left-context", 4, "Input frames to the left")
    right_context: int = opt("right-context", 4, "Input frames to the right")
    left_context_initial: int = opt("left-context-initial", -1, "The same where an utterance begins; -1: no other")
    right_context_final: int = opt("right-context-final", -1, "The same where an utterance ends; -1: no other")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per label")
    compress: bool = opt("compress", True, "Store features compressed")
    num_utts_subset: int = opt("num-utts-subset", 300, "Utterances held out, and used for diagnostics; fewer if there "
                                                       "are few")
    valid_uttlist: str | None = opt("valid-uttlist", None, "File with a name per line: these utterances are held out; "
                                    "blank: some at random")
    nj: int = opt("nj", 6, "Jobs that make training examples")
    srand: int = opt("srand", 0, "Seed of the random choices")
    generate_egs_scp: bool = opt("generate-egs-scp", False, "Write a list (scp) beside every archive")
    online_ivector_dir: str | None = opt("online-ivector-dir", None, "Folder with ivector_online.scp")
    cmvn_opts: str | None = opt("cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    online_cmvn: bool = opt("online-cmvn", False, "Normalize frames with what came before, by apply-cmvn-online")
    max_open_files: int = opt("max-open-files", 0, "Archives written at once, and some more; 0: as many as can be")
    stage: int = opt("stage", 0, "Steps of lower numbers count as complete")

    def check(self) -> None:
        """UsageError for a value that cannot be used."""
        from nnet3py.drivers.egs.egs_folder import is_chunk_width

        if not is_chunk_width(self.frames_per_eg):
            raise UsageError(f"--frames-per-eg={self.frames_per_eg}: expected -1, or numbers above 0 with commas")
        for field in dataclasses.fields(self):
            value, bound = getattr(self, field.name), _LEAST.get(field.name)
            if bound is not None and value < bound:
                raise UsageError(f"--{field.metadata['name']}={value}: expected {bound} or more")

    def with_words(self: Self, words: Sequence[str]) -> Self:
        """The options with some changed, as Kaldi's scripts take them: ``--nj 4`` or ``--nj=4``.

        UsageError for one that does not exist, and for an invalid value.
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


@dataclass(init=False, repr=False, eq=False)
class EgsOptions(CommonEgsOptions):
    """How frame-level examples are made."""

    num_valid_frames_combine: int = opt("num-valid-frames-combine", 0, "Held-out frames for combining models")
    num_train_frames_combine: int = opt("num-train-frames-combine", 60000, "Training frames for combining models")
    num_frames_diagnostic: int = opt("num-frames-diagnostic", 10000, "Frames for each of the diagnostics")
    samples_per_iter: int = opt("samples-per-iter", 400000, "Examples per archive, at most")
    length_tolerance: int = opt("length-tolerance", 2, "Frames by which targets may be longer or shorter")


@dataclass(init=False, repr=False, eq=False)
class ChainEgsOptions(CommonEgsOptions):
    """How chain examples are made."""

    frames_per_eg: str = opt("frames-per-eg", "25", "Input frames per example; several with commas between")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 3, "Input frames per output frame")
    alignment_subsampling_factor: int = opt("alignment-subsampling-factor", 3, "Frames of alignments or lattices per "
                                            "output frame: 1 if they have the lower frame rate already")
    frames_per_iter: int = opt("frames-per-iter", 400000, "Input frames per archive, at most")
    num_valid_egs_combine: int = opt("num-valid-egs-combine", 0, "Held-out examples for combining models")
    num_train_egs_combine: int = opt("num-train-egs-combine", 1000, "Training examples for combining models")
    num_egs_diagnostic: int = opt("num-egs-diagnostic", 400, "Examples for each of the diagnostics")
    left_tolerance: int = opt("left-tolerance", 5, "Frames of the alignment by which a phone may begin earlier")
    right_tolerance: int = opt("right-tolerance", 5, "Frames of the alignment by which a phone may end later")
    lattice_lm_scale: float = opt("lattice-lm-scale", 0.0, "Factor of lattices' graph costs that stay, below 1")
    lattice_prune_beam: float = opt("lattice-prune-beam", 0.0, "Beam that lattices are pruned to (0: as they are)")
    acwt: float = opt("acwt", 0.1, "Factor of their acoustic costs, for pruning")
    constrained: bool = opt("constrained", True, "Examples fix the times of phones; false: only their order")
    deriv_weights_scp: str | None = opt("deriv-weights-scp", None, "List of vectors with the weight of each frame")

    def check(self) -> None:
        super().check()
        if not 0.0 <= self.lattice_lm_scale < 1.0:
            raise UsageError(f"--lattice-lm-scale={self.lattice_lm_scale:g}: expected 0 or more, and below 1")
        if self.lattice_prune_beam < 0.0 or self.acwt <= 0.0:
            raise UsageError(f"--lattice-prune-beam={self.lattice_prune_beam:g} --acwt={self.acwt:g}: expected 0 or "
                             "more, and above 0")
        if self.alignment_subsampling_factor > self.left_tolerance + self.right_tolerance + 1:
            raise UsageError(f"--alignment-subsampling-factor={self.alignment_subsampling_factor}: expected at most "
                             "--left-tolerance + --right-tolerance + 1")


def _converted(name: str, text: str, type_name: str) -> Any:
    if type_name.startswith("str"):
        return text if text or not type_name.endswith("None") else None
    if type_name == "bool":
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name}={text}: expected true or false")
        return text.lower() == "true"
    try:
        return float(text) if type_name == "float" else int(text)
    except ValueError:
        raise UsageError(f"{name}={text}: expected a {'' if type_name == 'float' else 'whole '}number") from None
