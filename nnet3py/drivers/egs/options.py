"""Options of making folders of examples: Kaldi's names, defaults and meanings."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from nnet3py.chain.options import SupervisionOptions
from nnet3py.drivers.options import DriverOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import defaults, like, opt, settings_of, with_values
from nnet3py.option_file import checked_value, split

Self = TypeVar("Self", bound="CommonEgsOptions")



@dataclass(init=False, repr=False, eq=False)
class CommonEgsOptions(DriverOptions):
    """Options of making examples of any kind; names and defaults are Kaldi's."""

    frames_per_eg: str = opt("frames-per-eg", "8", "Labeled frames per example; several with commas between")
    left_context: int = opt("left-context", 4, "Input frames to the left")
    right_context: int = opt("right-context", 4, "Input frames to the right")
    left_context_initial: int = opt("left-context-initial", -1, "As --left-context, where an utterance begins; "
                                    "-1: the same",
                                    least=-1)
    right_context_final: int = opt("right-context-final", -1, "As --right-context, where an utterance ends; "
                                   "-1: the same",
                                   least=-1)
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per label", least=1)
    compress: bool = opt("compress", True, "Store features compressed")
    num_utts_subset: int = opt("num-utts-subset", 300, "Utterances held out, and used for diagnostics; fewer if there "
                                                       "are few", least=1)
    valid_uttlist: str | None = opt("valid-uttlist", None, "File with a name per line: these utterances are held out; "
                                    "blank: some at random")
    nj: int = opt("nj", 6, "Jobs that make training examples", least=1)
    srand: int = opt("srand", 0, "Seed of the random choices")
    generate_egs_scp: bool = opt("generate-egs-scp", False, "Write a list (scp) beside every archive")
    online_ivector_dir: str | None = opt("online-ivector-dir", None, "Folder with ivector_online.scp")
    cmvn_opts: str | None = opt("cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    online_cmvn: bool = opt("online-cmvn", False, "Normalize frames with statistics of earlier ones, by "
                            "apply-cmvn-online")
    max_open_files: int = opt("max-open-files", 0, "Largest number of open files, which limits the archives "
                              "written at once; 0: the system's limit",
                              least=0)
    stage: int = opt("stage", 0, "Steps of lower numbers count as complete")

    def check(self) -> None:
        """Raise UsageError for a value that cannot be used."""
        from nnet3py.drivers.egs.egs_folder import is_chunk_width

        if not is_chunk_width(self.frames_per_eg):
            raise UsageError(f"--frames-per-eg={self.frames_per_eg}: expected -1, or numbers above 0 with commas")
        super().check()

    def with_words(self: Self, words: Sequence[str]) -> Self:
        """Copy the options with some changed, as words of a command line: ``--nj 4`` or ``--nj=4``.

        UsageError for an unknown option or an invalid value.
        """
        known_options, values, rest = defaults(settings_of(self)), {}, list(words)
        while rest:
            word = rest.pop(0)
            if not word.startswith("--"):
                raise UsageError(f"{word}: expected an option such as --nj=4", "see make-egs --help")
            name, text = split(word)
            if text is None and not rest and name in known_options:
                raise UsageError(f"{word}: expected a value", "see make-egs --help")
            if text is None and rest:
                text = rest.pop(0)
            values[name] = checked_value(name, text, known_options)
        return with_values(self, values)


@dataclass(init=False, repr=False, eq=False)
class EgsOptions(CommonEgsOptions):
    """Options of making frame-level examples."""

    num_valid_frames_combine: int = opt("num-valid-frames-combine", 0, "Held-out frames for combining models", least=0)
    num_train_frames_combine: int = opt("num-train-frames-combine", 60000, "Training frames for combining models",
                                        least=1)
    num_frames_diagnostic: int = opt("num-frames-diagnostic", 10000, "Frames for each of the diagnostics", least=1)
    samples_per_iter: int = opt("samples-per-iter", 400000, "Examples per archive, at most", least=1)
    length_tolerance: int = opt("length-tolerance", 2, "Frames by which targets may be longer or shorter", least=0)


@dataclass(init=False, repr=False, eq=False)
class ChainEgsOptions(CommonEgsOptions):
    """Options of making chain examples."""

    frames_per_eg: str = opt("frames-per-eg", "25", "Input frames per example; several with commas between")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 3, "Input frames per output frame", least=1)
    alignment_subsampling_factor: int = opt("alignment-subsampling-factor", 3, "Frames of alignments or lattices per "
                                            "output frame: 1 if they have the lower frame rate already", least=1)
    frames_per_iter: int = opt("frames-per-iter", 400000, "Input frames per archive, at most", least=1)
    num_valid_egs_combine: int = opt("num-valid-egs-combine", 0, "Held-out examples for combining models", least=0)
    num_train_egs_combine: int = opt("num-train-egs-combine", 1000, "Training examples for combining models", least=1)
    num_egs_diagnostic: int = opt("num-egs-diagnostic", 400, "Examples for each of the diagnostics", least=1)
    left_tolerance: int = like(SupervisionOptions, "left_tolerance", least=0)
    right_tolerance: int = like(SupervisionOptions, "right_tolerance", least=0)
    lattice_lm_scale: float = opt("lattice-lm-scale", 0.0, "Factor of lattices' graph costs that stay, below 1")
    lattice_prune_beam: float = opt("lattice-prune-beam", 0.0, "Beam that lattices are pruned to (0: as they are)")
    acwt: float = opt("acwt", 0.1, "Factor of lattices' acoustic costs, for pruning")
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
