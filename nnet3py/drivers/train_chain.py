"""The driver of chain training: of one language, or of several.

train_chain(ChainOptions(dir="exp/tdnnf", feat_dir="data/train", tree_dir="exp/chain_tree", ali_dir="exp/ali"))
"""
from __future__ import annotations

from typing import IO

from nnet3py.drivers.chain_languages import LanguagesTraining
from nnet3py.drivers.chain_options import ChainOptions
from nnet3py.drivers.chain_training import ChainTraining
from nnet3py.drivers.jobs.executor import Executor


def train_chain(options: ChainOptions, executor: Executor | None = None, terminal: IO[str] | None = None) -> None:
    """Train a chain model; arguments as for :class:`nnet3py.drivers.training.Training`."""
    (LanguagesTraining if options.languages else ChainTraining)(options, executor, terminal).run()
