"""Drivers: Kaldi's training scripts as resumable Python programs that run jobs with Kaldi's command lines.

    from nnet3py.drivers import RawDnnOptions, train_raw_dnn

    train_raw_dnn(RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0))

The most important names: ``Training`` (``training.py``), the loop of stages and iterations that all training drivers
share, whose subclasses are in ``frame_level.py`` and ``chain_training.py``; ``StagedWork`` (``staged.py``), the same
for trees, i-vectors and discriminative training; ``Executor`` (``executor.py``), which runs jobs in local processes, on
dask workers or by a command such as queue.pl. ``commands.py`` has the command line of every job, ``schedules.py``
numbers of jobs, learning rates and dropout, ``options.py`` and ``staged_options.py`` the options, ``data_folder.py``
Kaldi's data folders and their parts for jobs, ``make_egs.py``, ``make_chain_egs.py`` and ``egs_folder.py`` folders of
examples.

A driver may be killed and started again at any moment: each job writes under temporary names, and complete work is not
done again. Jobs at the same time share the cores by ``NNET3PY_NUM_THREADS``, and end with the driver (``watcher.py``).
Commands' options are made of the option classes (``cli/drivers/train.py``), which therefore import no numpy.

The package must not import ``cli`` or ``fine_tuning``. Workflow engines (Snakemake, Luigi, doit) would replace
``staged.py`` and the marks of steps, about 300 lines, but neither iterations, averaging and diagnostics of a training
nor run.pl's logs, on which Kaldi's scripts rely; dask is used where jobs go to other machines.
"""
from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "train_dnn": "frame_level", "train_rnn": "frame_level", "train_raw_dnn": "frame_level",
    "train_raw_rnn": "frame_level",
    "DnnOptions": "options", "RnnOptions": "options", "RawDnnOptions": "options", "RawRnnOptions": "options",
}


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'nnet3py.drivers' has no attribute {name!r}")
    return getattr(import_module(f"nnet3py.drivers.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
