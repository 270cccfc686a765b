"""What Kaldi's training scripts do: folders of examples, jobs, schedules, training from start to final model.

The drivers and their options are here by name, and loaded when they are first used::

    from nnet3py.drivers import RawDnnOptions, train_raw_dnn

    train_raw_dnn(RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0))

Steps are bash command lines with Kaldi's program names, run by an executor
(``jobs/``): ``executor.py``: ``Job(command, log)``; ``Executor.run(jobs)`` waits for all and raises ``JobsFailed``
(which names the log and shows its last lines), ``Executor.start(jobs) -> Started`` for diagnostics in the background
(``wait()``), ``close()``; ``make_executor(cmd, scheduler)`` chooses local processes, ``dask.distributed`` or a
``queue.pl``-like command. Jobs that run side by side share the cores: each is told its number of threads by
``NNET3PY_NUM_THREADS``, which all commands obey unless ``--num-threads`` says otherwise. A job's log begins and ends
with Kaldi's ``#`` lines. Jobs end with the driver, however it ends: each is a process group that a watcher
(``watcher.py``, a process of its own) ends when its pipe from the driver closes. ``bin/`` is put in front on their
PATH. Folders of examples (``egs/``): ``egs_folder.py``: ``EgsFolder(path)`` reads and checks ``info/``, ``verify(…)``
compares with a network, ``remove()`` deletes the archives. ``data_folder.py``, ``ali_folder.py``: Kaldi's data
directories and alignment folders, checked. ``make_egs.py`` (``make_egs``, ``make_target_egs``) and
``make_chain_egs.py`` make folders of examples; ``maker.py`` has the steps that they share, ``parts.py`` the choice of
held-out utterances, lists, archives and feature pipes, ``steps.py`` the marks of complete steps (``.steps/``).
Training: ``schedules.py``: numbers of jobs, learning rates, dropout, which models to combine. A driver may be killed
and started again at any moment: each step writes under temporary names, and what is complete is not done again.
``options.py``: dataclasses whose fields know their option on the command line (``cli/drivers/train.py`` makes options
of them). ``training.py``: ``Training(options, executor, terminal).run()`` is the loop that all drivers share: stages
before and after the iterations (``Stage(number, title, run, products)``), iterations, where to begin, cleaning up. A
kind of training is a subclass that names its ``models`` (``ModelFiles``: suffix, programs), its ``commands_class``
(``commands.py``: every job's command line, what differs being a method or an attribute to override), its stages and
its report; ``frame_level.py`` has the four of frames and chunks, ``chain_training.py``, ``chain_commands.py`` and
``chain_options.py`` that of chain models, ``chain_languages.py`` that of several languages at once; ``flat_start.py``
prepares one without alignments; ``egs/combine.py`` makes one folder of several.
``folder.py``: models, the lock, and ``driver_options.json``, the options
that the models depend on: with others a training is not continued unless ``--stage`` is given. ``diagnostics.py``:
what runs beside the training, the monitor (``Diagnostics.finish``, once an iteration's diagnostics are known) and the
report of accuracies; ``display.py``: the line of an iteration.
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
