"""Command lines of a training's jobs, as Kaldi's scripts write them.

:class:`FrameCommands` trains one frame of each example at a time, :class:`ChunkCommands` whole chunks,
:class:`ChainCommands` with the LF-MMI objective; what differs between them (programs, options, names) are methods and
attributes to override. Nothing here runs a command or reads a file.

Kaldi: steps/libs/nnet3/train/frame_level_objf/common.py and chain_objf/acoustic_model.py.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnet3py.drivers.options import ChainOptions, CommonOptions, DnnPart, RnnPart
from nnet3py.drivers.schedules import archive_and_pass, halved_minibatch_size

if TYPE_CHECKING:
    from nnet3py.drivers.egs_folder import EgsFolder

PRINT_INTERVAL = 10          # minibatches between lines of a training log
VERBOSE_EVERY = 20           # interval of iterations with a more verbose training log
FULL_PROGRESS_EVERY = 10
POSTERIOR_MINIBATCH = 128
FEW_EGS = 4 * POSTERIOR_MINIBATCH


@dataclass(frozen=True)
class ModelFiles:
    """Format of a training's models: file suffix, whether a transition model is included, programs that read them."""

    suffix: str
    wrapped: bool
    to_raw: str = "nnet3-copy"         # program that makes a raw network of a model, with learning rate and scale
    info: str = "nnet3-info"

    def name(self, folder: str, which: int | str) -> str:
        """Return the file of model ``which``, a number or ``final``."""
        return f"{folder}/{which}.{self.suffix}"


RAW = ModelFiles("raw", wrapped=False)
ACOUSTIC = ModelFiles("mdl", wrapped=True)


@dataclass(frozen=True)
class Step:
    """Settings of an iteration that its jobs need."""

    iteration: int
    num_jobs: int
    processed: int               # archives processed before
    learning_rate: float         # effective rate times jobs
    shrink: float = 1.0
    dropout_edits: str = ""

    @property
    def is_first(self) -> bool:
        """True for the first iteration, which has smaller steps, and keeps the best job's network, not the average."""
        return self.iteration == 0


@dataclass(frozen=True)
class Network:
    """Left and right context of the network, in input frames."""

    left_context: int
    right_context: int


class FrameCommands:
    """Commands of training on single frames of the examples: train-dnn, train-raw-dnn.

    Parameters
    ----------
    options : options of the driver
    egs : folder of examples
    models : format of the models
    network : context of the network
    """

    train_program = "nnet3-train"
    prob_program = "nnet3-compute-prob"
    lda_program = "nnet3-acc-lda-stats"
    combine_program = "nnet3-combine"
    copy_egs, shuffle_egs, merge_egs = "nnet3-copy-egs", "nnet3-shuffle-egs", "nnet3-merge-egs"

    def __init__(self, options: CommonOptions, egs: EgsFolder, models: ModelFiles, network: Network) -> None:
        self.options, self.egs, self.models, self.network = options, egs, models, network
        self.dir = options.dir
        self.gpu = gpu_option(options.use_gpu)

    # -- what differs between kinds of training ------------------------------------------------------------------------

    @property
    def passes(self) -> int:
        """Passes over each archive in an epoch: one for each frame of an example."""
        assert isinstance(self.options, DnnPart)
        return self.options.frames_per_eg

    @property
    def most_jobs(self) -> int:
        """Largest number of training jobs at a time."""
        return self.egs.num_archives

    def selection(self, number: int) -> list[str]:
        """Return the options of the program that copies examples: which frame of them training uses in this pass.

        ``number`` counts the archives that the training has read, over all epochs, from 0.
        """
        return [f"--frame={self.archive(number)[1]}"]

    @property
    def minibatch_size(self) -> str:
        """Minibatch sizes, as given by the user."""
        return self.options.minibatch_size

    @property
    def combined_size(self) -> str:
        """Minibatch sizes for combining models."""
        return f"1:{self.minibatch_size}"

    def derivative_times(self) -> list[str]:
        """Return the options of the training program that limit the frames for which derivatives are computed."""
        return []

    def train_options(self, step: Step) -> list[str]:
        """Return options of the training program for this kind of training, such as those of its objective."""
        return []

    def train_inputs(self) -> list[str]:
        """Return the arguments between the network and the examples: in chain training the denominator graph."""
        return []

    def backstitch_scale(self, step: Step) -> float:
        """Return the size of the backward steps of backstitch in an iteration."""
        return self.options.backstitch_scale

    # -- a training job ------------------------------------------------------------------------------------------------

    def archive(self, number: int) -> tuple[int, int]:
        """Return (archive, pass over it), as :func:`~nnet3py.drivers.schedules.archive_and_pass`."""
        return archive_and_pass(number, self.egs.num_archives, self.passes)

    def starting_network(self, step: Step) -> str:
        """Return the rxfilename (a pipe) of a training job's network, with learning rate, scale and dropout set."""
        pipe = (f"{self.models.to_raw} --learning-rate={step.learning_rate} --scale={step.shrink} "
                f"{self.models.name(self.dir, step.iteration)} - |")
        return pipe + (f"nnet3-copy --edits='{step.dropout_edits}' - - |" if step.dropout_edits else "")

    def minibatches(self, step: Step, job: int) -> str:
        """Return the rspecifier (a pipe) from which job ``job`` (from 1) reads its minibatches."""
        number = step.processed + job - 1
        archive, _ = self.archive(number)
        size = halved_minibatch_size(self.minibatch_size) if step.is_first else self.minibatch_size
        seed = step.iteration + self.options.srand
        copying = self._copying(archive, *self.selection(number))
        shuffling = f"{self.shuffle_egs} --buffer-size={self.options.shuffle_buffer_size} --srand={seed} ark:- ark:-"
        merging = f"{self.merge_egs} --minibatch-size={size} ark:- ark:-"
        steps = [copying, shuffling, merging]
        if augmentation := getattr(self.options, "augmentation_opts", None):
            seed_of_images = number + self.options.srand
            steps.insert(2, f"nnet3-egs-augment-image --srand={seed_of_images} {augmentation} ark:- ark:-")
        return f"ark,bg:{' | '.join(steps)} |"

    def _copying(self, archive: int, *selection: str) -> str:
        """Return the command that writes the examples of a training archive (from 1) to standard output."""
        return _words(self.copy_egs, *selection, *self.egs.multitask_options("egs", archive),
                      self.egs.training_rspecifier(archive), "ark:-")

    def train(self, step: Step, job: int) -> str:
        """Return the command of job ``job`` (from 1) of an iteration."""
        options, iteration = self.options, step.iteration
        change = options.max_param_change / math.sqrt(2.0) if step.is_first else options.max_param_change
        return _words(
            self.train_program, f"--use-gpu={self.gpu}", *self.train_options(step),
            f"--read-cache={self.dir}/cache.{iteration}" if iteration > 0 else "",
            f"--write-cache={self.dir}/cache.{iteration + 1}" if job == 1 else "",
            "--verbose=1" if iteration % VERBOSE_EVERY == 0 and iteration > 0 else "",
            f"--print-interval={PRINT_INTERVAL}", f"--momentum={options.momentum}",
            f"--max-param-change={change}", f"--backstitch-training-scale={self.backstitch_scale(step)}",
            f"--l2-regularize-factor={1.0 / step.num_jobs}",
            f"--backstitch-training-interval={options.backstitch_interval}",
            f"--srand={iteration + options.srand}", *self.derivative_times(), *options.add_option,
            f'"{self.starting_network(step)}"', *self.train_inputs(), f'"{self.minibatches(step, job)}"',
            self.job_model(iteration, job))

    def job_model(self, iteration: int, job: int) -> str:
        """Return the path of the network that a training job writes."""
        return f"{self.dir}/{iteration + 1}.{job}.raw"

    # -- the models of an iteration ------------------------------------------------------------------------------------

    def average(self, iteration: int, jobs: Sequence[int]) -> str:
        """Return the command that writes the average of the networks of ``jobs`` as the next model."""
        return self._into_model(_words("nnet3-average", *(self.job_model(iteration, job) for job in jobs)), iteration)

    def select(self, iteration: int, job: int) -> str:
        """Return the command that writes the network of job ``job`` as the next model."""
        return self._into_model(f"nnet3-copy {self.job_model(iteration, job)}", iteration)

    def _into_model(self, command: str, iteration: int) -> str:
        following = self.models.name(self.dir, iteration + 1)
        if not self.models.wrapped:
            return f"{command} {following}"
        return f"{command} - | nnet3-am-copy --set-raw-nnet=- {self.models.name(self.dir, iteration)} {following}"

    # -- diagnostics ---------------------------------------------------------------------------------------------------

    def compute_prob(self, which: int | str, subset: str) -> str:
        """Return the command that computes a model's objective and accuracy on ``train`` or ``valid`` diagnostics."""
        return _words(self.prob_program, *self.prob_options(),
                      "--compute-per-dim-accuracy" if self.per_dim_accuracy(subset) else "",
                      f'"{self.models.name(self.dir, which)}"', *self.train_inputs(),
                      f'"{self.diagnostic_minibatches(f"{subset}_diagnostic", "1:64")}"')

    def per_dim_accuracy(self, subset: str) -> bool:
        """Return whether the accuracy of each class is logged."""
        return subset == "train" and self.options.compute_per_dim_accuracy

    def prob_options(self) -> list[str]:
        """Return options of the program that computes objectives, for this kind of training."""
        return []

    def combine_options(self) -> list[str]:
        """Return options of the program that combines models, for this kind of training."""
        return []

    def diagnostic_minibatches(self, name: str, size: str) -> str:
        """Return the rspecifier (a pipe) of the examples ``name``, merged into minibatches of size ``size``.

        ``name`` is ``combine``, ``train_diagnostic`` or ``valid_diagnostic``.
        """
        copying = _words(self.copy_egs, *self.egs.multitask_options(name), self.egs.diagnostic_rspecifier(name),
                         "ark:-")
        return f"ark,bg:{copying} | {self.merge_egs} --minibatch-size={size} ark:- ark:- |"

    def progress(self, iteration: int) -> dict[str, str]:
        """Return, by name of the log, the commands that log statistics of a model and its changes in an iteration."""
        after = self.models.name(self.dir, iteration)
        both = f"{self.models.name(self.dir, iteration - 1)} {after}"
        commands = {f"progress.{iteration}": f"{self.models.info} {after} && nnet3-show-progress --use-gpu=no {both}"}
        if iteration % FULL_PROGRESS_EVERY == 0:
            commands |= {f"full_progress.{iteration}": f"nnet3-show-progress --use-gpu=no --verbose=2 {both}",
                         f"full_info.{iteration}": f"{self.models.info} --verbose=2 {after}"}
        return commands

    # -- the end -------------------------------------------------------------------------------------------------------

    def combine(self, models: Sequence[int], target: str) -> str:
        """Return the command that writes the best average of ``models`` (numbers, newest first) to ``target``."""
        names = [self.models.name(self.dir, number) for number in models]
        if self.models.wrapped:
            target = f'"| nnet3-am-copy --set-raw-nnet=- {names[0]} {target}"'
        return _words(self.combine_program, f"--use-gpu={self.gpu}",
                      f"--max-objective-evaluations={self.options.max_objective_evaluations}",
                      *self.combine_options(), "--verbose=3", *self.train_inputs(), *names,
                      f'"{self.diagnostic_minibatches("combine", self.combined_size)}"', target)

    def average_posterior(self, which: int | str, job: int, num_jobs: int, subset_size: int) -> str:
        """Return the command that sums a model's output posteriors over ``subset_size`` examples.

        ``job``, of ``num_jobs`` from 1, determines archive and random seed. The sums are for priors.
        """
        archive = 1 if num_jobs > self.egs.num_archives else job
        few = min(subset_size, self.egs.egs_per_archive) < FEW_EGS     # fewer than a full minibatch: merge them, too
        size = f"1:{POSTERIOR_MINIBATCH}" if few else f"{POSTERIOR_MINIBATCH}"
        return " | ".join((
            self._copying(archive), f"nnet3-subset-egs --srand={job} --n={subset_size} ark:- ark:-",
            f"nnet3-merge-egs --minibatch-size={size} ark:- ark:-",
            f'nnet3-compute-from-egs --use-gpu={self.gpu} --apply-exp=true "{self.models.name(self.dir, which)}" '
            "ark:- ark:-",
            "matrix-sum-rows ark:- ark:-", f"vector-sum ark:- {self.dir}/post.{which}.{job}.vec"))

    # -- before the first iteration ------------------------------------------------------------------------------------

    def lda_stats(self, job: int) -> str:
        """Return the command that accumulates the statistics of one archive for the LDA-like transform."""
        return (f"{self.lda_program} --rand-prune={self.options.rand_prune} {self.dir}/init.raw "
                f'"ark:{self._copying(job)} |" {self.dir}/{job}.lda_stats')


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
    """Return options that limit derivatives to a chunk, its context and ``margin`` more frames (None: no limit)."""
    if margin is None:
        return []
    return [f"--optimization.min-deriv-time={-margin - network.left_context}",
            f"--optimization.max-deriv-time-relative={margin + network.right_context}"]


def gpu_option(use_gpu: str) -> str:
    """Return the value of ``--use-gpu`` for programs from a driver's, which may also be ``true`` or ``false``."""
    return {"true": "yes", "false": "no"}.get(use_gpu, use_gpu)


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)


CHAIN = ModelFiles("mdl", wrapped=True, to_raw="nnet3-am-copy --raw=true", info="nnet3-am-info")
BACKSTITCH_RAMP = 15         # iterations in which the backward steps grow to their size
WHOLE_UTTERANCES_COMBINED = "1:64"     # minibatch sizes of whole utterances when models are combined


class ChainCommands(FrameCommands):
    """Commands of train-chain."""

    train_program = "nnet3-chain-train"
    prob_program = "nnet3-chain-compute-prob"
    combine_program = "nnet3-chain-combine"
    lda_program = "nnet3-chain-acc-lda-stats"
    copy_egs, shuffle_egs, merge_egs = "nnet3-chain-copy-egs", "nnet3-chain-shuffle-egs", "nnet3-chain-merge-egs"
    options: ChainOptions

    @property
    def passes(self) -> int:
        """Passes over each archive in an epoch: one for each shift of the input frames."""
        return self.options.frame_subsampling_factor

    @property
    def most_jobs(self) -> int:
        """Largest number of training jobs at a time; jobs that read the same archive use different frame shifts."""
        return self.egs.num_archives * self.passes

    def selection(self, number: int) -> list[str]:
        return [f"--frame-shift={self.archive(number)[1]}"]

    def derivative_times(self) -> list[str]:
        options, old = self.options, self.options.left_deriv_truncate
        return derivative_limits(options.deriv_truncate_margin if old is None else -old, self.network)

    def train_options(self, step: Step) -> list[str]:
        options = self.options
        lwf = [f"--lwf-scale={options.lwf_scale}"] if options.lwf_model else []
        return [f"--apply-deriv-weights={str(options.apply_deriv_weights).lower()}", *self.prob_options(), *lwf,
                *options.chain_opts.split()]

    def train_inputs(self) -> list[str]:
        return [self.den_fst]

    def minibatches(self, step: Step, job: int) -> str:
        pipe, options = super().minibatches(step, job), self.options
        if not options.lwf_model:
            return pipe
        words = ["nnet3-chain-add-post-to-egs", "--use-gpu=no", f"--type={options.lwf_type}",
                 "--batchnorm-test-mode=true", "--dropout-test-mode=true",
                 f"--leaky-hmm-coefficient={options.leaky_hmm_coefficient}",
                 f"--clip-threshold={options.lwf_clip_threshold}", options.lwf_model, self.den_fst, "ark:- ark:-"]
        return f"{pipe.removesuffix(' |')} | {' '.join(words)} |"

    @property
    def combined_size(self) -> str:
        return WHOLE_UTTERANCES_COMBINED if self.options.e2e else super().combined_size

    @property
    def den_fst(self) -> str:
        """Path of the denominator graph."""
        return f"{self.dir}/den.fst"

    def backstitch_scale(self, step: Step) -> float:
        return self.options.backstitch_scale * min(1.0, step.iteration / BACKSTITCH_RAMP)

    def prob_options(self) -> list[str]:
        return [*self._objective_options(), f"--xent-regularize={self.options.xent_regularize}"]

    def _objective_options(self) -> list[str]:
        return [f"--l2-regularize={self.options.l2_regularize}",
                f"--leaky-hmm-coefficient={self.options.leaky_hmm_coefficient}"]

    def per_dim_accuracy(self, subset: str) -> bool:
        return False

    def combine_options(self) -> list[str]:
        return self._objective_options()       # without the cross-entropy, which would change the objective

    # -- before the first iteration ------------------------------------------------------------------------------------

    @staticmethod
    def phone_lm(options: ChainOptions, model: str, alignments: str) -> str:
        """Return the command that estimates the phone language model from alignments.

        ``model`` has the transition model of the alignments, which are an rspecifier. In semi-supervised training the
        best paths of lattices are added; --semisup.lm-repeats says how often each part is counted. Kaldi:
        make_weighted_den_fst.sh.
        """
        estimate = " ".join(["chain-est-phone-lm", *(options.lm_opts or "").split()])
        phones = f'ali-to-phones {model} "{alignments}" ark:-'
        if options.semisup_lat_dir:
            best = (f"lattice-best-path --acoustic-scale={options.semisup_acwt:g} "
                    f'"ark:gunzip -c {options.semisup_lat_dir}/lat.*.gz |" ark:/dev/null ark:- | '
                    f"ali-to-phones {options.semisup_lat_dir}/final.mdl ark:- ark:-")
            repeats = [int(number) for number in options.semisup_lm_repeats.split(",")]
            sources = [phones] * repeats[0] + [best] * repeats[1]
            phones = f"{{ {' && '.join(sources)}; }}"
        return f"{phones} | {estimate} ark:- {options.dir}/phone_lm.fst"
