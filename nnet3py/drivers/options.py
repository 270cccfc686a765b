"""The options of the training drivers: Kaldi's names, defaults and meanings, declared once.

Each field knows its option on the command line; a program sets fields directly::

    RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0)

A field that may be None is unset by a blank value, as in Kaldi.

Kaldi: CommonParser in steps/libs/nnet3/train/common.py.
"""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from nnet3py import option_fields
from nnet3py.errors import UsageError

HARMLESS, RESULT = "harmless", "result"
_OPTIMIZATION = "trainer.optimization."


def opt(name: str, default: Any, help: str, aliases: tuple[str, ...] = (), effect: str = RESULT) -> Any:
    """A field with its option. ``effect``: whether the model depends on it, and a training is bound to its value."""
    return option_fields.opt(name, default, help, aliases=aliases, effect=effect)


class Declared:
    """Makes dataclasses of many fields cheap: one ``__init__`` for all, instead of one compiled for each.

    Compiling takes several milliseconds for the drivers' options, whenever one of their commands is started.
    """

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):   # type: ignore[arg-type]
            setattr(self, field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    def binding(self) -> dict[str, Any]:
        """The values on which the result depends, by option name."""
        return {field_.metadata["name"]: getattr(self, field_.name)
                for field_ in dataclasses.fields(self)   # type: ignore[arg-type]
                if field_.metadata["effect"] == RESULT}

    def command(self, program: str) -> str:
        """The command line that has these values, quoted for a shell; defaults are left out."""
        import shlex

        words = [program]
        for field_ in dataclasses.fields(self):   # type: ignore[arg-type]
            value = getattr(self, field_.name)
            if value != field_.default:
                values = value if isinstance(value, (tuple, list)) else [value]
                words += [f"--{field_.metadata['name']}={_word(each)}" for each in values]
        return " ".join(map(shlex.quote, words))


def _word(value: Any) -> str:
    """A value as an option takes it."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(init=False, repr=False, eq=False)
class JobOptions(Declared):
    """What all work in stages and jobs takes."""

    dir: str = opt("dir", "", "Folder for the result, its logs and what is needed on the way", effect=HARMLESS)
    stage: int | None = opt("stage", None, "Begin at this stage, doing all from there on again; blank: go on where the "
                            "folder stands", effect=HARMLESS)
    exit_stage: int | None = opt("exit-stage", None, "Stop before this stage", effect=HARMLESS)
    cmd: str | None = opt("cmd", None, "How jobs are started, such as 'queue.pl --mem 4G'; blank: processes here",
                          effect=HARMLESS)
    scheduler: str | None = opt("scheduler", None, "Address of a dask.distributed scheduler that runs the jobs",
                                effect=HARMLESS)
    num_threads: int = opt("num-threads", 0, "Cores that the jobs here share (0: all this process may use)",
                           effect=HARMLESS)
    cleanup: bool = opt("cleanup", True, "Remove what is not needed any more", effect=HARMLESS)


@dataclass(init=False, repr=False, eq=False)
class CommonOptions(JobOptions):
    """What all drivers of training take."""

    dir: str = opt("dir", "", "Folder of the training: configs/ in it, models and logs go to it", effect=HARMLESS)
    feat_dir: str | None = opt("feat-dir", None, "Folder of data with feats.scp", effect=HARMLESS)
    online_ivector_dir: str | None = opt("feat.online-ivector-dir", None, "Folder with ivector_online.scp",
                                        effect=HARMLESS)
    cmvn_opts: str | None = opt("feat.cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    egs_dir: str | None = opt("egs.dir", None, "Folder of examples that exist already", effect=HARMLESS)
    egs_stage: int = opt("egs.stage", 0, "Where making the examples begins", effect=HARMLESS)
    egs_opts: str | None = opt("egs.opts", None, "Further options of making the examples")
    egs_cmd: str | None = opt("egs.cmd", None, "As --cmd, for making the examples", effect=HARMLESS)

    srand: int = opt("trainer.srand", 0, "Seed of all random choices")
    num_epochs: float = opt("trainer.num-epochs", 8.0, "Passes over the data")
    shuffle_buffer_size: int = opt("trainer.shuffle-buffer-size", 5000,
                                   "Examples that are held back to be shuffled (0: all)")
    max_param_change: float = opt("trainer.max-param-change", 2.0, "Largest change of all parameters per minibatch")
    samples_per_iter: int = opt("trainer.samples-per-iter", 400000, "Examples per archive, roughly")
    rand_prune: float = opt("trainer.lda.rand-prune", 4.0, "Random pruning of posteriors for the LDA-like transform")
    max_lda_jobs: int = opt("trainer.lda.max-lda-jobs", 10, "Most jobs, and archives, for the LDA-like transform")
    proportional_shrink: float = opt(f"{_OPTIMIZATION}proportional-shrink", 0.0,
                                     "Times the learning rate: by how much parameters shrink per iteration")
    initial_effective_lrate: float = opt(f"{_OPTIMIZATION}initial-effective-lrate", 0.0003, "Learning rate at first")
    final_effective_lrate: float = opt(f"{_OPTIMIZATION}final-effective-lrate", 0.00003, "Learning rate at the end")
    num_jobs_initial: int = opt(f"{_OPTIMIZATION}num-jobs-initial", 1, "Jobs side by side at first")
    num_jobs_final: int = opt(f"{_OPTIMIZATION}num-jobs-final", 8, "Jobs side by side at the end")
    num_jobs_step: int = opt(f"{_OPTIMIZATION}num-jobs-step", 1, "The number of jobs is a multiple of this")
    max_models_combine: int = opt(f"{_OPTIMIZATION}max-models-combine", 20, "Most models that are combined",
                                  aliases=("trainer.max-models-combine",))
    max_objective_evaluations: int = opt(f"{_OPTIMIZATION}max-objective-evaluations", 30,
                                         "Most averages of models that are tried in combination", effect=HARMLESS)
    do_final_combination: bool = opt(f"{_OPTIMIZATION}do-final-combination", True, "Combine the last models")
    combine_sum_to_one_penalty: float = opt(f"{_OPTIMIZATION}combine-sum-to-one-penalty", 0.0,
                                            "No effect, as in Kaldi", effect=HARMLESS)
    momentum: float = opt(f"{_OPTIMIZATION}momentum", 0.0, "Part of a minibatch's change carried over to the next")
    minibatch_size: str = opt(f"{_OPTIMIZATION}minibatch-size", "512", "Examples per minibatch: 512, 128=64,32/256=40")
    dropout_schedule: str | None = opt("trainer.dropout-schedule", None,
                                       "Dropout proportions as training goes on, such as 0,0.3@0.20,0.3@0.50,0")
    add_option: tuple[str, ...] = opt("trainer.add-option", (), "A further option of the training program; repeatable")
    backstitch_scale: float = opt(f"{_OPTIMIZATION}backstitch-training-scale", 0.0,
                                  "Size of the backward step of backstitch training (0: none)")
    backstitch_interval: int = opt(f"{_OPTIMIZATION}backstitch-training-interval", 1,
                                   "Minibatches from one with backstitch to the next")
    compute_per_dim_accuracy: bool = opt("trainer.compute-per-dim-accuracy", False,
                                         "Also log the accuracy of every class on training data", effect=HARMLESS)
    input_model: str | None = opt("trainer.input-model", None, "Start from this raw network, not from configs/")

    use_gpu: str = opt("use-gpu", "yes", "yes|no|optional|wait: train on GPUs; without one, training warns and goes on",
                       effect=HARMLESS)
    remove_egs: bool = opt("cleanup.remove-egs", True, "Remove the examples in the end, if made here", effect=HARMLESS)
    preserve_model_interval: int = opt("cleanup.preserve-model-interval", 100, "Models with these numbers are kept",
                                       effect=HARMLESS)
    email: str | None = opt("reporting.email", None, "No effect: no mail is sent", effect=HARMLESS)
    reporting_interval: float = opt("reporting.interval", 0.1, "No effect: no mail is sent", effect=HARMLESS)

    def check(self) -> None:
        """UsageError if a value cannot be used, or a required one is missing."""
        if not self.dir:
            raise UsageError("no folder was given", "say --dir=exp/NAME, where exp/NAME/configs holds the network")
        for name, path in (("--dir", self.dir), ("--egs.dir", self.egs_dir),
                           ("--trainer.input-model", self.input_model)):
            if path and set(path) & set(" \t\n'\"\\$`|&;<>()*?[]{}!#"):
                raise UsageError(f"{name}={path} has a character with a meaning for the shell, and stands in commands",
                                 "rename it, or use a link with a plain name")
        if self.use_gpu not in ("yes", "no", "optional", "wait", "true", "false"):
            raise UsageError(f"--use-gpu={self.use_gpu}: expected yes, no, optional or wait")
        least = {"max_lda_jobs": 1, "samples_per_iter": 1, "max_models_combine": 1, "preserve_model_interval": 1,
                 "backstitch_interval": 1, "shuffle_buffer_size": 0, "num_threads": 0, "max_objective_evaluations": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise UsageError(f"--{option_name(self, name)}={getattr(self, name)}: expected {bound} or more")
        if not 0.0 <= self.momentum < 1.0:
            raise UsageError(f"--{_OPTIMIZATION}momentum={self.momentum:g}: expected 0 or more, and below 1")
        if self.max_param_change < 0.0:
            raise UsageError(f"--trainer.max-param-change={self.max_param_change:g}: expected 0 (no limit) or more")


@dataclass(init=False, repr=False, eq=False)
class AcousticOptions(CommonOptions):
    """What the drivers of acoustic models (a transition model and a network) take as well."""

    ali_dir: str | None = opt("ali-dir", None, "Folder of alignments: ali.*.gz, num_jobs, final.mdl, tree, phones.txt",
                              effect=HARMLESS)
    lang: str | None = opt("lang", None, "No effect: the alignments say all that is needed",
                           effect=HARMLESS)
    presoftmax_prior_scale_power: float = opt("trainer.presoftmax-prior-scale-power", -0.25,
                                              "Power of the class counts that scales the outputs")
    prior_subset_size: int = opt("trainer.prior-subset-size", 20000, "Examples per job from which priors are computed",
                                 effect=HARMLESS)
    num_jobs_compute_prior: int = opt("trainer.num-jobs-compute-prior", 10, "Jobs that compute priors",
                                      effect=HARMLESS)

    def check(self) -> None:
        super().check()
        if not self.ali_dir:
            raise UsageError("no alignments were given", "say --ali-dir=exp/tri_ali")


@dataclass(init=False, repr=False, eq=False)
class RawOptions(CommonOptions):
    """What the drivers of raw networks take as well."""

    targets_scp: str | None = opt("targets-scp", None, "List of targets: matrices, or integer vectors if not dense",
                                  effect=HARMLESS)
    use_dense_targets: bool = opt("use-dense-targets", True, "Targets are matrices, one row per frame")
    augmentation_opts: str | None = opt("image.augmentation-opts", None, "Options of nnet3-egs-augment-image")
    compute_average_posteriors: bool = opt("compute-average-posteriors", False, "Average outputs of the final network",
                                           effect=HARMLESS)
    nj: int = opt("nj", 4, "Jobs that make the examples")
    prior_subset_size: int = opt("trainer.prior-subset-size", 20000, "Examples per job for average posteriors",
                                 effect=HARMLESS)
    num_jobs_compute_prior: int = opt("trainer.num-jobs-compute-prior", 10, "Jobs for average posteriors",
                                      effect=HARMLESS)


@dataclass(init=False, repr=False, eq=False)
class DnnPart(Declared):
    """Networks without recurrence: examples are trained on one frame at a time."""

    frames_per_eg: int = opt("egs.frames-per-eg", 8, "Labeled frames per example")


@dataclass(init=False, repr=False, eq=False)
class RnnPart(Declared):
    """Recurrent networks: examples are chunks, trained on as a whole."""

    chunk_width: str = opt("egs.chunk-width", "20", "Labeled frames per chunk; several with commas between")
    chunk_left_context: int = opt("egs.chunk-left-context", 40, "Frames to the left of a chunk, besides the network's")
    chunk_right_context: int = opt("egs.chunk-right-context", 0, "Frames to the right of a chunk")
    chunk_left_context_initial: int = opt("egs.chunk-left-context-initial", -1,
                                          "The same on the left at the start of utterances (-1: no other)")
    chunk_right_context_final: int = opt("egs.chunk-right-context-final", -1,
                                         "The same on the right at the end of utterances (-1: no other)")
    samples_per_iter: int = opt("trainer.samples-per-iter", 20000, "Chunks per archive, roughly")
    momentum: float = opt(f"{_OPTIMIZATION}momentum", 0.5, "Part of a minibatch's change carried over to the next")
    shrink_value: float = opt(f"{_OPTIMIZATION}shrink-value", 0.99, "Factor of the parameters while saturated")
    shrink_saturation_threshold: float = opt(f"{_OPTIMIZATION}shrink-saturation-threshold", 0.40,
                                             "Saturation (0 to 1) above which parameters shrink")
    num_chunk_per_minibatch: str = opt("trainer.rnn.num-chunk-per-minibatch", "100", "Chunks per minibatch")
    deriv_truncate_margin: int | None = opt("trainer.deriv-truncate-margin", 8,
                                            "Frames beyond a chunk and its context up to which derivatives go")


@dataclass(init=False, repr=False, eq=False)
class DnnOptions(DnnPart, AcousticOptions):
    """Options of train-dnn."""


@dataclass(init=False, repr=False, eq=False)
class RawDnnOptions(DnnPart, RawOptions):
    """Options of train-raw-dnn."""


@dataclass(init=False, repr=False, eq=False)
class RnnOptions(RnnPart, AcousticOptions):
    """Options of train-rnn."""


@dataclass(init=False, repr=False, eq=False)
class RawRnnOptions(RnnPart, RawOptions):
    """Options of train-raw-rnn."""


def option_name(options: CommonOptions, field: str) -> str:
    """The option's name on the command line."""
    return {field_.name: field_.metadata["name"] for field_ in dataclasses.fields(options)}[field]
