"""Stage 7: training in rounds of about an epoch, each by the driver of chain training, judged on held-out data.

A round that makes the held-out data less likely is thrown away, and the next one begins where it did, with a smaller
learning rate. In the end the network goes some way back towards the old parameters, if that is better there; or, with
data to test the old domain with, as far as these demand (``forgetting.py``).
"""
from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path
from typing import IO, Any, ClassVar

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.components.updatable import UpdatableComponent
from nnet3py.drivers.chain_training import ChainTraining
from nnet3py.drivers.commands import ChainCommands
from nnet3py.drivers.egs.egs_folder import EgsFolder
from nnet3py.drivers.jobs.executor import Executor, Job
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.training import Stage
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fine_tuning.egs import NO_NORMALIZATION
from nnet3py.fine_tuning.forgetting import least_way_back, towards
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
from nnet3py.recognition.model_folder import read_model_folder
from nnet3py.report.training_logs import read_compute_prob_log

logger = logging.getLogger(__name__)

FIRST_RATE = 0.001                # effective learning rate of the first round, if none is given
_LATER, _AFTER_WORSE = 0.6, 0.3   # factors of the rate after a round, and after one that made it worse
_MOST_WORSE = 2                   # rounds
_LEAST_GAIN = 1e-4                # of the objective per frame
EPOCHS_PER_ROUND = 1.0
MAX_CHANGE = 1.0                  # of all parameters per minibatch; half of what training from scratch takes
L2_OF_OUTPUTS, LEAKY = 0.00005, 0.1
SLOW = 0.5                        # the factor of the lower half's learning rate, with --layers=all
_LAST_LAYERS = ("output", "prefinal")
WAYS_BACK = (0.25, 0.5)           # that are tried in the end
_GRAPHS = ("0.trans_mdl", "phone_lm.fst", "den.fst", "normalization.fst")


def run(work: WorkFolder, options: FineTuneOptions, executor: Executor, terminal: IO[str] | None = None) -> None:
    """Write ``train/final.mdl`` and ``train/choice.json``. What is complete of it is not done again."""
    folder = read_model_folder(options.model)
    model = read_model(work.model / "final.mdl")
    rounds = _Rounds(work, options, executor, terminal, int(folder.options.get("frame-subsampling-factor", 1)))
    rounds.prepare(model.nnet.copy())
    best, choice = rounds.run()
    nnet = read_nnet(str(best))
    if not choice["is_old"] and work.data("old_test").is_dir():
        back = least_way_back(work, options, nnet, model)
        nnet = back.nnet
        choice |= {"is_old": back.part == 1.0, "way_back": back.part, "old_test_words": back.words,
                   "old_test_errors": {f"{part:g}": errors for part, errors in sorted(back.errors.items())}}
    nnet = _restored(nnet, model.nnet)
    AcousticModel(model.transition_model, nnet, model.priors).write(work.final_model)
    write_text(str(work.choice), json.dumps(choice, indent=1) + "\n")


class _Round(ChainTraining):
    """A round: the graphs are there, and after every iteration the parameters go a little back to the old ones."""

    graphs: ClassVar[Path]
    old: ClassVar[Path]
    way_back: ClassVar[float]

    def stages_to_egs(self) -> list[Stage]:
        products = tuple(self.folder.path / name for name in _GRAPHS)
        return [Stage(self.phone_lm_stage, "Copying the graphs", self._copy_graphs, products)]

    def _copy_graphs(self) -> None:
        for name in _GRAPHS:
            shutil.copyfile(self.graphs / name, self.folder.path / name)

    def _iterate(self, step: Any, display: Any) -> None:
        super()._iterate(step, display)
        if self.way_back:
            path = self.folder.model(step.iteration + 1)
            model = read_model(path)
            model.nnet = towards(model.nnet, read_nnet(str(self.old)), self.way_back)
            model.write(path)


class _Rounds:
    """The rounds of a training, in folders ``train/round.N``."""

    def __init__(self, work: WorkFolder, options: FineTuneOptions, executor: Executor, terminal: IO[str] | None,
                 factor: int) -> None:
        self.work, self.options, self.executor, self.terminal, self.factor = work, options, executor, terminal, factor
        self.old = work.train / "old.raw"

    def prepare(self, nnet: Nnet) -> None:
        """Write the network that the first round begins with; what was trained with other options is removed."""
        settings, kept = json.dumps(self.options.binding(), sort_keys=True), self.work.train / "settings.json"
        if not kept.is_file() or kept.read_text(encoding="utf-8") != settings:
            for path in (*self.work.train.glob("round.*"), self.work.train / "log", self.work.train / "forgetting"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        write_text(str(kept), settings)
        set_batchnorm_test_mode(nnet, True)           # statistics of little data would be poor
        set_dropout_test_mode(nnet, False)            # SpecAugment and dropout as the model has them
        factors = rate_factors(nnet, self.options.layers)
        for name, component in _learning(nnet).items():
            component.learning_rate_factor, component.l2_regularize = factors[name], 0.0
        nnet.write(self.old)

    def run(self) -> tuple[Path, dict[str, Any]]:
        """Train; returns the best raw network, and what is recorded about it."""
        rate = self.options.learning_rate or FIRST_RATE
        best, best_objective = self.old, self.objective(self.old, "old")
        history = [{"round": 0, "learning_rate": 0.0, "objective": best_objective, "kept": True}]
        worse, epochs, number = 0, 0.0, 0
        while epochs < self.options.num_epochs and worse < _MOST_WORSE:
            number += 1
            length = min(EPOCHS_PER_ROUND, self.options.num_epochs - epochs)
            trained = self.train(number, best, rate, length)
            objective = self.objective(trained, f"round.{number}")
            kept = objective > best_objective + _LEAST_GAIN
            history.append({"round": number, "learning_rate": rate, "objective": objective, "kept": kept})
            logger.info("Round %d, learning rate %.2g: objective on held-out data %.4f, best before %.4f: %s", number,
                        rate, objective, best_objective, "kept" if kept else "thrown away")
            if kept:
                best, best_objective, rate = trained, objective, rate * _LATER
                epochs += length
            else:
                worse, rate = worse + 1, rate * _AFTER_WORSE
        best, best_objective, back = self.way_back(best, best_objective)
        return best, {"is_old": best == self.old, "objective_before": history[0]["objective"],
                      "objective_after": best_objective, "epochs": epochs, "way_back": back, "rounds": history,
                      "layers": self.options.layers}

    def train(self, number: int, start: Path, rate: float, num_epochs: float) -> Path:
        """One round; returns its raw network."""
        work, place = self.work, self.work.train / f"round.{number}"
        options = ChainOptions(
            dir=str(place), tree_dir=str(work.align), egs_dir=str(work.egs), input_model=str(start),
            feat_dir=str(work.path / "egs_data"), cmvn_opts=NO_NORMALIZATION,
            online_ivector_dir=str(folder) if (folder := work.path / "egs_ivectors").is_dir() else None,
            chunk_width=EgsFolder(work.egs).frames_per_eg, frame_subsampling_factor=self.factor,
            alignment_subsampling_factor=1, l2_regularize=L2_OF_OUTPUTS, leaky_hmm_coefficient=LEAKY,
            minibatch_size=self.options.minibatch_size, num_epochs=num_epochs, initial_effective_lrate=rate,
            final_effective_lrate=rate * _LATER, num_jobs_initial=1, num_jobs_final=1, max_param_change=MAX_CHANGE,
            do_final_combination=False, srand=self.options.srand + number, use_gpu=self.options.use_gpu)
        kind = type("_ThisRound", (_Round,), {"graphs": work.train, "old": self.old, "way_back": self.options.l2_old})
        kind(options, self.executor, self.terminal).run()
        raw = work.train / f"round.{number}.raw"
        read_model(place / "final.mdl").nnet.write(raw)
        return raw

    def objective(self, raw: Path, name: str) -> float:
        """The objective per frame of held-out examples. Nnet3Error if it cannot be computed."""
        log = self.work.train / "log" / f"held_out.{name}.log"
        if not log.exists() or not (values := read_compute_prob_log(log)):
            command = " ".join([
                ChainCommands.prob_program, f"--l2-regularize={L2_OF_OUTPUTS}", f"--leaky-hmm-coefficient={LEAKY}",
                str(raw), f"{self.work.train}/den.fst",
                f'"ark,bg:{ChainCommands.merge_egs} --minibatch-size=1:64 '
                f'ark:{self.work.egs}/valid_diagnostic.cegs ark:- |"'])
            self.executor.run([Job(command, log)])
            values = read_compute_prob_log(log)
        value = values.get(("output", "objective"), math.nan)
        if not math.isfinite(value):
            raise Nnet3Error("the objective on held-out data is not known", f"look at {log}")
        return value

    def way_back(self, best: Path, objective: float) -> tuple[Path, float, float]:
        """The best of a network and of some between the old one and it; and how far it went back."""
        back = 0.0
        if best == self.old:
            return best, objective, back
        last = best
        for part in WAYS_BACK:
            between = self.work.train / f"back.{part:g}.raw"
            towards(read_nnet(str(last)), read_nnet(str(self.old)), part).write(between)
            value = self.objective(between, f"back.{part:g}")
            if value < objective:
                break
            best, objective, back = between, value, part
        return best, objective, back


def _learning(nnet: Nnet) -> dict[str, UpdatableComponent]:
    """The components with parameters, by name, in the order of the network."""
    indexes = dict.fromkeys(node.component_index for node in nnet.nodes if isinstance(node, ComponentNode))
    return {nnet.component_names[index]: component for index in indexes
            if isinstance(component := nnet.components[index], UpdatableComponent)}


def rate_factors(nnet: Nnet, layers: str) -> dict[str, float]:
    """Factors of the learning rate of all components with parameters, in the order of the network.

    ``layers``: ``last``: 1 for components called output or prefinal (or for the last component), 0 for others;
    ``upper``, ``lower``: 1 for that half, 0 for the other; ``all``: 1 for the upper half, a half for the lower one.
    Components that are frozen stay so.

    Raises
    ------
    UsageError : all components of these layers are frozen
    """
    learning = _learning(nnet)
    names, frozen = list(learning), {name for name, component in learning.items() if component.is_frozen}
    if layers == "last":
        chosen = {name for name in names if name.startswith(_LAST_LAYERS)} or set(names[-1:])
    else:
        half = len(names) // 2
        chosen = set(names[:half] if layers == "lower" else names[half:])
    factors = {name: 0.0 if name in frozen else 1.0 if name in chosen else SLOW if layers == "all" else 0.0
               for name in names}
    if not any(factors.values()):
        raise UsageError(f"--layers={layers}: nothing would be trained, since {', '.join(sorted(frozen)) or 'all'} "
                         "are frozen (their learning-rate-factor is 0)",
                         "nnet3py.unfreeze(nnet), or the edit 'set-learning-rate-factor learning-rate-factor=1'")
    return factors


def _restored(nnet: Nnet, old: Nnet) -> Nnet:
    """The network with test modes on, and with the settings for training that the old one had."""
    for component, before in zip(_learning(nnet).values(), _learning(old).values(), strict=True):
        for setting in ("learning_rate_factor", "learning_rate", "l2_regularize"):
            setattr(component, setting, getattr(before, setting))
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    return nnet

