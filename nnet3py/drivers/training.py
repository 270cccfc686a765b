"""Training from start to final model: stages, iterations, resumption, removal of old files.

:class:`Training` is the base of all drivers. A subclass names the format of its models, its commands, and the stages
before the first iteration and after the last; see :mod:`nnet3py.drivers.frame_level`.
"""
from __future__ import annotations

import logging
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

from nnet3py import system
from nnet3py.drivers.commands import FrameCommands, ModelFiles, Network, Step, gpu_option
from nnet3py.drivers.diagnostics import Diagnostics, Display, write_report
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.executors import make_executor
from nnet3py.drivers.options import CommonOptions
from nnet3py.drivers.schedules import DropoutSchedule, Plan, accepted_jobs, models_to_combine, proportional_shrink
from nnet3py.drivers.staged import FolderLock, TrainingFolder, differences, fingerprint
from nnet3py.errors import DeviceError, Nnet3Error, UsageError
from nnet3py.io.streams import write_text
from nnet3py.report.training_logs import COMMAND, EGS_INFO, FINISHED, PLAN, TrainLog, read_iterations

logger = logging.getLogger(__name__)

GPU_OPTIONS = ("--gpu", "1")
FIRST_STAGE = -100                  # before every stage


class Stage(NamedTuple):
    """Stage before the iterations or after them."""

    number: int                     # number of the stage in Kaldi's drivers, for ``--stage``
    title: str                      # text for the log
    run: Callable[[], bool | None]  # function that does the work; it returns False if the work was complete already
    # files that exist if and only if the stage is complete; None: ``run`` finds out itself
    products: tuple[Path, ...] | None

    def is_done(self) -> bool:
        """Return whether all products exist."""
        return self.products is not None and all(path.exists() for path in self.products)


class Training(ABC):
    """Base of training drivers. :meth:`run` resumes a training after its last complete stage or iteration.

    Parameters
    ----------
    options : options of the driver
    executor : executor of the jobs, which the caller closes; None: an executor is made by ``--cmd`` and ``--scheduler``
    terminal : text stream of a terminal, for a table with a row for each iteration; None: iterations are logged
    """

    name: ClassVar[str]
    models: ClassVar[ModelFiles]
    commands_class: ClassVar[type[FrameCommands]] = FrameCommands
    report: ClassVar[tuple[str, str]]              # file of the table of accuracies, and kind of its values

    def __init__(self, options: CommonOptions, executor: Executor | None = None,
                 terminal: IO[str] | None = None) -> None:
        options.check()
        self.options, self.terminal = options, terminal
        self.folder = TrainingFolder(options.dir, self.models.suffix)
        self._own_executor = executor is None
        self._given_executor = executor
        self.executor: Executor
        self.dropout = DropoutSchedule(options.dropout_schedule) if options.dropout_schedule else None
        self.plan: Plan
        self.commands: FrameCommands
        self.diagnostics: Diagnostics
        self._redo = False                         # a stage was run, so all later ones are run again
        self._record: dict[str, Any] = {}
        self._threads = 0

    # -- for subclasses ------------------------------------------------------------------------------------------------

    @abstractmethod
    def network(self) -> Network:
        """Return the network's context."""

    @abstractmethod
    def stages_to_egs(self) -> list[Stage]:
        """Return the stages up to making the examples."""

    @abstractmethod
    def open_egs(self) -> EgsFolder:
        """Open the folder of examples; raise Nnet3Error if the examples do not fit the network and the features."""

    @abstractmethod
    def stages_to_model(self) -> list[Stage]:
        """Return the stages between the examples and the first iteration; the last one makes the initial model."""

    @abstractmethod
    def stages_to_final(self) -> list[Stage]:
        """Return the stages after the last iteration; the last one makes the final model."""

    @abstractmethod
    def diagnosed_at_end(self) -> str | None:
        """Return the model, ``combined`` or ``final``, whose objectives are computed after training; None for none."""

    def begin(self) -> None:
        """Check the data and copy small files to the folder, on every start."""
        return

    def objective(self, job: TrainLog) -> float:
        """Return the objective by which jobs of an iteration are compared; NaN if it is unknown."""
        return job.objectives.get("output", float("nan"))

    def shrink(self, iteration: int, learning_rate: float) -> float:
        """Return the factor by which all parameters are scaled before an iteration."""
        return proportional_shrink(self.options.proportional_shrink, learning_rate)

    def make_plan(self, egs: EgsFolder) -> Plan:
        """Return the plan of the training: archives, iterations, learning rates."""
        options = self.options
        return Plan(egs.num_archives, self.commands.passes, options.num_epochs, options.num_jobs_initial,
                    options.num_jobs_final, options.num_jobs_step, options.initial_effective_lrate,
                    options.final_effective_lrate, self.commands.most_jobs)

    # -- the whole training --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train; an Nnet3Error leaves complete iterations in the folder."""
        (self.folder.path / "log").mkdir(parents=True, exist_ok=True)
        with FolderLock(self.folder.path):
            self.folder.remove_temporary()
            start = self._starting_stage()
            if start is None and self._record.get(FINISHED):
                logger.info("%s is trained already: %s", self.folder.path, self.folder.model("final"))
                self._end()
                return
            self.executor = self._given_executor or make_executor(
                self.options.cmd or "run.pl", self.options.scheduler, cores=self.options.num_threads or None)
            try:
                if self._train(start):
                    self._keep_record(**{FINISHED: True})
                    self._end()
            finally:
                if self._own_executor:
                    self.executor.close()

    def _train(self, start: int | None) -> bool:
        """Run the stages and iterations from stage ``start`` on (None: those that are not complete).

        Returns False if --exit-stage has ended them before the final model.
        """
        self.begin()
        if not self._run_stages(self.stages_to_egs(), start):
            return False
        egs = self.open_egs()
        self._check_egs_info(egs)
        self.commands = self.commands_class(self.options, egs, self.models, self.network())
        self._check_gpu()
        self.plan = self.make_plan(egs)
        self._keep_record(**{PLAN: {"archives": self.plan.to_process, "epochs": self.plan.num_epochs,
                                    "iterations": self.plan.num_iters}})
        self.diagnostics = Diagnostics(self.folder, self.commands, self.executor, self.warn)
        if not self._run_stages(self.stages_to_model(), start):
            return False
        if not self._run_iterations(self._first_iteration(start)):
            return False
        finished = self._run_stages(self.stages_to_final(), start)
        if finished and (last := self.diagnosed_at_end()) is not None:
            self.diagnostics.start(last, again=self._redo)
        self.diagnostics.wait_for_all()
        return finished

    def _check_gpu(self) -> None:
        """Warn and set ``--use-gpu`` of jobs to ``optional`` if this machine has no usable GPU, instead of failing."""
        if self.commands.gpu not in ("yes", "wait"):
            return
        reason = why_no_gpu()
        if reason is not None:
            self.warn(f"--use-gpu={self.options.use_gpu}, but no GPU can be used here ({reason}): jobs train on the "
                      "CPU where they find none")
            self.commands.gpu = "optional"

    def warn(self, line: str) -> None:
        """Show a warning in one line."""
        if self.terminal is not None:
            self.terminal.write("\r\x1b[K")
        logger.warning("%s", line)

    # -- where to begin ------------------------------------------------------------------------------------------------

    def _starting_stage(self) -> int | None:
        """Return the stage to begin with: --stage, or the first stage in a new folder; None to resume the training.

        Raises UsageError if the options have changed, but --stage is not given.
        """
        now = {**self.options.binding(), **self._configs()}
        recorded = self.folder.recorded()
        changed = differences(recorded, now) if recorded is not None else []
        start = self.options.stage
        if start is None and recorded is None:
            if self.folder.last_model() >= 0 or self.folder.has_model("final"):
                raise UsageError(f"{self.folder.path} has models, but no record of the options they were trained with",
                                 f"--stage={FIRST_STAGE} trains from the beginning, --stage=N goes on with model N")
            start = FIRST_STAGE
        elif start is None and changed and self.folder.last_model() < 0 and not self.folder.has_model("final"):
            start = FIRST_STAGE                    # nothing is lost: a mistake in the options was corrected
        elif start is None and changed:
            raise UsageError(f"{self.folder.path} was begun with other options: {'; '.join(changed)}",
                             f"use another --dir, or --stage={FIRST_STAGE} to train from the beginning, or --stage=N "
                             "to go on with model N and the options as they are now")
        elif changed:
            self.warn(f"from stage {start} on, other options than before are used: {'; '.join(changed)}")
        self._record = {} if start is not None else dict(recorded or {})
        self._record.update(now)
        self._record[COMMAND] = self.options.command(self.name)
        if start is not None:
            self._forget(start)
        self._keep_record()
        return start

    def _forget(self, start: int) -> None:
        """Remove the products of stages from ``start`` on, which were made with old options."""
        needed = self.folder.model(start)
        if start > 0 and not self.folder.has_model(start) and start <= self.folder.last_model():
            raise UsageError(f"--stage={start} begins with {needed}, which is not there",
                             f"the last model is {self.folder.model(self.folder.last_model())}")
        self.folder.model("final").unlink(missing_ok=True)
        for log in self.folder.log("x").parent.glob("compute_prob_*.[cf]*.log"):      # of the models combined and final
            log.unlink()
        if start <= self.folder.last_model():
            self.folder.model("combined").unlink(missing_ok=True)
        for number in range(max(start + 1, 0), self.folder.last_model() + 1):
            self.folder.model(number).unlink(missing_ok=True)
        for stage in (*self.stages_to_egs(), *self.stages_to_model()):
            for path in stage.products or () if stage.number >= start else ():
                path.unlink(missing_ok=True)

    def _keep_record(self, **values: Any) -> None:
        self._record.update(values)
        self.folder.record(self._record)

    def _configs(self) -> dict[str, str]:
        """Return the checksums of the network's config files, by name."""
        values = {f"configs/{name}": fingerprint(self.folder.configs / name)[:16]
                  for name in ("init.config", "final.config")}
        return {name: value for name, value in values.items() if value}

    def _check_egs_info(self, egs: EgsFolder) -> None:
        now = [egs.num_archives, egs.frames_per_eg, egs.num_frames, egs.left_context, egs.right_context]
        before = self._record.get(EGS_INFO)
        if before is not None and before != now and self.folder.last_model() > 0:
            raise UsageError(f"the examples in {egs.path} are others than those that {self.folder.path} was begun "
                             f"with: archives, frames per example, frames, contexts were {before} and are {now}",
                             "use another --dir, or --stage=N to go on with model N all the same")
        self._keep_record(**{EGS_INFO: now})

    def _run_stages(self, stages: Sequence[Stage], start: int | None) -> bool:
        """Run the stages from ``start`` on (None: those that are not complete); return False at --exit-stage."""
        for stage in stages:
            if self._stops_before(stage.number):
                return False
            wanted = stage.number >= start if start is not None else self._is_wanted(stage)
            if wanted:
                logger.info("%s", stage.title)
                self._redo = stage.run() is not False or self._redo
        return True

    def _is_wanted(self, stage: Stage) -> bool:
        if stage.number < 0 and self.folder.last_model() >= 0:
            return False
        return self._redo or not stage.is_done()

    def _stops_before(self, number: int) -> bool:
        if self.options.exit_stage is None or number < self.options.exit_stage:
            return False
        logger.info("Exiting early due to --exit-stage=%d", self.options.exit_stage)
        return True

    def _first_iteration(self, start: int | None) -> int:
        first = self.folder.last_model() if start is None else min(max(start, 0), self.plan.num_iters)
        if first > self.plan.num_iters:
            raise UsageError(f"{self.folder.model(first)} is there, but the training has {self.plan.num_iters} "
                             "iterations", "use another --dir, or --stage=N to go on with model N")
        if not self.folder.has_model(first):
            raise UsageError(f"iteration {first} begins with {self.folder.model(first)}, which is not there",
                             "leave --stage out to resume the training")
        return first

    # -- iterations ----------------------------------------------------------------------------------------------------

    def _run_iterations(self, first: int) -> bool:
        """Train from iteration ``first`` on; return False if --exit-stage ends the training."""
        num_iters = self.plan.num_iters
        self._keep_seed()
        display = Display(self.plan, self.terminal)
        folder = shlex.quote(str(self.folder.path))
        logger.info("nnet3-report --follow %s writes a page to watch, %s/report/report.html", folder, folder)
        if first:
            logger.info("Going on with iteration %d of %d", first, num_iters)
        self.diagnostics.resume(first)
        self._clean_up_before(first)
        for iteration in range(first, num_iters):
            if self._stops_before(iteration):
                self.diagnostics.wait_for_all()
                return False
            self._iterate(self.step(iteration), display)
        if num_iters - 1 not in [reported.number for reported in self.diagnostics.iterations]:
            self.diagnostics.finish(num_iters - 1)
        return True

    def step(self, iteration: int) -> Step:
        """Return the settings of an iteration."""
        rate = self.plan.learning_rate(iteration)
        edits = self.dropout.edits(self.plan.fraction(iteration)) if self.dropout else ""
        return Step(iteration, self.plan.jobs(iteration), self.plan.processed(iteration), rate,
                    self.shrink(iteration, rate), edits)

    def _iterate(self, step: Step, display: Display) -> None:
        """Train for one iteration: make model I + 1 from model I."""
        iteration = step.iteration
        numbers = range(1, step.num_jobs + 1)
        self._say_threads(step.num_jobs)
        display.begin(step)
        for log in self.folder.log("x").parent.glob(f"train.{iteration}.*.log"):
            log.unlink()
        self.diagnostics.start(iteration)
        self.run_jobs({f"train.{iteration}.{job}": self.commands.train(step, job) for job in numbers}, on_gpu=True)
        logs = read_iterations(self.folder.path, iteration)[0].jobs
        accepted, best = accepted_jobs({job: self.objective(logs[job]) for job in numbers})
        if step.is_first:
            self.run_jobs({f"select.{iteration}": self.commands.select(iteration, best)})
        else:
            if len(accepted) < step.num_jobs:
                self.warn(f"iteration {iteration}: the networks of jobs {accepted} only are averaged, out of "
                          f"{step.num_jobs}: the others' objectives are too low")
            self.run_jobs({f"average.{iteration}": self.commands.average(iteration, accepted)})
        if not self.folder.has_model(iteration + 1):
            raise Nnet3Error(f"{self.folder.model(iteration + 1)} was not made, or is empty",
                             f"look at {self.folder.log(f'average.{iteration}')}")
        self.folder.remove_job_models(iteration)
        if iteration > 0:
            self.diagnostics.finish(iteration - 1)
        self._remove_model(iteration - 2, set(self.combined_models()))
        display.end(step, logs, self.diagnostics.latest(iteration))

    def run_jobs(self, commands: dict[str, str], on_gpu: bool = False) -> None:
        """Run commands as jobs at the same time, and wait for them. Raises JobsFailed.

        ``commands`` are by name of their log. ``on_gpu`` : whether to request a GPU for each job from a grid engine, if
        --use-gpu demands one
        """
        asked = GPU_OPTIONS if on_gpu and gpu_option(self.options.use_gpu) in ("yes", "wait") else ()
        jobs = [Job(command, self.folder.log(name), asked) for name, command in commands.items()]
        for job in jobs:
            job.log.unlink(missing_ok=True)      # a job that outlived a killed driver keeps writing to the old file
        self.executor.run(jobs)

    def _say_threads(self, num_jobs: int) -> None:
        threads = self.executor.share_threads(num_jobs)
        if threads != self._threads:
            self._threads = threads
            logger.info("Jobs side by side: %d, threads of each: %d", num_jobs, threads)

    def _keep_seed(self) -> None:
        path = self.folder.path / "srand"
        if path.exists() and path.read_text().strip() != str(self.options.srand):
            self.warn(f"the seed is {self.options.srand}, but {path} says it was {path.read_text().strip()} before")
        write_text(str(path), f"{self.options.srand}\n")

    def combined_models(self) -> list[int]:
        """Return the numbers of the models that are combined into the final one; without combination the last model."""
        if not self.options.do_final_combination:
            return [self.plan.num_iters]
        return models_to_combine(self.plan, self.options.max_models_combine)

    # -- cleaning up ---------------------------------------------------------------------------------------------------

    def _remove_model(self, number: int, kept: set[int]) -> None:
        if self.options.cleanup and number >= 0 and number not in kept and (
                number % self.options.preserve_model_interval != 0):
            self.folder.model(number).unlink(missing_ok=True)

    def _clean_up_before(self, first: int) -> None:
        """Remove files that an interruption left undeleted in iterations before ``first``."""
        if first > 0:
            self.folder.remove_job_models(first - 1)
        kept = set(self.combined_models())
        for number in range(first - 2):
            self._remove_model(number, kept)

    def _end(self) -> None:
        """Write the table of accuracies, and remove files that are not needed any more; may be called again."""
        if self.has_report():
            write_report(self.folder, *self.report)
        if not self.options.cleanup:
            return
        last = self.folder.last_model()
        for number in range(last):
            self._remove_model(number, set())
        (self.folder.path / f"cache.{last}").unlink(missing_ok=True)
        if self.options.remove_egs and self.options.egs_dir is None:
            made_here = self.folder.path / "egs"
            if (made_here / "info").is_dir():
                EgsFolder(made_here).remove()

    def has_report(self) -> bool:
        """Return whether a table of accuracies is to be written at the end."""
        return True


def why_no_gpu() -> str | None:
    """Return the reason why networks cannot be trained on a GPU of this machine; None if they can."""
    from nnet3py.ops import get_ops
    from nnet3py.ops.device import unavailable_reason

    reason = unavailable_reason()
    if reason is not None:
        return reason
    try:
        get_ops("cuda")
        return None
    except (DeviceError, ImportError) as error:
        return str(error)


def link(target: str, path: Path) -> None:
    """Make ``path`` a symbolic link to ``target``; an existing file or link is replaced atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-0.tmp")
    temporary.unlink(missing_ok=True)
    system.link_or_copy(target, str(temporary))
    os.replace(temporary, path)
