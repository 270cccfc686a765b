"""Four drivers that train on frames or chunks with a class, or a vector, for each frame.

    train_raw_dnn(RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0))

Acoustic models (``train_dnn``, ``train_rnn``) have a transition model and priors, from a folder of alignments; raw
networks (``train_raw_dnn``, ``train_raw_rnn``) have targets for each utterance. Kaldi: steps/nnet3/train_dnn.py,
train_rnn.py, train_raw_dnn.py and train_raw_rnn.py.
"""
from __future__ import annotations

import logging
import shlex
import shutil
from abc import abstractmethod
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from nnet3py.cached_property import cached_property
from nnet3py.drivers import schedules
from nnet3py.drivers.commands import ACOUSTIC, RAW, ChunkCommands, ModelFiles, Network
from nnet3py.drivers.data_folder import AliFolder, table_dim
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Executor
from nnet3py.drivers.executors import make_executor
from nnet3py.drivers.make_egs import make_egs, make_target_egs
from nnet3py.drivers.options import (
    AcousticOptions,
    ChainOptions,
    CommonEgsOptions,
    DnnOptions,
    DnnPart,
    EgsOptions,
    RawDnnOptions,
    RawOptions,
    RawRnnOptions,
    RnnOptions,
    RnnPart,
)
from nnet3py.drivers.staged import context_from_vars, read_vars
from nnet3py.drivers.training import Stage, Training, link
from nnet3py.errors import UsageError
from nnet3py.io.streams import write_text

logger = logging.getLogger(__name__)

_COPIED_FROM_EGS = ("cmvn_opts", "splice_opts", "info/final.ie.id", "final.mat", "global_cmvn.stats", "online_cmvn")
E = TypeVar("E", bound=CommonEgsOptions)


class FrameLevelTraining(Training):
    """Base of the four drivers of frame-level training."""

    # numbers of the stages before the iterations, as Kaldi counts them; they differ between raw and acoustic models
    init_stage: ClassVar[int]
    egs_stage: ClassVar[int]
    lda_stage: ClassVar[int] = -3
    model_stage: ClassVar[int] = -1

    # -- the data ------------------------------------------------------------------------------------------------------

    def network(self) -> Network:
        if self.options.input_model:
            from nnet3py.compiler.build_graph import compute_simple_nnet_context
            from nnet3py.network.model_file import read_nnet

            return Network(*compute_simple_nnet_context(read_nnet(self.options.input_model)))
        return Network(*context_from_vars(self.folder))

    @cached_property
    def feat_dim(self) -> int:
        """The dimension of the features; 0 if no data directory was given."""
        return table_dim(f"scp:{self.options.feat_dir}/feats.scp") if self.options.feat_dir else 0

    @cached_property
    def ivector_dim(self) -> int:
        """The dimension of the ivectors; 0 for none."""
        folder = self.options.online_ivector_dir
        return table_dim(f"scp:{folder}/ivector_online.scp") if folder else 0

    @cached_property
    def ivector_id(self) -> str | None:
        """Id of the i-vector extractor, from ``final.ie.id`` in the folder of i-vectors; None if it is not known."""
        return ivector_extractor_id(self.options.online_ivector_dir)

    def needed_context(self) -> tuple[int, int]:
        """Return the least left and right context of an example."""
        network = self.network()
        return network.left_context, network.right_context

    def egs_contexts(self) -> tuple[int, int, int, int]:
        """Return left and right context of examples, and those at starts and ends of utterances (-1: as elsewhere)."""
        (left, right), options = self.needed_context(), self.options
        if not isinstance(options, (RnnPart, ChainOptions)):
            return left, right, -1, -1
        initial, final = options.chunk_left_context_initial, options.chunk_right_context_final
        return (options.chunk_left_context + left, options.chunk_right_context + right,
                -1 if initial < 0 else initial + left, -1 if final < 0 else final + right)

    @property
    def chunk_width(self) -> str:
        """Labeled frames per example, in the form of ``EgsFolder.frames_per_eg``."""
        options = self.options
        if isinstance(options, RnnPart):
            return options.chunk_width
        assert isinstance(options, DnnPart)
        return str(options.frames_per_eg)

    @property
    def egs_path(self) -> Path:
        """Path of the folder of examples."""
        return Path(self.options.egs_dir) if self.options.egs_dir else self.folder.path / "egs"

    def verified_egs(self) -> EgsFolder:
        """Open the folder of examples; raise Nnet3Error if they do not fit the features and the network's context."""
        egs = EgsFolder(self.egs_path)
        egs.verify(self.feat_dim, self.ivector_dim, self.ivector_id, *self.egs_contexts(), self.chunk_width)
        return egs

    def open_egs(self) -> EgsFolder:
        egs = self.verified_egs()
        for name in _COPIED_FROM_EGS:
            if (egs.path / name).is_file():
                shutil.copyfile(egs.path / name, self.folder.path / Path(name).name)
        return egs

    # -- stages --------------------------------------------------------------------------------------------------------

    @property
    def has_init_config(self) -> bool:
        """True if configs/init.config exists, for the network with which the LDA-like input transform is estimated."""
        return not self.options.input_model and (self.folder.configs / "init.config").exists()

    def stages_to_egs(self) -> list[Stage]:
        stages = []
        if self.has_init_config:
            stages.append(Stage(self.init_stage, "Initializing a basic network for estimating preconditioning matrix",
                                self._make_init, (self.folder.path / "init.raw",)))
        if not self.options.egs_dir:
            stages.append(Stage(self.egs_stage, "Generating egs", self._make_egs, None))
        return stages

    def stages_to_model(self) -> list[Stage]:
        stages = []
        if self.has_init_config:
            stages.append(Stage(self.lda_stage, "Computing the preconditioning matrix for input features",
                                self._make_lda, (self.folder.path / "lda.mat", self.folder.configs / "lda.mat")))
        return [*stages, Stage(self.model_stage, "Preparing the initial network", self._make_model,
                               (self.folder.model(0),))]

    def _make_init(self) -> None:
        self.run_jobs({"nnet_init": f"nnet3-init --srand=-2 {self.folder.configs}/init.config "
                                    f"{self.folder.path}/init.raw"})

    def _make_egs(self) -> bool:
        """Make the folder of examples; return False if it was already complete."""
        complete = self.folder.path / "egs" / "info" / "num_archives"
        before = complete.stat().st_mtime_ns if complete.exists() else None
        if self.options.egs_cmd and not self.options.scheduler:
            with make_executor(self.options.egs_cmd) as executor:
                self.make_egs(executor)
        else:
            self.make_egs(self.executor)
        return complete.stat().st_mtime_ns != before

    @abstractmethod
    def make_egs(self, executor: Executor) -> None:
        """Make the folder of examples, by jobs of ``executor``."""

    def egs_options(self, kind: type[E], **more: Any) -> E:
        """Return options of making examples: the driver's, the contexts, ``more``, and those of --egs.opts."""
        options = self.options
        left, right, initial, final = self.egs_contexts()
        egs_options = kind(frames_per_eg=self.chunk_width, left_context=left, right_context=right,
                           left_context_initial=initial, right_context_final=final, srand=options.srand,
                           stage=options.egs_stage, online_ivector_dir=options.online_ivector_dir,
                           cmvn_opts=options.cmvn_opts, **more)
        return egs_options.with_words(shlex.split(options.egs_opts or ""))

    def _make_lda(self) -> None:
        folder = self.folder.path
        numbers = range(1, min(self.commands.egs.num_archives, self.options.max_lda_jobs) + 1)
        self.run_jobs({f"get_lda_stats.{job}": self.commands.lda_stats(job) for job in numbers})
        stats = [folder / f"{job}.lda_stats" for job in numbers]
        self.run_jobs({"sum_transform_stats": " ".join(["sum-lda-accs", f"{folder}/lda_stats", *map(str, stats)])})
        self.run_jobs({"get_transform": f"nnet-get-feature-transform {folder}/lda.mat {folder}/lda_stats"})
        for path in stats:
            path.unlink(missing_ok=True)
        link("../lda.mat", self.folder.configs / "lda.mat")

    def _make_network(self, seed: int) -> Path:
        """Make the initial raw network, without a transition model; return its path."""
        options, target = self.options, self.folder.path / "0.raw"
        if options.input_model:
            self.run_jobs({"init_model": f"nnet3-copy {options.input_model} {target}"})
            return target
        final = f"{self.folder.configs}/final.config"
        if self.has_init_config:
            self.run_jobs({"add_first_layer": f"nnet3-init --srand={seed} {self.folder.path}/init.raw {final} "
                                              f"{target}"})
        else:
            self.run_jobs({"init_model": f"nnet3-init --srand={seed} {final} {target}"})
        return target

    @abstractmethod
    def _make_model(self) -> None:
        """Make the initial model."""

    def _combine(self, target: str) -> None:
        newest_first = sorted(self.combined_models(), reverse=True)
        self.run_jobs({"combine": self.commands.combine(newest_first, str(self.folder.model(target)))}, on_gpu=True)

    def _sum_outputs(self, which: int | str, options: AcousticOptions | RawOptions) -> Path:
        """Sum a model's output posteriors over some training examples; return the path of the summed vector."""
        folder, count = self.folder.path, options.num_jobs_compute_prior
        total = folder / f"post.{which}.vec"
        for old in folder.glob(f"post.{which}.*.vec"):
            old.unlink()
        self.run_jobs({f"get_post.{which}.{job}": self.commands.average_posterior(which, job, count,
                                                                                  options.prior_subset_size)
                       for job in range(1, count + 1)}, on_gpu=True)
        parts = [f"{folder}/post.{which}.{job}.vec" for job in range(1, count + 1)]
        self.run_jobs({f"vector_sum.{which}": " ".join(["vector-sum", *parts, str(total)])})
        for part in parts:
            Path(part).unlink(missing_ok=True)
        return total

    # -- shrinkage -----------------------------------------------------------------------------------------------------

    unsaturated_shrink: ClassVar[float | None] = None      # of recurrent networks; None: proportional shrinkage

    def shrink(self, iteration: int, learning_rate: float) -> float:
        proportional, options = super().shrink(iteration, learning_rate), self.options
        if not isinstance(options, (RnnPart, ChainOptions)) or options.shrink_value >= proportional:
            return proportional
        if self._is_saturated(iteration, options.shrink_saturation_threshold):
            return options.shrink_value
        return proportional if self.unsaturated_shrink is None else self.unsaturated_shrink

    def _is_saturated(self, iteration: int, threshold: float) -> bool:
        if iteration == 0:
            return True
        from nnet3py.model_info import info
        from nnet3py.network.model_file import read_nnet

        saturation = schedules.saturation(info(read_nnet(str(self.folder.model(iteration)))))
        logger.info("Saturation of model %d: %.3f", iteration, saturation)
        return saturation > threshold


class AcousticTraining(FrameLevelTraining):
    """Training of acoustic models: the driver ``train-dnn``, and the base of ``train-rnn``."""

    name = "train-dnn"
    models: ClassVar[ModelFiles] = ACOUSTIC
    report = ("accuracy.report", "accuracy")
    init_stage, egs_stage = -5, -4
    scale_stage: ClassVar[int] = -2
    unsaturated_shrink = 1.0
    options: AcousticOptions

    @cached_property
    def alignments(self) -> AliFolder:
        """The folder of alignments."""
        assert self.options.ali_dir
        return AliFolder(self.options.ali_dir)

    def begin(self) -> None:
        super().begin()
        for source in filter(None, (self.alignments.phones, self.alignments.tree)):
            shutil.copyfile(source, self.folder.path / source.name)
        (self.folder.path / "num_jobs").write_text(f"{self.alignments.num_jobs}\n")

    def make_egs(self, executor: Executor) -> None:
        if not self.options.feat_dir:
            raise UsageError("neither examples nor features were given", "give --feat-dir=data/NAME, or --egs.dir")
        egs_options = self.egs_options(EgsOptions, samples_per_iter=self.options.samples_per_iter)
        make_egs(self.options.feat_dir, self.alignments.path, self.egs_path, egs_options, executor)

    def stages_to_model(self) -> list[Stage]:
        stages = super().stages_to_model()
        if not self.options.input_model:
            stages.insert(-1, Stage(self.scale_stage, "Computing scales of the outputs from the counts of classes",
                                    self._make_prior_scale,
                                    (self.folder.path / "presoftmax_prior_scale.vec",
                                     self.folder.configs / "presoftmax_prior_scale.vec")))
        return stages

    def _make_prior_scale(self) -> None:
        folder, model = self.folder.path, self.alignments.model
        numbers = range(1, self.alignments.num_jobs + 1)
        self.run_jobs({
            f"acc_pdf.{job}": f'ali-to-post "ark:gunzip -c {self.alignments.archive(job)}|" ark:- | '
                              f"post-to-tacc --per-pdf=true {model} ark:- {folder}/pdf_counts.{job}"
            for job in numbers})
        parts = [folder / f"pdf_counts.{job}" for job in numbers]
        self.run_jobs({"sum_pdf_counts": " ".join(["vector-sum --binary=false", *map(str, parts),
                                                   f"{folder}/pdf_counts"])})
        counts = [float(word) for word in (folder / "pdf_counts").read_text().strip(" []\n").split()]
        scales = schedules.presoftmax_prior_scale(counts, self.options.presoftmax_prior_scale_power)
        write_text(str(folder / "presoftmax_prior_scale.vec"), f" [ {' '.join(map(str, scales))} ]\n")
        for part in parts:
            part.unlink(missing_ok=True)
        link("../presoftmax_prior_scale.vec", self.folder.configs / "presoftmax_prior_scale.vec")

    def _make_model(self) -> None:
        raw = self.options.input_model or self._make_network(-3)
        self.run_jobs({"init_mdl": (
            f"nnet3-am-init {self.alignments.model} {raw} - | nnet3-am-train-transitions - "
            f'"ark:gunzip -c {self.alignments.path}/ali.*.gz|" {self.folder.model(0)}')})

    def stages_to_final(self) -> list[Stage]:
        number, stages = self.plan.num_iters, []
        if self.options.do_final_combination:
            stages.append(Stage(number, "Doing final combination to produce final.mdl",
                                lambda: self._combine("combined"), (self.folder.model("combined"),)))
        return [*stages, Stage(number + 1, "Getting average posterior for purposes of adjusting the priors",
                               self._adjust_priors, (self.folder.model("final"),))]

    def diagnosed_at_end(self) -> str | None:
        return "combined" if self.options.do_final_combination else None

    def _adjust_priors(self) -> None:
        which: int | str = "combined" if self.options.do_final_combination else self.plan.num_iters
        total = self._sum_outputs(which, self.options)
        self.run_jobs({f"adjust_priors.{which}": f"nnet3-am-adjust-priors {self.folder.model(which)} {total} "
                                                 f"{self.folder.model('final')}"})


class RawTraining(FrameLevelTraining):
    """Training of networks without a transition model: ``train-raw-dnn``, and the base of ``train-raw-rnn``."""

    name = "train-raw-dnn"
    models: ClassVar[ModelFiles] = RAW
    report = ("accuracy.output.report", "accuracy")
    init_stage, egs_stage = -4, -3
    lda_stage = -2
    options: RawOptions

    def make_egs(self, executor: Executor) -> None:
        options = self.options
        if not options.feat_dir or not options.targets_scp:
            raise UsageError("neither examples nor features with targets were given",
                             "give --feat-dir=data/NAME and --targets-scp=…, or --egs.dir")
        egs_options = self.egs_options(EgsOptions, samples_per_iter=options.samples_per_iter, nj=options.nj)
        make_target_egs(options.feat_dir, options.targets_scp, self.egs_path, egs_options, executor,
                        "dense" if options.use_dense_targets else "sparse", self.num_targets)

    @cached_property
    def num_targets(self) -> int:
        """Dimension of the targets, by configs/vars, the network, or dense targets themselves.

        Raises UsageError if none of these gives it, or dense targets have another dimension than the network.
        """
        written = read_vars(self.folder).get("num_targets") if not self.options.input_model else None
        reference = self.options.input_model or str(self.folder.configs / "ref.raw")
        if written is not None:
            expected = int(written)
        elif Path(reference).exists():
            from nnet3py.network.model_file import read_nnet

            expected = read_nnet(reference).output_dim("output")
        elif self.options.use_dense_targets:
            return self._dense_dim()
        else:
            raise UsageError(f"the number of classes is not known: {self.folder.configs} has no ref.raw",
                             "add a line num_targets=N to configs/vars")
        if self.options.use_dense_targets and self._dense_dim() != expected:
            raise UsageError(f"the targets in {self.options.targets_scp} have {self._dense_dim()} columns, the network "
                             f"{expected} outputs", "make a network for these targets")
        return expected

    def _dense_dim(self) -> int:
        return table_dim(f"scp:{self.options.targets_scp}")

    def _make_model(self) -> None:
        self._make_network(self.options.srand)

    def stages_to_final(self) -> list[Stage]:
        number, final = self.plan.num_iters, self.folder.model("final")
        title = "Doing final combination to produce final.raw"
        run = (lambda: self._combine("final")) if self.options.do_final_combination else (
            lambda: link(f"{number}.raw", final))
        stages = [Stage(number, title, run, (final,))]
        if self.options.compute_average_posteriors:
            stages.append(Stage(number + 1, "Getting average posterior for output-node 'output'.",
                                self._average_outputs, (self.folder.path / "post.final.vec",)))
        return stages

    def diagnosed_at_end(self) -> str | None:
        return "final" if self.options.do_final_combination else None

    def _average_outputs(self) -> None:
        self._sum_outputs("final", self.options)

    def has_report(self) -> bool:
        from nnet3py.network.model_file import read_nnet

        return read_nnet(str(self.folder.model("final"))).output_dim("output") > 0


class RnnTraining(AcousticTraining):
    """The driver ``train-rnn``."""

    name, commands_class = "train-rnn", ChunkCommands


class RawRnnTraining(RawTraining):
    """The driver ``train-raw-rnn``."""

    name, commands_class = "train-raw-rnn", ChunkCommands


def train_dnn(options: DnnOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train an acoustic model without recurrence; arguments as for :class:`nnet3py.drivers.training.Training`."""
    AcousticTraining(options, executor, terminal).run()


def train_rnn(options: RnnOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train a recurrent acoustic model; arguments as for :class:`nnet3py.drivers.training.Training`."""
    RnnTraining(options, executor, terminal).run()


def train_raw_dnn(options: RawDnnOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train a network without recurrence; arguments as for :class:`nnet3py.drivers.training.Training`."""
    RawTraining(options, executor, terminal).run()


def train_raw_rnn(options: RawRnnOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train a recurrent network; arguments as for :class:`nnet3py.drivers.training.Training`."""
    RawRnnTraining(options, executor, terminal).run()


def ivector_extractor_id(folder: str | None) -> str | None:
    """Return the id of the i-vector extractor in a folder: ``final.ie.id``, or the MD5 sum of ``final.ie``, or None."""
    if not folder:
        return None
    path = Path(folder)
    if (path / "final.ie.id").is_file():
        return (path / "final.ie.id").read_text(encoding="utf-8").strip()
    if (path / "final.ie").is_file():
        import hashlib

        return hashlib.md5((path / "final.ie").read_bytes(), usedforsecurity=False).hexdigest()
    return None
