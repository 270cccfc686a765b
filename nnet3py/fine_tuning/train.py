"""Stage 7: training in rounds of about an epoch, by the driver of chain training, judged on held-out data.

A round with a lower objective on held-out data is discarded, and the next one begins from the same network with a
smaller learning rate. In the end the parameters are interpolated with the old ones if that raises the held-out
objective; or, with ``--old-test``, as far as needed to keep the word error rate of the old domain.
"""
from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

from nnet3py.acoustic_model import AcousticModel, read_model
from nnet3py.components.updatable import UpdatableComponent
from nnet3py.drivers.chain_training import ChainTraining
from nnet3py.drivers.commands import ChainCommands
from nnet3py.drivers.egs_folder import EgsFolder
from nnet3py.drivers.executor import Executor, Job
from nnet3py.drivers.options import ChainOptions
from nnet3py.drivers.training import Stage
from nnet3py.errors import Nnet3Error, UsageError
from nnet3py.fine_tuning.egs import NO_NORMALIZATION
from nnet3py.fine_tuning.folder import replace_model, score, write_folder
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.io.streams import write_text
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.network.structure import ComponentNode
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
from nnet3py.recognition.model_folder import read_model_folder
from nnet3py.report.training_logs import read_compute_prob_log
from nnet3py.training.averaging import average_nnets

logger = logging.getLogger(__name__)

FIRST_RATE = 0.001                # effective learning rate of the first round, if none is given
_LATER, _AFTER_WORSE = 0.6, 0.3   # factors of the rate after a round, and after one that made it worse
_MOST_WORSE = 2                   # rounds without a gain, after which training ends
_LEAST_GAIN = 1e-4                # of the objective per frame
EPOCHS_PER_ROUND = 1.0
MAX_CHANGE = 1.0                  # of all parameters per minibatch; half of what training from scratch takes
L2_OF_OUTPUTS, LEAKY = 0.00005, 0.1
SLOW = 0.5                        # the factor of the lower half's learning rate, with --layers=all
_LAST_LAYERS = ("output", "prefinal")
_PARTS_BACK = (0.25, 0.5)         # fractions of old parameters that are tried in the end
_GRAPHS = ("0.trans_mdl", "phone_lm.fst", "den.fst", "normalization.fst")


def run(work: WorkFolder, options: FineTuneOptions, executor: Executor, terminal: IO[str] | None = None) -> None:
    """Write ``train/final.mdl`` and ``train/choice.json``. Complete rounds are not repeated."""
    folder = read_model_folder(options.model)
    model = read_model(work.model / "final.mdl")
    rounds = _Rounds(work, options, executor, terminal, int(folder.options.get("frame-subsampling-factor", 1)))
    rounds.prepare(model.nnet.copy())
    best, choice = rounds.run()
    nnet = read_nnet(str(best))
    if not choice["is_old"] and work.data("old_test").is_dir():
        back = interpolate_for_old_test(work, options, nnet, model)
        nnet = back.nnet
        choice |= {"is_old": back.part == 1.0, "way_back": back.part, "old_test_words": back.words,
                   "old_test_errors": {f"{part:g}": errors for part, errors in sorted(back.errors.items())}}
    nnet = _restored(nnet, model.nnet)
    AcousticModel(model.transition_model, nnet, model.priors).write(work.final_model)
    write_text(str(work.choice), json.dumps(choice, indent=1) + "\n")


class _Round(ChainTraining):
    """Round of chain training with given graphs.

    After each iteration, the parameters are interpolated with the old ones, which get the weight ``way_back``.
    """

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
            model.nnet = interpolated(model.nnet, read_nnet(str(self.old)), self.way_back)
            model.write(path)


class _Rounds:
    """Rounds of training, each in a folder ``train/round.N``; those that lower the held-out objective are discarded."""

    def __init__(self, work: WorkFolder, options: FineTuneOptions, executor: Executor, terminal: IO[str] | None,
                 factor: int) -> None:
        self.work, self.options, self.executor, self.terminal, self.factor = work, options, executor, terminal, factor
        self.old = work.train / "old.raw"

    def prepare(self, nnet: Nnet) -> None:
        """Write the network ``old.raw``, from which the first round begins; remove rounds made with other options."""
        settings, kept = json.dumps(self.options.binding(), sort_keys=True), self.work.train / "settings.json"
        if not kept.is_file() or kept.read_text(encoding="utf-8") != settings:
            for path in (*self.work.train.glob("round.*"), self.work.train / "log", self.work.train / "forgetting"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        write_text(str(kept), settings)
        set_batchnorm_test_mode(nnet, True)           # little data would give poor statistics
        set_dropout_test_mode(nnet, False)            # SpecAugment and dropout stay as in the model
        factors = rate_factors(nnet, self.options.layers)
        for name, component in _learning(nnet).items():
            component.learning_rate_factor, component.l2_regularize = factors[name], 0.0
        nnet.write(self.old)

    def run(self) -> tuple[Path, dict[str, Any]]:
        """Train; return the path of the best raw network, and the content of choice.json."""
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
                        rate, objective, best_objective, "kept" if kept else "discarded")
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
        """Train one round; return the path of its raw network."""
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
        """Return the objective per frame on held-out examples. Raises Nnet3Error if it cannot be computed."""
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
            raise Nnet3Error("the objective on held-out data could not be computed", f"look at {log}")
        return value

    def way_back(self, best: Path, objective: float) -> tuple[Path, float, float]:
        """Interpolate the best network with the old one, as long as that raises the held-out objective.

        Returns the path of the resulting network, its objective, and the weight of the old parameters.
        """
        back = 0.0
        if best == self.old:
            return best, objective, back
        last = best
        for part in _PARTS_BACK:
            between = self.work.train / f"back.{part:g}.raw"
            interpolated(read_nnet(str(last)), read_nnet(str(self.old)), part).write(between)
            value = self.objective(between, f"back.{part:g}")
            if value < objective:
                break
            best, objective, back = between, value, part
        return best, objective, back


def _learning(nnet: Nnet) -> dict[str, UpdatableComponent]:
    """Return the updatable components by name, in the order of their nodes."""
    indexes = dict.fromkeys(node.component_index for node in nnet.nodes if isinstance(node, ComponentNode))
    return {nnet.component_names[index]: component for index in indexes
            if isinstance(component := nnet.components[index], UpdatableComponent)}


def rate_factors(nnet: Nnet, layers: str) -> dict[str, float]:
    """Return the factor of the learning rate of each updatable component, by name; 0 for frozen components.

    Parameters
    ----------
    layers : ``last``: 1 for components named output or prefinal (or for the last component), 0 for others;
        ``upper``, ``lower``: 1 for this half of the network, 0 for the other; ``all``: 1 for the upper half, 0.5 for
        the lower half

    Raises UsageError if all components of these layers are frozen.
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
    """Switch test modes on, and copy learning rates and l2-regularize from the old network, in place; return ``nnet``.
    """
    for component, before in zip(_learning(nnet).values(), _learning(old).values(), strict=True):
        for setting in ("learning_rate_factor", "learning_rate", "l2_regularize"):
            setattr(component, setting, getattr(before, setting))
    set_batchnorm_test_mode(nnet, True)
    set_dropout_test_mode(nnet, True)
    return nnet


# -- interpolation with the old parameters -----------------------------------------------------------------------------

_PARTS_FOR_OLD_TEST = (0.0, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96)


class Interpolation(NamedTuple):
    """Result of the interpolation with the old parameters."""

    nnet: Nnet                # the interpolated network
    part: float               # fraction of the old parameters, 0 to 1; 1 for the old network
    errors: dict[float, int]  # fraction of the old parameters -> number of word errors on the old test data
    words: int                # number of words of the old test data


def interpolated(nnet: Nnet, old: Nnet, part: float) -> Nnet:
    """Return a network with the parameters ``(1 - part) * nnet + part * old``."""
    return average_nnets([("the new network", nnet.copy()), ("the old one", old)], [1.0 - part, part])


def interpolate_for_old_test(work: WorkFolder, options: FineTuneOptions, trained: Nnet,
                             old: AcousticModel) -> Interpolation:
    """Find the least fraction of old parameters that keeps the word error rate of ``data/old_test``.

    The rate may rise by ``max_forgetting``. A smaller fraction is assumed to make more errors, so a binary search needs
    few trials. Trials use the new graph.
    """
    place = work.train / "forgetting"
    tried, data = place / "model", work.data("old_test")
    shutil.rmtree(tried, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    before = score(options.model, data, place / "old.json").errors()
    limit = before.errors + options.max_forgetting / 100.0 * before.words
    errors = {1.0: before.errors}
    write_folder(work, options, tried, work.model / "final.mdl", links=True)

    def between(part: float) -> Nnet:
        nnet = interpolated(trained, old.nnet, part)
        set_batchnorm_test_mode(nnet, True)
        set_dropout_test_mode(nnet, True)
        return nnet

    low, high = 0, len(_PARTS_FOR_OLD_TEST)               # the least sufficient fraction is in low to high
    while low < high:
        middle = (low + high) // 2
        part = _PARTS_FOR_OLD_TEST[middle]
        AcousticModel(old.transition_model, between(part), old.priors).write(place / "final.mdl")
        replace_model(options, tried, place / "final.mdl")
        errors[part] = score(tried, data, place / f"back.{part:g}.json").errors().errors
        logger.info("%g of the old parameters: %d errors in %d words of the old test data, %d before",
                    part, errors[part], before.words, before.errors)
        low, high = (low, middle) if errors[part] <= limit else (middle + 1, high)
    shutil.rmtree(tried, ignore_errors=True)
    part = _PARTS_FOR_OLD_TEST[low] if low < len(_PARTS_FOR_OLD_TEST) else 1.0
    return Interpolation(between(part), part, errors, before.words)
