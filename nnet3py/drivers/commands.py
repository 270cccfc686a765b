"""The command lines of a training's jobs, as Kaldi's scripts write them.

:class:`FrameCommands` trains one frame of each example at a time, :class:`ChunkCommands` whole chunks; what other
trainings do differently (programs, options, names) are methods and attributes to override. Nothing here runs or
reads anything. Kaldi: steps/libs/nnet3/train/frame_level_objf/common.py.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnet3py.drivers.options import CommonOptions, DnnPart, RnnPart
from nnet3py.drivers.schedules import archive_and_pass, halved_minibatch_size

if TYPE_CHECKING:
    from nnet3py.drivers.egs.egs_folder import EgsFolder

PRINT_INTERVAL = 10
VERBOSE_EVERY = 20           # one iteration in so many has a more verbose training log
FULL_PROGRESS_EVERY = 10
POSTERIOR_MINIBATCH = 128
FEW_EGS = 4 * POSTERIOR_MINIBATCH


@dataclass(frozen=True)
class ModelFiles:
    """How the models of a training are kept: their suffix, whether a transition model is in front, their programs."""

    suffix: str
    wrapped: bool
    to_raw: str = "nnet3-copy"         # makes a raw network of a model, with a learning rate and a scale
    info: str = "nnet3-info"

    def name(self, folder: str, which: int | str) -> str:
        """The file of model ``which``, a number or ``final``."""
        return f"{folder}/{which}.{self.suffix}"


RAW = ModelFiles("raw", wrapped=False)
ACOUSTIC = ModelFiles("mdl", wrapped=True)


@dataclass(frozen=True)
class Step:
    """One iteration of a training: what its jobs need to know."""

    iteration: int
    num_jobs: int
    processed: int               # archives gone through before
    learning_rate: float         # effective rate times jobs
    shrink: float = 1.0
    dropout_edits: str = ""

    @property
    def is_first(self) -> bool:
        """The first iteration trains more carefully, and its best job is taken instead of the average."""
        return self.iteration == 0


@dataclass(frozen=True)
class Network:
    """What the commands must know of the network: the context that it needs."""

    left_context: int
    right_context: int


class FrameCommands:
    """Commands of a training on single frames of the examples: train-dnn, train-raw-dnn.

    Parameters
    ----------
    options : of the driver
    egs : the examples
    models : how models are kept
    network : its context
    """

    train_program = "nnet3-train"
    prob_program = "nnet3-compute-prob"
    lda_program = "nnet3-acc-lda-stats"
    combine_program = "nnet3-combine"
    copy_egs, shuffle_egs, merge_egs = "nnet3-copy-egs", "nnet3-shuffle-egs", "nnet3-merge-egs"
    print_interval = PRINT_INTERVAL

    def __init__(self, options: CommonOptions, egs: EgsFolder, models: ModelFiles, network: Network) -> None:
        self.options, self.egs, self.models, self.network = options, egs, models, network
        self.dir = options.dir
        self.gpu = gpu_option(options.use_gpu)

    # -- what differs between kinds of training ------------------------------------------------------------------------

    @property
    def passes(self) -> int:
        """How often an epoch goes through each archive."""
        assert isinstance(self.options, DnnPart)
        return self.options.frames_per_eg

    @property
    def most_jobs(self) -> int:
        """How many jobs may train side by side."""
        return self.egs.num_archives

    def selection(self, number: int) -> list[str]:
        """Options of copying the ``number``-th archive (from 0) of the training."""
        return [f"--frame={self.archive(number)[1]}"]

    @property
    def minibatch_size(self) -> str:
        """As given by the user."""
        return self.options.minibatch_size

    @property
    def combined_size(self) -> str:
        """The size of minibatches for combining models."""
        return f"1:{self.minibatch_size}"

    def derivative_times(self) -> list[str]:
        """Options of the training program that limit how far derivatives go."""
        return []

    def train_options(self, step: Step) -> list[str]:
        """Further options of the training program."""
        return []

    def train_inputs(self) -> list[str]:
        """Arguments of the training program, and of others, between the network and the examples."""
        return []

    def backstitch_scale(self, step: Step) -> float:
        """The size of backward steps in an iteration."""
        return self.options.backstitch_scale

    # -- a training job ------------------------------------------------------------------------------------------------

    def archive(self, number: int) -> tuple[int, int]:
        """The ``number``-th archive (from 0) of the training: which archive (from 1), which pass over it."""
        return archive_and_pass(number, self.egs.num_archives, self.passes)

    def starting_network(self, step: Step) -> str:
        """The pipe that gives a training job its network."""
        pipe = (f"{self.models.to_raw} --learning-rate={step.learning_rate} --scale={step.shrink} "
                f"{self.models.name(self.dir, step.iteration)} - |")
        return pipe + (f"nnet3-copy --edits='{step.dropout_edits}' - - |" if step.dropout_edits else "")

    def minibatches(self, step: Step, job: int) -> str:
        """The pipe that gives job ``job`` (from 1) its minibatches."""
        number = step.processed + job - 1
        archive, _ = self.archive(number)
        size = halved_minibatch_size(self.minibatch_size) if step.is_first else self.minibatch_size
        seed = step.iteration + self.options.srand
        copying = _words(self.copy_egs, *self.selection(number), *self.egs.multitask_options("egs", archive),
                         self.egs.training_rspecifier(archive), "ark:-")
        shuffling = _words(self.shuffle_egs, f"--buffer-size={self.options.shuffle_buffer_size}", f"--srand={seed}",
                           "ark:-", "ark:-")
        merging = _words(self.merge_egs, f"--minibatch-size={size}", "ark:-", "ark:-")
        augmentation = getattr(self.options, "augmentation_opts", None)
        steps = [copying, shuffling, merging]
        if augmentation:
            seed_of_images = number + self.options.srand
            steps.insert(2, _words("nnet3-egs-augment-image", f"--srand={seed_of_images}", augmentation, "ark:-",
                                   "ark:-"))
        return f"ark,bg:{' | '.join(steps)} |"

    def train(self, step: Step, job: int) -> str:
        """Job ``job`` (from 1) of an iteration."""
        options, iteration = self.options, step.iteration
        change = options.max_param_change / math.sqrt(2.0) if step.is_first else options.max_param_change
        return _words(
            self.train_program, f"--use-gpu={self.gpu}", *self.train_options(step),
            f"--read-cache={self.dir}/cache.{iteration}" if iteration > 0 else "",
            f"--write-cache={self.dir}/cache.{iteration + 1}" if job == 1 else "",
            "--verbose=1" if iteration % VERBOSE_EVERY == 0 and iteration > 0 else "",
            f"--print-interval={self.print_interval}", f"--momentum={options.momentum}",
            f"--max-param-change={change}", f"--backstitch-training-scale={self.backstitch_scale(step)}",
            f"--l2-regularize-factor={1.0 / step.num_jobs}",
            f"--backstitch-training-interval={options.backstitch_interval}",
            f"--srand={iteration + options.srand}", *self.derivative_times(), *options.add_option,
            f'"{self.starting_network(step)}"', *self.train_inputs(), f'"{self.minibatches(step, job)}"',
            self.job_model(iteration, job))

    def job_model(self, iteration: int, job: int) -> str:
        """The network that a training job writes."""
        return f"{self.dir}/{iteration + 1}.{job}.raw"

    # -- the models of an iteration ------------------------------------------------------------------------------------

    def average(self, iteration: int, jobs: Sequence[int]) -> str:
        """The next model is the average of these jobs' networks."""
        return self._into_model(_words("nnet3-average", *(self.job_model(iteration, job) for job in jobs)), iteration)

    def select(self, iteration: int, job: int) -> str:
        """The next model is this job's network."""
        return self._into_model(f"nnet3-copy {self.job_model(iteration, job)}", iteration)

    def _into_model(self, command: str, iteration: int) -> str:
        following = self.models.name(self.dir, iteration + 1)
        if not self.models.wrapped:
            return f"{command} {following}"
        return f"{command} - | nnet3-am-copy --set-raw-nnet=- {self.models.name(self.dir, iteration)} {following}"

    # -- diagnostics ---------------------------------------------------------------------------------------------------

    def compute_prob(self, which: int | str, subset: str) -> str:
        """Objective and accuracy of a model on ``train`` or ``valid`` diagnostics."""
        return _words(self.prob_program, *self.prob_options(),
                      "--compute-per-dim-accuracy" if self.per_dim_accuracy(subset) else "",
                      f'"{self.models.name(self.dir, which)}"', *self.train_inputs(),
                      f'"{self.diagnostic_minibatches(f"{subset}_diagnostic", "1:64")}"')

    def per_dim_accuracy(self, subset: str) -> bool:
        """Whether the accuracy of each class is logged."""
        return subset == "train" and self.options.compute_per_dim_accuracy

    def prob_options(self) -> list[str]:
        """Options of the program that computes objectives."""
        return []

    def combine_options(self) -> list[str]:
        """Options of the program that combines models."""
        return []

    def diagnostic_minibatches(self, name: str, size: str) -> str:
        """The pipe of merged examples ``combine``, ``train_diagnostic`` or ``valid_diagnostic``."""
        copying = _words(self.copy_egs, *self.egs.multitask_options(name), self.egs.diagnostic_rspecifier(name),
                         "ark:-")
        return f"ark,bg:{copying} | {self.merge_egs} --minibatch-size={size} ark:- ark:- |"

    def progress(self, iteration: int) -> dict[str, str]:
        """What is logged of a model, and of how it changed: log's name -> command."""
        after = self.models.name(self.dir, iteration)
        both = f"{self.models.name(self.dir, iteration - 1)} {after}"
        commands = {f"progress.{iteration}": f"{self.models.info} {after} && nnet3-show-progress --use-gpu=no {both}"}
        if iteration % FULL_PROGRESS_EVERY == 0:
            commands |= {f"full_progress.{iteration}": f"nnet3-show-progress --use-gpu=no --verbose=2 {both}",
                         f"full_info.{iteration}": f"{self.models.info} --verbose=2 {after}"}
        return commands

    # -- the end -------------------------------------------------------------------------------------------------------

    def combine(self, models: Sequence[int], target: str) -> str:
        """The best average of ``models`` (numbers, newest first) becomes the file ``target``."""
        names = [self.models.name(self.dir, number) for number in models]
        if self.models.wrapped:
            target = f'"| nnet3-am-copy --set-raw-nnet=- {names[0]} {target}"'
        return _words(self.combine_program, f"--use-gpu={self.gpu}",
                      f"--max-objective-evaluations={self.options.max_objective_evaluations}",
                      *self.combine_options(), "--verbose=3", *self.train_inputs(), *names,
                      f'"{self.diagnostic_minibatches("combine", self.combined_size)}"', target)

    def average_posterior(self, which: int | str, job: int, num_jobs: int, subset_size: int) -> str:
        """The sum of a model's outputs on some examples of one archive, from job ``job`` of ``num_jobs``."""
        archive = 1 if num_jobs > self.egs.num_archives else job
        few = min(subset_size, self.egs.egs_per_archive) < FEW_EGS     # most or all would be left over: merge them, too
        size = f"1:{POSTERIOR_MINIBATCH}" if few else f"{POSTERIOR_MINIBATCH}"
        copying = _words(self.copy_egs, *self.egs.multitask_options("egs", archive),
                         self.egs.training_rspecifier(archive), "ark:-")
        return " | ".join((
            copying, f"nnet3-subset-egs --srand={job} --n={subset_size} ark:- ark:-",
            f"nnet3-merge-egs --minibatch-size={size} ark:- ark:-",
            f'nnet3-compute-from-egs --use-gpu={self.gpu} --apply-exp=true "{self.models.name(self.dir, which)}" '
            "ark:- ark:-",
            "matrix-sum-rows ark:- ark:-", f"vector-sum ark:- {self.dir}/post.{which}.{job}.vec"))

    # -- before the first iteration ------------------------------------------------------------------------------------

    def lda_stats(self, job: int) -> str:
        """Statistics of one archive for the LDA-like transform."""
        copying = _words(self.copy_egs, *self.egs.multitask_options("egs", job), self.egs.training_rspecifier(job),
                         "ark:-")
        return (f'{self.lda_program} --rand-prune={self.options.rand_prune} {self.dir}/init.raw "ark:{copying} |" '
                f"{self.dir}/{job}.lda_stats")


class ChunkCommands(FrameCommands):
    """Commands of a training on whole chunks: train-rnn, train-raw-rnn."""

    @property
    def passes(self) -> int:
        return 1

    def selection(self, number: int) -> list[str]:
        return []

    @property
    def minibatch_size(self) -> str:
        assert isinstance(self.options, RnnPart)
        return self.options.num_chunk_per_minibatch

    def derivative_times(self) -> list[str]:
        assert isinstance(self.options, RnnPart)
        return derivative_limits(self.options.deriv_truncate_margin, self.network)


def derivative_limits(margin: int | None, network: Network) -> list[str]:
    """Options of the training program: derivatives go ``margin`` frames beyond a chunk and its context (None: all)."""
    if margin is None:
        return []
    return [f"--optimization.min-deriv-time={-margin - network.left_context}",
            f"--optimization.max-deriv-time-relative={margin + network.right_context}"]


def gpu_option(use_gpu: str) -> str:
    """The value of ``--use-gpu`` for programs; Kaldi's scripts also take true and false."""
    return {"true": "yes", "false": "no"}.get(use_gpu, use_gpu)


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)
