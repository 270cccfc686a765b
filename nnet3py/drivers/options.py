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

from nnet3py.errors import UsageError
from nnet3py.option_fields import CheckedOptions, like, opt
from nnet3py.training.options import CombineOptions, TrainerOptions

_OPTIMIZATION = "trainer.optimization."


class DriverOptions(CheckedOptions):
    """Base of the drivers' option classes: one ``__init__`` for all.

    ``dataclass`` would compile an ``__init__`` for each class of many fields, which takes several milliseconds whenever
    a command of a driver is started.
    """

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):   # type: ignore[arg-type]
            setattr(self, field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    def command(self, program: str) -> str:
        """Return the command line that gives these values, quoted for a shell, without options at their defaults."""
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
class JobOptions(DriverOptions):
    """What all work in stages and jobs takes."""

    dir: str = opt("dir", "", "Folder for the result, its logs and what is needed on the way", harmless=True)
    stage: int | None = opt("stage", None, "Begin at this stage, doing all from there on again; blank: go on where the "
                            "folder stands", harmless=True)
    exit_stage: int | None = opt("exit-stage", None, "Stop before this stage", harmless=True)
    cmd: str | None = opt("cmd", None, "How jobs are started, such as 'queue.pl --mem 4G'; blank: processes here",
                          harmless=True)
    scheduler: str | None = opt("scheduler", None, "Address of a dask.distributed scheduler that runs the jobs",
                                harmless=True)
    num_threads: int = opt("num-threads", 0, "Cores that the jobs here share (0: all this process may use)",
                           harmless=True, least=0)
    cleanup: bool = opt("cleanup", True, "Remove what is not needed any more", harmless=True)


@dataclass(init=False, repr=False, eq=False)
class CommonOptions(JobOptions):
    """What all drivers of training take."""

    dir: str = opt("dir", "", "Folder of the training: configs/ in it, models and logs go to it", harmless=True)
    feat_dir: str | None = opt("feat-dir", None, "Folder of data with feats.scp", harmless=True)
    online_ivector_dir: str | None = opt("feat.online-ivector-dir", None, "Folder with ivector_online.scp",
                                        harmless=True)
    cmvn_opts: str | None = opt("feat.cmvn-opts", None, "Options of apply-cmvn, such as --norm-means=false")
    egs_dir: str | None = opt("egs.dir", None, "Folder of examples that exist already", harmless=True)
    egs_stage: int = opt("egs.stage", 0, "Where making the examples begins", harmless=True)
    egs_opts: str | None = opt("egs.opts", None, "Further options of making the examples")
    egs_cmd: str | None = opt("egs.cmd", None, "As --cmd, for making the examples", harmless=True)

    srand: int = like(TrainerOptions, "srand", "trainer.srand")
    num_epochs: float = opt("trainer.num-epochs", 8.0, "Passes over the data")
    shuffle_buffer_size: int = opt("trainer.shuffle-buffer-size", 5000,
                                   "Examples that are held back to be shuffled (0: all)", least=0)
    max_param_change: float = like(TrainerOptions, "max_param_change", "trainer.max-param-change", least=0)
    samples_per_iter: int = opt("trainer.samples-per-iter", 400000, "Examples per archive, roughly", least=1)
    rand_prune: float = opt("trainer.lda.rand-prune", 4.0, "Random pruning of posteriors for the LDA-like transform")
    max_lda_jobs: int = opt("trainer.lda.max-lda-jobs", 10, "Most jobs, and archives, for the LDA-like transform",
                            least=1)
    proportional_shrink: float = opt(f"{_OPTIMIZATION}proportional-shrink", 0.0,
                                     "Times the learning rate: by how much parameters shrink per iteration")
    initial_effective_lrate: float = opt(f"{_OPTIMIZATION}initial-effective-lrate", 0.0003, "Learning rate at first")
    final_effective_lrate: float = opt(f"{_OPTIMIZATION}final-effective-lrate", 0.00003, "Learning rate at the end")
    num_jobs_initial: int = opt(f"{_OPTIMIZATION}num-jobs-initial", 1, "Jobs side by side at first")
    num_jobs_final: int = opt(f"{_OPTIMIZATION}num-jobs-final", 8, "Jobs side by side at the end")
    num_jobs_step: int = opt(f"{_OPTIMIZATION}num-jobs-step", 1, "The number of jobs is a multiple of this")
    max_models_combine: int = opt(f"{_OPTIMIZATION}max-models-combine", 20, "Most models that are combined",
                                  aliases=("trainer.max-models-combine",), least=1)
    max_objective_evaluations: int = like(CombineOptions, "max_objective_evaluations",
                                          f"{_OPTIMIZATION}max-objective-evaluations", least=1, harmless=True)
    do_final_combination: bool = opt(f"{_OPTIMIZATION}do-final-combination", True, "Combine the last models")
    combine_sum_to_one_penalty: float = opt(f"{_OPTIMIZATION}combine-sum-to-one-penalty", 0.0,
                                            "No effect, as in Kaldi", harmless=True)
    momentum: float = like(TrainerOptions, "momentum", f"{_OPTIMIZATION}momentum", least=0)
    minibatch_size: str = opt(f"{_OPTIMIZATION}minibatch-size", "512", "Examples per minibatch: 512, 128=64,32/256=40")
    dropout_schedule: str | None = opt("trainer.dropout-schedule", None,
                                       "Dropout proportions as training goes on, such as 0,0.3@0.20,0.3@0.50,0")
    add_option: tuple[str, ...] = opt("trainer.add-option", (), "A further option of the training program; repeatable")
    backstitch_scale: float = like(TrainerOptions, "backstitch_training_scale",
                                   f"{_OPTIMIZATION}backstitch-training-scale")
    backstitch_interval: int = like(TrainerOptions, "backstitch_training_interval",
                                    f"{_OPTIMIZATION}backstitch-training-interval", least=1)
    compute_per_dim_accuracy: bool = opt("trainer.compute-per-dim-accuracy", False,
                                         "Also log the accuracy of every class on training data", harmless=True)
    input_model: str | None = opt("trainer.input-model", None, "Start from this raw network, not from configs/")

    use_gpu: str = opt("use-gpu", "yes", "yes|no|optional|wait: train on GPUs; without one, training warns and goes on",
                       harmless=True)
    remove_egs: bool = opt("cleanup.remove-egs", True, "Remove the examples in the end, if made here", harmless=True)
    preserve_model_interval: int = opt("cleanup.preserve-model-interval", 100, "Models with these numbers are kept",
                                       harmless=True, least=1)
    email: str | None = opt("reporting.email", None, "No effect: no mail is sent", harmless=True)
    reporting_interval: float = opt("reporting.interval", 0.1, "No effect: no mail is sent", harmless=True)

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
        super().check()
        if not self.momentum < 1.0:
            raise UsageError(f"--{_OPTIMIZATION}momentum={self.momentum:g}: expected 0 or more, and below 1")


@dataclass(init=False, repr=False, eq=False)
class AcousticOptions(CommonOptions):
    """What the drivers of acoustic models (a transition model and a network) take as well."""

    ali_dir: str | None = opt("ali-dir", None, "Folder of alignments: ali.*.gz, num_jobs, final.mdl, tree, phones.txt",
                              harmless=True)
    lang: str | None = opt("lang", None, "No effect: the alignments say all that is needed",
                           harmless=True)
    presoftmax_prior_scale_power: float = opt("trainer.presoftmax-prior-scale-power", -0.25,
                                              "Power of the class counts that scales the outputs")
    prior_subset_size: int = opt("trainer.prior-subset-size", 20000, "Examples per job from which priors are computed",
                                 harmless=True)
    num_jobs_compute_prior: int = opt("trainer.num-jobs-compute-prior", 10, "Jobs that compute priors",
                                      harmless=True)

    def check(self) -> None:
        super().check()
        if not self.ali_dir:
            raise UsageError("no alignments were given", "say --ali-dir=exp/tri_ali")


@dataclass(init=False, repr=False, eq=False)
class RawOptions(CommonOptions):
    """What the drivers of raw networks take as well."""

    targets_scp: str | None = opt("targets-scp", None, "List of targets: matrices, or integer vectors if not dense",
                                  harmless=True)
    use_dense_targets: bool = opt("use-dense-targets", True, "Targets are matrices, one row per frame")
    augmentation_opts: str | None = opt("image.augmentation-opts", None, "Options of nnet3-egs-augment-image")
    compute_average_posteriors: bool = opt("compute-average-posteriors", False, "Average outputs of the final network",
                                           harmless=True)
    nj: int = opt("nj", 4, "Jobs that make the examples", least=1)
    prior_subset_size: int = opt("trainer.prior-subset-size", 20000, "Examples per job for average posteriors",
                                 harmless=True)
    num_jobs_compute_prior: int = opt("trainer.num-jobs-compute-prior", 10, "Jobs for average posteriors",
                                      harmless=True)


@dataclass(init=False, repr=False, eq=False)
class DnnPart(DriverOptions):
    """Networks without recurrence: examples are trained on one frame at a time."""

    frames_per_eg: int = opt("egs.frames-per-eg", 8, "Labeled frames per example")


@dataclass(init=False, repr=False, eq=False)
class RnnPart(DriverOptions):
    """Recurrent networks: examples are chunks, trained on as a whole."""

    chunk_width: str = opt("egs.chunk-width", "20", "Labeled frames per chunk; several with commas between")
    chunk_left_context: int = opt("egs.chunk-left-context", 40, "Frames to the left of a chunk, besides the network's")
    chunk_right_context: int = opt("egs.chunk-right-context", 0, "Frames to the right of a chunk")
    chunk_left_context_initial: int = opt("egs.chunk-left-context-initial", -1,
                                          "The same on the left at the start of utterances (-1: no other)")
    chunk_right_context_final: int = opt("egs.chunk-right-context-final", -1,
                                         "The same on the right at the end of utterances (-1: no other)")
    samples_per_iter: int = opt("trainer.samples-per-iter", 20000, "Chunks per archive, roughly", least=1)
    momentum: float = like(CommonOptions, "momentum", default=0.5)
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
