"""Options of the training drivers and of making examples: Kaldi's names, defaults and meanings, declared once.

Each field knows its option on the command line; a program sets fields directly::

    RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0)

A field that may be None is unset by a blank value, as in Kaldi. Options of train-chain that Kaldi lacks are --ali-dir
(alignments in place of lattices) and --chain.phone-lm.

Kaldi: CommonParser in steps/libs/nnet3/train/common.py; steps/nnet3/chain/train.py.
"""
from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from nnet3py.chain.options import SupervisionOptions
from nnet3py.errors import UsageError
from nnet3py.option_fields import (
    GPU_CHOICES,
    CheckedOptions,
    defaults,
    like,
    opt,
    options_class,
    settings_of,
    with_values,
)
from nnet3py.option_file import checked_value, split, text_of
from nnet3py.training.options import ChainOptions as ObjectiveOptions
from nnet3py.training.options import CombineOptions, TrainerOptions

if TYPE_CHECKING:
    from pathlib import Path

_OPTIMIZATION = "trainer.optimization."


class DriverOptions(CheckedOptions):
    """Base of the drivers' option classes, which are dataclasses."""

    def command(self, program: str) -> str:
        """Return the command line of ``program`` with these options, quoted for a shell, without default values."""
        import shlex

        words = [program]
        for field_ in dataclasses.fields(self):   # type: ignore[arg-type]
            value = getattr(self, field_.name)
            if value != field_.default:
                values = value if isinstance(value, (tuple, list)) else [value]
                words += [f"--{field_.metadata['name']}={text_of(each)}" for each in values]
        return " ".join(map(shlex.quote, words))


def check_plain(what: str, path: str | Path) -> None:
    """Raise UsageError if a path, which is part of bash commands, has characters with a meaning for the shell."""
    special = sorted(set(str(path)) & set(" \t\n'\"\\$`|&;<>()*?[]{}!#"))
    if special:
        raise UsageError(f"{what} {path} has the character {special[0]!r}, which has a meaning for the shell; the name "
                         "is part of shell commands", "rename it, or use a link with a plain name")


@options_class
class JobOptions(DriverOptions):
    """Options of all work in stages and jobs."""

    dir: str = opt("dir", "", "Folder for the result, its logs and intermediate files", harmless=True)
    stage: int | None = opt("stage", None, "Begin at this stage and repeat all later ones; blank: resume after "
                            "the last complete stage", harmless=True)
    exit_stage: int | None = opt("exit-stage", None, "Stop before this stage", harmless=True)
    cmd: str | None = opt("cmd", None, "Command that starts jobs, such as 'queue.pl --mem 4G'; blank: "
                          "processes on this machine",
                          harmless=True)
    scheduler: str | None = opt("scheduler", None, "Address of a dask.distributed scheduler that runs the jobs",
                                harmless=True)
    num_threads: int = opt("num-threads", 0, "Cores that the jobs on this machine share (0: all that this "
                           "process may use)",
                           harmless=True, least=0)
    cleanup: bool = opt("cleanup", True, "Remove files after their last use", harmless=True)


@options_class
class CommonOptions(JobOptions):
    """Options of all training drivers."""

    dir: str = opt("dir", "", "Folder of the training: has configs/, gets models and logs", harmless=True)
    feat_dir: str | None = opt("feat-dir", None, "Folder of data with feats.scp", harmless=True)
    online_ivector_dir: str | None = opt("feat.online-ivector-dir", None, "Folder with ivector_online.scp",
                                        harmless=True)
    cmvn_opts: str | None = opt("feat.cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    egs_dir: str | None = opt("egs.dir", None, "Existing folder of examples", harmless=True)
    egs_stage: int = opt("egs.stage", 0, "Stage at which making the examples begins", harmless=True)
    egs_opts: str | None = opt("egs.opts", None, "Further options of making the examples")
    egs_cmd: str | None = opt("egs.cmd", None, "As --cmd, for making the examples", harmless=True)

    srand: int = like(TrainerOptions, "srand", "trainer.srand")
    num_epochs: float = opt("trainer.num-epochs", 8.0, "Passes over the data", above=0, below=math.inf)
    shuffle_buffer_size: int = opt("trainer.shuffle-buffer-size", 5000,
                                   "Examples in the buffer in which they are shuffled (0: all)", least=0)
    max_param_change: float = like(TrainerOptions, "max_param_change", "trainer.max-param-change")
    samples_per_iter: int = opt("trainer.samples-per-iter", 400000, "Approximate number of examples in an archive",
                                least=1)
    rand_prune: float = opt("trainer.lda.rand-prune", 4.0, "Random pruning of posteriors for the LDA-like transform",
                            least=0)
    max_lda_jobs: int = opt("trainer.lda.max-lda-jobs", 10, "Greatest number of jobs, and archives, for the "
                            "LDA-like transform",
                            least=1)
    proportional_shrink: float = opt(f"{_OPTIMIZATION}proportional-shrink", 0.0,
                                     "Shrinkage of parameters per iteration, in units of the learning rate")
    initial_effective_lrate: float = opt(f"{_OPTIMIZATION}initial-effective-lrate", 0.0003, "Initial effective "
                                         "learning rate", above=0, below=math.inf)
    final_effective_lrate: float = opt(f"{_OPTIMIZATION}final-effective-lrate", 0.00003, "Final effective learning "
                                       "rate", above=0, below=math.inf)
    num_jobs_initial: int = opt(f"{_OPTIMIZATION}num-jobs-initial", 1, "Number of parallel jobs at the start", least=1)
    num_jobs_final: int = opt(f"{_OPTIMIZATION}num-jobs-final", 8, "Number of parallel jobs at the end", least=1)
    num_jobs_step: int = opt(f"{_OPTIMIZATION}num-jobs-step", 1, "The number of jobs is a multiple of this", least=1)
    max_models_combine: int = opt(f"{_OPTIMIZATION}max-models-combine", 20, "Greatest number of models that are "
                                  "combined",
                                  aliases=("trainer.max-models-combine",), least=1)
    max_objective_evaluations: int = like(CombineOptions, "max_objective_evaluations",
                                          f"{_OPTIMIZATION}max-objective-evaluations", harmless=True)
    do_final_combination: bool = opt(f"{_OPTIMIZATION}do-final-combination", True, "Combine the last models")
    combine_sum_to_one_penalty: float = opt(f"{_OPTIMIZATION}combine-sum-to-one-penalty", 0.0,
                                            "No effect, as in Kaldi", harmless=True)
    momentum: float = like(TrainerOptions, "momentum", f"{_OPTIMIZATION}momentum", below=1)
    minibatch_size: str = opt(f"{_OPTIMIZATION}minibatch-size", "512", "Examples per minibatch: 512, 128=64,32/256=40")
    dropout_schedule: str | None = opt("trainer.dropout-schedule", None,
                                       "Dropout proportions over the training, such as 0,0.3@0.20,0.3@0.50,0")
    add_option: tuple[str, ...] = opt("trainer.add-option", (), "A further option of the training program; may be "
                                      "repeated")
    backstitch_scale: float = like(TrainerOptions, "backstitch_training_scale",
                                   f"{_OPTIMIZATION}backstitch-training-scale")
    backstitch_interval: int = like(TrainerOptions, "backstitch_training_interval",
                                    f"{_OPTIMIZATION}backstitch-training-interval")
    compute_per_dim_accuracy: bool = opt("trainer.compute-per-dim-accuracy", False,
                                         "Also log the accuracy of every class on training data", harmless=True)
    input_model: str | None = opt("trainer.input-model", None, "Start from this raw network, not from configs/")

    use_gpu: str = opt("use-gpu", "yes", "yes|no|optional|wait: train on GPUs; without one, warn and train on the CPU",
                       harmless=True, choices=(*GPU_CHOICES, "true", "false"))
    remove_egs: bool = opt("cleanup.remove-egs", True, "Remove the examples at the end, if made here", harmless=True)
    preserve_model_interval: int = opt("cleanup.preserve-model-interval", 100, "Keep models whose number is a multiple "
                                       "of this", harmless=True, least=1)
    email: str | None = opt("reporting.email", None, "No effect: no mail is sent", harmless=True)
    reporting_interval: float = opt("reporting.interval", 0.1, "No effect: no mail is sent", harmless=True)

    def check(self) -> None:
        """Raise UsageError if a value cannot be used, or a required one is missing."""
        if not self.dir:
            raise UsageError("no folder was given", "give --dir=exp/NAME, where exp/NAME/configs has the network")
        for name, path in (("--dir", self.dir), ("--egs.dir", self.egs_dir),
                           ("--trainer.input-model", self.input_model)):
            check_plain(name, path or "")
        super().check()


@options_class
class AcousticOptions(CommonOptions):
    """Options of the drivers of acoustic models, which have a transition model and a network."""

    ali_dir: str | None = opt("ali-dir", None, "Folder of alignments: ali.*.gz, num_jobs, final.mdl, tree, phones.txt",
                              harmless=True)
    lang: str | None = opt("lang", None, "No effect: --ali-dir has all that is needed", harmless=True)
    presoftmax_prior_scale_power: float = opt("trainer.presoftmax-prior-scale-power", -0.25,
                                              "Exponent of the class counts that scale the outputs")
    prior_subset_size: int = opt("trainer.prior-subset-size", 20000, "Examples per job from which priors are computed",
                                 harmless=True, least=1)
    num_jobs_compute_prior: int = opt("trainer.num-jobs-compute-prior", 10, "Jobs that compute priors", harmless=True,
                                      least=1)

    def check(self) -> None:
        super().check()
        if not self.ali_dir:
            raise UsageError("no alignments were given", "give --ali-dir=exp/tri_ali")


@options_class
class RawOptions(CommonOptions):
    """Options of the drivers of raw networks."""

    targets_scp: str | None = opt("targets-scp", None, "List of targets: matrices, or integer vectors if not dense",
                                  harmless=True)
    use_dense_targets: bool = opt("use-dense-targets", True, "Targets are matrices, one row per frame")
    augmentation_opts: str | None = opt("image.augmentation-opts", None, "Options of nnet3-egs-augment-image")
    compute_average_posteriors: bool = opt("compute-average-posteriors", False, "Average outputs of the final network",
                                           harmless=True)
    nj: int = opt("nj", 4, "Jobs that make the examples", least=1)
    prior_subset_size: int = like(AcousticOptions, "prior_subset_size", help="Examples per job for average posteriors")
    num_jobs_compute_prior: int = like(AcousticOptions, "num_jobs_compute_prior", help="Jobs for average posteriors")


@options_class
class DnnPart(DriverOptions):
    """Options of networks without recurrence, which are trained on one frame of an example at a time."""

    frames_per_eg: int = opt("egs.frames-per-eg", 8, "Labeled frames per example", least=1)


@options_class
class RnnPart(DriverOptions):
    """Options of recurrent networks, which are trained on whole chunks."""

    chunk_width: str = opt("egs.chunk-width", "20", "Labeled frames per chunk, or a comma-separated list")
    chunk_left_context: int = opt("egs.chunk-left-context", 40, "Frames to the left of a chunk, besides the network's",
                                  least=0)
    chunk_right_context: int = opt("egs.chunk-right-context", 0, "Frames to the right of a chunk", least=0)
    chunk_left_context_initial: int = opt("egs.chunk-left-context-initial", -1,
                                          "As --egs.chunk-left-context, at the start of utterances (-1: the "
                                          "same)")
    chunk_right_context_final: int = opt("egs.chunk-right-context-final", -1,
                                         "As --egs.chunk-right-context, at the end of utterances (-1: the same)")
    samples_per_iter: int = opt("trainer.samples-per-iter", 20000, "Approximate number of chunks in an archive",
                                least=1)
    momentum: float = like(CommonOptions, "momentum", default=0.5)
    shrink_value: float = opt(f"{_OPTIMIZATION}shrink-value", 0.99, "Factor of the parameters while saturated",
                              above=0)
    shrink_saturation_threshold: float = opt(f"{_OPTIMIZATION}shrink-saturation-threshold", 0.40,
                                             "Saturation (0 to 1) above which parameters shrink")
    num_chunk_per_minibatch: str = opt("trainer.rnn.num-chunk-per-minibatch", "100", "Chunks per minibatch")
    deriv_truncate_margin: int | None = opt("trainer.deriv-truncate-margin", 8, "Frames beyond a chunk and its context "
                                            "up to which derivatives are propagated")


@options_class
class DnnOptions(DnnPart, AcousticOptions):
    """Options of train-dnn."""


@options_class
class RawDnnOptions(DnnPart, RawOptions):
    """Options of train-raw-dnn."""


@options_class
class RnnOptions(RnnPart, AcousticOptions):
    """Options of train-rnn."""


@options_class
class RawRnnOptions(RnnPart, RawOptions):
    """Options of train-raw-rnn."""


@options_class
class ChainOptions(CommonOptions):
    """Options of train-chain."""

    tree_dir: str | None = opt("tree-dir", None, "Folder with tree, final.mdl, num_jobs, ali.*.gz and phones.txt, for "
                               "the tree and the phone language model", harmless=True)
    lat_dir: str | None = opt("lat-dir", None, "Folder of lattices of the transcripts: lat.*.gz, final.mdl",
                              harmless=True)
    ali_dir: str | None = opt("ali-dir", None, "Folder of alignments to use in place of lattices: ali.*.gz, num_jobs, "
                              "final.mdl, tree", harmless=True)

    languages: str | None = opt("languages", None, "File with a line for each language, such as 'en feat-dir=data/en "
                                "tree-dir=exp/en_tree ali-dir=exp/en_ali' (or lat-dir), perhaps with "
                                "online-ivector-dir, weight and copies: train one network for all")
    e2e: bool = opt("e2e", False, "Train from a flat start, on whole utterances and their graphs: --tree-dir is a "
                    "folder of prepare-e2e, or of Kaldi's prepare_e2e.sh with phone_lm.fst")

    chunk_width: str = opt("egs.chunk-width", "20", "Input frames per chunk, or a comma-separated list")
    chunk_left_context: int = like(RnnPart, "chunk_left_context", default=0)
    chunk_right_context: int = like(RnnPart, "chunk_right_context")
    chunk_left_context_initial: int = like(RnnPart, "chunk_left_context_initial")
    chunk_right_context_final: int = like(RnnPart, "chunk_right_context_final")
    egs_nj: int = opt("egs.nj", 0, "Jobs that make the examples (0: the default of making examples)", least=0)

    lm_opts: str | None = opt("chain.lm-opts", None, "Options of chain-est-phone-lm")
    phone_lm: str | None = opt("chain.phone-lm", None, "Existing phone language model; blank: estimate one "
                               "from the phones in --tree-dir")
    l2_regularize: float = like(ObjectiveOptions, "l2_regularize", "chain.l2-regularize")
    xent_regularize: float = like(ObjectiveOptions, "xent_regularize", "chain.xent-regularize")
    left_tolerance: int = like(SupervisionOptions, "left_tolerance", "chain.left-tolerance")
    right_tolerance: int = like(SupervisionOptions, "right_tolerance", "chain.right-tolerance")
    leaky_hmm_coefficient: float = like(ObjectiveOptions, "leaky_hmm_coefficient", "chain.leaky-hmm-coefficient")
    apply_deriv_weights: bool = opt("chain.apply-deriv-weights", True, "Multiply derivatives by the weights of the "
                                    "examples' frames")
    frame_subsampling_factor: int = opt("chain.frame-subsampling-factor", 3, "Input frames per output frame", least=1)
    alignment_subsampling_factor: int = opt("chain.alignment-subsampling-factor", 3, "Frames of the lattices or "
                                            "alignments per output frame", least=1)
    left_deriv_truncate: int | None = opt("chain.left-deriv-truncate", None, "The negative of "
                                          "--trainer.deriv-truncate-margin, as older recipes give it")
    chain_opts: str = opt("chain-opts", "", "Further options of nnet3-chain-train, separated by blanks")

    # Options that frame-level training has under other names or with other defaults.
    samples_per_iter: int = opt("trainer.frames-per-iter", 800000, "Greatest number of input frames in an archive",
                                least=1)
    minibatch_size: str = opt("trainer.num-chunk-per-minibatch", "128", "Chunks per minibatch: 128, 128,64, "
                              "150=64,32/90=128")
    num_epochs: float = opt("trainer.num-epochs", 10.0, "Passes over the data, each at all frame shifts", above=0,
                            below=math.inf)
    initial_effective_lrate: float = like(CommonOptions, "initial_effective_lrate", default=0.0002)
    final_effective_lrate: float = like(CommonOptions, "final_effective_lrate", default=0.00002)
    shrink_value: float = like(RnnPart, "shrink_value", default=1.0)
    shrink_saturation_threshold: float = like(RnnPart, "shrink_saturation_threshold")
    deriv_truncate_margin: int | None = opt("trainer.deriv-truncate-margin", None,
                                            "Frames beyond a chunk and its context up to which derivatives are "
                                            "propagated; blank: all")
    compute_per_dim_accuracy: bool = opt("trainer.compute-per-dim-accuracy", False,
                                         "No effect: chain models have no accuracy", harmless=True)

    lwf_model: str | None = opt("chain.lwf-model", None, "Another model, whose posteriors are added to the "
                                "derivatives, so that the network learns them, too (learning without "
                                "forgetting)")
    lwf_scale: float = opt("chain.lwf-scale", 0.0, "Factor of the posteriors of --chain.lwf-model, such as 0.5",
                           least=0)
    lwf_type: str = opt("chain.lwf-type", "den", "den: posteriors of the denominator graph; raw: exponentials "
                        "of the output of --chain.lwf-model, which must be log-probabilities", choices=("den", "raw"))
    lwf_clip_threshold: float = opt("chain.lwf-clip-threshold", 0.0, "Posteriors of the denominator graph below this "
                                    "become 0", least=0)

    semisup_feat_dir: str | None = opt("semisup.feat-dir", None, "Folder of data without transcripts, for "
                                       "semi-supervised training", harmless=True)
    semisup_lat_dir: str | None = opt("semisup.lat-dir", None, "Folder of lattices of --semisup.feat-dir, made "
                                      "with a chain model: lat.*.gz, final.mdl", harmless=True)
    semisup_ivector_dir: str | None = opt("semisup.online-ivector-dir", None, "Folder with ivector_online.scp "
                                          "of --semisup.feat-dir",
                                          harmless=True)
    semisup_weight: float = opt("semisup.weight", 1.0, "Factor of the derivatives on data without transcripts, "
                                "besides their confidence", above=0, below=math.inf)
    semisup_copies: int = opt("semisup.num-copies", 1, "Copies of data without transcripts in an epoch", least=1)
    semisup_sup_copies: int = opt("semisup.num-copies-sup", 1, "Copies of data with transcripts in an epoch of "
                                  "semi-supervised training", least=1)
    semisup_lm_repeats: str = opt("semisup.lm-repeats", "1,1", "Copies of transcripts, and of best paths of "
                                  "the lattices, in the phone language model")
    semisup_acwt: float = opt("semisup.acwt", 0.1, "Factor of the lattices' acoustic costs, for confidence and pruning",
                              above=0, below=math.inf)
    semisup_lm_scale: float = opt("semisup.lattice-lm-scale", 0.5, "Factor, below 1, of the lattices' graph costs that "
                                  "are kept", least=0, below=1)
    semisup_prune_beam: float = opt("semisup.lattice-prune-beam", 4.0, "Pruning beam of the lattices of "
                                    "--semisup.lat-dir", above=0, below=math.inf)
    semisup_tolerance: int = opt("semisup.tolerance", 1, "Frames by which phones of data without transcripts "
                                 "may begin earlier and end later", least=0)

    def check(self) -> None:
        from nnet3py.drivers.egs_folder import is_chunk_width

        super().check()
        if self.languages:
            self._check_languages()
        elif not self.tree_dir:
            raise UsageError("no tree was given", "give --tree-dir=exp/chain_tree")
        if self.lat_dir and self.ali_dir:
            raise UsageError("both --lat-dir and --ali-dir were given", "give one of them")
        self._check_semisup()
        if self.e2e and (self.lat_dir or self.ali_dir):
            raise UsageError("--e2e=true trains without alignments, but --lat-dir or --ali-dir was given")
        if not (self.egs_dir or self.lat_dir or self.ali_dir or self.e2e or self.languages):
            raise UsageError("neither examples, lattices nor alignments were given", "give --lat-dir=exp/tri_lats, or "
                             "--ali-dir=exp/tri_ali, or --egs.dir for existing examples")
        if not is_chunk_width(self.chunk_width):
            raise UsageError(f"--egs.chunk-width={self.chunk_width}: expected numbers above 0 with commas between")
        if bool(self.lwf_model) != bool(self.lwf_scale):
            raise UsageError(f"--chain.lwf-model={self.lwf_model or ''} --chain.lwf-scale={self.lwf_scale:g}: expected "
                             "a model with a scale", "0.5 is a usual scale")

    def _check_semisup(self) -> None:
        if bool(self.semisup_feat_dir) != bool(self.semisup_lat_dir) or self.semisup_feat_dir and (
                self.e2e or self.egs_dir):
            raise UsageError("semi-supervised training needs --semisup.feat-dir and --semisup.lat-dir, and neither "
                             "--e2e=true nor --egs.dir")
        if not re.fullmatch("[1-9][0-9]?,[0-9][0-9]?", self.semisup_lm_repeats):
            raise UsageError(f"--semisup.lm-repeats={self.semisup_lm_repeats}: expected two numbers below 100, "
                             "such as 3,2")

    def _check_languages(self) -> None:
        alone = {"tree-dir": self.tree_dir, "feat-dir": self.feat_dir, "ali-dir": self.ali_dir, "lat-dir": self.lat_dir,
                 "feat.online-ivector-dir": self.online_ivector_dir, "egs.dir": self.egs_dir, "e2e": self.e2e,
                 "chain.phone-lm": self.phone_lm, "chain.lwf-model": self.lwf_model,
                 "semisup.feat-dir": self.semisup_feat_dir, "backstitch": self.backstitch_scale}
        given = [name for name, value in alone.items() if value]
        if given:
            raise UsageError(f"--languages and --{given[0]} cannot both be given",
                             "give the folders of each language in its line of the file")


Self = TypeVar("Self", bound="CommonEgsOptions")


@options_class
class CommonEgsOptions(DriverOptions):
    """Options of making examples of any kind; names and defaults are Kaldi's."""

    frames_per_eg: str = opt("frames-per-eg", "8", "Labeled frames per example, or a comma-separated list")
    left_context: int = opt("left-context", 4, "Input context to the left, in frames", least=0)
    right_context: int = opt("right-context", 4, "Input context to the right, in frames", least=0)
    left_context_initial: int = opt("left-context-initial", -1, "As --left-context, at the start of utterances "
                                    "(-1: the same)",
                                    least=0)
    right_context_final: int = opt("right-context-final", -1, "As --right-context, at the end of utterances "
                                   "(-1: the same)",
                                   least=0)
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 1, "Input frames per label", least=1)
    compress: bool = opt("compress", True, "Store features compressed")
    num_utts_subset: int = opt("num-utts-subset", 300, "Number of held-out and of diagnostic utterances; fewer if "
                                                       "there are few", least=1)
    valid_uttlist: str | None = opt("valid-uttlist", None, "File of utterances to hold out, one on each line; blank: "
                                    "random ones")
    nj: int = opt("nj", 6, "Jobs that make training examples", least=1)
    srand: int = opt("srand", 0, "Seed of the random choices")
    generate_egs_scp: bool = opt("generate-egs-scp", False, "Write a list (scp) beside every archive")
    online_ivector_dir: str | None = opt("online-ivector-dir", None, "Folder with ivector_online.scp")
    cmvn_opts: str | None = opt("cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    online_cmvn: bool = opt("online-cmvn", False, "Normalize frames with statistics of earlier ones, by "
                            "apply-cmvn-online")
    max_open_files: int = opt("max-open-files", 0, "Greatest number of open files, which limits the archives "
                              "written at the same time (0: the system's limit)",
                              least=0)
    stage: int = opt("stage", 0, "Steps of lower numbers count as complete")

    def check(self) -> None:
        """Raise UsageError for a value that cannot be used."""
        from nnet3py.drivers.egs_folder import is_chunk_width

        if not is_chunk_width(self.frames_per_eg):
            raise UsageError(f"--frames-per-eg={self.frames_per_eg}: expected -1, or numbers above 0 with commas")
        super().check()

    def with_words(self: Self, words: Sequence[str]) -> Self:
        """Return a copy with some options changed by words of a command line: ``--nj 4`` or ``--nj=4``.

        Raises UsageError for an unknown option or an invalid value.
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


@options_class
class EgsOptions(CommonEgsOptions):
    """Options of making frame-level examples."""

    num_valid_frames_combine: int = opt("num-valid-frames-combine", 0, "Held-out frames for combining models", least=0)
    num_train_frames_combine: int = opt("num-train-frames-combine", 60000, "Training frames for combining models",
                                        least=1)
    num_frames_diagnostic: int = opt("num-frames-diagnostic", 10000, "Frames for each diagnostic", least=1)
    samples_per_iter: int = opt("samples-per-iter", 400000, "Greatest number of examples in an archive", least=1)
    length_tolerance: int = opt("length-tolerance", 2, "Greatest difference in length of targets and features, in "
                                "frames", least=0)


@options_class
class ChainEgsOptions(CommonEgsOptions):
    """Options of making chain examples."""

    frames_per_eg: str = opt("frames-per-eg", "25", "Input frames per example, or a comma-separated list")
    frame_subsampling_factor: int = opt("frame-subsampling-factor", 3, "Input frames per output frame", least=1)
    alignment_subsampling_factor: int = opt("alignment-subsampling-factor", 3, "Frames of alignments or lattices per "
                                            "output frame: 1 if they have the lower frame rate already", least=1)
    frames_per_iter: int = opt("frames-per-iter", 400000, "Greatest number of input frames in an archive", least=1)
    num_valid_egs_combine: int = opt("num-valid-egs-combine", 0, "Held-out examples for combining models", least=0)
    num_train_egs_combine: int = opt("num-train-egs-combine", 1000, "Training examples for combining models", least=1)
    num_egs_diagnostic: int = opt("num-egs-diagnostic", 400, "Examples for each diagnostic", least=1)
    left_tolerance: int = like(SupervisionOptions, "left_tolerance")
    right_tolerance: int = like(SupervisionOptions, "right_tolerance")
    lattice_lm_scale: float = opt("lattice-lm-scale", 0.0, "Factor, below 1, of the lattices' graph costs that are "
                                  "kept", least=0, below=1)
    lattice_prune_beam: float = opt("lattice-prune-beam", 0.0, "Pruning beam of lattices (0: no pruning)", least=0)
    acwt: float = opt("acwt", 0.1, "Factor of lattices' acoustic costs, for pruning", above=0)
    constrained: bool = opt("constrained", True, "Supervision has the times of phones; false: only their order")
    deriv_weights_scp: str | None = opt("deriv-weights-scp", None, "List of vectors with the weight of each frame")

    def check(self) -> None:
        super().check()
        if self.alignment_subsampling_factor > self.left_tolerance + self.right_tolerance + 1:
            raise UsageError(f"--alignment-subsampling-factor={self.alignment_subsampling_factor}: expected at most "
                             "--left-tolerance + --right-tolerance + 1")
