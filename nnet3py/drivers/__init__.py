"""What Kaldi's training scripts do: folders of examples, jobs, schedules, training from start to final model.

The drivers and their options are here by name, and loaded when they are first used::

    from nnet3py.drivers import RawDnnOptions, train_raw_dnn

    train_raw_dnn(RawDnnOptions(dir="exp/tdnn", egs_dir="exp/egs", num_epochs=2.0))
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
