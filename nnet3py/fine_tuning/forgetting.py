"""How far back towards the old parameters a trained network goes, so that old test data are recognized as before."""
from __future__ import annotations

import logging
import shutil
from typing import NamedTuple

from nnet3py.acoustic_model import AcousticModel
from nnet3py.fine_tuning.folder import replace_model, write_folder
from nnet3py.fine_tuning.plan import FineTuneOptions, WorkFolder
from nnet3py.fine_tuning.scoring import score
from nnet3py.network.nnet import Nnet
from nnet3py.network.whole_model import set_batchnorm_test_mode, set_dropout_test_mode
from nnet3py.training.averaging import average_nnets

logger = logging.getLogger(__name__)

WAYS_BACK = (0.0, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96)


class WayBack(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    nnet : the network
    part : of the way back to the old parameters, 0 to 1; 1: the old ones themselves
    errors : on the old test data, by part; of the old model under 1
    words : of the old test data
    """

    nnet: Nnet
    part: float
    errors: dict[float, int]
    words: int


def towards(nnet: Nnet, old: Nnet, part: float) -> Nnet:
    """The network, a part (0 to 1) of the way from its parameters to those of ``old``."""
    return average_nnets([("the new network", nnet.copy()), ("the old one", old)], [1.0 - part, part])


def least_way_back(work: WorkFolder, options: FineTuneOptions, trained: Nnet, old: AcousticModel) -> WayBack:
    """The least way back with which the word error rate of ``data/old_test`` rises by no more than ``max_forgetting``.

    Less way back is taken to mean more errors, so that few need to be tried. The folders that are tried have the new
    graph.
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
        nnet = towards(trained, old.nnet, part)
        set_batchnorm_test_mode(nnet, True)
        set_dropout_test_mode(nnet, True)
        return nnet

    low, high = 0, len(WAYS_BACK)               # the first that is good enough is in low to high
    while low < high:
        middle = (low + high) // 2
        part = WAYS_BACK[middle]
        AcousticModel(old.transition_model, between(part), old.priors).write(place / "final.mdl")
        replace_model(options, tried, place / "final.mdl")
        errors[part] = score(tried, data, place / f"back.{part:g}.json").errors().errors
        logger.info("%g of the way back to the old parameters: %d errors in %d words of the old test data, %d before",
                    part, errors[part], before.words, before.errors)
        low, high = (low, middle) if errors[part] <= limit else (middle + 1, high)
    shutil.rmtree(tried, ignore_errors=True)
    part = WAYS_BACK[low] if low < len(WAYS_BACK) else 1.0
    return WayBack(between(part), part, errors, before.words)
