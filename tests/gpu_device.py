"""Lets tests that compute whole networks do it on the GPU: a pytest plugin that gives the GPU to who asks for the CPU.

``pytest -p gpu_device tests/test_computer.py`` runs them there; with ``NUMBA_ENABLE_CUDASIM=1`` in numba's simulator.
What a trainer has changed is brought to the host after each minibatch, since tests look at it.
"""
from __future__ import annotations

from typing import Any

import nnet3py.ops
from nnet3py.ops import device


def pytest_configure(config: Any) -> None:
    """Whoever asks for the operations of the CPU gets those of the GPU."""
    get_ops = nnet3py.ops.get_ops
    nnet3py.ops.get_ops = lambda name="cpu": get_ops("cuda")      # type: ignore[assignment]
    from nnet3py.training.trainer import MinibatchTrainer  # after that, for it takes the function by name

    train = MinibatchTrainer.train

    def train_and_show(trainer: MinibatchTrainer, eg: Any) -> None:
        train(trainer, eg)
        trainer.synchronise()

    MinibatchTrainer.train = train_and_show      # type: ignore[method-assign]
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")   # the simulator's arithmetic is numpy's
    if device.is_simulated():
        import contextlib

        from nnet3py.ops.cuda import launch, products
        products._tiled = products.tiled_product(1, 8, 8)       # the simulator makes a thread of Python's of each
        config.stack = contextlib.ExitStack()
        config.stack.enter_context(launch.forced_launch((1, 1), (1, 1)))
